"""The interface of strategies that carry uncertainty through a network's layers."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import tensorflow as tf

from tfpn.math.activations import Activation
from tfpn.math.channels import mix_channels
from tfpn.math.neighbourhoods import Neighbourhoods, in_neighbourhoods
from tfpn.math.operator import Operator
from tfpn.math.posterior import Fixed, Observed, Posterior
from tfpn.types import Array, Observations, Shape, Tensor


@dataclasses.dataclass(frozen=True)
class Uncertainty(abc.ABC):
    """A way to carry the uncertainty of feature maps.

    Feature maps have a mean and a variance for each point and channel. Some strategies add a tensor
    about the joint errors at different points and channels. It is called ``beside`` here, and is
    None for other strategies. In the observations dict it has the key `key`. All tensors are
    finite: variances and ``beside`` are 0 where ``missing`` is 1.
    """

    # The key of ``beside`` in the observations dict, or None.
    key: ClassVar[str | None] = None
    # Whether features have a variance at all.
    has_variance = True
    # Whether channels may have their own noise in a convolution.
    takes_channel_noise = True
    # Whether its convolutions take an estimator of the variance.
    takes_estimator = False
    # Whether a convolution may take many query points piece by piece.
    takes_pieces = False
    # Whether to compute integrals of finite variance in float64.
    integrates_in_float64 = True
    # Whether errors of integrals over parts of a region may count as independent.
    may_split = True
    # Whether ``beside`` of an integral over R^d, which has infinite variance, means something.
    keeps_over_space = False
    # Whether its layers draw random numbers.
    draws = False
    # Whether it works with neighbourhoods, that is, keeps the errors of different blocks.
    takes_neighbourhoods = False
    # Whether a convolution may take examples of the same points as channels of one example.
    takes_common_points = False
    # Whether steerable layers take it.
    is_steerable = False

    @abc.abstractmethod
    def convolve(
        self, observed: Observed, operator: Operator, beside: Tensor | None, missing: Tensor
    ) -> Any:
        """Applies an operator to the posterior of observations.

        Args:
            observed: `tfpn.math.posterior.Observed`.
            operator: `tfpn.math.operator.Operator`.
            beside: ``beside`` of the observations, or None.
            missing: [B, M, 1], 1 at query points that are padding and 0 elsewhere.

        Returns:
            mean and variance [B, M, c_out], ``beside`` of the result, and the negative log marginal
            likelihood [B, c_in].
        """

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
        """`convolve`, with each point's posterior conditioned on observations near it.

        Strategies that take neighbourhoods have it. This method is for those without ``beside``.

        Args:
            neighbourhoods: the sizes of neighbourhoods.
            observed, operator, beside, missing: as in `convolve`.
            own: whether the query points are the observed points.
        """

        def convolved(observed, operator):
            missing = tf.zeros_like(operator.query[..., :1])
            mean, variance, _, nll = self.convolve(observed, operator, None, missing)
            return mean, variance, nll

        mean, variance, nll = in_neighbourhoods(
            neighbourhoods, convolved, observed, operator, own=own
        )
        return mean, variance, None, nll

    def integrate_near(
        self,
        neighbourhoods: Neighbourhoods,
        observed: Observed,
        region: Mapping[str, Any],
        beside: Tensor | None,
    ) -> Any:
        """`integrate`, as a sum of integrals of local posteriors over the blocks' cells.

        Strategies that take neighbourhoods have it.
        """
        raise NotImplementedError

    def marginals(
        self, observed: Observed, operator: Operator, beside: Tensor | None, missing: Tensor
    ) -> Any:
        """Only mean and variance of `convolve`, without sampling errors, for `process`."""
        return self.convolve(observed, operator, beside, missing)[:2]

    @abc.abstractmethod
    def integrate(
        self, observed: Observed, region: Mapping[str, Any], beside: Tensor | None
    ) -> Any:
        """The integral of a posterior over a region.

        Args:
            observed: `tfpn.math.posterior.Observed`.
            region: dict of a ``box``, ``disc`` or ``ball``, as in `Kernel.integrals`; empty for
                R^d.
            beside: ``beside`` of the observations, or None.

        Returns:
            mean and variance [B, c] (infinite over R^d), ``beside`` of the result, and the negative
            log marginal likelihood [B, c].
        """

    @abc.abstractmethod
    def mix(
        self,
        values: Tensor,
        variance: Tensor,
        beside: Tensor | None,
        kernel: Tensor,
        bias: Tensor | None,
        missing: Tensor,
    ) -> Any:
        """Mean, variance and ``beside`` of ``M f + b``.

        Args:
            values, variance, beside: mean, variance and ``beside`` of f.
            kernel: M^T, [c_in, c_out].
            bias: b [c_out], or None.
            missing: [B, N, 1].
        """

    @abc.abstractmethod
    def activate(
        self,
        activation: Activation,
        values: Tensor,
        variance: Tensor,
        beside: Tensor | None,
        missing: Tensor,
    ) -> Any:
        """Mean, variance and ``beside`` of ``h(f)``, with h applied to each entry."""

    @abc.abstractmethod
    def affine(self, beside: Tensor | None, factor: Tensor, values: Tensor) -> Tensor:
        """``beside`` of ``factor * f + shift``, with factors [c]; ``values`` are its mean."""

    @abc.abstractmethod
    def covariance(self, observed: Observed, operator: Operator, beside: Tensor | None) -> Tensor:
        """Covariances of each output of an operator between query points, [B, c_out, M, M].

        Args:
            observed, operator, beside: as in `convolve`. The channels share kernel and noise.
        """

    @abc.abstractmethod
    def joint_covariance(self, pooled: Observations) -> Array:
        """The covariance of pooled channels [B, c, c], from the pooled dict of NumPy arrays."""

    @staticmethod
    def query_points(channels: int) -> int | None:
        """The number of query points that a convolution takes at once to save memory; None: all."""
        return None

    def shape(self, values_shape: Shape, given: Shape | None = None) -> Any:
        """The shape of the tensor under `key` for values of a shape, or None.

        Args:
            values_shape: [B, N, c], or [B, c] for pooled values.
            given: the shape under `key` in the layer's input, or None.
        """
        return None

    def read(self, tensor: Tensor) -> Tensor:
        """``beside`` from the tensor under `key` in the observations dict."""
        return tensor

    def write(self, beside: Tensor) -> Tensor:
        """The tensor for the observations dict from ``beside``."""
        return beside


def mix_values(values: Tensor, kernel: Tensor, bias: Tensor | None, missing: Tensor) -> Tensor:
    """``M values + b``, 0 where ``missing`` is 1."""
    return mix_channels(values, kernel, bias) * (1.0 - missing)


def integrate(posterior: Posterior, region: Mapping[str, Any]) -> Any:
    """Integrates a posterior over a region.

    Returns:
        The covariance of the integral with the points [B, N], the mean [B, c], the variance [B, c]
        (infinite over R^d), and the negative log marginal likelihood [B, c].
    """
    once, twice = posterior.kernel.integrals(posterior.points, **region)
    functional = Fixed(once[:, None, None])
    if not region:
        mean, nll = posterior.mean(functional)
        mean = mean[:, 0, 0]
        return once, mean, tf.fill(tf.shape(mean), twice), nll
    mean, explained, nll = posterior.condition(functional)
    mean = mean[:, 0, 0]
    variance = tf.nn.relu(twice - explained[:, 0, :, 0, 0])
    return once, mean, tf.broadcast_to(variance, tf.shape(mean)), nll
