"""Keras Tuner's tuners with a record of how each trial ended."""

import json
import math
import os
import re
import time
import warnings
from pathlib import Path
from typing import Any

import keras_tuner

from tfpn.files import WriteError, write
from tfpn.training.errors import first_line
from tfpn.types import Mixin, PathLike

OUTCOME = "outcome.json"
# A trial whose process was killed so often is given up. The system kills a process that needs too
# much memory, and would do so again.
ATTEMPTS = 3
ALGORITHMS = ("hyperband", "random", "bayesian")
# The scores of a search, and whether a larger one is better. val_loss is not among them: it holds
# the marginal likelihood times its weight, so another weight makes it another measure.
OBJECTIVES = {
    "val_nll": "min",
    "val_accuracy": "max",
    "val_auroc": "max",
    "val_average_precision": "max",
}


class SearchStopped(keras_tuner.errors.FatalError, WriteError):
    """A file cannot be written. This is not the trial's fault, and would end the next one, too."""


class _Recorded(Mixin):
    """Writes to each trial's folder how it ended: status, reason, seconds, epochs, attempts.

    Keras Tuner keeps a failed trial's traceback, but workers do not send it to their chief.
    """

    count = 0  # number of trials that this process has run

    def run_trial(self, trial, *args, **kwargs):
        self.count += 1
        path = Path(self.get_trial_dir(trial.trial_id)) / OUTCOME
        attempts = read_outcome(path).get("attempts", 0) + 1
        self._finished = 0
        start = time.monotonic()

        def record(status, reason=""):
            outcome = {
                "status": status,
                "reason": reason,
                "seconds": round(time.monotonic() - start, 3),
                "epochs": self._finished,
                "attempts": attempts,
            }
            write(path, json.dumps(outcome) + "\n")

        record("RUNNING")
        try:
            if attempts > ATTEMPTS:
                raise keras_tuner.errors.FailedTrialError(
                    f"the process was killed in {ATTEMPTS} attempts at this trial, perhaps for "
                    "lack of memory"
                )
            results = super().run_trial(trial, *args, **kwargs)
        except WriteError as error:
            raise SearchStopped(error.errno, error.strerror, error.filename) from error
        except Exception as error:
            record("FAILED", _reason(error))
            raise
        record("COMPLETED")
        return results

    def save(self):
        if not self._is_worker():
            self.oracle.save()
        write(self._get_tuner_fname(), json.dumps(self.get_state()))

    def on_epoch_end(self, trial, model, epoch, logs=None):
        super().on_epoch_end(trial, model, epoch, logs)
        self._finished += 1

    def _populate_initial_space(self):
        # Keras Tuner would also build the model with the defaults, to find undeclared
        # hyperparameters. There are none, and the model may refuse this combination.
        hp = self.oracle.get_space()
        self.hypermodel.declare_hyperparameters(hp)
        self.oracle.update_space(hp)

    def _get_tuner_fname(self):
        # Keras Tuner resumes a search if this file exists. Its name holds the tuner's, so a search
        # that began alone would start over with a chief.
        if self._is_worker():
            return super()._get_tuner_fname()
        return os.path.join(self.project_dir, "tuner.json")


def _reason(error):
    """The first line of an error's message, after its type unless the hypermodel raised it."""
    # TensorFlow puts colours and names of functions around its messages.
    text = first_line(Exception(re.sub(r"\x1b\[\d*m|\{\{.*?\}\} *", "", str(error))))
    known = isinstance(error, keras_tuner.errors.FailedTrialError)
    return text if known else f"{type(error).__name__}: {text}"


class _RandomSearch(_Recorded, keras_tuner.RandomSearch):
    pass


class _BayesianOptimization(_Recorded, keras_tuner.BayesianOptimization):
    pass


class _Hyperband(_Recorded, keras_tuner.Hyperband):
    def _build_hypermodel(self, hp):
        with warnings.catch_warnings():
            # A later round takes the weights of an earlier one, with a new optimiser.
            warnings.filterwarnings("ignore", message="Skipping variable loading for optimizer")
            return super()._build_hypermodel(hp)


def make_tuner(
    hypermodel: Any,
    folder: PathLike,
    *,
    algorithm: str,
    objective: str,
    max_trials: int,
    iterations: int,
) -> Any:
    """Makes a tuner, which resumes the search in the folder if there is one.

    Args:
        hypermodel: a `PNCNNHyperModel`. Its recipe's seed is the seed of the search, and its epochs
            are Hyperband's maximum.
        folder: folder of Keras Tuner's files.
        algorithm: one of `ALGORITHMS`.
        objective: a key of `OBJECTIVES`.
        max_trials: number of trials of "random" and "bayesian". "bayesian" draws the first quarter
            at random, at least two. (Keras Tuner's default is three for each hyperparameter, which
            is more than most searches have.)
        iterations: how often "hyperband" runs all its brackets.
    """
    settings = hypermodel.base.sections["training"]
    folder = Path(folder)
    shared = {
        "hypermodel": hypermodel,
        "objective": keras_tuner.Objective(objective, OBJECTIVES[objective]),
        "seed": settings["seed"] + 1,  # Keras Tuner draws a seed in place of 0.
        "max_consecutive_failed_trials": math.inf,
        "directory": str(folder.parent),
        "project_name": folder.name,
    }
    if algorithm == "hyperband":
        of_algorithm = {"max_epochs": settings["epochs"], "hyperband_iterations": iterations}
        tuner = _Hyperband(**shared, **of_algorithm)
    elif algorithm == "bayesian":
        points = max(2, max_trials // 4)
        tuner = _BayesianOptimization(**shared, max_trials=max_trials, num_initial_points=points)
    else:
        tuner = _RandomSearch(**shared, max_trials=max_trials)
    if isinstance(tuner.oracle, keras_tuner.Oracle):  # a worker has a stand-in instead
        _write_whole(tuner.oracle)
    return tuner


def _write_whole(oracle):
    """Makes an oracle write whole files: Keras Tuner empties a file before it writes it."""

    def save():
        write(oracle._get_oracle_fname(), json.dumps(oracle.get_state()))

    def save_trial(trial):
        path = Path(oracle._get_trial_dir(trial.trial_id)) / "trial.json"
        write(path, json.dumps(trial.get_state()))

    oracle.save, oracle._save_trial = save, save_trial


def read_outcome(path: PathLike) -> dict[str, Any]:
    """The record of a trial, or an empty dict."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
