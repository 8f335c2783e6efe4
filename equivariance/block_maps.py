"""A map with derivatives as a few small tensors between irreducible channels, in float64.

What a ``FactoredBasis`` or ``SymmetricBasis`` gives for given coefficients: for each pair of
irreducible blocks the coefficients [s, copies_out, copies_in] and the pair's tensors.
"""

from typing import NamedTuple

import numpy as np

from equivariance.exact import to_numpy


class Part(NamedTuple):
    """What one irreducible block of the input contributes to one of the output."""

    out: slice
    inside: slice
    weights: np.ndarray  # [..., s, copies_out, copies_in]
    tensors: np.ndarray  # [s, d * ..., out, in]


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

    def at(self, frequency):
        """X contracted with a frequency on each derivative index: functions on channels.

        Args:
            frequency: [d].

        Returns:
            Two functions from channels to channels, [..., dim_in] -> [..., dim_out] and the
            transpose, [..., dim_out] -> [..., dim_in], for coefficients without leading axes.
        """
        monomials = np.ones(1)
        for _ in range(self.order):
            monomials = np.kron(monomials, frequency)
        tensors = [np.einsum("npoi,p->noi", part.tensors, monomials) for part in self.parts]

        def forward(values):
            return self._apply(values, tensors, transposed=False)

        def backward(values):
            return self._apply(values, tensors, transposed=True)

        return forward, backward

    def _apply(self, values, tensors, transposed):
        to, start = self.decomposition_out, self.decomposition_in
        equation = "nab,noi,...bi->...ao"
        if transposed:
            to, start = start, to
            equation = "nab,noi,...ao->...bi"
        values = np.asarray(values) @ start.change_of_basis_numpy
        result = np.zeros(values.shape[:-1] + (to.rep.dim,), dtype=values.dtype)
        for part, tensor in zip(self.parts, tensors, strict=True):
            read, write = (part.out, part.inside) if transposed else (part.inside, part.out)
            dim = tensor.shape[1 if transposed else 2]
            copies = values[..., read].reshape(*values.shape[:-1], -1, dim)
            moved = np.einsum(equation, part.weights, tensor, copies, optimize=True)
            target = result[..., write]
            target += moved.reshape(target.shape)
        return result @ to.change_of_basis_numpy.T


def flat_numpy(tensors):
    """Exact tensors [d, ..., out, in] as one float64 array [s, d * ..., out, in]."""
    arrays = np.array([to_numpy(x) for x in tensors])
    return arrays.reshape(len(tensors), -1, *arrays.shape[-2:])
