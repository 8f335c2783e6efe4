"""Free parameters of generators, and the map from them to C, B and S.

``solution.parameterization("free")`` spans all equivariant generators. Most of them amplify some
frequencies without bound. With "dissipative", exp(M) never amplifies for any parameters. For an
orthogonal representation it takes

    C antisymmetric, or left out
    B_i symmetric
    S_ab = 1/4 sum_j (Q_ja^T Q_jb + Q_jb^T Q_ja)

with equivariant first-order maps Q_j from rho to an orthogonal rho'. Then M(i xi) is i times a
symmetric matrix, plus an antisymmetric one, minus 1/2 sum_j (xi . Q_j)^T (xi . Q_j). Its numerical
range is in the left half-plane, so |exp(M(i xi))| <= 1 in the spectral norm at every xi.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import sympy

from equivariance.arguments import natural_number, real_array, require_same_group, require_shape
from equivariance.characters import ORDERS
from equivariance.factored import Basis, FactoredBasis, pairs
from equivariance.generator_tensors import Generator
from equivariance.inputs import arrow, require_representation
from equivariance.keras_source import keras_source
from equivariance.parameters import (
    Parameter,
    Parameterization,
    coefficient_scale,
    exact_combination,
)
from equivariance.representations import decomposition
from equivariance.second_order import second_order
from equivariance.symmetric import SymmetricBasis

CONSTRAINTS = ("dissipative", "free")
# The spread of free second-order coefficients, relative to heat diffusion.
FREE_DIFFUSION_SPREAD = 0.1


class GeneratorParameterization(Parameterization):
    """Parameters of a generator. ``GeneratorSolution.parameterization`` makes it.

    Attributes:
        solution: the ``GeneratorSolution``.
        constraint: "free" or "dissipative".
        parameters: a tuple of ``Parameter``. "free" has one vector of coefficients for each of C, B
            and S in the solution's bases (those of dimension 0 are left out). "dissipative" has the
            coefficients "antisymmetric" for C and "symmetric" for B in their subspaces, and
            "factors" [number of Q_j, coefficients of Q].
        bases: the basis of each parameter, by its name.
        through: for "dissipative", the representation rho' of the factors Q_j.

    Example: a PDE of a scalar and a vector field that cannot blow up.

    >>> from equivariance import SO2, solve_generators, verify
    >>> channels = SO2.irrep(0) + SO2.irrep(1)
    >>> dissipative = solve_generators(channels).parameterization("dissipative")
    >>> dissipative
    <dissipative generators of 0 + 1: antisymmetric [1], symmetric [2], factors [1, 8]>
    >>> generator = dissipative.generator(dissipative.initial(rng=0))
    >>> generator.zeroth_order.shape, generator.first_order.shape, generator.second_order.shape
    ((3, 3), (2, 3, 3), (2, 2, 3, 3))
    >>> verify(generator, channels).equivariant
    True
    """

    through: Any = None
    names: tuple[str, ...]  # the names of the parameters of C, B and S

    def __init__(self, solution: Any, constraint: str):
        self.solution, self.constraint = solution, constraint
        self.bases: dict[str, Basis] = {}

    def generator(self, values: Mapping[str, Any]) -> Generator:
        """The dense generator of the given parameters.

        Args:
            values: a dict from the parameters' names to arrays. Common leading axes give many
                generators at once.

        Returns:
            A ``Generator`` of float64 arrays C [..., dim_out, dim_in], B [..., d, dim_out, dim_in],
            S [..., d, d, dim_out, dim_in].

        Raises:
            ValueError: if names or shapes do not fit, or a parameter is not finite.
        """
        values, leading = self._read(values)
        with np.errstate(over="ignore", invalid="ignore"):
            arrays = {name: self.bases[name].assemble(x) for name, x in values.items()}
            found = Generator(*self._tensors(arrays, leading))
        if not all(np.isfinite(x).all() for x in found):
            raise ValueError("The parameters are too large: the generator is beyond float64.")
        return found

    def exact(self, values: Mapping[str, Any] | None = None) -> Generator:
        """The generator as exact sympy arrays.

        Args:
            values: a dict from names to arrays or lists of exact numbers or sympy expressions. The
                default is ``symbols()``.

        Returns:
            A ``Generator`` of sympy arrays. Use it for small representations: it has all entries.
        """
        values = self._read_exact(values)
        arrays = {name: exact_combination(x, self.bases[name]) for name, x in values.items()}
        found = []
        for x in self._tensors(arrays):
            entries = [sympy.expand(sympy.sympify(y)) for y in x.astype(object).flat]
            found.append(sympy.ImmutableDenseNDimArray(entries, x.shape))
        return Generator(*found)

    def _tensors(self, arrays, leading=()):
        """C, B and S from the parameters' maps."""
        shapes = [(*leading, *basis.shape) for basis in self.solution.bases]
        found = [
            arrays[name] if name in arrays else np.zeros(shape, dtype=int)
            for name, shape in zip(self.names, shapes, strict=True)
        ]
        if "factors" in arrays:
            found[2] = second_order(arrays["factors"], _einsum)
        return found

    def factored(self, values: Mapping[str, Any]) -> FactoredGenerator:
        """The factored generator of the given parameters, which never makes a dense array.

        Args:
            values: as for ``generator``, without leading axes.

        Returns:
            An object with ``apply(frequency, channels)``: M(i xi) times channels [..., dim_in].
        """
        return FactoredGenerator(self, self._read_one(values, "factored"))

    def keras_source(self, name: str = "EquivariantFlow") -> str:
        """Source code of a Keras layer with this generator, see ``equivariance.keras_source``."""
        return keras_source(self, name)

    def _add(self, name, basis, symbol, **options):
        """Adds the parameter of a plain map's coefficients, if there are any."""
        if basis.size:
            self.bases[name] = basis
            scale = options.pop("scale", 1.0) * coefficient_scale(basis)
            shape, order = (basis.size,), basis.order
            self.parameters += (Parameter(name, shape, scale, order, symbol, **options),)

    def _title(self):
        return (
            f"{self.constraint} generators of {arrow(self.solution.rep_in, self.solution.rep_out)}"
        )


class FreeGenerators(GeneratorParameterization):
    """All equivariant generators."""

    names = ORDERS

    def __init__(self, solution):
        super().__init__(solution, "free")
        for letter, (name, basis) in zip("CBS", solution.factored.items(), strict=True):
            options = {}
            if basis.order == 2 and np.any(heat := _heat(basis)):
                options = {"center": heat, "scale": FREE_DIFFUSION_SPREAD}
            self._add(name, basis, f"coefficients of {letter} in solution.{name}", **options)


class DissipativeGenerators(GeneratorParameterization):
    """Equivariant generators whose exponential never amplifies."""

    names = ("antisymmetric", "symmetric", "")

    def __init__(self, solution, through, zeroth_order, num_factors):
        super().__init__(solution, "dissipative")
        rho = solution.rep_in
        if solution.rep_out != rho:
            raise ValueError(
                "A dissipative generator maps a representation to itself, found "
                f"{rho} -> {solution.rep_out}. Use constraint = 'free' for derivative layers."
            )
        if not rho.group.orthogonal:
            raise ValueError(
                f"The matrices of {rho.group.name} are not orthogonal, so no norm is preserved by "
                "the group, and dissipative generators are not defined. Use constraint = 'free'."
            )
        if through is None:
            through = decomposition(rho.group.defining @ rho).representation
        else:
            require_representation(through, "through")
        require_same_group(rho, through, "coupled (the channels and through)")
        num_factors = natural_number(num_factors, "num_factors")
        if not isinstance(zeroth_order, bool | np.bool_):
            raise TypeError(f"zeroth_order must be True or False, found {zeroth_order!r}.")
        self.through = through
        outer, inner = decomposition(through), solution.decomposition_in
        factors = FactoredBasis(1, outer, inner, pairs(outer, inner))
        if num_factors and not factors.size:
            raise ValueError(
                f"There are no equivariant first-order maps from {rho} to through = {through}, so "
                "S would be 0. Leave through out, or give num_factors = 0 for S = 0."
            )
        if zeroth_order:
            basis = SymmetricBasis(0, rho, -1)
            self._add("antisymmetric", basis, "coefficients of C, antisymmetric")
        self._add("symmetric", SymmetricBasis(1, rho, 1), "coefficients of B, symmetric")
        if num_factors:
            self.bases["factors"] = factors
            scale = np.sqrt(rho.group.dim * rho.dim / (num_factors * factors.squared_norm()))
            shape = (num_factors, factors.size)
            description = f"coefficients of the maps Q_j from {rho} to {through}"
            self.parameters += (Parameter("factors", shape, float(scale), 1, description),)


class FactoredGenerator:
    """A generator as small tensors between irreducible channels."""

    def __init__(self, parameterization, values):
        bases = parameterization.bases
        self._factors = [(bases["factors"], x) for x in values.get("factors", [])]
        self._plain = [(bases[name], x) for name, x in values.items() if name != "factors"]
        self._shape = parameterization.solution.bases[1].shape  # d, out, in

    def apply(self, frequency: Any, channels: Any) -> np.ndarray:
        """M(i xi) times channels.

        Args:
            frequency: xi, real [d].
            channels: [..., dim_in], real or complex.

        Returns:
            Complex array [..., dim_out].
        """
        frequency = real_array(frequency, "frequency")
        require_shape(frequency, self._shape[:1], "frequency")
        channels = np.asarray(channels)
        if channels.dtype.kind not in "fiuc":
            raise TypeError(f"channels must be numbers, found {channels.dtype} entries.")
        if channels.shape[-1:] != (self._shape[2],):
            raise ValueError(
                f"channels must have the last axis {self._shape[2]}, found {channels.shape}."
            )
        total = np.zeros((*channels.shape[:-1], self._shape[1]), dtype=complex)
        for basis, x in self._plain:
            derivatives = (np.ones(1), frequency, np.kron(frequency, frequency))[basis.order]
            moved = basis.contracted(basis.parts(x), derivatives, channels)
            total += 1j**basis.order * moved
        for basis, x in self._factors:  # S acts as -1/2 (xi . Q)^T (xi . Q)
            parts = basis.parts(x)
            moved = basis.contracted(parts, frequency, channels)
            total -= 0.5 * basis.contracted(parts, frequency, moved, transposed=True)
        return total


def parameterize(solution, constraint, *, through=None, zeroth_order=True, num_factors=1):
    """See ``GeneratorSolution.parameterization``."""
    if constraint == "free":
        given = {"through": through, "zeroth_order": zeroth_order, "num_factors": num_factors}
        for (name, value), default in zip(given.items(), (None, True, 1), strict=True):
            if value is not default and value != default:
                raise ValueError(
                    f"{name} applies to constraint = 'dissipative' only, found {value!r}."
                )
        return FreeGenerators(solution)
    if constraint == "dissipative":
        return DissipativeGenerators(solution, through, zeroth_order, num_factors)
    raise ValueError(f"constraint must be one of {list(CONSTRAINTS)}, found {constraint!r}.")


def _einsum(equation, *arrays):
    return np.einsum(equation, *arrays, optimize=True)


def _heat(basis):
    """Coefficients of heat diffusion in every channel, S_ij = delta_ij / 2, or 0 if impossible."""
    rep_out, rep_in = basis.decomposition_out.rep, basis.decomposition_in.rep
    if rep_out != rep_in or not rep_in.group.orthogonal:
        return 0.0
    found = [np.zeros(0)]
    for block in basis.blocks:
        weights = np.zeros(basis.block_shape(block))
        if block.irrep_out == block.irrep_in:
            tensors = block.basis_numpy(2)
            overlap = np.einsum("niioo->n", tensors) / np.einsum("nijoa,nijoa->n", *2 * [tensors])
            weights += overlap[:, None, None] * np.eye(block.multiplicity_out) / 2
        found.append(weights.reshape(-1))
    return np.concatenate(found)
