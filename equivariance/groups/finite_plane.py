"""The finite groups of the plane: C_n, rotations by multiples of 2 pi / n, and D_n."""

import math
from numbers import Integral
from typing import Any

import numpy as np
import sympy

from equivariance.arguments import wrong_type
from equivariance.groups.plane import PlaneGroup
from equivariance.groups.plane_elements import TOLERANCE, PlaneElement


class FinitePlaneGroup(PlaneGroup):
    """Rotations by multiples of 2 pi / n, and reflections for D_n."""

    letter = ""

    def __init__(self, n: int):
        if isinstance(n, bool) or not isinstance(n, Integral):
            raise wrong_type("n", "an integer", n)
        if n < 1:
            raise ValueError(
                f"n must be at least 1, found {n}: the rotations are by multiples of 2 pi / n."
            )
        super().__init__(f"{self.letter}{n}", self.letter == "D")
        self.order = int(n)

    def power(self, j: int) -> PlaneElement:
        """The exact rotation by 2 pi j / n."""
        return PlaneElement.from_angle(
            2 * sympy.pi * sympy.Rational(int(j) % self.order, self.order)
        )

    def elements(self) -> list[PlaneElement]:
        """All elements, exact.

        Example:

        >>> import equivariance
        >>> equivariance.Dihedral(2).elements()
        [R(0), R(pi), R(0) F, R(pi) F]
        """
        found = [self.power(j) for j in range(self.order)]
        if self.reflections:
            found += [PlaneElement.from_angle(g.angle, reflected=True) for g in found]
        return found

    def element(self, g: Any) -> PlaneElement:
        g = super().element(g)
        turns = self.order * math.atan2(float(g.sin), float(g.cos)) / (2.0 * math.pi)
        j = round(turns)
        inside = abs(turns - j) < TOLERANCE * self.order
        if inside and g.exact:
            turn = self.power(j)
            inside = all((x - y).equals(0) for x, y in ((g.cos, turn.cos), (g.sin, turn.sin)))
        if not inside:
            raise ValueError(
                f"{g} is not an element of {self.name}: its angle is no multiple of "
                f"2 pi / {self.order}."
            )
        j %= self.order
        angle = self.power(j).angle if g.exact else 2.0 * math.pi * j / self.order
        return PlaneElement.from_angle(angle, g.reflected)

    def random_element(self, rng: np.random.Generator) -> PlaneElement:
        angle = 2.0 * math.pi * int(rng.integers(self.order)) / self.order
        reflected = self.reflections and bool(rng.integers(2))
        return PlaneElement.from_angle(angle, reflected)


class Cyclic(FinitePlaneGroup):
    """C_n, the rotations of the plane by multiples of 2 pi / n.

    Args:
        n: order of the group, at least 1.

    Example:

    >>> import equivariance
    >>> equivariance.Cyclic(5).tensor(2, 0).decompose().irreps
    [(<C5 representation 0, 1 channels>, 2), (<C5 representation 2, 2 channels>, 1)]
    """

    letter = "C"


class Dihedral(FinitePlaneGroup):
    """D_n, the rotations by multiples of 2 pi / n and n reflections, including diag(1, -1).

    Args:
        n: half the order of the group, at least 1.

    Example:

    >>> import equivariance
    >>> str(equivariance.Dihedral(4).tensor(1, 1).decompose().representation)
    '0+ + 0- + 2+ + 2-'
    """

    letter = "D"
