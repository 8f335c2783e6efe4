"""Kriging of readings that arrive one after the other.

The covariance matrix A of N readings has a Cholesky factor L. m more readings border both:

    A' = [[A, k], [k^T, c]]    L' = [[L, 0], [l^T, M]]    l = L^-1 k   M M^T = c - l^T l

A includes the readings' noise and the trend with its prior V. With the values y and the white
values ``w = L^-1 y``, the results of `tfpn.math.kriging.krige` are

    mean = (L^-1 k_q)^T w     var = k(q, q) - |L^-1 k_q|^2     q = |w|^2

All is in float64. A missing reading (variance +inf) has a row of the identity.
"""

import dataclasses
import math
from typing import Any, Self

import tensorflow as tf

from tfpn.math.kernels import Kernel
from tfpn.math.posterior.algebra import least_variance
from tfpn.types import Tensor


@dataclasses.dataclass(frozen=True)
class Sequence:
    """The readings so far, in G groups of C / G channels: 1 group, or one for each channel.

    `start` makes a sequence, and `update` makes another one from it. A sequence does not change.

    Attributes:
        kernel: the kernel of the field without its trend, with scalar parameters or one for each
            channel.
        noise: variance to add to the given variance of a reading, [G].
        trend_variance: the diagonal of V, [p].
        points: [B, N, d].
        basis: the trend's basis functions at the points, [B, N, p].
        seen: 1 where there is a reading and 0 elsewhere, [B, G, N].
        factor: L, [B, G, N, N].
        white: w, [B, G, N, C / G].
    """

    kernel: Kernel
    noise: tf.Tensor
    trend_variance: tf.Tensor
    points: tf.Tensor
    basis: tf.Tensor
    seen: tf.Tensor
    factor: tf.Tensor
    white: tf.Tensor

    def update(self, points: Tensor, basis: Tensor, values: Tensor, variance: Tensor) -> Self:
        """A sequence with m more readings of every example.

        Args:
            points: [B, m, d].
            basis: [B, m, p].
            values: [B, m, C], anything where nothing was read.
            variance: [B, m, C], +inf where nothing was read. The channels of a group are read
                together.

        Raises:
            tf.errors.InvalidArgumentError: if the factor is not finite.
        """
        groups = self.white.shape[1]
        grouped = [_grouped(t, groups) for t in (values, variance)]
        given = tf.reduce_mean(grouped[1], axis=-1)  # [B, G, m]
        seen = tf.cast(tf.math.is_finite(given), values.dtype)
        values = tf.where(seen[..., None] > 0.0, grouped[0], 0.0)
        cross = self._covariance(self.points, self.basis, points, basis)
        cross *= self.seen[..., None] * seen[..., None, :]
        bordered = tf.linalg.triangular_solve(self.factor, cross)  # l [B, G, N, m]
        count = tf.reduce_sum(self.seen, -1) + tf.reduce_sum(seen, -1)
        floor = least_variance(self.kernel.signal_std, count)[..., None]
        noise = tf.where(seen > 0.0, tf.maximum(given + self.noise[:, None], floor), 1.0)
        corner = self._covariance(points, basis, points, basis)
        corner *= seen[..., None] * seen[..., None, :]
        corner += tf.linalg.diag(noise)
        corner -= tf.matmul(bordered, bordered, transpose_a=True)
        corner = tf.debugging.check_numerics(
            tf.linalg.cholesky(corner),
            "the covariance of the new readings could not be factorised: their variance is too "
            "small for float64, or a point is not finite",
        )
        rest = values - tf.matmul(bordered, self.white, transpose_a=True)
        white = tf.linalg.triangular_solve(corner, rest)
        above = tf.concat([self.factor, tf.zeros_like(bordered)], axis=-1)
        below = tf.concat([tf.linalg.matrix_transpose(bordered), corner], axis=-1)
        return dataclasses.replace(
            self,
            points=tf.concat([self.points, points], 1),
            basis=tf.concat([self.basis, basis], 1),
            seen=tf.concat([self.seen, seen], 2),
            factor=tf.concat([above, below], axis=2),
            white=tf.concat([self.white, white], axis=2),
        )

    def predict(self, query: Tensor, basis: Tensor, dof: Tensor | None = None) -> Any:
        """Mean and variance of each channel at query points, without noise.

        Args:
            query: [B, M, d].
            basis: the trend's basis functions there, [B, M, p].
            dof: as in `tfpn.math.kriging.krige`.

        Returns:
            Mean and variance [B, M, C], and the factor of the variances [B, C].
        """
        cross = self._covariance(self.points, self.basis, query, basis) * self.seen[..., None]
        white = tf.linalg.triangular_solve(self.factor, cross)  # [B, G, N, M]
        mean = _channels(tf.matmul(white, self.white, transpose_a=True))
        prior = tf.reduce_sum(tf.square(basis) * self.trend_variance, axis=-1)[:, None]
        signal = tf.reshape(self.kernel.variance, [-1, 1])  # [1 or C, 1]
        variance = prior + signal - tf.reduce_sum(tf.square(white), axis=2)
        variance = tf.nn.relu(tf.linalg.matrix_transpose(variance)) + tf.zeros_like(mean)
        factor = tf.ones_like(mean[:, 0])
        if dof is not None:
            squares = _channels(tf.reduce_sum(tf.square(self.white), axis=2, keepdims=True))
            count = tf.reduce_sum(self.seen, axis=-1) + tf.zeros_like(factor)
            factor = (dof + squares[:, 0]) / (dof + count)
        return mean, variance * factor[:, None], factor

    def negative_log_likelihood(self) -> Tensor:
        """The negative log marginal likelihood of each channel's readings so far, [B, C]."""
        count = tf.reduce_sum(self.seen, axis=-1)
        logs = tf.reduce_sum(tf.math.log(tf.linalg.diag_part(self.factor)), axis=-1)
        squares = tf.reduce_sum(tf.square(self.white), axis=2)  # [B, G, C / G]
        found = 0.5 * squares + (logs + 0.5 * count * math.log(2.0 * math.pi))[..., None]
        return tf.reshape(found, [tf.shape(found)[0], -1])

    def _covariance(self, first, first_basis, second, second_basis):
        """The covariance between two sets of points, including the trend, [B, G, N, M]."""
        smooth = self.kernel.covariance(first[:, None], second[:, None])
        trend = tf.matmul(first_basis * self.trend_variance, second_basis, transpose_b=True)
        return smooth + trend[:, None]


def start(
    kernel: Kernel,
    noise: Tensor,
    trend_variance: Tensor,
    examples: int,
    dim: int,
    channels: int,
    each: bool,
) -> Sequence:
    """A `Sequence` without a reading.

    Args:
        kernel: as in `Sequence`, in float64.
        noise: scalar, or [channels].
        trend_variance: [p].
        examples, dim, channels: B, d and C.
        each: whether each channel is read independently, with its own noise.

    Example: two readings, one after the other.

    >>> import tensorflow as tf
    >>> from tfpn.math.kernels import Kernel
    >>> from tfpn.math.sequential import start
    >>> one = tf.ones([1, 1, 1], tf.float64)
    >>> readings = start(Kernel(one[0, 0, 0], one[0, 0, 0]), 0.0 * one[0, 0, 0], one[0, 0, :0],
    ...                  examples=1, dim=1, channels=1, each=False)
    >>> for place, value in ((0.0, 1.0), (0.0, 3.0)):
    ...     readings = readings.update(place * one, one[..., :0], value * one, one)
    >>> mean, variance, _ = readings.predict(0.0 * one, one[..., :0])
    >>> round(float(mean[0, 0, 0]), 6), round(float(variance[0, 0, 0]), 6)
    (1.333333, 0.333333)
    """
    groups = channels if each else 1
    dtype = trend_variance.dtype
    return Sequence(
        kernel,
        tf.broadcast_to(noise, [groups]),
        trend_variance,
        tf.zeros([examples, 0, dim], dtype),
        tf.zeros([examples, 0, trend_variance.shape[0]], dtype),
        tf.zeros([examples, groups, 0], dtype),
        tf.zeros([examples, groups, 0, 0], dtype),
        tf.zeros([examples, groups, 0, channels // groups], dtype),
    )


def _grouped(tensor, groups):
    """[B, m, C] -> [B, G, m, C / G]."""
    if groups == 1:
        return tensor[:, None]
    return tf.linalg.matrix_transpose(tensor)[..., None]


def _channels(tensor):
    """[B, G, M, C / G] -> [B, M, C]."""
    if tensor.shape[1] == 1:
        return tensor[:, 0]
    return tf.linalg.matrix_transpose(tensor[..., 0])
