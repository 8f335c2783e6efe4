"""A map with derivatives as a few small tensors between irreducible channels, in float64.

What a basis of ``equivariance.factored`` gives for given coefficients: for each pair of irreducible
blocks the coefficients [s, copies_out, copies_in] and the pair's tensors.
"""

from typing import NamedTuple

import numpy as np


class Part(NamedTuple):
    """What one irreducible block of the input contributes to one of the output."""

    out: slice
    inside: slice
    weights: np.ndarray  # [..., s, copies_out, copies_in]
    tensors: np.ndarray  # [s, d * ..., out, in]

    def transposed(self, sign):
        """What the transpose of the map contributes, times the sign."""
        weights = sign * self.weights.swapaxes(-1, -2)
        return Part(self.inside, self.out, weights, self.tensors.swapaxes(-1, -2))


class BlockMap:
    """The map X[d, ...] = Q_out (blocks) Q_in^T.

    Args:
        order: number of derivatives.
        decomposition_out, decomposition_in: of the two representations.
        parts: a list of ``Part``; they may overlap, and then add up.
        leading: the leading axes of the coefficients.
    """

    def __init__(self, order, decomposition_out, decomposition_in, parts, leading=()):
        self.order, self.leading = order, tuple(leading)
        self.decomposition_out, self.decomposition_in = decomposition_out, decomposition_in
        self.parts = parts
        self.dim = decomposition_in.rep.group.dim

    def dense(self):
        """X, [..., d, ..., dim_out, dim_in]; leading axes are those of the coefficients."""
        shape = (self.decomposition_out.rep.dim, self.decomposition_in.rep.dim)
        found = np.zeros((*self.leading, self.dim**self.order, *shape))
        for part in self.parts:
            blocks = np.einsum("...nab,npoi->...paobi", part.weights, part.tensors)
            target = found[..., part.out, part.inside]
            target += blocks.reshape(target.shape)
        q_out = self.decomposition_out.change_of_basis_numpy
        q_in = self.decomposition_in.change_of_basis_numpy
        found = q_out @ found @ q_in.T
        return found.reshape(*self.leading, *(self.dim,) * self.order, *shape)

    def transpose(self):
        """The map with output and input exchanged."""
        parts = [part.transposed(1.0) for part in self.parts]
        return BlockMap(self.order, self.decomposition_in, self.decomposition_out, parts)

    def at(self, frequency, values):
        """X, contracted with a frequency on each derivative index, times channels."""
        monomials = np.ones(1)
        for _ in range(self.order):
            monomials = np.kron(monomials, frequency)
        return self.apply(monomials, values)

    def apply(self, monomials, values):
        """X, contracted with numbers [d * ...] that stand for the derivatives, times channels.

        The coefficients have no leading axes; values are [..., dim_in], the result [..., dim_out].
        """
        values = np.asarray(values) @ self.decomposition_in.change_of_basis_numpy
        dim = self.decomposition_out.rep.dim
        result = np.zeros((*values.shape[:-1], dim), dtype=values.dtype)
        for part in self.parts:
            tensors = np.einsum("npoi,p->noi", part.tensors, monomials)
            copies = values[..., part.inside]
            copies = copies.reshape(*values.shape[:-1], -1, tensors.shape[-1])
            weights = part.weights
            moved = np.einsum("nab,noi,...bi->...ao", weights, tensors, copies, optimize=True)
            target = result[..., part.out]
            target += moved.reshape(target.shape)
        return result @ self.decomposition_out.change_of_basis_numpy.T
