"""Generators M = C + sum_i B_i d_i + sum_ij S_ij d_i d_j that commute with a group.

exp(M) is equivariant if and only if M is (the paper's appendix on equivariant diffusions):

    rho_out(g) C rho_in(g)^-1 = C
    sum_j g_ij rho_out(g) B_j rho_in(g)^-1 = B_i
    sum_kl g_ik g_jl rho_out(g) S_kl rho_in(g)^-1 = S_ij,    S_ij = S_ji

for all g. (In the last line the paper writes g_il g_ik by mistake, and leaves out the symmetry.)
"""

from functools import cached_property, lru_cache

from equivariance.characters import ORDERS
from equivariance.inputs import read_pair
from equivariance.parameterization import GeneratorParameterization, parameterize
from equivariance.representations import Representation
from equivariance.solutions import PairSolution


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

    orders = (0, 1, 2)

    def __init__(self, rep_in: Representation, rep_out: Representation):
        super().__init__(rep_in, rep_out)
        self.blocks = self.pairs
        self.factored = dict(zip(ORDERS, self.bases, strict=True))

    @property
    def dimensions(self) -> dict[str, int]:
        """The dimensions of the spaces of C, B and S, a dict with the keys of ``factored``."""
        return {name: basis.size for name, basis in self.factored.items()}

    @cached_property
    def zeroth_order(self) -> list:
        """Basis of C: a list of exact sympy arrays [dim_out, dim_in]."""
        return self.factored["zeroth_order"].arrays()

    @cached_property
    def first_order(self) -> list:
        """Basis of B: a list of exact sympy arrays [d, dim_out, dim_in]."""
        return self.factored["first_order"].arrays()

    @cached_property
    def second_order(self) -> list:
        """Basis of S: a list of exact sympy arrays [d, d, dim_out, dim_in]."""
        return self.factored["second_order"].arrays()

    def parameterization(
        self,
        constraint: str = "dissipative",
        *,
        through: Representation | None = None,
        zeroth_order: bool = True,
        num_factors: int = 1,
    ) -> GeneratorParameterization:
        """Free parameters and the map from them to C, B and S.

        Args:
            constraint: "free" for all solutions. With "dissipative", exp(M) never amplifies:
                |exp(M(i xi))| <= 1 for every frequency and for any parameters. It needs
                rep_out = rep_in and a group of orthogonal matrices.
            through: for "dissipative", the representation rho' of the factors Q_j of S. The default
                is the product of the defining representation and rep_in. It reaches every S whose
                form sum_ab S_ab (xi_a v) . (xi_b v) comes from a positive semidefinite matrix. A
                smaller representation gives fewer parameters.
            zeroth_order: for "dissipative", whether there is an (antisymmetric) C.
            num_factors: for "dissipative", the number of factors Q_j; 0 for S = 0.

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
        return parameterize(
            self,
            constraint,
            through=through,
            zeroth_order=zeroth_order,
            num_factors=num_factors,
        )

    def __repr__(self) -> str:
        counts = ", ".join(f"{n} of {name}" for name, n in self.dimensions.items())
        return f"<generators {self.rep_in} -> {self.rep_out} under {self.group.name}: {counts}>"


def solve_generators(
    rep_in: Representation, rep_out: Representation | None = None
) -> GeneratorSolution:
    """Exact bases of the generators that commute with the group.

    Each pair of irreducible parts is solved once and kept for later calls. The solver works over
    the rationals or a field of algebraic numbers, without floating point. Solutions for sums,
    multiples, products and tensors are built from these pairs.

    Args:
        rep_in: the representation that the generator acts on.
        rep_out: the representation of its result. The default is ``rep_in``, which exp(M) needs.
            Derivative layers take any two representations of one group.

    Returns:
        A ``GeneratorSolution``.

    Raises:
        TypeError: if an argument is not a representation.
        ValueError: if they have different groups, or more than 2000 channels.

    Example: the operators that couple a vector field to a scalar field in the plane.

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
    """Raises a TypeError if the argument is not a ``GeneratorSolution``."""
    if not isinstance(solution, GeneratorSolution):
        raise TypeError(
            f"solution must come from solve_generators, found {type(solution).__name__}."
        )
