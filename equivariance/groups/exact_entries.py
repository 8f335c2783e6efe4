"""Reads matrices of exact real algebraic numbers that users write."""

from numbers import Complex

import numpy as np
import sympy

from equivariance.arguments import wrong_type
from equivariance.exact import algebraic_matrices

HINT = (
    "Generators must be matrices of exact real algebraic numbers: integers, fractions such as "
    "sympy.Rational(1, 2) and roots such as sympy.sqrt(3) / 2."
)


def exact_matrices(matrices, dim, name):
    """Reads nested lists, sympy or NumPy integer arrays [dim, dim] as exact sympy matrices.

    Raises:
        TypeError, ValueError: if one is not a matrix, or an entry is not an exact real algebraic
            number.

    Example:

    >>> exact_matrices([[[0, -1], [1, 0]]], 2, "lie_generators")
    (Matrix([
    [0, -1],
    [1,  0]]),)
    """
    if _is_one_matrix(matrices):
        raise ValueError(
            f"{name} must be a list of {dim} x {dim} matrices, found a single matrix: put it into "
            "a list, [matrix]."
        )
    if isinstance(matrices, str) or not hasattr(matrices, "__iter__"):
        raise wrong_type(name, f"a list of {dim} x {dim} matrices", matrices)
    return tuple(_exact_matrix(x, dim, f"{name}[{n}]") for n, x in enumerate(matrices))


def _is_one_matrix(matrices):
    """Whether rows of numbers were given instead of matrices."""
    if isinstance(matrices, np.ndarray | sympy.MatrixBase):
        return len(matrices.shape) == 2
    return isinstance(matrices, list | tuple) and any(
        isinstance(row, list | tuple) and all(isinstance(x, Complex | sympy.Expr) for x in row)
        for row in matrices
    )


def _exact_matrix(matrix, dim, name):
    rows = matrix
    if isinstance(matrix, sympy.MatrixBase | sympy.NDimArray | np.ndarray):
        shape, rows = tuple(matrix.shape), matrix.tolist()
    elif isinstance(matrix, list | tuple) and all(isinstance(x, list | tuple) for x in matrix):
        widths = {len(x) for x in rows}
        if len(widths) > 1:
            raise ValueError(f"{name} must be a {dim} x {dim} matrix, found rows of {widths}.")
        shape = (len(rows), *widths)
    else:
        raise wrong_type(name, f"a {dim} x {dim} matrix", matrix)
    if shape != (dim, dim):
        raise ValueError(f"{name} must be a {dim} x {dim} matrix, found shape {shape}.")
    places = np.ndindex(dim, dim)
    entries = [_exact_number(rows[i][j], f"{name}, row {i}, column {j}") for i, j in places]
    return sympy.ImmutableMatrix(dim, dim, entries)


def _exact_number(x, where):
    if isinstance(x, bool | np.bool_) or not isinstance(x, Complex | sympy.Expr):
        raise TypeError(f"{where}: found {x!r} ({type(x).__name__}). {HINT}")
    found = sympy.sympify(x)
    for wrong, reason in (
        (found.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo), f"{x}, which is not finite"),
        (found.free_symbols, f"the symbol {x}"),
        (isinstance(x, complex), f"the complex number {x}"),
        (found.has(sympy.Float), f"the float {x}"),
        (found.is_real is False, f"{x}, which is not real"),
        (found.is_algebraic is False, f"{x}, which is not algebraic"),
    ):
        if wrong:
            raise ValueError(f"{where}: found {reason}. {HINT}")
    try:
        algebraic_matrices([sympy.Matrix([[found]])])
    except (ValueError, NotImplementedError) as error:
        raise ValueError(
            f"{where}: found {x}, which is not known to be algebraic. {HINT}"
        ) from error
    return found
