"""The subcommands of ``tfpn``."""

import importlib.util
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tfpn import recipes
from tfpn.cli import arrays, outputs, predicting
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
        "figures": _figures,
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
        print(json.dumps(result), flush=True)


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
    _set_data_dir(recipe, options)
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


def _set_data_dir(recipe, options):
    if options.data_dir is not None:
        folder = json.dumps(str(Path(options.data_dir).resolve()), ensure_ascii=False)
        recipes.override(recipe, f"data.data_dir={folder}", f"--data-dir {options.data_dir}")


def _run_files(run):
    """The files of a run, which no output may replace."""
    from tfpn import training

    path = training.run_path(run)
    folder = path if path.is_dir() else path.parent
    names = (training.RECIPE, training.TABLE, training.MODEL, training.LOG, training.RESULT)
    return [path, *(folder / name for name in names)]


def _load(options, run, loaded=(None, None)):
    """The model of a run, its resolved recipe, and the recipe's data.

    ``loaded`` may hold a [data] section and its data: a recipe with the same section takes them.
    """
    from tfpn import training

    training.list_gpus()
    model, recipe = training.load_run(run)
    _set_data_dir(recipe, options)
    recipe = recipes.resolve(recipe)
    section, data = loaded
    if section != recipe.sections["data"]:
        data = recipes.load_data(recipe)
    recipes.check_data(recipe, model, data)
    return model, recipe, data


def _evaluate(options):
    from tfpn import evaluation

    _check_source(options, options.runs)
    outputs.check_outputs(
        [("--output", options.output), ("--table", options.table)],
        [options.residuals or "", *(path for run in options.runs for path in _run_files(run))],
    )
    if options.residuals is not None:
        if options.table is not None:
            raise CommandError("--table: residuals have no confidence; leave out --table")
        figures = _gaussian(options, evaluation.gaussian_metrics)
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

    model, recipe, data = _load(options, run, loaded)
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


def _check_source(options, runs):
    """Checks the runs or the file of `evaluate` and `figures`."""
    if (not runs) == (options.residuals is None):
        raise CommandError("give either RUN or --residuals FILE.npz")
    if options.bins < 1:
        raise CommandError(f"--bins: found {options.bins}; give at least 1")


def _gaussian(options, function):
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
    outputs.check_outputs([("--output", options.output)], [*given, *_run_files(options.run)])

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


def _figures(options):
    if importlib.util.find_spec("matplotlib") is None:
        raise CommandError("matplotlib is not installed; pip install 'tfpn[plots]'")
    if options.examples is not None and options.examples < 1:
        raise CommandError(f"--examples: found {options.examples}; give at least 1")
    from tfpn import figures, training

    _check_source(options, options.run)
    if options.residuals is not None:
        output = options.output or "qq.png"
        outputs.check_outputs([("--output", output)], [options.residuals])
        _save(_gaussian(options, figures.qq_plot), Path(output))
        return
    folder = Path(options.run) if Path(options.run).is_dir() else Path(options.run).parent
    output = Path(options.output or folder / training.FEATURE_MAPS)
    beside = {name: output.with_name(name) for name in (training.RELIABILITY, training.CURVES)}
    outputs.check_outputs([*beside.items(), ("--output", output)], _run_files(options.run))
    model, recipe, data = _load(options, options.run)
    if data.task == "classification":
        _draw_classifier(options, model, recipe, data, output)
    else:
        task = training.task_of(data)
        for name in ("examples", "channels", "channel", "resolution"):
            if getattr(options, name) is not None:
                said = "is for the feature maps of a classifier; leave it out"
                raise CommandError(f"--{name} {said}")
        size = recipe.sections["training"]["batch_size"]
        found = data.test and task.predictions(model, data.test, size)
        for path in task.draw(output.parent, model, data, found):
            print(path)
    if (folder / training.LOG).exists():
        curves = figures.learning_curves(training.read_log(folder / training.LOG))
        _save(curves, beside[training.CURVES])


def _draw_classifier(options, model, recipe, data, output):
    """Draws the feature maps and the reliability diagram of a classifier's test part."""
    from tfpn import figures, training

    inputs = recipes.model_inputs(model, data.test)
    examples = {key: array[: options.examples or 4] for key, array in inputs.items()}
    channels: Sequence[int] | None = None
    if options.channel is not None:
        channels = [options.channel]
    elif options.channels is not None:
        channels = range(options.channels)
    try:
        picture = figures.feature_maps(
            model, examples, channels=channels, resolution=options.resolution or 64
        )
    except ValueError as error:
        raise CommandError(str(error)) from error
    _save(picture, output)
    size = recipe.sections["training"]["batch_size"]
    found = training.class_probabilities(model, inputs, batch_size=size)
    diagram = figures.reliability_diagram(found, data.test.y, options.bins)
    _save(diagram, output.with_name(training.RELIABILITY))


def _save(picture, path):
    from tfpn import figures

    figures.save(picture, path)
    print(path)
