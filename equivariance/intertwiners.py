"""Channel mixings W that commute with the group, rho_out(g) W = W rho_in(g)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import sympy

from equivariance.exact import flat_entries
from equivariance.inputs import read_pair
from equivariance.parameters import (
    Parameter,
    Parameterization,
    coefficient_scale,
    exact_combination,
)
from equivariance.representations import Representation
from equivariance.solutions import PairSolution


class Intertwiners(PairSolution, Sequence):
    """The exact basis of the channel mixings; a sequence of sympy matrices [dim_out, dim_in].

    Attributes:
        group: the group.
        rep_in, rep_out: the representations.
        decomposition_in, decomposition_out: their irreducible parts.
        factored: the basis as a ``FactoredBasis``; its ``assemble`` makes a mixing from
            coefficients. Use it for large representations.
        blocks: a ``PairBlock`` for each pair of irreducible parts with a solution.
    """

    orders = (0,)

    def __init__(self, rep_in: Representation, rep_out: Representation):
        super().__init__(rep_in, rep_out)
        (self.factored,) = self.bases
        self.blocks = self.factored.blocks

    @property
    def dimension(self) -> int:
        """The number of independent mixings."""
        return self.factored.size

    def __len__(self) -> int:
        return self.factored.size

    @cached_property
    def _matrices(self):
        shape = self.factored.shape
        arrays = self.factored.arrays()
        return [sympy.ImmutableMatrix(*shape, flat_entries(x)) for x in arrays]

    def __getitem__(self, n: Any) -> Any:
        return self._matrices[n]

    def parameterization(self) -> MixingParameterization:
        """Free parameters and the map from them to a mixing: a ``MixingParameterization``."""
        return MixingParameterization(self)

    def __repr__(self) -> str:
        return (
            f"<{len(self)} mixings {self.rep_in} -> {self.rep_out} that commute with "
            f"{self.group.name}>"
        )


class MixingParameterization(Parameterization):
    """Parameters of a channel mixing. ``Intertwiners.parameterization`` makes it.

    Attributes:
        mixings: the ``Intertwiners``.
        parameters: one ``Parameter``, "weights": the coefficients in the basis of the mixings.

    Example:

    >>> from equivariance import SO3, solve_intertwiners
    >>> mixing = solve_intertwiners(2 * SO3.irrep(1), 4 * SO3.irrep(1)).parameterization()
    >>> mixing
    <mixings 2x1 -> 4x1: weights [8]>
    >>> mixing.matrix(mixing.initial(rng=0)).shape
    (12, 6)
    """

    def __init__(self, mixings: Intertwiners):
        self.mixings = mixings
        basis = mixings.factored
        scale = coefficient_scale(basis) if basis.size else 0.0
        description = "coefficients in the basis of the mixings"
        self.parameters = (Parameter("weights", (basis.size,), scale, 0, description),)

    def matrix(self, values: Mapping[str, Any]) -> np.ndarray:
        """The mixing W, float64 [..., dim_out, dim_in], for ``{"weights": [..., size]}``."""
        values, _ = self._read(values)
        return self.mixings.factored.assemble(values["weights"])

    def exact(self, values: Mapping[str, Any] | None = None) -> sympy.ImmutableMatrix:
        """The mixing as an exact sympy matrix; the default values are the ``symbols()``."""
        weights = self._read_exact(values)["weights"]
        return sympy.ImmutableMatrix(exact_combination(weights, self.mixings.factored))

    def _title(self):
        return f"mixings {self.mixings.rep_in} -> {self.mixings.rep_out}"


def solve_intertwiners(
    rep_in: Representation, rep_out: Representation | None = None
) -> Intertwiners:
    """Exact basis of the matrices W with rho_out(g) W = W rho_in(g) for all g.

    By Schur's lemma there is one for each pair of copies of the same real irreducible
    representation, or two if it has complex type (frequencies k >= 1 without reflections).

    Args:
        rep_in: the representation of the channels to mix.
        rep_out: the representation of the result. The default is ``rep_in``.

    Returns:
        An ``Intertwiners``, a sequence of exact sympy matrices [dim_out, dim_in].

    Raises:
        TypeError: if an argument is not a representation.
        ValueError: if they have different groups, or more than 2000 channels.

    Example:

    >>> from equivariance import SO2, solve_intertwiners
    >>> list(solve_intertwiners(SO2.irrep(1), SO2.irrep(1)))
    [Matrix([
    [1, 0],
    [0, 1]]), Matrix([
    [ 0, 1],
    [-1, 0]])]
    """
    return _solve(*read_pair(rep_in, rep_out))


@lru_cache(maxsize=256)
def _solve(rep_in, rep_out):
    return Intertwiners(rep_in, rep_out)
