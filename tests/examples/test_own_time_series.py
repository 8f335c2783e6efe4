"""The example for one's own time series: from CSV files to predictions, and what it refuses."""

import csv
import runpy
from pathlib import Path

import keras
import numpy as np
import pytest

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "own_time_series.py"))


@pytest.fixture
def files(tmp_path):
    """Readings and outcomes of 24 records, the last without readings, one time read twice."""
    series, outcomes = EXAMPLE["make_up"](24)
    del series["p023"]
    series["p000"].append((series["p000"][0][0], "pulse", 100.0))
    rows = [(name, *reading) for name, readings in series.items() for reading in readings]
    paths = tmp_path / "series.csv", tmp_path / "outcomes.csv"
    for path, header, table in zip(
        paths,
        (("id", "time", "variable", "value"), ("id", "outcome")),
        (rows, outcomes.items()),
        strict=True,
    ):
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows([header, *table])
    return paths


def run(files, *options):
    series, outcomes = map(str, files)
    return EXAMPLE["main"](["--series", series, "--outcomes", outcomes, *options])


def test_files_to_predictions(files, tmp_path, eagerly):
    figures = run(files, "--epochs", "1", "--output", str(tmp_path / "out"))
    assert figures["examples"] == 6
    with open(tmp_path / "out" / "predictions.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    for row in rows:
        chances = [float(row[f"probability_{name}"]) for name in ("ill", "well")]
        assert sum(chances) == pytest.approx(1.0, abs=1e-3)
        assert row["predicted"] == ("ill", "well")[int(np.argmax(chances))]
        assert float(row["logit_std_ill"]) > 0
    assert (tmp_path / "out" / "fits.png").read_bytes().startswith(b"\x89PNG")
    assert (
        keras.models.load_model(tmp_path / "out" / "model.keras").get_config()["in_channels"] == 3
    )


def test_numbers_are_predicted_in_their_own_unit(files, tmp_path, eagerly, capsys):
    numbers = {f"p{n:03d}": 5000 + 10 * n for n in range(24)}
    with open(files[1], "w", newline="") as file:
        csv.writer(file).writerows([("id", "outcome"), *numbers.items()])
    figures = run(files, "--epochs", "1", "--output", str(tmp_path / "out"))
    assert "24 different numbers: regression (or give --task class" in capsys.readouterr().out
    with open(tmp_path / "out" / "predictions.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    outcome, predicted, std = (
        np.array([float(row[key]) for row in rows]) for key in ("outcome", "predicted", "std")
    )
    assert [numbers[row["id"]] for row in rows] == outcome.tolist() and len(rows) == 6
    # After one step it is as wrong as the outcomes spread, by 70, and says so.
    assert np.all(np.abs(predicted - 5115) < 300)
    assert np.all((std > 7) & (std < 700))
    rmse = np.sqrt(np.mean((outcome - predicted) ** 2))
    assert figures["rmse"] == pytest.approx(rmse, rel=1e-4)  # six digits are written


@pytest.mark.parametrize(
    "outcomes, wanted, task",
    [
        (["ill", "well"], None, "classification"),
        (["0", "1", "1"], None, "classification"),
        (["0", "1", "1"], "regression", "regression"),
        ([f"{n}.5" for n in range(11)], None, "regression"),
        ([f"{n}.5" for n in range(11)], "classification", "classification"),
        (["1", "ill"], "classification", "classification"),
        (["1", "ill"], None, "the outcome of 'p1' is 'ill', which is no number: drop it"),
        (["1", "nan"], "regression", "the outcome of 'p1' is 'nan', which is no number: drop it"),
    ],
)
def test_the_task_is_read_from_the_outcomes(outcomes, wanted, task):
    outcomes = {f"p{n}": outcome for n, outcome in enumerate(outcomes)}
    if task.endswith("ion"):
        assert EXAMPLE["read_task"](outcomes, wanted) == task
    else:
        with pytest.raises(SystemExit, match=task):
            EXAMPLE["read_task"](outcomes, wanted)


def test_units_of_readings_do_not_matter(files, tmp_path, eagerly):
    """Where float32 has no squares of the readings, either."""
    first = run(files, "--epochs", "1", "--output", str(tmp_path / "one"))
    rows = list(csv.reader(files[0].open(newline="")))
    with files[0].open("w", newline="") as file:
        csv.writer(file).writerows(
            [rows[0], *([*row[:3], float(row[3]) * 1e25] for row in rows[1:])]
        )
    second = run(files, "--epochs", "1", "--output", str(tmp_path / "other"))
    assert second["nll"] == pytest.approx(first["nll"], rel=1e-3)  # three digits are printed


def test_readings_of_one_time_are_averaged():
    records = {"a": [(2.0, "x", 1.0), (1.0, "y", 5.0), (2.0, "x", 3.0)]}
    x = EXAMPLE["arrays"](records, ["a", "b"], ["x", "y"])
    np.testing.assert_array_equal(x["points"][0, :, 0], [1.0, 2.0])
    np.testing.assert_array_equal(x["values"][0], [[0.0, 5.0], [2.0, 0.0]])
    np.testing.assert_array_equal(np.isfinite(x["variance"][0]), [[False, True], [True, False]])
    assert np.all(np.isinf(x["variance"][1]))


@pytest.mark.parametrize(
    "which, old, new, message",
    [
        (0, "id,time", "id,hour", r"series.csv: found the columns .*, time missing"),
        (0, "p001,", "p001,late", r"series.csv, line \d+: time is 'late.*give a number"),
        (0, ",pulse,", ",,", r"series.csv, line 2: variable is empty"),
        (1, "p003,", "p002,", r"outcomes.csv, line 5: a second outcome of 'p002'"),
        (1, "p003,", "q003,", r"no outcome for 1 records of the series, such as 'p003'"),
        (1, "well", "ill", r"all outcomes are 'ill'"),
    ],
)
def test_malformed_files_are_named(files, which, old, new, message):
    text = files[which].read_text()
    count = -1 if old == "well" else 1
    files[which].write_text(text.replace(old, new, count))
    with pytest.raises(SystemExit, match=message):
        run(files)


def test_files_that_are_not_there(files, tmp_path):
    with pytest.raises(SystemExit, match="cannot read .*none.csv"):
        run((tmp_path / "none.csv", files[1]))
    with pytest.raises(SystemExit, match="give --series and --outcomes, or neither"):
        EXAMPLE["main"](["--series", "x"])
    files[1].write_text("id,outcome\n")
    with pytest.raises(SystemExit, match="outcomes.csv has no rows"):
        run(files)


def many_variables(tmp_path):
    """Epoch seconds on different days, seven variables."""
    rng = np.random.default_rng(0)
    rows = [
        (f"m{record}", 1.7e9 + 86400.0 * record + 60.0 * minute, f"v{variable}", rng.normal())
        for record in range(16)
        for variable in range(7)
        for minute in rng.integers(600, size=4)
    ]
    outcomes = [(f"m{record}", "ab"[record % 2]) for record in range(16)]
    paths = tmp_path / "series.csv", tmp_path / "outcomes.csv"
    headers = ("id", "time", "variable", "value"), ("id", "outcome")
    for path, header, table in zip(paths, headers, (rows, outcomes), strict=True):
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows([header, *table])
    return paths


def test_many_variables_and_records_without_a_common_clock(tmp_path, eagerly, capsys):
    files = many_variables(tmp_path)
    with pytest.raises(SystemExit, match="same in float32.*give --from-start.*or, if all share"):
        run(files)
    options = "--epochs", "1", "--output", str(tmp_path / "out")
    run(files, *options, "--from-start")
    assert (tmp_path / "out" / "fits.png").read_bytes().startswith(b"\x89PNG")
    model = keras.models.load_model(tmp_path / "out" / "model.keras")
    assert model.get_config()["in_channels"] == 7
    start, end = model.get_config()["pooling"]
    assert start == 0.0 and end < 36000.0
    assert "give --from-start" not in capsys.readouterr().out


def test_a_stretch_far_longer_than_the_records_is_spoken_of(files, tmp_path, eagerly, capsys):
    run(files, "--epochs", "1", "--output", str(tmp_path / "out"), "--box", "0", "4800")
    assert "4800 long, a typical record 4" in capsys.readouterr().out


@pytest.mark.parametrize("box", [("5", "0"), ("1", "1"), ("0", "inf"), ("nan", "1")])
def test_a_box_without_length(files, box):
    with pytest.raises(SystemExit, match="--box is .*give START before END"):
        run(files, "--box", *box)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_predicts_for_records_without_outcome(files, tmp_path, eagerly, capsys, task):
    if task == "regression":
        numbers = {f"p{n:03d}": 5000 + 10 * n for n in range(24)}
        with open(files[1], "w", newline="") as file:
            csv.writer(file).writerows([("id", "outcome"), *numbers.items()])
    trained, new = tmp_path / "trained", tmp_path / "new"
    run(files, "--epochs", "1", "--output", str(trained), "--task", task, "--from-start")
    arguments = ["--model", str(trained), "--output", str(new), "--series"]
    EXAMPLE["main"]([*arguments, str(files[0])])
    with open(new / "predictions.csv", newline="") as file:
        found = {row["id"]: row for row in csv.DictReader(file)}
    assert len(found) == 23  # one has no readings
    with open(trained / "predictions.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows
    for row in rows:
        if row["id"] not in found:
            continue
        assert found[row["id"]].pop("outcome") == "" and row.pop("outcome")
        for key, text in row.items():
            wanted = text if key == "id" or text.isalpha() else pytest.approx(float(text), rel=1e-4)
            got = found[row["id"]][key]
            assert (got if isinstance(wanted, str) else float(got)) == wanted
    assert (new / "fits.png").read_bytes().startswith(b"\x89PNG")

    later = tmp_path / "later.csv"
    later.write_text("id,time,variable,value\nq,0,pulse,80\nq,1000,pulse,90\n")
    EXAMPLE["main"]([*arguments, str(later)])
    assert "50.0% of the times lie outside 0 to" in capsys.readouterr().out
    later.write_text("id,time,variable,value\nq,0,height,180\n")
    with pytest.raises(SystemExit, match="readings of 'height', which the model does not know"):
        EXAMPLE["main"]([*arguments, str(later)])
    with pytest.raises(SystemExit, match="--model .*give the --output of a training run"):
        EXAMPLE["main"](["--model", str(tmp_path / "no"), "--series", str(later)])
    with pytest.raises(SystemExit, match="--model predicts: give --series"):
        EXAMPLE["main"](["--model", str(trained)])
