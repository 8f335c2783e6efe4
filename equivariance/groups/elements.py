"""Group elements given by their d x d matrix."""

import numpy as np
import sympy

from equivariance.arguments import real_array


class MatrixElement:
    """A group element as a matrix.

    Attributes:
        matrix: [d, d], an exact sympy matrix or a float64 NumPy array.
        exact: which of the two.
    """

    def __init__(self, matrix):
        self.matrix = matrix
        self.exact = isinstance(matrix, sympy.MatrixBase)
        self.spins = {}  # matrices of SO(3)'s irreducible representations, once computed

    def __repr__(self):
        rows = self.matrix.tolist()
        return f"element {rows}"


def square_matrix(g, dim, name="g"):
    """A square matrix [dim, dim] as exact sympy matrix or float64 array, checked."""
    if isinstance(g, sympy.MatrixBase):
        matrix = sympy.ImmutableMatrix(g)
        if matrix.has(sympy.Float):
            matrix = np.array(matrix, dtype=float)
    else:
        if isinstance(g, str) or not hasattr(g, "__len__"):
            raise TypeError(
                f"{name} must be a {dim} x {dim} matrix, found {g!r} ({type(g).__name__})."
            )
        matrix = real_array(g, name)
        if not np.all(np.isfinite(matrix)):
            raise ValueError(f"{name} must be finite, found {matrix.tolist()}.")
    if tuple(matrix.shape) != (dim, dim):
        raise ValueError(f"{name} must be a {dim} x {dim} matrix, found shape {matrix.shape}.")
    return matrix


def composed(g, h):
    """The product of two matrix elements; exact if both are."""
    if g.exact and h.exact:
        return sympy.ImmutableMatrix(g.matrix * h.matrix).applyfunc(sympy.expand)
    return np.array(g.matrix, dtype=float) @ np.array(h.matrix, dtype=float)
