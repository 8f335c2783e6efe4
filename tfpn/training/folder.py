"""The run folder: names of its files, its preparation, and loading its model."""

import importlib
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import keras

from tfpn import recipes
from tfpn.files import partial_files, write
from tfpn.training.errors import RunError, first_line
from tfpn.types import Model, PathLike

RECIPE, LOG, MODEL, RESULT, BACKUP = (
    "recipe.toml",
    "log.csv",
    "model.keras",
    "result.json",
    "backup",
)
# For a run on a table: the checksum of the table.
TABLE = "table.json"
CURVES, FEATURE_MAPS, RELIABILITY = "curves.png", "feature_maps.png", "reliability.png"
# Pictures of regression and field runs.
QQ, MAP, SERIES = "qq.png", "map.png", "series.png"
PICTURES = CURVES, FEATURE_MAPS, RELIABILITY, QQ, MAP, "map.nc", SERIES, "series.nc"


def open_folder(
    recipe: recipes.Recipe, folder: Path, resume: bool, overwrite: bool, data: Any = None
) -> None:
    """Prepares the run folder: it refuses to mix runs, and clears a run that you replace."""
    if folder.exists() and not folder.is_dir():
        raise RunError(f"--output: found the file {folder}; give a folder")
    try:
        _prepare_folder(recipe, folder, resume, overwrite, data)
    except OSError as error:
        raise RunError(
            f"--output: cannot write the run folder {folder} ({error.strerror}); give a folder "
            "that you can make and write"
        ) from error


def _prepare_folder(recipe, folder, resume, overwrite, data):
    path, known = folder / RECIPE, (RECIPE, TABLE, LOG, MODEL, RESULT, *PICTURES)
    is_run = path.exists()
    if not is_run:
        # A run that was killed before it wrote its recipe leaves a partial file.
        if folder.exists() and set(folder.iterdir()) - set(partial_files(folder, known)):
            raise RunError(f"{folder} is not empty and holds no run; give another --output")
        if resume:
            print(f"no run in {folder} yet: starting one", file=sys.stderr)
    elif overwrite:
        for name in known[1:]:
            (folder / name).unlink(missing_ok=True)
        for backup in (folder / BACKUP).glob("*.weights.h5"):
            backup.unlink()
    elif resume:
        # A run of an older version lacks the keys that are new.
        changes = recipes.differences(recipes.resolve(recipes.load(path)), recipe)
        if changes:
            raise RunError(
                f"cannot resume {folder} with another recipe: {'; '.join(changes)}. "
                "Use the run's own values, or --overwrite to start anew"
            )
        if is_other_table(folder, data):
            raise RunError(
                f"cannot resume {folder}: the table {recipe.sections['data']['file']} has changed "
                "since the run began. Put the old table back, or use --overwrite to start anew"
            )
    else:
        raise RunError(
            f"{folder} already holds a run; continue it with --resume, replace it with "
            "--overwrite, or give another --output"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for partial in (*partial_files(folder, known), *(folder / BACKUP).glob("*.partial")):
        partial.unlink()
    if overwrite or not is_run:
        write(path, recipes.dumps(recipe))
    if getattr(data, "checksum", None) is not None:
        write(folder / TABLE, json.dumps({"checksum": data.checksum}) + "\n")


def run_path(run: PathLike) -> Path:
    """The path of a run, given by its path or by the name of a reference model."""
    path = Path(run)
    if not path.exists() and str(run) in recipes.names():
        return recipes.models_folder() / run
    return path


def is_other_table(run: PathLike, data: Any) -> bool:
    """Whether a run was trained on another table than this data set, or on an older state of it.

    Args:
        run: as in `load_run`.
        data: the data set of its recipe, as it is now.
    """
    path = run_path(run)
    path = (path if path.is_dir() else path.parent) / TABLE
    try:
        known = json.loads(path.read_text())["checksum"]
    except FileNotFoundError:  # of other data
        return False
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{path} is damaged ({first_line(error)}); train anew with --overwrite"
        ) from error
    return known != getattr(data, "checksum", known)


def load_run(run: PathLike) -> tuple[Model, recipes.Recipe]:
    """Loads a trained model and its recipe (see `train` for an example).

    Args:
        run: a run folder, a .keras file with recipe.toml next to it, or the name of a reference
            model.

    Returns:
        The Keras model and the `tfpn.recipes.Recipe`.

    Raises:
        RunError: if there is no model or no recipe, or if the file is not the recipe's model.
        RecipeError: if the recipe cannot be read.
    """
    importlib.import_module("tfpn.models")  # Registers the model classes with Keras.
    path = run_path(run)
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
        # Keras says "file not found" for a file that exists but is not an archive.
        reason = first_line(error) if zipfile.is_zipfile(path) else "not a zip archive"
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
