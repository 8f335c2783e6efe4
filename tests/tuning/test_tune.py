"""The command, with trials that train."""

import csv
import json
import sys
import types

import keras_tuner
import numpy as np
import pytest
from tuning_support import VALUES, small

import tfpn
from tfpn import datasets, recipes, training, tuning
from tfpn.cli import main

SET = [text for value in VALUES for text in ("--set", value)]


@pytest.fixture
def quick(monkeypatch, eagerly):
    """No tracing and no collecting of garbage, which take longer than these trials."""
    monkeypatch.setattr("gc.collect", lambda *arguments: 0)


def test_trials_and_the_training_on_all_data(quick, tmp_path, capsys, monkeypatch):
    sizes = []
    monkeypatch.setattr("tfpn.training.run._draw", lambda *arguments: None)  # tested elsewhere

    def make_batches(recipe, x, y):
        sizes.append(len(y))
        return training.make_batches(recipe, x, y)

    monkeypatch.setattr("tfpn.training.tasks.make_batches", make_batches)
    folder = tmp_path / "search"
    rates = "training.learning_rate=[0.01, 1e38]"
    command = ["tune", "digits", *SET, "--space", rates, "--space", "model.channels=[2, 3]"]
    command += ["--algorithm", "random", "--max-trials", "2", "--output", str(folder)]
    assert main(command) == 0
    out = capsys.readouterr().out
    result = json.loads(out.splitlines()[-1])
    assert (result["completed"], result["failed"], result["trials"]) == (1, 1, 2)
    assert result["best"]["training.learning_rate"] == 0.01 and result["best_score"] > 0
    with open(folder / "results.csv", newline="", encoding="utf-8") as file:
        reasons = {row["training.learning_rate"]: row["reason"] for row in csv.DictReader(file)}
    assert reasons["0.01"] == "" and "could not be factorised" in reasons["1e+38"]
    # The last training sees the examples of training and validation, and the test part is its own.
    assert sizes == [72 + 90] and result["final"]["test_nll"] > 0
    assert not any(key.startswith("validation") for key in result["final"])
    final = recipes.load(folder / "final" / "recipe.toml")
    best = recipes.load(folder / "best.toml")
    assert final.sections["data"].pop("validation_fraction") == 0.0
    assert best.sections["data"].pop("validation_fraction") == 0.05
    assert final.sections == best.sections and final.name == "digits-tuned"
    columns = training.read_log(folder / "final" / "log.csv")
    assert "loss" in columns and not any(key.startswith("val_") for key in columns)
    assert main(command) == 2
    assert "already holds a search" in capsys.readouterr().err.splitlines()[-1]


def test_hyperband_goes_on_where_the_earlier_round_ended(monkeypatch):
    recipe = small("training.epochs=3", "training.batch_size=40", "model.channels=2")
    hypermodel = tuning.PNCNNHyperModel(recipe)
    data = recipes.load_data(hypermodel.base)
    hp = keras_tuner.HyperParameters()
    model = hypermodel.build(hp)
    model.adapt(data.train.x)
    weight = model.get_layer("conv_1").log_length_scale
    adapted = float(weight)
    found = []

    def fit_model(model, batches, *arguments, **options):
        found.append((float(weight), float(model.optimizer.learning_rate)))
        model.optimizer.iterations.assign(len(batches))
        found.append((options["initial_epoch"], float(model.optimizer.learning_rate)))
        return types.SimpleNamespace(history={"loss": [3.0, 1.0], "val_nll": [1.0, 2.0]})

    monkeypatch.setattr(training, "fit_model", fit_model)
    held_out = (data.validation.x, data.validation.y)
    for first in (0, 1):
        weight.assign(adapted + 0.5)
        figures = hypermodel.fit(
            hp, model, data.train.x, data.train.y, validation_data=held_out, initial_epoch=first
        )
        assert figures == {"val_nll": 2.0}, "the last epoch's"
    # The later round keeps the trained length scale, and the schedule of three epochs goes on.
    rates = [3e-3 * 0.5 * (1 + np.cos(np.pi * epoch / 3)) for epoch in range(3)]
    expected = [(adapted, rates[0]), (0, rates[1]), (adapted + 0.5, rates[1]), (1, rates[2])]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    with pytest.raises(keras_tuner.errors.FatalTypeError, match="x: found ndarray"):
        hypermodel.fit(hp, model, data.train.y, data.train.y, validation_data=held_out)


def test_patience_needs_a_validation_part(tmp_path):
    recipe = small("data.validation_fraction=0.0", "training.patience=1")
    with pytest.raises(recipes.RecipeError, match="training.patience: found 1.*no validation part"):
        training.train(recipe, tmp_path / "run")


def test_length_scale_in_units_of_the_spacing():
    part = datasets.digits(keep=30).validation
    models = [tfpn.models.PNCNN(channels=2, num_blocks=1, length_per_spacing=r) for r in (1.0, 2.0)]
    for model in models:
        model.adapt(part.x, fit_priors=False)
    for one, two in zip(models[0].pn_layers, models[1].pn_layers, strict=True):
        difference = float(two.log_length_scale - one.log_length_scale)
        assert difference == pytest.approx(np.log(2.0), abs=1e-5)


def test_help_needs_no_keras_tuner(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["tune", "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for word in ("--space", "--algorithm", "--resume", "KERASTUNER_TUNER_ID", "results.csv"):
        assert word in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["digit"], "did you mean 'digits'"),
        (["digits", "--space", "model.channels=3"], "write section.key=[choices]"),
        (["digits", "--space", "model.chanels=[3]"], "did you mean 'channels'"),
        (["digits", "--set", "model.uncertainty=wrong"], "uncertainty must be one of"),
        (["digits", "--iterations", "0"], "iterations: found 0"),
        (["superpixel-mnist", "--data-dir", "nowhere"], "nowhere"),
    ],
)
def test_wrong_commands_are_one_clear_line(arguments, said, tmp_path, capsys):
    assert main(["tune", *arguments, "--output", str(tmp_path / "search")]) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("tfpn tune: error: ") and said in message
    assert not (tmp_path / "search").exists()


def test_without_keras_tuner_the_extra_is_named(monkeypatch, capsys):
    for name in [name for name in sys.modules if name.startswith("tfpn.tuning")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(tfpn, "tuning")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["tune", "digits"]) == 2
    assert "pip install 'tfpn[tuning]'" in capsys.readouterr().err.splitlines()[-1]
