"""What the subcommands of ``tfpn`` do."""

import contextlib
import csv
import importlib.util
import json
import os
import sys
import zipfile
from pathlib import Path

import numpy as np

from tfpn import recipes
from tfpn.cli.arguments import SHORT_FLAGS

_STATICS = ("statics", "statics_variance")


class CommandError(Exception):
    """A request that cannot be carried out; the message says what was found and what to do."""


def run(options):
    """Carries out a parsed command line and returns the exit status."""
    # TensorFlow's start-up notes hide the command's own messages.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    from tfpn.training import RunError, TrainingDiverged, layer_message

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
    return 0


def _train(options):
    recipe, folder = _chosen_recipe(options)
    _set_values(recipe, options)

    from tfpn import training

    print(f"GPUs found: {len(training.list_gpus())}", file=sys.stderr)
    result = training.train(
        recipe,
        folder,
        resume=options.resume,
        overwrite=options.overwrite,
        verbose=_verbosity(),
        strategy=options.strategy and training.make_strategy(options.strategy),
    )
    if result is not None:  # The chief of several workers says it.
        print(json.dumps(result), flush=True)


def _tune(options):
    recipe = recipes.load(options.recipe)
    _set_values(recipe, options)
    try:
        from tfpn import tuning
    except ImportError as error:
        raise CommandError(str(error)) from error
    from tfpn import training
    from tfpn.tuning.space import read_assignments

    print(f"GPUs found: {len(training.list_gpus())}", file=sys.stderr)
    result = tuning.tune(
        recipe,
        Path(options.output or Path("runs") / f"{recipe.name}-tune"),
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


def _verbosity():
    # One line an epoch where nobody watches: a progress bar would fill a log file.
    return 1 if sys.stdout.isatty() else 2


def _set_values(recipe, options):
    """Sets what the options of the command line say of a recipe's values."""
    for flag, (target, _, _) in SHORT_FLAGS.items():
        value = getattr(options, flag)
        if value is not None:
            origin = f"--{flag.replace('_', '-')} {value}"
            recipes.override(recipe, f"{target}={value}", origin)
    _set_data_dir(recipe, options)
    for assignment in options.assignments:
        recipes.override(recipe, assignment)


def _chosen_recipe(options):
    """The recipe asked for and the run folder."""
    if options.recipe is None and options.resume:
        folder = Path(options.output or "runs/digits")
        if (folder / "recipe.toml").exists():
            return recipes.load(folder / "recipe.toml"), folder
    recipe = recipes.load(options.recipe or "digits")
    return recipe, Path(options.output or Path("runs") / recipe.name)


def _set_data_dir(recipe, options):
    if options.data_dir is not None:
        folder = json.dumps(str(Path(options.data_dir).resolve()), ensure_ascii=False)
        recipes.override(recipe, f"data.data_dir={folder}", f"--data-dir {options.data_dir}")


def _load(options, run, loaded=(None, None)):
    """The model of a run, its resolved recipe, and the recipe's data.

    ``loaded`` may hold a recipe's [data] and its data, which are not read again.
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
    _check_folder("--output", options.output)
    _check_folder("--table", options.table)
    if options.residuals is not None:
        if options.table is not None:
            raise CommandError("--table: residuals have no confidence; leave it out")
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
        {key: value for key, value in result.items() if key not in ("recipe", "split", "examples")}
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
    """The figures of one run, and its [data] with its data for the next one."""
    from tfpn import evaluation, training

    model, recipe, data = _load(options, run, loaded)
    part = getattr(data, options.split)
    if part is None:
        raise CommandError(f"--split: the data set has no {options.split} part; give another")
    batch_size = recipe.sections["training"]["batch_size"]
    inputs = recipes.model_inputs(model, part)
    found = training.class_probabilities(model, inputs, batch_size=batch_size)
    figures = evaluation.classification_metrics(found, part.y, options.bins)
    if options.table is not None:
        with _writing("--table", options.table) as file:
            _write_bins(file, evaluation.calibration_bins(found, part.y, options.bins))
    figures = {"recipe": recipe.name, "split": options.split, **figures}
    return figures, (recipe.sections["data"], data)


def _check_source(options, runs):
    """Checks what `evaluate` and `figures` are asked to look at."""
    if (not runs) == (options.residuals is None):
        raise CommandError("give either RUN or --residuals FILE.npz")
    if options.bins < 1:
        raise CommandError(f"--bins: found {options.bins}; give at least 1")


def _check_folder(option, path):
    """Refuses a name in a folder that does not exist, before any work is done for it."""
    if path is not None and not Path(path).parent.is_dir():
        raise CommandError(
            f"{option}: found {path}, but there is no folder {Path(path).parent}; make it, or give "
            "another name"
        )


def _gaussian(options, function):
    """The function's result for the residuals of an .npz file."""
    arrays = _read_arrays(options.residuals)
    known = {"residuals", "standard_deviations"}
    if set(arrays) != known:
        raise CommandError(
            f"{options.residuals} holds the arrays {sorted(arrays)}; it needs residuals and "
            "standard_deviations"
        )
    try:
        return function(**arrays)
    except ValueError as error:
        raise CommandError(f"{options.residuals}: {error}") from error


def _write_result(options, figures):
    line = json.dumps(figures)
    if options.output is not None:
        with _writing("--output", options.output) as file:
            file.write(line + "\n")
    print(line)


@contextlib.contextmanager
def _writing(option, path):
    """A file to write, with an error that names the option."""
    try:
        with open(path, "w", newline="", encoding="utf-8") as file:
            yield file
    except OSError as error:
        raise CommandError(
            f"{option}: cannot write {path} ({error.strerror}); give another name"
        ) from error


def _write_bins(file, bins):
    writer = csv.writer(file)
    writer.writerow(["low", "high", "examples", "confidence", "accuracy"])
    columns = bins.edges[:-1], bins.edges[1:], bins.counts, bins.confidence, bins.accuracy
    for low, high, count, *means in zip(*columns, strict=True):
        # An empty bin has no means.
        shown = [f"{mean:.6g}" if count else "" for mean in means]
        writer.writerow([f"{low:.6g}", f"{high:.6g}", count, *shown])


def _predict(options):
    if options.output is not None and Path(options.output).suffix not in (".npz", ".csv"):
        raise CommandError(f"--output: found {options.output}; give a name ending in .npz or .csv")
    _check_folder("--output", options.output)
    arrays = _read_arrays(options.file)
    observed = _observations(options.file, arrays)

    from tfpn import training

    model, _ = training.load_run(options.run)
    beside = _statics(options.file, arrays, model)
    for key, what in (("points", "dimensions"), ("values", "channels")):
        found, wanted = observed[key].shape[-1], model.input[key].shape[-1]
        if found != wanted:
            raise CommandError(
                f"{options.file}: {key} has {found} {what}; this model was built for {wanted}"
            )
    _check_range(options.file, observed, model)
    try:
        probabilities = training.class_probabilities(model, {**observed, **beside})
    except ValueError as error:  # the model's own check of its input
        raise CommandError(f"{options.file}: {error}") from error
    predicted = probabilities.argmax(-1)
    if options.output is None:
        _write_csv(sys.stdout, predicted, probabilities)
        return
    if options.output.endswith(".csv"):
        with _writing("--output", options.output) as file:
            _write_csv(file, predicted, probabilities)
        return
    try:
        np.savez(options.output, predicted=predicted, probabilities=probabilities)
    except OSError as error:
        raise CommandError(
            f"--output: cannot write {options.output} ({error.strerror}); give another name"
        ) from error


def _check_range(path, observed, model):
    """Refuses observed points and values that the model's floating-point type cannot hold."""
    seen = np.isfinite(observed["variance"])
    for key, mask in (("points", seen.any(-1, keepdims=True)), ("values", seen)):
        dtype = model.input[key].dtype
        largest = np.max(np.abs(observed[key]), where=mask, initial=0.0)
        if largest > np.finfo(dtype).max:
            raise CommandError(
                f"{path}: {key}: found a magnitude of {largest:.3g}, too large for the model's "
                f"{dtype}; give {key} in the units of the training data"
            )


def _read_arrays(path):
    """The arrays of an .npz file, without unpickling anything."""
    try:
        file = np.load(path, allow_pickle=False)
        if isinstance(file, np.ndarray):
            raise ValueError("it holds a single array")
        with file:
            return {key: file[key] for key in file.files}
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise CommandError(
            f"{path} is not an .npz file of plain arrays ({error}); write it with numpy.savez, "
            "without arrays of Python objects"
        ) from error


def _observations(path, arrays):
    """The observations among the arrays of a file."""
    import tfpn

    needed, known = {"points", "values"}, {"points", "values", "variance", *_STATICS}
    if not needed <= set(arrays) <= known:
        raise CommandError(
            f"{path} holds the arrays {sorted(arrays)}; it needs points and values, and may hold "
            "variance, and statics for a model that takes them"
        )
    try:
        return tfpn.observations(**{k: v for k, v in arrays.items() if k not in _STATICS})
    except (ValueError, TypeError) as error:
        raise CommandError(f"{path}: {error}") from error


def _statics(path, arrays, model):
    """What a model takes beside the observations; NaN among the statics means unknown."""
    if ("statics" in model.input) != ("statics" in arrays):
        found, wanted = (
            ("no statics", "takes") if "statics" in model.input else ("statics", "has no")
        )
        raise CommandError(f"{path} holds {found}, and this model {wanted} statics")
    if "statics" not in arrays:
        return {}
    expected = len(arrays["points"]), model.input["statics"].shape[-1]
    statics = arrays["statics"]
    variance = arrays.get("statics_variance", np.zeros(np.shape(statics)))
    if (
        statics.shape != expected
        or np.shape(variance) != expected
        or statics.dtype.kind not in "biuf"
    ):
        raise CommandError(
            f"{path}: statics has the shape {list(statics.shape)} and the dtype {statics.dtype}; "
            f"give numbers of the shape {list(expected)}, and statics_variance, if any, of the same"
        )
    unknown = np.isnan(statics) | np.isinf(variance)
    return {
        "statics": np.where(unknown, 0.0, statics).astype(np.float32),
        "statics_variance": np.where(unknown, np.inf, 0.0).astype(np.float32),
    }


def _write_csv(file, predicted, probabilities):
    writer = csv.writer(file)
    classes = range(probabilities.shape[-1])
    writer.writerow(["example", "predicted", *(f"probability_{c}" for c in classes)])
    for row, (label, probability) in enumerate(zip(predicted, probabilities, strict=True)):
        writer.writerow([row, label, *(f"{p:.6g}" for p in probability)])


def _figures(options):
    if importlib.util.find_spec("matplotlib") is None:
        raise CommandError("matplotlib is not installed; pip install 'tfpn[plots]'")
    if options.examples < 1:
        raise CommandError(f"--examples: found {options.examples}; give at least 1")
    from tfpn import figures, training

    _check_source(options, options.run)
    if options.residuals is not None:
        _save(_gaussian(options, figures.qq_plot), Path(options.output or "qq.png"))
        return
    model, recipe, data = _load(options, options.run)
    folder = Path(options.run) if Path(options.run).is_dir() else Path(options.run).parent
    output = Path(options.output or folder / training.FEATURE_MAPS)
    inputs = recipes.model_inputs(model, data.test)
    examples = {key: array[: options.examples] for key, array in inputs.items()}
    channels = None
    if options.channel is not None:
        channels = [options.channel]
    elif options.channels is not None:
        channels = range(options.channels)
    try:
        picture = figures.feature_maps(
            model, examples, channels=channels, resolution=options.resolution
        )
    except ValueError as error:
        raise CommandError(str(error)) from error
    _save(picture, output)
    found = training.class_probabilities(
        model,
        recipes.model_inputs(model, data.test),
        batch_size=recipe.sections["training"]["batch_size"],
    )
    diagram = figures.reliability_diagram(found, data.test.y, options.bins)
    _save(diagram, output.with_name(training.RELIABILITY))
    if (folder / training.LOG).exists():
        curves = figures.learning_curves(training.read_log(folder / training.LOG))
        _save(curves, output.with_name(training.CURVES))


def _save(picture, path):
    from tfpn import figures

    try:
        figures.save(picture, path)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from error
    print(path)
