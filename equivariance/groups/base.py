"""The interface of groups: generators, elements, representations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from equivariance.arguments import MAX_CHANNELS, natural_number
from equivariance.exact import algebraic_matrices
from equivariance.models import Model
from equivariance.representations import Representation, Tensor

MAX_FACTORS = 50


class Group(ABC):
    """A group of real matrices acting on space R^dim (its defining representation).

    Lie-algebra generators J and discrete generators together generate the group. The exponentials
    exp(t J) are in the group.

    Attributes:
        name: the group's name in messages.
        dim: dimension d of space.
        lie_generators: exact sympy matrices [d, d].
        discrete_generators: group elements.
        orthogonal: whether all its matrices are orthogonal.
        reflections: whether its representations have parities.
        field: the field of numbers of the generators' matrices in the working bases.
        defining_copies: the irreducible parts of the defining representation, as ``Copy`` objects;
            None if no irreducible representations are known.
        key: a value that equal groups share.

    Groups are equal if they are the same group. Groups and their representations can be keys of
    dictionaries.
    """

    name: str
    dim: int
    lie_generators: Any
    discrete_generators: Any
    field: Any
    key: tuple
    orthogonal: Any = True
    reflections: bool = False
    defining_copies: Any = None
    # Hooks of groups that have irreducible representations.
    _irrep_matrix: Any
    _irrep_model: Any
    _irrep_character: Any
    _product_copies: Any

    @abstractmethod
    def element(self, g: Any) -> Any:
        """Reads a group element from any accepted form.

        Returns:
            An object with ``matrix`` (the d x d matrix), ``exact`` (sympy if true, else float64).

        Raises:
            TypeError, ValueError: if g is not an element of the group.
        """

    @abstractmethod
    def random_element(self, rng: np.random.Generator) -> Any:
        """A random numeric element; ``rng`` is a ``numpy.random.Generator``.

        It is uniform (by the Haar measure) for the built-in groups.
        """

    @abstractmethod
    def inverse(self, g: Any) -> Any:
        """The inverse element."""

    @abstractmethod
    def compose(self, g: Any, h: Any) -> Any:
        """The product g h: first h, then g."""

    @abstractmethod
    def irrep(self, k: int) -> Representation:
        """An irreducible representation."""

    @abstractmethod
    def defining_character(self) -> Any:
        """The character of the defining representation."""

    def tensor(self, p: int, q: int) -> Representation:
        """The tensor representation T(p, q) = V^(x p) (x) (V*)^(x q).

        Scalars are T(0, 0), vectors T(1, 0), matrices T(1, 1).

        Args:
            p: number of factors of the defining representation V.
            q: number of factors of its dual.

        Returns:
            A representation on d^(p + q) channels. The last index changes fastest.

        Raises:
            TypeError, ValueError: if p or q is not an integer, is negative, or is too large (2000
                channels).

        Example:

        >>> import equivariance
        >>> equivariance.SO3.tensor(1, 2).dim
        27
        """
        p, q = natural_number(p, "p"), natural_number(q, "q")
        if p + q > MAX_FACTORS or self.dim ** (p + q) > MAX_CHANNELS:
            raise ValueError(
                f"T({p},{q}) of {self.name}: {self.dim}^{p + q} channels are more than supported "
                f"here. Give at most {MAX_CHANNELS} channels, and p + q of at most {MAX_FACTORS}."
            )
        return Tensor(self, (False,) * p + (True,) * q)

    @property
    def trivial(self) -> Representation:
        """The scalar representation."""
        return self.tensor(0, 0)

    @property
    def defining(self) -> Representation:
        """The representation on space itself, T(1, 0)."""
        return self.tensor(1, 0)

    def may_couple(self, irrep_out: Representation, irrep_in: Representation, order: int) -> bool:
        """False if no map with ``order`` derivatives is known to couple the two."""
        return True

    def require_solvable(
        self, irrep_out: Representation, irrep_in: Representation, order: int
    ) -> None:
        """Raises a ValueError if a pair is too large to solve as a whole; here none is."""
        return

    @cached_property
    def defining_model(self) -> Model:
        """The ``Model`` of the defining representation."""
        matrices = [*self.lie_generators, *(g.matrix for g in self.discrete_generators)]
        found = [x.convert_to(self.field) for x in algebraic_matrices(matrices)[0]]
        split = len(self.lie_generators)
        return Model(tuple(found[:split]), tuple(found[split:]), (1,) * self.dim)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Group):
            return NotImplemented
        return self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return self.name
