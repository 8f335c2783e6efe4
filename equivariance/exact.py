"""Exact sparse linear algebra over the rationals or a field of algebraic numbers.

Matrices are sparse sympy ``DomainMatrix`` objects. Nothing here knows about groups.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
import sympy
from sympy import QQ
from sympy.polys.matrices import DomainMatrix
from sympy.polys.polyerrors import CoercionFailed
from sympy.tensor.array.sparse_ndim_array import SparseNDimArray


def sparse(entries, shape, field=QQ):
    """The sparse matrix with the given ``{(row, column): value}``; values may be 0."""
    return DomainMatrix.from_dok({at: x for at, x in entries.items() if x}, shape, field)


def kron(left, right):
    """Kronecker product of two matrices over the same field."""
    (m, n), (p, q) = left.shape, right.shape
    others = list(right.to_dok().items())
    return DomainMatrix.from_dok(
        {
            (i * p + row, j * q + column): x * y
            for (i, j), x in left.to_dok().items()
            for (row, column), y in others
        },
        (m * p, n * q),
        left.domain,
    )


def block_diagonal(matrices, field=QQ):
    """A matrix with the given matrices along its diagonal."""
    entries, row, column = {}, 0, 0
    for matrix in matrices:
        for (i, j), x in matrix.to_dok().items():
            entries[row + i, column + j] = x
        row, column = row + matrix.shape[0], column + matrix.shape[1]
    return DomainMatrix.from_dok(entries, (row, column), field)


def common_nullspace(operators, basis):
    """Basis of the vectors of a space that every one of the operators maps to zero.

    The operators are taken one at a time, the sparsest first. Each acts only on the space that the
    earlier ones left. A reflection or a generator of rotations about an axis leaves few vectors.

    The operators are matrices [e, size], the basis [n, size] and the result [s, size]. Its rows are
    in reduced echelon form: rational wherever there is a rational basis, even if the operators are
    not.

    Example:

    >>> from sympy import QQ
    >>> turn = sparse({(0, 1): QQ(-1), (1, 0): QQ(1)}, (3, 3))  # about the third axis
    >>> common_nullspace([turn], DomainMatrix.eye(3, QQ)).to_Matrix()
    Matrix([[0, 0, 1]])
    """
    for operator in sorted(operators, key=lambda x: x.nnz()):
        if basis.shape[0] == 0:
            break
        restricted = operator.convert_to(basis.domain) * basis.transpose()
        basis = _nullspace(restricted) * basis
    return basis.rref()[0].to_sparse()


def _nullspace(matrix):
    """Basis of the vectors that a matrix maps to zero.

    Elimination is slow over a field of algebraic numbers of degree m with the generator a. So each
    entry becomes the rational m x m matrix of its multiplication of 1, a, a^2 ... A column j is a
    combination of earlier columns if and only if its m columns are. So the vector of a free
    variable j is that of its first rational one.
    """
    field = matrix.domain
    if not field.is_Algebraic:
        return matrix.nullspace()
    degree = field.mod.degree()
    powers = [field.unit**p for p in range(degree)]
    entries = {}
    for (i, j), x in matrix.to_dok().items():
        for p, power in enumerate(powers):
            for q, value in enumerate(reversed((x * power).to_list())):
                entries[i * degree + q, j * degree + p] = QQ(value.numerator, value.denominator)
    rows, columns = matrix.shape
    reduced, pivots = sparse(entries, (rows * degree, columns * degree)).rref()
    free = [n for n in range(columns) if n * degree not in set(pivots)]
    place = {n * degree: row for row, n in enumerate(free)}
    found = {(row, n): field.one for row, n in enumerate(free)}
    for (row, column), x in reduced.to_dok().items():
        if column in place:
            n, p = divmod(pivots[row], degree)
            at = place[column], n
            found[at] = found.get(at, field.zero) - field.convert_from(x, QQ) * powers[p]
    return sparse(found, (len(free), columns), field)


def to_rational(matrix):
    """The matrix over the rationals if all its entries are rational, otherwise unchanged."""
    try:
        return matrix.convert_to(QQ)
    except CoercionFailed:
        return matrix


def primitive(matrix):
    """A positive rational multiple with coprime integer entries (unchanged over other fields)."""
    return matrix.primitive()[1] if matrix.domain == QQ else matrix


@lru_cache(maxsize=4096)
def sqrt(x):
    """The square root of a positive rational as a sympy number."""
    return sympy.sqrt(QQ.to_sympy(x))


def nonzero_entries(array):
    """Pairs (position, entry) of a sympy matrix or array, last index fastest.

    sympy's own iteration over an array's entries takes far longer.
    """
    if isinstance(array, sympy.MatrixBase):
        return [(i * array.cols + j, x) for (i, j), x in array.todok().items()]
    if isinstance(array, SparseNDimArray):
        return [(int(at), x) for at, x in array._sparse_array.items()]
    return [(at, x) for at, x in enumerate(array._array) if x != 0]


def flat_entries(array):
    """The entries of a sympy matrix or array, last index fastest, as a list."""
    found = [sympy.S.Zero] * math.prod(array.shape)
    for at, x in nonzero_entries(array):
        found[at] = x
    return found


def dense_array(array):
    """Converts an array to sympy's dense one. (sympy's own conversion loses sparse entries.)"""
    return sympy.ImmutableDenseNDimArray(flat_entries(array), array.shape)


def object_array(array):
    """A sympy matrix or array as a NumPy array of sympy numbers."""
    found = np.empty(math.prod(array.shape), dtype=object)
    found[:] = flat_entries(array)
    return found.reshape(array.shape)


def to_numpy(array: Any) -> np.ndarray:
    """A sympy matrix or array of numbers as a float64 NumPy array of the same shape.

    Args:
        array: sympy matrix or N-dimensional array, or NumPy array, of real numbers.

    Returns:
        NumPy float64 array.

    Example:

    >>> import sympy
    >>> to_numpy(sympy.Matrix([[sympy.sqrt(2), 0]])).round(3).tolist()
    [[1.414, 0.0]]
    """
    if isinstance(array, np.ndarray) and array.dtype.kind in "fiu":
        return array.astype(float)
    if not isinstance(array, sympy.MatrixBase | sympy.NDimArray):
        raise TypeError(f"array must be a sympy matrix or array, found {type(array).__name__}.")
    found = np.zeros(math.prod(array.shape))
    for at, x in nonzero_entries(array):
        found[at] = float(x)
    return found.reshape(array.shape)


def simplified(x):
    """Simplifies an exact expression; it is 0 if its value is."""
    x = sympy.expand(x)
    if x.is_Rational:
        return x
    if not x.free_symbols:
        return sympy.S.Zero if is_zero(x) else x
    terms: dict = {}
    for term in sympy.Add.make_args(x):
        number, rest = term.as_independent(*x.free_symbols, as_Add=False)
        terms[rest] = terms.get(rest, sympy.S.Zero) + number
    total = sympy.Add(*(simplified(n) * rest for rest, n in terms.items()))
    # Monomials are independent, but other functions of symbols may be related.
    return total if total.is_polynomial() else sympy.simplify(total)


@lru_cache(maxsize=4096)
def is_zero(number):
    """Whether an exact number is 0: by its digits, and if these are 0 by algebra."""
    return abs(sympy.N(number, 30)) <= 1e-15 and number.equals(0)


def algebraic_matrices(matrices):
    """sympy matrices as sparse ones, and the smallest field found that holds all their entries.

    Raises:
        ValueError: if an entry is not an exact algebraic number.
    """
    entries = [x for matrix in matrices for x in matrix]
    field, values = sympy.construct_domain(entries, extension=True, field=True)
    if not (field.is_QQ or field.is_Algebraic):
        raise ValueError(f"{sorted(map(str, set(entries)))} are not exact algebraic numbers.")
    values, found = iter(values), []
    for matrix in matrices:
        places = np.ndindex(*matrix.shape)
        found.append(sparse({at: next(values) for at in places}, matrix.shape, field))
    return found, field
