"""Trials of which the training is replaced by a formula, in this process or in another."""

import math
import os
import time
import types
from pathlib import Path

from tfpn import recipes, training

# 72 examples to train on, 90 for validation, 1,635 for the test, each of 5 points.
VALUES = (
    *("data.keep=5", "data.views=1", "data.validation_fraction=0.05", "data.test_fraction=0.91"),
    *("model.num_blocks=1", "model.num_basis=1", "model.uncertainty=none", "training.epochs=1"),
    *("model.length_per_spacing=1.0", "model.observation_noise=0.1", "model.feature_noise=0.1"),
    "model.marginal_likelihood_weight=0.01",
)
SPACE = {
    "model.channels": [2, 3],
    "training.learning_rate": {"min_value": 1e-3, "max_value": 0.1, "sampling": "log"},
}


def small(*values):
    recipe = recipes.load("digits")
    for value in (*VALUES, *values):
        recipes.override(recipe, value)
    return recipe


def score(learning_rate):
    return abs(math.log10(learning_rate) + 2)


class Formula:
    """In place of `training.fit_model`: the score depends on the learning rate alone.

    ``before`` is called with the number of the call; it may raise an error or wait.
    """

    def __init__(self, before=lambda call: None):
        self.calls, self.before = [], before

    def __call__(self, model, batches, held_out, settings, *, callbacks, epochs, **options):
        first = options["initial_epoch"]
        last = settings["epochs"] if epochs is None else epochs
        self.calls.append((len(batches.y), len(held_out[1]), first, last))
        self.before(len(self.calls))
        tuner, checkpoint = callbacks
        for epoch in range(first, last):
            tuner.on_epoch_end(epoch)
        model.save_weights(checkpoint.filepath)
        return types.SimpleNamespace(history={"val_nll": [9.0, score(settings["learning_rate"])]})


def rendezvous(call):
    """Blocks in the second trial, or waits for the other workers, as the environment says."""
    folder = Path(os.environ["MEETING"])
    name = os.environ.get("KERASTUNER_TUNER_ID")
    if name is None and call == 2:
        time.sleep(600)
    if name is not None:
        (folder / name).touch()
        deadline = time.monotonic() + 300
        while len(list(folder.iterdir())) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        if name == "worker-1" and call == 1:
            raise training.TrainingDiverged("a planted failure")


def search(folder, environment):
    """A search in a process of its own, which writes the number of its trials beside the folder."""
    from tfpn import tuning

    os.environ.update(environment)
    training.fit_model = Formula(rendezvous)
    name = environment.get("KERASTUNER_TUNER_ID")
    options = {"algorithm": "random", "max_trials": 5, "final": False, "space": SPACE}
    result = tuning.tune(small(), folder, **options, resume=name is not None, verbose=0)
    folder.with_name(f"{name}.txt").write_text(str(result["trials"]))
