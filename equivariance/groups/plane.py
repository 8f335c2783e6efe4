"""Rotations and reflections of the plane: SO(2), O(2), C_n and D_n.

An element is R(angle) or R(angle) F with the reflection F = diag(1, -1). Frequency k has the real
irreducible representation R(k angle) (times F), of two channels, or of one where R(k angle) is
always 1 or -1.
"""

import math
from fractions import Fraction
from functools import cache, cached_property
from numbers import Integral, Real

import numpy as np
import sympy
from sympy import QQ

from equivariance.characters import PlaneCharacter
from equivariance.decomposition import Copy, isotypic_copies
from equivariance.exact import diagonal, identity, sparse
from equivariance.groups.base import Group
from equivariance.representations import Irrep, Model, Product, natural_number

# How far a numeric matrix may be from orthogonal, or an angle from a multiple of 2 pi / n.
TOLERANCE = 1e-8


class PlaneElement:
    """R(angle), or R(angle) F if ``reflected``.

    Attributes:
        cos, sin: of the angle; sympy numbers if exact, else floats.
        angle: the angle; None for an exact element given as a matrix.
        reflected: whether the reflection F = diag(1, -1) comes first.
        exact: whether cos and sin are sympy numbers.
    """

    def __init__(self, cos, sin, angle, reflected):
        self.cos, self.sin, self.angle, self.reflected = cos, sin, angle, bool(reflected)
        self.exact = isinstance(cos, sympy.Basic)

    @classmethod
    def from_angle(cls, angle, reflected=False):
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
            raise TypeError(f"An angle must be a number, found {angle!r} ({type(angle).__name__}).")
        if exact:
            angle = sympy.sympify(angle)
            return cls(sympy.cos(angle), sympy.sin(angle), angle, reflected)
        angle = float(angle)
        if not math.isfinite(angle):
            raise ValueError(f"The angle must be finite, found {angle}.")
        return cls(math.cos(angle), math.sin(angle), angle, reflected)

    @property
    def matrix(self):
        return self.rotated(1)

    def rotated(self, frequency):
        """R(frequency angle), times F if reflected."""
        c, s = self.cos_sin(frequency)
        sign = -1 if self.reflected else 1
        rows = [[c, -sign * s], [s, sign * c]]
        return sympy.ImmutableMatrix(rows) if self.exact else np.array(rows)

    def cos_sin(self, frequency):
        """Cosine and sine of frequency times the angle."""
        if self.angle is None:
            power = sympy.expand((self.cos + sympy.I * self.sin) ** frequency)
            return power.as_real_imag()
        if self.exact:
            return sympy.cos(frequency * self.angle), sympy.sin(frequency * self.angle)
        return math.cos(frequency * self.angle), math.sin(frequency * self.angle)

    def __repr__(self):
        angle = f"atan2({self.sin}, {self.cos})" if self.angle is None else str(self.angle)
        return f"R({angle}) F" if self.reflected else f"R({angle})"


class PlaneGroup(Group):
    """A group of rotations, and of reflections if ``reflections``.

    Elements are given as an angle in radians (a rotation), by ``rotation`` and ``reflection``, or
    as an orthogonal 2 x 2 matrix. Angles that are int, Fraction or sympy numbers and sympy matrices
    are exact; floats and NumPy arrays are numeric.
    """

    dim = 2
    reflections = False
    order = None  # n of C_n and D_n; None for all rotations
    field = QQ

    @property
    def trivial(self):
        return self.irrep(0)

    def rotation(self, angle):
        """The rotation by an angle in radians."""
        return self.element(PlaneElement.from_angle(angle))

    def reflection(self, angle=0):
        """The reflection R(angle) diag(1, -1), across the line at half the angle."""
        return self.element(PlaneElement.from_angle(angle, reflected=True))

    def element(self, g):
        """A group element from an angle, a 2 x 2 matrix or an element.

        Args:
            g: angle in radians (a rotation), orthogonal 2 x 2 matrix (sympy or NumPy), or an
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
                g = _from_matrix(g)
            else:
                g = PlaneElement.from_angle(g)
        if g.reflected and not self.reflections:
            raise ValueError(f"{g} is a reflection, but {self.name} has rotations only.")
        return g

    def random_element(self, rng):
        angle = rng.uniform(0.0, 2.0 * math.pi)
        reflected = self.reflections and bool(rng.integers(2))
        return PlaneElement.from_angle(angle, reflected)

    def inverse(self, g):
        g = self.element(g)
        if g.reflected:
            return g
        return PlaneElement(g.cos, -g.sin, None if g.angle is None else -g.angle, False)

    def compose(self, g, h):
        """The product g h: first h, then g."""
        g, h = self.element(g), self.element(h)
        sign = -1 if g.reflected else 1
        reflected = g.reflected != h.reflected
        if None not in (g.angle, h.angle):
            return self.element(PlaneElement.from_angle(g.angle + sign * h.angle, reflected))
        if g.exact and h.exact:
            cos, sin = (
                sympy.expand(x)
                for x in (
                    g.cos * h.cos - sign * g.sin * h.sin,
                    g.sin * h.cos + sign * g.cos * h.sin,
                )
            )
            return self.element(PlaneElement(cos, sin, None, reflected))
        return self.element(sympy_to_float(g.matrix) @ sympy_to_float(h.matrix))

    @cached_property
    def lie_generators(self):
        if self.order is not None:
            return ()
        return (sympy.ImmutableMatrix([[0, -1], [1, 0]]),)

    @cached_property
    def discrete_generators(self):
        found = [] if self.order is None else [self.power(1)]
        if self.reflections:
            found.append(self.reflection(0))
        return tuple(found)

    def _fold(self, frequency):
        """The frequency of the irreducible representations found in R(frequency angle)."""
        if self.order is None:
            return abs(frequency)
        frequency %= self.order
        return min(frequency, self.order - frequency)

    def _is_single(self, frequency):
        """Whether R(frequency angle) is 1 or -1 for all angles of the group."""
        return frequency == 0 or (self.order is not None and 2 * frequency == self.order)

    def irrep(self, k, parity=None):
        """The real irreducible representation of frequency k.

        Args:
            k: frequency, 0 to n // 2 for C_n and D_n. Two channels, rotated by k times the angle;
                one channel for k = 0 (and for n / 2, where a rotation by 2 pi / n gives -1).
            parity: for one channel under reflections, 1 (the default; a scalar) or -1 (changes sign
                under F = diag(1, -1); a pseudoscalar).

        Returns:
            The representation.

        Raises:
            TypeError, ValueError: if k is no integer, negative or too large, or parity does not
                apply.

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
        k, field = irrep.index[0], self.field
        lie = ()
        if self.order is None:
            turn = {(0, 1): field(-k), (1, 0): field(k)} if irrep.dim == 2 else {}
            lie = (sparse(turn, (irrep.dim, irrep.dim), field),)
        discrete = []
        if self.order is not None:
            c, s = self._cos_sin(k)
            entries = {(0, 0): c, (0, 1): -s, (1, 0): s, (1, 1): c}
            if irrep.dim == 1:
                entries = {(0, 0): c}
            discrete.append(sparse(entries, (irrep.dim, irrep.dim), field))
        if self.reflections:
            discrete.append(diagonal([1, -1] if irrep.dim == 2 else [irrep.index[1]], field))
        return Model(lie, tuple(discrete), (QQ(1),) * irrep.dim)

    @cached_property
    def defining_model(self):
        if self._is_single(self._fold(1)) or self.order == 1:
            return self._frequency_one_model()
        return self.irrep(1).model

    def _frequency_one_model(self):
        """The defining representation of C_1, C_2, D_1 and D_2, which is reducible."""
        field = self.field
        discrete = [diagonal([self._cos_sin(1)[0]] * 2, field)]
        if self.reflections:
            discrete.append(diagonal([1, -1], field))
        return Model((), tuple(discrete), (QQ(1), QQ(1)))

    @cached_property
    def _defining_copies(self):
        if not self._is_single(self._fold(1)):
            irrep = self.irrep(1)
            return (Copy(irrep, identity(2), QQ(1)),)
        return isotypic_copies(self.defining, self._irreps_of_frequency(1))

    @cache  # noqa: B019 groups live as long as the program
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
            return PlaneCharacter(self.order, {k: 1, -k: 1}, (0, 0) if self.reflections else None)
        if not self.reflections:
            return PlaneCharacter(self.order, {k: 1}, None)
        parity = irrep.index[1]
        # The second value is that of the reflections R(2 pi j / n) F with odd j.
        return PlaneCharacter(self.order, {k: 1}, (parity, parity if k == 0 else -parity))

    def _defining_character(self):
        return PlaneCharacter(self.order, {1: 1, -1: 1}, (0, 0) if self.reflections else None)


class AllRotations(PlaneGroup):
    """SO(2), the rotations of the plane, or O(2), the rotations and reflections.

    ``equivariance.SO2`` and ``equivariance.O2`` are the two groups of this class.

    Example:

    >>> import equivariance
    >>> equivariance.SO2.irrep(1) + equivariance.SO2.tensor(1, 1)
    <SO2 representation 1 + T(1,1), 6 channels>
    """

    def __init__(self, name, reflections):
        self.name = name
        self.reflections = reflections
        self.key = (name,)


class FinitePlaneGroup(PlaneGroup):
    """Rotations by multiples of 2 pi / n, and reflections for D_n."""

    letter = None

    def __init__(self, n):
        if isinstance(n, bool) or not isinstance(n, Integral):
            raise TypeError(f"n must be an integer, found {n!r} ({type(n).__name__}).")
        if n < 1:
            raise ValueError(
                f"n must be at least 1, found {n}: the rotations are by multiples of 2 pi / n."
            )
        self.order = int(n)
        self.name = f"{self.letter}{n}"
        self.key = (self.letter, self.order)

    def power(self, j):
        """The exact rotation by 2 pi j / n."""
        return PlaneElement.from_angle(
            2 * sympy.pi * sympy.Rational(int(j) % self.order, self.order)
        )

    def elements(self):
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

    def element(self, g):
        g = super().element(g)
        turns = self.order * math.atan2(float(g.sin), float(g.cos)) / (2.0 * math.pi)
        j = round(turns)
        inside = abs(turns - j) < TOLERANCE * self.order
        if inside and g.exact:
            angle = self.power(j)
            inside = all((x - y).equals(0) for x, y in ((g.cos, angle.cos), (g.sin, angle.sin)))
        if not inside:
            raise ValueError(
                f"{g} is not an element of {self.name}: its angle is no multiple of "
                f"2 pi / {self.order}."
            )
        j %= self.order
        angle = self.power(j).angle if g.exact else 2.0 * math.pi * j / self.order
        return PlaneElement.from_angle(angle, g.reflected)

    def random_element(self, rng):
        angle = 2.0 * math.pi * int(rng.integers(self.order)) / self.order
        reflected = self.reflections and bool(rng.integers(2))
        return PlaneElement.from_angle(angle, reflected)

    @cached_property
    def _circle_order(self):
        """N such that both cos and sin of 2 pi / n are cosines of multiples of 2 pi / N."""
        return self.order if self.order % 4 == 0 else 4 * self.order

    @cached_property
    def field(self):
        """The field of 2 cos(2 pi / N)."""
        unit = 2 * sympy.cos(2 * sympy.pi / self._circle_order)
        return QQ if unit.is_Rational else QQ.algebraic_field(unit)

    @cached_property
    def _cosines(self):
        """2 cos(2 pi k / N) for k = 0 .. N - 1, by the Chebyshev recursion."""
        size = self._circle_order
        unit = self.field.zero if size == 4 else self.field.unit
        found = [self.field(2), unit]
        while len(found) < size:
            found.append(unit * found[-1] - found[-2])
        return found

    def _cos_sin(self, k):
        """Cosine and sine of 2 pi k / n, in the field."""
        size = self._circle_order
        at = k * size // self.order
        half = self.field(1) / self.field(2)
        return half * self._cosines[at % size], half * self._cosines[(size // 4 - at) % size]


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
    """D_n, the rotations by multiples of 2 pi / n and n reflections, diag(1, -1) among them.

    Args:
        n: half the order of the group, at least 1.

    Example:

    >>> import equivariance
    >>> str(equivariance.Dihedral(4).tensor(1, 1).decompose().representation)
    '0+ + 0- + 2+ + 2-'
    """

    letter = "D"
    reflections = True


def sympy_to_float(matrix):
    return np.array(matrix, dtype=float)


def _from_matrix(matrix):
    exact = isinstance(matrix, sympy.MatrixBase)
    if not exact:
        matrix = np.asarray(matrix, dtype=float)
    if tuple(matrix.shape) != (2, 2):
        raise ValueError(f"A rotation of the plane is a 2 x 2 matrix, found shape {matrix.shape}.")
    if exact and matrix.has(sympy.Float):
        exact, matrix = False, sympy_to_float(matrix)
    a, b, c, d = (matrix[i, j] for i in range(2) for j in range(2))
    reflected = float(a * d - b * c) < 0
    sign = -1 if reflected else 1
    wrong = (a - sign * d, c + sign * b, a * a + c * c - 1)
    if exact:
        if not all(sympy.expand(x) == 0 or x.equals(0) for x in wrong):
            raise ValueError(f"g must be an orthogonal matrix, found {matrix}.")
        return PlaneElement(a, c, None, reflected)
    if not all(abs(x) < TOLERANCE for x in wrong):
        raise ValueError(f"g must be an orthogonal matrix, found {matrix.tolist()}.")
    return PlaneElement.from_angle(math.atan2(c, a), reflected)


SO2 = AllRotations("SO2", reflections=False)
O2 = AllRotations("O2", reflections=True)
