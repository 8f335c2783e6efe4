"""Exact sparse linear algebra over the rationals or a field of algebraic numbers.

Matrices are sympy's ``DomainMatrix``, sparse. Nothing here knows about groups.
"""

import math
from functools import lru_cache

import numpy as np
import sympy
from sympy import QQ
from sympy.polys.matrices import DomainMatrix


def sparse(entries, shape, field=QQ):
    """The sparse matrix with the given ``{(row, column): value}``; zeros may be among them."""
    return DomainMatrix.from_dok({at: x for at, x in entries.items() if x}, shape, field)


def identity(size, field=QQ):
    """The identity matrix."""
    return sparse({(i, i): field.one for i in range(size)}, (size, size), field)


def diagonal(values, field=QQ):
    """A diagonal matrix."""
    size = len(values)
    return sparse({(i, i): field.convert(x) for i, x in enumerate(values)}, (size, size), field)


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
    """The matrices along the diagonal of a larger one."""
    entries, row, column = {}, 0, 0
    for matrix in matrices:
        for (i, j), x in matrix.to_dok().items():
            entries[row + i, column + j] = x
        row, column = row + matrix.shape[0], column + matrix.shape[1]
    return DomainMatrix.from_dok(entries, (row, column), field)


def common_nullspace(operators, size, field=QQ):
    """Basis of the vectors that every one of the operators maps to zero.

    One operator at a time, the sparsest first, each restricted to what the ones before left over:
    a reflection or a generator of rotations about an axis leaves few vectors.

    Args:
        operators: matrices [e, size].
        size: number of unknowns.
        field: their field.

    Returns:
        Matrix [s, size], rows in reduced echelon form: rational wherever the space has a rational
        basis, even if the operators are not.

    Example:

    >>> from sympy import QQ
    >>> turn = sparse({(0, 1): QQ(-1), (1, 0): QQ(1)}, (3, 3))  # about the third axis
    >>> common_nullspace([turn], 3).to_Matrix()
    Matrix([[0, 0, 1]])
    """
    basis = identity(size, field)
    for operator in sorted(operators, key=lambda x: x.nnz()):
        if basis.shape[0] == 0:
            break
        restricted = operator.convert_to(field) * basis.transpose()
        basis = _nullspace(restricted) * basis
    return basis.rref()[0].to_sparse()


def _nullspace(matrix):
    """Basis of the vectors that a matrix maps to zero.

    Over a field of algebraic numbers of degree m, with unit a, elimination is slow: instead each
    entry becomes the rational m x m matrix by which it multiplies 1, a, a^2 ... A column j then is
    a combination of those before it if and only if its m columns are, so that the vector of a free
    variable j is that of its first rational one.
    """
    field = matrix.domain
    if not field.is_Algebraic:
        return matrix.nullspace()
    degree = field.mod.degree()
    powers = [field.one]
    for _ in range(degree - 1):
        powers.append(powers[-1] * field.unit)
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
    """The same matrix over the rationals if all its entries are rational, else unchanged."""
    if matrix.domain == QQ:
        return matrix
    entries = {}
    for at, x in matrix.to_dok().items():
        coefficients = x.to_list()
        if len(coefficients) > 1:
            return matrix
        entries[at] = QQ(coefficients[0].numerator, coefficients[0].denominator)
    return DomainMatrix.from_dok(entries, matrix.shape, QQ)


def primitive(matrix):
    """A positive rational multiple with coprime integer entries (unchanged over other fields)."""
    if matrix.domain != QQ or matrix.nnz() == 0:
        return matrix
    values = list(matrix.to_dok().values())
    denominator = math.lcm(*(int(x.denominator) for x in values))
    divisor = math.gcd(*(int(x.numerator * denominator // x.denominator) for x in values))
    return matrix.scalarmul(QQ(denominator, divisor))


def connected_parts(size, pairs):
    """The number, from 0, of the connected part of each of ``size`` nodes joined by the pairs.

    Example:

    >>> connected_parts(5, [(0, 3), (4, 1)])
    (0, 1, 2, 0, 1)
    """
    parent = list(range(size))

    def root(n):
        while parent[n] != n:
            parent[n] = n = parent[parent[n]]
        return n

    for i, j in pairs:
        i, j = sorted((root(i), root(j)))
        parent[j] = i
    numbers = {}
    return tuple(numbers.setdefault(root(n), len(numbers)) for n in range(size))


def sqrt(x):
    """Square root of a positive rational, as a sympy number."""
    return sympy.sqrt(sympy.Rational(int(x.numerator), int(x.denominator)))


def float_sqrt(x):
    """Square root of a positive rational, as a float."""
    return math.sqrt(int(x.numerator) / int(x.denominator))


def flat_entries(array):
    """The entries of a sympy matrix or dense array, last index fastest, as a list.

    sympy's own iteration over an array's entries takes far longer.
    """
    if isinstance(array, sympy.MatrixBase):
        return array.flat()
    if isinstance(array, sympy.ImmutableDenseNDimArray):
        return list(array.args[0])
    if isinstance(array, sympy.tensor.array.sparse_ndim_array.SparseNDimArray):
        found = [sympy.S.Zero] * math.prod(array.shape)
        for at, x in array._sparse_array.items():
            found[int(at)] = x
        return found
    return sympy.flatten(array)


def dense_array(array):
    """An array as sympy's dense one. (Its own conversion of a sparse array loses the entries.)"""
    return sympy.ImmutableDenseNDimArray(flat_entries(array), array.shape)


def to_numpy(array):
    """A sympy matrix or array of numbers as a float64 NumPy array of the same shape.

    Args:
        array: sympy matrix or N-dimensional array, or NumPy array; every entry a real number.

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
    found = np.zeros(array.shape)
    if isinstance(array, sympy.MatrixBase):
        for at, x in array.todok().items():
            found[at] = float(x)
        return found
    flat = found.reshape(-1)
    if isinstance(array, sympy.tensor.array.sparse_ndim_array.SparseNDimArray):
        for at, x in array._sparse_array.items():
            flat[at] = float(x)
        return found
    for at, x in enumerate(flat_entries(array)):
        if x != 0:
            flat[at] = float(x)
    return found


def simplified(x):
    """An exact expression, 0 if it is zero."""
    x = sympy.expand(x)
    if x.is_Rational:
        return x
    if not x.free_symbols:
        return sympy.S.Zero if _is_zero(x) else x
    terms = {}
    for term in sympy.Add.make_args(x):
        number, rest = term.as_independent(*x.free_symbols, as_Add=False)
        terms[rest] = terms.get(rest, sympy.S.Zero) + number
    total = sympy.Add(*(simplified(n) * rest for rest, n in terms.items()))
    # Monomials are independent; other functions of symbols may be related.
    return total if total.is_polynomial() else sympy.simplify(total)


@lru_cache(maxsize=4096)
def _is_zero(number):
    """Whether an exact number is 0: decided by digits if it is not, by algebra if it may be."""
    if abs(sympy.N(number, 30)) > 1e-15:
        return False
    if sympy.simplify(number) == 0:
        return True
    t = sympy.Dummy()
    return sympy.minimal_polynomial(number, t) == t


def algebraic_matrices(matrices):
    """sympy matrices of algebraic numbers over the smallest field found that holds them all.

    Args:
        matrices: a sequence of explicit sympy matrices.

    Returns:
        The list of sparse matrices, and their field.

    Raises:
        ValueError: if an entry is no exact algebraic number.
    """
    entries = [sympy.sympify(x) for matrix in matrices for x in matrix]
    for x in entries:
        if x.free_symbols or x.has(sympy.Float) or not x.is_number or x.is_real is False:
            raise ValueError(
                f"Generators must be matrices of exact real algebraic numbers; found the entry "
                f"{x}. Write fractions as sympy.Rational and roots as sympy.sqrt."
            )
    field, values = sympy.construct_domain(entries, extension=True, field=True)
    if not (field.is_QQ or field.is_Algebraic):
        raise ValueError(
            "Generators must be matrices of exact real algebraic numbers, which "
            f"{sorted(map(str, set(entries)))} are not."
        )
    values, found = iter(values), []
    for matrix in matrices:
        rows, columns = matrix.shape
        found.append(
            sparse(
                {(i, j): next(values) for i in range(rows) for j in range(columns)},
                matrix.shape,
                field,
            )
        )
    return found, field
