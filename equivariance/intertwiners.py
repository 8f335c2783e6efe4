"""Channel mixings W that commute with the group, rho_out(g) W = W rho_in(g)."""

from collections.abc import Sequence
from functools import lru_cache

import sympy

from equivariance.factored import FactoredBasis
from equivariance.pairs import PairSolution
from equivariance.representations import read_pair


class Intertwiners(PairSolution, Sequence):
    """The exact basis of the channel mixings; a sequence of sympy matrices [dim_out, dim_in].

    Attributes:
        group: the group.
        rep_in, rep_out: the representations.
        decomposition_in, decomposition_out: their irreducible parts.
        factored: the basis as a ``FactoredBasis``; its ``assemble`` makes a mixing from
            coefficients. Use it for large representations.
        blocks: a ``PairBlock`` for each pair of irreducible parts with a solution.
    """

    orders = (0,)

    def __init__(self, rep_in, rep_out):
        super().__init__(rep_in, rep_out)
        self.factored = FactoredBasis(0, self.decomposition_out, self.decomposition_in, self.pairs)
        self.blocks = self.factored.blocks
        self._matrices = None

    @property
    def dimension(self):
        """The number of independent mixings."""
        return self.factored.size

    def __len__(self):
        return self.factored.size

    def __getitem__(self, n):
        if self._matrices is None:
            shape = (self.rep_out.dim, self.rep_in.dim)
            self._matrices = [
                sympy.ImmutableMatrix(*shape, sympy.flatten(array.tolist()))
                for array in self.factored.arrays()
            ]
        return self._matrices[n]

    def parameterization(self):
        """Free parameters and the map from them to a mixing, a ``MixingParameterization``."""
        from equivariance.mixing_parameterization import MixingParameterization

        return MixingParameterization(self)

    def __repr__(self):
        return (
            f"<{len(self)} mixings {self.rep_in} -> {self.rep_out} that commute with "
            f"{self.group.name}>"
        )


def solve_intertwiners(rep_in, rep_out=None):
    """Exact basis of the matrices W with rho_out(g) W = W rho_in(g) for all g.

    By Schur's lemma there is one for each pair of copies of the same real irreducible
    representation, two if it is of complex type (frequencies k >= 1 without reflections).

    Args:
        rep_in: the representation of the channels that are mixed.
        rep_out: the representation of the result; the same by default.

    Returns:
        An ``Intertwiners``, a sequence of exact sympy matrices [dim_out, dim_in].

    Raises:
        TypeError: if an argument is no representation.
        ValueError: if they are of different groups, or have more than 2000 channels.

    Example:

    >>> from equivariance import SO2, solve_intertwiners
    >>> list(solve_intertwiners(SO2.irrep(1), SO2.irrep(1)))
    [Matrix([
    [1, 0],
    [0, 1]]), Matrix([
    [ 0, 1],
    [-1, 0]])]
    """
    return _solve(*read_pair(rep_in, rep_out))


@lru_cache(maxsize=256)
def _solve(rep_in, rep_out):
    return Intertwiners(rep_in, rep_out)
