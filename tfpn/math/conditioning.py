"""Observations and an RBF prior, ready to be conditioned on: noise shared or per channel."""

import dataclasses

import tensorflow as tf

from tfpn.math.channels import mix_channels
from tfpn.math.checks import floating, require_rank, require_static_dim
from tfpn.math.kernels import rbf_kernel
from tfpn.math.missing import missing_mask, observed_only, penalty
from tfpn.math.posterior import (
    condition,
    floored_variance,
    negative_log_marginal_likelihood,
    posterior_mean,
    whiten,
)

NOISE = ("shared", "channel")
TRAINS = ("kernel", "all")


@dataclasses.dataclass(frozen=True)
class Conditioning:
    """A zero-mean GP prior on each channel, its noisy observations and their factorisation.

    Made by `prepare`. The last axis of ``given_variance`` is the points'. With shared noise there
    is one factorisation for each example: given_variance [B, N], values [B, N, c]. With channel
    noise one for each channel: given_variance [B, c, N], values [B, c, N, 1].
    """

    points: tf.Tensor
    values: tf.Tensor
    given_variance: tf.Tensor
    observation_noise: tf.Tensor
    signal_std: tf.Tensor
    length_scale: tf.Tensor
    shared: bool
    whitener: tf.Tensor = None
    log_det: tf.Tensor = None

    def factorised(self):
        """The same with the whitener and the log determinant."""
        whitener, log_det = whiten(*self._matrices(self.points, self.given_variance))
        return dataclasses.replace(self, whitener=whitener, log_det=log_det)

    def _matrices(self, points, given_variance):
        """K and S's diagonal."""
        covariance = rbf_kernel(
            points, points, signal_std=self.signal_std, length_scale=self.length_scale
        )
        variance = floored_variance(given_variance + self.observation_noise, self.signal_std)
        return covariance if self.shared else self._for_channels(covariance), variance

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
        observed = *self._matrices(self.points, self.given_variance), self.values, self.whitener
        if self.shared:
            return condition(cross, *observed)
        mean, explained = condition(self._for_channels(cross), *observed)
        return tf.einsum("bcmkx->bmkc", mean), explained

    def posterior_mean(self, cross):
        """The means [B, M, K, c] of `posterior` alone."""
        shape = tf.shape(cross)
        flat = tf.reshape(cross, [shape[0], shape[1] * shape[2], shape[3]])
        observed = *self._matrices(self.points, self.given_variance), self.values, self.whitener
        if self.shared:
            mean = posterior_mean(flat, *observed)
        else:
            identity = tf.eye(shape[3], dtype=flat.dtype)
            identity = tf.broadcast_to(identity, tf.shape(self.whitener))
            weights = posterior_mean(identity, *observed)
            mean = tf.matmul(flat, tf.einsum("bcnx->bnc", weights))
        return tf.reshape(mean, tf.concat([shape[:3], tf.shape(mean)[-1:]], axis=0))

    def negative_log_marginal_likelihood(self, trains):
        """Of each channel, [B, c]; ``trains`` says what its gradient reaches, as in `convolve`."""
        if trains not in TRAINS:
            raise ValueError(
                f"marginal_likelihood_trains must be one of {TRAINS}, found {trains!r}."
            )
        data = self.points, self.given_variance, self.values
        if trains == "kernel":
            data = tuple(tf.stop_gradient(tensor) for tensor in data)
        points, given_variance, values = data
        nll = negative_log_marginal_likelihood(
            *self._matrices(points, given_variance), values, self.whitener, self.log_det
        )
        return nll if self.shared else nll[..., 0]


def prepare(points, values, variance, *, signal_std, length_scale, noise, observation_noise):
    """Checks observations and prior parameters and brings them into the form of `Conditioning`.

    What is not observed is replaced here, so that it can influence neither results nor gradients:
    values become 0, and so do coordinates of padding points that are not finite.
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
    _check_parameter_shapes(signal_std, length_scale, observation_noise, values.shape[-1])
    if noise == "shared":
        given = _shared_variance(variance)
        observed = tf.math.is_finite(given)[..., None]
        values = observed_only(values, missing_mask(penalty(given[..., None])))
        observation_noise = tf.reduce_mean(observation_noise)
    else:
        given = tf.linalg.matrix_transpose(variance)
        observed = tf.reduce_any(tf.math.is_finite(variance), axis=-1, keepdims=True)
        values = observed_only(values, missing_mask(penalty(variance)))
        values = tf.linalg.matrix_transpose(values)[..., None]
        observation_noise = observation_noise[..., None]
    # NaN fails this as well. One number for each factorisation's entry, so that it costs little.
    sign = tf.debugging.Assert(
        tf.reduce_all(given >= 0.0),
        ["variance is negative or NaN; it must be >= 0, or +inf where nothing is observed."],
    )
    finite = tf.math.is_finite(points)
    check = tf.debugging.Assert(
        tf.reduce_all(finite | ~observed),
        ["points holds NaN or infinity where a value is observed; check it by tfpn.observations."],
    )
    with tf.control_dependencies([c for c in (check, sign) if c is not None]):
        values = tf.identity(values)
    return Conditioning(
        # Not masked by `observed`: so all layers share one tensor of points, and the graph
        # optimiser computes what depends on points alone once for a whole network.
        points=tf.where(finite, points, 0.0),
        values=values,
        given_variance=given,
        observation_noise=observation_noise,
        signal_std=signal_std,
        length_scale=length_scale,
        shared=noise == "shared",
    ).factorised()


def _shared_variance(variance):
    """Mean over the channels, [B, N]; +inf where the point is not observed."""
    channels = variance.shape[-1]
    if channels == 1:
        return variance[..., 0]
    ones = tf.ones([channels, 1], variance.dtype)
    shared = mix_channels(variance, ones / channels)[..., 0]
    # A point has some precision if any of its channels is observed.
    precision = mix_channels(tf.math.reciprocal(tf.stop_gradient(variance)), ones)[..., 0]
    check = tf.debugging.Assert(
        tf.reduce_all(tf.math.is_finite(shared) == (precision > 0.0)),
        [
            "noise='shared' needs all channels of a point to be observed or missing together, but "
            "some points are observed in some channels only. Use noise='channel' "
            "(input_noise='channel' of a model)."
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


def _check_parameter_shapes(signal_std, length_scale, observation_noise, channels):
    require_rank(signal_std, "signal_std", ())
    require_rank(length_scale, "length_scale", ())
    shape = observation_noise.shape
    if shape.rank != 0 and not shape.is_compatible_with([channels]):
        raise ValueError(
            f"observation_noise has shape {shape}, expected a scalar or one for each of the "
            f"{channels} channels."
        )
