"""The harmonics by the dimension of space."""

import dataclasses
import functools

from tfpn.math.steerable.interface import Harmonics
from tfpn.math.steerable.plane import PLANE
from tfpn.math.steerable.space import SPACE

HARMONICS: dict[int, Harmonics] = {h.dim: h for h in (PLANE, SPACE)}


def harmonics_of(dim: int | None, order: int | None = None) -> Harmonics:
    """Those of the plane for 2 and of space for 3.

    Args:
        dim: of space.
        order: n of flows of the plane that commute with C_n only, None for all rotations.

    Raises:
        ValueError: for another dimension.
    """
    if dim not in HARMONICS:
        raise ValueError(
            f"steerable fields live on the plane or in space: points need 2 or 3 coordinates, "
            f"found {dim}."
        )
    found = HARMONICS[dim]
    if order is None:
        return found
    return dataclasses.replace(found, flow_type=functools.partial(found.flow_type, order=order))
