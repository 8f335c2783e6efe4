"""Scalar drift-diffusions sum_k W_k exp(D_k) that commute with a finite group, as orbits.

An element g turns exp(D) with drift beta and diffusion Sigma into the one with g beta and
g Sigma g^T. So the sum commutes with the group if the group permutes the (beta_k, Sigma_k) and

    W_gk = rho_out(g) W_k rho_in(g)^-1.

An orbit has one free member, its seed. The stabiliser H holds the elements that leave the seed's
drift and diffusion unchanged. H = {1} is the general case, with as many members as the group has
elements. H = G gives beta = 0 and an invariant Sigma. Continuous rotations allow only this
(``prove_scalar_diffusions_trivial``).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sympy

from equivariance.arguments import real_array, require_finite, require_shape, wrong_type
from equivariance.exact import to_numpy
from equivariance.groups.elements import MatrixElement
from equivariance.groups.plane import PlaneGroup
from equivariance.inputs import arrow, read_pair
from equivariance.intertwiners import solve_intertwiners
from equivariance.parameters import Parameter, Parameterization
from equivariance.representations import Representation

MEMBER = ("kernel", "drift", "diffusion_factor")  # the parameters of an orbit's member
KINDS = ("generic", "mirror", "center")
MAX_SIZE = 200  # largest number of elements of a group
# Initial drift and diffusion radius in units of eight of the points' distances.
DRIFT, DIFFUSION = 1.0 / 8.0, 0.5 / 8.0


class DiffusionOrbits(Parameterization):
    """Equivariant sum_k W_k exp(D_k). ``diffusion_orbits`` makes it.

    Attributes:
        rep_in, rep_out: the representations.
        orbits: the elements (matrices [d, d]) of each orbit's stabiliser.
        num_basis: K, the number of members of all orbits.
        parameters: ``kernel`` [orbits, c_in, c_out] (W, transposed like Keras kernels), ``drift``
            [orbits, d] and ``diffusion_factor`` [orbits, d, d] of the seeds, and ``bias``
            [invariants] if rep_out contains scalars. They are free: an average removes what an
            orbit's stabiliser does not allow.
    """

    def __init__(self, rep_in: Representation, rep_out: Representation, stabilizers: list[list]):
        self.rep_in, self.rep_out, group = rep_in, rep_out, rep_in.group
        self._matrices = [
            [to_numpy(x) for x in (g.matrix, rep_in.matrix(g), rep_out.matrix(g))]
            for g in finite_elements(group)
        ]
        self._space = np.array([x[0] for x in self._matrices])
        self._stabilizers = [self._closure(x, n) for n, x in enumerate(stabilizers)]
        self._cosets = [self._representatives(x) for x in self._stabilizers]
        self.orbits = [[self._space[n] for n in x] for x in self._stabilizers]
        self.num_basis = sum(len(x) for x in self._cosets)
        count, d = len(stabilizers), group.dim
        self._invariants = solve_intertwiners(group.trivial, rep_out).factored
        scale = 1.0 / np.sqrt(self.num_basis * rep_in.dim)
        factor = (
            (count, d, d),
            DIFFUSION / 10,
            1,
            "seeds of L, Sigma = L L^T",
            DIFFUSION * np.eye(d),
        )
        self.parameters = (
            Parameter("kernel", (count, rep_in.dim, rep_out.dim), scale, 0, "seeds of W"),
            Parameter("drift", (count, d), DRIFT / np.sqrt(d), 1, "seeds of beta"),
            Parameter("diffusion_factor", *factor),
        )
        if size := self._invariants.size:
            description = "coefficients of the invariants"
            self.parameters += (Parameter("bias", (size,), 0.0, 0, description),)

    def weights(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The weights of a ``tfpn.layers.PNConv`` for the given parameters.

        Args:
            values: a dict from the parameters' names to arrays.

        Returns:
            A dict of float64 arrays: kernel [K, c_in, c_out], drift [K, d], diffusion_factor
            [K, d, d] and bias [c_out]. ``PNConv(c_out, num_basis=K)`` has weights of these names,
            with lengths in units of eight times its spacing. With these weights its mean commutes
            with the group, given one noise for all channels or for each irreducible part. Its
            variances commute for scalar channels.
        """
        values = self._read_one(values, "weights")
        found: list[tuple] = []
        for n, (stabilizer, cosets) in enumerate(zip(self._stabilizers, self._cosets, strict=True)):
            seed = self._averaged([values[name][n] for name in MEMBER], stabilizer)
            found += [self._moved(seed, g) for g in cosets]
        bias = np.zeros(self.rep_out.dim)
        if "bias" in values:
            bias = self._invariants.assemble(values["bias"])[:, 0]
        return {**_by_name(found), "bias": bias}

    def project(self, weights: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The parameters whose weights are nearest to the given ones.

        Use it after a training step that treats the weights of a ``PNConv`` as free.

        Args:
            weights: a dict like the result of ``weights``. You may leave out the bias.

        Returns:
            A dict of parameters. If the given weights are equivariant, ``weights`` returns them
            unchanged.

        Raises:
            ValueError: if a shape does not fit.
        """
        d, c_in, c_out, k = self.rep_in.group.dim, self.rep_in.dim, self.rep_out.dim, self.num_basis
        shapes = dict(zip(MEMBER, ((k, c_in, c_out), (k, d), (k, d, d)), strict=True))
        if not isinstance(weights, Mapping):
            raise TypeError(f"weights must be a dict, found {type(weights).__name__}.")
        weights = {"bias": np.zeros(c_out), **weights}
        arrays = {}
        for name, shape in {**shapes, "bias": (c_out,)}.items():
            if name not in weights:
                raise ValueError(f"weights has no {name!r}; it needs {list(shapes)}.")
            title = f"weights[{name!r}]"
            arrays[name] = real_array(weights[name], title)
            require_shape(arrays[name], shape, title)
            require_finite(arrays[name], title)
        members = list(zip(*(arrays[name] for name in MEMBER), strict=True))
        seeds, start = [], 0
        for stabilizer, cosets in zip(self._stabilizers, self._cosets, strict=True):
            inverses = [self._position(self._space[g].T) for g in cosets]
            home = [self._moved(members[start + n], g) for n, g in enumerate(inverses)]
            seeds.append(self._averaged(_mean(home), stabilizer))
            start += len(cosets)
        found = _by_name(seeds)
        if self._invariants.size:
            basis = self._invariants.dense()[:, :, 0]
            found["bias"] = basis @ arrays["bias"] / np.sum(basis**2, axis=-1)
        return found

    def _position(self, matrix):
        """The number of the element with the given matrix; None if there is none."""
        errors = np.abs(self._space - matrix).max(axis=(1, 2))
        n = int(errors.argmin())
        return n if errors[n] < 1e-8 else None

    def _closure(self, generators, n):
        """The elements that the generators of the orbit n's stabiliser generate."""
        group = self.rep_in.group
        elements = [group.element(g) for g in generators]
        positions = [self._position(to_numpy(g.matrix)) for g in elements]
        if None in positions:
            wrong = elements[positions.index(None)]
            raise ValueError(f"orbits[{n}]: {wrong} is no element of {group.name}.")
        found = [self._position(np.eye(group.dim))]
        for a in found:  # the loop extends it
            for b in positions:
                product = self._position(self._space[b] @ self._space[a])
                if product not in found:
                    found.append(product)
        return found

    def _representatives(self, stabilizer):
        """One element of each coset g H."""
        seen, found = set(), []
        for n, g in enumerate(self._space):
            if n not in seen:
                found.append(n)
                seen |= {self._position(g @ self._space[h]) for h in stabilizer}
        return found

    def _moved(self, member, g):
        """The member (W^T, beta, L) moved by g: L becomes g L g^T, so Sigma becomes g Sigma g^T."""
        space, rho_in, rho_out = self._matrices[g]
        kernel, beta, factor = member
        return rho_in @ kernel @ rho_out.T, space @ beta, space @ factor @ space.T

    def _averaged(self, seed, stabilizer):
        return _mean([self._moved(seed, h) for h in stabilizer])

    def _title(self):
        sizes = " + ".join(str(len(x)) for x in self._cosets)
        channels = arrow(self.rep_in, self.rep_out)
        return f"orbits of {sizes} diffusions, {channels} of {self.rep_in.group.name}"


def _mean(members):
    return [np.mean(x, axis=0) for x in zip(*members, strict=True)]


def _by_name(members):
    arrays = map(np.array, zip(*members, strict=True))
    return dict(zip(MEMBER, arrays, strict=True))


def diffusion_orbits(
    rep_in: Representation,
    rep_out: Representation | None = None,
    orbits: Sequence = ("generic", "center"),
) -> DiffusionOrbits:
    """Equivariant sum_k W_k exp(D_k) under a finite group, as free parameters of a ``PNConv``.

    Args:
        rep_in: the representation of the input channels, of a finite orthogonal group.
        rep_out: the representation of the output channels. The default is ``rep_in``.
        orbits: the kind of each orbit. "generic" has as many members as the group has elements.
            "center" has one member, without drift, with an invariant diffusion and an intertwiner
            W. "mirror" (for D_n) has n members, with a drift along the axis of a reflection. Or
            give a list of group elements that generate the orbit's stabiliser.

    Returns:
        A ``DiffusionOrbits``.

    Raises:
        TypeError, ValueError: if an argument does not fit, or the group is not finite.

    Example: a layer that maps an image's scalars to vectors and commutes with quarter turns.

    >>> from equivariance import Cyclic, diffusion_orbits
    >>> c4 = Cyclic(4)
    >>> layer = diffusion_orbits(3 * c4.irrep(0), 2 * c4.irrep(1))
    >>> layer.num_basis
    5
    >>> weights = layer.weights(layer.initial(rng=0))
    >>> {name: x.shape for name, x in weights.items()}
    {'kernel': (5, 3, 4), 'drift': (5, 2), 'diffusion_factor': (5, 2, 2), 'bias': (4,)}
    """
    rep_in, rep_out = read_pair(rep_in, rep_out)
    group = rep_in.group
    if isinstance(orbits, str) or not isinstance(orbits, Sequence) or not len(orbits):
        raise ValueError(
            f"orbits must be a sequence of {list(KINDS)} or stabilisers, found {orbits!r}."
        )
    known = {"generic": [], "center": list(group.discrete_generators)}
    if isinstance(group, PlaneGroup) and group.reflections:
        known["mirror"] = [group.reflection()]
    stabilizers = []
    for n, orbit in enumerate(orbits):
        if isinstance(orbit, str):
            if orbit == "mirror" and not group.reflections:
                raise ValueError(f"orbits[{n}] is 'mirror', but {group.name} is no dihedral group.")
            if orbit not in known:
                raise ValueError(f"orbits[{n}] must be one of {list(KINDS)}, found {orbit!r}.")
            orbit = known[orbit]
        if not hasattr(orbit, "__iter__"):
            raise wrong_type(f"orbits[{n}]", f"one of {list(KINDS)} or group elements", orbit)
        stabilizers.append(list(orbit))
    return DiffusionOrbits(rep_in, rep_out, stabilizers)


def finite_elements(group):
    """All elements of a finite group of orthogonal matrices.

    Raises:
        ValueError: if the group is not finite, has matrices that are not orthogonal, or is too
            large.
    """
    if group.lie_generators:
        raise ValueError(
            f"{group.name} is not finite: under continuous rotations a sum of scalar diffusions "
            "has neither drift nor direction (prove_scalar_diffusions_trivial). Use "
            "solve_generators."
        )
    if not group.orthogonal:
        raise ValueError(f"The matrices of {group.name} are not orthogonal.")
    if hasattr(group, "elements"):
        found = group.elements()
    else:
        try:
            matrices, _ = group.elements_and_positions
        except NotImplementedError as error:
            raise ValueError(f"{group.name} is not finite, or has too many elements.") from error
        found = [MatrixElement(sympy.ImmutableMatrix(x.to_Matrix())) for x in matrices]
    if len(found) > MAX_SIZE:
        raise ValueError(
            f"{group.name} has {len(found)} elements; an orbit of at most {MAX_SIZE} is supported."
        )
    return found
