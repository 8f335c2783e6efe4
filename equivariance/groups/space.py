"""Rotations of space, SO(3), and their real irreducible representations.

Spin l acts on the 2 l + 1 real spherical harmonics. Their order is cos l phi, sin l phi, ...,
cos phi, sin phi, 1, by their dependence on the angle phi about the third axis. For l = 1 these are
x, y and z, so spin 1 is the defining representation.

They come from angular momentum. Its eigenvectors |m> are rescaled to vectors u_m for which the
ladder operators are rational, L+ u_m = u_(m+1) for m >= 0. All square roots are then in the lengths
|u_m| = |u_-m|, the ``scale`` of the ``Model``.
"""

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np
import sympy
from sympy import QQ, QQ_I

from equivariance.arguments import natural_number, real_number, wrong_type
from equivariance.characters import Character
from equivariance.decomposition import Copy, whole
from equivariance.exact import kron, primitive, sparse, sqrt, to_numpy
from equivariance.groups.elements import GroupOfMatrices, MatrixElement, as_floats, square_matrix
from equivariance.models import Model
from equivariance.representations import Irrep, Representation

MAX_SPIN = 10
TOLERANCE = 1e-8


class SpaceRotations(GroupOfMatrices):
    """SO(3). Elements are 3 x 3 rotation matrices: exact in sympy, numeric in NumPy."""

    dim = 3
    name = "SO3"
    key = ("SO3",)
    field = QQ
    discrete_generators: tuple[MatrixElement, ...] = ()

    @cached_property
    def lie_generators(self) -> tuple[sympy.ImmutableMatrix, ...]:
        """The generators of rotations about the axes 3, 1 and 2."""
        return tuple(
            sympy.ImmutableMatrix(3, 3, lambda i, j: -sympy.LeviCivita(axis, i, j))  # noqa: B023
            for axis in (2, 0, 1)
        )

    @property
    def trivial(self) -> Representation:
        return self.irrep(0)

    def element(self, g: Any) -> MatrixElement:
        """A rotation from its 3 x 3 matrix.

        Raises:
            TypeError, ValueError: if g is not a rotation matrix.
        """
        if isinstance(g, MatrixElement):
            return g
        matrix = square_matrix(g, 3)
        element = MatrixElement(matrix)
        if element.exact:
            zeros = [*(matrix.T * matrix - sympy.eye(3))]
            if not self.reflections:
                zeros.append(matrix.det() - 1)
            wrong = not all(sympy.expand(x) == 0 or x.equals(0) for x in zeros)
        else:
            wrong = np.abs(matrix.T @ matrix - np.eye(3)).max() > TOLERANCE
            wrong = wrong or (np.linalg.det(matrix) < 0 and not self.reflections)
        if wrong:
            kind = "a rotation matrix (orthogonal, determinant 1)"
            kind = "an orthogonal matrix" if self.reflections else kind
            raise ValueError(f"g must be {kind}, found {matrix.tolist()}.")
        return element

    def rotation(self, axis: Sequence, angle: Any) -> MatrixElement:
        """The rotation about an axis by an angle in radians.

        Args:
            axis: three numbers, not all 0.
            angle: right-handed angle. The result is exact if angle and axis are int, Fraction or
                sympy numbers.

        Returns:
            A group element.

        Raises:
            TypeError, ValueError: if these are not finite real numbers, or the axis is 0.

        Example:

        >>> import equivariance, sympy
        >>> equivariance.SO3.rotation([0, 0, 1], sympy.pi / 2).matrix
        Matrix([
        [0, -1, 0],
        [1,  0, 0],
        [0,  0, 1]])
        """
        if isinstance(axis, str) or not hasattr(axis, "__len__"):
            raise wrong_type("axis", "three numbers", axis)
        if len(axis) != 3:
            raise ValueError(f"axis must be three numbers, found {axis!r}.")
        x, y, z = (real_number(v, "axis") for v in axis)
        if x == y == z == 0:
            raise ValueError(f"axis must be three numbers, not all 0, found {axis!r}.")
        angle = real_number(angle, "angle")
        length = sympy.sqrt(x * x + y * y + z * z)
        cross = sympy.Matrix([[0, -z, y], [z, 0, -x], [-y, x, 0]]) / length
        matrix = sympy.eye(3) + sympy.sin(angle) * cross + (1 - sympy.cos(angle)) * cross * cross
        if matrix.has(sympy.Float):
            return MatrixElement(as_floats(matrix.evalf(17)))
        return MatrixElement(sympy.ImmutableMatrix(matrix))

    def random_element(self, rng: np.random.Generator) -> MatrixElement:
        q = rng.normal(size=4)
        w, x, y, z = q / np.linalg.norm(q)
        return MatrixElement(
            np.array(
                [
                    [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                    [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                    [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
                ]
            )
        )

    def inverse(self, g: Any) -> MatrixElement:
        return MatrixElement(self.element(g).matrix.T)

    def irrep(self, spin: int) -> Irrep:
        """The real irreducible representation of spin l, on 2 l + 1 channels.

        Args:
            spin: l, 0 to 10. Spin 0 is a scalar, spin 1 a vector (x, y, z).

        Returns:
            The representation. Its channels are orthonormal real spherical harmonics in the order
            cos l phi, sin l phi, ..., cos phi, sin phi, 1.

        Raises:
            TypeError, ValueError: if spin is not an integer from 0 to 10.

        Example:

        >>> import equivariance
        >>> equivariance.SO3.irrep(2).lie_algebra[1][2:, 2:]
        Matrix([
        [0,       0,        0],
        [0,       0, -sqrt(3)],
        [0, sqrt(3),        0]])
        """
        spin = natural_number(spin, "spin")
        if spin > MAX_SPIN:
            raise ValueError(f"spin must be at most {MAX_SPIN}, found {spin}.")
        return self._spin(spin)

    def _spin(self, spin):
        return Irrep(self, (spin,), 2 * spin + 1, str(spin))

    def _irrep_model(self, irrep):
        return spin_model(irrep.index[0])

    def _irrep_matrix(self, irrep, element):
        """The matrix of spin l, as the top part of spin l - 1 times spin 1."""
        spin, known = irrep.index[0], element.spins
        if not known:
            known.update({0: sympy.eye(1) if element.exact else np.eye(1), 1: element.matrix})
        for top in range(max(known) + 1, spin + 1):
            if element.exact:
                project = _top_projection(top)
                product = sympy.kronecker_product(known[top - 1], element.matrix)
                known[top] = (project * product * project.T).applyfunc(sympy.expand)
            else:
                project = _top_projection_numpy(top)
                known[top] = project @ np.kron(known[top - 1], element.matrix) @ project.T
        return known[spin]

    @cached_property
    def defining_copies(self) -> tuple:
        return (whole(self._spin(1)),)

    def _product_copies(self, left, right):
        a, b = left.index[0], right.index[0]
        return tuple(
            Copy(self._spin(spin), *product_embedding(a, b, spin))
            for spin in range(abs(a - b), a + b + 1)
        )

    def may_couple(self, irrep_out: Representation, irrep_in: Representation, order: int) -> bool:
        """Derivatives have spins up to their order, and change a spin by at most so much."""
        if not (isinstance(irrep_out, Irrep) and isinstance(irrep_in, Irrep)):
            return True
        return abs(irrep_out.index[0] - irrep_in.index[0]) <= order

    def _irrep_character(self, irrep):
        spin = irrep.index[0]
        return Character(_average, {m: 1 for m in range(-spin, spin + 1)})

    def defining_character(self) -> Character:
        return self._irrep_character(self._spin(1))


def _average(rotations, _):
    """Weyl's formula: the average of chi(t) (1 - t) (1 - 1/t) / 2 over the circle, doubled."""
    at = rotations.get
    return 2 * at(0, 0) - at(1, 0) - at(-1, 0)


def _raised(spin, m):
    """alpha in L+ u_m = alpha u_(m+1)."""
    return 1 if m >= 0 else (spin - m) * (spin + m + 1)


def _lowered(spin, m):
    """beta in L- u_m = beta u_(m-1)."""
    return 1 if m <= 0 else (spin + m) * (spin - m + 1)


def _orders(spin):
    """The real harmonics in their order, as pairs (m, whether it is a sine)."""
    return [(m, sine) for m in range(spin, 0, -1) for sine in (False, True)] + [(0, False)]


@cache
def _real_basis(spin):
    """The real harmonics in terms of u_m (row m + l), and the inverse.

    The cosine is (-1)^m u_m + u_-m, the sine is ((-1)^m u_m - u_-m) / i, and m = 0 has 2 u_0.
    """
    forward, backward = {}, {}
    for column, (m, sine) in enumerate(_orders(spin)):
        unit = QQ_I(0, 1) if sine else QQ_I(1)
        entries = {spin + m: (-1) ** m * (-unit if sine else unit), spin - m: unit}
        for row, x in entries.items() if m else [(spin, QQ_I(2))]:
            forward[row, column] = x
            backward[column, row] = QQ_I(x.x, -x.y) / (2 if m else 4)
    shape = (2 * spin + 1, 2 * spin + 1)
    return sparse(forward, shape, QQ_I), sparse(backward, shape, QQ_I)


@cache
def spin_model(spin):
    orders, shape = range(-spin, spin + 1), (2 * spin + 1, 2 * spin + 1)

    def ladder(step, factor):
        entries = {(spin + m + step, spin + m): QQ_I(factor(spin, m)) for m in orders}
        return sparse({at: x for at, x in entries.items() if 0 <= at[0] < shape[0]}, shape, QQ_I)

    raising, lowering = ladder(1, _raised), ladder(-1, _lowered)
    third = ladder(0, lambda _, m: m)
    i, half = QQ_I(0, 1), QQ_I(QQ(1, 2), 0)
    # These are -i L for the axes 3, 1, 2.
    generators = (
        third.scalarmul(-i),
        (raising + lowering).scalarmul(-i * half),
        (raising - lowering).scalarmul(-half),
    )
    forward, backward = _real_basis(spin)
    return Model(
        tuple((backward * x * forward).convert_to(QQ) for x in generators),
        (),
        tuple(_squared_length(spin, m) for m, _ in _orders(spin)),
    )


def _squared_length(spin, m):
    """The real harmonic's squared length over 4, from 2 |u_m|^2 or 4 |u_0|^2, with |u_0| = 1."""
    squared = QQ(1, 2) if m else QQ(1)
    for k in range(m):
        squared *= (spin - k) * (spin + k + 1)
    return squared


@cache
def product_embedding(a, b, spin):
    """Spin l in the product of spins a and b: matrix and norm of a ``Copy``.

    L+ annihilates the product's highest vector of weight l, and L- makes the other vectors from it.
    """
    m = max(-a, spin - b)
    vector = {(m, spin - m): QQ(1)}
    while m < min(a, spin + b):
        ratio = QQ(-_raised(a, m), _raised(b, spin - m - 1))
        vector[m + 1, spin - m - 1] = ratio * vector[m, spin - m]
        m += 1
    columns = {spin: vector}
    for m in range(spin - 1, -spin - 1, -1):
        lower: dict = {}
        for (p, q), x in columns[m + 1].items():
            if p > -a:
                lower[p - 1, q] = lower.get((p - 1, q), 0) + _lowered(a, p) * x
            if q > -b:
                lower[p, q - 1] = lower.get((p, q - 1), 0) + _lowered(b, q) * x
        columns[m] = {at: x / _lowered(spin, m + 1) for at, x in lower.items()}
    width = 2 * b + 1
    entries = {
        ((p + a) * width + q + b, m + spin): QQ_I(x, 0)
        for m, column in columns.items()
        for (p, q), x in column.items()
    }
    embedding = sparse(entries, ((2 * a + 1) * width, 2 * spin + 1), QQ_I)
    backward = kron(_real_basis(a)[1], _real_basis(b)[1])
    embedding = backward * embedding * _real_basis(spin)[0]
    # Complex conjugation maps the vector of weight m to that of -m, times (-1)^(a + b - spin).
    if (a + b - spin) % 2:
        embedding = embedding.scalarmul(QQ_I(0, 1))
    embedding = primitive(embedding.convert_to(QQ))
    if min((j, i, x) for (i, j), x in embedding.to_dok().items())[2] < 0:
        embedding = -embedding
    outer = [x * y for x in spin_model(a).scale for y in spin_model(b).scale]
    norm = sum(outer[i] * x * x for (i, j), x in embedding.to_dok().items() if j == 0)
    return embedding, norm / spin_model(spin).scale[0]


@cache
def _top_projection(spin):
    """The isometry from spin l - 1 times spin 1 to spin l, exact."""
    embedding, norm = product_embedding(spin - 1, 1, spin)
    outer = [x * y for x in spin_model(spin - 1).scale for y in spin_model(1).scale]
    inner = spin_model(spin).scale
    entries = {
        (j, i): QQ.to_sympy(x) * sqrt(outer[i] / (inner[j] * norm))
        for (i, j), x in embedding.to_dok().items()
    }
    return sympy.SparseMatrix(2 * spin + 1, (2 * spin - 1) * 3, entries)


@cache
def _top_projection_numpy(spin):
    return to_numpy(_top_projection(spin))


SO3 = SpaceRotations()
