"""A warning about coordinates that look like angles on the globe, not like places in a plane."""

import warnings

import numpy as np


def warn_of_degrees(points, variance):
    """Warns once if points look like degrees that surround the globe.

    Points look so if one coordinate is a latitude, within [-90, 90], and the one beside it is a
    longitude: within [-180, 180] or [0, 360], and coming within 45 of both ends, which are one
    meridian. A third coordinate, such as a time or a height, may come before or after the two.
    Kilometres and pixels seldom look so. Nor does a region away from the date line, which a plane
    represents up to stretching. These cases bring no warning:

    - pixels: longitudes from 0 to 360 on a lattice of whole steps that starts in [0, 1);
    - clouds of points: three coordinates, and the third reaches over [-135, 135], too;
    - days of a year: the last of three coordinates is within [0, 360], and the first is within
      [-90, 90] like a latitude.

    Args:
        points: [B, N, d].
        variance: [B, N, c], +inf at padding.

    Example:
        >>> import numpy as np
        >>> from tfpn.degrees import warn_of_degrees
        >>> warn_of_degrees(np.array([[[0.0, 27.0], [28.0, -3.0]]]), np.zeros((1, 2, 1)))
    """
    if points.shape[-1] not in (2, 3):
        return
    seen = points[np.isfinite(variance).any(axis=-1)]
    if not len(seen):
        return
    low, high = seen.min(axis=0), seen.max(axis=0)
    signed = (low >= -180) & (low < -135) & (high > 135) & (high <= 180)
    unsigned = (low >= 0) & (low < 45) & (high > 315) & (high <= 360)
    latitude = (low >= -90) & (high <= 90)
    wide = (low < -135) & (high > 135)
    for east, north in ((0, 1), (1, 0), (1, 2), (2, 1))[: 2 * points.shape[-1] - 2]:
        image = _is_image(seen[:, [east, north]])
        days = east == 2 and latitude[0]  # perhaps days, after a longitude and a latitude
        around = signed[east] or (unsigned[east] and not image and not days)
        if around and latitude[north] and not np.delete(wide, [east, north]).any():
            # The warning's place is its own line, so that Python shows it once.
            warnings.warn(
                f"points look like degrees: coordinate {east} reaches from {low[east]:g} to "
                f"{high[east]:g} and coordinate {north} from {low[north]:g} to {high[north]:g}. "
                "The model takes them for a plane, on which places on two sides of the date line "
                "are far apart and degrees of longitude equally long at all latitudes. Use "
                "tfpn.coordinates.sphere for points of the globe, or project a region to a plane.",
                stacklevel=1,
            )
            return


def _is_image(points):
    """Whether coordinates look like the pixels of an image."""
    low = points.min(axis=0)
    return bool(np.all((low >= 0) & (low < 1)) and np.all((points - low) % 1 == 0))
