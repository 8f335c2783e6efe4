"""The maps and series that a run of a field model and `tfpn predict` write."""

import itertools
from typing import Any

import numpy as np

from tfpn.files import write
from tfpn.progress import Progress
from tfpn.types import Array, Model, PathLike

# Number of grid points along each axis, for one and two coordinates.
RESOLUTION = {1: 400, 2: 100}
_MARGIN = 0.02
# Degrees without a place that make places an arc of longitudes, and not a circle round a pole.
_GAP = 90.0


def grid_of(data: Any, resolution: int | None = None) -> dict[str, Array] | None:
    """A grid over all places of a table.

    Args:
        data: a data set of `tfpn.datasets.table`.
        resolution: number of grid points along each axis.

    Returns:
        A dict from the names of columns to coordinates. None if there are covariates or more than
        two coordinates.
    """
    place = data.columns.coordinates
    if place.covariates or len(place.columns) > 2:
        return None
    number = resolution or RESOLUTION[len(place.columns)]
    frame, axes = data.readings.frame, {}
    for name in place.columns:
        plain = name == place.time or name not in place.points
        column = place.hours(frame) if plain else frame[name].to_numpy(np.float64)
        round_globe = place.degrees and name == place.points[0]
        low, high = _around(column) if round_globe else (column.min(), column.max())
        margin = _MARGIN * (high - low)
        if round_globe:
            margin = min(margin, 0.5 * (360.0 - (high - low)))
        low, high = low - margin, high + margin
        if place.degrees and name == place.points[1]:
            low, high = max(low, -90.0), min(high, 90.0)
        axes[name] = np.linspace(low, high, number if high > low else 1)
    return axes


def _around(longitude):
    """The ends of the shortest arc that holds all longitudes. The second may be beyond 180.

    If they go round a pole, the ends are those of the longitudes as they are written.
    """
    turned = longitude % 360.0
    order = np.argsort(turned)
    gaps = np.diff(turned[order], append=turned[order[0]] + 360.0)
    widest = int(np.argmax(gaps))
    plain = longitude.max() - longitude.min()
    round_pole = gaps[widest] < _GAP
    if round_pole and plain > 360.0:  # some are written in another way
        return -180.0, 180.0
    if round_pole or 360.0 - gaps[widest] > plain - 1e-9:
        return longitude.min(), longitude.max()
    first = longitude[order[(widest + 1) % len(order)]]
    return first, first + 360.0 - gaps[widest]


def _in_one_piece(longitude):
    """The same longitudes, written so that they ascend along the shortest arc that holds them."""
    first, last = _around(longitude)
    if last <= longitude.max():  # as they are written
        return longitude
    return np.round(first + (longitude - first) % 360.0, 9)


def predict_grid(model: Model, data: Any, grid: dict[str, Array], observed: Any = None) -> Any:
    """Predicts readings on a grid from all readings of a table, as an xarray Dataset.

    Args:
        model: a field model.
        data: the data set.
        grid: from `grid_of`.
        observed: other `Readings` to predict from, of the same columns.
    """
    from tfpn import grids, tasks

    readings = data.readings if observed is None else observed
    place = data.columns.coordinates
    query = grids.grid_points(grid, place.of_model)
    found = tasks.interpolate(model, readings.observed(), query)
    several = data.columns.example is not None
    field = grids.to_xarray(
        found,
        grid,
        channels=list(data.columns.values),
        example=data.columns.example if several else None,
        examples=[str(label) for label in readings.examples] if several else None,
    )
    _say_start(field, data)
    return field


def _say_start(field, data):
    """NetCDF's conventions count times from a stamp of UTC."""
    place = data.columns.coordinates
    if place.has_stamps(data.readings.frame):
        start = place.stamps([0.0])[0]
        start = start if start.tzinfo is None else start.tz_convert("UTC").tz_localize(None)
        zone = "" if place.stamps([0.0])[0].tzinfo is None else " UTC"
        field[place.time].attrs["units"] = f"hours since {start}{zone}"


def grid_columns(found: Any, data: Any) -> Any:
    """Returns a field on a grid as a pandas table, with time stamps if the data set has some."""
    place, frame = data.columns.coordinates, found.to_dataframe().reset_index()
    if place.has_stamps(data.readings.frame):
        frame[place.time] = place.stamps(frame[place.time])
    return frame


def write_netcdf(path: PathLike, found: Any) -> None:
    """Writes an xarray Dataset as NetCDF, whole or not at all."""
    names = {name: _for_scipy(name) for name in found.variables}
    attributes = {key: _for_scipy(text) for key, text in found.attrs.items()}
    found = found.rename(names).assign_attrs(attributes)
    write(path, bytes(found.to_netcdf(None, engine="scipy")))


def _for_scipy(name):
    """A name that SciPy, which encodes names as Latin-1, writes as NetCDF's UTF-8 if it has to."""
    try:
        name.encode("latin1")
        return name
    except UnicodeEncodeError:
        return name.encode().decode("latin1")


def picture(found: Any, data: Any, path: PathLike, observed: Any = None) -> None:
    """Draws a field on a grid, and the readings that it comes from, as PNG.

    Of a map at one moment the title says when, and only the readings of that moment are dots.
    """
    from tfpn import figures

    readings = data.readings if observed is None else observed
    place = data.columns.coordinates
    shown = {name: readings.frame[name].to_numpy() for name in place.points}
    if place.time is not None:
        shown[place.time] = place.hours(readings.frame)
    if place.degrees:  # the grid's longitudes may go beyond 180
        west = float(found[place.points[0]].mean()) - 180.0  # of what is drawn
        shown[place.points[0]] = west + (shown[place.points[0]] - west) % 360.0
    moment = None
    if place.time is not None and found[place.time].ndim == 0:
        moment = float(found[place.time])
    for channel, name in enumerate(readings.names):
        shown[name] = readings.values[:, channel]
        if moment is not None:  # the other readings have other values
            shown[name] = np.where(np.isclose(shown[place.time], moment), shown[name], np.nan)
    if data.columns.example is not None:
        labels = [str(label) for label in readings.examples]
        shown[data.columns.example] = np.array(labels, object)[readings.rows]
    aspect: Any = "equal" if len(place.points) == 2 else "auto"
    if place.degrees:
        middle = np.radians(np.mean(found[place.points[1]].values))
        aspect = 1.0 / max(np.cos(middle), 0.1)
    figure = figures.field_map(found, shown, aspect=aspect)
    if moment is not None:
        stamped = place.has_stamps(data.readings.frame)
        when = place.stamps([moment])[0] if stamped else f"{moment:g}"
        figure.suptitle(f"{place.time} {when}", fontsize=10)
    figures.save(figure, path)


def table_at(model: Model, data: Any, frame: Any, observed: Any = None) -> dict[str, Any]:
    """Predicts readings at a table's places.

    Args:
        model: a field model.
        data: the data set. The table has its columns of coordinates and of the example.
        frame: a pandas DataFrame. Without the column of the example, all examples are predicted.
        observed: as in `predict_grid`.

    Returns:
        A dict of columns: the table's coordinates and, for each of the values, the mean under its
        name and the standard deviation under its name with "_std".

    Raises:
        ValueError: if a column is missing or an example has no readings.
    """
    from tfpn import tables, tasks

    readings = data.readings if observed is None else observed
    columns = data.columns
    label = [] if columns.example is None else [columns.example]
    places = columns.coordinates.read(frame).astype(np.float32)
    if label and label[0] not in frame.columns:
        several = np.repeat(np.array(readings.examples, object), len(frame))
        places = np.tile(places, (len(readings.examples), 1))
        frame = frame.iloc[np.arange(len(several)) % len(frame)].reset_index(drop=True)
        frame = frame.assign(**{label[0]: several})
    number = {name: k for k, name in enumerate(readings.examples)}
    rows = np.zeros(len(frame), int)
    if label:
        named = tables.labels(frame, label[0]).tolist()
        # Numbers are text in a table that also has other labels.
        text = {str(name): name for name in readings.examples}
        named = [name if name in number else text.get(str(name), name) for name in named]
        unknown = [name for name in named if name not in number]
        if unknown:
            raise ValueError(
                f"column {label[0]!r} holds {unknown[0]!r}, which has no reading to predict from; "
                "leave it out, or add readings of it."
            )
        rows = np.array([number[name] for name in named], int)
    x, names = readings.observed(), columns.values
    mean, std = np.zeros((2, len(frame), len(names)), np.float32)
    ordered = np.argsort(rows, kind="stable")
    with Progress("predict", len(frame), "places") as progress:
        for example, group in itertools.groupby(ordered, key=lambda row: rows[row]):
            some = np.array(list(group))
            given = {key: array[example : example + 1] for key, array in x.items()}
            found = tasks.interpolate(model, given, places[some][None])
            mean[some], std[some] = found.mean[0], found.std[0]
            progress.advance(len(some))
    kept = {name: frame[name].to_numpy() for name in [*label, *columns.coordinates.columns]}
    for channel, name in enumerate(names):
        kept |= {name: mean[:, channel], f"{name}_std": std[:, channel]}
    return kept


def how_to_draw(data: Any, run: PathLike) -> str:
    """The columns of a table of places that `table_at` needs, and the command for it."""
    place = data.columns.coordinates
    names = ", ".join(place.columns)
    if len(place.points) == 2 and place.time is not None:
        names += f" ({place.time} has one value in a map)"
    name = "map.png" if len(place.points) <= 2 else "found.csv"
    return f"{names}: tfpn predict {run} TABLE --output {name}"


def on_grid(data: Any, found: dict[str, Any]) -> Any:
    """Puts the predictions of `table_at` on the grid that their places form.

    Args:
        data: the data set.
        found: the columns of `table_at`. Places that are missing from the grid become NaN.

    Returns:
        An xarray Dataset like that of `predict_grid`. If all places have the same time, it is a
        coordinate without a dimension.

    Raises:
        ValueError: if the places do not form a grid of one or two coordinates.
    """
    import pandas as pd

    place, example = data.columns.coordinates, data.columns.example
    frame = pd.DataFrame(found)
    if frame.empty:
        raise ValueError("the table has no row, so there is no place to predict at.")
    if place.degrees:
        frame[place.points[0]] = _in_one_piece(frame[place.points[0]].to_numpy(np.float64))
    if place.time is not None:
        frame[place.time] = place.hours(frame)
    axes, moment = _axes_of_grid(place, frame)
    if example is not None:
        frame[example] = frame[example].astype(str)
    keys = [*([] if example is None else [example]), *axes]
    sizes = [frame[name].nunique() for name in axes]
    cells = len(frame[axes].drop_duplicates())
    if frame.duplicated(keys).any() or 2 * cells < np.prod(sizes):
        raise ValueError(
            f"the places do not form a grid: {cells} places with {sizes} different values of "
            f"{', '.join(axes)}. Give each place of a grid once, or write a .csv."
        )
    channels = [name + end for name in data.columns.values for end in ("", "_std")]
    grid = frame.set_index(keys)[channels].to_xarray().assign_coords(moment)
    if example is not None:
        grid.attrs["example"] = example
    _say_start(grid, data)
    return grid


def _axes_of_grid(place, frame):
    """The columns that are axes of a grid, and a time that all places share, by its name."""
    axes = [*place.points, *([] if place.time is None else [place.time])]
    if place.points and place.time is not None:
        times = frame[place.time].unique()
        if len(times) == 1:
            return axes[:-1], {place.time: times[0]}
        if len(axes) == 3:
            raise ValueError(
                f"a map is of one moment, and column {place.time!r} holds {len(times)}: give "
                "places with a single one and draw a map for each, or write a .csv."
            )
    if len(axes) > 2:
        raise ValueError(f"a grid has one or two coordinates, found {axes}; write a .csv.")
    return axes, {}
