"""Coherent uncertainty by draws of the function, each of which passes through the network.

By Matheron's rule a draw of the posterior is a draw f~ of the prior plus a correction:

    f~(x) + k(x, X) (K + S)^-1 (y - f~(X) - eps)        eps ~ N(0, S)

An operator acts in closed form on the prior draw's plane waves (`tfpn.math.waves`). On the
correction it acts as on a posterior mean. In a later layer each draw is an exact reading of a
function, up to the layer's observation noise. Draws are [B, S, N, c], 0 where unobserved. Values
and variance are their mean and variance: the moments of the mixture of S draws.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfpn.math.activations import Activation
from tfpn.math.channels import mix_channels
from tfpn.math.missing import missing_mask, observed_only, penalty
from tfpn.math.neighbourhoods import Neighbourhoods, cells, in_neighbourhoods, integrals_over
from tfpn.math.operator import Operator, output_covariance
from tfpn.math.posterior import NOISE, Fixed, Observed
from tfpn.math.precision import in_double_precision, in_float64
from tfpn.math.random import normal
from tfpn.math.ranks import middle, ranks
from tfpn.math.uncertainty.base import Uncertainty
from tfpn.math.uncertainty.diagonal import Diagonal
from tfpn.math.waves import Waves, draw_waves
from tfpn.types import Array, Observations, Shape, Tensor

# Key of the observations dict.
DRAWS = "draws"

# Offsets of the seed for the parts of a draw.
_NOISE_SEED = 1 << 24


@dataclasses.dataclass(frozen=True)
class Sampled(Uncertainty):
    """Draws of the functions, S for each example.

    Attributes:
        samples: S for the first convolution. Later layers take the number of their input.
        waves: number of plane waves in a draw of a prior.
        seed: integer tensor [2]; None for zeros.
        fresh: whether every example has its own draws, as in training. Otherwise all examples share
            the draws, and the observed points get noise by their order along a fixed direction. So
            the result for an example does not depend on other examples, on the order of its points
            or on padding.
    """

    samples: int = 16
    waves: int = 128
    seed: tf.Tensor | None = None
    fresh: bool = False

    key = DRAWS
    integrates_in_float64 = False
    keeps_over_space = True
    takes_neighbourhoods = True
    draws = True
    is_steerable = True

    def convolve(
        self, observed: Observed, operator: Operator, beside: Tensor | None, missing: Tensor
    ) -> Any:
        return self._convolve(self._correction, observed, operator, beside, missing)

    def convolve_near(
        self,
        neighbourhoods: Neighbourhoods,
        observed: Observed,
        operator: Operator,
        beside: Tensor | None,
        missing: Tensor,
        *,
        own: bool,
    ) -> Any:
        """As `Uncertainty.convolve_near`; all blocks share the draws of the prior and the noise."""
        if neighbourhoods.is_whole(observed.points, own):
            return self.convolve(observed, operator, beside, missing)
        correction = functools.partial(self._correction_near, neighbourhoods, own)
        return self._convolve(correction, observed, operator, beside, missing)

    def _convolve(self, correction, observed, operator, beside, missing):
        observed = _readings(observed, beside, operator)
        waves = self._waves(observed, beside)
        prior = waves(observed.finite_points())
        moved = operator.flowed(waves)(operator.query)
        correction, nll = correction(observed, operator, beside, prior)
        draws = (moved + correction) * (1.0 - missing[:, None])
        return *draw_moments(draws), draws, nll

    @in_double_precision
    def _correction(self, observed, operator, beside, prior):
        """The readings' correction of the operator's result, with the bias, [B, S, M, c_out]."""
        posterior = observed.posterior()
        return operator.respond(posterior, self._residual(posterior, beside, prior))

    def _correction_near(self, neighbourhoods, own, *given):
        def correction(observed, operator, beside, prior):
            def respond(observed, operator, *parts):
                posterior = observed.posterior()
                response, nll = operator.respond(posterior, _residual_in_block(posterior, *parts))
                return tf.transpose(response, [0, 2, 1, 3]), nll

            parts = self._parts(observed, beside, prior)
            response, nll = in_neighbourhoods(
                neighbourhoods, respond, observed, operator, own=own, tensors=parts
            )
            return tf.transpose(response, [0, 2, 1, 3]), nll

        return in_float64(correction, *given)

    @in_double_precision
    def integrate(
        self, observed: Observed, region: Mapping[str, Any], beside: Tensor | None
    ) -> Any:
        """As `Uncertainty.integrate`.

        A prior draw has no integral over R^d. There each draw is pooled by the integral of its
        posterior mean. The variance is infinite, but the draws' spread is finite.
        """
        observed = _readings(observed, beside)
        posterior = observed.posterior()
        once, twice = observed.kernel.integrals(posterior.points, **region)
        readings = posterior.observations[0][:, None] if beside is None else beside
        if region:
            waves = self._waves(observed, beside)
            readings = self._residual(posterior, beside, waves(posterior.points))
        response, nll = posterior.respond(Fixed(once[:, None, None]), readings)
        draws = response[:, :, 0, 0]
        if region:
            draws += waves.integral(region)
        mean, variance = draw_moments(draws)
        return mean, variance if region else tf.fill(tf.shape(mean), twice), draws, nll

    def integrate_near(
        self,
        neighbourhoods: Neighbourhoods,
        observed: Observed,
        region: Mapping[str, Any],
        beside: Tensor | None,
    ) -> Any:
        if neighbourhoods.is_whole(observed.points):
            return self.integrate(observed, region, beside)
        return self._integrate_cells(observed, region, beside, neighbourhoods)

    @in_double_precision
    def _integrate_cells(self, observed, region, beside, neighbourhoods):
        observed = _readings(observed, beside)
        blocks = neighbourhoods.blocks(observed)
        posterior = blocks.observed(observed).posterior()
        corners = cells(blocks, observed, region)
        once = integrals_over(region, posterior.kernel, posterior.points, *corners)
        if region:
            waves = self._waves(observed, beside)
            parts = self._parts(observed, beside, waves(observed.finite_points()))
            readings = _residual_in_block(posterior, *map(blocks.take, parts))
        else:
            readings = posterior.observations[0][:, None]
            if beside is not None:
                readings = _by_draw(blocks.take(_by_point(beside)))
        response, nll = posterior.respond(Fixed(once[:, None, None]), readings)
        draws = blocks.total(response[:, :, 0, 0])
        if region:
            draws += waves.integral(region)
        mean, variance = draw_moments(draws)
        infinite = tf.fill(tf.shape(mean), tf.constant(math.inf, mean.dtype))
        return mean, variance if region else infinite, draws, blocks.total(nll)

    def mix(
        self,
        values: Tensor,
        variance: Tensor,
        beside: Tensor | None,
        kernel: Tensor,
        bias: Tensor | None,
        missing: Tensor,
    ) -> Any:
        draws = mix_channels(beside, kernel, bias) * (1.0 - missing[:, None])
        return *draw_moments(draws), draws

    def activate(
        self,
        activation: Activation,
        values: Tensor,
        variance: Tensor,
        beside: Tensor | None,
        missing: Tensor,
    ) -> Any:
        draws = activation.apply(beside)
        if not activation.keeps_zero:
            draws *= 1.0 - missing[:, None]
        return *draw_moments(draws), draws

    def affine(self, beside: Tensor | None, factor: Tensor, values: Tensor) -> Tensor:
        assert beside is not None
        if beside.shape[1] == 1:
            return values[:, None]
        mean = tf.reduce_mean(beside, axis=1, keepdims=True)
        return values[:, None] + factor * (beside - mean)

    def marginals(
        self, observed: Observed, operator: Operator, beside: Tensor | None, missing: Tensor
    ) -> Any:
        """As `Uncertainty.marginals`, by the law of total variance, without new draws."""
        readings = _readings(observed, beside, operator)
        mean, variance, *_ = Diagonal().convolve(readings, operator, None, missing)
        if beside is None:
            return mean, variance
        mean, between = draw_moments(self._means(readings, operator, beside))
        return mean, variance + between

    @in_double_precision
    def covariance(self, observed: Observed, operator: Operator, beside: Tensor | None) -> Tensor:
        readings = _readings(observed, beside, operator)
        covariance = output_covariance(readings.posterior(), operator)
        if beside is not None:
            means = self._means(readings, operator, beside)
            means -= tf.reduce_mean(means, axis=1, keepdims=True)
            between = tf.einsum("bsma,bsna->bamn", means, means)
            covariance += between / tf.cast(means.shape[1], means.dtype)
        return covariance

    @in_double_precision
    def _means(self, observed, operator, beside):
        """The operator applied to the posterior mean of each draw, [B, S, M, c_out]."""
        return operator.respond(observed.posterior(), beside)[0]

    def joint_covariance(self, pooled: Observations) -> Array:
        draws = np.asarray(pooled[DRAWS], np.float64)
        deviations = draws - draws.mean(axis=1, keepdims=True)
        return np.swapaxes(deviations, 1, 2) @ deviations / draws.shape[1]

    @staticmethod
    def query_points(channels: int) -> int | None:
        return 512  # each of them for all draws and operators

    def shape(self, values_shape: Shape, given: Shape | None = None) -> Any:
        batch, *others = values_shape
        return (batch, None if given is None else given[1], *others)

    def _waves(self, observed: Observed, beside: Tensor | None) -> Waves:
        """Draws of the prior, as many as of the readings."""
        known = tf.reduce_any(tf.math.is_finite(observed.variance), axis=-1, keepdims=True)
        centre = middle(observed.finite_points(), known)
        return draw_waves(
            observed.kernel,
            observed.values.shape[-1],
            centre,
            samples=self.samples if beside is None else beside.shape[1],
            waves=self.waves,
            seed=self._seed(known),
            fresh=self.fresh,
            wide=observed.needs_float64,
        )

    def _seed(self, known):
        """The seed, hidden from a compiler as if it were not constant.

        Otherwise XLA would draw all numbers while it compiles, which takes minutes.
        """
        seed = tf.zeros([2], tf.int32) if self.seed is None else self.seed
        return seed + tf.cast(tf.reduce_max(tf.cast(known, tf.int32)) > 1, tf.int32)

    def _residual(self, posterior, beside, prior):
        """``y - f~(X) - eps``, [B, S, N, c]."""
        values, variance = posterior.observations
        readings = values[:, None] if beside is None else beside
        known = tf.math.is_finite(variance)
        std = tf.where(known, tf.sqrt(tf.where(known, variance, 1.0)), 0.0)
        ties = None if beside is not None else values
        samples, channels = prior.shape[1], values.shape[-1]
        noise = self._noise(posterior.points, known, std, ties, samples, channels)
        return readings - prior - noise * tf.linalg.matrix_transpose(std)[:, None]

    def _parts(self, observed, beside, prior):
        """The arguments of `_residual_in_block`, each [B, N, S, c], for all points at once.

        They include the readings if these are draws.
        """
        given = observed.variance
        if NOISE[observed.noise].each:
            variance = observed.noise_variance(tf.linalg.matrix_transpose(given))
        else:
            variance = observed.noise_variance(tf.reduce_mean(given, axis=-1))[:, None]
        known = tf.math.is_finite(variance)
        std = tf.where(known, tf.sqrt(tf.where(known, variance, 1.0)), 0.0)
        ties = None
        if beside is None:
            missing = missing_mask(penalty(given))
            ties = observed_only(observed.values, missing)
        noise = self._noise(
            observed.finite_points(), known, std, ties, prior.shape[1], given.shape[-1]
        )
        readings = () if beside is None else (beside,)
        return tuple(map(_by_point, (prior, noise, *readings)))

    def _noise(self, points, known, std, values, samples, channels):
        """Standard normal numbers, [B, S, N, c]."""
        seed = self._seed(known) + tf.constant([0, _NOISE_SEED])
        batch, size = tf.shape(points)[0], tf.shape(points)[1]
        if self.fresh:
            shape = [batch, samples, size, channels]
            return normal(shape, seed, points.dtype)
        # The first rows do not depend on the number of rows.
        table = normal([size, channels, samples], seed, points.dtype)
        number = ranks(points, known, std, values)  # [B, G, N]
        if number.shape[1] == 1:
            found = tf.gather(table, number[:, 0])
        else:
            flat = tf.reshape(table, [size * channels, samples])
            rows = tf.linalg.matrix_transpose(number) * channels + tf.range(channels)
            found = tf.gather(flat, rows)
        return tf.transpose(found, [0, 3, 1, 2])


def _by_point(draws):
    """Transposes [B, S, N, c] to [B, N, S, c], for blocks."""
    return tf.transpose(draws, [0, 2, 1, 3])


_by_draw = _by_point  # and back


def _residual_in_block(posterior, prior, noise, *readings):
    """`Sampled._residual` for blocks, from the `Sampled._parts` of their points."""
    values, variance = posterior.observations
    known = tf.math.is_finite(variance)
    std = tf.where(known, tf.sqrt(tf.where(known, variance, 1.0)), 0.0)
    found = _by_draw(readings[0]) if readings else values[:, None]
    return found - _by_draw(prior) - _by_draw(noise) * tf.linalg.matrix_transpose(std)[:, None]


def _readings(observed, draws, operator=None):
    """The observations as they are, or draws as readings.

    The draws' noise is the variance that exceeds that of the draws: mostly none. The values are
    then the first draw, and the marginal likelihood is that of this draw.
    """
    if draws is None:
        return observed
    _, spread = draw_moments(draws)
    if operator is not None:
        spread = operator.in_common(spread)
    variance = tf.nn.relu(tf.stop_gradient(observed.variance - spread))
    return dataclasses.replace(observed, values=draws[:, 0], variance=variance)


def draw_moments(draws: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance over the draws, each [B, S, ...] -> [B, ...]."""
    if draws.shape[1] == 1:
        return draws[:, 0], tf.zeros_like(draws[:, 0])
    mean = tf.reduce_mean(draws, axis=1)
    return mean, tf.reduce_mean(tf.math.squared_difference(draws, mean[:, None]), axis=1)
