"""Generators from free parameters, in the exact bases of the package `equivariance`."""

import functools

import numpy as np
import tensorflow as tf

from tfpn.math.steerable.groups import ALL_ROTATIONS

CONSTRAINTS = ("dissipative", "free")


class GeneratorFamily:
    """The generators on a representation rho that commute with a group.

    Args:
        frequencies: the increasing frequencies of rho's parts, spins in space, such as (0, 1, 2).
        constraint: "dissipative" for generators whose exponentials never amplify, or "free" for all
            equivariant ones (see `equivariance.GeneratorSolution.parameterization`).
        group: a `tfpn.math.steerable.groups.FieldGroup`.

    Attributes:
        parameters: for each array of free parameters an object with ``name``, ``shape``,
            ``length_power``, and ``scale`` and ``center`` of the initial values for lengths of 1.

    Example:

    >>> from tfpn.math.steerable.generators import generator_family
    >>> family = generator_family((0, 1), "dissipative")
    >>> [(p.name, p.shape) for p in family.parameters]
    [('antisymmetric', (1,)), ('symmetric', (2,)), ('factors', (1, 8))]
    >>> c, b, s = family.tensors(family.initial(0, count=4, transport=0.1, spread=0.05), "float64")
    >>> c.shape, b.shape, s.shape
    (TensorShape([4, 3, 3]), TensorShape([4, 2, 3, 3]), TensorShape([4, 2, 2, 3, 3]))
    """

    def __init__(self, frequencies, constraint, group):
        # This import needs no TensorFlow, but half a second for sympy.
        from equivariance import solve_generators
        from equivariance.second_order import second_order

        group.check_frequencies(frequencies)
        self._second_order, self._dim = second_order, group.dim
        rho = group.representation(frequencies)
        found = solve_generators(rho).parameterization(constraint)
        self.parameters = found.parameters
        self.size = rho.dim
        self._bases = {
            p.name: found.bases[p.name].assemble(np.eye(p.shape[-1])) for p in self.parameters
        }

    def initial(self, seed, *, count, transport, spread):
        """Random initial parameters of several generators.

        Args:
            seed: a whole number.
            count: K, the number of generators.
            transport, spread: lengths over which a flow carries and diffuses channels.

        Returns:
            A dict from names to float64 arrays [K, *shape].
        """
        rng, found = np.random.default_rng(seed), {}
        for p in self.parameters:
            length = spread if p.name in ("factors", "second_order") else transport
            drawn = p.center + p.scale * rng.normal(size=(count, *p.shape))
            found[p.name] = drawn * length**p.length_power
        return found

    def tensors(self, values, dtype):
        """C [K, r, r], B [K, d, r, r] and S [K, d, d, r, r] of the parameters.

        Args:
            values: a dict from names to tensors [K, *shape].
            dtype: dtype of the results.
        """
        count = next(iter(values.values())).shape[0]
        found = {
            name: tf.tensordot(tf.cast(value, dtype), tf.constant(self._bases[name], dtype), 1)
            for name, value in values.items()
        }
        shapes = [[count, *[self._dim] * order, self.size, self.size] for order in range(3)]
        if "factors" in found:
            found["second_order"] = self._second_order(found["factors"], tf.einsum)
        names = (
            ("antisymmetric", "zeroth_order"), ("symmetric", "first_order"), ("second_order",)
        )  # fmt: skip
        return tuple(
            next((found[name] for name in some if name in found), tf.zeros(shape, dtype))
            for some, shape in zip(names, shapes, strict=True)
        )


@functools.lru_cache(maxsize=64)
def generator_family(frequencies, constraint, group=ALL_ROTATIONS[2]):
    """The `GeneratorFamily`; it is made once for equal arguments."""
    if constraint not in CONSTRAINTS:
        raise ValueError(f"constraint must be one of {CONSTRAINTS}, found {constraint!r}.")
    return GeneratorFamily(frequencies, constraint, group)
