"""Group elements given by their d x d matrix."""

from typing import Any

import numpy as np
import sympy

from equivariance.arguments import real_array, wrong_type
from equivariance.groups.base import Group


class MatrixElement:
    """A group element as a matrix.

    Attributes:
        matrix: [d, d], an exact sympy matrix or a float64 NumPy array.
        exact: which of the two.
    """

    def __init__(self, matrix):
        self.matrix = matrix
        self.exact = isinstance(matrix, sympy.MatrixBase)
        self.spins = {}  # computed matrices of SO(3)'s irreducible representations

    def __repr__(self) -> str:
        return f"element {self.matrix.tolist()}"


class GroupOfMatrices(Group):
    """A group whose elements are ``MatrixElement`` objects."""

    def compose(self, g: Any, h: Any) -> MatrixElement:
        """The product g h: first h, then g; exact if both are."""
        g, h = self.element(g), self.element(h)
        if g.exact and h.exact:
            return MatrixElement(sympy.ImmutableMatrix(g.matrix * h.matrix).applyfunc(sympy.expand))
        return MatrixElement(as_floats(g.matrix) @ as_floats(h.matrix))


def as_floats(matrix):
    """A sympy matrix or NumPy array as a float64 NumPy array."""
    return np.array(matrix, dtype=float)


def square_matrix(g, dim):
    """Checks a square matrix [dim, dim]; returns an exact sympy matrix or a float64 array."""
    if isinstance(g, sympy.MatrixBase):
        matrix = sympy.ImmutableMatrix(g)
        if matrix.has(sympy.Float):
            matrix = as_floats(matrix)
    else:
        if isinstance(g, str) or not hasattr(g, "__len__"):
            raise wrong_type("g", f"a {dim} x {dim} matrix", g)
        matrix = real_array(g, "g")
        if not np.all(np.isfinite(matrix)):
            raise ValueError(f"g must be finite, found {matrix.tolist()}.")
    if tuple(matrix.shape) != (dim, dim):
        raise ValueError(f"g must be a {dim} x {dim} matrix, found shape {matrix.shape}.")
    return matrix
