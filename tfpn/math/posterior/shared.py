"""One posterior for all channels of an example: one kernel, one noise, one factorisation."""

import dataclasses
from collections.abc import Callable
from typing import Any, Self

import tensorflow as tf

from tfpn.math.kernels import Kernel
from tfpn.math.posterior import algebra
from tfpn.math.posterior.interface import Functionals, Posterior
from tfpn.math.recompute import recomputed
from tfpn.math.shapes import axis_sizes, reshape, sizes
from tfpn.types import Tensor, Trains


@dataclasses.dataclass(frozen=True)
class SharedNoise(Posterior):
    """Posterior of channels that share kernel and noise. `factorise` makes it.

    Attributes:
        kernel: a kernel with scalar parameters, or with one for each example.
        points: [B, N, d].
        values: [B, N, c], 0 where unobserved.
        noise: variances [B, N], positive, +inf where unobserved.
        covariance: K(X, X), [B, N, N].
        whitener, log_det: the results of `tfpn.math.whiten`.
        likelihood_data: values, noise and covariance for the marginal likelihood. They equal the
            above, but have gradients only for what it trains.
        stages: as in `tfpn.math.posterior.Observed`.
    """

    kernel: Kernel
    points: tf.Tensor
    values: tf.Tensor
    noise: tf.Tensor
    covariance: tf.Tensor
    whitener: tf.Tensor
    log_det: tf.Tensor
    likelihood_data: tuple
    stages: tuple = ()

    def __tf_flatten__(self):
        return (), tuple(getattr(self, field.name) for field in dataclasses.fields(self))

    @classmethod
    def __tf_unflatten__(cls, metadata, components):
        return cls(*components)

    @property
    def channels(self) -> int:
        return self.values.shape[-1]

    @property
    def observations(self) -> tuple[Tensor, Tensor]:
        return self.values, tf.expand_dims(self.noise, 1)

    def condition(self, functionals: Functionals) -> Any:
        mean, explained = algebra.condition(
            functionals.cross(self.points), self.covariance, self.noise, self.values, self.whitener
        )
        return mean, tf.expand_dims(explained, 2), self.negative_log_marginal_likelihood()

    def mean(self, functionals: Functionals) -> Any:
        cross = functionals.cross(self.points)
        batch, queries, count, size = sizes(cross)
        mean = algebra.posterior_mean(
            reshape(cross, [batch, [queries, count], size]),
            *(self.covariance, self.noise, self.values, self.whitener),
        )
        mean = reshape(mean, [batch, queries, count, axis_sizes(self.values)[-1]])
        return mean, self.negative_log_marginal_likelihood()

    def solve(self, columns: Tensor) -> Any:
        batch, size, *shape = sizes(columns)
        flat = reshape(columns, [batch, size, shape])
        found = algebra.solve(self.covariance, self.noise, flat, self.whitener)
        return reshape(found, [batch, size, *shape]), self.negative_log_marginal_likelihood()

    def negative_log_marginal_likelihood(self) -> Tensor:
        values, noise, covariance = self.likelihood_data
        if self.stages:
            return algebra.negative_log_conditional_likelihood(
                covariance, noise, values, self.whitener, *self.stages
            )
        return algebra.negative_log_marginal_likelihood(
            covariance, noise, values, self.whitener, self.log_det
        )

    def select(self, channels: Any) -> Self:
        values, *others = self.likelihood_data
        return dataclasses.replace(
            self,
            values=tf.gather(self.values, channels, axis=-1),
            likelihood_data=(tf.gather(values, channels, axis=-1), *others),
        )

    def amplification(self) -> Tensor | None:
        rows = tf.reduce_sum(tf.abs(tf.stop_gradient(self.whitener)), axis=-1)
        return tf.stop_gradient(self.kernel.signal_std) * tf.norm(rows, axis=-1)

    def without(self, examples: Tensor) -> Self:
        none = tf.zeros([], self.whitener.dtype)
        return dataclasses.replace(
            self,
            whitener=tf.where(tf.reshape(examples, [-1, 1, 1]), none, self.whitener),
            log_det=tf.where(examples, none, self.log_det),
        )

    def frugal(self, function: Callable[..., Any], *tensors: Tensor) -> Any:
        return recomputed(function, self, *tensors)


def factorise(
    kernel: Kernel,
    points: Tensor,
    values: Tensor,
    noise: Tensor,
    likelihood_noise: Tensor,
    *,
    trains: Trains,
    attempt: bool = False,
    stages: tuple = (),
) -> SharedNoise:
    """Makes a `SharedNoise`.

    The factorisation is in float64. With N readings of one place, float32's rounding of the
    covariance matrix would count as a noise variance of about N times 1e-7 s^2.

    Args:
        kernel, points, values, noise: as in `SharedNoise`.
        likelihood_noise: equal to ``noise``; the marginal likelihood's gradient goes here.
        trains: "all", or "kernel" to keep that gradient from points and values.
        attempt: whether to factorise in the values' dtype instead, with NaN if that fails. Do not
            use an example whose `SharedNoise.amplification` is NaN or large.
        stages: as in `tfpn.math.posterior.Observed`.
    """
    covariance = kernel.covariance(points, points)
    likelihood_data = values, likelihood_noise, covariance
    if trains == "kernel":
        constant = _constant_in_points(covariance, kernel, points)
        likelihood_data = tf.stop_gradient(values), likelihood_noise, constant
    if attempt:
        whitener, log_det = algebra.attempted_whitening(covariance, noise)
    else:
        wide = covariance
        if values.dtype != tf.float64:
            fine = tf.cast(points, tf.float64)
            wide = kernel.cast(tf.float64).covariance(fine, fine)
        whitener, log_det = (
            tf.cast(t, values.dtype) for t in algebra.whiten(wide, tf.cast(noise, tf.float64))
        )
    return SharedNoise(
        kernel, points, values, noise, covariance, whitener, log_det, likelihood_data, stages
    )


def _constant_in_points(covariance, kernel, points):
    """The covariance matrix, with a gradient for only the kernel's parameters."""

    @tf.custom_gradient
    def same(covariance, *parameters):
        def gradient(upstream):
            with tf.GradientTape() as tape:
                tape.watch(parameters)
                again = tf.nest.pack_sequence_as(kernel, parameters)
                fixed = tf.stop_gradient(points)
                found = again.covariance(fixed, fixed)
            return None, *tape.gradient(found, parameters, upstream)

        return tf.identity(covariance), gradient

    return same(covariance, *tf.nest.flatten(kernel))
