"""`tfpn predict` for models of tables: fields, numbers and classes."""

import sys
from pathlib import Path

import numpy as np

from tfpn import recipes, table_files
from tfpn.cli.errors import CommandError

_GRID = (".png", ".nc")


def predict_table(options, model, recipe):
    """Predicts a field at the places of a table or on a grid, or what a table's examples answer.

    Args:
        options: the command line: file, output, readings and resolution.
        model: the run's model.
        recipe: the run's recipe.
    """
    data = recipes.load_data(recipes.resolve(recipe))
    if data.task != "field":
        check_output(options, grid=False)
        _refuse("for fields", readings=options.readings, resolution=options.resolution)
        if options.file is None:
            raise CommandError("give the table of the examples: tfpn predict RUN TABLE")
        _say_if_changed(options.run, data)
        _write_columns(options.output, _examples(options.file, model, data))
        return
    observed, suffix = None, Path(options.output or "").suffix
    if options.readings is not None:
        observed = _said(options.readings, lambda frame: data.columns.read(frame))
    if options.file is not None:
        _refuse("without a table of places", resolution=options.resolution)

        def at(frame):
            from tfpn.training.field_outputs import on_grid, table_at

            found = table_at(model, data, frame, observed)
            return on_grid(data, found) if suffix in _GRID else found

        found = _said(options.file, at)
        if suffix in _GRID:
            _write_grid(options.output, found, data, observed)
        else:
            _write_columns(options.output, found)
        return
    _grid(options, model, data, observed)


def _grid(options, model, data, observed):
    from tfpn.training import field_outputs

    if options.resolution is not None and options.resolution < 2:
        raise CommandError(f"--resolution: found {options.resolution}; give at least 2")
    grid = field_outputs.grid_of(data, options.resolution)
    if grid is None:
        raise CommandError(
            "a grid that the command makes has one or two coordinates and no covariates; give a "
            f"table of places with the columns {field_outputs.how_to_draw(data, 'RUN')}"
        )
    found = field_outputs.predict_grid(model, data, grid, observed)
    if Path(options.output or "").suffix in _GRID:
        _write_grid(options.output, found, data, observed)
    else:
        _write_columns(options.output, field_outputs.grid_columns(found, data))


def _write_grid(path, found, data, observed):
    from tfpn.training import field_outputs

    if Path(path).suffix == ".png":
        field_outputs.picture(found, data, path, observed)
    else:
        field_outputs.write_netcdf(path, found)


def _say_if_changed(run, data):
    from tfpn import training

    if data.columns.scale is not None and training.is_other_table(run, data):
        print(
            f"{run}: the table has changed since the training, and with it the mean and spread "
            "that the readings are brought to: predictions may be off",
            file=sys.stderr,
        )


def _examples(path, model, data):
    """The columns of predictions: one row for each example of a table."""
    from tfpn.training import class_probabilities
    from tfpn.training.tasks import regression

    readings = _said(path, data.columns.read)
    observed = readings.observed()
    found = {data.columns.example or "example": np.array(readings.examples, object)}
    if data.task == "classification":
        probabilities = class_probabilities(model, observed)
        names = np.array(data.classes, object)
        found[data.columns.labels] = names[probabilities.argmax(-1)]
        columns = zip(data.classes, probabilities.T, strict=True)
        return found | {f"probability_{name}": column for name, column in columns}
    mean, std = regression(model, observed)
    for number, name in enumerate(data.columns.targets):
        found[name] = mean[:, number]
        if std is not None:
            found[f"{name}_std"] = std[:, number]
    return found


def _said(path, function):
    """Calls a function on a table; its errors name the table."""
    try:
        frame = table_files.read_table(path)
    except (OSError, ValueError, ImportError) as error:
        raise CommandError(str(error)) from error
    try:
        return function(frame)
    except ValueError as error:
        raise CommandError(f"{path}: {error}") from error


def _refuse(where, **given):
    for name, value in given.items():
        if value is not None:
            raise CommandError(f"--{name} works {where} only; leave it out")


def _write_columns(path, columns):
    if path is None:
        sys.stdout.write(table_files.csv_text(columns))
    elif Path(path).suffix in table_files.READ:
        table_files.write_table(path, columns)
    else:
        raise CommandError(f"--output: found {path}; give a name ending in .csv or .parquet")


def check_output(options, grid=True):
    """Refuses an ``--output`` with the wrong suffix before anything is computed.

    Args:
        options: the command line.
        grid: whether the output may be a picture or NetCDF, as for a field.
    """
    allowed = (*table_files.READ, *(_GRID if grid else ()))
    if options.output is not None and Path(options.output).suffix not in allowed:
        raise CommandError(
            f"--output: found {options.output}; give a name ending in {' or '.join(allowed)}"
        )
