"""A whole search: its folder, its trials, and the final training on all data."""

import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc

from tfpn import recipes, training
from tfpn.files import partial_files, write
from tfpn.progress import quiet_if
from tfpn.tuning import results
from tfpn.tuning import space as spaces
from tfpn.tuning.hypermodel import PNCNNHyperModel
from tfpn.tuning.tuners import ALGORITHMS, OBJECTIVES, make_tuner
from tfpn.types import PathLike, Verbose

SEARCH, TRIALS, TABLE, PLOT, BEST, FINAL = (
    "search.json",
    "trials",
    "results.csv",
    "results.png",
    "best.toml",
    "final",
)
_ADDRESS = ("KERASTUNER_ORACLE_IP", "KERASTUNER_ORACLE_PORT", "KERASTUNER_TUNER_ID")


def tune(
    recipe: recipes.Recipe | PathLike,
    folder: PathLike,
    *,
    space: Mapping[str, Any] | None = None,
    algorithm: str = "hyperband",
    objective: str = "val_nll",
    max_trials: int = 20,
    iterations: int = 1,
    final: bool = True,
    resume: bool = False,
    overwrite: bool = False,
    verbose: Verbose = "auto",
) -> dict[str, Any]:
    """Searches for the hyperparameters of a recipe, and trains the best on all data.

    The trials train on the training part, and the validation part gives their scores. No trial sees
    the test part. Then the recipe of the best trial trains on both parts together, by its loader's
    ``validation_fraction=0``, and the test part measures it.

    The folder receives recipe.toml and search.json (the recipe and the search space), trials/
    (Keras Tuner's files), results.csv and results.png (the trials), best.toml (a recipe), final/
    (the run folder of the last training) and result.json.

    Several processes that share the folder can run one search. Set the environment variables
    KERASTUNER_ORACLE_IP and KERASTUNER_ORACLE_PORT. Set KERASTUNER_TUNER_ID to "chief" in one
    process, and to other names in the workers. The chief writes the results.

    Args:
        recipe: a `tfpn.recipes.Recipe`, a name or the path of a TOML file.
        folder: the search's folder. It is made if it does not exist.
        space: as in `PNCNNHyperModel`.
        algorithm: "hyperband", "random" or "bayesian".
        objective: the score of a trial's last epoch: "val_nll", "val_accuracy" or, for two classes,
            "val_auroc" or "val_average_precision".
        max_trials: number of trials of "random" and "bayesian". You can resume a finished search
            with a larger number.
        iterations: how often "hyperband" runs all its brackets. It trains a model for at most the
            recipe's epochs.
        final: whether to train the best recipe at the end.
        resume: go on with the search in the folder. Finished trials are not repeated.
        overwrite: replace the search in the folder.
        verbose: as in `keras.Model.fit`.

    Returns:
        A dict: recipe, algorithm, objective, best_score, best_trial, best (hyperparameters),
        trials, completed, failed, final (the result of `tfpn.training.train`, or None) and search
        (the folder). For a worker: worker (its name), trials (its number of trials) and search.

    Raises:
        RecipeError: if the recipe or the search space is not usable.
        RunError: if the folder holds a search and neither ``resume`` nor ``overwrite`` is given; if
            that search has another recipe, table or search space; or if no trial was completed.

    Example:

    >>> import tempfile
    >>> recipe = recipes.load("digits")
    >>> few = ("data.keep=5", "data.views=1", "data.test_fraction=0.85", "training.epochs=1")
    >>> for value in (*few, "model.num_blocks=1", "model.num_basis=2", "model.uncertainty=none"):
    ...     recipes.override(recipe, value)
    >>> result = tune(
    ...     recipe, tempfile.mkdtemp(), space={"model.channels": [2, 3]}, algorithm="random",
    ...     max_trials=1, final=False, verbose=0,
    ... )
    >>> result["completed"], result["best"]["model.channels"] in (2, 3)
    (1, True)
    """
    for name, value, known in (
        ("algorithm", algorithm, ALGORITHMS),
        ("objective", objective, tuple(OBJECTIVES)),
    ):
        if value not in known:
            raise recipes.RecipeError(f"{name}: found {value!r}; give one of {', '.join(known)}")
    for name, number in (("max_trials", max_trials), ("iterations", iterations)):
        if number < 1:
            raise recipes.RecipeError(f"{name}: found {number!r}; give an integer of at least 1")
    training.list_gpus()
    folder, role = Path(folder), _role()
    hypermodel = PNCNNHyperModel(recipe, space=space)
    with quiet_if(verbose):
        data, checksum = _load(hypermodel, algorithm, objective, final)
    settings = {
        "algorithm": algorithm,
        "objective": objective,
        "iterations": iterations,
        "space": hypermodel.space,
        **({} if checksum is None else {"table_checksum": checksum}),
    }
    if role != "worker":
        _open(folder, hypermodel.base, settings, resume, overwrite)
    try:
        tuner = make_tuner(
            hypermodel,
            folder / TRIALS,
            algorithm=algorithm,
            objective=objective,
            max_trials=max_trials,
            iterations=iterations,
        )
    except json.JSONDecodeError as error:
        raise training.RunError(
            f"a file of {folder / TRIALS} is damaged ({error}); start anew with --overwrite"
        ) from error
    if role == "worker":
        return _work(tuner, folder, hypermodel, settings, data, verbose)
    # From here on the search can be resumed.
    tuner.save()
    try:
        _search(tuner, data, verbose)
    finally:
        rows = results.read_trials(tuner, hypermodel.space)
        _write_results(folder, rows, hypermodel.space, objective)
    return _finish(tuner, rows, folder, hypermodel, settings, final, verbose)


def _role():
    if _ADDRESS[0] not in os.environ:
        return "alone"
    for name in _ADDRESS[1:]:
        if name not in os.environ:
            raise training.RunError(
                f"{_ADDRESS[0]} is set, but {name} is not; set all of {', '.join(_ADDRESS)}"
            )
    return "chief" if "chief" in os.environ[_ADDRESS[2]] else "worker"


def _load(hypermodel, algorithm, objective, final):
    """Loads training and validation data as arrays, and the checksum of a table or None.

    Checks first what would fail later.
    """
    recipe = hypermodel.base
    if recipe.sections["training"]["patience"] or "training.patience" in hypermodel.space:
        raise recipes.RecipeError(
            f"{recipe.origin('training', 'patience')}: training.patience: the training on all data "
            "has no validation part to stop by; set it to 0 and search for training.epochs "
            "by --space, or use hyperband, which stops trials early"
        )
    if algorithm == "hyperband" and "training.epochs" in hypermodel.space:
        raise recipes.RecipeError(
            "search space training.epochs: hyperband chooses the epochs of its trials; leave it out"
        )
    if final and "validation_fraction" not in recipe.sections["data"]:
        raise recipes.RecipeError(
            f"[data] {recipe.sections['data'].get('name')} has no validation_fraction, which the "
            "final training on all data needs; search with --no-final"
        )
    data = recipes.load_data(recipe)
    task = training.task_of(data).name
    if task != "classification":
        raise recipes.RecipeError(
            f"[data] {recipe.sections['data']['name']}: found the task {task}; the search works "
            "for classifiers only"
        )
    if data.validation is None:
        raise training.RunError(
            "the data set has no validation part; give [data] a validation_fraction above 0"
        )
    model = recipes.build_model(recipe)
    recipes.check_data(recipe, model, data)
    if model.output.shape[-1] != 2 and objective in ("val_auroc", "val_average_precision"):
        raise recipes.RecipeError(
            f"objective: found {objective!r}, which needs two classes, but the model has "
            f"{model.output.shape[-1]}; give val_nll or val_accuracy"
        )
    parts = [(recipes.model_inputs(model, part), part.y) for part in (data.train, data.validation)]
    return parts, getattr(data, "checksum", None)


def _open(folder, recipe, settings, resume, overwrite):
    """Prepares the folder: it refuses to mix searches, and clears a search that you replace."""
    try:
        known = (folder / SEARCH).exists()
        if folder.exists() and not known and not _is_free(folder, recipe):
            raise training.RunError(
                f"--output: {folder} is a file, or holds something other than a search; give "
                "another"
            )
        if known and overwrite:
            for name in (TRIALS, FINAL):
                shutil.rmtree(folder / name, ignore_errors=True)
            for name in (TABLE, PLOT, BEST, training.RESULT):
                (folder / name).unlink(missing_ok=True)
        elif known and resume:
            _check_same(folder, recipe, settings)
            return
        elif known:
            raise training.RunError(
                f"{folder} already holds a search; continue it with --resume, replace it with "
                "--overwrite, or give another --output"
            )
        folder.mkdir(parents=True, exist_ok=True)
        for path in partial_files(folder, [training.RECIPE, SEARCH, TABLE, PLOT, BEST]):
            path.unlink()
        write(folder / training.RECIPE, recipes.dumps(recipe))
        write(folder / SEARCH, json.dumps(settings, indent=2) + "\n")
    except OSError as error:
        raise training.RunError(
            f"--output: cannot write the folder {folder} ({error.strerror}); give a folder that "
            "you can make and write"
        ) from error


def _is_free(folder, recipe):
    """Whether the folder holds no files of others.

    It may hold the files of a waiting worker, and those of the same search that was killed at its
    start.
    """
    if not folder.is_dir():
        return False
    unfinished = partial_files(folder, [training.RECIPE, SEARCH])

    def is_own(path):
        if path.name == TRIALS:
            return path.is_dir() and not any(path.iterdir())
        if path.name == training.RECIPE:
            return path.read_bytes() == recipes.dumps(recipe).encode("utf-8")
        return path in unfinished

    return all(map(is_own, folder.iterdir()))


def _check_same(folder, recipe, settings):
    """Raises RunError unless the folder's search has this recipe and search space."""
    try:
        old = json.loads((folder / SEARCH).read_text(encoding="utf-8"))
        before = recipes.load(folder / training.RECIPE)
        old_space = old.pop("space")
    except (OSError, ValueError, KeyError) as error:
        raise training.RunError(
            f"{folder} holds no search that can be resumed ({error}); start anew with --overwrite, "
            "or give the --output of the search"
        ) from error
    new = {key: value for key, value in settings.items() if key != "space"}
    changes = [
        *recipes.differences(before, recipe),
        *(f"{k} was {old.get(k)!r}, is {v!r}" for k, v in new.items() if old.get(k) != v),
        *spaces.differences(old_space, settings["space"]),
    ]
    if changes:
        raise training.RunError(
            f"the search in {folder} differs from this one: {'; '.join(changes)}. Use that "
            "search's values, or --overwrite to start anew"
        )


def _search(tuner, data, verbose):
    (x, y), held_out = data
    try:
        tuner.search(x, y, validation_data=held_out, verbose=verbose)
    except RuntimeError as error:
        if "bind to address" not in str(error):
            raise
        raise training.RunError(
            f"the chief cannot listen at {os.environ[_ADDRESS[0]]}, port "
            f"{os.environ[_ADDRESS[1]]}; give another {_ADDRESS[1]}"
        ) from error


def _work(tuner, folder, hypermodel, settings, data, verbose):
    """Runs a worker's trials until the chief has no more."""
    try:
        tuner.oracle.get_space()  # Once the chief answers, it has written its folder.
        _check_same(folder, hypermodel.base, settings)
        _search(tuner, data, verbose)
    except grpc.RpcError as error:
        raise training.RunError(
            f"the chief does not answer at {os.environ[_ADDRESS[0]]}, port "
            f"{os.environ[_ADDRESS[1]]} ({error.code().name}); start it, or correct {_ADDRESS[0]} "
            f"and {_ADDRESS[1]}"
        ) from error
    return {"worker": tuner.tuner_id, "trials": tuner.count, "search": str(folder)}


def _write_results(folder, rows, space, objective):
    results.write_table(rows, list(space), folder / TABLE)
    if importlib.util.find_spec("matplotlib") is None:
        print("no picture: install 'tfpn[plots]' for matplotlib", file=sys.stderr)
        return
    from tfpn import figures

    picture = results.draw(rows, space, objective, OBJECTIVES[objective])
    figures.save(picture, folder / PLOT)


def _finish(tuner, rows, folder, hypermodel, settings, final, verbose):
    """Writes the best recipe and trains it on all data; returns the result."""
    completed = [row for row in rows if row["status"] == "COMPLETED"]
    failed = [row for row in rows if row["status"] == "FAILED"]
    if not completed:
        reason = f"; the last one: {failed[-1]['reason']}" if failed else ""
        raise training.RunError(
            f"none of the {len(rows)} trials was completed{reason}. See {folder / TABLE}"
        )
    trial = tuner.oracle.get_best_trials(1)[0]
    best = hypermodel.recipe(trial.hyperparameters)
    best.name = f"{best.name}-tuned"
    write(folder / BEST, recipes.dumps(best))
    result = {
        "recipe": hypermodel.base.name,
        **{key: settings[key] for key in ("algorithm", "objective")},
        "best_score": trial.score,
        "best_trial": trial.trial_id,
        "best": {
            name: best.sections[name.split(".")[0]][name.split(".")[1]] for name in hypermodel.space
        },
        "trials": len(rows),
        "completed": len(completed),
        "failed": len(failed),
        "final": _train(best, folder / FINAL, verbose) if final else None,
        "search": str(folder),
    }
    write(folder / training.RESULT, json.dumps(result, indent=2) + "\n")
    return result


def _train(best, folder, verbose):
    """Trains on training and validation data together; resumes this training if it was killed."""
    whole = spaces.with_values(best, {"data.validation_fraction": 0.0})
    path = folder / training.RECIPE
    # A search that was resumed with more trials may have found a better one.
    other = path.exists() and bool(recipes.differences(recipes.load(path), whole))
    return training.train(whole, folder, resume=not other, overwrite=other, verbose=verbose)
