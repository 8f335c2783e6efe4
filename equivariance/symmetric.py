"""Equivariant maps of a representation to itself that are symmetric or antisymmetric in channels.

For an orthogonal representation the transpose of an equivariant map is one, so these are subspaces.
Between copies of two different irreducible parts the block below the diagonal is the transpose of
the one above. Between copies of one part the pair's tensors fall into symmetric and antisymmetric
ones, and so do, accordingly, the coefficients of the copies.
"""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import sympy
from sympy.polys.matrices import DomainMatrix

from equivariance.block_maps import BlockMap, Part, flat_numpy
from equivariance.decomposition import decompose
from equivariance.exact import dense_array, flat_entries, to_numpy
from equivariance.factored import PairBlock


@dataclass(frozen=True)
class SymmetricBlock:
    """The solutions between all copies of two irreducible parts.

    Attributes:
        pair: the ``PairBlock``; its output comes at or before its input.
        kind: "pair" for two different parts: free coefficients [s, copies_out, copies_in], and the
            transpose below. "symmetric" or "antisymmetric" for a part with itself: how the
            coefficients [s, copies, copies] behave when the copies are exchanged.
        tensors: exact sympy arrays [d, ..., out, in].
    """

    pair: PairBlock
    kind: str
    tensors: tuple

    @property
    def shape(self):
        """Shape of the independent coefficients."""
        if self.kind == "pair":
            return (len(self.tensors), self.pair.multiplicity_out, self.pair.multiplicity_in)
        n = self.pair.multiplicity_out
        return (
            len(self.tensors),
            n * (n + 1) // 2 if self.kind == "symmetric" else n * (n - 1) // 2,
        )

    def full(self, weights):
        """Coefficients [..., s, copies_out, copies_in] from the independent ones."""
        if self.kind == "pair":
            return weights
        n = self.pair.multiplicity_out
        sign = 1.0 if self.kind == "symmetric" else -1.0
        rows, columns = np.triu_indices(n, 0 if sign > 0 else 1)
        found = np.zeros(weights.shape[:-1] + (n, n))
        found[..., columns, rows] = sign * weights
        found[..., rows, columns] = weights
        return found


class SymmetricBasis:
    """Basis of the equivariant X from rho to rho with X[d..., a, b] = sign X[d..., b, a].

    Args:
        order: number of derivatives, 0, 1 or 2.
        rep: rho; orthogonal.
        sign: 1 or -1.

    Attributes:
        blocks: the ``SymmetricBlock`` objects that have solutions. Coefficients are one vector,
            block after block.
    """

    def __init__(self, order, rep, sign):
        self.order, self.rep, self.sign = order, rep, sign
        self.decomposition = decompose(rep)
        self.shape = (rep.group.dim,) * order + (rep.dim, rep.dim)
        self.blocks = []
        parts = self.decomposition.blocks
        for n, out in enumerate(parts):
            for kind, tensors in _own_tensors(out.irrep, order, sign):
                block = SymmetricBlock(PairBlock(out, out), kind, tensors)
                if np.prod(block.shape):
                    self.blocks.append(block)
            for inside in parts[n + 1 :]:
                pair = PairBlock(out, inside)
                if pair.count(order):
                    self.blocks.append(SymmetricBlock(pair, "pair", pair.basis(order)))

    @cached_property
    def size(self):
        """The number of basis elements."""
        return sum(int(np.prod(block.shape)) for block in self.blocks)

    def block_map(self, coefficients):
        """The map with the coefficients [..., size], a ``BlockMap``."""
        coefficients = np.asarray(coefficients, dtype=float)
        leading = coefficients.shape[:-1]
        parts, start = [], 0
        for block in self.blocks:
            end = start + int(np.prod(block.shape))
            weights = block.full(coefficients[..., start:end].reshape(leading + block.shape))
            tensors = flat_numpy(block.tensors)
            out, inside = block.pair.out, block.pair.inside
            parts.append(Part(out.channels, inside.channels, weights, tensors))
            if block.kind == "pair":
                parts.append(
                    Part(
                        inside.channels,
                        out.channels,
                        self.sign * weights.swapaxes(-1, -2),
                        tensors.swapaxes(-1, -2),
                    )
                )
            start = end
        return BlockMap(self.order, self.decomposition, self.decomposition, parts, leading)

    def assemble(self, coefficients):
        """The dense array [..., d, ..., dim, dim] with the coefficients [..., size]."""
        found = self.block_map(coefficients).dense()
        return (found + self.sign * found.swapaxes(-1, -2)) / 2  # exactly, whatever the rounding

    def squared_norm(self):
        """The sum of the squares of all entries of all basis elements."""
        total = 0.0
        for block in self.blocks:
            # Each independent coefficient of a pair stands twice; those of one part with itself
            # twice off the diagonal of the copies, once on it.
            squares = sum(float(np.sum(to_numpy(x) ** 2)) for x in block.tensors)
            n = block.pair.multiplicity_out
            repeated = 2 * n * block.pair.multiplicity_in
            if block.kind != "pair":
                repeated = n * n if block.kind == "symmetric" else n * (n - 1)
            total += squares * repeated
        return total

    def arrays(self):
        """All basis elements, exact: a list of sympy arrays [d, ..., dim, dim]."""
        q = self.decomposition.change_of_basis
        found = []
        for block in self.blocks:
            columns = int(np.prod(block.shape[1:]))
            for tensor in block.tensors:
                for n in range(columns):
                    weights = np.zeros((1, *block.shape[1:]))
                    weights.reshape(-1)[n] = 1.0
                    weights = block.full(weights)[0]
                    found.append(self._element(block, tensor, weights, q))
        return found

    def _element(self, block, tensor, weights, q):
        """Q (weights x tensor) Q^T, with its mirror image for a pair."""
        out, inside = block.pair.out, block.pair.inside
        count = self.rep.group.dim**self.order
        flat = dense_array(tensor).reshape(count, out.irrep.dim, inside.irrep.dim)
        entries = []
        for p in range(count):
            middle = sympy.SparseMatrix.zeros(self.rep.dim, self.rep.dim).as_mutable()
            for a, b in np.argwhere(weights).tolist():
                row, column = out.start + a * out.irrep.dim, inside.start + b * inside.irrep.dim
                for i in range(out.irrep.dim):
                    for j in range(inside.irrep.dim):
                        value = int(weights[a, b]) * flat[p, i, j]
                        middle[row + i, column + j] = value
                        if block.kind == "pair":
                            middle[column + j, row + i] = self.sign * value
            entries += [sympy.expand(x) for x in (q * middle * q.T).flat()]
        return sympy.ImmutableDenseNDimArray(entries, self.shape)


@cache
def _own_tensors(irrep, order, sign):
    """The tensors of an irreducible part with itself, as (kind of coefficients, tensors)."""
    pair = [dense_array(x) for x in _pair_tensors(irrep, order)]
    found = []
    for own in (1, -1):
        # X = w T: symmetric w and T, or both antisymmetric, give a symmetric X.
        kind = "symmetric" if own == sign else "antisymmetric"
        tensors = _independent([x + own * _transposed(x) for x in pair])
        if tensors:
            found.append((kind, tensors))
    return tuple(found)


def _pair_tensors(irrep, order):
    block = decompose(irrep).blocks[0]
    return PairBlock(block, block).basis(order)


def _transposed(array):
    rank = array.rank()
    return sympy.permutedims(array, (*range(rank - 2), rank - 1, rank - 2))


def _independent(arrays):
    """A basis of the span, from the arrays themselves; each with largest entry 1 or -1."""
    rows = [flat_entries(array) for array in arrays]
    if not rows:
        return ()
    field, values = sympy.construct_domain(
        [sympy.sympify(x) for row in rows for x in row], extension=True, field=True
    )
    width = len(rows[0])
    rows = [values[n * width : (n + 1) * width] for n in range(len(rows))]
    columns = DomainMatrix(rows, (len(rows), width), field).transpose().to_sparse()
    kept = []
    for n in columns.rref()[1]:
        largest = max((abs(x) for x in flat_entries(arrays[n])), key=float)
        kept.append(arrays[n].applyfunc(lambda x, size=largest: sympy.radsimp(x / size)))
    return tuple(kept)
