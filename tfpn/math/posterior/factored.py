"""A posterior by triangular systems, which is slower and more exact than products."""

import dataclasses
import math
from typing import Any, Self

import tensorflow as tf

from tfpn.math.kernels import Kernel
from tfpn.math.posterior.interface import Functionals, Posterior
from tfpn.math.shapes import reshape, sizes
from tfpn.types import Tensor


@dataclasses.dataclass(frozen=True)
class Factored(Posterior):
    """Posterior of channels that share kernel and noise, by the Cholesky factor of ``I + D K D``.

    Between close points with little noise, `SharedNoise` has errors of up to 1e-4 of the prior
    variance in float64. This posterior has errors of 1e-14. It serves covariances between many
    query points. TensorFlow computes its derivatives.

    Attributes:
        kernel: a kernel with scalar parameters.
        points: [B, N, d].
        values: [B, N, c], 0 where unobserved.
        noise: variances [B, N], positive, +inf where unobserved.
        factor: L of ``L L^T = I + D K D`` with D^2 the precisions, [B, N, N].
    """

    kernel: Kernel
    points: tf.Tensor
    values: tf.Tensor
    noise: tf.Tensor
    factor: tf.Tensor

    @property
    def channels(self) -> int:
        return self.values.shape[-1]

    @property
    def observations(self) -> tuple[Tensor, Tensor]:
        return self.values, tf.expand_dims(self.noise, 1)

    def condition(self, functionals: Functionals) -> Any:
        cross = functionals.cross(self.points)
        batch, queries, count, size = sizes(cross)
        flat = reshape(cross, [batch, [queries, count], size])
        white = tf.linalg.matrix_transpose(self.white(tf.linalg.matrix_transpose(flat)))
        mean = tf.matmul(white, self.white(self.values))
        white = reshape(white, [batch, queries, count, size])
        explained = tf.matmul(white, white, transpose_b=True)
        mean = reshape(mean, [batch, queries, count, self.channels])
        return mean, tf.expand_dims(explained, 2), self.negative_log_marginal_likelihood()

    def mean(self, functionals: Functionals) -> Any:
        cross = functionals.cross(self.points)
        batch, queries, count, size = sizes(cross)
        mean = tf.matmul(reshape(cross, [batch, [queries, count], size]), self._solve(self.values))
        mean = reshape(mean, [batch, queries, count, self.channels])
        return mean, self.negative_log_marginal_likelihood()

    def solve(self, columns: Tensor) -> Any:
        batch, size, *shape = sizes(columns)
        found = self._solve(reshape(columns, [batch, size, shape]))
        return reshape(found, [batch, size, *shape]), self.negative_log_marginal_likelihood()

    def negative_log_marginal_likelihood(self) -> Tensor:
        observed = tf.math.is_finite(self.noise)
        count = tf.reduce_sum(tf.cast(observed, self.values.dtype), axis=-1)
        logs = tf.where(observed, tf.math.log(self.noise), 0.0)
        log_det = tf.reduce_sum(2.0 * tf.math.log(tf.linalg.diag_part(self.factor)) + logs, axis=-1)
        squares = tf.reduce_sum(tf.square(self.white(self.values)), axis=-2)
        return 0.5 * (squares + tf.expand_dims(log_det + count * math.log(2.0 * math.pi), 1))

    def select(self, channels: Any) -> Self:
        return dataclasses.replace(self, values=tf.gather(self.values, channels, axis=-1))

    def _root(self):
        observed = tf.math.is_finite(self.noise)
        return tf.expand_dims(tf.where(observed, tf.math.rsqrt(self.noise), 0.0), -1)

    def white(self, columns):
        """``L^-1 D columns`` [B, N, n]; their products are the explained parts of covariances."""
        return tf.linalg.triangular_solve(self.factor, self._root() * columns)

    def _solve(self, columns):
        white = self.white(columns)
        return self._root() * tf.linalg.triangular_solve(self.factor, white, adjoint=True)


def factored(kernel: Kernel, points: Tensor, values: Tensor, noise: Tensor) -> Factored:
    """Makes a `Factored` posterior; the arguments are its attributes."""
    observed = tf.math.is_finite(noise)
    root = tf.where(observed, tf.math.rsqrt(noise), 0.0)
    scaled = kernel.covariance(points, points) * tf.expand_dims(root, -1) * tf.expand_dims(root, -2)
    identity = tf.eye(sizes(scaled)[-1] or tf.shape(scaled)[-1], dtype=scaled.dtype)
    factor = tf.debugging.check_numerics(
        tf.linalg.cholesky(scaled + identity),
        "the covariance of the observations could not be factorised: their variance is too small "
        "for this dtype, or a length scale or signal is not finite",
    )
    return Factored(kernel, points, values, noise, factor)
