"""Only variances: errors at different points and channels count as independent (the paper)."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfpn.math.activations import Activation
from tfpn.math.channels import mix_channels
from tfpn.math.neighbourhoods import Neighbourhoods, cells, integrals_over
from tfpn.math.operator import Operator, output_covariance
from tfpn.math.posterior import Fixed, Observed
from tfpn.math.precision import in_double_precision, in_float64_where_coarse
from tfpn.math.stochastic import Estimator, estimate_condition
from tfpn.math.uncertainty.base import Uncertainty, integrate, mix_values
from tfpn.types import Array, Observations, Tensor


@dataclasses.dataclass(frozen=True)
class Diagonal(Uncertainty):
    """A variance for each point and channel.

    Attributes:
        estimator: estimator of the convolution's variance; None for the exact variance.
    """

    estimator: Estimator | None = None

    takes_estimator = True
    takes_neighbourhoods = True
    takes_common_points = True
    is_steerable = True

    @property
    def takes_pieces(self) -> bool:  # type: ignore[override]
        return self.estimator is None  # an estimator's probes cover all points together

    def convolve(
        self, observed: Observed, operator: Operator, beside: Tensor | None, missing: Tensor
    ) -> Any:
        if self.estimator is not None:
            mean, variance, nll = self.estimate(observed, operator)
            # A noisy estimate of the variance may be negative.
            return mean, tf.nn.relu(variance), None, nll
        mean, variance, nll = in_float64_where_coarse(_moments, observed, operator)
        return mean, variance, None, nll

    @in_double_precision
    def estimate(self, observed: Observed, operator: Operator) -> Tensor:
        """Mean, estimated variance and negative log marginal likelihood."""
        response, variance, nll = estimate_condition(observed.posterior(), operator, self.estimator)
        return operator.mix(response), variance, nll

    @in_double_precision
    def integrate(
        self, observed: Observed, region: Mapping[str, Any], beside: Tensor | None
    ) -> Any:
        _, mean, variance, nll = integrate(observed.posterior(), region)
        return mean, variance, None, nll

    def integrate_near(
        self,
        neighbourhoods: Neighbourhoods,
        observed: Observed,
        region: Mapping[str, Any],
        beside: Tensor | None,
    ) -> Any:
        if neighbourhoods.is_whole(observed.points):
            return self.integrate(observed, region, beside)
        mean, variance, nll = self._integrate_cells(observed, region, neighbourhoods)
        return mean, variance, None, nll

    @in_double_precision
    def _integrate_cells(self, observed, region, neighbourhoods):
        blocks = neighbourhoods.blocks(observed)
        posterior = blocks.observed(observed).posterior()
        corners = cells(blocks, observed, region)
        once = integrals_over(region, posterior.kernel, posterior.points, *corners)
        if not region:
            mean, nll = posterior.mean(Fixed(once[:, None, None]))
            mean = blocks.total(mean[:, 0, 0])
            return mean, tf.fill(tf.shape(mean), tf.constant(np.inf, mean.dtype)), blocks.total(nll)
        whole, twice = posterior.kernel.integrals(posterior.points, **region)
        both = tf.expand_dims(tf.stack([once, whole], axis=1), 1)
        mean, explained, nll = posterior.condition(Fixed(both))
        mean = blocks.total(mean[:, 0, 0])
        variance = tf.nn.relu(twice - blocks.total(explained[:, 0, :, 0, 1]))
        variance = tf.broadcast_to(variance, tf.shape(mean))
        return mean, variance, blocks.total(nll)

    def mix(
        self,
        values: Tensor,
        variance: Tensor,
        beside: Tensor | None,
        kernel: Tensor,
        bias: Tensor | None,
        missing: Tensor,
    ) -> Any:
        mean = mix_values(values, kernel, bias, missing)
        # This is the paper's central-limit argument (eq. mixing).
        return mean, mix_channels(variance, tf.square(kernel)), None

    def activate(
        self,
        activation: Activation,
        values: Tensor,
        variance: Tensor,
        beside: Tensor | None,
        missing: Tensor,
    ) -> Any:
        return *activation.moments(values, variance), None

    def affine(self, beside: Tensor | None, factor: Tensor, values: Tensor) -> None:
        return None

    @in_double_precision
    def covariance(self, observed: Observed, operator: Operator, beside: Tensor | None) -> Tensor:
        return output_covariance(observed.posterior(), operator)

    def joint_covariance(self, pooled: Observations) -> Array:
        variance = np.asarray(pooled["variance"], np.float64)
        return variance[..., None] * np.eye(variance.shape[-1])


def _moments(posterior, *given):
    """Mean, variance and negative log marginal likelihood."""

    def moments(posterior, functionals, operator, prior_variance):
        response, explained, nll = posterior.condition(functionals)
        return operator.mix(response), operator.mix_variance(prior_variance, explained), nll

    # The kernels between all points, and the response of every flow and channel, are by far the
    # largest tensors of a layer.
    return posterior.frugal(moments, *given)
