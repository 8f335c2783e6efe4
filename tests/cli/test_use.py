"""The subcommands that use a trained run."""

import csv
import io
import json
import shutil

import numpy as np
import pytest
from cli_support import command


def test_evaluate_agrees_with_training(trained):
    outcome = command("evaluate", trained.folder)
    assert outcome.status == 0, outcome.err
    (line,) = outcome.out.splitlines()
    figures = json.loads(line)
    assert figures["split"] == "test" and figures["recipe"] == "digits"
    for key in ("accuracy", "error", "nll"):
        assert figures[key] == pytest.approx(trained.result[f"test_{key}"], rel=1e-5)


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


def test_figures_writes_both_pictures(trained, tmp_path):
    picture = tmp_path / "maps.png"
    outcome = command(
        *("figures", trained.folder, "--examples", "2", "--channel", "1"),
        *("--resolution", "8", "--output", picture),
    )
    assert outcome.status == 0, outcome.err
    assert outcome.out.split() == [str(picture), str(tmp_path / "curves.png")]
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
