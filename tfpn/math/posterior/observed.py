"""Observations and a prior, ready to be conditioned on."""

import dataclasses
from collections.abc import Callable
from typing import Any, Self

import tensorflow as tf

from tfpn.math.channels import mix_channels
from tfpn.math.kernels import Kernel
from tfpn.math.missing import missing_mask, observed_only, penalty
from tfpn.math.posterior.algebra import floored_variance
from tfpn.math.posterior.channel import ChannelNoise
from tfpn.math.posterior.factored import factored
from tfpn.math.posterior.interface import Posterior
from tfpn.math.posterior.shared import factorise
from tfpn.types import DType, Tensor, Trains

TRAINS = ("kernel", "all")


@dataclasses.dataclass(frozen=True)
class Observed:
    """Noisy observations of channels with a zero-mean GP prior. All tensors have one dtype.

    Attributes:
        points: [B, N, d], finite where something is observed.
        values: [B, N, c], anything where unobserved.
        variance: [B, N, c], >= 0, +inf where unobserved.
        kernel: the prior's kernel.
        noise: a key of `NOISE`.
        observation_variance: added to ``variance`` where observed, scalar or [c].
        trains: the reach of the marginal likelihood's gradient, one of `TRAINS`: "all", or "kernel"
            to keep it from points, values and variance.
        double_precision: whether to compute float32 observations in float64 where the digits of
            float32 do not suffice (`tfpn.math.precision`).
        floor_dtype: the dtype whose least noise variance holds. The default is that of values.
        by_factor: whether the posterior uses triangular systems, which are slower and more exact
            (`tfpn.math.posterior.factored`). It needs noise="shared".
        stages: () for the marginal likelihood of all points. (stage,) for that of some points given
            others: a tensor [B, N], not decreasing along the points. It is 0 at given points, 1 at
            points whose likelihood it is, and 2 at points that are left out.
        most: the largest number of points that a channel observed if that is known to be less than
            N, or None.
    """

    points: tf.Tensor
    values: tf.Tensor
    variance: tf.Tensor
    kernel: Kernel
    noise: str
    observation_variance: tf.Tensor
    trains: Trains = "all"
    double_precision: bool = False
    floor_dtype: tf.DType = None
    by_factor: bool = False
    stages: tuple = ()
    most: Any = None

    def cast(self, dtype: DType) -> Self:
        """The same in another dtype."""
        return dataclasses.replace(
            self,
            points=tf.cast(self.points, dtype),
            values=tf.cast(self.values, dtype),
            variance=tf.cast(self.variance, dtype),
            kernel=self.kernel.cast(dtype),
            observation_variance=tf.cast(self.observation_variance, dtype),
            stages=tuple(tf.cast(stage, dtype) for stage in self.stages),
        )

    @property
    def needs_float64(self) -> bool:
        """Whether these are float32 observations to compute in float64."""
        return self.double_precision and self.values.dtype == tf.float32

    def widened(self) -> Self:
        """The same in float64 if `needs_float64`."""
        return self.cast(tf.float64) if self.needs_float64 else self

    def posterior(self) -> Posterior:
        """Makes the `Posterior`. Unobserved entries are replaced here, and influence nothing."""
        return NOISE[self.noise].posterior(self)

    def channel(self, index: Any) -> Self:
        """The observations of one channel."""
        noise, kernel, here = self.observation_variance, self.kernel, slice(index, index + 1)
        return dataclasses.replace(
            self,
            values=self.values[..., here],
            variance=self.variance[..., here],
            kernel=kernel.map(lambda t: t[index]) if kernel.each else kernel,
            noise="shared",
            observation_variance=noise[index] if noise.shape.rank else noise,
        )

    def noise_variance(self, given: Tensor) -> Tensor:
        """``given`` plus the observation noise, raised to the least variance of the dtype.

        Args:
            given: variances [B, N], or [B, c, N] with noise for each channel.
        """
        noise, signal_std = self.observation_variance, self.kernel.signal_std
        if given.shape.rank == 2:
            noise = tf.reduce_mean(noise)
        else:
            noise, signal_std = tf.expand_dims(noise, -1), tf.expand_dims(signal_std, -1)
        dtype = self.floor_dtype or given.dtype
        floored = floored_variance(tf.cast(given + noise, dtype), tf.cast(signal_std, dtype))
        return tf.cast(floored, given.dtype)

    def finite_points(self) -> Tensor:
        """The points, with 0 for coordinates of padding that are not finite.

        Unobserved points are not masked. So all layers share one tensor of points, and the graph
        optimiser computes its functions once for a whole network.
        """
        return tf.where(tf.math.is_finite(self.points), self.points, 0.0)

    def likelihood_noise(self, given: Tensor) -> Tensor:
        """The `noise_variance` for the marginal likelihood, with the gradient that it trains."""
        return self.noise_variance(tf.stop_gradient(given) if self.trains == "kernel" else given)


def _shared(observed):
    given = _shared_variance(observed.variance)
    arguments = (
        observed.kernel,
        observed.finite_points(),
        observed_only(observed.values, missing_mask(penalty(tf.expand_dims(given, -1)))),
        observed.noise_variance(given),
    )
    if observed.by_factor:
        return factored(*arguments)
    return factorise(
        *arguments,
        observed.likelihood_noise(given),
        trains=observed.trains,
        stages=observed.stages,
    )


def _by_channel(observed):
    given = tf.linalg.matrix_transpose(observed.variance)
    values = observed_only(observed.values, missing_mask(penalty(observed.variance)))
    return ChannelNoise(
        observed.kernel,
        observed.finite_points(),
        tf.linalg.matrix_transpose(values),
        observed.noise_variance(given),
        observed.likelihood_noise(given),
        observed.trains,
        observed.stages,
        observed.most,
    )


@dataclasses.dataclass(frozen=True)
class NoiseForm:
    """A form of the noise of an example's channels.

    Attributes:
        posterior: a function that makes the `Posterior` of an `Observed`.
        each: whether every channel has its own noise and its own observed points.
    """

    posterior: Callable[[Observed], Posterior]
    each: bool = False


# The forms by the names that layers and models take. To add one, add a line here.
NOISE = {"shared": NoiseForm(_shared), "channel": NoiseForm(_by_channel, each=True)}

# Whether channels with their own noise share one prior or have a prior each.
PRIORS = ("shared", "channel")


def _shared_variance(variance):
    """The mean over the channels, [B, N]; +inf where the point is not observed."""
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
