"""Free parameters of generators and channel mixings, and the map from them to the matrices.

``solution.parameterization("free")`` spans all equivariant generators. Most of them amplify some
frequencies without bound. With "dissipative", exp(M) never amplifies, whatever the parameters. For
an orthogonal representation,

    C antisymmetric, or left out
    B_i symmetric
    S_ab = 1/4 sum_j (Q_ja^T Q_jb + Q_jb^T Q_ja)

with equivariant first-order maps Q_j from rho to an orthogonal rho'. Then M(i xi) is i times a
symmetric matrix, plus an antisymmetric one, minus 1/2 sum_j (xi . Q_j)^T (xi . Q_j): its numerical
range is in the left half-plane, so |exp(M(i xi))| <= 1 in the spectral norm at every xi.
"""

import numpy as np
import sympy

from equivariance.arguments import natural_number, real_array
from equivariance.characters import ORDERS
from equivariance.decomposition import decomposition
from equivariance.exact import flat_entries
from equivariance.factored import FactoredBasis, PairBlock
from equivariance.generator_tensors import Generator
from equivariance.parameters import Parameter, Parameterization, coefficient_scale, combination
from equivariance.representations import require_representation, require_same_group
from equivariance.symmetric import SymmetricBasis

CONSTRAINTS = ("dissipative", "free")
# Spread of free second-order coefficients, relative to heat diffusion.
FREE_DIFFUSION_SPREAD = 0.1


class GeneratorParameterization(Parameterization):
    """Parameters of a generator; made by ``GeneratorSolution.parameterization``.

    Attributes:
        solution: the ``GeneratorSolution``.
        constraint: "free" or "dissipative".
        parameters: a tuple of ``Parameter``. "free": one vector of coefficients each for C, B and S
            in the solution's bases (those of dimension 0 are left out). "dissipative":
            "antisymmetric" for C and "symmetric" for B, coefficients in their subspaces, and
            "factors" [number of Q_j, coefficients of Q].

    Example: the PDE of a scalar and a vector field, one that cannot blow up.

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

    def __init__(self, solution, constraint):
        self.solution, self.constraint = solution, constraint

    def generator(self, values):
        """The generator of the given parameters, dense.

        Args:
            values: a dict from the parameters' names to arrays, with or without common leading
                axes (for many generators at once).

        Returns:
            A ``Generator`` of float64 arrays C [..., dim_out, dim_in], B [..., d, dim_out, dim_in],
            S [..., d, d, dim_out, dim_in].

        Raises:
            ValueError: if names or shapes do not fit, or a parameter is not finite.
        """
        values, leading = self._read(values)
        with np.errstate(over="ignore", invalid="ignore"):
            found = Generator(*self._dense(values, leading))
        if not all(np.isfinite(x).all() for x in found):
            raise ValueError("The parameters are too large: the generator is beyond float64.")
        return found

    def factored(self, values):
        """The generator of the given parameters, factored: it never makes a dense array.

        Args:
            values: as for ``generator``, without leading axes.

        Returns:
            An object with ``apply(frequency, channels)``, M(i xi) times channels [..., dim_in].
        """
        values, leading = self._read(values)
        if leading:
            raise ValueError(f"factored takes no leading axes, found {leading}.")
        shape = self.solution.factored["first_order"].shape
        return FactoredGenerator(self._maps(values), shape)

    def exact(self, values=None):
        """The generator as exact sympy arrays.

        Args:
            values: a dict from names to arrays or lists of exact numbers or sympy expressions; by
                default those of ``symbols()``.

        Returns:
            A ``Generator`` of sympy arrays. Use it for small representations: it has all entries.
        """
        return Generator(*self._exact(self._read_exact(values)))

    def keras_source(self, name="EquivariantFlow"):
        """Source code of a Keras layer with this generator, see ``equivariance.keras_source``."""
        from equivariance.keras_source import keras_source

        return keras_source(self, name)

    def _zeros(self, order, leading=()):
        return np.zeros((*leading, *self.solution.factored[ORDERS[order]].shape))

    def _title(self):
        rep_in, rep_out = self.solution.rep_in, self.solution.rep_out
        channels = rep_in if rep_in == rep_out else f"{rep_in} -> {rep_out}"
        return f"{self.constraint} generators of {channels}"


class FreeGenerators(GeneratorParameterization):
    """All equivariant generators."""

    def __init__(self, solution):
        super().__init__(solution, "free")
        self.bases = {name: basis for name, basis in solution.factored.items() if basis.size}
        found = []
        for order, name in enumerate(ORDERS):
            if name not in self.bases:
                continue
            basis = self.bases[name]
            center, scale = 0.0, coefficient_scale(basis, order)
            if order == 2:
                center = _heat(basis)
                scale *= FREE_DIFFUSION_SPREAD if np.any(center) else 1.0
            description = f"coefficients of {'CBS'[order]} in solution.{name}"
            found.append(Parameter(name, (basis.size,), scale, order, description, center))
        self.parameters = tuple(found)

    def _dense(self, values, leading):
        for order, name in enumerate(ORDERS):
            if name in values:
                yield self.bases[name].assemble(values[name])
            else:
                yield self._zeros(order, leading)

    def _maps(self, values):
        return [self.bases[name].block_map(x) for name, x in values.items()], []

    def _exact(self, values):
        for name in ORDERS:
            shape = self.solution.factored[name].shape
            yield combination(values.get(name, []), getattr(self.solution, name), shape)


class DissipativeGenerators(GeneratorParameterization):
    """Equivariant generators whose exponential never amplifies.

    Attributes:
        through: the representation rho' of the factors Q_j.
        bases: "antisymmetric" and "symmetric" as ``SymmetricBasis``, "factors" as
            ``FactoredBasis`` of the maps Q from rho to rho'.
    """

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
        antisymmetric, symmetric = SymmetricBasis(0, rho, -1), SymmetricBasis(1, rho, 1)
        outer, inner = decomposition(through), solution.decomposition_in
        pairs = [PairBlock(out, inside) for out in outer.blocks for inside in inner.blocks]
        factors = FactoredBasis(1, outer, inner, pairs)
        if num_factors and not factors.size:
            raise ValueError(
                f"There are no equivariant first-order maps from {rho} to through = {through}, so "
                "S would be 0. Leave through out, or give num_factors = 0 for S = 0."
            )
        bases, found = {}, []
        if zeroth_order and antisymmetric.size:
            bases["antisymmetric"] = antisymmetric
            scale = coefficient_scale(antisymmetric, 0)
            description = "coefficients of C, antisymmetric"
            found.append(Parameter("antisymmetric", (antisymmetric.size,), scale, 0, description))
        if symmetric.size:
            bases["symmetric"] = symmetric
            scale = coefficient_scale(symmetric, 1)
            description = "coefficients of B, symmetric"
            found.append(Parameter("symmetric", (symmetric.size,), scale, 1, description))
        if num_factors:
            bases["factors"] = factors
            scale = np.sqrt(rho.group.dim * rho.dim / (num_factors * factors.squared_norm()))
            shape = (num_factors, factors.size)
            description = f"coefficients of the maps Q_j from {rho} to {through}"
            found.append(Parameter("factors", shape, float(scale), 1, description))
        self.bases, self.parameters = bases, tuple(found)

    def _dense(self, values, leading):
        for order, name in enumerate(("antisymmetric", "symmetric")):
            if name in values:
                yield self.bases[name].assemble(values[name])
            else:
                yield self._zeros(order, leading)
        if "factors" not in values:
            yield self._zeros(2, leading)
            return
        q = self.bases["factors"].assemble(values["factors"])  # [..., j, d, out, in]
        q = np.moveaxis(q, -4, -3)  # [..., d, j, out, in]
        q = q.reshape(*q.shape[:-3], -1, q.shape[-1])  # the Q_j of one derivative stacked
        products = q.swapaxes(-1, -2)[..., :, None, :, :] @ q[..., None, :, :, :]
        yield (products + products.swapaxes(-3, -4)) / 4

    def _maps(self, values):
        plain = [
            self.bases[name].block_map(values[name])
            for name in ("antisymmetric", "symmetric")
            if name in values
        ]
        return plain, [self.bases["factors"].block_map(x) for x in values.get("factors", [])]

    def _exact(self, values):
        for order, name in enumerate(("antisymmetric", "symmetric")):
            shape = self.solution.factored[ORDERS[order]].shape
            arrays = self.bases[name].arrays() if name in values else []
            yield combination(values.get(name, []), arrays, shape)
        d, size = self.solution.group.dim, self.solution.rep_in.dim
        total = [[sympy.zeros(size, size) for _ in range(d)] for _ in range(d)]
        if "factors" in values:
            basis = self.bases["factors"]
            arrays, n = basis.arrays(), basis.size
            for j in range(len(values["factors"]) // n):
                q = combination(values["factors"][j * n : (j + 1) * n], arrays, basis.shape)
                q = [sympy.Matrix(*basis.shape[1:], flat_entries(q[a])) for a in range(d)]
                for a in range(d):
                    for b in range(d):
                        total[a][b] += (q[a].T * q[b] + q[b].T * q[a]) / 4
        entries = [sympy.expand(x) for row in total for matrix in row for x in matrix.flat()]
        yield sympy.ImmutableDenseNDimArray(entries, (d, d, size, size))


class FactoredGenerator:
    """A generator as small tensors between irreducible channels."""

    def __init__(self, maps, shape):
        self._plain, self._factors = maps
        self._shape = shape  # d, out, in

    def apply(self, frequency, channels):
        """M(i xi) times channels.

        Args:
            frequency: xi, real [d].
            channels: [..., dim_in], real or complex.

        Returns:
            Complex array [..., dim_out].
        """
        frequency = real_array(frequency, "frequency")
        if frequency.shape != (self._shape[0],):
            raise ValueError(
                f"frequency must have the shape {self._shape[:1]}, found {frequency.shape}."
            )
        channels = np.asarray(channels)
        if channels.dtype.kind not in "fiuc":
            raise TypeError(f"channels must be numbers, found {channels.dtype} entries.")
        if channels.shape[-1:] != (self._shape[2],):
            raise ValueError(
                f"channels must have the last axis {self._shape[2]}, found {channels.shape}."
            )
        total = np.zeros((*channels.shape[:-1], self._shape[1]))
        for x in self._plain:
            total = total + 1j**x.order * x.at(frequency)[0](channels)
        for q in self._factors:
            forward, backward = q.at(frequency)
            total = total - 0.5 * backward(forward(channels))
        return np.asarray(total, dtype=complex)


def parameterize(solution, constraint, *, through=None, zeroth_order=True, num_factors=1):
    """See ``GeneratorSolution.parameterization``."""
    if constraint == "free":
        given = {"through": (through, None), "zeroth_order": (zeroth_order, True)}
        given["num_factors"] = (num_factors, 1)
        for name, (value, default) in given.items():
            if value is not default and value != default:
                raise ValueError(
                    f"{name} applies to constraint = 'dissipative' only, found {value!r}."
                )
        return FreeGenerators(solution)
    if constraint == "dissipative":
        return DissipativeGenerators(solution, through, zeroth_order, num_factors)
    raise ValueError(f"constraint must be one of {list(CONSTRAINTS)}, found {constraint!r}.")


def _heat(basis):
    """Coefficients of heat diffusion in every channel, S_ij = delta_ij / 2, or 0 if it is none."""
    rep_out, rep_in = basis.decomposition_out.rep, basis.decomposition_in.rep
    if rep_out != rep_in or not rep_in.group.orthogonal:
        return 0.0
    found = []
    for block in basis.blocks:
        weights = np.zeros(basis.block_shape(block))
        if block.irrep_out == block.irrep_in:
            tensors = block.basis_numpy(2)
            overlap = np.einsum("niioo->n", tensors) / np.einsum("nijoa,nijoa->n", *2 * [tensors])
            weights += overlap[:, None, None] * np.eye(block.multiplicity_out) / 2
        found.append(weights.reshape(-1))
    return np.concatenate(found)
