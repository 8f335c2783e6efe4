"""Bases of equivariant maps, factored: a few exact tensors a pair of irreducible representations.

With ``rho = Q (irreducible blocks) Q^T`` on both sides, every solution is

    X[p] = Q_out Y[p] Q_in^T,    Y[p] = sum_n w[n, a, b] T_n[p]  between copies a and b of a pair

with the pair's few basis tensors T_n, p standing for the derivative indices. Only these, the
multiplicities and the Q are stored.
"""

from functools import cache, cached_property, lru_cache

import numpy as np
import sympy
from sympy import QQ

from equivariance.arguments import real_array
from equivariance.block_maps import BlockMap, Part
from equivariance.exact import sparse, sqrt, to_numpy
from equivariance.solver import equivariant_maps, monomials, space_model

# Basis arrays with more entries than this are sympy's sparse arrays.
DENSE_ENTRIES = 4096


@cache
def solve_pair(irrep_out, irrep_in, order):
    """The equivariant maps between two irreducible representations.

    Args:
        irrep_out, irrep_in: the representations (tensor ones for a user-defined group).
        order: number of derivatives, 0, 1 or 2.

    Returns:
        Matrix [s, monomials * out * in] in the working bases, see ``equivariance.solver``.
    """
    group = irrep_out.group
    group.require_solvable(irrep_out, irrep_in, order)
    space = space_model(group, order)
    if not group.may_couple(irrep_out, irrep_in, order):
        return sparse({}, (0, len(space.scale) * irrep_out.dim * irrep_in.dim), group.field)
    return equivariant_maps(space, irrep_out.model, irrep_in.model, group.field)


class PairBlock:
    """The solutions between all copies of one representation and all copies of another.

    Attributes:
        out, inside: ``IrrepBlock`` of the output and of the input. ``out.channels`` and
            ``inside.channels`` are slices of the irreducible channels.
    """

    def __init__(self, out, inside):
        self.out, self.inside = out, inside

    @property
    def irrep_out(self):
        return self.out.irrep

    @property
    def irrep_in(self):
        return self.inside.irrep

    @property
    def multiplicity_out(self):
        return self.out.multiplicity

    @property
    def multiplicity_in(self):
        return self.inside.multiplicity

    def count(self, order):
        """Number s of basis tensors of the pair, for the number of derivatives ``order``."""
        return solve_pair(self.irrep_out, self.irrep_in, order).shape[0]

    def basis(self, order):
        """The pair's basis tensors T_n, exact sympy arrays [d, ..., out, in].

        They are orthogonal to each other. Where they are rational up to a root, as for all built-in
        groups, the largest entry is 1 or -1.
        """
        return _pair_basis(self.irrep_out, self.irrep_in, order)

    def basis_numpy(self, order):
        """The same, one float64 array [s, d, ..., out, in]."""
        return _pair_basis_numpy(self.irrep_out, self.irrep_in, order)

    def __repr__(self):
        counts = ", ".join(str(self.count(order)) for order in range(3))
        return (
            f"<{self.multiplicity_out}x({self.irrep_out}) from "
            f"{self.multiplicity_in}x({self.irrep_in}): {counts} tensors of order 0, 1, 2>"
        )


@cache
def _pair_basis(irrep_out, irrep_in, order):
    found = []
    dim = irrep_out.group.dim
    shape = (dim,) * order + (irrep_out.dim, irrep_in.dim)
    outer, inner = irrep_out.model.scale, irrep_in.model.scale
    for tensor in tensors(irrep_out, irrep_in, order):
        entries = {}
        for (axes, o, i), x in tensor.entries.items():
            value = tensor.field.to_sympy(x) * sqrt(tensor.square * outer[o] / inner[i])
            for place in {axes, axes[::-1]}:
                entries[(*place, o, i)] = value
        found.append(_sympy_array(entries, shape))
    return tuple(found)


@cache
def _pair_basis_numpy(irrep_out, irrep_in, order):
    arrays = _pair_basis(irrep_out, irrep_in, order)
    shape = (irrep_out.group.dim,) * order + (irrep_out.dim, irrep_in.dim)
    return np.array([to_numpy(x) for x in arrays]).reshape(len(arrays), *shape)


class _Tensor:
    """One solution in the working bases.

    Attributes:
        entries: {(axes, out, in): value}, axes ascending.
        field: of the values.
        square: the square of a last factor, by which the largest entry becomes 1.
    """

    def __init__(self, entries, field, square):
        self.entries, self.field, self.square = entries, field, square

    def matrix(self, axes, shape):
        """The matrix [out, in] of one derivative."""
        axes = tuple(sorted(axes))
        return sparse(
            {(o, i): x for (at, o, i), x in self.entries.items() if at == axes}, shape, self.field
        )


@cache
def tensors(irrep_out, irrep_in, order):
    """The rows of ``solve_pair`` with their indices told apart, a tuple of ``_Tensor``."""
    solutions = solve_pair(irrep_out, irrep_in, order)
    places = monomials(irrep_out.group.dim, order)
    entries = [{} for _ in range(solutions.shape[0])]
    for (n, flat), x in solutions.to_dok().items():
        rest, i = divmod(flat, irrep_in.dim)
        p, o = divmod(rest, irrep_out.dim)
        entries[n][places[p], o, i] = x
    outer, inner = irrep_out.model.scale, irrep_in.model.scale
    found = []
    for tensor in entries:
        square = QQ(1)
        if solutions.domain == QQ:
            square /= max(x * x * outer[o] / inner[i] for (_, o, i), x in tensor.items())
        found.append(_Tensor(tensor, solutions.domain, square))
    return tuple(found)


class FactoredBasis:
    """Basis of the equivariant maps rho_in -> rho_out with a given number of derivatives.

    The basis elements are ordered by pair of irreducible blocks, then by the pair's basis tensor n,
    then by copy a of the output and copy b of the input. Coefficients are one vector in this order.

    Attributes:
        order: number of derivatives, 0, 1 or 2.
        decomposition_out, decomposition_in: the two ``Decomposition`` objects.
        blocks: the ``PairBlock`` objects that have solutions.
        shape: of a basis array, [d, ..., dim_out, dim_in].
    """

    def __init__(self, order, decomposition_out, decomposition_in, pairs):
        self.order = order
        self.decomposition_out, self.decomposition_in = decomposition_out, decomposition_in
        self.blocks = [pair for pair in pairs if pair.count(order)]
        rep_out, rep_in = decomposition_out.rep, decomposition_in.rep
        self.shape = (rep_out.group.dim,) * order + (rep_out.dim, rep_in.dim)

    def block_shape(self, block):
        """Shape [s, copies_out, copies_in] of the coefficients of one of the blocks."""
        return (block.count(self.order), block.multiplicity_out, block.multiplicity_in)

    @cached_property
    def size(self):
        """The number of basis elements."""
        return sum(int(np.prod(self.block_shape(block))) for block in self.blocks)

    def __len__(self):
        return self.size

    def split(self, coefficients):
        """The coefficients of each block.

        Args:
            coefficients: [..., size].

        Returns:
            A list of arrays [..., s, copies_out, copies_in], one a block.

        Raises:
            ValueError: if the last axis is not ``size``.
        """
        coefficients = real_array(coefficients, "coefficients")
        if coefficients.ndim == 0 or coefficients.shape[-1] != self.size:
            raise ValueError(
                f"coefficients must have the last axis {self.size}, one entry a basis element; "
                f"found shape {coefficients.shape}."
            )
        found, start = [], 0
        for block in self.blocks:
            shape = self.block_shape(block)
            end = start + int(np.prod(shape))
            found.append(coefficients[..., start:end].reshape(coefficients.shape[:-1] + shape))
            start = end
        return found

    def assemble(self, coefficients):
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
        return self.block_map(coefficients).dense()

    def block_map(self, coefficients):
        """The same map as small tensors between irreducible channels, a ``BlockMap``."""
        parts = [
            Part(block.out.channels, block.inside.channels, weights, self._flat_numpy(block))
            for block, weights in zip(self.blocks, self.split(coefficients), strict=True)
        ]
        leading = np.shape(coefficients)[:-1]
        return BlockMap(self.order, self.decomposition_out, self.decomposition_in, parts, leading)

    def squared_norm(self):
        """The sum of the squares of all entries of all basis elements."""
        return sum(
            float(np.sum(block.basis_numpy(self.order) ** 2))
            * block.multiplicity_out
            * block.multiplicity_in
            for block in self.blocks
        )

    def apply(self, coefficients, values):
        """The map with the given coefficients applied to channels, without its dense array.

        Args:
            coefficients: [size].
            values: [..., dim_in].

        Returns:
            [..., d, ..., dim_out]: for each derivative index what its matrix makes of the values.
        """
        parts = self.split(coefficients)
        rotated = real_array(values, "values") @ self.decomposition_in.change_of_basis_numpy
        leading = rotated.shape[:-1]
        monomial_shape = self.shape[:-2]
        result = np.zeros((*leading, int(np.prod(monomial_shape)), self.shape[-2]))
        for block, weights in zip(self.blocks, parts, strict=True):
            copies = rotated[..., block.inside.channels]
            copies = copies.reshape(*leading, block.multiplicity_in, block.irrep_in.dim)
            mixed = np.einsum("nab,...bi->...nai", weights, copies)
            moved = np.einsum("npoi,...nai->...pao", self._flat_numpy(block), mixed)
            target = result[..., block.out.channels]
            target += moved.reshape(target.shape)
        result = result @ self.decomposition_out.change_of_basis_numpy.T
        return result.reshape(*leading, *monomial_shape, self.shape[-2])

    def dense(self):
        """All basis elements as one float64 array [size, d, ..., dim_out, dim_in].

        It grows with the fourth power of the number of copies, the factored form with its square.
        """
        return self.assemble(np.eye(self.size))

    def arrays(self):
        """All basis elements, exact: a list of sympy arrays [d, ..., dim_out, dim_in].

        Arrays with more than 4096 entries are sympy's sparse ones.
        """
        found = []
        for block in self.blocks:
            for tensor in tensors(block.irrep_out, block.irrep_in, self.order):
                for a in block.out.copies:
                    for b in block.inside.copies:
                        found.append(self._array(block, tensor, a, b))
        return found

    def _array(self, block, tensor, a, b):
        """Basis element ``Q_out T Q_in^T`` of the copies a and b."""
        field = tensor.field.unify(a.embedding.domain).unify(b.embedding.domain)
        inner = block.irrep_in.model.scale
        left, right = _by_column(a.embedding, field), _by_column(b.embedding, field)
        total = {}
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
                square = tensor.square * scale_out[row] * scale_in[column] / (a.norm * b.norm)
                value = field.to_sympy(x) * _cached_sqrt(square)
                for place in {axes, axes[::-1]}:
                    entries[(*place, row, column)] = value
        return _sympy_array(entries, self.shape)

    def _flat_numpy(self, block):
        """The block's basis tensors with the derivative indices flattened, [s, d..., out, in]."""
        basis = block.basis_numpy(self.order)
        return basis.reshape(len(basis), -1, *basis.shape[-2:])


def _by_column(matrix, field):
    found = {}
    for (i, j), x in matrix.to_dok().items():
        found.setdefault(j, []).append((i, field.convert_from(x, matrix.domain)))
    return found


@lru_cache(maxsize=4096)
def _cached_sqrt(square):
    return sqrt(square)


def _sympy_array(entries, shape):
    size = int(np.prod(shape))
    flat = {int(np.ravel_multi_index(at, shape)): x for at, x in entries.items()}
    if size > DENSE_ENTRIES:
        return sympy.ImmutableSparseNDimArray(flat, shape)
    values = [sympy.S.Zero] * size
    for at, x in flat.items():
        values[at] = x
    return sympy.ImmutableDenseNDimArray(values, shape)
