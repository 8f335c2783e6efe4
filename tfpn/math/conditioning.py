"""Observations and an RBF prior, ready to be conditioned on: noise shared or per channel."""

import dataclasses

import tensorflow as tf

from tfpn.math.checks import floating, require_rank, require_static_dim
from tfpn.math.kernels import rbf_kernel
from tfpn.math.posterior import (
    condition,
    floored_variance,
    negative_log_marginal_likelihood,
    posterior_mean,
)

NOISE = ("shared", "channel")
TRAINS = ("kernel", "all")


@dataclasses.dataclass(frozen=True)
class Conditioning:
    """A zero-mean GP prior on each channel and its noisy observations (see `prepare`).

    The last axis of ``variance`` is the points'. With shared noise there is one factorisation for
    each example: variance [B, N], values [B, N, c]. With channel noise one for each channel:
    variance [B, c, N], values [B, c, N, 1].
    """

    points: tf.Tensor
    values: tf.Tensor
    given_variance: tf.Tensor
    observation_noise: tf.Tensor
    signal_std: tf.Tensor
    length_scale: tf.Tensor
    shared: bool

    @property
    def variance(self):
        """Noise variance with the learnable part and the floor, +inf where unobserved."""
        return self._noise(self.given_variance)

    def _noise(self, given):
        return floored_variance(given + self.observation_noise, self.signal_std)

    def _covariance(self, points):
        covariance = rbf_kernel(
            points, points, signal_std=self.signal_std, length_scale=self.length_scale
        )
        return covariance if self.shared else self._for_channels(covariance)

    def _for_channels(self, tensor):
        """Repeats [B, ...] for every channel, [B, c, ...]."""
        shape = tf.concat([tf.shape(self.given_variance)[:2], tf.shape(tensor)[1:]], axis=0)
        return tf.broadcast_to(tensor[:, None], shape)

    def posterior(self, cross):
        """Posterior of K functionals at M points.

        Args:
            cross: prior covariances with the observed points, [B, M, K, N].

        Returns:
            The means [B, M, K, c] and what the observations explain of the prior covariance:
            [B, M, K, K] with shared noise, [B, c, M, K, K] with channel noise.
        """
        if self.shared:
            return condition(cross, self._covariance(self.points), self.variance, self.values)
        mean, explained = condition(
            self._for_channels(cross), self._covariance(self.points), self.variance, self.values
        )
        return tf.einsum("bcmkx->bmkc", mean), explained

    def posterior_mean(self, cross):
        """The means [B, M, K, c] of `posterior` alone."""
        shape = tf.shape(cross)
        flat = tf.reshape(cross, [shape[0], shape[1] * shape[2], shape[3]])
        covariance = self._covariance(self.points)
        if self.shared:
            mean = posterior_mean(flat, covariance, self.variance, self.values)
        else:
            identity = tf.broadcast_to(
                tf.eye(shape[3], dtype=flat.dtype), tf.shape(covariance)
            )
            weights = posterior_mean(identity, covariance, self.variance, self.values)
            mean = tf.matmul(flat, tf.einsum("bcnx->bnc", weights))
        return tf.reshape(mean, tf.concat([shape[:3], tf.shape(mean)[-1:]], axis=0))

    def negative_log_marginal_likelihood(self, trains):
        """Of each channel, [B, c]; ``trains`` says what its gradient reaches, as in `convolve`."""
        if trains not in TRAINS:
            raise ValueError(
                f"marginal_likelihood_trains must be one of {TRAINS}, found {trains!r}."
            )
        points, values, given = self.points, self.values, self.given_variance
        if trains == "kernel":
            points, values, given = (tf.stop_gradient(t) for t in (points, values, given))
        nll = negative_log_marginal_likelihood(
            self._covariance(points), self._noise(given), values
        )
        return nll if self.shared else nll[..., 0]


def prepare(points, values, variance, *, signal_std, length_scale, noise, observation_noise):
    """Checks observations and prior parameters and brings them into the form of `Conditioning`.

    What is not observed is replaced here, once, so that it can influence neither results nor
    gradients: values become 0, and so do the points at which nothing is observed.
    Arguments and errors are those of `tfpn.math.convolve`.
    """
    if noise not in NOISE:
        raise ValueError(f"noise must be one of {NOISE}, found {noise!r}.")
    values = floating(values, "values")
    points, variance, signal_std, length_scale, observation_noise = (
        tf.convert_to_tensor(t, values.dtype)
        for t in (points, variance, signal_std, length_scale, observation_noise)
    )
    _check_shapes(points, values, variance)
    if noise == "shared":
        given = _shared_variance(variance)
        observed = tf.math.is_finite(given)[..., None]
        values = tf.where(observed, values, 0.0)
        observation_noise = tf.reduce_mean(observation_noise)
    else:
        given = tf.linalg.matrix_transpose(variance)
        entries = tf.math.is_finite(variance)
        observed = tf.reduce_any(entries, axis=-1, keepdims=True)
        values = tf.linalg.matrix_transpose(tf.where(entries, values, 0.0))[..., None]
        observation_noise = observation_noise[..., None]
    return Conditioning(
        points=tf.where(observed, points, 0.0),
        values=values,
        given_variance=given,
        observation_noise=observation_noise,
        signal_std=signal_std,
        length_scale=length_scale,
        shared=noise == "shared",
    )


def _shared_variance(variance):
    """Mean over the channels, [B, N]; +inf where the point is not observed."""
    shared = tf.reduce_mean(variance, axis=-1)
    complete = tf.math.is_finite(shared) == tf.math.is_finite(tf.reduce_min(variance, axis=-1))
    check = tf.debugging.Assert(
        tf.reduce_all(complete),
        [
            "noise='shared' needs all channels of a point to be observed or missing together, but "
            "some points are observed in some channels only. Use noise='channel'."
        ],
    )
    with tf.control_dependencies([] if check is None else [check]):
        return tf.identity(shared)


def _check_shapes(points, values, variance):
    require_rank(points, "points", ("B", "N", "d"))
    require_rank(values, "values", ("B", "N", "c"))
    require_static_dim(points, "points")
    if not values.shape[:2].is_compatible_with(points.shape[:2]):
        raise ValueError(
            f"values has shape {values.shape}, but points has shape {points.shape}: the numbers "
            "of examples and points must agree."
        )
    if not variance.shape.is_compatible_with(values.shape):
        raise ValueError(
            f"variance has shape {variance.shape}, expected that of values, {values.shape}."
        )
