"""The subcommands of ``tfpn``."""

import importlib
import io
import json
import sys
from pathlib import Path

import numpy as np

from tfpn import recipes
from tfpn.cli import arrays, drawing, loading, outputs, predicting
from tfpn.cli.arguments import SHORT_FLAGS
from tfpn.cli.errors import CommandError
from tfpn.files import same_file, write


def load():
    """Imports the modules that all subcommands need, which takes seconds."""
    importlib.import_module("tfpn.training")


def run(options):
    """Carries out a parsed command line and returns the exit status."""
    import tensorflow as tf

    from tfpn.training import RunError, TrainingDiverged, layer_message
    from tfpn.training.errors import first_line

    commands = {
        "train": _train,
        "tune": _tune,
        "evaluate": _evaluate,
        "predict": _predict,
        "figures": drawing.draw,
    }
    try:
        commands[options.command](options)
    except TrainingDiverged as error:
        print(f"tfpn {options.command}: {error}", file=sys.stderr)
        return 1
    except (recipes.RecipeError, RunError, CommandError) as error:
        print(f"tfpn {options.command}: error: {error}", file=sys.stderr)
        return 2
    except tf.errors.InvalidArgumentError as error:
        reason = layer_message(error)
        if reason is None:
            raise
        if "not finite" in reason:
            reason += "; check that the observations have the units of the training data"
        print(f"tfpn {options.command}: error: {reason}", file=sys.stderr)
        return 2
    except (tf.errors.ResourceExhaustedError, tf.errors.PermissionDeniedError) as error:
        print(f"tfpn {options.command}: error: {first_line(error)}", file=sys.stderr)
        return 2
    return 0


def _train(options):
    recipe, folder = _chosen_recipe(options)
    _check_recipe_stays(options, folder)
    _set_values(recipe, options)

    from tfpn import training

    _say_gpus(training.list_gpus())
    result = training.train(
        recipe,
        folder,
        resume=options.resume,
        overwrite=options.overwrite,
        verbose=_verbosity(),
        strategy=options.strategy and training.make_strategy(options.strategy),
    )
    if result is not None:  # Only the chief of several workers has a result.
        print(json.dumps(_without_mixed_units(result)), flush=True)


def _without_mixed_units(result):
    """The result without the figures of several numbers together, of which each has its unit."""
    parts = [part for part in ("test", "validation") if f"{part}_by_target" in result]
    mixed = {f"{part}_{key}" for part in parts for key in ("rmse", "mae", "nll", "crps")}
    return {key: value for key, value in result.items() if key not in mixed}


def _tune(options):
    recipe = recipes.load(options.recipe)
    folder = Path(options.output or Path("runs") / f"{recipe.name}-tune")
    _check_recipe_stays(options, folder)
    _set_values(recipe, options)
    try:
        from tfpn import tuning
    except ImportError as error:
        raise CommandError(str(error)) from error
    from tfpn import training
    from tfpn.tuning.space import read_assignments

    _say_gpus(training.list_gpus())
    result = tuning.tune(
        recipe,
        folder,
        space=read_assignments(options.space, recipe),
        **{
            key: getattr(options, key)
            for key in ("algorithm", "objective", "max_trials", "iterations", "final")
        },
        resume=options.resume,
        overwrite=options.overwrite,
        verbose=_verbosity(),
    )
    print(json.dumps(result), flush=True)


def _say_gpus(gpus):
    if gpus:
        print(f"GPUs found: {len(gpus)}", file=sys.stderr)


def _verbosity():
    # Without a terminal print one line for each epoch: a progress bar would fill a log file.
    return 1 if sys.stdout.isatty() else 2


def _set_values(recipe, options):
    """Sets the recipe's values that the command line gives."""
    for flag, (target, _, _) in SHORT_FLAGS.items():
        value = getattr(options, flag)
        if value is not None:
            origin = f"--{flag.replace('_', '-')} {value}"
            recipes.override(recipe, f"{target}={value}", origin)
    loading.set_data_dir(recipe, options)
    for assignment in options.assignments:
        recipes.override(recipe, assignment)


def _chosen_recipe(options):
    """The recipe and the run folder of a command line."""
    if options.recipe is None and options.resume:
        folder = Path(options.output or "runs/digits")
        if (folder / "recipe.toml").exists():
            return recipes.load(folder / "recipe.toml"), folder
    recipe = recipes.load(options.recipe or "digits")
    return recipe, Path(options.output or Path("runs") / recipe.name)


def _check_recipe_stays(options, folder):
    """Refuses to replace the folder that holds the given recipe."""
    recipe = Path(options.recipe or "")
    if options.overwrite and recipe.suffix == ".toml" and same_file(recipe.parent, folder):
        raise CommandError(
            f"--overwrite: the recipe {recipe} is in the folder {folder}, which it would "
            "replace; copy the recipe to another place, or give another --output"
        )


def _evaluate(options):
    from tfpn import evaluation

    loading.check_source(options, options.runs)
    outputs.check_outputs(
        [("--output", options.output), ("--table", options.table)],
        [
            options.residuals or "",
            *(path for run in options.runs for path in loading.run_files(run)),
        ],
    )
    if options.residuals is not None:
        if options.table is not None:
            raise CommandError("--table: residuals have no confidence; leave out --table")
        figures = loading.gaussian(options, evaluation.gaussian_metrics)
        _write_result(options, figures)
        return
    if options.table is not None and len(options.runs) > 1:
        raise CommandError("--table: found several runs; give one")
    results, loaded = [], (None, None)
    for run in options.runs:
        result, loaded = _evaluate_run(options, run, loaded)
        results.append(result)
    if len(results) == 1:
        _write_result(options, results[0])
        return
    numbers = [
        {
            key: value
            for key, value in result.items()
            if key not in ("recipe", "split", "examples", "targets", "by_target")
        }
        for result in results
    ]
    shared = [key for key in numbers[0] if all(key in figures for figures in numbers)]
    table = {key: [figures[key] for figures in numbers] for key in shared}
    _write_result(
        options,
        {
            "runs": [
                {"run": str(run), **result}
                for run, result in zip(options.runs, results, strict=True)
            ],
            "mean": {key: float(np.mean(found)) for key, found in table.items()},
            "standard_deviation": {
                key: float(np.std(found, ddof=1)) for key, found in table.items()
            },
        },
    )


def _evaluate_run(options, run, loaded):
    """The figures of one run, and its [data] section with the data, for the next run."""
    from tfpn import evaluation, training

    model, recipe, data = loading.load(options, run, loaded)
    part = getattr(data, options.split)
    if part is None:
        raise CommandError(f"--split: the data set has no {options.split} part; give another")
    if training.is_other_table(run, data):
        print(
            f"{run}: the table has changed since the training, and so has what is left out of it: "
            "places or examples that the model knows may be measured",
            file=sys.stderr,
        )
    task = training.task_of(data)
    found = task.predictions(model, part, recipe.sections["training"]["batch_size"])
    figures = task.figures(found, part, options.bins)
    if options.table is not None:
        if task.name != "classification":
            raise CommandError(f"--table: a {task.name} has no confidence; leave out --table")
        bins = evaluation.calibration_bins(found, part.y, options.bins)
        write(options.table, outputs.bins_table(bins))
    figures = {"recipe": recipe.name, "split": options.split, **figures}
    return figures, (recipe.sections["data"], data)


def _write_result(options, figures):
    line = json.dumps(figures)
    if options.output is not None:
        write(options.output, line + "\n")
    print(line)


def _predict(options):
    table = Path(options.file or "").suffix != ".npz"
    if table:
        predicting.check_output(options)
    elif options.output is not None and Path(options.output).suffix not in (".npz", ".csv"):
        raise CommandError(f"--output: found {options.output}; give a name ending in .npz or .csv")
    given = [path for path in (options.file, options.readings) if path is not None]
    outputs.check_outputs([("--output", options.output)], [*given, *loading.run_files(options.run)])

    from tfpn import training

    if table:
        model, recipe = training.load_run(options.run)
        if recipe.sections["data"].get("name") != "table":
            raise CommandError(
                f"found {options.file or 'no file'}; this model takes an .npz file of observations"
            )
        predicting.predict_table(options, model, recipe)
        return
    found = arrays.read_arrays(options.file)
    observed = arrays.read_observations(options.file, found)
    model, recipe = training.load_run(options.run)
    if recipe.sections["data"].get("name") == "table":
        raise CommandError(f"found {options.file}; this model takes a .csv or .parquet table")
    beside = arrays.read_statics(options.file, found, model)
    for key, what in (("points", "dimensions"), ("values", "channels")):
        size, wanted = observed[key].shape[-1], model.input[key].shape[-1]
        if size != wanted:
            raise CommandError(
                f"{options.file}: {key} has {size} {what}; this model was built for {wanted}"
            )
    arrays.check_range(options.file, observed, model)
    try:
        probabilities = training.class_probabilities(model, {**observed, **beside})
    except ValueError as error:  # the model checks its input
        raise CommandError(f"{options.file}: {error}") from error
    predicted = probabilities.argmax(-1)
    if options.output is not None and options.output.endswith(".npz"):
        file = io.BytesIO()
        np.savez(file, predicted=predicted, probabilities=probabilities)
        write(options.output, file.getbuffer())
        return
    table = outputs.predictions_table(predicted, probabilities)
    if options.output is None:
        sys.stdout.write(table)
    else:
        write(options.output, table)
