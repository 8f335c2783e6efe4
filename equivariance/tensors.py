"""The exact basis tensors of one pair of irreducible representations, with derivative indices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import sympy
from sympy import QQ

from equivariance.exact import sparse, sqrt, to_numpy
from equivariance.representations import Representation
from equivariance.solver import equivariant_maps

# Basis arrays with more entries than this are sympy's sparse arrays.
DENSE_ENTRIES = 4096


@cache
def solve_pair(irrep_out, irrep_in, order):
    """The equivariant maps between two irreducible representations, see ``equivariance.solver``."""
    group = irrep_out.group
    group.require_solvable(irrep_out, irrep_in, order)
    if not group.may_couple(irrep_out, irrep_in, order):
        return sparse({}, (0, group.dim**order * irrep_out.dim * irrep_in.dim), group.field)
    return equivariant_maps(group, order, irrep_out.model, irrep_in.model)


@dataclass(frozen=True)
class BasisTensor:
    """One solution, in the working bases of two irreducible representations.

    Attributes:
        entries: {(axes, out, in): value}, where axes are the derivative indices.
        field: field of the values.
        square: the square of a final factor, which makes the largest entry 1.
        irrep_out, irrep_in: the representations.
        order: number of derivatives.
    """

    entries: dict
    field: Any
    square: Any
    irrep_out: Representation
    irrep_in: Representation
    order: int

    @cached_property
    def array(self):
        """The tensor in the orthonormal bases, an exact sympy array [d, ..., out, in]."""
        outer, inner = self.irrep_out.model.scale, self.irrep_in.model.scale
        entries = {}
        for (axes, o, i), x in self.entries.items():
            root = sqrt(self.square * outer[o] / inner[i])
            entries[(*axes, o, i)] = self.field.to_sympy(x) * root
        dim = self.irrep_out.group.dim
        return sympy_array(entries, (dim,) * self.order + (self.irrep_out.dim, self.irrep_in.dim))

    @cached_property
    def array_numpy(self):
        """The tensor in float64 with flattened derivative indices, [d * ..., out, in]."""
        return to_numpy(self.array).reshape(-1, self.irrep_out.dim, self.irrep_in.dim)

    def symmetrised(self, sign):
        """T plus sign times its transpose in channels, for a representation with itself."""
        scale = [self.field.convert(x) for x in self.irrep_in.model.scale]
        entries = dict(self.entries)
        for (axes, o, i), x in self.entries.items():
            # A transposition exchanges the two bases, which have different lengths.
            moved = sign * x * scale[o] / scale[i]
            entries[axes, i, o] = entries.get((axes, i, o), self.field.zero) + moved
        entries = {at: x for at, x in entries.items() if x}
        if self.field != QQ and entries:
            sizes = {at: float(self.field.to_sympy(x)) for at, x in entries.items()}
            largest = max(sizes, key=lambda at: abs(sizes[at]))
            unit = entries[largest] if sizes[largest] > 0 else -entries[largest]
            entries = {at: x / unit for at, x in entries.items()}
        return _scaled(entries, self.field, self.irrep_out, self.irrep_in, self.order)


def _scaled(entries, field, irrep_out, irrep_in, order):
    """The tensor with these entries, scaled if they are rational."""
    outer, inner = irrep_out.model.scale, irrep_in.model.scale
    square = QQ(1)
    if field == QQ and entries:
        square /= max(x * x * outer[o] / inner[i] for (_, o, i), x in entries.items())
    return BasisTensor(entries, field, square, irrep_out, irrep_in, order)


@cache
def tensors(irrep_out, irrep_in, order):
    """The rows of ``solve_pair`` with separate indices, a tuple of ``BasisTensor``."""
    solutions = solve_pair(irrep_out, irrep_in, order)
    places = list(np.ndindex(*(irrep_out.group.dim,) * order))
    entries: list[dict] = [{} for _ in range(solutions.shape[0])]
    for (n, flat), x in solutions.to_dok().items():
        rest, i = divmod(flat, irrep_in.dim)
        p, o = divmod(rest, irrep_out.dim)
        entries[n][places[p], o, i] = x
    return tuple(_scaled(x, solutions.domain, irrep_out, irrep_in, order) for x in entries)


def sympy_array(entries, shape):
    """A sympy array with the given entries; it is sparse if it is large."""
    flat = {int(np.ravel_multi_index(at, shape)): x for at, x in entries.items()}
    size = int(np.prod(shape))
    if size > DENSE_ENTRIES:
        return sympy.ImmutableSparseNDimArray(flat, shape)
    return sympy.ImmutableDenseNDimArray([flat.get(n, sympy.S.Zero) for n in range(size)], shape)
