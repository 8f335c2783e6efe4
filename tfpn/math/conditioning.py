"""Observations and an RBF prior, ready to be conditioned on: noise shared or per channel."""

import dataclasses

import tensorflow as tf

from tfpn.math.channels import mix_channels
from tfpn.math.checks import floating, require_rank, require_static_dim, same_sizes
from tfpn.math.kernels import rbf_kernel
from tfpn.math.missing import missing_mask, observed_only, penalty
from tfpn.math.posterior import (
    condition,
    floored_variance,
    negative_log_marginal_likelihood,
    posterior_mean,
    whiten,
)
from tfpn.math.sporadic import condition_channels, condition_pairs, solve_pairs

NOISE = ("shared", "channel")
TRAINS = ("kernel", "all")


@dataclasses.dataclass(frozen=True)
class Conditioning:
    """A zero-mean GP prior on each channel and its noisy observations.

    Made by `prepare`. The last axis of ``given_variance`` is the points'. With shared noise there
    is one factorisation for each example, held here: given_variance [B, N], values [B, N, c]. With
    channel noise there is one for each channel, made block by block where it is needed:
    given_variance [B, c, N], values [B, c, N, 1].
    """

    points: tf.Tensor
    values: tf.Tensor
    given_variance: tf.Tensor
    observation_noise: tf.Tensor
    signal_std: tf.Tensor
    length_scale: tf.Tensor
    shared: bool
    floor_dtype: tf.DType
    whitener: tf.Tensor = None
    log_det: tf.Tensor = None

    @property
    def each_prior(self):
        """Whether every channel has a signal standard deviation and a length scale of its own."""
        return self.signal_std.shape.rank > 0

    def factorised(self):
        """The same with the whitener and the log determinant, for shared noise.

        Both are computed in float64: among N readings of one place, float32's rounding of the
        covariance matrix would count as a noise variance of some N times 1e-7 signal_std^2.
        """
        matrices = self._matrices(self.points, self.given_variance, tf.float64)
        whitener, log_det = (tf.cast(t, self.values.dtype) for t in whiten(*matrices))
        return dataclasses.replace(self, whitener=whitener, log_det=log_det)

    def amplification(self):
        """By how much the whitener F may enlarge rounding errors of covariances c in ``F c``, [B].

        The bound ``|F c'| <= amplification * max |c'| / signal_std``: the root of the sum over
        rows of their absolute sums' squares, times signal_std.
        """
        rows = tf.reduce_sum(tf.abs(tf.stop_gradient(self.whitener)), axis=-1)
        return tf.stop_gradient(self.signal_std) * tf.norm(rows, axis=-1)

    def _matrices(self, points, given_variance, dtype=None):
        """K and S's diagonal, for shared noise."""
        points, signal_std, length_scale, noise = (
            tf.cast(t, dtype or t.dtype)
            for t in (points, self.signal_std, self.length_scale, self._noise(given_variance))
        )
        covariance = rbf_kernel(points, points, signal_std=signal_std, length_scale=length_scale)
        return covariance, noise

    def _noise(self, given_variance):
        # With channel noise the prior may differ from channel to channel.
        signal_std = self.signal_std[:, None] if self.each_prior else self.signal_std
        noise = given_variance + self.observation_noise
        floored = floored_variance(*(tf.cast(t, self.floor_dtype) for t in (noise, signal_std)))
        return tf.cast(floored, noise.dtype)

    def _pairs(self, trains):
        """Arguments of the functions for pairs of example and channel."""
        _check_trains(trains)
        variance = nll_variance = self._noise(self.given_variance)
        if trains == "kernel":
            nll_variance = self._noise(tf.stop_gradient(self.given_variance))
        positional = self.points, variance, self.values, self.signal_std, self.length_scale
        return positional, {"nll_variance": nll_variance, "nll_trains_data": trains == "all"}

    def condition(self, cross, trains):
        """`posterior` and `negative_log_marginal_likelihood` in one pass over the channels."""
        if self.shared:
            return *self.posterior(cross), self.negative_log_marginal_likelihood(trains)
        positional, options = self._pairs(trains)
        mean, explained, nll = condition_pairs(cross, *positional, **options)
        return tf.transpose(mean, [0, 2, 3, 1]), explained, nll

    def condition_flows(self, query, trains, *, drift, diffusion):
        """`condition` for channels with priors of their own, by points and flows."""
        positional, options = self._pairs(trains)
        mean, explained, nll = condition_channels(
            query, *positional, drift=drift, diffusion=diffusion, **options
        )
        return tf.transpose(mean, [0, 2, 3, 1]), explained, nll

    def condition_mean(self, cross, trains):
        """`posterior_mean` and `negative_log_marginal_likelihood` in one pass."""
        if self.shared:
            return self.posterior_mean(cross), self.negative_log_marginal_likelihood(trains)
        weights, nll = self.solve(self.values, trains)
        return response(cross, tf.linalg.matrix_transpose(weights[..., 0])), nll

    def solve(self, columns, trains):
        """With channel noise, ``(K + S_b)^-1 columns_b`` [B, c, N, q] and the likelihood."""
        positional, options = self._pairs(trains)
        return solve_pairs(columns, *positional, **options)

    def given(self):
        """With shared noise, what `tfpn.math.posterior.condition` takes beside ``cross``."""
        matrices = self._matrices(self.points, self.given_variance)
        return *matrices, self.values, self.whitener

    def posterior(self, cross):
        """Posterior of K functionals at M points.

        Args:
            cross: prior covariances with the observed points, [B, M, K, N].

        Returns:
            The means [B, M, K, c] and what the observations explain of the prior covariance:
            [B, M, K, K] with shared noise, [B, c, M, K, K] with channel noise.
        """
        if not self.shared:
            return self.condition(cross, "all")[:2]
        return condition(cross, *self.given())

    def posterior_mean(self, cross):
        """The means [B, M, K, c] of `posterior` alone."""
        if not self.shared:
            return self.condition_mean(cross, "all")[0]
        shape = tf.shape(cross)
        flat = tf.reshape(cross, [shape[0], shape[1] * shape[2], shape[3]])
        matrices = self._matrices(self.points, self.given_variance)
        mean = posterior_mean(flat, *matrices, self.values, self.whitener)
        return tf.reshape(mean, tf.concat([shape[:3], tf.shape(mean)[-1:]], axis=0))

    def negative_log_marginal_likelihood(self, trains):
        """Of each channel, [B, c]; ``trains`` says what its gradient reaches, as in `convolve`."""
        _check_trains(trains)
        if not self.shared:
            return self.solve(self.values, trains)[1]
        data = self.points, self.given_variance, self.values
        if trains == "kernel":
            data = tuple(tf.stop_gradient(tensor) for tensor in data)
        points, given_variance, values = data
        return negative_log_marginal_likelihood(
            *self._matrices(points, given_variance), values, self.whitener, self.log_det
        )


def _check_trains(trains):
    if trains not in TRAINS:
        raise ValueError(f"marginal_likelihood_trains must be one of {TRAINS}, found {trains!r}.")


def response(cross, weights):
    """``sum_n cross[m, k, n] weights[n, b]``, [B, M, K, N] and [B, N, c] -> [B, M, K, c]."""
    shape = tf.shape(cross)
    flat = tf.matmul(tf.reshape(cross, [shape[0], shape[1] * shape[2], shape[3]]), weights)
    return tf.reshape(flat, tf.concat([shape[:3], tf.shape(weights)[-1:]], axis=0))


def prepare(
    points, values, variance, *, signal_std, length_scale, noise, observation_noise,
    floor_dtype=None,
):  # fmt: skip
    """Checks observations and prior parameters and brings them into the form of `Conditioning`.

    What is not observed is replaced here, so that it can influence neither results nor gradients:
    values become 0, and so do coordinates of padding points that are not finite.
    Arguments and errors are those of `tfpn.math.convolve`. The least noise variance is that of
    ``floor_dtype``, by default that of values.
    """
    if noise not in NOISE:
        raise ValueError(f"noise must be one of {NOISE}, found {noise!r}.")
    values = floating(values, "values")
    points, variance, signal_std, length_scale, observation_noise = (
        tf.convert_to_tensor(t, values.dtype)
        for t in (points, variance, signal_std, length_scale, observation_noise)
    )
    _check_shapes(points, values, variance)
    sizes = same_sizes(
        "points, values and variance disagree on the number of examples or points:",
        *(points, values, variance),
    )
    with tf.control_dependencies(sizes):
        values, variance = tf.identity(values), tf.identity(variance)
    _check_parameter_shapes(signal_std, length_scale, observation_noise, values.shape[-1], noise)
    if max(signal_std.shape.rank, length_scale.shape.rank):
        signal_std, length_scale = (
            tf.broadcast_to(t, [values.shape[-1]]) for t in (signal_std, length_scale)
        )
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
    gp = Conditioning(
        # Not masked by `observed`: so all layers share one tensor of points, and the graph
        # optimiser computes what depends on points alone once for a whole network.
        points=tf.where(finite, points, 0.0),
        values=values,
        given_variance=given,
        observation_noise=observation_noise,
        signal_std=signal_std,
        length_scale=length_scale,
        shared=noise == "shared",
        floor_dtype=floor_dtype or values.dtype,
    )
    return gp.factorised() if gp.shared else gp


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
            "(input_noise='channel' of a model). A variance above 1e37 in float32 (1e307 in "
            "float64) counts as not observed: give it as inf."
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


def _check_parameter_shapes(signal_std, length_scale, observation_noise, channels, noise):
    for name, tensor in (("signal_std", signal_std), ("length_scale", length_scale)):
        if tensor.shape.rank and noise != "channel":
            raise ValueError(
                f"{name} has shape {tensor.shape}: priors of each channel need noise='channel', "
                f"found {noise!r}; give a scalar."
            )
    for name, tensor in (
        ("signal_std", signal_std),
        ("length_scale", length_scale),
        ("observation_noise", observation_noise),
    ):
        if tensor.shape.rank != 0 and not tensor.shape.is_compatible_with([channels]):
            raise ValueError(
                f"{name} has shape {tensor.shape}, expected a scalar or one for each of the "
                f"{channels} channels."
            )
