"""Matrices of exact real algebraic numbers from what users write."""

from numbers import Complex, Integral, Rational, Real

import numpy as np
import sympy

from equivariance.exact import algebraic_matrices


def exact_matrices(matrices, dim, name):
    """A sequence of square matrices as exact sympy matrices, checked.

    Args:
        matrices: a sequence of matrices [dim, dim]: nested lists, sympy or NumPy integer arrays.
        dim: their size.
        name: of the argument, for errors.

    Returns:
        A tuple of sympy matrices.

    Raises:
        TypeError, ValueError: if it is none, or an entry is no exact real algebraic number.

    Example:

    >>> exact_matrices([[[0, -1], [1, 0]]], 2, "lie_generators")
    (Matrix([
    [0, -1],
    [1,  0]]),)
    """
    if isinstance(matrices, sympy.MatrixBase) or _is_one_matrix(matrices):
        raise ValueError(
            f"{name} must be a list of {dim} x {dim} matrices, found a single matrix: put it into "
            "a list, as [matrix]."
        )
    if isinstance(matrices, str) or not hasattr(matrices, "__iter__"):
        raise TypeError(
            f"{name} must be a list of {dim} x {dim} matrices, found {matrices!r} "
            f"({type(matrices).__name__})."
        )
    return tuple(_exact_matrix(x, dim, f"{name}[{n}]") for n, x in enumerate(matrices))


def _is_one_matrix(matrices):
    """Whether rows of numbers were given instead of matrices."""
    if isinstance(matrices, np.ndarray):
        return matrices.ndim == 2
    return isinstance(matrices, list | tuple) and any(
        isinstance(row, list | tuple) and all(_is_number(x) for x in row)
        for row in matrices
        if not isinstance(row, str)
    )


def _is_number(x):
    return isinstance(x, Complex | sympy.Expr)


def _exact_matrix(matrix, dim, name):
    if isinstance(matrix, sympy.MatrixBase | sympy.NDimArray | np.ndarray):
        shape, rows = tuple(matrix.shape), matrix.tolist()
    elif isinstance(matrix, list | tuple) and all(isinstance(x, list | tuple) for x in matrix):
        rows = matrix
        widths = {len(x) for x in rows}
        if len(widths) > 1:
            raise ValueError(f"{name} must be a {dim} x {dim} matrix, found rows of {widths}.")
        shape = (len(rows), *widths)
    else:
        raise TypeError(
            f"{name} must be a {dim} x {dim} matrix, found {matrix!r} ({type(matrix).__name__})."
        )
    if shape != (dim, dim):
        raise ValueError(f"{name} must be a {dim} x {dim} matrix, found shape {shape}.")
    entries = [
        _exact_number(x, f"{name}, row {i}, column {j}")
        for i, row in enumerate(rows)
        for j, x in enumerate(row)
    ]
    return sympy.ImmutableMatrix(dim, dim, entries)


def _exact_number(x, where):
    hint = (
        "Generators must be matrices of exact real algebraic numbers: integers, fractions such as "
        "sympy.Rational(1, 2) and roots such as sympy.sqrt(3) / 2."
    )
    if isinstance(x, bool | np.bool_) or not isinstance(x, Complex | sympy.Expr):
        raise TypeError(f"{where}: found {x!r} ({type(x).__name__}). {hint}")
    if isinstance(x, Integral):
        return sympy.Integer(int(x))
    if isinstance(x, Rational):
        return sympy.Rational(x.numerator, x.denominator)
    if not isinstance(x, sympy.Expr):
        if not isinstance(x, Real):
            raise ValueError(f"{where}: found the complex number {x!r}. {hint}")
        if not np.isfinite(x):
            raise ValueError(f"{where}: found {x!r}, which is not finite. {hint}")
        raise ValueError(f"{where}: found the float {float(x)!r}. {hint}")
    if x.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
        raise ValueError(f"{where}: found {x}, which is not finite. {hint}")
    if x.free_symbols:
        raise ValueError(f"{where}: found the symbol {x}. {hint}")
    if x.has(sympy.Float):
        raise ValueError(f"{where}: found the float {x}. {hint}")
    if x.is_real is False:
        raise ValueError(f"{where}: found {x}, which is not real. {hint}")
    if x.is_algebraic is False:
        raise ValueError(f"{where}: found {x}, which is not algebraic. {hint}")
    try:
        algebraic_matrices([sympy.Matrix([[x]])])
    except (ValueError, NotImplementedError) as error:
        raise ValueError(
            f"{where}: found {x}, which is not known to be algebraic. {hint}"
        ) from error
    return x
