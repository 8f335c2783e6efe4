"""Trains the model of a recipe."""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tfpn import recipes
from tfpn.files import write
from tfpn.progress import quiet_if
from tfpn.training import strategies
from tfpn.training.backup import Backup, restore
from tfpn.training.callbacks import EarlyStopping
from tfpn.training.errors import RunError
from tfpn.training.fitting import fit_model
from tfpn.training.folder import (
    BACKUP,
    CURVES,
    LOG,
    MODEL,
    RESULT,
    load_run,
    open_folder,
)
from tfpn.training.log import EpochLog, read_log, trim_log
from tfpn.training.tasks import task_of
from tfpn.types import PathLike, Verbose


def list_gpus() -> list[str]:
    """The GPUs that TensorFlow sees. It switches on memory growth, so that you can share a GPU."""
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        try:
            tf.config.experimental.set_memory_growth(gpu, True)
        except RuntimeError as error:  # TensorFlow already holds the GPU's memory.
            print(f"memory growth not set: {error}", file=sys.stderr)
    return gpus


def train(
    recipe: recipes.Recipe,
    folder: PathLike,
    *,
    resume: bool = False,
    overwrite: bool = False,
    verbose: Verbose = "auto",
    strategy: Any = None,
) -> dict[str, Any] | None:
    """Trains the model of a recipe and writes a run folder.

    The folder receives recipe.toml (with every default), log.csv, backup/, model.keras and
    result.json. For a table it also receives table.json, the checksum of the table, and for a field
    map.nc or series.nc. With matplotlib it receives pictures: curves.png, for a classifier
    reliability.png and feature_maps.png, for numbers qq.png, and for a field a map or a series.

    If the data set has no validation part, such as with ``validation_fraction=0``, all else trains,
    and log and result have no validation figures.

    Args:
        recipe: a `tfpn.recipes.Recipe`.
        folder: the run folder. It is made if it does not exist.
        resume: go on after the last finished epoch of the run in `folder`. The recipe must be the
            run's own. If there is no run yet, one starts.
        overwrite: replace the run in `folder`.
        verbose: as in `keras.Model.fit`. 0 also leaves out how the data set was made, and the
            progress of what comes before and after the epochs.
        strategy: a `tf.distribute.Strategy` over devices or machines, such as
            `tfpn.training.make_strategy` makes. The default is one device. The chief of several
            workers writes the run folder. All of them have to see it for `resume`.

    Returns:
        A dict: recipe, figures of the test and validation parts, parameters, epochs (trained),
        seconds (of all epochs, including those before a resume), seed and run (the folder). For a
        classifier the figures are test_error, test_accuracy and validation_accuracy (fractions),
        test_nll (nats per example), test_brier, test_ece and, for two classes, test_auroc,
        test_average_precision and the same of the validation part
        (`tfpn.evaluation.classification_metrics`). For numbers and fields they are test_ and
        validation_ with rmse, mae, nll, crps and coverage_95
        (`tfpn.evaluation.regression_metrics`). For several numbers test_by_target and
        validation_by_target hold those of each; the others then mix their units. Workers other than
        the chief return None.

    Raises:
        RecipeError: if the recipe is not usable, or has a `patience` without a validation part.
        RunError: if the folder holds a run and neither `resume` nor `overwrite` is given; if the
            recipe or the table of a resumed run has changed; if a classifier's data set has no test
            part; or if the workers do not see the same run folder.
        TrainingDiverged: if the loss becomes NaN or infinite. The backup of the last good epoch
            stays.

    Example:

    >>> import tempfile
    >>> from tfpn.training import evaluate, load_run
    >>> recipe = recipes.load("digits")
    >>> few = ("data.keep=9", "data.views=1", "data.test_fraction=0.85", "training.epochs=1")
    >>> for value in (*few, "model.num_blocks=1", "model.channels=4"):
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
    strategy = strategy or tf.distribute.get_strategy()
    keras.utils.set_random_seed(recipe.sections["training"]["seed"])
    verbose = verbose if strategies.is_chief(strategy) else 0
    with quiet_if(verbose):
        data = _load_data(recipe)
        if verbose:
            print(data.description, file=sys.stderr)
        with strategies.work_folder(strategy, folder) as place:
            with strategy.scope():
                model = _trained(recipe, data, place, resume, overwrite, verbose, strategy)
            model.save(place / MODEL)
            result = None
            if strategies.is_chief(strategy):
                if strategy is not tf.distribute.get_strategy():
                    model, _ = load_run(folder)  # one device measures it
                result = _measured(recipe, folder, model, data)
            strategies.leave_together(strategy)
    return result


def _load_data(recipe):
    """Loads the data set of a recipe and checks its parts."""
    training = recipe.sections["training"]
    data = recipes.load_data(recipe)
    if data.test is None and task_of(data).needs_test:
        raise RunError("the data set has no test part; give [data] a test_fraction above 0")
    if data.validation is None and training["patience"]:
        raise recipes.RecipeError(
            f"{recipe.origin('training', 'patience')}: training.patience: found "
            f"{training['patience']}, but the data set has no validation part to stop by; give 0, "
            "or [data] a validation_fraction above 0"
        )
    return data


def _trained(recipe, data, folder, resume, overwrite, verbose, strategy):
    """Builds and trains the model in the strategy's scope."""
    training, task = recipe.sections["training"], task_of(data)
    model = recipes.build_model(recipe)
    recipes.check_data(recipe, model, data)
    batches = task.batches(recipe, model, data)
    open_folder(recipe, folder, resume, overwrite, data)

    try:
        task.adapt(model, data, verbose)
    except ValueError as error:
        raise RunError(f"the model cannot start from these data: {error}") from error
    if training["epochs"]:
        task.compile(model, training, len(batches))
    finished = restore(model, folder / BACKUP)
    strategies.check_agreement(strategy, finished)
    log = folder / LOG
    if finished:
        trim_log(log, finished)
    stopping = _early_stopping(training, folder, log if finished else None)
    if finished < training["epochs"] and not (stopping and stopping.ended):
        held_out = task.held_out(model, data.validation)
        callbacks = [
            # The log comes before the backup: a resumed run can drop a row too many.
            EpochLog(log, append=finished > 0),
            # The best weights come before the backup: a repeated epoch finds them again.
            *([stopping] if stopping else []),
            Backup(folder / BACKUP),
        ]
        fit_model(
            model,
            batches,
            held_out,
            training,
            callbacks=callbacks,
            initial_epoch=finished,
            verbose=verbose,
        )
    if stopping:
        stopping.restore(model)
    task.finish(model, data, training["batch_size"])
    return model


def _measured(recipe, folder, model, data):
    """Writes the result and the pictures of a trained model, and returns the result."""
    task, size = task_of(data), recipe.sections["training"]["batch_size"]
    test = data.test and task.predictions(model, data.test, size)
    result = _result(recipe, folder, model, data, test)
    write(folder / RESULT, json.dumps(result, indent=2) + "\n")
    _draw(folder, model, data, test)
    return result


def _draw(folder, model, data, predictions):
    """Writes the pictures, and a field on a grid."""
    if importlib.util.find_spec("matplotlib") is None:
        print("no pictures: install 'tfpn[plots]' for matplotlib", file=sys.stderr)
        task_of(data).write(folder, model, data)
        return
    from tfpn import figures

    if (folder / LOG).exists():
        figures.save(figures.learning_curves(read_log(folder / LOG)), folder / CURVES)
    task_of(data).draw(folder, model, data, predictions)


def _early_stopping(training, folder, log):
    """The callback, or None without patience; ``log`` is that of the finished epochs, or None."""
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


def _result(recipe, folder, model, data, predictions):
    training, task = recipe.sections["training"], task_of(data)
    test = task.figures(predictions, data.test) if data.test else {}
    validation = {}
    if data.validation is not None:
        size = training["batch_size"]
        validation = task.figures(task.predictions(model, data.validation, size), data.validation)
    log = read_log(folder / LOG) if (folder / LOG).exists() else {"epoch": [], "seconds": []}
    return {
        "recipe": recipe.name,
        **_named("test", test, task.shown),
        **_named("validation", validation, task.chosen),
        "parameters": model.count_params(),
        "epochs": len(log["epoch"]),
        "seconds": round(sum(log["seconds"]), 1),
        "seed": training["seed"],
        "run": str(folder),
    }


def _named(part, figures, names):
    """Some figures of a part by their names in the result; with several numbers, those of each."""
    return {f"{part}_{key}": figures[key] for key in (*names, "by_target") if key in figures}
