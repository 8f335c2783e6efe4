"""Trains the model of a recipe."""

import importlib.util
import json
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from tfpn import evaluation, recipes
from tfpn.metrics import BinaryAUC
from tfpn.training.backup import Backup, restore
from tfpn.training.batches import CutBatches, ShuffledBatches
from tfpn.training.callbacks import EarlyStopping, EpochSeconds, StopOnNaN
from tfpn.training.errors import RunError, TrainingDiverged, layer_message
from tfpn.training.evaluation import class_probabilities, evaluate
from tfpn.training.folder import (
    BACKUP,
    CURVES,
    FEATURE_MAPS,
    LOG,
    MODEL,
    RELIABILITY,
    RESULT,
    open_folder,
)
from tfpn.training.log import read_log, trim_log


def list_gpus():
    """The GPUs TensorFlow sees, with memory growth switched on so that a GPU can be shared."""
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        try:
            tf.config.experimental.set_memory_growth(gpu, True)
        except RuntimeError as error:  # TensorFlow has already taken the GPU's memory.
            print(f"memory growth not set: {error}", file=sys.stderr)
    return gpus


def train(recipe, folder, *, resume=False, overwrite=False, verbose="auto"):
    """Trains the model of a recipe and writes a run folder.

    The folder receives recipe.toml (with every default written out), log.csv, backup/,
    model.keras, result.json, and the pictures curves.png, reliability.png and feature_maps.png if
    matplotlib is installed.

    Args:
        recipe: a `tfpn.recipes.Recipe`.
        folder: the run folder; made if it does not exist.
        resume: go on after the last finished epoch of the run in `folder`. The recipe must be the
            run's own. Where there is no run yet, one is started.
        overwrite: replace the run in `folder`.
        verbose: as in `keras.Model.fit`.

    Returns:
        A dict: recipe, test_error, test_accuracy and validation_accuracy (fractions), test_nll
        (nats per example), test_brier and test_ece, for two classes test_auroc,
        test_average_precision and the same of the validation part
        (`tfpn.evaluation.classification_metrics`), parameters, epochs (trained), seconds (all
        epochs, also those before a resume), seed, run (the folder).

    Raises:
        RecipeError: the recipe is not usable.
        RunError: the folder holds a run and neither `resume` nor `overwrite` is given, the recipe
            of a resumed run has changed, or the data set lacks a validation or test part.
        TrainingDiverged: the loss became NaN or infinite. The backup of the last good epoch stays.

    Example:

    >>> import tempfile
    >>> from tfpn.training import load_run
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
    batches = _batches(recipe, model, data.train)
    open_folder(recipe, folder, resume, overwrite)

    model.adapt(data.train.x)
    _compile(model, training, len(batches))
    finished = restore(model, folder / BACKUP)
    log = folder / LOG
    if finished:
        trim_log(log, finished)
    stopping = _early_stopping(training, folder, log if finished else None)
    if finished < training["epochs"] and not (stopping and stopping.ended):
        _fit(model, batches, data.validation, training, folder, finished, stopping, verbose)
    if stopping:
        stopping.restore(model)
    model.save(folder / MODEL)
    test = class_probabilities(
        model, recipes.model_inputs(model, data.test), batch_size=training["batch_size"]
    )
    result = _result(recipe, folder, model, data, test)
    (folder / RESULT).write_text(json.dumps(result, indent=2) + "\n")
    _draw(folder, model, data, test)
    return result


def _batches(recipe, model, part):
    training, ranges = recipe.sections["training"], recipe.sections["augmentation"]
    options = {key: training[key] for key in ("batch_size", "seed", "by_length")}
    try:
        return ShuffledBatches(recipes.model_inputs(model, part), part.y, **options, **ranges)
    except ValueError as error:
        raise recipes.RecipeError(f"[augmentation] {error}") from error


def _compile(model, training, steps):
    rate = training["learning_rate"]
    if training["schedule"] == "cosine":
        rate = keras.optimizers.schedules.CosineDecay(rate, training["epochs"] * steps)
    model.compile(
        optimizer=keras.optimizers.Adam(rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy", *_ranking_metrics(model)],
    )


def _ranking_metrics(model):
    if model.output.shape[-1] != 2:
        return []
    curves = (("auroc", "ROC"), ("average_precision", "PR"))
    return [BinaryAUC(curve=curve, name=name) for name, curve in curves]


def _early_stopping(training, folder, log):
    """The callback, if the recipe asks for one; ``log`` is that of the finished epochs or None."""
    if not training["patience"]:
        return None
    monitor = training["monitor"]
    history = []
    if log is not None:
        columns = read_log(log)
        if monitor not in columns:
            raise RunError(
                f"{log} has no column {monitor}, which training.monitor names; put the run's own "
                "log back, or train anew with --overwrite"
            )
        history = columns[monitor]
    return EarlyStopping(folder / BACKUP, monitor, training["patience"], history)


def _fit(model, batches, validation, training, folder, finished, stopping, verbose):
    inputs = recipes.model_inputs(model, validation)
    held_out = {
        "validation_data": (inputs, validation.y),
        "validation_batch_size": training["batch_size"],
    }
    if training["by_length"]:
        held_out = {"validation_data": CutBatches(inputs, validation.y, training["batch_size"])}
    callbacks = [
        keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: batches.set_epoch(epoch)),
        EpochSeconds(),
        StopOnNaN(),
        # The log before the backup: a row too many can be dropped when resuming.
        keras.callbacks.CSVLogger(folder / LOG, append=finished > 0),
        # The best weights before the backup: an epoch that is trained again finds them again.
        *([stopping] if stopping else []),
        Backup(folder / BACKUP),
    ]
    try:
        model.fit(
            batches,
            shuffle=False,  # The batches come in their epoch's order already.
            epochs=training["epochs"],
            initial_epoch=finished,
            **held_out,
            class_weight=dict(enumerate(training["class_weight"])) or None,
            callbacks=callbacks,
            verbose=verbose,
        )
    except tf.errors.InvalidArgumentError as error:
        reason = layer_message(error)
        if reason is None or not any(sign in reason for sign in ("not finite", "or NaN")):
            raise
        raise TrainingDiverged(
            f"{reason}; lower training.learning_rate or check the data"
        ) from error


def _result(recipe, folder, model, data, test_probabilities):
    training = recipe.sections["training"]
    test = evaluation.classification_metrics(test_probabilities, data.test.y)
    validation = evaluate(model, data.validation, batch_size=training["batch_size"])
    shown = ("error", "accuracy", "nll", "brier", "ece", "auroc", "average_precision")
    chosen = ("accuracy", "auroc", "average_precision")
    return {
        "recipe": recipe.name,
        **{f"test_{key}": test[key] for key in shown if key in test},
        **{f"validation_{key}": validation[key] for key in chosen if key in validation},
        "parameters": model.count_params(),
        "epochs": len(read_log(folder / LOG)["epoch"]),
        "seconds": round(sum(read_log(folder / LOG)["seconds"]), 1),
        "seed": training["seed"],
        "run": str(folder),
    }


def _draw(folder, model, data, test_probabilities):
    if importlib.util.find_spec("matplotlib") is None:
        print("no pictures: install 'tfpn[plots]' for matplotlib", file=sys.stderr)
        return
    from tfpn import figures

    figures.save(figures.learning_curves(read_log(folder / LOG)), folder / CURVES)
    diagram = figures.reliability_diagram(test_probabilities, data.test.y)
    figures.save(diagram, folder / RELIABILITY)
    seen = np.flatnonzero(np.isfinite(data.test.x["variance"]).any((1, 2)))
    examples = {key: array[seen[:4]] for key, array in data.test.x.items()}
    if len(seen) and examples["points"].shape[-1] <= 2:
        figures.save(figures.feature_maps(model, examples), folder / FEATURE_MAPS)
