"""The differential operators between two irreducible representations, by name if they have one.

They form a readable basis of the solutions of a pair: gradient, divergence, curl, Laplacian and the
like, as far as they are solutions. The solver's tensors complete it.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import sympy
from sympy import LeviCivita as epsilon

from equivariance.exact import dense_array, flat_entries, nonzero_entries, simplified
from equivariance.representations import Irrep, Tensor

# A quarter turn to the left: (v1, v2) -> (-v2, v1).
TURN = ((0, -1), (1, 0))


@dataclass(frozen=True)
class Operator:
    """An equivariant operator from one irreducible field to another.

    Attributes:
        array: exact coefficients [d, ..., out, in].
        name: its name, or None if it is to be written out.
        order: number of derivatives.
    """

    array: sympy.NDimArray
    name: str | None
    order: int


def is_scalar(rep):
    """Whether the group leaves the representation's only channel unchanged."""
    return rep == rep.group.trivial or (isinstance(rep, Tensor) and not rep.letters)


def is_vector(rep):
    """Whether the representation is the defining one."""
    if isinstance(rep, Tensor):
        return rep.letters == (False,)
    return isinstance(rep, Irrep) and rep.dim == rep.group.dim and rep.index[0] == 1


@cache
def operators(irrep_out, irrep_in, order, tensors):
    """A basis of the operators of an order between two irreducible representations.

    They are exact arrays [d, ..., out, in], as many as the solver's tensors. Named ones come first.
    """
    found: list[Operator] = []
    rows: list = []
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
    """The coordinates of an array in the solver's orthogonal basis; None if it is no solution."""
    rest = dict(nonzero_entries(array))
    found = []
    for tensor in tensors:
        entries = dict(nonzero_entries(tensor))
        overlap = simplified(
            sum((rest[n] * x for n, x in entries.items() if n in rest), sympy.S.Zero)
        )
        found.append(sympy.radsimp(overlap / simplified(sum(x * x for x in entries.values()))))
        if overlap:
            for n, x in entries.items():
                rest[n] = rest.get(n, sympy.S.Zero) - found[-1] * x
    return None if any(simplified(x) for x in rest.values()) else found


def expansion(array, basis):
    """The coefficients of an array in a basis of ``Operator`` objects: a list of sympy numbers."""
    unknowns = sympy.symbols(f"x:{len(basis)}")
    left = sum((x * b.array for x, b in zip(unknowns, basis, strict=True)), -array)
    (solution,) = sympy.linsolve(flat_entries(left), *unknowns)
    return list(solution)


def _named(out, inside, order):
    """Pairs (name, array) that fit the shapes of the two representations, solutions or not."""
    d = out.group.dim
    same = out == inside and (out.dim == 1 or isinstance(out, Irrep) or is_vector(out))
    if order == 0 and same:
        yield "identity", _array(out.dim, out.dim, 0, delta)
        if out.dim == 2:
            yield "turn", _array(2, 2, 0, lambda a, b: TURN[a][b])
    if order == 1 and out.dim == 1 and is_vector(inside):
        yield "div", _array(1, d, 1, lambda i, _, b: delta(i, b))
        if d == 2:
            yield "curl", _array(1, d, 1, lambda i, _, b: epsilon(i, b))
    if order == 1 and inside.dim == 1 and is_vector(out):
        yield "grad", _array(d, 1, 1, lambda i, a, _: delta(i, a))
        if d == 2:
            yield "rot", _array(d, 1, 1, lambda i, a, _: epsilon(i, a))
    if order == 1 and d == 3 and same and is_vector(out):
        yield "curl", _array(3, 3, 1, lambda i, a, b: epsilon(a, i, b))
    if order == 2 and same:
        n = out.dim
        yield "laplacian", _array(n, n, 2, lambda i, j, a, b: delta(i, j) * delta(a, b), d)
        if is_vector(out):
            yield "grad div", _array(d, d, 2, lambda i, j, a, b: delta(i, a) * delta(j, b))
        if n == 2:
            yield "laplacian turn", _array(2, 2, 2, lambda i, j, a, b: delta(i, j) * TURN[a][b], d)
        if is_vector(out) and d == 2:
            yield "rot div", _array(2, 2, 2, lambda i, j, a, b: epsilon(i, a) * delta(j, b))


def delta(i, j):
    """Kronecker's symbol."""
    return int(i == j)


def _array(rows, columns, order, entry, dim=None):
    """The array [d, ..., rows, columns] of a function of its indices, symmetric in derivatives."""
    shape = (dim or max(rows, columns),) * order + (rows, columns)
    entries = [
        sympy.Rational(entry(*at) + entry(*at[:order][::-1], *at[order:]), 2)
        for at in np.ndindex(*shape)
    ]
    return sympy.ImmutableDenseNDimArray(entries, shape)


def _rank(rows):
    return sympy.Matrix(rows).rank(simplify=True)
