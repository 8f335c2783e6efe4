"""Rotations and reflections of space, O(3), and their real irreducible representations.

Its elements are the rotations R and their products -R with the inversion. Spin l has two
representations on the channels of SO(3)'s. The true one is a part of tensors of l factors, so the
inversion multiplies it by (-1)^l, as it does a vector. The pseudo one changes its sign besides
under all reflections, as a curl does.
"""

import numpy as np
import sympy
from sympy import QQ
from sympy.polys.matrices import DomainMatrix

from equivariance.characters import Character
from equivariance.decomposition import Copy
from equivariance.groups.elements import MatrixElement
from equivariance.groups.space import SpaceRotations, product_embedding, spin_model
from equivariance.models import Model
from equivariance.representations import Irrep


class SpaceGroup(SpaceRotations):
    """O(3). Elements are orthogonal 3 x 3 matrices: exact in sympy, numeric in NumPy."""

    name = "O3"
    key = ("O3",)
    reflections = True

    discrete_generators = (MatrixElement(-sympy.ImmutableMatrix(sympy.eye(3))),)  # the inversion

    def random_element(self, rng: np.random.Generator) -> MatrixElement:
        return MatrixElement((1 - 2 * rng.integers(2)) * super().random_element(rng).matrix)

    def irrep(self, spin: int, parity: int | None = None) -> Irrep:
        """The real irreducible representation of spin l, on 2 l + 1 channels.

        Args:
            spin: l, 0 to 10. Spin 0 is a scalar, spin 1 a vector (x, y, z).
            parity: 1 (the default) for true scalars, vectors and so on, and -1 for pseudoscalars,
                pseudovectors and so on, which reflections multiply by -1 besides.

        Returns:
            The representation. Its channels are those of `SO3.irrep`.

        Raises:
            TypeError, ValueError: if spin is not an integer from 0 to 10, or parity not 1 or -1.

        Example: a curl is a pseudovector.

        >>> import equivariance
        >>> O3 = equivariance.O3
        >>> equivariance.solve_generators(O3.irrep(1), O3.irrep(1, -1)).dimensions["first_order"]
        1
        """
        if parity not in (None, 1, -1):
            raise ValueError(f"parity must be 1 or -1, found {parity!r}.")
        return self._spin(super().irrep(spin).index[0], parity or 1)

    def _spin(self, spin, parity=1):
        return Irrep(self, (spin, parity), 2 * spin + 1, f"{spin}{'' if parity > 0 else '-'}")

    def _irrep_matrix(self, irrep, element):
        true = super()._irrep_matrix(irrep, element)
        if irrep.index[1] > 0:
            return true
        matrix = element.matrix
        return true * (matrix.det() if element.exact else np.linalg.det(matrix).round())

    def _irrep_model(self, irrep):
        found, sign = spin_model(irrep.index[0]), QQ(_of_inversion(irrep))
        return Model(found.lie, (DomainMatrix.eye(irrep.dim, QQ) * sign,), found.scale)

    def _product_copies(self, left, right):
        a, b = left.index[0], right.index[0]
        sign = _of_inversion(left) * _of_inversion(right)
        return tuple(
            Copy(self._spin(spin, sign * (-1) ** spin), *product_embedding(a, b, spin))
            for spin in range(abs(a - b), a + b + 1)
        )

    def _irrep_character(self, irrep):
        proper = super()._irrep_character(irrep)
        sign = _of_inversion(irrep)
        improper = {m: sign * x for m, x in proper.rotations.items()}
        return InvertedCharacter(proper, Character(proper.average, improper))


class InvertedCharacter:
    """A character on the rotations R and on their products -R: two of SO(3)'s class functions."""

    def __init__(self, proper, improper):
        self.proper, self.improper = proper, improper

    def constant(self, value):
        return InvertedCharacter(self.proper.constant(value), self.improper.constant(value))

    def __add__(self, other):
        return InvertedCharacter(self.proper + other.proper, self.improper + other.improper)

    def __mul__(self, other):
        return InvertedCharacter(self.proper * other.proper, self.improper * other.improper)

    def dual(self):
        """g -> chi(g^-1)."""
        return InvertedCharacter(self.proper.dual(), self.improper.dual())

    def of_square(self):
        """g -> chi(g^2). The square of -R is that of R."""
        square = self.proper.of_square()
        return InvertedCharacter(square, square)

    def twice_average(self):
        """Twice the average over the group, an integer."""
        return (self.proper.twice_average() + self.improper.twice_average()) // 2


def _of_inversion(irrep):
    """1 or -1, by which the inversion multiplies the channels."""
    spin, parity = irrep.index
    return parity * (-1) ** spin


O3 = SpaceGroup()
