"""The command with tables: a map, predictions at places, and numbers of examples."""

import ast
import json
import shutil
import types

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from cli_support import command, refused, write_recipe
from matplotlib import cbook
from test_readme import README, TEXTS, blocks, run_page

from tfpn import recipes, training

PNG = b"\x89PNG\r\n\x1a\n"
HEIGHTS = recipes.models_folder() / "spot-heights" / "heights.csv"


@pytest.fixture(scope="module")
def mapped(tmp_path_factory, all_eagerly):
    """The map of heights: the run's folder, the command's result and its NetCDF file."""
    folder = tmp_path_factory.mktemp("runs") / "heights"
    outcome = command("train", "spot-heights", "--output", folder)
    assert outcome.status == 0, outcome.err
    result = json.loads(outcome.out.splitlines()[-1])
    field = xr.load_dataset(folder / "map.nc", engine="scipy")
    return types.SimpleNamespace(folder=folder, result=result, field=field)


def truth(field):
    """The grid of heights that the table is a sample of, at the points of a map."""
    dem = cbook.get_sample_data("jacksboro_fault_dem.npz")
    heights = xr.DataArray(
        dem["elevation"].astype(float),
        coords={
            "latitude": dem["ymin"] - dem["dy"] * np.arange(len(dem["elevation"])),
            "longitude": dem["xmin"] + dem["dx"] * np.arange(dem["elevation"].shape[1]),
        },
        dims=("latitude", "longitude"),
    )
    return heights.interp(latitude=field["latitude"], longitude=field["longitude"])


def test_a_table_becomes_a_map_with_standard_deviations(mapped):
    assert (mapped.folder / "map.png").read_bytes().startswith(PNG)
    field = mapped.field
    assert dict(field.sizes) == {"longitude": 100, "latitude": 100}
    assert set(field.data_vars) == {"height", "height_std"}
    error = (field["height"] - truth(field)).values
    error, std = error[np.isfinite(error)], field["height_std"].values[np.isfinite(error)]
    # What was not in the table: half as far off as its mean, and covered by the band.
    assert np.sqrt(np.mean(error**2)) < 0.6 * pd.read_csv(HEIGHTS)["height"].std()
    assert 0.9 < np.mean(np.abs(error) < 1.96 * std) < 0.99
    assert mapped.result["epochs"] == 0 and 0.8 < mapped.result["test_coverage_95"] <= 1.0


def test_ten_lines_of_python_make_the_same_map(mapped, tmp_path, monkeypatch, all_eagerly):
    """Within a quarter of a standard deviation: the command's prior is fitted to fewer places.

    They begin the page of fields, whose other programs go on from them.
    """
    code = next(block for block in blocks(README) if "read_csv" in block)
    assert blocks(TEXTS["fields.md"])[0] == code
    statements = [node for node in ast.parse(code).body if not isinstance(node, ast.Import)]
    assert len(statements) == 10
    run_page("fields.md", tmp_path, monkeypatch)
    assert (tmp_path / "map.png").read_bytes().startswith(PNG)
    field = xr.load_dataset(tmp_path / "map.nc", engine="scipy")
    assert set(field.data_vars) == {"height", "height_std"}
    expected = mapped.field.interp(longitude=field["longitude"], latitude=field["latitude"])
    difference = np.abs(field["height"] - expected["height"]) / expected["height_std"]
    assert float(difference.median()) < 0.25


def test_a_table_that_has_changed_is_noticed(mapped, tmp_path):
    """What is left out follows from the rows, so that others may have been learnt from."""
    run = tmp_path / "run"
    shutil.copytree(mapped.folder, run)
    rows = HEIGHTS.read_text().splitlines(keepends=True)
    (tmp_path / "heights.csv").write_text("".join(rows[:-1]))
    recipe = recipes.load(run / "recipe.toml")
    for path, changed in ((HEIGHTS, False), (tmp_path / "heights.csv", True)):
        recipe.sections["data"]["file"] = str(path)
        data = recipes.load_data(recipes.resolve(recipe))
        assert training.is_other_table(run, data) == changed
    recipe = tmp_path / "run" / "recipe.toml"
    text = recipe.read_text().replace(str(HEIGHTS.resolve()), str(tmp_path / "heights.csv"))
    recipe.write_text(text)
    outcome = command("train", "--resume", "--output", run)
    refused(outcome, f"the table {tmp_path / 'heights.csv'} has changed since the run began")
    (run / "table.json").write_text("{")
    refused(command("train", "--resume", "--output", run), "table.json is damaged")
    (run / "table.json").unlink()  # of a data set that is no table
    assert not training.is_other_table(run, data)


def test_evaluate_measures_places_that_were_left_out(mapped, tmp_path):
    outcome = command("evaluate", mapped.folder, "--output", tmp_path / "found.json")
    assert "has changed" not in outcome.err
    assert outcome.status == 0, outcome.err
    found = json.loads(outcome.out)
    assert found == json.loads((tmp_path / "found.json").read_text())
    assert found["targets"] == 44 and found["split"] == "test"
    for key in ("rmse", "mae", "nll", "crps", "coverage_95"):
        assert found[key] == pytest.approx(mapped.result[f"test_{key}"])
    assert found["rmse"] >= found["mae"] >= found["crps"] > 0.0
    refused(command("evaluate", mapped.folder, "--table", tmp_path / "t.csv"), "a field has no")


@pytest.mark.parametrize(
    "option", [("--channel", 1), ("--channels", 3), ("--examples", 2), ("--resolution", 9)]
)
def test_figures_refuse_options_of_feature_maps(mapped, option, tmp_path):
    outcome = command("figures", mapped.folder, "--output", tmp_path / "new.png", *option)
    refused(outcome, f"{option[0]} is for the feature maps of a classifier")


def test_figures_draws_a_map_under_the_name_that_is_given(mapped, tmp_path):
    outcome = command("figures", mapped.folder, "--output", tmp_path / "new.png")
    assert outcome.status == 0, outcome.err
    names = {"new.png", "new.nc", "qq.png"}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert set(outcome.out.split()) == {str(tmp_path / name) for name in names}
    field = xr.load_dataset(tmp_path / "new.nc", engine="scipy")
    np.testing.assert_allclose(field["height"], mapped.field["height"], rtol=1e-4)
    for name, said in (
        ("qq.png", "--output and qq.png name the same file"),
        ("new.nc", "--output and its NetCDF name the same file"),
        ("curves.png", "curves.png and --output name the same file"),
    ):
        refused(command("figures", mapped.folder, "--output", tmp_path / name), said)


def test_predict_at_the_places_of_a_table(mapped, tmp_path):
    asked = pd.DataFrame(
        {"longitude": [-84.2, -84.300000001], "latitude": [36.5, 36.6], "note": ["a", ""]}
    )
    asked.to_parquet(tmp_path / "places.parquet")
    outcome = command("predict", mapped.folder, tmp_path / "places.parquet")
    lines = outcome.out.splitlines()
    assert lines[0] == "longitude,latitude,height,height_std" and len(lines) == 3
    assert lines[2].startswith("-84.300000001,36.6,")  # a key of the asker's tables
    outcome = command(
        *("predict", mapped.folder, tmp_path / "places.parquet"),
        *("--output", tmp_path / "found.parquet"),
    )
    assert outcome.status == 0, outcome.err
    found = pd.read_parquet(tmp_path / "found.parquet")
    np.testing.assert_allclose(np.loadtxt(lines[1:], delimiter=","), found, rtol=1e-6)
    near = mapped.field.interp(
        longitude=xr.DataArray(asked["longitude"]), latitude=xr.DataArray(asked["latitude"])
    )
    np.testing.assert_allclose(found["height"], near["height"], atol=5.0)  # a grid of 330 m
    np.testing.assert_allclose(found["height_std"], near["height_std"], rtol=0.05)


def test_predict_on_a_grid_from_other_readings(mapped, tmp_path):
    few = pd.read_csv(HEIGHTS)[:40]
    few.to_csv(tmp_path / "few.csv", index=False)
    for name in ("map.nc", "map.png", "map.csv"):
        outcome = command(
            *("predict", mapped.folder, "--readings", tmp_path / "few.csv"),
            *("--resolution", "8", "--output", tmp_path / name),
        )
        assert outcome.status == 0, outcome.err
    field = xr.load_dataset(tmp_path / "map.nc", engine="scipy")
    assert dict(field.sizes) == {"longitude": 8, "latitude": 8}
    assert float(field["height_std"].mean()) > float(mapped.field["height_std"].mean())
    assert (tmp_path / "map.png").read_bytes().startswith(PNG)
    table = pd.read_csv(tmp_path / "map.csv")
    np.testing.assert_allclose(table["height"], field["height"].values.ravel(), rtol=1e-6)
    # A table of the same places makes the same map.
    places = table[["longitude", "latitude"]].sample(frac=1.0, random_state=0)
    places.to_parquet(tmp_path / "places.parquet")
    for name in ("again.nc", "again.png"):
        outcome = command(
            *("predict", mapped.folder, tmp_path / "places.parquet"),
            *("--readings", tmp_path / "few.csv", "--output", tmp_path / name),
        )
        assert outcome.status == 0, outcome.err
    again = xr.load_dataset(tmp_path / "again.nc", engine="scipy")
    np.testing.assert_allclose(again["height"], field["height"], rtol=1e-3)
    assert (tmp_path / "again.png").read_bytes().startswith(PNG)


def test_what_predict_cannot_do_is_one_line(mapped, tmp_path):
    pd.DataFrame({"longitude": [1.0]}).to_csv(tmp_path / "places.csv", index=False)
    for arguments, said in (
        ([tmp_path / "places.csv"], "no column 'latitude'; the table has ['longitude']"),
        ([tmp_path / "no.csv"], "there is no such file"),
        (
            [tmp_path / "places.csv", "--output", tmp_path / "a.txt"],
            "ending in .csv or .parquet or .png",
        ),
        ([tmp_path / "places.csv", "--resolution", "5"], "--resolution works without a table"),
        (["--resolution", "1"], "--resolution: found 1; give at least 2"),
        (["--readings", tmp_path / "places.csv"], "no column 'latitude'"),
    ):
        refused(command("predict", mapped.folder, *arguments), said)
    refused(command("predict", "digits"), "this model takes an .npz file")


def test_the_search_is_for_classifiers(tmp_path):
    outcome = command("tune", "spot-heights", "--output", tmp_path / "tune")
    refused(outcome, "[data] table: found the task field; the search works for classifiers only")


def test_a_run_on_several_values_prints_the_figures_of_each(tmp_path, all_eagerly):
    x = np.arange(12.0)
    frame = pd.DataFrame({"x": x, "warmth": np.sin(x / 3), "rain": 1000.0 + 100.0 * np.cos(x / 3)})
    frame.to_csv(tmp_path / "own.csv", index=False)
    recipe = write_recipe(*(tmp_path, "own.csv", 'points = ["x"]', 'values = ["warmth", "rain"]'))
    run = tmp_path / "run"
    outcome = command("train", recipe, "--output", run)
    assert outcome.status == 0, outcome.err
    printed = json.loads(outcome.out.splitlines()[-1])
    kept = json.loads((run / "result.json").read_text())
    measured = json.loads(command("evaluate", run).out)
    for part in ("test", "validation"):
        assert set(printed[f"{part}_by_target"]) == {"warmth", "rain"}
        assert f"{part}_rmse" not in printed and f"{part}_coverage_95" in printed
        assert kept[f"{part}_rmse"] > printed[f"{part}_by_target"]["warmth"]["rmse"]
    assert printed.items() <= kept.items()
    for name, figures in measured["by_target"].items():
        assert printed["test_by_target"][name] == pytest.approx(figures)


def test_regression_is_trained_measured_and_predicted(tmp_path, all_eagerly):
    rng = np.random.default_rng(0)
    rows = [
        {"who": f"p{k}", "hour": t, "pulse": k + rng.normal(), "age": 10.0 * k}
        for k in range(12)
        for t in range(5)
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "own.csv", index=False)
    recipe = write_recipe(
        *(tmp_path, "own.csv", 'example = "who"', 'time = "hour"', 'values = ["pulse"]'),
        *('targets = ["age"]', "validation_fraction = 0.3"),
        model=["pooling = [0.0, 4.0]"],
        training=["epochs = 1"],
    )
    run = tmp_path / "run"
    outcome = command("train", recipe, "--output", run)
    assert outcome.status == 0, outcome.err
    result = json.loads(outcome.out.splitlines()[-1])
    assert result["epochs"] == 1 and result["test_rmse"] > 0.0
    assert (run / "qq.png").exists() and (run / "curves.png").exists()
    evaluated = json.loads(command("evaluate", run).out)
    assert evaluated["crps"] == pytest.approx(result["test_crps"])
    pd.DataFrame(rows).drop(columns="age").to_csv(tmp_path / "new.csv", index=False)
    outcome = command("predict", run, tmp_path / "new.csv")
    found = pd.read_csv(tmp_path / "new.csv").drop_duplicates("who")["who"]
    lines = [line.split(",") for line in outcome.out.splitlines()]
    assert lines[0] == ["who", "age", "age_std"]
    assert [line[0] for line in lines[1:]] == found.tolist()
    assert all(float(line[2]) > 0.0 for line in lines[1:])
    refused(command("predict", run), "give the table of the examples")
    png = ("--output", tmp_path / "found.png")
    refused(command("predict", run, tmp_path / "new.csv", *png), "ending in .csv or .parquet")
    unwise = command("train", recipe, "--epochs", "0", "--output", tmp_path / "other")
    refused(unwise, "training.epochs: found 0; give at least 1: only a field")


def test_classes_are_trained_measured_and_predicted_by_name(tmp_path, all_eagerly):
    rng = np.random.default_rng(0)
    rows = [
        {
            "who": f"p{k}",
            "hour": t,
            "pulse": (k % 2) * t + rng.normal(),
            "kind": ("bird", "fish")[k % 2],
        }
        for k in range(20)
        for t in range(4)
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "own.csv", index=False)
    recipe = write_recipe(
        *(tmp_path, "own.csv", 'example = "who"', 'time = "hour"', 'values = ["pulse"]'),
        'labels = "kind"',
        training=["epochs = 1"],
    )
    run = tmp_path / "run"
    outcome = command("train", recipe, "--output", run)
    assert outcome.status == 0, outcome.err
    kept = recipes.load(run / "recipe.toml").sections
    assert kept["data"]["classes"] == ["bird", "fish"] and kept["model"]["num_classes"] == 2
    found = json.loads(command("evaluate", run).out)
    assert found["examples"] == 4 and {"accuracy", "nll", "ece"} <= set(found)
    new = pd.DataFrame(rows).drop(columns="kind")[::-1]
    new.to_csv(tmp_path / "new.csv", index=False)
    outcome = command("predict", run, tmp_path / "new.csv", "--output", tmp_path / "found.csv")
    assert outcome.status == 0 and "has changed" not in outcome.err, outcome.err
    found = pd.read_csv(tmp_path / "found.csv")
    assert list(found) == ["who", "kind", "probability_bird", "probability_fish"]
    assert found["who"].tolist() == new.drop_duplicates("who")["who"].tolist()
    probable = found[["probability_bird", "probability_fish"]].idxmax(axis=1)
    assert ("probability_" + found["kind"] == probable).all()
    np.testing.assert_allclose(found.filter(like="prob").sum(axis=1), 1.0, atol=1e-6)
    # The probabilities are those that the run was measured by.
    data = recipes.load_data(recipes.load(run / "recipe.toml"))
    model, _ = training.load_run(run)
    first = found[found["who"] == data.readings.examples[0]].filter(like="prob")
    x = {key: array[:1] for key, array in data.readings.observed().items()}
    np.testing.assert_allclose(first, training.class_probabilities(model, x), rtol=1e-4)
    other = command("train", recipe, "--set", "model.num_classes=3", "--output", tmp_path / "other")
    refused(other, "model.num_classes: found 3, but the data set table has 2 classes; give 2")
    np.savez(tmp_path / "new.npz", points=[[[0.0]]], values=[[[0.0]]])
    refused(command("predict", run, tmp_path / "new.npz"), "takes a .csv or .parquet table")
    pd.DataFrame(rows[4:]).to_csv(tmp_path / "own.csv", index=False)
    assert "the table has changed" in command("predict", run, tmp_path / "new.csv").err


def test_wrong_tables_and_recipes_are_one_line(tmp_path):
    pd.DataFrame({"x": [0.0, 1.0, 2.0], "y": [1.0, 1.0, "?"]}).to_csv(tmp_path / "t.csv")
    points, values = 'points = ["x"]', 'values = ["y"]'
    for table, lines, options, said in (
        ("t.csv", [points, values], {}, "[data] table: column 'y' holds '?' in row 3"),
        ("t.csv", [points, 'values = ["z"]'], {}, "[data] table: no column 'z'"),
        ("u.csv", [points, values], {}, "u.csv: there is no such file"),
        ("t.csv", [points], {}, "[data] table needs values; set data.values"),
        ("t.csv", [points, values, 'pionts = ["x"]'], {}, "did you mean 'points'?"),
    ):
        recipe = write_recipe(tmp_path, table, *lines, **options)
        refused(command("train", recipe, "--output", tmp_path / "run"), said)
    assert not (tmp_path / "run").exists()


def test_two_readings_at_each_of_few_places_make_a_series(tmp_path, all_eagerly):
    hours = np.repeat(np.arange(8.0), 2)
    frame = pd.DataFrame({"hour": hours, "load": np.sin(hours) + 0.1 * (np.arange(16) % 2)})
    frame["hour"] = pd.Timestamp("2024-06-01T12:00Z") + pd.to_timedelta(hours, unit="h")
    frame.to_csv(tmp_path / "own.csv", index=False)
    recipe = write_recipe(
        *(tmp_path, "own.csv", 'time = "hour"', 'values = ["load"]'),
        *("test_fraction = 0.0", "validation_fraction = 0.0"),
    )
    outcome = command("train", recipe, "--output", tmp_path / "run")
    assert outcome.status == 0, outcome.err
    assert not any("test" in key for key in json.loads(outcome.out.splitlines()[-1]))
    found = xr.load_dataset(tmp_path / "run" / "series.nc", engine="scipy")
    assert found["load_std"].shape == (400,) and bool((found["load_std"] > 0.0).all())
    outcome = command("predict", tmp_path / "run", "--resolution", "3")
    stamps = [line.split(",")[0] for line in outcome.out.splitlines()]
    assert stamps[2] == "2024-06-01 15:30:00+00:00"  # the middle of the series
    ends = found["hour"].values[[0, -1]]  # as NetCDF's conventions read them
    assert abs(np.mean(ends.astype("datetime64[s]").astype(float)) - 1717255800.0) < 1.0
    assert (tmp_path / "run" / "series.png").read_bytes().startswith(PNG)
