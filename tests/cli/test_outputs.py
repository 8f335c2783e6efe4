"""Outputs of the command: none replaces an input, and a full disk loses nothing."""

import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from cli_support import SMALL, command, refused
from small_disk import largest_file

from tfpn import recipes
from tfpn.cli import commands
from tfpn.training import RunError
from tfpn.training.folder import open_folder
from tfpn.tuning import search


@pytest.fixture
def residuals(tmp_path):
    path = tmp_path / "residuals.npz"
    np.savez(path, residuals=np.linspace(-2, 2, 50), standard_deviations=np.ones(50))
    return path


@pytest.mark.parametrize("way", ["same", "relative", "symbolic", "hard"])
def test_predict_refuses_to_replace_its_input(way, npz, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = npz.read_bytes()
    output = {"same": npz, "relative": npz.name}.get(way, tmp_path / f"{way}.npz")
    if way == "symbolic":
        output.symlink_to(npz)
    elif way == "hard":
        os.link(npz, output)
    # The run does not exist: the output is looked at first.
    outcome = command("predict", "run", npz, "--output", output)
    refused(outcome, f"--output: found {output}, which is the input {npz}")
    assert npz.read_bytes() == before


@pytest.mark.parametrize("name", ["recipe.toml", "model.keras", "log.csv", "result.json"])
def test_no_output_replaces_a_file_of_the_run(name, trained, tmp_path):
    folder = Path(shutil.copytree(trained.folder, tmp_path / "run"))
    before = (folder / name).read_bytes()
    for run in (folder, folder / "model.keras"):
        for arguments in (
            ["evaluate", run, "--output", folder / name],
            ["evaluate", run, "--table", folder / name],
            ["figures", run, "--output", folder / name],
        ):
            refused(command(*arguments), f"{folder / name}, which is the input")
    assert (folder / name).read_bytes() == before


def test_residuals_are_not_replaced(residuals):
    before = residuals.read_bytes()
    for name in ("evaluate", "figures"):
        outcome = command(name, "--residuals", residuals, "--output", residuals)
        refused(outcome, "--output", f"is the input {residuals}")
    assert residuals.read_bytes() == before


def test_outputs_do_not_replace_each_other(trained, tmp_path):
    one = tmp_path / "one"
    outcome = command("evaluate", trained.folder, "--output", one, "--table", one)
    refused(outcome, "--output and --table name the same file")
    outcome = command("figures", trained.folder, "--output", tmp_path / "curves.png")
    refused(outcome, "name the same file", "curves.png")


@pytest.mark.parametrize("name", ["train", "tune"])
def test_overwrite_keeps_the_recipe_asked_for(name, tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(recipes.dumps(recipes.load("digits")))
    before = recipe.read_text()
    outcome = command(name, recipe, "--output", tmp_path, "--overwrite", "--epochs", "1")
    refused(outcome, f"--overwrite: the recipe {recipe}", "copy the recipe")
    assert recipe.read_text() == before


def test_resume_leaves_the_recipe_as_it_is_written(tmp_path):
    recipe = recipes.resolve(recipes.load("digits"))
    text = "# by hand\n" + recipes.dumps(recipe)
    (tmp_path / "recipe.toml").write_text(text)
    open_folder(recipe, tmp_path, resume=True, overwrite=False)
    assert (tmp_path / "recipe.toml").read_text() == text


@pytest.mark.parametrize("name", ["evaluate", "predict", "figures"])
def test_a_folder_in_place_of_a_file_is_refused_first(name, npz, tmp_path):
    folder = tmp_path / "folder.npz"
    folder.mkdir()
    arguments = [npz] if name == "predict" else []
    refused(command(name, "run", *arguments, "--output", folder), "--output", "a folder")


@pytest.mark.parametrize("name", ["evaluate", "predict", "figures"])
def test_a_folder_that_cannot_be_written_is_refused_first(name, npz, tmp_path, monkeypatch):
    # Asked of the system, as the administrator may write everywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    arguments = [npz] if name == "predict" else []
    outcome = command(name, "run", *arguments, "--output", tmp_path / "out.npz")
    refused(outcome, f"cannot write into the folder {tmp_path}")


def test_a_full_disk_is_one_line(residuals, trained, npz, tmp_path):
    output = tmp_path / "out.csv"
    output.write_text("old")
    for arguments in (
        ["evaluate", "--residuals", residuals],
        ["figures", "--residuals", residuals],
        ["predict", trained.folder, npz],
    ):
        with largest_file(20):
            outcome = command(*arguments, "--output", output)
        refused(outcome, f"cannot write {output}: File too large")
        assert output.read_text() == "old"
    refused(command("evaluate", "--residuals", residuals, "--output", "/dev/full"), "No space left")
    assert {path.suffix for path in tmp_path.iterdir()} == {".npz", ".csv"}


def test_a_start_that_was_cut_off_does_not_block_a_run(tmp_path):
    recipe = recipes.resolve(recipes.load("digits"))
    for name in ("recipe.toml.partial", "recipe.toml.4711.partial"):
        (tmp_path / name).write_text("name =")
    open_folder(recipe, tmp_path, resume=True, overwrite=False)
    assert os.listdir(tmp_path) == ["recipe.toml"]
    (tmp_path / "backup").mkdir()
    (tmp_path / "backup" / "epoch-00001.weights.h5.4711.partial").touch()
    open_folder(recipe, tmp_path, resume=True, overwrite=False)
    assert not os.listdir(tmp_path / "backup")
    (tmp_path / "recipe.toml").rename(tmp_path / "download.partial")
    with pytest.raises(RunError, match="is not empty and holds no run"):
        open_folder(recipe, tmp_path, resume=True, overwrite=False)


def test_a_start_that_was_cut_off_does_not_block_a_search(tmp_path):
    recipe = recipes.resolve(recipes.load("digits"))
    (tmp_path / "recipe.toml").write_text(recipes.dumps(recipe))
    (tmp_path / "search.json.partial").write_text("{")
    search._open(tmp_path, recipe, {"space": {}}, resume=True, overwrite=False)
    assert sorted(os.listdir(tmp_path)) == ["recipe.toml", "search.json"]
    (tmp_path / "search.json").unlink()
    (tmp_path / "recipe.toml").write_text("# of a run\n" + recipes.dumps(recipe))
    with pytest.raises(RunError, match="holds something other than a search"):
        search._open(tmp_path, recipe, {"space": {}}, resume=True, overwrite=False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_work(number, monkeypatch, tmp_path):
    def work(options):
        os.kill(os.getpid(), number)

    monkeypatch.setattr(commands, "_train", work)
    outcome = command("train", *SMALL, "--output", tmp_path)
    assert outcome.status == 128 + number and outcome.out == ""
    word = "interrupted" if number == signal.SIGINT else "terminated"
    assert outcome.err == f"tfpn train: {word}; --resume continues it\n"


def test_another_error_of_the_system_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(commands, "_train", lambda options: os.listdir(tmp_path / "missing"))
    refused(command("train", *SMALL), f"{tmp_path / 'missing'}: No such file or directory")
