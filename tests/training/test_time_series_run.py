"""A run on records of different lengths with statics, class weights and early stopping."""

import shutil
import types

import numpy as np
import pytest

import tfpn
from tfpn import evaluation, recipes, training
from tfpn.training import run
from tfpn.training.callbacks import EpochSeconds

CHANGES = (
    "data.statics=apart",
    "model.in_channels=2",
    "model.num_statics=1",
    "model.channels=3",
    "model.num_blocks=1",
    "model.num_basis=2",
    "model.query=4",
    "model.missingness=counts",
    "model.uncertainty=none",  # less to trace
    "model.marginal_likelihood_weight=0",
    "training.epochs=5",
    "training.batch_size=8",
    "training.patience=1",
    "training.monitor=val_average_precision",
    "training.learning_rate=0.3",  # so large that an epoch makes it worse
    "training.schedule=constant",
)


def part(size, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=size)
    times = [np.sort(rng.uniform(size=(rng.integers(1, 20), 1)), axis=0) for _ in y]
    values = [rng.normal(size=(len(t), 2)) + label for t, label in zip(times, y, strict=True)]
    for readings in values:
        readings[rng.uniform(size=readings.shape) < 0.5] = np.nan
    x = {k: v.astype(np.float32) for k, v in tfpn.observations(times, values).items()}
    statics = rng.normal(size=(size, 1)).astype(np.float32)
    return types.SimpleNamespace(x=x, y=y, statics=statics, statics_variance=0 * statics)


@pytest.fixture
def recipe(monkeypatch):
    data = types.SimpleNamespace(train=part(16, 0), validation=part(8, 1), test=part(8, 2))
    monkeypatch.setattr(recipes, "load_data", lambda recipe: data)
    recipe = recipes.load("physionet2012")
    for change in CHANGES:
        recipes.override(recipe, change)
    return recipe


@pytest.fixture
def killed(tmp_path, monkeypatch):
    """What the first run leaves if it is killed after one epoch: a copy of its folder."""
    folder, begin = tmp_path / "killed", EpochSeconds.on_epoch_begin

    def copy(self, epoch, logs=None):
        if epoch == 1 and not folder.exists():
            shutil.copytree(tmp_path / "whole", folder)
        begin(self, epoch, logs)

    monkeypatch.setattr(EpochSeconds, "on_epoch_begin", copy)
    return folder


@pytest.mark.usefixtures("eagerly")
def test_an_interrupted_run_ends_like_an_uninterrupted_one(recipe, tmp_path, monkeypatch, killed):
    whole = training.train(recipe, tmp_path / "whole", verbose=0)
    log = training.read_log(tmp_path / "whole" / "log.csv")
    monitored = log["val_average_precision"]
    best = int(np.argmax(monitored))
    assert whole["epochs"] == len(monitored) == min(5, best + 2)
    # The model kept is that of the best epoch; Keras's metric has 1000 thresholds.
    assert whole["validation_average_precision"] == pytest.approx(monitored[best], abs=0.02)
    data = recipes.load_data(recipe)
    model, _ = training.load_run(tmp_path / "whole")
    found = model.predict_proba(recipes.model_inputs(model, data.test))
    metrics = evaluation.classification_metrics(found, data.test.y)
    assert whole["test_auroc"] == pytest.approx(metrics["auroc"], abs=1e-6)

    assert training.read_log(killed / "log.csv")["epoch"] == [0.0]
    monkeypatch.setattr(run, "_draw", lambda *arguments: None)  # drawn once already
    resumed = training.train(recipe, killed, resume=True, verbose=0)
    for key in ("test_auroc", "test_nll", "epochs"):
        assert resumed[key] == pytest.approx(whole[key], abs=1e-4)
    # A run that has stopped stays as it is.
    assert training.train(recipe, killed, resume=True, verbose=0) == resumed
