"""`tfpn figures`: the pictures of a run, or of residuals."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfpn import recipes
from tfpn.cli import outputs
from tfpn.cli.errors import CommandError
from tfpn.cli.loading import check_source, gaussian, load, run_files


def draw(options):
    """Carries out ``tfpn figures``."""
    if importlib.util.find_spec("matplotlib") is None:
        raise CommandError("matplotlib is not installed; pip install 'tfpn[plots]'")
    if options.examples is not None and options.examples < 1:
        raise CommandError(f"--examples: found {options.examples}; give at least 1")
    from tfpn import figures, training

    check_source(options, options.run)
    if options.residuals is not None:
        output = options.output or "qq.png"
        outputs.check_outputs([("--output", output)], [options.residuals])
        _save(gaussian(options, figures.qq_plot), Path(output))
        return
    folder = Path(options.run) if Path(options.run).is_dir() else Path(options.run).parent
    output = options.output and Path(options.output)
    place = output.parent if output else folder
    curves = place / training.CURVES
    inputs = run_files(options.run)
    outputs.check_outputs([(training.CURVES, curves), ("--output", output)], inputs)
    model, recipe, data = load(options, options.run)
    if data.task == "classification":
        output = output or folder / training.FEATURE_MAPS
        beside = [(name, place / name) for name in (training.RELIABILITY, training.CURVES)]
        outputs.check_outputs([*beside, ("--output", output)], inputs)
        _draw_classifier(options, model, recipe, data, output)
    else:
        _draw_numbers(options, model, recipe, data, output, place)
    if (folder / training.LOG).exists():
        _save(figures.learning_curves(training.read_log(folder / training.LOG)), curves)


def _draw_numbers(options, model, recipe, data, output, place):
    """Draws what a run on numbers or of a field has."""
    from tfpn import training
    from tfpn.training.folder import QQ

    for name in ("examples", "channels", "channel", "resolution"):
        if getattr(options, name) is not None:
            said = "is for the feature maps of a classifier; leave it out"
            raise CommandError(f"--{name} {said}")
    task = training.task_of(data)
    size = recipe.sections["training"]["batch_size"]
    found = data.test and task.predictions(model, data.test, size)
    if output is not None:
        files: dict[str, Any] = {training.CURVES: place / training.CURVES, "--output": output}
        if task.main_picture(data, found) != QQ:  # a field, whose NetCDF goes beside it
            files |= {QQ: place / QQ, "its NetCDF": output.with_suffix(".nc")}
        table = recipe.sections["data"]  # only tables have other tasks than classification
        inputs = [*run_files(options.run), Path(table.get("data_dir") or "") / table["file"]]
        outputs.check_outputs(files.items(), inputs)
    for path in task.draw(place, model, data, found, output):
        print(path)


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
