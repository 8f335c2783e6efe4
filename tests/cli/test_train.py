import csv
import json
import os
import shutil
import signal
import time

import h5py
import numpy as np
import processes
import pytest
import tensorflow as tf
from cli_support import EPOCHS, KEEP, SMALL, command
from small_disk import largest_file

from tfpn import datasets, observations, recipes, training
from tfpn.training import run

PNG = b"\x89PNG\r\n\x1a\n"
# The resumed run does the same operations on the same numbers; only the order in which threads
# add up may differ, which grows over the remaining epochs.
RESUME_TOLERANCE = 1e-4
LAST = f"epoch-{EPOCHS:05}.weights.h5"  # the backup of a finished run


def rows(folder):
    with open(folder / "log.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_run_folder_is_complete(trained):
    names = {path.name for path in trained.folder.iterdir()}
    assert names == {
        *("recipe.toml", "log.csv", "model.keras", "result.json", "backup"),
        *("curves.png", "feature_maps.png", "reliability.png"),
    }
    for picture in ("curves.png", "feature_maps.png", "reliability.png"):
        assert (trained.folder / picture).read_bytes().startswith(PNG)
    assert [int(row["epoch"]) for row in rows(trained.folder)] == list(range(EPOCHS))


def test_result_line(trained):
    result = trained.result
    assert result == json.loads((trained.folder / "result.json").read_text())
    assert result["recipe"] == "digits" and result["run"] == str(trained.folder)
    assert result["epochs"] == EPOCHS and result["seed"] == 0
    assert result["test_error"] == pytest.approx(1 - result["test_accuracy"])
    assert result["test_accuracy"] > 0.3, "ten classes: this small model has learned something"
    assert 0 < result["test_nll"] < np.log(10)
    assert 0 < result["test_brier"] < 0.9 and 0 < result["test_ece"] < 0.5
    assert result["parameters"] > 0 and result["seconds"] > 0
    assert "GPUs found: " not in trained.outcome.err, "there is none"


def test_loss_falls(trained):
    losses = [float(row["loss"]) for row in rows(trained.folder)]
    assert losses[-1] < 0.8 * losses[0]


def test_resolved_recipe_holds_overrides_and_defaults(trained):
    saved = recipes.load(trained.folder / "recipe.toml").sections
    assert saved["data"]["keep"] == KEEP and saved["data"]["test_fraction"] == 0.2
    assert saved["model"]["channels"] == 12 and "uncertainty" in saved["model"]
    assert saved["data"]["views"] == 1 and saved["augmentation"]["rotation"] > 0
    assert saved["training"] == {
        **{"epochs": EPOCHS, "batch_size": 50, "learning_rate": 2e-2},
        **{"schedule": "cosine", "seed": 0, "class_weight": [], "by_length": False},
        **{"patience": 0, "monitor": "val_loss"},
    }


@pytest.fixture(scope="session")
def killed(tmp_path_factory):
    """The folder of the same run, killed with SIGKILL in the middle of its last epoch."""
    folder = tmp_path_factory.mktemp("killed") / "run"
    process = processes.start(command, "train", *SMALL, "--output", folder)
    deadline = time.monotonic() + processes.SECONDS
    while not list((folder / "backup").glob(f"epoch-{EPOCHS - 1:05}*")):
        assert process.exitcode is None and time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.1)
    processes.kill(process)
    assert process.exitcode == -signal.SIGKILL
    return folder


@pytest.fixture
def without_pictures(monkeypatch):
    """`trained` has drawn them."""
    monkeypatch.setattr(run, "_draw", lambda *arguments: None)


@pytest.mark.usefixtures("without_pictures")
def test_killed_run_resumes_to_the_same_result_after_a_full_disk(trained, killed, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(killed, folder)
    # What a kill between the log's row and the backup leaves, and a kill inside the row.
    with open(folder / "log.csv", "a") as log:
        log.write(f"{EPOCHS - 1}{',0.5' * (len(rows(folder)[0]) - 1)}\n{EPOCHS},0.")
    # Nothing of this run stays, and without tracing its one epoch is quicker.
    tf.config.run_functions_eagerly(True)
    before = f"epoch-{EPOCHS - 1:05}.weights.h5"
    with largest_file((folder / "backup" / before).stat().st_size // 2):
        outcome = command("train", *SMALL, "--output", folder, "--resume")
    tf.config.run_functions_eagerly(False)
    assert outcome.status == 2 and "Traceback" not in outcome.err
    said = f"cannot write {folder / 'backup' / LAST}: File too large"
    assert outcome.err.splitlines()[-1] == f"tfpn train: error: {said}"
    assert os.listdir(folder / "backup") == [before]
    assert [int(row["epoch"]) for row in rows(folder)] == list(range(EPOCHS))
    outcome = command("train", *SMALL, "--output", folder, "--resume")
    assert outcome.status == 0, outcome.err

    expected, found = rows(trained.folder), rows(folder)
    assert [int(row["epoch"]) for row in found] == list(range(EPOCHS))
    for key in ("loss", "val_loss"):
        np.testing.assert_allclose(
            [float(row[key]) for row in found],
            [float(row[key]) for row in expected],
            rtol=RESUME_TOLERANCE,
        )
    result = json.loads(outcome.out.splitlines()[-1])
    assert result["test_nll"] == pytest.approx(trained.result["test_nll"], rel=RESUME_TOLERANCE)
    whole, resumed = (variables(run / "backup") for run in (trained.folder, folder))
    assert whole.keys() == resumed.keys() and any("optimizer" in name for name in whole)
    for name, value in whole.items():
        np.testing.assert_allclose(resumed[name], value, rtol=1e-3, atol=1e-5, err_msg=name)


def variables(backup):
    """Every variable of a backup by name: weights and the optimiser's state."""
    (path,) = backup.glob("epoch-*.weights.h5")
    found = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: found.update({name: item[()]}) if hasattr(item, "dtype") else None
        )
    return found


@pytest.mark.usefixtures("without_pictures")
def test_resume_without_recipe_takes_the_runs_own(trained):
    outcome = command("train", "--resume", "--output", trained.folder)
    assert outcome.status == 0, outcome.err
    again = json.loads(outcome.out.splitlines()[-1])
    assert again["test_nll"] == pytest.approx(trained.result["test_nll"], rel=1e-6)
    assert again["seconds"] == trained.result["seconds"]


def test_resume_refuses_a_changed_recipe(trained):
    outcome = command("train", *SMALL, "--seed", "7", "--output", trained.folder, "--resume")
    assert outcome.status == 2
    assert "training.seed was 0, is 7" in outcome.err and "--overwrite" in outcome.err


def test_existing_run_is_not_touched(trained):
    before = (trained.folder / "log.csv").read_bytes()
    outcome = command("train", *SMALL, "--output", trained.folder)
    assert outcome.status == 2
    assert "--resume" in outcome.err and "--overwrite" in outcome.err
    assert (trained.folder / "log.csv").read_bytes() == before


def test_foreign_folder_is_never_used(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    outcome = command("train", *SMALL, "--output", tmp_path, "--overwrite")
    assert outcome.status == 2 and "holds no run" in outcome.err
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("resume", [[], ["--resume"], ["--overwrite"]])
@pytest.mark.parametrize("below", [[], ["y"]], ids=["file", "below"])
def test_output_that_cannot_be_a_folder(below, resume, tmp_path):
    path = tmp_path / "file"
    path.write_text("years of work")
    outcome = command("train", *SMALL, "--output", path.joinpath(*below), *resume)
    assert outcome.status == 2 and "Traceback" not in outcome.err
    message = outcome.err.splitlines()[-1]
    assert message.startswith("tfpn train: error: --output: ") and "give a folder" in message
    assert path.read_text() == "years of work"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (f"backup/{LAST}", b"garbage", f"{LAST} is damaged"),
        ("log.csv", None, "log.csv: No such file"),
        ("log.csv", b"\xff\xfe\x00", "log.csv is not the log of a run"),
        ("log.csv", b"epoch,seconds\nx,y\n", "log.csv is not the log of a run"),
        ("log.csv", b"", "log.csv is not the log of a run"),
        ("log.csv", b"epoch,seconds\n0,1.0\n", f"log.csv does not hold the {EPOCHS} epochs"),
    ],
    ids=["backup", "no-log", "bytes", "text", "empty", "short"],
)
def test_resume_with_a_damaged_file(name, content, said, trained, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(trained.folder, folder)
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    outcome = command("train", "--resume", "--output", folder)
    assert outcome.status == 2 and "Traceback" not in outcome.err
    message = outcome.err.splitlines()[-1]
    assert said in message and "--overwrite" in message
    if content is not None:
        assert (folder / name).read_bytes() == content


def test_overwrite_clears_the_run_and_broken_weights_are_never_kept(killed, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(killed, folder)
    outcome = command(
        *("train", *SMALL, "--learning-rate", "1e38", "--set", "training.schedule=constant"),
        *("--output", folder, "--overwrite"),
    )
    assert outcome.status == 1
    message = outcome.err.splitlines()[-1]
    assert message.startswith("tfpn train: ") and "learning_rate" in message
    assert "the loss became" in message or "not finite" in message
    assert not (folder / "model.keras").exists()
    assert not list((folder / "backup").iterdir()) and not (folder / "log.csv").exists()
    assert recipes.load(folder / "recipe.toml").sections["training"]["learning_rate"] == 1e38


def test_augmentation_that_does_not_fit_the_data_is_named():
    recipe = recipes.load("digits")
    recipes.override(recipe, "augmentation.shear=0.1")
    x = observations(np.zeros((2, 3, 1)), np.zeros((2, 3)))
    part = datasets.Part(x, np.arange(2))
    with pytest.raises(recipes.RecipeError, match=r"\[augmentation\] .* 1 dimensions"):
        training.make_batches(recipes.resolve(recipe), part.x, part.y)
