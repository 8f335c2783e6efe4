"""Rotations and reflections of the plane, and the groups of all of them: SO(2) and O(2).

An element is R(angle) or R(angle) F with the reflection F = diag(1, -1). Frequency k has the real
irreducible representation R(k angle) (times F). It has two channels, or one if R(k angle) is always
1 or -1.
"""

from __future__ import annotations

import math
from functools import cache, cached_property
from typing import Any

import numpy as np
import sympy
from sympy import QQ
from sympy.polys.matrices import DomainMatrix

from equivariance.arguments import natural_number
from equivariance.characters import Character, halved
from equivariance.decomposition import isotypic_copies, whole
from equivariance.exact import sparse
from equivariance.groups.base import Group
from equivariance.groups.elements import as_floats
from equivariance.groups.plane_elements import PlaneElement, element_from_matrix
from equivariance.models import Model, Turn
from equivariance.representations import Irrep, Product, Representation


class PlaneGroup(Group):
    """SO(2) (the rotations of the plane), O(2) (rotations and reflections), or a subgroup.

    ``equivariance.SO2`` and ``equivariance.O2`` are of this class.

    Give an element as an angle in radians (a rotation), by ``rotation`` and ``reflection``, or as
    an orthogonal 2 x 2 matrix. sympy matrices are exact, and so are angles that are int, Fraction
    or sympy numbers. Floats and NumPy arrays are numeric.

    Example:

    >>> import equivariance
    >>> equivariance.SO2.irrep(1) + equivariance.SO2.tensor(1, 1)
    <SO2 representation 1 + T(1,1), 6 channels>
    """

    dim = 2
    field = QQ
    order: Any = None  # n of C_n and D_n; None for all rotations

    def __init__(self, name: str, reflections: bool):
        self.name = name
        self.reflections = reflections
        self.key = (name,)

    @property
    def trivial(self) -> Representation:
        return self.irrep(0)

    def rotation(self, angle: Any) -> PlaneElement:
        """The rotation by an angle in radians."""
        return self.element(PlaneElement.from_angle(angle))

    def reflection(self, angle: Any = 0) -> PlaneElement:
        """The reflection R(angle) diag(1, -1), across the line at half the angle."""
        return self.element(PlaneElement.from_angle(angle, reflected=True))

    def element(self, g: Any) -> PlaneElement:
        """Reads a group element from an angle, a 2 x 2 matrix or an element.

        Args:
            g: an angle in radians (a rotation), an orthogonal 2 x 2 matrix (sympy or NumPy), or an
                element of this group.

        Returns:
            A ``PlaneElement``.

        Raises:
            TypeError, ValueError: if g is not an element of the group.

        Example:

        >>> import equivariance, numpy as np
        >>> equivariance.O2.element(np.diag([1.0, -1.0]))
        R(0.0) F
        """
        if not isinstance(g, PlaneElement):
            if isinstance(g, sympy.MatrixBase | np.ndarray | list | tuple):
                g = element_from_matrix(g)
            else:
                g = PlaneElement.from_angle(g)
        if g.reflected and not self.reflections:
            raise ValueError(f"{g} is a reflection, but {self.name} has only rotations.")
        return g

    def random_element(self, rng: np.random.Generator) -> PlaneElement:
        angle = rng.uniform(0.0, 2.0 * math.pi)
        reflected = self.reflections and bool(rng.integers(2))
        return PlaneElement.from_angle(angle, reflected)

    def inverse(self, g: Any) -> PlaneElement:
        g = self.element(g)
        if g.reflected:
            return g
        return PlaneElement(g.cos, -g.sin, None if g.angle is None else -g.angle, False)

    def compose(self, g: Any, h: Any) -> PlaneElement:
        """The product g h: first h, then g."""
        g, h = self.element(g), self.element(h)
        sign = -1 if g.reflected else 1
        reflected = g.reflected != h.reflected
        if None not in (g.angle, h.angle):
            return self.element(PlaneElement.from_angle(g.angle + sign * h.angle, reflected))
        if g.exact and h.exact:
            cos = sympy.expand(g.cos * h.cos - sign * g.sin * h.sin)
            sin = sympy.expand(g.sin * h.cos + sign * g.cos * h.sin)
            return self.element(PlaneElement(cos, sin, None, reflected))
        return self.element(as_floats(g.matrix) @ as_floats(h.matrix))

    @cached_property
    def lie_generators(self) -> tuple:
        if self.order is not None:
            return ()
        return (sympy.ImmutableMatrix([[0, -1], [1, 0]]),)

    @cached_property
    def discrete_generators(self) -> tuple:
        n = self.order
        found = [] if n is None else [self.rotation(2 * sympy.pi / n)]
        if self.reflections:
            found.append(self.reflection(0))
        return tuple(found)

    def _fold(self, frequency):
        """The frequency of the irreducible representations in R(frequency angle)."""
        if self.order is None:
            return abs(frequency)
        frequency %= self.order
        return min(frequency, self.order - frequency)

    def _is_single(self, frequency):
        """Whether R(frequency angle) is 1 or -1 for all angles of the group."""
        return frequency == 0 or (self.order is not None and 2 * frequency == self.order)

    def irrep(self, k: int, parity: int | None = None) -> Irrep:
        """The real irreducible representation of frequency k.

        Args:
            k: frequency, 0 to n // 2 for C_n and D_n. It has two channels, which rotate by k times
                the angle. k = 0 has one channel, and so has n / 2, where a rotation by 2 pi / n
                gives -1.
            parity: for one channel under reflections, 1 (a scalar, the default) or -1 (a
                pseudoscalar, which changes sign under F = diag(1, -1)).

        Returns:
            The representation.

        Raises:
            TypeError, ValueError: if k is not an integer, is negative or too large; or if parity
                does not apply.

        Example:

        >>> import equivariance
        >>> equivariance.O2.irrep(0, parity=-1).matrix(equivariance.O2.reflection())
        Matrix([[-1]])
        """
        k = natural_number(k, "k (the frequency)")
        if self.order is not None and k > self.order // 2:
            raise ValueError(
                f"k (the frequency) must be at most n // 2 = {self.order // 2} for {self.name}, "
                f"found {k}: frequency {k} is the same representation as {self._fold(k)}."
            )
        single = self._is_single(k)
        if parity is not None and not (self.reflections and single):
            reason = (
                f"frequency {k} of {self.name} has two channels, which a reflection exchanges"
                if self.reflections
                else f"{self.name} has no reflections"
            )
            raise ValueError(f"parity = {parity!r} does not apply: {reason}. Leave it out.")
        if parity not in (None, 1, -1):
            raise ValueError(f"parity must be 1 or -1, found {parity!r}.")
        if not (self.reflections and single):
            return Irrep(self, (k,), 1 if single else 2, str(k))
        parity = parity or 1
        return Irrep(self, (k, parity), 1, f"{k}{'+' if parity > 0 else '-'}")

    def _irreps_of_frequency(self, frequency):
        k = self._fold(frequency)
        if self.reflections and self._is_single(k):
            return [self.irrep(k, 1), self.irrep(k, -1)]
        return [self.irrep(k)]

    def _irrep_matrix(self, irrep, element):
        k = irrep.index[0]
        if irrep.dim == 2:
            return element.rotated(k)
        value = element.cos_sin(k)[0]
        if element.reflected:
            value *= irrep.index[1]
        return sympy.Matrix([[value]]) if element.exact else np.array([[round(value)]], float)

    def _irrep_model(self, irrep):
        k = irrep.index[0]
        if irrep.dim == 2:
            return self._rotating_model(k)
        sign = -1 if k else 1  # R(k angle) of the rotation by 2 pi / n is -1 for k = n / 2
        reflections = (_diagonal(irrep.index[1]),) if self.reflections else ()
        return self._model_of(sparse({}, (1, 1)), (sign,), reflections)

    def _rotating_model(self, k):
        """The model of R(k angle) and F, which need not be irreducible."""
        weights = sparse({(0, 1): QQ(-k), (1, 0): QQ(k)}, (2, 2))
        return self._model_of(weights, (1, 1), (_diagonal(1, -1),) if self.reflections else ())

    def _model_of(self, weights, signs, reflections):
        scale = (QQ(1),) * len(signs)
        if self.order is None:
            return Model((weights,), reflections, scale)
        return Model((), reflections, scale, (Turn(self.order, weights, signs),))

    @cached_property
    def defining_model(self) -> Model:
        return self._rotating_model(1)

    @cached_property
    def defining_copies(self) -> tuple:
        if not self._is_single(self._fold(1)):
            return (whole(self.irrep(1)),)
        return isotypic_copies(self.defining, self._irreps_of_frequency(1))

    @cache  # noqa: B019 groups live as long as the program does
    def _product_copies(self, left, right):
        frequencies = {
            self._fold(left.index[0] - right.index[0]),
            self._fold(left.index[0] + right.index[0]),
        }
        candidates = [x for k in sorted(frequencies) for x in self._irreps_of_frequency(k)]
        return isotypic_copies(Product(left, right), candidates)

    def _irrep_character(self, irrep):
        k = irrep.index[0]
        if irrep.dim == 2:
            return self._rotating_character(k)
        # The second value belongs to the reflections R(2 pi j / n) F with odd j.
        parity = irrep.index[1] if self.reflections else 1
        return Character(self._average, {k: 1}, [parity, -parity if k else parity][: self._kinds])

    def _rotating_character(self, k):
        return Character(self._average, {k: 1, -k: 1}, [0] * self._kinds)

    def defining_character(self) -> Character:
        return self._rotating_character(1)

    @property
    def _kinds(self):
        return 2 if self.reflections else 0

    def _average(self, rotations, reflections):
        """Twice the average; for rotations it is the constant term, modulo n in a finite group."""
        n = self.order
        total = sum(x for k, x in rotations.items() if (k == 0 if n is None else k % n == 0))
        if not reflections:
            return 2 * total
        # Half of the reflections have even j if n is even; otherwise the two values are the same.
        return total + halved(sum(reflections))


def _diagonal(*values):
    return DomainMatrix.diag([QQ(x) for x in values], QQ)


SO2 = PlaneGroup("SO2", reflections=False)
O2 = PlaneGroup("O2", reflections=True)
