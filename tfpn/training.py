"""Training runs: a resolved recipe in, a folder with model, log and result out.

A run survives being killed. After each epoch the weights, the optimiser's state and the number of
finished epochs are written together by one atomic rename, and the order of an epoch's examples
and their augmentation depend on the seed and the epoch's number only, so a resumed run repeats what
the uninterrupted run would have done.
"""

import csv
import importlib
import importlib.util
import json
import math
import os
import re
import sys
import time
import zipfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from tfpn import augmentation, recipes

RECIPE, LOG, MODEL, RESULT, BACKUP = (
    "recipe.toml",
    "log.csv",
    "model.keras",
    "result.json",
    "backup",
)
CURVES, FEATURE_MAPS = "curves.png", "feature_maps.png"


class RunError(Exception):
    """A run that cannot start or go on; the message says what was found and what to do."""


class TrainingDiverged(RunError):
    """The loss became NaN or infinite."""


class ShuffledBatches(keras.utils.PyDataset):
    """Batches of a data set, in an order and jittered as the seed and the epoch alone determine.

    Args:
        x: dict of arrays with the examples on the first axis.
        y: labels, [examples].
        batch_size: examples a batch; the last batch of an epoch may be smaller.
        seed: non-negative integer.
        **ranges: of `tfpn.augmentation.jitter`, which is applied anew in each epoch; by default
            the examples stay as they are.

    >>> batches = ShuffledBatches({"values": np.arange(5.0)}, np.arange(5), 2, seed=0)
    >>> batches.set_epoch(3)
    >>> sorted(int(label) for batch in range(len(batches)) for label in batches[batch][1])
    [0, 1, 2, 3, 4]
    """

    def __init__(self, x, y, batch_size, seed, **ranges):
        super().__init__()
        self.x, self.y, self.batch_size, self.seed, self.ranges = x, y, batch_size, seed, ranges
        self.set_epoch(0)

    def set_epoch(self, epoch):
        """Orders and jitters the examples for the given epoch, counted from 0."""
        rng = np.random.default_rng((self.seed, epoch))
        self._order = rng.permutation(len(self.y))
        self._x = self.x
        if any(self.ranges.values()):
            self._x = augmentation.jitter(self.x, rng, **self.ranges)

    def __len__(self):
        return math.ceil(len(self.y) / self.batch_size)

    def __getitem__(self, batch):
        chosen = self._order[batch * self.batch_size : (batch + 1) * self.batch_size]
        return {key: array[chosen] for key, array in self._x.items()}, self.y[chosen]


class _Seconds(keras.callbacks.Callback):
    """Adds the seconds an epoch took to its log, so that the sum survives an interruption."""

    def on_epoch_begin(self, epoch, logs=None):
        self._start = time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        logs["seconds"] = round(time.monotonic() - self._start, 3)


class _StopOnNaN(keras.callbacks.TerminateOnNaN):
    """Keras's callback, raising before the broken weights can replace the last good backup."""

    def __init__(self):
        super().__init__(raise_error=True)

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_batch_end(self, batch, logs=None):
        try:
            super().on_batch_end(batch, logs)
        except RuntimeError as error:
            raise TrainingDiverged(
                f"the loss became {logs['loss']} in epoch {self._epoch + 1}, batch {batch + 1}; "
                "lower training.learning_rate or check the data"
            ) from error

    def on_epoch_end(self, epoch, logs=None):
        if not math.isfinite(logs.get("val_loss", 0.0)):
            raise TrainingDiverged(
                f"the validation loss became {logs['val_loss']} in epoch {epoch + 1}; "
                "lower training.learning_rate or check the data"
            )


class _Backup(keras.callbacks.Callback):
    """Writes weights and optimiser state after each epoch.

    `keras.callbacks.BackupAndRestore` keeps the epoch's number in a second file: a kill between
    the two writes would train an epoch twice. Here the number is part of the file's name.
    """

    def __init__(self, folder):
        super().__init__()
        self.folder = Path(folder)

    def on_epoch_end(self, epoch, logs=None):
        self.folder.mkdir(exist_ok=True)
        partial = self.folder / "partial.weights.h5"
        self.model.save_weights(partial)
        final = self.folder / f"epoch-{epoch + 1:05d}.weights.h5"
        os.replace(partial, final)
        for path in _backups(self.folder):
            if path != final:
                path.unlink()


def _backups(folder):
    return sorted(Path(folder).glob("epoch-*.weights.h5"))


def _restore(model, folder):
    """Loads the last backup, if there is one, and returns the number of finished epochs."""
    backups = _backups(folder)
    if not backups:
        return 0
    # The optimiser's variables have to exist before their values can be loaded.
    model.optimizer.build(model.trainable_variables)
    try:
        model.load_weights(backups[-1])
    except Exception as error:  # A damaged file fails in HDF5 or anywhere in Keras.
        raise RunError(
            f"{backups[-1]} is damaged or not a backup of this model ({_first_line(error)}); "
            "train anew with --overwrite"
        ) from error
    return int(backups[-1].name.split("-")[1].split(".")[0])


def _trim_log(path, epochs):
    """Drops the log's rows of epochs that the backup does not hold (counted from 0)."""
    cure = "put the run's own log back, or train anew with --overwrite"
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = lines[:1] + [
            line for line in lines[1:] if line.endswith("\n") and int(line.split(",")[0]) < epochs
        ]
        columns = _columns(kept)
        whole = columns["epoch"] == list(range(epochs)) and "seconds" in columns
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}; {cure}") from error
    except (ValueError, TypeError, KeyError, IndexError, csv.Error) as error:
        raise RunError(f"{path} is not the log of a run; {cure}") from error
    if not whole:
        raise RunError(f"{path} does not hold the {epochs} epochs of the backup; {cure}")
    path.write_text("".join(kept), encoding="utf-8")


def _columns(lines):
    """A dict from column name to floats, out of the lines of a log."""
    rows = list(csv.DictReader(lines))
    return {key: [float(row[key]) for row in rows] for key in rows[0]} if rows else {}


def read_log(path):
    """Reads a run's log.csv.

    Args:
        path: the file, as `keras.callbacks.CSVLogger` writes it.

    Returns:
        A dict from column name to a list of floats, one entry an epoch.

    Raises:
        RunError: the file is missing, is not such a log, or holds no epoch.
    """
    try:
        with open(path, newline="", encoding="utf-8") as file:
            columns = _columns(file)
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, TypeError, csv.Error) as error:
        raise RunError(f"{path} is not the log of a run; delete it or put the log back") from error
    if not columns:
        raise RunError(f"{path} holds no finished epoch")
    return columns


def list_gpus():
    """The GPUs TensorFlow sees, with memory growth switched on so that a GPU can be shared."""
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        try:
            tf.config.experimental.set_memory_growth(gpu, True)
        except RuntimeError as error:  # TensorFlow has already taken the GPU's memory.
            print(f"memory growth not set: {error}", file=sys.stderr)
    return gpus


def _open_folder(recipe, folder, resume, overwrite):
    """Makes the run folder ready: refuses to mix runs, clears a run that is to be replaced."""
    if folder.exists() and not folder.is_dir():
        raise RunError(f"--output: found the file {folder}; give a folder")
    try:
        _prepare_folder(recipe, folder, resume, overwrite)
    except OSError as error:
        raise RunError(
            f"--output: cannot write the run folder {folder} ({error.strerror}); give a folder "
            "that can be made and written"
        ) from error


def _prepare_folder(recipe, folder, resume, overwrite):
    path = folder / RECIPE
    if not path.exists():
        if folder.exists() and any(folder.iterdir()):
            raise RunError(f"{folder} is not empty and holds no run; give another --output")
        if resume:
            print(f"no run in {folder} yet: starting one", file=sys.stderr)
    elif overwrite:
        for name in (LOG, MODEL, RESULT, CURVES, FEATURE_MAPS):
            (folder / name).unlink(missing_ok=True)
        for backup in _backups(folder / BACKUP):
            backup.unlink()
    elif resume:
        changes = recipes.differences(recipes.load(path), recipe)
        if changes:
            raise RunError(
                f"cannot resume {folder} with another recipe: {'; '.join(changes)}. "
                "Use the run's own values, or --overwrite to start anew"
            )
    else:
        raise RunError(
            f"{folder} already holds a run; continue it with --resume, replace it with "
            "--overwrite, or give another --output"
        )
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / (RECIPE + ".partial")
    partial.write_text(recipes.dumps(recipe), encoding="utf-8")
    os.replace(partial, path)


def _batches(recipe, part):
    training, ranges = recipe.sections["training"], recipe.sections["augmentation"]
    try:
        return ShuffledBatches(part.x, part.y, training["batch_size"], training["seed"], **ranges)
    except ValueError as error:
        raise recipes.RecipeError(f"[augmentation] {error}") from error


def _compile(model, training, steps):
    rate = training["learning_rate"]
    if training["schedule"] == "cosine":
        rate = keras.optimizers.schedules.CosineDecay(rate, training["epochs"] * steps)
    model.compile(
        optimizer=keras.optimizers.Adam(rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )


def train(recipe, folder, *, resume=False, overwrite=False, verbose="auto"):
    """Trains the model of a recipe and writes a run folder.

    The folder receives recipe.toml (with every default written out), log.csv, backup/,
    model.keras, result.json, and the pictures curves.png and feature_maps.png if matplotlib is
    installed.

    Args:
        recipe: a `tfpn.recipes.Recipe`.
        folder: the run folder; made if it does not exist.
        resume: go on after the last finished epoch of the run in `folder`. The recipe must be the
            run's own. Where there is no run yet, one is started.
        overwrite: replace the run in `folder`.
        verbose: as in `keras.Model.fit`.

    Returns:
        A dict: recipe, test_error, test_accuracy and validation_accuracy (fractions), test_nll
        (nats per example), parameters, epochs, seconds (all epochs, also those before a resume),
        seed, run (the folder).

    Raises:
        RecipeError: the recipe is not usable.
        RunError: the folder holds a run and neither `resume` nor `overwrite` is given, the recipe
            of a resumed run has changed, or the data set lacks a validation or test part.
        TrainingDiverged: the loss became NaN or infinite. The backup of the last good epoch stays.

    Example:

    >>> import tempfile
    >>> recipe = recipes.load("digits")
    >>> small = ("training.epochs=1", "data.views=1", "model.num_blocks=1", "model.channels=4")
    >>> for value in small:
    ...     recipes.override(recipe, value)
    >>> folder = tempfile.mkdtemp()
    >>> result = train(recipe, folder, verbose=0)
    >>> model, recipe = load_run(folder)
    >>> data = recipes.load_data(recipe)
    >>> evaluate(model, data.test)["accuracy"] == result["test_accuracy"]
    True
    """
    folder = Path(folder)
    recipe = recipes.resolve(recipe)
    training = recipe.sections["training"]
    keras.utils.set_random_seed(training["seed"])
    data = recipes.load_data(recipe)
    for part in ("validation", "test"):
        if getattr(data, part) is None:
            raise RunError(
                f"the data set has no {part} part; give [data] a {part}_fraction above 0"
            )
    model = recipes.build_model(recipe)
    recipes.check_data(recipe, model, data)
    batches = _batches(recipe, data.train)
    _open_folder(recipe, folder, resume, overwrite)

    model.adapt(data.train.x)
    _compile(model, training, len(batches))
    finished = _restore(model, folder / BACKUP)
    log = folder / LOG
    if finished:
        _trim_log(log, finished)
    if finished < training["epochs"]:
        _fit(model, batches, data.validation, training, folder, finished, verbose)
    model.save(folder / MODEL)
    result = _result(recipe, folder, model, data)
    (folder / RESULT).write_text(json.dumps(result, indent=2) + "\n")
    _draw(folder, model, data)
    return result


def _fit(model, batches, validation, training, folder, finished, verbose):
    callbacks = [
        keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: batches.set_epoch(epoch)),
        _Seconds(),
        _StopOnNaN(),
        # The log before the backup: a row too many can be dropped when resuming.
        keras.callbacks.CSVLogger(folder / LOG, append=finished > 0),
        _Backup(folder / BACKUP),
    ]
    try:
        model.fit(
            batches,
            shuffle=False,  # The batches come in their epoch's order already.
            epochs=training["epochs"],
            initial_epoch=finished,
            validation_data=(validation.x, validation.y),
            validation_batch_size=training["batch_size"],
            callbacks=callbacks,
            verbose=verbose,
        )
    except tf.errors.InvalidArgumentError as error:
        reason = layer_message(error)
        if reason is None or "not finite" not in reason:
            raise
        raise TrainingDiverged(
            f"{reason}; lower training.learning_rate or check the data"
        ) from error


def layer_message(error):
    """The sentence in which a layer says what is wrong, out of TensorFlow's report.

    Args:
        error: a `tf.errors.InvalidArgumentError`.

    Returns:
        The sentence, or None if the error is not one of the layers' own checks.
    """
    signs = ("Use noise='channel'", "not finite", "NaN")
    for line in error.message.replace("\\'", "'").splitlines():
        if any(sign in line for sign in signs):
            # The frame that TensorFlow puts around it in a graph, in eager mode, and for a number.
            frame = (
                r"^.*(assertion failed: \[|Summarized data: b[\"'])|([\]\"']\S*| : Tensor had .*)$"
            )
            return re.sub(frame, "", line.strip())
    return None


def _result(recipe, folder, model, data):
    training = recipe.sections["training"]
    test = evaluate(model, data.test, batch_size=training["batch_size"])
    validation = evaluate(model, data.validation, batch_size=training["batch_size"])
    return {
        "recipe": recipe.name,
        "test_error": test["error"],
        "test_accuracy": test["accuracy"],
        "test_nll": test["nll"],
        "validation_accuracy": validation["accuracy"],
        "parameters": model.count_params(),
        "epochs": training["epochs"],
        "seconds": round(sum(read_log(folder / LOG)["seconds"]), 1),
        "seed": training["seed"],
        "run": str(folder),
    }


def _draw(folder, model, data):
    if importlib.util.find_spec("matplotlib") is None:
        print("no pictures: install 'tfpn[plots]' for matplotlib", file=sys.stderr)
        return
    from tfpn import figures

    figures.save(figures.learning_curves(read_log(folder / LOG)), folder / CURVES)
    examples = {key: array[:4] for key, array in data.test.x.items()}
    if examples["points"].shape[-1] <= 2:
        figures.save(figures.feature_maps(model, examples), folder / FEATURE_MAPS)


def evaluate(model, part, *, batch_size=50):
    """Measures a classifier on one part of a data set (see `train` for an example).

    Args:
        model: a compiled or uncompiled Keras model whose output is logits [examples, classes].
        part: has `.x` (the observations) and `.y` (integer labels [examples]).
        batch_size: examples a batch.

    Returns:
        A dict: accuracy and error (fractions), nll (mean negative log likelihood of the true
        class, nats), examples.

    Raises:
        RunError: a logit is NaN or infinite.
    """
    logits = model.predict(part.x, batch_size=batch_size, verbose=0)
    labels = np.asarray(part.y)
    log_probabilities = _log_softmax(logits)
    correct = int(np.sum(log_probabilities.argmax(-1) == labels))
    return {
        "accuracy": correct / len(labels),
        "error": (len(labels) - correct) / len(labels),
        "nll": float(-np.mean(log_probabilities[np.arange(len(labels)), labels])),
        "examples": len(labels),
    }


def probabilities(logits):
    """Class probabilities, the softmax of logits [..., classes], in float64.

    Raises:
        RunError: a logit is NaN or infinite.

    >>> probabilities([[0.0, 0.0]])
    array([[0.5, 0.5]])
    """
    return np.exp(_log_softmax(logits))


def _log_softmax(logits):
    logits = np.asarray(logits, dtype=np.float64)
    if not np.isfinite(logits).all():
        raise RunError("the model's logits are not finite; its weights are broken")
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def load_run(run):
    """Loads a trained model and its recipe (see `train` for an example).

    Args:
        run: a run folder, a .keras file with recipe.toml next to it, or the name of a reference
            model.

    Returns:
        The Keras model and the `tfpn.recipes.Recipe`.

    Raises:
        RunError: no model or no recipe is found there, or the file is not the recipe's model.
        RecipeError: the recipe next to it cannot be read.
    """
    importlib.import_module("tfpn.models")  # Registers the model classes with Keras.
    path = Path(run)
    if not path.exists() and str(run) in recipes.names():
        path = recipes.models_folder() / run
    if path.is_dir():
        path = path / MODEL
    if not path.is_file() or path.suffix != ".keras":
        raise RunError(
            f"no model found at {run}; give a run folder that holds {MODEL}, or a .keras file"
        )
    if not (path.parent / RECIPE).is_file():
        raise RunError(
            f"{path} has no {RECIPE} next to it; give a run folder of `tfpn train`, or the {MODEL} "
            "inside one"
        )
    recipe = recipes.load(path.parent / RECIPE)
    wanted = recipes.model_class(recipe)
    try:
        model = keras.models.load_model(path)
    except Exception as error:  # A damaged file fails in zip, JSON, HDF5 or anywhere in Keras.
        # Keras says "file not found" of a file that is there but no archive.
        reason = _first_line(error) if zipfile.is_zipfile(path) else "not a zip archive"
        raise RunError(
            f"{path} is damaged or not a saved model ({reason}); copy it again, or "
            "write it anew with `tfpn train --resume`"
        ) from error
    if not isinstance(model, wanted):
        raise RunError(
            f"{path} holds a {type(model).__name__}, not the {wanted.__name__} of its {RECIPE}; "
            f"give a run folder of `tfpn train`, or the {MODEL} inside one"
        )
    return model, recipe


def _first_line(error):
    lines = str(error).splitlines()
    return lines[0][:200].rstrip(".: ") if lines else type(error).__name__
