"""What flows of the plane and of space share: symbols along one axis, and how far they reach."""

import abc
import math

import numpy as np
import tensorflow as tf

from tfpn.math.steerable.radial import RESOLUTION, quadrature, series_matrix


class Flows(abc.ABC):
    """The symbols of K equivariant flows at the nodes' radii, and the kernel's spectrum there.

    Args:
        zeroth_order, first_order, second_order: C [K, r, r], B [K, d, r, r], S [K, d, d, r, r] in
            float64, in the basis of the real fields of rho.
        frequencies: the sorted tuple of the frequencies of rho's parts, spins in space.
        signal_std, length_scale: scalars of the prior.
        dtype: dtype of the results, float32 or float64. All inside is float64.

    Attributes:
        dim: d.
        directions: unit vectors [A, d] along which the symbols are computed; equivariance gives
            all others.
        count: K.
        reach: distance, in length scales, beyond which the kernel under all flows has decayed.
        unit: L, the tables' unit of length: the length scale, or more if a flow reaches farther
            than the largest table. The tables then cut off a part of relative size
            ``exp(-(U l / L)^2 / 2)``, or less if the flow damps it.
        level: index of the first series that holds the flows' reach, an int32 scalar.
    """

    dim: int
    directions: np.ndarray
    # Whether singular values of B come in pairs, because a rotation by pi changes its sign.
    _paired = True

    def __init__(self, zeroth_order, first_order, second_order, frequencies, signal_std,
                 length_scale, dtype):  # fmt: skip
        self.dtype, self.resolution = dtype, RESOLUTION[dtype]
        self.frequencies = tuple(frequencies)
        signal_std, length_scale = (
            tf.cast(tf.convert_to_tensor(t, dtype), tf.float64) for t in (signal_std, length_scale)
        )
        one = self.directions
        two = one[:, :, None] * one[:, None]
        along = (
            tf.einsum("ai,kirs->akrs", tf.constant(one), first_order),
            tf.einsum("aij,kijrs->akrs", tf.constant(two), second_order),
        )
        self.reach = self._reach(*along, length_scale)
        reaches = tf.constant(self.resolution.reaches, tf.float64)
        farther = tf.maximum(self.reach / reaches[-1], tf.ones([], tf.float64))
        self.unit = tf.stop_gradient(length_scale) * farther
        self.level = tf.reduce_sum(tf.cast(self.reach > reaches[:-1], tf.int32))
        self.count = first_order.shape[0]
        nodes, self._weights = quadrature(self.resolution, self.dim)
        radii = nodes / self.unit
        # M(i r e) = C + i r B - r^2 S, [A Q, K, r, r]
        r = radii[:, None, None, None]
        first, second = (part[:, None] for part in along)
        exponent = tf.complex(zeroth_order - tf.square(r) * second, r * first)
        exponent = tf.reshape(exponent, [-1, *zeroth_order.shape])
        self._symbols = self._exponentials(exponent)
        # The transform of the kernel over that of the plane waves, for integrals over u^(d-1) du.
        amplitude = tf.square(signal_std) * tf.pow(length_scale / self.unit, float(self.dim))
        self._spectrum = self._measure * amplitude * tf.exp(
            -0.5 * tf.square(length_scale * radii)
        )  # fmt: skip

    # What remains of the kernel's transform and of the angles' integral beside s^2 (l / L)^d.
    _measure: float

    @abc.abstractmethod
    def _exponentials(self, exponent):
        """exp of [A Q, K, r, r], as a list of blocks [..., n, n]."""

    @abc.abstractmethod
    def prior(self, group, kind):
        """``E[z^k conj z^k']`` of a kind before any observation, from the inputs of a group.

        Returns:
            [K mu, K mu] in float64. Where it is complex and the field is real, its real part
            counts.
        """

    def series_matrix(self, order, level):
        """`tfpn.math.steerable.radial.series_matrix` of the flows' tables."""
        return series_matrix(abs(order), self.resolution, level, self.dim)

    def _reach(self, first_order, second_order, length_scale):
        first_order, second_order, length_scale = (
            tf.stop_gradient(t) for t in (first_order, second_order, length_scale)
        )

        def norm(matrices):
            return tf.sqrt(tf.reduce_max(tf.reduce_sum(tf.square(matrices), axis=[-2, -1])))

        speed = norm(first_order) / (math.sqrt(2.0) if self._paired else 1.0)
        spread = tf.sqrt(tf.square(length_scale) + 2.0 * norm(second_order))
        return (speed + self.resolution.margin * spread) / length_scale

    def two_sided(self):
        """The same with E E^H in place of E, for (A k A')."""
        found = object.__new__(type(self))
        found.__dict__.update(self.__dict__)
        found._symbols = [tf.matmul(block, block, adjoint_b=True) for block in self._symbols]
        return found
