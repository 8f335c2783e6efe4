"""Coordinates of places on Earth and of times: points on a sphere, and hours from an origin.

Longitude and latitude do not form a plane: meridians meet at the poles, and 180 degrees east is 180
degrees west. On the unit sphere places are points (x, y, z) of space, and near places have near
points. A model takes these three coordinates. Its Gaussian processes are then processes in space,
seen on the sphere:

- The kernel is a function of the chord ``2 sin(t / 2)``, which grows with the great-circle angle t.
  Up to higher orders the chord is ``t (1 - t^2 / 24)``, which is 0.1 % less than the angle at 1000
  km. Length scales and drifts are lengths of space, so `adapt` measures the spacing of places in
  chords, too. A kernel of space stays positive definite
  on the sphere. The RBF kernel of the angle itself is not, at any length scale.
- Flows are drifts and diffusions in space, so every closed form holds. A drift may leave the
  sphere: the prior is defined there too, and there is no chart, pole or edge. A drift is a fixed
  vector of space, not a rotation of the sphere. So a network is not invariant under rotations of
  the globe.

The three coordinates share a length scale. Give their group as ``ard``, such as
``ard=(0, 0, 0, 1)`` for a place and a time.
"""

import numbers
import re
from typing import Any

import numpy as np

from tfpn.checks import check_positive
from tfpn.ragged import numeric
from tfpn.types import Array, ArrayLike

# The mean radius of the Earth in kilometres.
EARTH_RADIUS = 6371.0088


def sphere(lonlat: ArrayLike, radius: float = 1.0) -> Array:
    """Turns longitudes and latitudes in degrees into points of a sphere, [..., 2] -> [..., 3].

    ``x, y, z = radius (cos lat cos lon, cos lat sin lon, sin lat)``

    Args:
        lonlat: longitude (of any size) and latitude (from -90 to 90). NaN stays NaN.
        radius: radius of the sphere. With `EARTH_RADIUS` lengths are in kilometres.

    Raises:
        TypeError: if ``lonlat`` does not hold numbers.
        ValueError: for another shape, an infinite longitude, or a latitude beyond 90 degrees
            (perhaps a longitude).

    Example:

    >>> from tfpn.coordinates import sphere
    >>> (sphere([[180.0, 0.0], [-180.0, 0.0], [77.0, 90.0]]).round(9) + 0.0).tolist()
    [[-1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    longitude, latitude = _angles("lonlat", lonlat)
    across = np.cos(latitude)
    point = [across * np.cos(longitude), across * np.sin(longitude), np.sin(latitude)]
    return check_positive("radius", radius) * np.stack(point, axis=-1)


def degrees(points: ArrayLike) -> Array:
    """Turns points of a sphere about 0 into longitude and latitude, [..., 3] -> [..., 2].

    Longitudes are above -180 and at most 180 degrees. At a pole the longitude is 0. The point 0 has
    no direction and becomes NaN. NaN stays NaN.

    Raises:
        TypeError: if ``points`` does not hold numbers.
        ValueError: for another shape, or an infinite coordinate.

    Example:

    >>> from tfpn.coordinates import degrees, sphere
    >>> degrees(sphere([[190.0, -35.0]])).round(9).tolist()
    [[-170.0, -35.0]]
    """
    points = numeric("points", points).astype(np.float64)
    if points.ndim == 0 or points.shape[-1] != 3:
        raise ValueError(f"points: found the shape {list(points.shape)}; give [..., 3].")
    if np.isinf(points).any():
        raise ValueError("points: a coordinate is infinite; leave the point out.")
    x, y, z = np.moveaxis(points, -1, 0)
    across = np.hypot(x, y)
    pole = across <= 1e-15 * np.abs(z)
    # A y of -0 would give -180 degrees on the date line.
    longitude = np.where(pole, 0.0, np.degrees(np.arctan2(y + 0.0, x)))
    longitude = np.where(longitude == -180.0, 180.0, longitude)
    found = np.stack([longitude, np.degrees(np.arctan2(z, across))], axis=-1)
    return np.where(np.any(points != 0.0, axis=-1, keepdims=True), found, np.nan)


def great_circle(first: ArrayLike, second: ArrayLike, radius: float = EARTH_RADIUS) -> Array:
    """Distances along the sphere between places in degrees, [..., 2] and [..., 2] -> [...].

    The function uses Vincenty's formula for the sphere, which is accurate at any distance.
    Distances are in kilometres by default.

    Args:
        first, second: longitudes and latitudes, of shapes that broadcast.
        radius: radius of the sphere.

    Raises:
        TypeError, ValueError: as `sphere`.

    Example: a quarter of the globe, and a step across the date line.

    >>> from tfpn.coordinates import great_circle
    >>> great_circle([[0.0, 0.0], [179.5, 0.0]], [[0.0, 90.0], [-179.5, 0.0]]).round().tolist()
    [10008.0, 111.0]
    """
    east1, north1 = _angles("first", first)
    east2, north2 = _angles("second", second)
    turn = east2 - east1
    sideways = np.cos(north2) * np.sin(turn)
    upwards = np.cos(north1) * np.sin(north2) - np.sin(north1) * np.cos(north2) * np.cos(turn)
    along = np.sin(north1) * np.sin(north2) + np.cos(north1) * np.cos(north2) * np.cos(turn)
    return check_positive("radius", radius) * np.arctan2(np.hypot(sideways, upwards), along)


def hours_since(
    times: Any, origin: Any, *, timezone: str | None = None, ambiguous: Any = "raise"
) -> Array:
    """Turns time stamps into hours from an origin.

    With a time zone, differences are the time that has passed. The two passes through the hour that
    clocks repeat in autumn are an hour apart. The hour that clocks skip in spring takes no time.

    Args:
        times: anything that `pandas.to_datetime` reads (a column, an index or a list of stamps), or
            a column of polars or pyarrow.
        origin: a stamp. It has a time zone if and only if the times have one. Without one, in an
            hour that clocks of ``timezone`` repeat, it is in the first pass.
        timezone: the zone of stamps that have none, such as "Europe/Berlin". None takes them as
            they are, which is right for clocks that nobody changes.
        ambiguous: as in pandas's ``tz_localize``, with ``timezone`` only. "infer" tells the two
            passes through a repeated hour by their order.

    Returns:
        Hours, a float64 array [n], NaN where a stamp is missing.

    Raises:
        ImportError: without pandas.
        TypeError: for numbers or lengths of time in place of time stamps.
        ValueError: if a stamp cannot be read, if only one of times and origin has a time zone, if
            there is no such zone, or if stamps are ambiguous or do not exist in the zone.

    Example:

    >>> from tfpn.coordinates import hours_since
    >>> stamps = ["2024-10-27T02:30+02:00", "2024-10-27T02:30+01:00"]
    >>> hours_since(stamps, "2024-10-27T00:00+02:00").tolist()
    [2.5, 3.5]
    """
    import pandas as pd

    # NumPy arrays of polars and pyarrow columns would lose the time zone.
    stamps = pd.Series(times.to_pandas() if hasattr(times, "to_pandas") else times)
    _refuse_numbers(stamps, origin)
    if stamps.dtype == object or stamps.dtype.kind not in "Mm":
        form = "ISO8601" if _text(stamps) else None
        try:
            # Offsets may differ from stamp to stamp, such as in summer and winter.
            zoned = [pd.Timestamp(stamp).tzinfo is not None for stamp in stamps.dropna()]
            if not any(zoned) or all(zoned):
                stamps = pd.to_datetime(stamps, utc=any(zoned), format=form)
        except ValueError as error:
            said = _without_advice(error)
            raise ValueError(f"times: {said}. Write stamps as 2024-12-31T06:00.") from error
        if any(zoned) and not all(zoned):
            raise ValueError("times holds stamps with and without a time zone: give one kind.")
    elif hasattr(stamps.dtype, "pyarrow_dtype"):
        stamps = pd.Series(pd.DatetimeIndex(stamps))
    try:
        start = pd.Timestamp(origin)
    except (TypeError, ValueError):
        start = pd.NaT
    if start is pd.NaT:
        raise ValueError(f"origin is {origin!r}: give a time stamp.")
    if timezone is not None:
        if stamps.dt.tz is not None:
            raise ValueError(
                f"times already have the zone {stamps.dt.tz}: leave out timezone={timezone!r}."
            )
        try:
            stamps = stamps.dt.tz_localize(timezone, ambiguous=ambiguous)
            if start.tzinfo is None:
                start = start.tz_localize(timezone, ambiguous=True)
        except (KeyError, IndexError) as error:  # of the library of zones
            raise ValueError(
                f"timezone: there is no zone {timezone!r}; give a name such as 'Europe/Berlin'."
            ) from error
        except ValueError as error:
            if "nonexistent" not in str(error):
                raise
            raise ValueError(
                f"times or origin: {_without_advice(error)}; correct it, or give no time zone if "
                "nobody changes the clock"
            ) from error
    if (stamps.dt.tz is None) != (start.tzinfo is None):
        with_zone, without = ("origin", "times") if stamps.dt.tz is None else ("times", "origin")
        raise ValueError(
            f"{with_zone} has a time zone and {without} has none: give both a zone, or give "
            "timezone=... for times without one."
        )
    return ((stamps - start) / pd.Timedelta("1h")).to_numpy(np.float64)


def _refuse_numbers(stamps, origin):
    """Raises TypeError for numbers, which pandas takes for nanoseconds since 1970."""
    if isinstance(origin, numbers.Number):
        raise TypeError(f"origin is {origin!r}: give a time stamp.")
    some = stamps.dropna()
    kind = getattr(stamps.dtype, "kind", "O")
    wrong = [s for s in some if kind in "biufcm" or isinstance(s, numbers.Number)]
    if wrong:
        raise TypeError(
            f"times: found {wrong[0]}, which is no time stamp. Take numbers as they are, or "
            "give pandas.to_datetime(times, unit=...) of them."
        )


def _without_advice(error):
    """What pandas says, without advice on arguments that `hours_since` does not have."""
    return re.split(r"\. (?:You might|Try) |\n", str(error))[0].rstrip(".")


def _text(stamps):
    return all(isinstance(stamp, str) for stamp in stamps.dropna())


def _angles(name, lonlat):
    """Checks longitudes and latitudes, and returns them in radians."""
    lonlat = numeric(name, lonlat).astype(np.float64)
    if lonlat.ndim == 0 or lonlat.shape[-1] != 2:
        raise ValueError(
            f"{name}: found the shape {list(lonlat.shape)}; give longitude and latitude, [..., 2]."
        )
    if np.isinf(lonlat[..., 0]).any():
        raise ValueError(f"{name}: a longitude is infinite; leave the place out.")
    beyond = np.abs(lonlat[..., 1]) > 90.0
    if beyond.any():
        raise ValueError(
            f"{name}: a latitude is {lonlat[..., 1][beyond][0]:g} degrees; latitudes are from -90 "
            "to 90 and come after the longitude."
        )
    return tuple(np.radians(np.moveaxis(lonlat, -1, 0)))
