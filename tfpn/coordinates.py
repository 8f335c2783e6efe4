"""Where on Earth, and when: points on a sphere, and hours from an origin.

Degrees are no plane: meridians meet at the poles, and 180 degrees east is 180 degrees west. On the
unit sphere places are points (x, y, z) of space, and what is near is near. A model takes these
three as its coordinates. Its Gaussian processes are then those of space, seen on the sphere:

- The kernel is a function of the chord ``2 sin(t / 2)``, which grows with the great-circle angle t
  and is that angle but for a 24th of its square. A kernel of space stays positive definite on the
  sphere. One of the angle itself does not, for the RBF kernel at any length scale.
- Flows are drifts and diffusions of space, so every closed form holds. A drift may leave the
  sphere; the prior lives there too, and no chart, pole or edge comes in. It is a fixed vector of
  space and no turning of the sphere: a network is not invariant under rotations of the globe.

The three share a length scale: with ``ard=True`` give their group, such as ``ard=(0, 0, 0, 1)`` for
a place and a time.
"""

from typing import Any

import numpy as np

from tfpn.checks import check_positive
from tfpn.ragged import numeric
from tfpn.types import Array, ArrayLike

# The mean radius of the Earth in kilometres.
EARTH_RADIUS = 6371.0088


def sphere(lonlat: ArrayLike, radius: float = 1.0) -> Array:
    """Longitudes and latitudes in degrees as points of a sphere, [..., 2] -> [..., 3].

    ``x, y, z = radius (cos lat cos lon, cos lat sin lon, sin lat)``

    Args:
        lonlat: longitude (any full turns) and latitude (from -90 to 90); NaN stays NaN.
        radius: with `EARTH_RADIUS` lengths are in kilometres.

    Raises:
        TypeError: if they are no numbers.
        ValueError: for another shape, or a latitude beyond 90 degrees (perhaps a longitude).

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
    """Points of a sphere about 0 as longitude and latitude, [..., 3] -> [..., 2].

    Longitudes are above -180 and up to 180; at a pole the longitude is 0.

    Raises:
        TypeError: if they are no numbers.
        ValueError: for another shape.

    Example:

    >>> from tfpn.coordinates import degrees, sphere
    >>> degrees(sphere([[190.0, -35.0]])).round(9).tolist()
    [[-170.0, -35.0]]
    """
    points = numeric("points", points).astype(np.float64)
    if points.ndim == 0 or points.shape[-1] != 3:
        raise ValueError(f"points: found the shape {list(points.shape)}; give [..., 3].")
    x, y, z = np.moveaxis(points, -1, 0)
    across = np.hypot(x, y)
    pole = across <= 1e-15 * np.abs(z)
    # -0 would be the west of the date line.
    longitude = np.where(pole, 0.0, np.degrees(np.arctan2(y + 0.0, x)))
    longitude = np.where(longitude == -180.0, 180.0, longitude)
    return np.stack([longitude, np.degrees(np.arctan2(z, across))], axis=-1)


def great_circle(first: ArrayLike, second: ArrayLike, radius: float = EARTH_RADIUS) -> Array:
    """Distance along the sphere between places in degrees, [..., 2] and [..., 2] -> [...].

    By the formula of Vincenty for the sphere, which keeps its digits at any distance. In kilometres
    by default.

    Args:
        first, second: longitudes and latitudes, of shapes that go together.
        radius: of the sphere.

    Raises:
        TypeError, ValueError: as `sphere`.

    Example: a quarter of the globe, and across the date line.

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
    """Time stamps as hours from an origin.

    Stamps with a time zone are moments. Both hours that clocks show twice in autumn are there, an
    hour apart, and the hour that they leave out in spring has no length.

    Args:
        times: anything that `pandas.to_datetime` reads: a column, an index or a list of stamps; or
            a column of polars or pyarrow.
        origin: a stamp; with a time zone if, and only if, the times have one.
        timezone: of stamps without one, such as "Europe/Berlin"; None takes them as they are, for
            clocks that are never changed.
        ambiguous: of pandas's ``tz_localize``, for ``timezone`` alone: "infer" tells the two
            readings of an hour by their order.

    Returns:
        [n] in float64, NaN where a stamp is missing.

    Raises:
        ImportError: without pandas.
        ValueError: if times and origin are not both with a zone or both without one, or if stamps
            are ambiguous or do not exist in the zone.

    Example:

    >>> from tfpn.coordinates import hours_since
    >>> stamps = ["2024-10-27T02:30+02:00", "2024-10-27T02:30+01:00"]
    >>> hours_since(stamps, "2024-10-27T00:00+02:00").tolist()
    [2.5, 3.5]
    """
    import pandas as pd

    # Columns of polars and pyarrow know their zones, which NumPy's arrays of them do not.
    stamps = pd.Series(times.to_pandas() if hasattr(times, "to_pandas") else times)
    if stamps.dtype == object or stamps.dtype.kind not in "Mm":
        # Offsets may differ from stamp to stamp, as in summer and winter.
        zoned = [pd.Timestamp(stamp).tzinfo is not None for stamp in stamps.dropna()]
        if any(zoned) and not all(zoned):
            raise ValueError("times holds stamps with and without a time zone: give one kind.")
        stamps = pd.to_datetime(stamps, utc=any(zoned), format="ISO8601" if _text(stamps) else None)
    elif hasattr(stamps.dtype, "pyarrow_dtype"):
        stamps = pd.Series(pd.DatetimeIndex(stamps))
    start = pd.Timestamp(origin)
    if timezone is not None:
        if stamps.dt.tz is not None:
            raise ValueError(
                f"times have the zone {stamps.dt.tz} already: leave out timezone={timezone!r}."
            )
        stamps = stamps.dt.tz_localize(timezone, ambiguous=ambiguous)
        start = start.tz_localize(timezone) if start.tzinfo is None else start
    if (stamps.dt.tz is None) != (start.tzinfo is None):
        with_zone, without = ("origin", "times") if stamps.dt.tz is None else ("times", "origin")
        raise ValueError(
            f"{with_zone} has a time zone and {without} has none: give both one, or timezone=... "
            "for times without."
        )
    return ((stamps - start) / pd.Timedelta("1h")).to_numpy(np.float64)


def _text(stamps):
    return all(isinstance(stamp, str) for stamp in stamps.dropna())


def _angles(name, lonlat):
    """Longitude and latitude in radians, after checks."""
    lonlat = numeric(name, lonlat).astype(np.float64)
    if lonlat.ndim == 0 or lonlat.shape[-1] != 2:
        raise ValueError(
            f"{name}: found the shape {list(lonlat.shape)}; give longitude and latitude, [..., 2]."
        )
    beyond = np.abs(lonlat[..., 1]) > 90.0
    if beyond.any():
        raise ValueError(
            f"{name}: a latitude is {lonlat[..., 1][beyond][0]:g} degrees; latitudes are from -90 "
            "to 90 and come after the longitude."
        )
    return tuple(np.radians(np.moveaxis(lonlat, -1, 0)))
