"""The differential operators between two irreducible representations, by name where they have one.

A basis of the solutions of a pair that is easy to read: gradient, divergence, curl, Laplacian and
their like as far as they are solutions, completed by the solver's tensors.
"""

from dataclasses import dataclass
from functools import cache

import sympy
from sympy import LeviCivita as epsilon
from sympy import Rational

from equivariance.exact import dense_array, flat_entries, simplified
from equivariance.representations import Irrep, Tensor

# A quarter turn to the left: (v1, v2) -> (-v2, v1).
TURN = ((0, -1), (1, 0))


@dataclass(frozen=True)
class Operator:
    """An equivariant operator from one irreducible field to another.

    Attributes:
        array: exact coefficients [d, ..., out, in].
        name: its name, or None if it is written out.
        order: number of derivatives.
    """

    array: sympy.NDimArray
    name: str | None
    order: int


def is_scalar(rep):
    """Whether the group leaves the representation's only channel unchanged."""
    return rep == rep.group.trivial or (isinstance(rep, Tensor) and not rep.letters)


def is_vector(rep):
    """Whether it is the defining representation itself."""
    if isinstance(rep, Tensor):
        return rep.letters == (False,)
    return isinstance(rep, Irrep) and rep.dim == rep.group.dim and rep.index[0] == 1


@cache
def operators(irrep_out, irrep_in, order, tensors):
    """A basis of the operators of an order between two irreducible representations.

    Args:
        irrep_out, irrep_in: the representations.
        order: number of derivatives, 0, 1 or 2.
        tensors: the solver's basis, a tuple of exact arrays [d, ..., out, in].

    Returns:
        A list of ``Operator``, as many as tensors: named ones first.
    """
    found, rows = [], []
    for name, array in _named(irrep_out, irrep_in, order):
        row = _coordinates(array, tensors)
        if row is not None and _rank([*rows, row]) > len(rows):
            found.append(Operator(array, name, order))
            rows.append(row)
    for n, array in enumerate(tensors):
        row = [int(m == n) for m in range(len(tensors))]
        if len(found) < len(tensors) and (not rows or _rank([*rows, row]) > len(rows)):
            found.append(Operator(dense_array(array), None, order))
            rows.append(row)
    return found


def _coordinates(array, tensors):
    """An array in the solver's basis of orthogonal tensors; None if it is no solution."""
    rest = {n: x for n, x in enumerate(flat_entries(array)) if x != 0}
    found = []
    for tensor in tensors:
        entries = {n: x for n, x in enumerate(flat_entries(tensor)) if x != 0}
        overlap = simplified(
            sum((rest[n] * x for n, x in entries.items() if n in rest), Rational(0))
        )
        found.append(sympy.radsimp(overlap / simplified(sum(x * x for x in entries.values()))))
        if overlap:
            for n, x in entries.items():
                rest[n] = rest.get(n, sympy.S.Zero) - found[-1] * x
    return None if any(simplified(x) for x in rest.values()) else found


def expansion(array, basis):
    """The coefficients of an array in a basis of ``Operator``: a list of sympy numbers."""
    unknowns = sympy.symbols(f"x:{len(basis)}")
    left = sum((x * b.array for x, b in zip(unknowns, basis, strict=True)), -array)
    (solution,) = sympy.linsolve(flat_entries(left), *unknowns)
    return list(solution)


def _named(out, inside, order):
    """Pairs (name, array) for the shapes of the two representations, solutions or not."""
    d = out.group.dim
    same = out == inside and (out.dim == 1 or isinstance(out, Irrep) or is_vector(out))
    one, two = out.dim == 1, inside.dim == 1
    if order == 0 and same:
        yield "identity", _matrix(sympy.eye(out.dim))
        if out.dim == 2:
            yield "turn", _matrix(sympy.Matrix(TURN))
    if order == 1 and one and is_vector(inside):
        yield "div", _array(d, lambda i, a: sympy.Integer(i == a), 1, (1, d))
        if d == 2:
            yield "curl", _array(d, lambda i, a: epsilon(i, a), 1, (1, d))
    if order == 1 and two and is_vector(out):
        yield "grad", _array(d, lambda i, a: sympy.Integer(i == a), 1, (d, 1))
        if d == 2:
            yield "rot", _array(d, lambda i, a: epsilon(i, a), 1, (d, 1))
    if order == 1 and d == 3 and same and is_vector(out):
        entries = [epsilon(a, i, b) for i in range(3) for a in range(3) for b in range(3)]
        yield "curl", sympy.ImmutableDenseNDimArray(entries, (3, 3, 3))
    if order == 2 and same:
        yield "laplacian", _laplacian(d, sympy.eye(out.dim))
        if is_vector(out):
            div = _second(d, lambda i, j, a, b: Rational(int(a == i and b == j)))
            yield "grad div", div
            if d == 2:
                yield "laplacian turn", _laplacian(d, sympy.Matrix(TURN))
                yield "rot div", _second(d, lambda i, j, a, b: epsilon(i, a) * int(b == j))
        elif out.dim == 2:
            yield "laplacian turn", _laplacian(d, sympy.Matrix(TURN))


def _matrix(matrix):
    return sympy.ImmutableDenseNDimArray(list(matrix), matrix.shape)


def _array(d, entry, order, shape):
    entries = [
        entry(i, max(a, b)) for i in range(d) for a in range(shape[0]) for b in range(shape[1])
    ]
    return sympy.ImmutableDenseNDimArray(entries, (d,) * order + shape)


def _second(d, entry):
    """The array [d, d, d, d] of an operator with two derivatives, symmetric in them."""
    r = range(d)
    entries = [
        (entry(i, j, a, b) + entry(j, i, a, b)) / sympy.Integer(2)
        for i in r
        for j in r
        for a in r
        for b in r
    ]
    return sympy.ImmutableDenseNDimArray(entries, (d, d, d, d))


def _laplacian(d, matrix):
    r, n = range(d), range(matrix.rows)
    entries = [matrix[a, b] * int(i == j) for i in r for j in r for a in n for b in n]
    return sympy.ImmutableDenseNDimArray(entries, (d, d, *matrix.shape))


def _rank(rows):
    return sympy.Matrix(rows).rank(simplify=True)
