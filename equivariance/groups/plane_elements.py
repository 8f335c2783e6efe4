"""Elements of the groups of the plane: R(angle), or R(angle) F with F = diag(1, -1)."""

import math
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import numpy as np
import sympy

from equivariance.arguments import wrong_type
from equivariance.groups.elements import square_matrix

# The largest distance of a numeric matrix from an orthogonal one, or of an angle from a multiple of
# 2 pi / n.
TOLERANCE = 1e-8


class PlaneElement:
    """R(angle), or R(angle) F if ``reflected``.

    Attributes:
        cos, sin: cosine and sine of the angle; sympy numbers if exact, otherwise floats.
        angle: the angle; None for an exact element given as a matrix.
        reflected: whether the reflection F = diag(1, -1) comes first.
        exact: whether cos and sin are sympy numbers.
    """

    def __init__(self, cos: Any, sin: Any, angle: Any, reflected: bool):
        self.cos, self.sin, self.angle, self.reflected = cos, sin, angle, bool(reflected)
        self.exact = isinstance(cos, sympy.Basic)

    @classmethod
    def from_angle(cls, angle: Any, reflected: bool = False) -> "PlaneElement":
        """The element with the given angle in radians: exact if int, Fraction or sympy."""
        if isinstance(angle, sympy.Expr):
            if not angle.is_number or angle.is_real is False:
                raise ValueError(f"The angle must be a real number, found {angle}.")
            exact = not angle.has(sympy.Float)
        elif isinstance(angle, Integral | Fraction) and not isinstance(angle, bool):
            exact = True
        elif isinstance(angle, Real) and not isinstance(angle, bool):
            exact = False
        else:
            raise wrong_type("An angle", "a number", angle)
        if exact:
            angle = sympy.sympify(angle)
            return cls(sympy.cos(angle), sympy.sin(angle), angle, reflected)
        angle = float(angle)
        if not math.isfinite(angle):
            raise ValueError(f"The angle must be finite, found {angle}.")
        return cls(math.cos(angle), math.sin(angle), angle, reflected)

    @property
    def matrix(self) -> Any:
        return self.rotated(1)

    def rotated(self, frequency: int) -> Any:
        """R(frequency angle), times F if reflected."""
        c, s = self.cos_sin(frequency)
        sign = -1 if self.reflected else 1
        rows = [[c, -sign * s], [s, sign * c]]
        return sympy.ImmutableMatrix(rows) if self.exact else np.array(rows)

    def cos_sin(self, frequency: int) -> tuple:
        """Cosine and sine of frequency times the angle."""
        if self.angle is None:
            power = sympy.expand((self.cos + sympy.I * self.sin) ** frequency)
            return power.as_real_imag()
        if self.exact:
            return sympy.cos(frequency * self.angle), sympy.sin(frequency * self.angle)
        return math.cos(frequency * self.angle), math.sin(frequency * self.angle)

    def __repr__(self) -> str:
        angle = f"atan2({self.sin}, {self.cos})" if self.angle is None else str(self.angle)
        return f"R({angle}) F" if self.reflected else f"R({angle})"


def element_from_matrix(matrix):
    """Checks an orthogonal 2 x 2 matrix, and returns its element."""
    matrix = square_matrix(matrix, 2)
    a, b, c, d = (matrix[i, j] for i in range(2) for j in range(2))
    reflected = float(a * d - b * c) < 0
    sign = -1 if reflected else 1
    wrong = (a - sign * d, c + sign * b, a * a + c * c - 1)
    exact = isinstance(matrix, sympy.MatrixBase)
    if exact and all(sympy.expand(x) == 0 or x.equals(0) for x in wrong):
        return PlaneElement(a, c, None, reflected)
    if exact or not all(abs(x) < TOLERANCE for x in wrong):
        raise ValueError(f"g must be an orthogonal matrix, found {matrix.tolist()}.")
    return PlaneElement.from_angle(math.atan2(c, a), reflected)
