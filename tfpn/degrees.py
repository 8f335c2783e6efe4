"""A look at coordinates that are angles on the globe rather than places in a plane."""

import warnings

import numpy as np


def warn_of_degrees(points, variance):
    """Warns, at one place, if points look like degrees that surround the globe.

    They do if one coordinate is a latitude, within [-90, 90], and the other a longitude that comes
    within 30 of both ends of [-180, 180], where the ends are one meridian, or of [0, 360] with
    latitudes of both signs. Kilometres or pixels seldom are, and a region of the globe away from
    the date line is not, which a plane represents up to its stretching.

    Args:
        points: [B, N, d].
        variance: [B, N, c], +inf at padding.

    Example:
        >>> import numpy as np
        >>> from tfpn.degrees import warn_of_degrees
        >>> warn_of_degrees(np.array([[[0.0, 27.0], [28.0, -3.0]]]), np.zeros((1, 2, 1)))
    """
    if points.shape[-1] != 2:
        return
    seen = points[np.isfinite(variance).any(axis=-1)]
    if not len(seen):
        return
    low, high = seen.min(axis=0), seen.max(axis=0)
    for east in (0, 1):
        north = 1 - east
        if low[north] < -90 or high[north] > 90:
            continue
        signed = -180 <= low[east] < -150 and 150 < high[east] <= 180
        unsigned = 0 <= low[east] < 30 and 330 < high[east] <= 360 and low[north] < 0 < high[north]
        if signed or unsigned:
            # Its own line as the place, so that Python shows it once.
            warnings.warn(
                f"points look like degrees: coordinate {east} reaches from {low[east]:g} to "
                f"{high[east]:g} and coordinate {north} from {low[north]:g} to {high[north]:g}. "
                "They are taken for a plane, on which places on two sides of the date line are "
                "far apart and degrees of longitude equally long at all latitudes: project them, "
                "region by region, to a plane in units of length.",
                stacklevel=1,
            )
            return
