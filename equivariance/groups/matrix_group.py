"""Groups that users define by their generators."""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import sympy
from sympy.polys.matrices import DomainMatrix

from equivariance.arguments import natural_number, wrong_type
from equivariance.characters import FiniteCharacter
from equivariance.decomposition import whole
from equivariance.exact import algebraic_matrices
from equivariance.groups.elements import GroupOfMatrices, MatrixElement, as_floats, square_matrix
from equivariance.groups.exact_entries import exact_matrices
from equivariance.representations import Irrep, Representation, Tensor

MAX_ORDER = 2000
MAX_DIM = 50
# Rational unknowns of a pair that is solved: some ten seconds, a minute or two at worst. Without a
# Lie algebra and roots, as for permutations with signs, fewer of them depend on each other.
MAX_UNKNOWNS = 1000
MAX_UNKNOWNS_RATIONAL = 10_000


class MatrixGroup(GroupOfMatrices):
    """A group of real d x d matrices given by its generators.

    Its representations are the tensor ones of the defining representation, their sums, multiples,
    products and duals. No list of irreducible representations is needed: sums are solved term by
    term, each pair of tensor representations as a whole, exactly all the same. The matrices need
    not be orthogonal (shears, Lorentz boosts).

    Args:
        name: how messages call the group.
        dim: dimension d of space.
        lie_generators: exact matrices J [d, d] with exp(t J) in the group for all t.
        discrete_generators: exact invertible matrices [d, d].

    Raises:
        TypeError, ValueError: if a matrix has another shape, entries that are not exact real
            algebraic numbers, or no inverse.

    Example: the rotations of a cube, from a quarter turn and a third of a turn.

    >>> import equivariance
    >>> cube = equivariance.MatrixGroup(
    ...     "cube", 3, [],
    ...     [[[0, -1, 0], [1, 0, 0], [0, 0, 1]], [[0, 0, 1], [1, 0, 0], [0, 1, 0]]])
    >>> equivariance.solve_generators(cube.tensor(1, 0)).dimensions
    {'zeroth_order': 1, 'first_order': 1, 'second_order': 3}
    """

    def __init__(
        self,
        name: str,
        dim: int,
        lie_generators: Sequence = (),
        discrete_generators: Sequence = (),
    ):
        if not isinstance(name, str) or not name.strip():
            raise wrong_type("name", "text, how messages call the group", name)
        self.name = name
        self.dim = natural_number(dim, "dim")
        if not 1 <= self.dim <= MAX_DIM:
            raise ValueError(f"dim must be at least 1 and at most {MAX_DIM}, found {dim}.")
        self.lie_generators = exact_matrices(lie_generators, self.dim, "lie_generators")
        discrete = exact_matrices(discrete_generators, self.dim, "discrete_generators")
        _, self.field = algebraic_matrices([*self.lie_generators, *discrete, sympy.eye(self.dim)])
        for n, x in enumerate(discrete):
            if x.det().equals(0):
                raise ValueError(f"discrete_generators[{n}] has no inverse: {x.tolist()}.")
        self.discrete_generators = tuple(MatrixElement(x) for x in discrete)
        self.key = ("matrix group", self.name, self.dim, self.lie_generators, discrete)

    def require_solvable(
        self, irrep_out: Representation, irrep_in: Representation, order: int
    ) -> None:
        """See ``Group``: no irreducible parts are known, so elimination takes all at once."""
        degree = 1 if self.field.is_QQ else self.field.mod.degree()
        unknowns = math.comb(self.dim + order - 1, order) * irrep_out.dim * irrep_in.dim
        limit = MAX_UNKNOWNS if self.lie_generators or degree > 1 else MAX_UNKNOWNS_RATIONAL
        if unknowns * degree > limit:
            field = "" if degree == 1 else f", over numbers of degree {degree},"
            raise ValueError(
                f"{irrep_in} -> {irrep_out} of {self.name} with {order} derivatives has {unknowns} "
                f"unknowns{field} to be solved at once; at most {limit // degree} are supported."
                " Use tensors of fewer indices, or a built-in group (SO2, O2, SO3, C_n, D_n), whose"
                " representations are taken apart."
            )

    @cached_property
    def orthogonal(self) -> bool:
        lie, discrete = self.defining_model.lie, self.defining_model.discrete
        one = DomainMatrix.eye(self.dim, self.field)
        return all((x + x.transpose()).is_zero_matrix for x in lie) and all(
            (x.transpose() * x - one).is_zero_matrix for x in discrete
        )

    def element(self, g: Any) -> MatrixElement:
        """A group element from its d x d matrix.

        Only the shape, and that there is an inverse, are checked: whether generators of any kind
        produce a matrix cannot be decided in general.
        """
        if isinstance(g, MatrixElement):
            return g
        element = MatrixElement(square_matrix(g, self.dim))
        determinant = element.matrix.det() if element.exact else np.linalg.det(element.matrix)
        if determinant == 0:
            raise ValueError(f"g must have an inverse, found {element.matrix.tolist()}.")
        return element

    def random_element(self, rng: np.random.Generator) -> MatrixElement:
        """A random product of the generators and of exponentials of the Lie algebra.

        Not uniform. The exponents are of the order of 1, so that groups without bound, as the
        Lorentz group, give matrices of moderate size.
        """
        g = np.eye(self.dim)
        discrete = [as_floats(x.matrix) for x in self.discrete_generators]
        lie = [as_floats(x) for x in self.lie_generators]
        for _ in range(3):
            for x in discrete:
                g = g @ np.linalg.matrix_power(x, int(rng.integers(-2, 3)))
            if lie:
                g = g @ _exponential(sum(rng.normal(scale=0.5) * x for x in lie))
        if self.orthogonal:  # the nearest orthogonal matrix, without the rounding of the products
            left, _, right = np.linalg.svd(g)
            g = left @ right
        return MatrixElement(g)

    def inverse(self, g: Any) -> MatrixElement:
        g = self.element(g)
        if self.orthogonal:
            return MatrixElement(g.matrix.T)
        return MatrixElement(g.matrix.inv() if g.exact else np.linalg.inv(g.matrix))

    def irrep(self, k: int) -> Irrep:
        raise NotImplementedError(
            f"The irreducible representations of {self.name}, a user-defined group, are not known. "
            "Build representations from its tensor(p, q): scalars are tensor(0, 0)."
        )

    def _product_copies(self, left, right):
        return (whole(Tensor(self, left.letters + right.letters)),)

    @cached_property
    def elements_and_positions(self) -> tuple[list, dict]:
        """Exact matrices of all elements of a finite group, by multiplying until it closes."""
        if self.lie_generators:
            raise NotImplementedError(
                f"{self.name} has Lie-algebra generators: there is no average over such a group in "
                "general, so characters do not count its solutions."
            )
        generators = self.defining_model.discrete
        found = [DomainMatrix.eye(self.dim, self.field)]
        known = {_hashable(found[0]): 0}
        for g in found:  # grows
            for x in generators:
                product = x * g
                if _hashable(product) not in known:
                    known[_hashable(product)] = len(found)
                    found.append(product)
                    if len(found) > MAX_ORDER:
                        raise NotImplementedError(
                            f"{self.name} has more than {MAX_ORDER} elements: characters do not "
                            "count its solutions."
                        )
        return found, known

    def defining_character(self) -> FiniteCharacter:
        elements, known = self.elements_and_positions
        squares = [known[_hashable(g * g)] for g in elements]
        inverses = [known[_hashable(g.to_field().inv().to_sparse())] for g in elements]
        values = [
            sum((x for (i, j), x in g.to_dok().items() if i == j), self.field.zero)
            for g in elements
        ]
        return FiniteCharacter(values, inverses, squares, self.field)


def _hashable(matrix):
    return frozenset(matrix.to_dok().items())


def _exponential(matrix):
    """exp of a small matrix: Taylor series after halving, then squaring."""
    halvings = max(0, int(np.ceil(np.log2(np.abs(matrix).sum() + 1.0))))
    small = matrix / 2.0**halvings
    term = total = np.eye(len(matrix))
    for n in range(1, 20):
        term = term @ small / n
        total = total + term
    return np.linalg.matrix_power(total, 2**halvings)
