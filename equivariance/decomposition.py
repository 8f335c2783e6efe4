"""Irreducible parts of representations, with the exact change of basis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy
from sympy import QQ
from sympy.polys.matrices import DomainMatrix

from equivariance.exact import kron, primitive, sparse, sqrt, to_rational
from equivariance.solver import equivariant_maps

if TYPE_CHECKING:
    from equivariance.representations import Representation


@dataclass(frozen=True)
class Copy:
    """One irreducible part of a representation.

    Attributes:
        irrep: the part.
        embedding: matrix [dim, irrep.dim] that commutes with the group, in the working bases of
            both. Between the orthonormal bases it is sqrt(norm) times an isometry.
        norm: a positive rational.
    """

    irrep: Representation
    embedding: DomainMatrix
    norm: Any


@dataclass(frozen=True)
class IrrepBlock:
    """All copies of one irreducible representation.

    Attributes:
        irrep: the irreducible representation.
        copies: the ``Copy`` objects.
        start: the block's first channel in the decomposed representation.
    """

    irrep: Representation
    copies: tuple[Copy, ...]
    start: int

    @property
    def multiplicity(self) -> int:
        return len(self.copies)

    @property
    def channels(self) -> slice:
        """The slice of the block's channels, copy by copy, in the decomposed representation."""
        return slice(self.start, self.start + self.multiplicity * self.irrep.dim)


class Decomposition:
    """``rho(g) = Q (irreducible blocks of g) Q^T`` for all g.

    Attributes:
        rep: rho.
        blocks: the ``IrrepBlock`` objects, in the order of the irreducible channels.
    """

    def __init__(self, rep: Representation, copies: tuple[Copy, ...]):
        self.rep = rep
        groups: dict[Any, list[Copy]] = {}
        for copy in copies:
            groups.setdefault(copy.irrep, []).append(copy)
        self.blocks: list[IrrepBlock] = []
        start = 0
        for irrep in sorted(groups, key=lambda x: x.sort_key):
            self.blocks.append(IrrepBlock(irrep, tuple(groups[irrep]), start))
            start = self.blocks[-1].channels.stop
        if start != rep.dim:
            raise ArithmeticError(
                f"The irreducible parts found in {rep} have {start} channels of {rep.dim}."
            )

    @property
    def irreps(self) -> list[tuple[Representation, int]]:
        """Pairs (irreducible representation, multiplicity)."""
        return [(block.irrep, block.multiplicity) for block in self.blocks]

    @cached_property
    def representation(self) -> Representation:
        """The irreducible blocks as a representation: the middle one of Q (...) Q^T."""
        first, *others = (n * irrep for irrep, n in self.irreps)
        return sum(others, first)

    @cached_property
    def change_of_basis(self) -> sympy.ImmutableMatrix:
        """Q, an exact orthogonal sympy matrix [dim, dim]; its columns are irreducible channels."""
        shape = (self.rep.dim, self.rep.dim)
        return sympy.ImmutableMatrix(sympy.SparseMatrix(*shape, self._entries))

    @cached_property
    def change_of_basis_numpy(self) -> np.ndarray:
        """Q in float64 [dim, dim]."""
        found = np.zeros((self.rep.dim, self.rep.dim))
        for at, x in self._entries.items():
            found[at] = _float(x)
        return found

    @cached_property
    def _entries(self):
        """The entries of Q that are not 0."""
        scale, found = self.rep.model.scale, {}
        for block in self.blocks:
            inner = block.irrep.model.scale
            for n, copy in enumerate(block.copies):
                first, field = block.start + n * block.irrep.dim, copy.embedding.domain
                for (i, j), x in copy.embedding.to_dok().items():
                    root = sqrt(QQ(scale[i]) / (inner[j] * copy.norm))
                    found[i, first + j] = field.to_sympy(x) * root
        return found

    def __repr__(self) -> str:
        return f"<{self.rep} = {self.representation}>"


@lru_cache(maxsize=4096)
def _float(number):
    return float(number)


def whole(irrep):
    """The only copy of an irreducible representation in itself."""
    return Copy(irrep, DomainMatrix.eye(irrep.dim, QQ), QQ(1))


def copies_in_sum(terms, dim):
    """The copies in a sum of pairs (representation, multiplicity)."""
    found, start = [], 0
    for term in (term for term, n in terms for _ in range(n)):
        for copy in term.copies:
            entries = copy.embedding.to_dok().items()
            moved = {(start + i, j): x for (i, j), x in entries}
            shape = (dim, copy.irrep.dim)
            embedding = DomainMatrix.from_dok(moved, shape, copy.embedding.domain)
            found.append(Copy(copy.irrep, embedding, copy.norm))
        start += term.dim
    return tuple(found)


def copies_in_product(left, right, product):
    """The copies in a product, from those in its factors; ``product`` gives those of two parts."""
    found = []
    for a in left:
        for b in right:
            both = kron(*a.embedding.unify(b.embedding))
            for part in product(a.irrep, b.irrep):
                outer, inner = both.unify(part.embedding)
                found.append(Copy(part.irrep, outer * inner, a.norm * b.norm * part.norm))
    return tuple(found)


def isotypic_copies(rep, candidates):
    """The copies of candidate irreducible representations; all working bases are orthonormal.

    They come from the maps that commute with the group. For an irreducible representation of
    complex type (a frequency k >= 1 of rotations) two maps belong to the same copy. So after one
    map is taken, the others are made orthogonal to its copy.
    """
    found = []
    for irrep in candidates:
        maps = equivariant_maps(rep.group, 0, rep.model, irrep.model)
        embeddings: list[dict] = [{} for _ in range(maps.shape[0])]
        for (n, at), x in maps.to_dok().items():
            embeddings[n][divmod(at, irrep.dim)] = x
        chosen: list[Copy] = []
        for entries in embeddings:
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
