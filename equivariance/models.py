"""A representation's generators in the form for the exact solver."""

from typing import NamedTuple

from sympy import QQ
from sympy.polys.matrices import DomainMatrix

from equivariance.exact import block_diagonal, kron, sparse


class Turn(NamedTuple):
    """A rotation by 2 pi / n: ``exp(2 pi L / n) D``, given by integers.

    L is antisymmetric, and its eigenvalues i w have integer weights w. D = diag(signs) commutes
    with L. So the rotation leaves unchanged what has weights that n divides (n / 2 more if the sign
    is -1). It needs no cosines and sines of 2 pi / n.
    """

    order: int  # n
    weights: DomainMatrix  # L
    signs: tuple  # 1 or -1 for each channel


class Model(NamedTuple):
    """The generators of a representation in its working basis.

    A matrix X here stands for the representation's matrix ``D^(1/2) X D^(-1/2)`` with
    ``D = diag(scale)``. This keeps square roots, such as those of spherical harmonics, out of the
    exact solution.
    """

    lie: tuple  # a DomainMatrix for each Lie-algebra generator
    discrete: tuple  # a DomainMatrix for each discrete generator that is not a turn
    scale: tuple  # positive rationals
    turns: tuple = ()  # a Turn for each discrete generator that is a rotation by 2 pi / n

    @property
    def plain(self):
        """The matrices of all generators that are not turns."""
        return [*self.lie, *self.discrete]

    @staticmethod
    def of_product(left, right, field):
        """The model of the tensor product."""
        ones = [DomainMatrix.eye(len(x.scale), field) for x in (left, right)]

        def derivation(x, y):
            return kron(x, ones[1]) + kron(ones[0], y)

        return Model(
            tuple(derivation(x, y) for x, y in zip(left.lie, right.lie, strict=True)),
            tuple(kron(x, y) for x, y in zip(left.discrete, right.discrete, strict=True)),
            tuple(x * y for x in left.scale for y in right.scale),
            tuple(
                Turn(
                    x.order,
                    derivation(x.weights, y.weights),
                    tuple(a * b for a in x.signs for b in y.signs),
                )
                for x, y in zip(left.turns, right.turns, strict=True)
            ),
        )

    @staticmethod
    def of_sum(models, field):
        """The model of the direct sum."""

        def stacked(matrices):
            return tuple(block_diagonal(x, field) for x in zip(*matrices, strict=True))

        return Model(
            stacked(m.lie for m in models),
            stacked(m.discrete for m in models),
            tuple(x for m in models for x in m.scale),
            tuple(
                Turn(
                    turns[0].order,
                    block_diagonal([x.weights for x in turns], field),
                    tuple(sign for x in turns for sign in x.signs),
                )
                for turns in zip(*(m.turns for m in models), strict=True)
            ),
        )

    @staticmethod
    def of_factors(factors, like, field):
        """The model of a product of any number of factors; ``like`` is one of the same group."""
        zero, one = sparse({}, (1, 1), field), DomainMatrix.eye(1, field)
        found = Model(
            tuple(zero for _ in like.lie),
            tuple(one for _ in like.discrete),
            (QQ(1),),
            tuple(Turn(x.order, zero, (1,)) for x in like.turns),
        )
        for factor in factors:
            found = Model.of_product(found, factor, field)
        return found
