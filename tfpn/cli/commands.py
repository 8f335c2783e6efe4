"""What the subcommands of ``tfpn`` do."""

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


class CommandError(Exception):
    """A request that cannot be carried out; the message says what was found and what to do."""


def run(options):
    """Carries out a parsed command line and returns the exit status."""
    # TensorFlow's start-up notes hide the command's own messages.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    from tfpn.training import RunError, TrainingDiverged, layer_message

    commands = {"train": _train, "evaluate": _evaluate, "predict": _predict, "figures": _figures}
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
    for flag, (target, _, _) in SHORT_FLAGS.items():
        value = getattr(options, flag)
        if value is not None:
            origin = f"--{flag.replace('_', '-')} {value}"
            recipes.override(recipe, f"{target}={value}", origin)
    _set_data_dir(recipe, options)
    for assignment in options.assignments:
        recipes.override(recipe, assignment)

    from tfpn import training

    print(f"GPUs found: {len(training.list_gpus())}", file=sys.stderr)
    # One line an epoch where nobody watches: a progress bar would fill a log file.
    verbose = 1 if sys.stdout.isatty() else 2
    result = training.train(
        recipe, folder, resume=options.resume, overwrite=options.overwrite, verbose=verbose
    )
    print(json.dumps(result), flush=True)


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


def _load(options):
    """The model of a run, its resolved recipe, and the recipe's data."""
    from tfpn import training

    training.list_gpus()
    model, recipe = training.load_run(options.run)
    _set_data_dir(recipe, options)
    recipe = recipes.resolve(recipe)
    data = recipes.load_data(recipe)
    recipes.check_data(recipe, model, data)
    return model, recipe, data


def _evaluate(options):
    from tfpn import training

    model, recipe, data = _load(options)
    part = getattr(data, options.split)
    if part is None:
        raise CommandError(f"--split: the data set has no {options.split} part; give another")
    figures = training.evaluate(model, part, batch_size=recipe.sections["training"]["batch_size"])
    print(json.dumps({"recipe": recipe.name, "split": options.split, **figures}))


def _predict(options):
    if options.output is not None and Path(options.output).suffix not in (".npz", ".csv"):
        raise CommandError(f"--output: found {options.output}; give a name ending in .npz or .csv")
    if options.output is not None and not Path(options.output).parent.is_dir():
        raise CommandError(
            f"--output: found {options.output}, but there is no folder "
            f"{Path(options.output).parent}; make it, or give another name"
        )
    observed = _read_observations(options.file)

    from tfpn import training

    model, _ = training.load_run(options.run)
    for key, what in (("points", "dimensions"), ("values", "channels")):
        found, wanted = observed[key].shape[-1], model.input[key].shape[-1]
        if found != wanted:
            raise CommandError(
                f"{options.file}: {key} has {found} {what}; this model was built for {wanted}"
            )
    _check_range(options.file, observed, model)
    probabilities = training.probabilities(model.predict(observed, verbose=0))
    predicted = probabilities.argmax(-1)
    if options.output is None:
        _write_csv(sys.stdout, predicted, probabilities)
        return
    try:
        if options.output.endswith(".csv"):
            with open(options.output, "w", newline="") as file:
                _write_csv(file, predicted, probabilities)
        else:
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


def _read_observations(path):
    import tfpn

    try:
        file = np.load(path, allow_pickle=False)
        if isinstance(file, np.ndarray):
            raise ValueError("it holds a single array")
        with file:
            arrays = {key: file[key] for key in file.files}
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise CommandError(
            f"{path} is not an .npz file of plain arrays ({error}); write it with numpy.savez, "
            "without arrays of Python objects"
        ) from error
    known = ("points", "values", "variance")
    if not {"points", "values"} <= set(arrays) <= set(known):
        raise CommandError(
            f"{path} holds the arrays {sorted(arrays)}; it needs points and values, and may hold "
            "variance"
        )
    try:
        return tfpn.observations(**arrays)
    except (ValueError, TypeError) as error:
        raise CommandError(f"{path}: {error}") from error


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

    model, _, data = _load(options)
    folder = Path(options.run) if Path(options.run).is_dir() else Path(options.run).parent
    output = Path(options.output or folder / training.FEATURE_MAPS)
    examples = {key: array[: options.examples] for key, array in data.test.x.items()}
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
