"""The base of solutions for two representations: their irreducible parts, pair by pair."""

import sympy

from equivariance.factored import FactoredBasis, pairs
from equivariance.representations import Representation
from equivariance.residuals import embeddings_residual, maps_residual


class PairSolution:
    """Exact bases of maps between two representations, built from irreducible pairs.

    Attributes:
        group: the group.
        rep_in, rep_out: the representations.
        decomposition_in, decomposition_out: their irreducible parts.
        pairs: a ``PairBlock`` for each pair of irreducible parts, output first.
        bases: a ``FactoredBasis`` for each number of derivatives.
    """

    orders: tuple[int, ...] = ()  # the numbers of derivatives

    def __init__(self, rep_in: Representation, rep_out: Representation):
        self.rep_in, self.rep_out, self.group = rep_in, rep_out, rep_in.group
        self.decomposition_in = rep_in.decompose()
        self.decomposition_out = rep_out.decompose()
        self.pairs = pairs(self.decomposition_out, self.decomposition_in)
        for pair in self.pairs:
            for order in self.orders:
                self.group.require_solvable(pair.irrep_out, pair.irrep_in, order)
        self.bases = [
            FactoredBasis(order, self.decomposition_out, self.decomposition_in, self.pairs)
            for order in self.orders
        ]

    def residual(self) -> sympy.Expr:
        """The residual of the equations, which is exactly 0.

        It is the sum of the squares of left minus right side, for all generators of the group and
        all basis tensors of all pairs. It also covers ``rho E = E sigma`` for all embeddings E of
        irreducible parts sigma in rho. All are in the working bases. A basis element is a product
        of an embedding, a tensor and a transposed embedding, so it fulfils the equations if these
        do.

        Returns:
            A sympy number.
        """
        return maps_residual(self.pairs, self.orders) + sum(
            embeddings_residual(x) for x in {self.decomposition_in, self.decomposition_out}
        )
