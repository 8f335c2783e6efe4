"""Searches whose trials are a formula: what is recorded, resumed and refused."""

import contextlib
import csv
import json

import numpy as np
import pytest
import tensorflow as tf
from small_disk import largest_file
from tuning_support import SPACE, Formula, score, small

from tfpn import datasets, recipes, training, tuning
from tfpn.files import WriteError


@pytest.fixture
def formula(monkeypatch):
    found = Formula()
    # Keras Tuner collects the garbage of the whole process, which takes longer than these trials.
    monkeypatch.setattr("gc.collect", lambda *arguments: 0)
    monkeypatch.setattr(training, "fit_model", found)
    return found


def search(folder, *values, algorithm="random", max_trials=3, space=SPACE, **options):
    arguments = {"algorithm": algorithm, "max_trials": max_trials, "space": space, **options}
    return tuning.tune(small(*values), folder, final=False, verbose=0, **arguments)


def table(folder):
    with open(folder / "results.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("algorithm", "trials"), [("random", 3), ("bayesian", 4), ("hyperband", 6)]
)
def test_every_algorithm_searches(algorithm, trials, formula, tmp_path, monkeypatch):
    load = recipes.load_data

    def without_test(recipe):
        data = load(recipe)
        return datasets.Dataset(data.train, data.validation, None, data.name, data.description)

    monkeypatch.setattr(recipes, "load_data", without_test)
    result = search(tmp_path, "training.epochs=3", algorithm=algorithm, max_trials=trials)
    rows = table(tmp_path)
    assert result["trials"] == result["completed"] == len(rows) == len(formula.calls) == trials
    found = [float(row["score"]) for row in rows]
    np.testing.assert_allclose(
        found, [score(float(row["training.learning_rate"])) for row in rows], atol=1e-5
    )
    assert result["best_score"] == pytest.approx(min(found), abs=1e-5)
    assert len({row["training.learning_rate"] for row in rows}) >= trials - 1
    assert {call[:2] for call in formula.calls} == {(72, 90)}, "training and validation examples"
    epochs = [(1, 3), (0, 1)] if algorithm == "hyperband" else [(0, 3)]
    assert all(span in {call[2:] for call in formula.calls} for span in epochs)
    assert [int(row["epochs"]) for row in rows] == [
        last - first for *_, first, last in formula.calls
    ]
    assert all(float(row["seconds"]) > 0 and row["reason"] == "" for row in rows)
    assert (tmp_path / "results.png").read_bytes().startswith(b"\x89PNG")
    best = recipes.resolve(recipes.load(tmp_path / "best.toml"))
    assert score(best.sections["training"]["learning_rate"]) == pytest.approx(min(found), abs=1e-5)
    assert best.sections["data"]["validation_fraction"] == 0.05
    assert json.loads((tmp_path / "result.json").read_text()) == result
    # The same seed searches the same way.
    if algorithm == "random":
        again = search(tmp_path / "again", "training.epochs=3", max_trials=trials)
        assert again["best"] == result["best"]


def test_failed_trials_are_recorded_and_the_search_goes_on(formula, tmp_path):
    errors = [
        training.TrainingDiverged("the loss became nan in epoch 1"),
        tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor\nand so on"),
        MemoryError("Unable to allocate"),
        tf.errors.InvalidArgumentError(None, None, "\x1b[1m{{node conv_1}} {{x}} wrong\x1b[0m"),
    ]

    def fail(call):
        if call <= len(errors):
            raise errors[call - 1]

    formula.before = fail
    result = search(tmp_path, max_trials=5)
    assert (result["trials"], result["failed"], result["completed"]) == (5, 4, 1)
    rows = table(tmp_path)
    assert [row["reason"] for row in rows] == [
        "the loss became nan in epoch 1",
        "out of memory: OOM when allocating tensor",
        "out of memory: Unable to allocate",
        "InvalidArgumentError: wrong",
        "",
    ]
    assert [row["status"] for row in rows] == [*4 * ["FAILED"], "COMPLETED"]
    assert [row["score"] for row in rows[:4]] == 4 * [""] and result["best_trial"] == "4"


def test_without_any_completed_trial_the_reason_is_told(formula, tmp_path):
    # The model refuses this combination, which each value alone does not show.
    space = {"model.input_noise": ["channel"], "model.uncertainty": ["low_rank"]}
    with pytest.raises(training.RunError, match="none of the 2 trials .*needs noise='shared'"):
        search(tmp_path, max_trials=2, space=space)
    assert formula.calls == [] and len(table(tmp_path)) == 2


def test_resumes_without_repeating_and_notices_what_has_changed(formula, tmp_path):
    first = search(tmp_path, max_trials=2)
    before = table(tmp_path)
    with pytest.raises(training.RunError, match="already holds a search.*--resume.*--overwrite"):
        search(tmp_path)
    wider = {**SPACE, "model.channels": [2, 3, 4]}
    for changed, said in (
        ({"space": wider}, r"space of model.channels was \[2, 3\], is \[2, 3, 4\]"),
        ({"space": {**SPACE, "training.batch_size": [5, 9]}}, "training.batch_size was 'not set'"),
        ({"algorithm": "bayesian"}, "algorithm was 'random', is 'bayesian'"),
        ({"objective": "val_accuracy"}, "objective was 'val_nll', is 'val_accuracy'"),
    ):
        with pytest.raises(training.RunError, match=f"{said}.*--overwrite"):
            search(tmp_path, resume=True, **changed)
    with pytest.raises(training.RunError, match="training.batch_size was 100, is 50"):
        search(tmp_path, "training.batch_size=50", resume=True)
    assert table(tmp_path) == before and len(formula.calls) == 2

    second = search(tmp_path, max_trials=4, resume=True)
    assert (first["trials"], second["trials"], len(formula.calls)) == (2, 4, 4)
    assert table(tmp_path)[:2] == before
    anew = search(tmp_path, max_trials=2, space=wider, overwrite=True)
    assert anew["trials"] == 2 and len(formula.calls) == 6


def test_a_full_disk_ends_the_search_which_is_resumed(formula, tmp_path):
    """Whatever file it is that cannot be written, what is there stays."""
    search(tmp_path, max_trials=1)
    oracle = tmp_path / "trials" / "oracle.json"
    keys = json.loads(oracle.read_text()).keys()
    with contextlib.ExitStack() as stack:
        formula.before = lambda call: stack.enter_context(largest_file(0))
        with pytest.raises(WriteError, match=f"cannot write {tmp_path}.*File too large"):
            search(tmp_path, max_trials=2, resume=True)
    assert [row["status"] for row in table(tmp_path)] == ["COMPLETED"]
    assert json.loads(oracle.read_text()).keys() == keys
    formula.before = lambda call: None
    assert search(tmp_path, max_trials=2, resume=True)["completed"] == 2
    assert not list(tmp_path.rglob("*.partial"))


def test_a_trial_that_kills_the_process_again_and_again_is_given_up(formula, tmp_path):
    def kill(call):
        if call <= 3:
            raise KeyboardInterrupt

    formula.before = kill
    for attempt in range(3):
        with pytest.raises(KeyboardInterrupt):
            search(tmp_path, max_trials=2, resume=attempt > 0)
        assert table(tmp_path)[0]["status"] == "RUNNING"
    assert search(tmp_path, max_trials=2, resume=True)["completed"] == 1
    assert "killed in 3 attempts" in table(tmp_path)[0]["reason"]


def test_damaged_and_foreign_folders_are_not_touched(formula, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(training.RunError, match="holds something other than a search"):
        search(tmp_path, overwrite=True)
    with pytest.raises(training.RunError, match="is a file"):
        search(tmp_path / "thesis.tex")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"
    # What a worker makes that is there before its chief is no obstacle.
    (tmp_path / "search" / "trials").mkdir(parents=True)
    search(tmp_path / "search", max_trials=1)
    (tmp_path / "search" / "trials" / "oracle.json").write_text('{"ongoing')
    with pytest.raises(training.RunError, match="damaged.*--overwrite"):
        search(tmp_path / "search", resume=True)


@pytest.mark.parametrize(
    ("values", "options", "said"),
    [
        (["training.patience=2"], {}, "training.patience=2: training.patience.*training.epochs"),
        ([], {"algorithm": "grid"}, "algorithm: found 'grid'; give one of hyperband, random"),
        ([], {"objective": "val_loss"}, "objective: found 'val_loss'; give one of val_nll"),
        ([], {"objective": "val_auroc"}, "val_auroc', which needs two classes, .* has 10"),
        ([], {"max_trials": 0}, "max_trials: found 0; give an integer of at least 1"),
        (
            [],
            {"algorithm": "hyperband", "space": {"training.epochs": [1, 2]}},
            "training.epochs: hyperband chooses",
        ),
    ],
)
def test_wrong_requests_are_named(values, options, said, tmp_path):
    with pytest.raises(recipes.RecipeError, match=said):
        search(tmp_path / "search", *values, **options)
    assert not (tmp_path / "search").exists()


def test_data_without_a_validation_part_are_refused(tmp_path):
    with pytest.raises(training.RunError, match="validation_fraction above 0"):
        search(tmp_path / "search", "data.validation_fraction=0.0")
    recipe = recipes.load("physionet2012")
    recipes.override(recipe, "training.patience=0")
    with pytest.raises(
        recipes.RecipeError, match="physionet2012 has no validation_fraction.*final"
    ):
        tuning.tune(recipe, tmp_path / "search")
