"""Groups that users define by their generators."""

from functools import cached_property

import numpy as np
import sympy

from equivariance.characters import FiniteCharacter
from equivariance.decomposition import Copy
from equivariance.exact import algebraic_matrices, identity
from equivariance.groups.base import Group
from equivariance.groups.elements import MatrixElement, composed, square_matrix
from equivariance.representations import Tensor, natural_number

MAX_ORDER = 2000


class MatrixGroup(Group):
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

    def __init__(self, name, dim, lie_generators=(), discrete_generators=()):
        self.name = str(name)
        self.dim = natural_number(dim, "dim")
        if self.dim < 1:
            raise ValueError(f"dim must be at least 1, found {dim}.")
        self.lie_generators = tuple(
            self._generator(x, f"lie_generators[{n}]") for n, x in enumerate(lie_generators)
        )
        discrete = tuple(
            self._generator(x, f"discrete_generators[{n}]")
            for n, x in enumerate(discrete_generators)
        )
        _, self.field = algebraic_matrices([*self.lie_generators, *discrete, sympy.eye(self.dim)])
        for n, x in enumerate(discrete):
            if x.det().equals(0):
                raise ValueError(f"discrete_generators[{n}] has no inverse: {x.tolist()}.")
        self.discrete_generators = tuple(MatrixElement(x) for x in discrete)
        self.key = ("matrix group", self.name, self.dim, self.lie_generators, discrete)

    def _generator(self, matrix, name):
        try:
            found = sympy.ImmutableMatrix(matrix)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{name} must be a {self.dim} x {self.dim} matrix, found {matrix!r}."
            ) from error
        if found.shape != (self.dim, self.dim):
            raise ValueError(
                f"{name} must be a {self.dim} x {self.dim} matrix, found shape {found.shape}."
            )
        try:
            algebraic_matrices([found])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        return found

    @cached_property
    def orthogonal(self):
        lie, discrete = self.defining_model.lie, self.defining_model.discrete
        one = identity(self.dim, self.field)
        return all((x + x.transpose()).is_zero_matrix for x in lie) and all(
            (x.transpose() * x - one).is_zero_matrix for x in discrete
        )

    def element(self, g):
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

    def random_element(self, rng):
        """A random product of the generators and of exponentials of the Lie algebra.

        Not uniform. The exponents are of the order of 1, so that groups without bound, as the
        Lorentz group, give matrices of moderate size.
        """
        g = np.eye(self.dim)
        discrete = [np.array(x.matrix, dtype=float) for x in self.discrete_generators]
        lie = [np.array(x, dtype=float) for x in self.lie_generators]
        for _ in range(3):
            for x in discrete:
                g = g @ np.linalg.matrix_power(x, int(rng.integers(-2, 3)))
            if lie:
                g = g @ _exponential(sum(rng.normal(scale=0.5) * x for x in lie))
        if self.orthogonal:  # the nearest orthogonal matrix, without the rounding of the products
            left, _, right = np.linalg.svd(g)
            g = left @ right
        return MatrixElement(g)

    def inverse(self, g):
        g = self.element(g)
        if self.orthogonal:
            return MatrixElement(g.matrix.T)
        return MatrixElement(g.matrix.inv() if g.exact else np.linalg.inv(g.matrix))

    def compose(self, g, h):
        """The product g h: first h, then g."""
        return MatrixElement(composed(self.element(g), self.element(h)))

    def irrep(self, k):
        raise NotImplementedError(
            f"The irreducible representations of {self.name}, a user-defined group, are not known. "
            "Build representations from its tensor(p, q): scalars are tensor(0, 0)."
        )

    def _product_copies(self, left, right):
        product = Tensor(self, left.letters + right.letters)
        return (Copy(product, identity(product.dim), 1),)

    @cached_property
    def _elements(self):
        """Exact matrices of all elements of a finite group, by multiplying until it closes."""
        if self.lie_generators:
            raise NotImplementedError(
                f"{self.name} has Lie-algebra generators: there is no average over such a group in "
                "general, so characters do not count its solutions."
            )
        generators = self.defining_model.discrete
        found = [identity(self.dim, self.field)]
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

    def _defining_character(self):
        elements, known = self._elements
        one = _hashable(elements[0])
        squares = [known[_hashable(g * g)] for g in elements]
        inverses = []
        for g in elements:
            power = g
            while _hashable(power * g) != one:
                power = power * g
            inverses.append(known[_hashable(power)])
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
