"""The subcommands that use a trained run."""

import csv
import io
import json
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
from cli_support import command, refused


@pytest.fixture(scope="module")
def evaluated(trained):
    """The figures that the command prints of the run."""
    outcome = command("evaluate", trained.folder)
    assert outcome.status == 0, outcome.err
    (line,) = outcome.out.splitlines()
    return json.loads(line)


def test_evaluate_agrees_with_training(trained, evaluated):
    figures = evaluated
    assert figures["split"] == "test" and figures["recipe"] == "digits"
    for key in ("accuracy", "error", "nll", "brier", "ece"):
        assert figures[key] == pytest.approx(trained.result[f"test_{key}"], rel=1e-5)
    assert figures["examples"] == 359 and 0 < figures["adaptive_ece"] < 0.5


def test_evaluate_writes_files_where_asked(trained, tmp_path):
    path, table = tmp_path / "result.json", tmp_path / "bins.csv"
    outcome = command(
        *("evaluate", trained.folder, "--bins", "4", "--output", path, "--table", table)
    )
    assert outcome.status == 0, outcome.err
    assert path.read_text() == outcome.out
    with open(table, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["low"] for row in rows] == ["0", "0.25", "0.5", "0.75"]
    counts = [int(row["examples"]) for row in rows]
    assert sum(counts) == 359
    # Ten classes: no confidence is below 0.1, but a bin may be empty.
    gaps = [
        count * abs(float(row["accuracy"]) - float(row["confidence"])) if count else 0.0
        for count, row in zip(counts, rows, strict=True)
    ]
    assert sum(gaps) / 359 == pytest.approx(json.loads(outcome.out)["ece"], abs=1e-5)


@pytest.fixture
def residuals(tmp_path):
    path = tmp_path / "residuals.npz"
    np.savez(path, residuals=[[1.0, -3.0]], standard_deviations=[[1.0, 1.0]])
    return path


def test_evaluate_residuals(residuals, tmp_path):
    outcome = command("evaluate", "--residuals", residuals, "--output", tmp_path / "out.json")
    assert outcome.status == 0, outcome.err
    figures = json.loads(outcome.out)
    assert figures == json.loads((tmp_path / "out.json").read_text())
    assert figures["spread"] == pytest.approx(np.sqrt(5)) and figures["coverage_95"] == 0.5


def test_figures_of_residuals(residuals, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for options, name in (([], "qq.png"), (["--output", "other.png"], "other.png")):
        outcome = command("figures", "--residuals", residuals, *options)
        assert outcome.status == 0 and outcome.out.split() == [name], outcome.err
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["evaluate", "figures"])
def test_unusable_residuals_are_named(name, trained, residuals, tmp_path):
    refused(command(name), "RUN or --residuals")
    refused(command(name, trained.folder, "--residuals", residuals), "RUN or --residuals")
    refused(command(name, "--residuals", tmp_path / "none.npz"), "cannot read", "none.npz")
    path = tmp_path / "wrong.npz"
    np.savez(path, residuals=[1.0])
    refused(command(name, "--residuals", path), str(path), "it needs residuals and standard_dev")
    np.savez(path, residuals=[1.0], standard_deviations=[0.0])
    refused(command(name, "--residuals", path), str(path), "must be finite and positive, found 0.0")
    refused(command(name, "--residuals", residuals, "--bins", "0"), "--bins: found 0")


def test_evaluate_names_the_file_it_cannot_write(residuals, tmp_path):
    missing = tmp_path / "missing" / "x"
    for option in ("--output", "--table"):
        outcome = command("evaluate", tmp_path, option, missing)
        refused(outcome, f"{option}: found {missing}", "no folder", "make it")
    refused(command("evaluate", "--residuals", residuals, "--output", tmp_path), "cannot write")
    outcome = command("evaluate", "--residuals", residuals, "--table", tmp_path / "x.csv")
    refused(outcome, "--table: residuals")


def test_evaluate_validation_from_the_model_file(trained):
    outcome = command("evaluate", trained.folder / "model.keras", "--split", "validation")
    assert outcome.status == 0, outcome.err
    figures = json.loads(outcome.out)
    assert figures["accuracy"] == pytest.approx(trained.result["validation_accuracy"])


def test_evaluate_without_a_model(tmp_path):
    outcome = command("evaluate", tmp_path)
    assert outcome.status == 2 and "model.keras" in outcome.err


def test_evaluate_without_a_recipe(trained, tmp_path):
    shutil.copy(trained.folder / "model.keras", tmp_path)
    outcome = command("evaluate", tmp_path)
    assert outcome.status == 2 and "recipe.toml" in outcome.err


@pytest.fixture
def copied(trained, tmp_path):
    """A copy of the finished run, to be damaged."""
    return Path(shutil.copytree(trained.folder, tmp_path / "run"))


@pytest.mark.parametrize("damage", ["truncated", "empty", "corrupted", "text"])
@pytest.mark.parametrize("name", ["evaluate", "predict", "figures"])
def test_a_damaged_model_is_named(name, damage, copied, npz):
    path = copied / "model.keras"
    content = path.read_bytes()
    half = len(content) // 2
    path.write_bytes(
        {
            "truncated": content[:half],
            "empty": b"",
            "corrupted": content[:half] + bytes(2000) + content[half + 2000 :],
            "text": b"weights",
        }[damage]
    )
    arguments = [npz] if name == "predict" else []
    refused(command(name, copied, *arguments), str(path), "is damaged", "copy it again")


@pytest.mark.parametrize("name", ["evaluate", "predict", "figures"])
def test_another_keras_model_is_refused(name, copied, npz):
    inputs = keras.Input((3,))
    keras.Model(inputs, keras.layers.Dense(2)(inputs)).save(copied / "model.keras")
    arguments = [npz] if name == "predict" else []
    said = (str(copied / "model.keras"), "holds a Functional, not the PNCNN", "run folder")
    refused(command(name, copied, *arguments), *said)


def test_figures_with_an_unreadable_log(copied):
    (copied / "log.csv").write_bytes(b"\xff\x00garbage,\n1")
    outcome = command("figures", copied, "--examples", "1", "--resolution", "4")
    assert outcome.status == 2 and "log.csv is not the log of a run" in outcome.err


def test_predict_with_a_model_file_alone(trained, npz, tmp_path):
    path = tmp_path / "alone" / "model.keras"
    path.parent.mkdir()
    shutil.copy(trained.folder / "model.keras", path)
    refused(command("predict", path, npz), str(path), "recipe.toml", "a run folder of `tfpn train`")


@pytest.mark.parametrize("name", ["o.csv", "o.npz"])
def test_predict_checks_the_output_before_predicting(name, tmp_path):
    # Neither the run nor the observations exist: the output is looked at first.
    path = tmp_path / "missing" / name
    outcome = command("predict", tmp_path, tmp_path / "x.npz", "--output", path)
    refused(outcome, "--output", str(path), "no folder", "make it")


@pytest.mark.parametrize("key", ["points", "values"])
def test_predict_names_the_array_too_large_for_float32(key, trained, tmp_path):
    path = tmp_path / "large.npz"
    arrays = {"points": np.random.default_rng(0).uniform(size=(2, 5, 2)), "values": np.ones((2, 5))}
    arrays[key][1, 3] = -1e300
    np.savez(path, **arrays)
    refused(command("predict", trained.folder, path), str(path), f"{key}: found", "1e+300")


def test_predict_with_values_that_overflow_in_a_layer(trained, tmp_path):
    path = tmp_path / "overflow.npz"
    points = np.random.default_rng(0).uniform(size=(2, 5, 2))
    np.savez(path, points=points, values=np.full((2, 5), 1e38))
    refused(command("predict", trained.folder, path), "conv_1", "not finite: look for", "units")


def test_the_models_own_check_is_one_sentence(tmp_path, monkeypatch):
    from tfpn import models, recipes, training

    model = models.PNCNN(num_classes=2, channels=2, num_blocks=1, num_basis=3, in_channels=2)
    recipe = recipes.Recipe("run", {"data": {"name": "digits"}}, "here")
    monkeypatch.setattr(training, "load_run", lambda run: (model, recipe))
    path = tmp_path / "partly.npz"
    values = np.ones((1, 4, 2))
    values[0, 0, 0] = np.nan
    np.savez(path, points=np.random.default_rng(0).uniform(size=(1, 4, 2)), values=values)
    outcome = command("predict", "run", path)
    found = f"error: {path}: some points are observed in some channels only"
    refused(outcome, found, "input_noise='channel'")
    assert len(outcome.err.splitlines()[-1]) < 300 + len(str(path)) and "Assert" not in outcome.err


def test_predict_writes_the_same_to_npz_csv_and_standard_output(trained, npz, tmp_path):
    for name in ("out.npz", "out.csv"):
        outcome = command("predict", trained.folder, npz, "--output", tmp_path / name)
        assert outcome.status == 0 and outcome.out == "", outcome.err
    printed = command("predict", trained.folder, npz).out
    assert printed.splitlines() == (tmp_path / "out.csv").read_text().splitlines()
    table = list(csv.DictReader(io.StringIO(printed)))
    with np.load(tmp_path / "out.npz") as arrays:
        probabilities, predicted = arrays["probabilities"], arrays["predicted"]
    np.testing.assert_allclose(probabilities.sum(-1), 1, rtol=1e-12)
    np.testing.assert_array_equal(predicted, probabilities.argmax(-1))
    assert [int(row["predicted"]) for row in table] == list(predicted)
    from_csv = [[float(row[f"probability_{c}"]) for c in range(10)] for row in table]
    np.testing.assert_allclose(from_csv, probabilities, rtol=1e-5)


def test_predict_is_right_about_as_often_as_evaluate_says(trained, digits_test_part, tmp_path):
    np.savez(tmp_path / "all.npz", **digits_test_part.x)
    outcome = command(
        "predict", trained.folder, tmp_path / "all.npz", "--output", tmp_path / "o.npz"
    )
    assert outcome.status == 0, outcome.err
    with np.load(tmp_path / "o.npz") as arrays:
        accuracy = np.mean(arrays["predicted"] == digits_test_part.y)
    assert accuracy == pytest.approx(trained.result["test_accuracy"])


def test_predict_takes_nan_for_missing(trained, npz, tmp_path):
    with np.load(npz) as arrays:
        points, values = arrays["points"], arrays["values"].copy()
    short = tmp_path / "short.npz"
    np.savez(short, points=points[:, :-3], values=values[:, :-3])
    values[:, -3:] = np.nan
    missing = tmp_path / "missing.npz"
    np.savez(missing, points=points, values=values)
    for path in (short, missing):
        outcome = command("predict", trained.folder, path, "--output", f"{path}.out.npz")
        assert outcome.status == 0, outcome.err
    with np.load(f"{short}.out.npz") as a, np.load(f"{missing}.out.npz") as b:
        np.testing.assert_allclose(a["probabilities"], b["probabilities"], atol=1e-4)


class Unpickled:
    """Leaves a file behind if anyone unpickles it."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


def test_predict_never_unpickles(trained, tmp_path):
    trap = tmp_path / "unpickled"
    path = tmp_path / "objects.npz"
    np.savez(path, points=np.array([Unpickled(str(trap))], dtype=object), values=np.zeros(1))
    outcome = command("predict", trained.folder, path)
    assert outcome.status == 2 and str(path) in outcome.err
    assert not trap.exists()


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"points": np.zeros((2, 5, 2))}, "it needs points and values"),
        ({"points": np.zeros((2, 5, 3)), "values": np.zeros((2, 5, 1))}, "3 dimensions"),
        ({"points": np.zeros((2, 5, 2)), "values": np.zeros((2, 5, 4))}, "4 channels"),
        ({"points": np.full((2, 5, 2), np.inf), "values": np.zeros((2, 5, 1))}, "points"),
        ({"points": np.zeros((2, 5, 2)), "values": np.zeros((2, 4, 1))}, "values"),
    ],
    ids=["no-values", "dimensions", "channels", "infinite", "lengths"],
)
def test_predict_refuses_unusable_arrays(arrays, said, trained, tmp_path):
    path = tmp_path / "wrong.npz"
    np.savez(path, **arrays)
    outcome = command("predict", trained.folder, path)
    assert outcome.status == 2 and outcome.out == ""
    assert str(path) in outcome.err and said in outcome.err


@pytest.mark.parametrize("name", ["missing.npz", "text.npz", "array.npy"])
def test_predict_refuses_other_files(name, trained, tmp_path):
    path = tmp_path / name
    if name == "text.npz":
        path.write_text("points, values\n")
    elif name == "array.npy":
        np.save(path, np.zeros(3))
    outcome = command("predict", trained.folder, path)
    assert outcome.status == 2 and str(path) in outcome.err


def test_figures_writes_all_pictures(trained, tmp_path):
    picture = tmp_path / "maps.png"
    outcome = command(
        *("figures", trained.folder, "--examples", "2", "--channel", "1"),
        *("--resolution", "8", "--output", picture),
    )
    assert outcome.status == 0, outcome.err
    names = ("reliability.png", "curves.png")
    assert outcome.out.split() == [str(picture), *(str(tmp_path / name) for name in names)]
    for path in outcome.out.split():
        with open(path, "rb") as file:
            assert file.read(8) == b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--channel", "99"], "99"),
        (["--examples", "0"], "--examples"),
        (["--resolution", "1", "--output", "x.png"], "resolution"),
        (["--resolution", "4", "--output", "nowhere/x.png"], "nowhere"),
    ],
)
def test_figures_refuses(arguments, said, trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = command("figures", trained.folder, *arguments)
    assert outcome.status == 2 and said in outcome.err


def test_version_and_missing_command():
    from tfpn import __version__

    assert command("--version").out == f"tfpn {__version__}\n"
    assert command().status == 2
    for name in ("train", "evaluate", "predict", "figures"):
        assert name in command("--help").out
        assert command(name, "--help").status == 0


def test_evaluate_several_runs(trained, evaluated, tmp_path):
    """The same run twice: its figures, and no spread."""
    one = evaluated
    path = tmp_path / "result.json"
    outcome = command("evaluate", trained.folder, trained.folder, "--output", path)
    assert outcome.status == 0 and path.read_text() == outcome.out, outcome.err
    (line,) = outcome.out.splitlines()
    found = json.loads(line)
    assert found["runs"] == 2 * [{"run": str(trained.folder), **one}]
    figures = {k: v for k, v in one.items() if k not in ("recipe", "split", "examples")}
    assert found["mean"] == pytest.approx(figures)
    assert set(found["standard_deviation"].values()) == {0.0}
    both = (trained.folder, trained.folder, "--table", tmp_path / "bins.csv")
    refused(command("evaluate", *both), "--table: found several runs")
