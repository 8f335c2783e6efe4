"""Real representations of a group, built from irreducible and tensor representations.

``+`` stacks channels, an integer ``*`` repeats them, and ``@`` is the tensor product. A
representation has two forms of its matrices. ``matrix(g)`` is that of a group element, exact or in
float64. ``model`` holds the generators' matrices in their simplest basis, for the exact solver.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy

from equivariance.arguments import require_channels, require_same_group, wrong_type
from equivariance.decomposition import Decomposition, copies_in_product, copies_in_sum, whole
from equivariance.exact import sqrt
from equivariance.models import Model

if TYPE_CHECKING:
    from equivariance.groups.base import Group


class Representation:
    """A real representation rho of a group on ``dim`` channels.

    A group's ``irrep`` and ``tensor`` make representations, and arithmetic combines them.

    Attributes:
        group: the group.
        dim: the number of channels.

    Example:

    >>> import equivariance
    >>> rho = 2 * equivariance.SO2.irrep(0) + equivariance.SO2.irrep(1)
    >>> rho.dim, str(rho), (rho @ rho).dim
    (4, '2x0 + 1', 16)
    """

    # Each kind of representation defines the following.
    key: tuple
    _matrix: Any
    _model: Any
    _copies: Any
    _character: Any
    _dual: Any

    def __init__(self, group: Group, dim: int):
        self.group = group
        self.dim = dim

    def matrix(self, g: Any) -> Any:
        """The matrix rho(g).

        Args:
            g: a group element, in any form that ``group.element`` takes.

        Returns:
            An exact sympy matrix [dim, dim] if g is exact, or a float64 NumPy array if it is
            numeric.

        Example:

        >>> import equivariance, sympy
        >>> equivariance.SO2.irrep(2).matrix(sympy.pi / 4)
        Matrix([
        [0, -1],
        [1,  0]])
        >>> equivariance.SO2.irrep(2).matrix(0.1).round(3).tolist()
        [[0.98, -0.199], [0.199, 0.98]]
        """
        require_channels(self.dim, "a matrix")
        element = self.group.element(g)
        found = self._matrix(element)
        return sympy.ImmutableMatrix(found) if element.exact else found

    @cached_property
    def lie_algebra(self) -> tuple[sympy.ImmutableMatrix, ...]:
        """Exact matrices d rho(J), one for each of ``group.lie_generators``.

        Example:

        >>> import equivariance
        >>> equivariance.SO2.irrep(3).lie_algebra
        (Matrix([
        [0, -3],
        [3,  0]]),)
        """
        require_channels(self.dim, "a matrix")
        roots = [sqrt(x) for x in self.model.scale]
        found = []
        for generator in self.model.lie:
            entries = {
                (i, j): generator.domain.to_sympy(x) * roots[i] / roots[j]
                for (i, j), x in generator.to_dok().items()
            }
            matrix = sympy.SparseMatrix(self.dim, self.dim, entries)
            found.append(sympy.ImmutableMatrix(matrix))
        return tuple(found)

    @cached_property
    def discrete(self) -> tuple[sympy.ImmutableMatrix, ...]:
        """Exact matrices rho(h), one for each of ``group.discrete_generators``."""
        return tuple(self.matrix(h) for h in self.group.discrete_generators)

    @cached_property
    def model(self) -> Model:
        """The generators for the exact solver, a ``Model``."""
        return self._model()

    @cached_property
    def copies(self) -> tuple:
        """The irreducible parts as ``Copy`` objects, in the order of their discovery."""
        return self._copies()

    @property
    def dual(self) -> Representation:
        """The representation on the dual space, g -> rho(g)^-T.

        The bases here are orthonormal, so each representation of an orthogonal group is its own
        dual. The result is then the same object.
        """
        return self if self.group.orthogonal else self._dual()

    def decompose(self) -> Decomposition:
        """The irreducible parts and the change of basis to them: a ``Decomposition``."""
        require_channels(self.dim, "rep")
        return decomposition(self)

    def character(self) -> Any:
        """The character: an object with ``+``, ``*``, ``dual()`` and more (``characters``)."""
        return self._character()

    def __add__(self, other: Representation | int) -> Representation:
        if isinstance(other, Integral) and other == 0:  # makes sum(...) work
            return self
        if not isinstance(other, Representation):
            return NotImplemented
        require_same_group(self, other, "added")
        return direct_sum([*_terms(self), *_terms(other)])

    __radd__ = __add__

    def __mul__(self, multiplicity: int) -> Representation:
        if isinstance(multiplicity, Representation):
            raise TypeError("Representations are multiplied with @; * takes an integer.")
        if isinstance(multiplicity, bool) or not isinstance(multiplicity, Integral):
            raise wrong_type("A multiplicity", "an integer number of times", multiplicity)
        if multiplicity < 1:
            raise ValueError(f"The multiplicity must be at least 1, found {multiplicity}.")
        return direct_sum([(term, int(multiplicity) * n) for term, n in self._repeated()])

    __rmul__ = __mul__

    def __matmul__(self, other: Representation) -> Representation:
        if not isinstance(other, Representation):
            return NotImplemented
        require_same_group(self, other, "multiplied")
        return Product(self, other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Representation):
            return NotImplemented
        return self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"<{self.group.name} representation {self}, {self.dim} channels>"

    def _repeated(self):
        return [(self, 1)]


class Irrep(Representation):
    """An irreducible representation; ``index`` names it within its group."""

    def __init__(self, group, index, dim, label):
        super().__init__(group, dim)
        self.index = index
        self.label = label
        self.key = ("irrep", group.key, index)

    @property
    def sort_key(self):
        """Sorts by frequency or spin, with parity +1 first."""
        return (0, self.index[0], *(-x for x in self.index[1:]))

    def __str__(self) -> str:
        return self.label

    def _matrix(self, element):
        return self.group._irrep_matrix(self, element)

    def _model(self):
        return self.group._irrep_model(self)

    def _copies(self):
        return (whole(self),)

    def _character(self):
        return self.group._irrep_character(self)


class Tensor(Representation):
    """A product of copies of the defining representation V and its dual.

    Args:
        group: the group.
        letters: a boolean for each factor, true for the dual; T(p, q) has p false, then q true
            ones.
    """

    def __init__(self, group, letters):
        super().__init__(group, group.dim ** len(letters))
        self.letters = tuple(letters)
        self.key = ("tensor", group.key, self.letters)

    @property
    def sort_key(self):
        """Sorts by size. The tensor representations of user-defined groups count as irreducible."""
        return (1, len(self.letters), *self.letters)

    def __str__(self) -> str:
        def name(letters):
            return f"T({letters.count(False)},{letters.count(True)})"

        if self.letters == tuple(sorted(self.letters)):
            return name(self.letters)
        flipped = tuple(not letter for letter in self.letters)
        if flipped == tuple(sorted(flipped)):
            return f"{name(flipped)}*"
        return " @ ".join("T(0,1)" if letter else "T(1,0)" for letter in self.letters)

    def _matrix(self, element):
        plain = element.matrix
        dual = plain
        if any(self.letters) and not self.group.orthogonal:
            dual = plain.inv().T if element.exact else np.linalg.inv(plain).T
        found = sympy.eye(1) if element.exact else np.eye(1)
        for letter in self.letters:
            found = _kron(found, dual if letter else plain)
        return found

    def _model(self):
        group = self.group
        plain = group.defining_model
        dual = plain
        if any(self.letters) and not group.orthogonal:
            dual = Model(
                tuple(-x.transpose() for x in plain.lie),
                tuple(x.to_field().inv().transpose().to_sparse() for x in plain.discrete),
                plain.scale,
            )
        factors = [dual if letter else plain for letter in self.letters]
        return Model.of_factors(factors, plain, group.field)

    def _copies(self):
        group = self.group
        if group.orthogonal and any(self.letters):  # a factor V* equals a factor V
            return group.tensor(len(self.letters), 0).copies
        if group.defining_copies is None:
            return (whole(self),)
        if not self.letters:
            return (whole(group.irrep(0)),)
        first = Tensor(group, self.letters[1:]).copies
        return copies_in_product(first, group.defining_copies, group._product_copies)

    def _character(self):
        plain = self.group.defining_character()
        total = plain.constant(1)
        for letter in self.letters:
            total = total * (plain.dual() if letter else plain)
        return total

    def _dual(self):
        return Tensor(self.group, [not letter for letter in self.letters])


class Sum(Representation):
    """Stacked representations; ``terms`` are pairs (representation, multiplicity)."""

    def __init__(self, terms):
        self.terms = tuple(terms)
        super().__init__(self.terms[0][0].group, sum(n * rep.dim for rep, n in self.terms))
        self.key = ("sum", *((rep.key, n) for rep, n in self.terms))

    def __str__(self) -> str:
        return " + ".join(f"{n}x" * (n > 1) + _enclosed(rep) for rep, n in self.terms)

    def _matrix(self, element):
        blocks = [block for rep, n in self.terms for block in [rep._matrix(element)] * n]
        if element.exact:
            return sympy.diag(*blocks)
        found = np.zeros((self.dim, self.dim))
        offset = 0
        for block in blocks:
            end = offset + len(block)
            found[offset:end, offset:end] = block
            offset = end
        return found

    def _model(self):
        models = [rep.model for rep, n in self.terms for _ in range(n)]
        return Model.of_sum(models, self.group.field)

    def _copies(self):
        return copies_in_sum(self.terms, self.dim)

    def _character(self):
        plain = self.group.defining_character()
        total = plain.constant(0)
        for rep, n in self.terms:
            total = total + plain.constant(n) * rep.character()
        return total

    def _dual(self):
        return Sum((rep.dual, n) for rep, n in self.terms)

    def _repeated(self):
        # 2 * (3 * rho) is 6 * rho, but 2 * (rho + sigma) keeps its order of channels.
        return self.terms if len(self.terms) == 1 else [(self, 1)]


class Product(Representation):
    """Tensor product; the channels i and j of the factors give the channel i * right.dim + j."""

    def __init__(self, left, right):
        super().__init__(left.group, left.dim * right.dim)
        self.left, self.right = left, right
        self.key = ("product", left.key, right.key)

    def __str__(self) -> str:
        return f"{_enclosed(self.left)} @ {_enclosed(self.right)}"

    def _matrix(self, element):
        return _kron(self.left._matrix(element), self.right._matrix(element))

    def _model(self):
        return Model.of_product(self.left.model, self.right.model, self.group.field)

    def _copies(self):
        product = self.group._product_copies
        return copies_in_product(self.left.copies, self.right.copies, product)

    def _character(self):
        return self.left.character() * self.right.character()

    def _dual(self):
        return Product(self.left.dual, self.right.dual)


def direct_sum(terms):
    """The sum of pairs (representation, multiplicity), equal neighbours merged."""
    merged: list = []
    for rep, n in terms:
        if merged and merged[-1][0] == rep:
            merged[-1] = (rep, merged[-1][1] + n)
        else:
            merged.append((rep, n))
    return merged[0][0] if len(merged) == 1 and merged[0][1] == 1 else Sum(merged)


@lru_cache(maxsize=512)
def decomposition(rep):
    """The irreducible parts of a representation of any number of channels."""
    return Decomposition(rep, rep.copies)


def _terms(rep):
    return rep.terms if isinstance(rep, Sum) else [(rep, 1)]


def _enclosed(rep):
    return f"({rep})" if isinstance(rep, Sum | Product) else str(rep)


def _kron(left, right):
    exact = isinstance(left, sympy.MatrixBase)
    return sympy.kronecker_product(left, right) if exact else np.kron(left, right)
