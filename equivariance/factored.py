"""Factored bases of equivariant maps: a few exact tensors for each pair of irreducible parts.

With ``rho = Q (irreducible blocks) Q^T`` on both sides, every solution is

    X[p] = Q_out Y[p] Q_in^T,    Y[p] = sum_n w[n, a, b] T_n[p]  between copies a and b of a pair

Here T_n are the pair's few basis tensors, and p stands for the derivative indices. Only the
tensors, the multiplicities and the Q are stored.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import sympy

from equivariance.arguments import real_array
from equivariance.decomposition import Decomposition, IrrepBlock
from equivariance.exact import sqrt
from equivariance.representations import Representation
from equivariance.tensors import BasisTensor, sympy_array, tensors


class PairBlock:
    """The solutions between all copies of one representation and all copies of another.

    Attributes:
        out, inside: ``IrrepBlock`` of the output and of the input. ``out.channels`` and
            ``inside.channels`` are slices of the irreducible channels.
    """

    def __init__(self, out: IrrepBlock, inside: IrrepBlock):
        self.out, self.inside = out, inside

    @property
    def irrep_out(self) -> Representation:
        return self.out.irrep

    @property
    def irrep_in(self) -> Representation:
        return self.inside.irrep

    @property
    def multiplicity_out(self) -> int:
        return self.out.multiplicity

    @property
    def multiplicity_in(self) -> int:
        return self.inside.multiplicity

    def tensors(self, order: int) -> tuple[BasisTensor, ...]:
        """The pair's basis tensors in the working bases."""
        return tensors(self.irrep_out, self.irrep_in, order)

    def count(self, order: int) -> int:
        """The number s of the pair's basis tensors with ``order`` derivatives."""
        return len(self.tensors(order))

    def basis(self, order: int) -> tuple:
        """The pair's basis tensors T_n, exact sympy arrays [d, ..., out, in].

        They are orthogonal to each other. If they are rational up to a root, as for all built-in
        groups, the largest entry is 1 or -1.
        """
        return tuple(x.array for x in self.tensors(order))

    def basis_numpy(self, order: int) -> np.ndarray:
        """The basis tensors as one float64 array [s, d, ..., out, in]."""
        shape = (self.irrep_out.group.dim,) * order + (self.irrep_out.dim, self.irrep_in.dim)
        return _stacked(self.tensors(order)).reshape(self.count(order), *shape)

    def __repr__(self) -> str:
        counts = ", ".join(str(self.count(order)) for order in range(3))
        return (
            f"<{self.multiplicity_out}x({self.irrep_out}) from "
            f"{self.multiplicity_in}x({self.irrep_in}): {counts} tensors of order 0, 1, 2>"
        )


class Part(NamedTuple):
    """The contribution of one irreducible block of the input to one of the output, in float64."""

    out: slice
    inside: slice
    weights: np.ndarray  # [..., s, copies_out, copies_in]
    tensors: np.ndarray  # [s, d * ..., out, in]

    def transposed(self, sign):
        """The contribution of the map's transpose, times the sign."""
        weights = sign * self.weights.swapaxes(-1, -2)
        return Part(self.inside, self.out, weights, self.tensors.swapaxes(-1, -2))


class Term:
    """Tensors between all copies of two irreducible parts, and the coefficients they may have.

    Args:
        pair: the ``PairBlock``.
        tensors: ``BasisTensor`` objects of the pair, s of them.
        kind: "free": coefficients [s, copies_out, copies_in]. "pair": the same, and the transpose,
            times the sign, from the output to the input. "symmetric" or "antisymmetric", for a part
            with itself: the symmetry of the coefficients under an exchange of the copies.
        sign: 1 or -1.
    """

    def __init__(self, pair, tensors, kind, sign=1):
        self.pair, self.tensors, self.kind, self.sign = pair, tensors, kind, sign
        n, m = pair.multiplicity_out, pair.multiplicity_in
        if kind in ("free", "pair"):
            self._places = np.divmod(np.arange(n * m), m)
            self.shape: tuple[int, ...] = (len(tensors), n, m)
        else:
            self._places = np.triu_indices(n, 0 if kind == "symmetric" else 1)
            self.shape = (len(tensors), len(self._places[0]))

    @property
    def size(self):
        """The number of independent coefficients."""
        return int(np.prod(self.shape))

    def parts(self, weights):
        """The map with independent coefficients [..., *shape], as a list of ``Part``."""
        out, inside = self.pair.out.channels, self.pair.inside.channels
        if self.kind not in ("free", "pair"):
            n = self.pair.multiplicity_out
            full = np.zeros((*weights.shape[:-1], n, n))
            rows, columns = self._places
            full[..., columns, rows] = weights if self.kind == "symmetric" else -weights
            full[..., rows, columns] = weights
            weights = full
        part = Part(out, inside, weights, _stacked(self.tensors))
        return [part, part.transposed(self.sign)] if self.kind == "pair" else [part]

    def elements(self):
        """The tensor of each coefficient and its placement: (copy, copy, sign, transposed)."""
        for tensor in self.tensors:
            for a, b in zip(*map(np.ndarray.tolist, self._places), strict=True):
                placed = [(a, b, 1, False)]
                if self.kind == "pair":
                    placed.append((a, b, self.sign, True))
                elif self.kind != "free" and a != b:
                    placed.append((b, a, 1 if self.kind == "symmetric" else -1, False))
                yield tensor, placed


class Basis:
    """Basis of equivariant maps made of ``terms``; coefficients form one vector, term by term."""

    def __init__(
        self,
        order: int,
        decomposition_out: Decomposition,
        decomposition_in: Decomposition,
        terms: list[Term],
    ):
        self.order, self.terms = order, terms
        self.decomposition_out, self.decomposition_in = decomposition_out, decomposition_in
        rep_out, rep_in = decomposition_out.rep, decomposition_in.rep
        self.shape = (rep_out.group.dim,) * order + (rep_out.dim, rep_in.dim)

    @cached_property
    def size(self) -> int:
        """The number of basis elements."""
        return sum(term.size for term in self.terms)

    def __len__(self) -> int:
        return self.size

    def split(self, coefficients: Any) -> list[np.ndarray]:
        """The coefficients of each term.

        Args:
            coefficients: [..., size].

        Returns:
            A list of arrays, [..., s, copies_out, copies_in] for free terms.

        Raises:
            ValueError: if the last axis is not ``size``.
        """
        coefficients = real_array(coefficients, "coefficients")
        if coefficients.ndim == 0 or coefficients.shape[-1] != self.size:
            raise ValueError(
                f"coefficients must have the last axis {self.size}, one entry for each basis "
                f"element; found shape {coefficients.shape}."
            )
        ends = np.cumsum([term.size for term in self.terms])[:-1]
        found = np.split(coefficients, ends, axis=-1) if self.terms else []
        leading = coefficients.shape[:-1]
        return [x.reshape(leading + t.shape) for x, t in zip(found, self.terms, strict=True)]

    def parts(self, coefficients: Any) -> list[Part]:
        """The map with the given coefficients as small tensors between irreducible channels."""
        pairs = zip(self.terms, self.split(coefficients), strict=True)
        return [part for term, weights in pairs for part in term.parts(weights)]

    def assemble(self, coefficients: Any) -> np.ndarray:
        """The map with the given coefficients, as a dense array.

        Args:
            coefficients: [..., size].

        Returns:
            float64 array [..., d, ..., dim_out, dim_in].

        Example:

        >>> import equivariance, numpy as np
        >>> rho = equivariance.SO2.irrep(0) + equivariance.SO2.irrep(1)
        >>> gradients = equivariance.solve_generators(rho).factored["first_order"]
        >>> gradients.assemble(np.ones(gradients.size)).shape
        (2, 3, 3)
        """
        parts, leading = self.parts(coefficients), np.shape(coefficients)[:-1]
        found = np.zeros((*leading, int(np.prod(self.shape[:-2])), *self.shape[-2:]))
        for part in parts:
            blocks = np.einsum("...nab,npoi->...paobi", part.weights, part.tensors)
            target = found[..., part.out, part.inside]
            target += blocks.reshape(target.shape)
        q_out = self.decomposition_out.change_of_basis_numpy
        q_in = self.decomposition_in.change_of_basis_numpy
        return (q_out @ found @ q_in.T).reshape(*leading, *self.shape)

    def apply(self, coefficients: Any, values: Any) -> np.ndarray:
        """Applies the map with the given coefficients to channels, without its dense array.

        Args:
            coefficients: [size].
            values: [..., dim_in].

        Returns:
            [..., d, ..., dim_out]: for each derivative index its matrix times the values.
        """
        parts, values = self.parts(coefficients), real_array(values, "values")
        derivatives = np.eye(int(np.prod(self.shape[:-2])))
        moved = np.stack([self.contracted(parts, x, values) for x in derivatives], axis=-2)
        return moved.reshape(*values.shape[:-1], *self.shape[:-1])

    def contracted(
        self, parts: list[Part], derivatives: Any, values: Any, transposed: bool = False
    ) -> np.ndarray:
        """The map of the parts, or its transpose, times channels.

        The derivatives are contracted with one number each, [d * ...].
        """
        to, start = self.decomposition_out, self.decomposition_in
        if transposed:
            to, start, parts = start, to, [part.transposed(1.0) for part in parts]
        values = np.asarray(values) @ start.change_of_basis_numpy
        result = np.zeros((*values.shape[:-1], to.rep.dim), dtype=values.dtype)
        for part in parts:
            tensors = np.einsum("npoi,p->noi", part.tensors, derivatives)
            copies = values[..., part.inside]
            copies = copies.reshape(*values.shape[:-1], -1, tensors.shape[-1])
            weights = part.weights
            moved = np.einsum("nab,noi,...bi->...ao", weights, tensors, copies, optimize=True)
            target = result[..., part.out]
            target += moved.reshape(target.shape)
        return result @ to.change_of_basis_numpy.T

    def dense(self) -> np.ndarray:
        """All basis elements as one float64 array [size, d, ..., dim_out, dim_in].

        It grows with the fourth power of the number of copies. The factored form grows with the
        square.
        """
        return self.assemble(np.eye(self.size))

    def squared_norm(self) -> float:
        """The sum of the squares of all entries of all basis elements."""
        total = 0.0
        for term in self.terms:
            for part in term.parts(np.ones(term.shape)):
                squares = np.sum(part.tensors**2, axis=(1, 2, 3))
                total += float(np.sum(part.weights**2, axis=(1, 2)) @ squares)
        return total

    def arrays(self) -> list:
        """All basis elements, exact: a list of sympy arrays [d, ..., dim_out, dim_in].

        Arrays with more than 4096 entries are sympy's sparse ones.
        """
        found = []
        for term in self.terms:
            for tensor, placed in term.elements():
                total: dict = {}
                for a, b, sign, transposed in placed:
                    for at, x in self._between(term.pair, tensor, a, b).items():
                        at = (*at[:-2], at[-1], at[-2]) if transposed else at
                        total[at] = total.get(at, sympy.S.Zero) + sign * x
                found.append(sympy_array(total, self.shape))
        return found

    def _between(self, pair, tensor, a, b):
        """The entries of ``Q_out T Q_in^T`` for the copies a and b."""
        out, inside = pair.out.copies[a], pair.inside.copies[b]
        field = tensor.field.unify(out.embedding.domain).unify(inside.embedding.domain)
        inner = pair.irrep_in.model.scale
        left, right = _by_column(out.embedding, field), _by_column(inside.embedding, field)
        total: dict = {}
        for (axes, o, i), x in tensor.entries.items():
            x = field.convert_from(x, tensor.field) / field.convert(inner[i])
            for row, y in left[o]:
                for column, z in right[i]:
                    at = axes, row, column
                    total[at] = total.get(at, field.zero) + x * y * z
        scale_out = self.decomposition_out.rep.model.scale
        scale_in = self.decomposition_in.rep.model.scale
        entries = {}
        for (axes, row, column), x in total.items():
            if x:
                norm = out.norm * inside.norm
                square = tensor.square * scale_out[row] * scale_in[column] / norm
                entries[(*axes, row, column)] = field.to_sympy(x) * sqrt(square)
        return entries


class FactoredBasis(Basis):
    """Basis of all equivariant maps rho_in -> rho_out with a given number of derivatives.

    The basis elements are ordered by pair of irreducible blocks, then by the pair's basis tensor n,
    then by copy a of the output and copy b of the input. Coefficients are one vector in this order.

    Attributes:
        order: number of derivatives, 0, 1 or 2.
        decomposition_out, decomposition_in: the two ``Decomposition`` objects.
        blocks: the ``PairBlock`` objects that have solutions.
        shape: shape of a basis array, [d, ..., dim_out, dim_in].
    """

    def __init__(
        self,
        order: int,
        decomposition_out: Decomposition,
        decomposition_in: Decomposition,
        pairs: list[PairBlock],
    ):
        self.blocks = [pair for pair in pairs if pair.count(order)]
        terms = [Term(pair, pair.tensors(order), "free") for pair in self.blocks]
        super().__init__(order, decomposition_out, decomposition_in, terms)

    def block_shape(self, block: PairBlock) -> tuple[int, ...]:
        """The shape [s, copies_out, copies_in] of the coefficients of a block."""
        return (block.count(self.order), block.multiplicity_out, block.multiplicity_in)


def pairs(decomposition_out: Decomposition, decomposition_in: Decomposition) -> list[PairBlock]:
    """A ``PairBlock`` for each pair of irreducible parts, output first."""
    return [
        PairBlock(out, inside)
        for out in decomposition_out.blocks
        for inside in decomposition_in.blocks
    ]


def _stacked(tensors):
    """Exact tensors as one float64 array [s, d * ..., out, in]."""
    return np.array([x.array_numpy for x in tensors])


def _by_column(matrix, field):
    found: dict = {}
    for (i, j), x in matrix.to_dok().items():
        found.setdefault(j, []).append((i, field.convert_from(x, matrix.domain)))
    return found
