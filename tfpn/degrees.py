"""A look at coordinates that are angles on the globe rather than places in a plane."""

import warnings

import numpy as np


def warn_of_degrees(points, variance):
    """Warns, at one place, if points look like degrees that surround the globe.

    They do if one coordinate is a latitude, within [-90, 90], and the one beside it a longitude
    that comes within 45 of both ends of [-180, 180] or of [0, 360], where the ends are one
    meridian: of two coordinates, or of three, with a time or a height before or after them.
    Kilometres or pixels seldom are, and a region of the globe away from the date line is not, which
    a plane represents up to its stretching. Left out are lattices of whole steps from [0, 1), which
    images have, three coordinates of which two reach over [-135, 135], as clouds of points do, and
    a last of three within [0, 360] that may be the day of the year.

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
        days = east == 2 and latitude[0]  # after a longitude and a latitude, perhaps
        around = signed[east] or (unsigned[east] and not image and not days)
        if around and latitude[north] and not np.delete(wide, [east, north]).any():
            # Its own line as the place, so that Python shows it once.
            warnings.warn(
                f"points look like degrees: coordinate {east} reaches from {low[east]:g} to "
                f"{high[east]:g} and coordinate {north} from {low[north]:g} to {high[north]:g}. "
                "They are taken for a plane, on which places on two sides of the date line are "
                "far apart and degrees of longitude equally long at all latitudes: take "
                "tfpn.coordinates.sphere for points of the globe, or project a region to a plane.",
                stacklevel=1,
            )
            return


def _is_image(points):
    """Whether coordinates are those of an image's pixels."""
    low = points.min(axis=0)
    return bool(np.all((low >= 0) & (low < 1)) and np.all((points - low) % 1 == 0))
