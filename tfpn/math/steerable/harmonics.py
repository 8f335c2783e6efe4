"""The harmonics by the dimension of space."""

from tfpn.math.steerable.interface import Harmonics
from tfpn.math.steerable.plane import PLANE
from tfpn.math.steerable.space import SPACE

HARMONICS: dict[int, Harmonics] = {h.dim: h for h in (PLANE, SPACE)}


def harmonics_of(dim: int | None) -> Harmonics:
    """Those of the plane for 2 and of space for 3.

    Raises:
        ValueError: for another dimension.
    """
    if dim not in HARMONICS:
        raise ValueError(
            f"steerable fields live on the plane or in space: points need 2 or 3 coordinates, "
            f"found {dim}."
        )
    return HARMONICS[dim]
