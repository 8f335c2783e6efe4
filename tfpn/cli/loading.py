"""What several commands load and check: runs, their files and data, and residuals."""

import json
from pathlib import Path

from tfpn import recipes
from tfpn.cli import arrays
from tfpn.cli.errors import CommandError


def set_data_dir(recipe, options):
    if options.data_dir is not None:
        folder = json.dumps(str(Path(options.data_dir).resolve()), ensure_ascii=False)
        recipes.override(recipe, f"data.data_dir={folder}", f"--data-dir {options.data_dir}")


def run_files(run):
    """The files of a run, which no output may replace."""
    from tfpn import training

    path = training.run_path(run)
    folder = path if path.is_dir() else path.parent
    names = (training.RECIPE, training.TABLE, training.MODEL, training.LOG, training.RESULT)
    return [path, *(folder / name for name in names)]


def load(options, run, loaded=(None, None)):
    """The model of a run, its resolved recipe, and the recipe's data.

    ``loaded`` may hold a [data] section and its data: a recipe with the same section takes them.
    """
    from tfpn import training

    training.list_gpus()
    model, recipe = training.load_run(run)
    set_data_dir(recipe, options)
    recipe = recipes.resolve(recipe)
    section, data = loaded
    if section != recipe.sections["data"]:
        data = recipes.load_data(recipe)
    recipes.check_data(recipe, model, data)
    return model, recipe, data


def check_source(options, runs):
    """Checks the runs or the file of `evaluate` and `figures`."""
    if (not runs) == (options.residuals is None):
        raise CommandError("give either RUN or --residuals FILE.npz")
    if options.bins < 1:
        raise CommandError(f"--bins: found {options.bins}; give at least 1")


def gaussian(options, function):
    """Calls a function with the residuals and deviations of an .npz file."""
    found = arrays.read_arrays(options.residuals)
    known = {"residuals", "standard_deviations"}
    if set(found) != known:
        raise CommandError(
            f"{options.residuals} holds the arrays {sorted(found)}; it needs residuals and "
            "standard_deviations"
        )
    try:
        return function(**found)
    except ValueError as error:
        raise CommandError(f"{options.residuals}: {error}") from error
