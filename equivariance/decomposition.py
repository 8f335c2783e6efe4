"""Representations as sums of irreducible ones, with the exact change of basis."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import sympy
from sympy import QQ
from sympy.polys.matrices import DomainMatrix

from equivariance.exact import float_sqrt, identity, kron, primitive, sparse, sqrt, to_rational
from equivariance.representations import (
    Irrep,
    Product,
    Representation,
    Sum,
    Tensor,
    direct_sum,
    require_representation,
)
from equivariance.solver import equivariant_maps, space_model


@dataclass(frozen=True)
class Copy:
    """One irreducible part of a representation.

    Attributes:
        irrep: the part.
        embedding: matrix [dim, irrep.dim] in the working bases of both, which commutes with the
            group. Between the orthonormal bases it is sqrt(norm) times an isometry.
        norm: positive rational.
    """

    irrep: Representation
    embedding: DomainMatrix
    norm: object


@dataclass(frozen=True)
class IrrepBlock:
    """All copies of one irreducible representation.

    Attributes:
        irrep: the irreducible representation.
        copies: the ``Copy`` objects.
        start: where the block's channels begin, in the order of the decomposed representation.
    """

    irrep: Representation
    copies: tuple
    start: int

    @property
    def multiplicity(self):
        return len(self.copies)

    @property
    def channels(self):
        """The slice of the block's channels, copy by copy, in the decomposed representation."""
        return slice(self.start, self.start + self.multiplicity * self.irrep.dim)


class Decomposition:
    """``rho(g) = Q (irreducible blocks of g) Q^T`` for all g.

    Attributes:
        rep: rho.
        blocks: the ``IrrepBlock`` objects, in the order of the irreducible channels.
    """

    def __init__(self, rep):
        self.rep = rep
        groups = {}
        for copy in _copies(rep):
            groups.setdefault(copy.irrep, []).append(copy)
        self.blocks, start = [], 0
        for irrep in sorted(groups, key=_order):
            block = IrrepBlock(irrep, tuple(groups[irrep]), start)
            self.blocks.append(block)
            start = block.channels.stop
        if start != rep.dim:
            raise ArithmeticError(
                f"The irreducible parts found in {rep} have {start} channels of {rep.dim}."
            )

    @property
    def irreps(self):
        """Pairs (irreducible representation, multiplicity)."""
        return [(block.irrep, block.multiplicity) for block in self.blocks]

    @cached_property
    def representation(self):
        """The irreducible blocks as a representation, the one in the middle of Q (...) Q^T."""
        return direct_sum(self.irreps)

    @cached_property
    def change_of_basis(self):
        """Q, an exact orthogonal sympy matrix [dim, dim]; a column an irreducible channel."""
        return sympy.ImmutableMatrix(
            sympy.SparseMatrix(self.rep.dim, self.rep.dim, self._entries(_exact_entry))
        )

    @cached_property
    def change_of_basis_numpy(self):
        """Q in float64 [dim, dim]."""
        found = np.zeros((self.rep.dim, self.rep.dim))
        for at, x in self._entries(_float_entry).items():
            found[at] = x
        return found

    def _entries(self, entry):
        scale = self.rep.model.scale
        found = {}
        for block in self.blocks:
            inner = block.irrep.model.scale
            for n, copy in enumerate(block.copies):
                first = block.start + n * block.irrep.dim
                for (i, j), x in copy.embedding.to_dok().items():
                    square = QQ(scale[i]) / (inner[j] * copy.norm)
                    found[i, first + j] = entry(x, copy.embedding.domain, square)
        return found

    def __repr__(self):
        return f"<{self.rep} = {self.representation}>"


def decompose(rep):
    """The irreducible parts of a representation and the change of basis to them.

    For the built-in groups the parts are irreducible over the reals and Q is orthogonal. For a
    user-defined group no list of irreducible representations is known: its sums are taken apart
    into their terms, tensor representations are left whole, and Q is a permutation.

    Args:
        rep: the representation.

    Returns:
        A ``Decomposition``.

    Raises:
        TypeError: if ``rep`` is no representation.

    Example:

    >>> import equivariance
    >>> parts = equivariance.decompose(equivariance.SO3.tensor(1, 1))
    >>> str(parts.representation)
    '0 + 1 + 2'
    >>> parts.change_of_basis[:, 0].T  # the trace
    Matrix([[sqrt(3)/3, 0, 0, 0, sqrt(3)/3, 0, 0, 0, sqrt(3)/3]])
    """
    require_representation(rep, "rep")
    return decomposition(rep)


@lru_cache(maxsize=512)
def decomposition(rep):
    """The same without a limit of the number of channels."""
    return Decomposition(rep)


@lru_cache(maxsize=512)
def _copies(rep):
    group = rep.group
    if isinstance(rep, Irrep):
        return (Copy(rep, identity(rep.dim), QQ(1)),)
    if isinstance(rep, Sum):
        return _copies_of_sum(rep)
    if isinstance(rep, Product):
        return _multiplied(_copies(rep.left), _copies(rep.right), group._product_copies)
    if group.orthogonal and any(rep.letters):  # a factor V* is a factor V
        return _copies(group.tensor(len(rep.letters), 0))
    if not hasattr(group, "_defining_copies"):
        return (Copy(rep, identity(rep.dim), QQ(1)),)
    if not rep.letters:
        return (Copy(group.irrep(0), identity(1), QQ(1)),)
    first = _copies(Tensor(group, rep.letters[1:]))
    return _multiplied(first, group._defining_copies, group._product_copies)


def _copies_of_sum(rep):
    found, start = [], 0
    for term, n in rep.terms:
        inner = _copies(term)
        for _ in range(n):
            for copy in inner:
                entries = copy.embedding.to_dok()
                moved = {(start + i, j): x for (i, j), x in entries.items()}
                shape = (rep.dim, copy.irrep.dim)
                embedding = DomainMatrix.from_dok(moved, shape, copy.embedding.domain)
                found.append(Copy(copy.irrep, embedding, copy.norm))
            start += term.dim
    return tuple(found)


def _multiplied(left, right, product):
    found = []
    for a in left:
        for b in right:
            both = kron(*a.embedding.unify(b.embedding))
            for part in product(a.irrep, b.irrep):
                outer, inner = both.unify(part.embedding)
                norm = a.norm * b.norm * part.norm
                found.append(Copy(part.irrep, outer * inner, norm))
    return tuple(found)


def isotypic_copies(rep, candidates):
    """The copies of the candidate irreducible representations in a representation.

    From the maps that commute with the group. For an irreducible representation of complex type (a
    frequency k >= 1 of rotations) they come in pairs that are the same copy: after one is taken,
    what is left is made orthogonal to it.

    Args:
        rep: a representation whose working basis is orthonormal.
        candidates: irreducible representations with orthonormal working bases.

    Returns:
        A tuple of ``Copy``.
    """
    group = rep.group
    found = []
    for irrep in candidates:
        maps = equivariant_maps(space_model(group, 0), rep.model, irrep.model, group.field)
        chosen = []
        for n in range(maps.shape[0]):
            entries = {
                divmod(j, irrep.dim): x
                for (_, j), x in maps.extract([n], range(maps.shape[1])).to_dok().items()
            }
            embedding = sparse(entries, (rep.dim, irrep.dim), maps.domain)
            for other in chosen:
                overlap = other.embedding.transpose() * embedding
                embedding -= (other.embedding * overlap).scalarmul(QQ(1) / other.norm)
            embedding = primitive(to_rational(embedding))
            if embedding.nnz():
                norm = sum(x * x for (_, j), x in embedding.to_dok().items() if j == 0)
                chosen.append(Copy(irrep, embedding, norm))
        found += chosen
    return tuple(found)


def _order(rep):
    """Irreducible representations by frequency or spin, parity +1 first; tensors by size."""
    if isinstance(rep, Irrep):
        return (0, rep.index[0], *(-x for x in rep.index[1:]))
    return (1, len(rep.letters), *rep.letters)


def _exact_entry(x, field, square):
    return field.to_sympy(x) * sqrt(square)


def _float_entry(x, field, square):
    value = int(x.numerator) / int(x.denominator) if field == QQ else float(field.to_sympy(x))
    return value * float_sqrt(square)
