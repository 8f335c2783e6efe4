"""Fields of xarray: turns labelled arrays into readings, and predictions into a grid.

Install xarray with ``pip install tfpn[fields]``.
"""

import datetime
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from tfpn.contract import observations
from tfpn.ragged import numeric
from tfpn.types import Array, ArrayLike

# A function from the named coordinates to the model's, [n, k] -> [n, d], or None.
Convert = Callable[[Array], Array] | None


def from_xarray(
    data: Any,
    *,
    points: str | Sequence[str],
    example: str | None = None,
    channels: Sequence[Hashable] | None = None,
    variance: Any = None,
    convert: Convert = None,
) -> tuple[dict[str, Array], Sequence[Any], list[Any]]:
    """Turns labelled arrays into observations.

    Args:
        data: an `xarray.DataArray` or `xarray.Dataset`.
        points: names of the coordinates that say where, in order. Each is a dimension's own (on a
            grid) or runs along a dimension (stations with a "lat" and a "lon").
        example: the dimension whose entries are examples, such as "time" for monthly maps. None
            takes all data as one example.
        channels: names of the variables of a Dataset that are the channels. The default is all.
        variance: variance of the readings' noise: None, a number or one for each channel.
        convert: a function from these coordinates to the model's, [n, k] -> [n, d], such as
            `tfpn.coordinates.sphere` for ("lon", "lat").

    Returns:
        The observations dict with the points at which something was read, the labels of the
        examples [B], and the names of the channels [c].

    Raises:
        ImportError: without xarray.
        TypeError: for other data, or if coordinates or channels are not numbers (turn time stamps
            into numbers with `tfpn.coordinates.hours_since`).
        ValueError: if a name is missing from the data, if there is no reading, if a reading is
            infinite, or if a channel lacks a dimension of the others, along which its readings
            would count again.

    Example:

    >>> import numpy as np, xarray as xr
    >>> from tfpn.grids import from_xarray
    >>> rain = xr.DataArray(
    ...     [[1.0, np.nan, 3.0], [4.0, 5.0, 6.0]],
    ...     coords={"month": [1, 2], "lon": ("station", [10.0, 20.0, 30.0])},
    ...     dims=("month", "station"), name="rain")
    >>> x, months, channels = from_xarray(rain, points="lon", example="month")
    >>> x["points"][0, :, 0].tolist(), x["values"][1, :, 0].tolist()
    ([10.0, 30.0, 0.0], [4.0, 5.0, 6.0])
    >>> months, channels
    ([1, 2], ['rain'])
    """
    import xarray as xr

    if isinstance(data, xr.DataArray):
        data = data.to_dataset(name=data.name if data.name is not None else "value")
    if not isinstance(data, xr.Dataset):
        raise TypeError(
            f"data must be an xarray DataArray or Dataset, found {type(data).__name__}."
        )
    places = [points] if isinstance(points, str) else list(points)
    if isinstance(channels, str):
        channels = [channels]
    names = list(data.data_vars) if channels is None else list(channels)
    if not places or not names:
        raise ValueError("points and channels: name at least one of each.")
    for what, wanted, known in (
        ("points", places, list(data.coords)),
        ("channels", names, list(data.data_vars)),
        ("example", [example] if example is not None else [], list(data.dims)),
    ):
        missing = [name for name in wanted if name not in known]
        if missing:
            raise ValueError(f"{what}: data have no {missing}; they have {known}.")
    for name in (*places, *names):
        if data[name].dtype.kind not in "biuf":
            what = f"points: the coordinate {name!r}" if name in places else f"channels: {name!r}"
            raise TypeError(
                f"{what} holds {data[name].dtype}; give numbers (convert time stamps by "
                "tfpn.coordinates.hours_since), and channels=... to leave variables out."
            )
    _check_dimensions(data, names, places, example)
    arrays = xr.broadcast(*[data[name] for name in (*names, *places)])
    first = [] if example is None else [example]
    rest = [dim for dim in arrays[0].dims if dim not in first]
    if not arrays[0].size:
        raise ValueError(f"data hold no reading of {names}: there is nothing to observe.")
    examples = arrays[0].sizes[example] if first else 1
    flat = np.stack(
        [
            np.asarray(array.transpose(*first, *rest), np.float64).reshape(examples, -1)
            for array in arrays
        ],
        axis=-1,
    )
    values, where = flat[..., : len(names)], flat[..., len(names) :]
    seen: Array = np.asarray(~np.isnan(values).all(axis=-1))
    if not seen.any():
        raise ValueError(f"data hold no reading of {names}: there is nothing to observe.")
    found = [_converted(where[k][seen[k]], convert) for k in range(examples)]
    x = observations(found, [values[k][seen[k]] for k in range(examples)], variance)
    labels = _labels(data[example]) if first else [0]
    return x, labels, names


def grid_points(grid: Mapping[str, ArrayLike], convert: Convert = None) -> Array:
    """Lists the points of a grid, [1, M, d]; the last coordinate changes fastest.

    Args:
        grid: a dict from names to coordinates [n], in the model's order.
        convert: as in `from_xarray`.

    Raises:
        TypeError, ValueError: if coordinates are not lists of finite numbers.

    Example:

    >>> from tfpn.grids import grid_points
    >>> grid_points({"lat": [1.0, 2.0], "lon": [7.0, 8.0, 9.0]})[0, :4].tolist()
    [[1.0, 7.0], [1.0, 8.0], [1.0, 9.0], [2.0, 7.0]]
    """
    axes = _axes(grid)
    meshes = np.meshgrid(*axes.values(), indexing="ij")
    return _converted(np.stack([mesh.ravel() for mesh in meshes], axis=-1), convert)[None]


def to_xarray(
    values: Any,
    grid: Mapping[str, ArrayLike],
    *,
    channels: Sequence[str],
    example: str | None = None,
    examples: Sequence[Any] | None = None,
) -> Any:
    """Puts predictions at the points of a grid into a Dataset, which its `to_netcdf` writes.

    Args:
        values: `tfpn.tasks.Values` [B, M, c] at the points of `grid_points`.
        grid: the grid, as in `grid_points`.
        channels: names of the outputs.
        example, examples: name and labels [B] of the dimension of examples. You may leave them out
            if there is only one example. Labels are a list, or an array of NumPy, pandas or xarray.
            Time stamps with a zone become UTC, because NetCDF has no zones.

    Returns:
        An `xarray.Dataset` with a variable for each channel. Its standard deviation has the same
        name with "_std".
        The attribute "example" names the dimension of examples, if it has one.

    Raises:
        ImportError: without xarray.
        ValueError: if the numbers of points, channels or examples do not agree, or if two variables
            or coordinates would have one name.

    Example:

    >>> import numpy as np
    >>> from tfpn.grids import to_xarray
    >>> from tfpn.tasks import Values
    >>> values = Values(np.arange(6.0).reshape(1, 6, 1), np.ones((1, 6, 1)))
    >>> found = to_xarray(values, {"lat": [1.0, 2.0], "lon": [7.0, 8.0, 9.0]}, channels=["rain"])
    >>> float(found["rain"].sel(lat=2.0, lon=8.0)), sorted(found.data_vars)
    (4.0, ['rain', 'rain_std'])
    """
    import xarray as xr

    axes = _axes(grid)
    channels = [channels] if isinstance(channels, str) else list(channels)
    shape = tuple(map(len, axes.values()))
    mean, std = (np.asarray(part) for part in (values.mean, values.std))
    expected = (
        len(mean) if examples is None else len(examples),
        int(np.prod(shape)),
        len(channels),
    )
    if mean.shape != expected or std.shape != expected or (examples is None) and len(mean) > 1:
        raise ValueError(
            f"values have the shape {list(mean.shape)}, but grid, channels and examples ask for "
            f"{[1 if examples is None else expected[0], *expected[1:]]}: predict at "
            "tfpn.grids.grid_points(grid), and name each output and, if there are several, each "
            "example."
        )
    name = "example" if example is None else example
    taken = [*axes, *([] if examples is None else [name])]
    taken += [f"{channel}{suffix}" for channel in channels for suffix in ("", "_std")]
    twice = sorted({str(one) for one in taken if taken.count(one) > 1})
    if twice:
        raise ValueError(
            f"grid, channels and example: {', '.join(twice)} would be there twice (standard "
            "deviations end in '_std'); give different names."
        )
    dims, coords, attributes = list(axes), dict(axes), {}
    if examples is not None:
        attributes["example"] = name
        dims, coords = [name, *dims], {name: _labels(examples), **coords}
    found = {}
    for number, name in enumerate(channels):
        for suffix, part in (("", mean), ("_std", std)):
            array = part[..., number].reshape(len(mean), *shape)
            found[f"{name}{suffix}"] = (dims, array if examples is not None else array[0])
    return xr.Dataset(found, coords, attributes)


def _labels(examples):
    """Labels as a list that xarray and NetCDF take: numbers, text, or time stamps of UTC."""
    if hasattr(examples, "__array__"):  # of NumPy, pandas or xarray
        array = np.asarray(examples)
        examples = list(array) if array.dtype.kind == "M" else array.tolist()
    return [_without_zone(label) for label in examples]


def _without_zone(label):
    if getattr(label, "tzinfo", None) is None:
        return label
    return label.astimezone(datetime.UTC).replace(tzinfo=None)


def _check_dimensions(data, names, places, example):
    """Raises ValueError where readings would be repeated along dimensions that they do not have."""

    def own(name):
        return {dim for dim in data[name].dims if dim != example}

    whole = set().union(*map(own, (*names, *places)))
    for name in names:
        lacking = sorted(map(str, whole - own(name)))
        if lacking:
            raise ValueError(
                f"channels: {name!r} has no dimension {', '.join(lacking)}, which points or other "
                "channels have: its readings would count again and again. Name channels of the "
                "same dimensions, and select one entry of any other."
            )


def _axes(grid):
    axes = {name: numeric(name, array).astype(np.float64) for name, array in grid.items()}
    for name, axis in axes.items():
        infinite = "" if np.all(np.isfinite(axis)) else " and holds NaN or infinity"
        if axis.ndim != 1 or not len(axis) or infinite:
            raise ValueError(
                f"grid: {name!r} has the shape {list(axis.shape)}{infinite}; give a list of finite "
                "numbers."
            )
    if not axes:
        raise ValueError("grid is empty; give at least one coordinate.")
    return axes


def _converted(where, convert):
    if convert is None:
        return where
    found = np.asarray(convert(where), np.float64)
    if found.ndim != 2 or len(found) != len(where):
        raise ValueError(
            f"convert gives the shape {list(found.shape)} for {len(where)} points; it must give "
            "[n, d]."
        )
    return found
