"""Generators M = C + sum_i B_i d_i + sum_ij S_ij d_i d_j that commute with a group.

exp(M) is equivariant if and only if M is (the paper's appendix on equivariant diffusions):

    rho_out(g) C rho_in(g)^-1 = C
    sum_j g_ij rho_out(g) B_j rho_in(g)^-1 = B_i
    sum_kl g_ik g_jl rho_out(g) S_kl rho_in(g)^-1 = S_ij,    S_ij = S_ji

for all g. (The paper's g_il g_ik in the last line is a slip, and it leaves out the symmetry.)
"""

from functools import cached_property, lru_cache

import numpy as np

from equivariance.characters import ORDERS
from equivariance.factored import FactoredBasis
from equivariance.pairs import PairSolution
from equivariance.representations import read_pair


class GeneratorSolution(PairSolution):
    """Exact bases of C, B and S for two representations.

    Attributes:
        group: the group.
        rep_in, rep_out: the representations.
        decomposition_in, decomposition_out: their irreducible parts.
        blocks: a ``PairBlock`` for each pair of irreducible parts, output first.
        factored: a dict from "zeroth_order", "first_order" and "second_order" to the
            ``FactoredBasis`` of C, B and S. Use it for large representations.
    """

    orders = range(3)

    def __init__(self, rep_in, rep_out):
        super().__init__(rep_in, rep_out)
        self.blocks = self.pairs
        self.factored = {
            name: FactoredBasis(order, self.decomposition_out, self.decomposition_in, self.blocks)
            for order, name in enumerate(ORDERS)
        }

    @property
    def dimensions(self):
        """The dimensions of the spaces of C, B and S, a dict with the keys of ``factored``."""
        return {name: basis.size for name, basis in self.factored.items()}

    @cached_property
    def zeroth_order(self):
        """Basis of C: a list of exact sympy arrays [dim_out, dim_in]."""
        return self.factored["zeroth_order"].arrays()

    @cached_property
    def first_order(self):
        """Basis of B: a list of exact sympy arrays [d, dim_out, dim_in]."""
        return self.factored["first_order"].arrays()

    @cached_property
    def second_order(self):
        """Basis of S: a list of exact sympy arrays [d, d, dim_out, dim_in]."""
        return self.factored["second_order"].arrays()

    def parameterization(
        self, constraint="dissipative", *, through=None, zeroth_order=True, num_factors=1
    ):
        """Free parameters and the map from them to C, B and S.

        Args:
            constraint: "free": all solutions. "dissipative": exp(M) never amplifies, |exp(M(i xi))|
                <= 1 for every frequency and whatever the parameters. It needs rep_out = rep_in and
                a group of orthogonal matrices.
            through: "dissipative" only: the representation rho' of the factors Q_j of S. By default
                the product of the defining representation and rep_in, which reaches every S whose
                form sum_ab S_ab (xi_a v) . (xi_b v) comes from a positive semidefinite matrix.
                Smaller ones give fewer parameters.
            zeroth_order: "dissipative" only: whether there is a C (antisymmetric).
            num_factors: "dissipative" only: number of factors Q_j; 0 for S = 0.

        Returns:
            A ``GeneratorParameterization``: ``parameters`` with names, shapes and initial scales,
            ``initial(rng)``, ``generator(values)`` and ``factored(values)`` in NumPy, ``exact()``
            in sympy, ``keras_source(name)``.

        Raises:
            TypeError, ValueError: if an argument does not apply.

        Example:

        >>> import equivariance
        >>> scalars = equivariance.solve_generators(2 * equivariance.SO2.irrep(0))
        >>> scalars.parameterization("free")
        <free generators of 2x0: zeroth_order [4], second_order [4]>
        >>> scalars.parameterization("dissipative", through=equivariance.SO2.irrep(1))
        <dissipative generators of 2x0: antisymmetric [1], factors [1, 4]>
        """
        from equivariance.parameterization import parameterize

        return parameterize(
            self,
            constraint,
            through=through,
            zeroth_order=zeroth_order,
            num_factors=num_factors,
        )

    def __repr__(self):
        counts = ", ".join(f"{n} of {name}" for name, n in self.dimensions.items())
        return f"<generators {self.rep_in} -> {self.rep_out} under {self.group.name}: {counts}>"


def solve_generators(rep_in, rep_out=None):
    """Exact bases of the generators that commute with the group.

    Each pair of irreducible parts is solved once (and kept for later calls), over the rationals or
    a field of algebraic numbers; there is no floating point. Channels that are sums, multiples,
    products or tensors are put together from these.

    Args:
        rep_in: the representation that the generator acts on.
        rep_out: the one that it gives; the same by default. exp(M) needs the same; derivative
            layers take any two of one group.

    Returns:
        A ``GeneratorSolution``.

    Raises:
        TypeError: if an argument is no representation.
        ValueError: if they are of different groups, or have more than 2000 channels.

    Example: what couples a scalar field and a vector field in the plane.

    >>> from equivariance import SO2, solve_generators
    >>> solution = solve_generators(SO2.irrep(1), SO2.irrep(0))
    >>> solution.dimensions
    {'zeroth_order': 0, 'first_order': 2, 'second_order': 0}
    >>> solution.first_order  # divergence and curl, a matrix [1, 2] for d_1 and one for d_2
    [[[[1, 0]], [[0, 1]]], [[[0, 1]], [[-1, 0]]]]
    >>> solution.residual()
    0
    """
    return _solve(*read_pair(rep_in, rep_out))


@lru_cache(maxsize=256)
def _solve(rep_in, rep_out):
    return GeneratorSolution(rep_in, rep_out)


def require_solution(solution):
    """Raises a TypeError if the argument is no ``GeneratorSolution``."""
    if not isinstance(solution, GeneratorSolution):
        raise TypeError(
            f"solution must come from solve_generators, found {type(solution).__name__}."
        )


def symbol(frequency, zeroth_order=None, first_order=None, second_order=None):
    """M(xi) = C + sum_i xi_i B_i + sum_ij xi_i xi_j S_ij, derivatives replaced by numbers.

    Args:
        frequency: xi [d], real or complex.
        zeroth_order: C [out, in]; optional.
        first_order: B [d, out, in]; optional.
        second_order: S [d, d, out, in]; optional.

    Returns:
        Array [out, in].

    Raises:
        ValueError: if none of C, B and S is given.

    Example:

    >>> import numpy as np
    >>> symbol(np.array([1.0, 2.0]), second_order=np.eye(2)[:, :, None, None])
    array([[5.]])
    """
    frequency = np.asarray(frequency)
    if frequency.ndim != 1 or frequency.dtype.kind not in "fiuc":
        raise ValueError(f"frequency must be a vector of numbers, found {frequency!r}.")
    for order, x in ((1, first_order), (2, second_order)):
        if x is not None and np.shape(x)[:-2] != order * frequency.shape:
            raise ValueError(
                f"{ORDERS[order]} must have the shape {order * frequency.shape} (derivative "
                f"indices), then out and in, found {np.shape(x)}."
            )
    terms = []
    if zeroth_order is not None:
        terms.append(np.asarray(zeroth_order))
    if first_order is not None:
        terms.append(np.einsum("i,iab->ab", frequency, first_order))
    if second_order is not None:
        terms.append(np.einsum("i,j,ijab->ab", frequency, frequency, second_order))
    if not terms:
        raise ValueError("Give at least one of zeroth_order, first_order and second_order.")
    return sum(terms)
