"""Mixing of channels, point by point."""

from typing import Any

import keras
import tensorflow as tf

from tfpn.checks import check_count, check_flag
from tfpn.layers.base import GPLayer
from tfpn.math.missing import missing_mask, observed_only, penalty
from tfpn.math.uncertainty import carried_by
from tfpn.types import Config, Initializer, Observations, Tensor


@keras.saving.register_keras_serializable(package="tfpn")
class ChannelMix(GPLayer):
    """Linear map of the channels at each point: ``M f + b`` (eq. mixing).

    The variance is that of independent channels, ``sum_b M[b, a]^2 var_b``. This is the paper's
    central-limit argument: good for many weakly dependent channels, poor for few. With factors,
    only their remainder is taken as independent. With a joint covariance, nothing is. If one
    channel of a point is unobserved, all output channels are, because each one mixes all of them.

    Args:
        filters: number of output channels.
        use_bias: adds a learnable constant to each output channel.
        train_bias: whether the bias is trained. Give False if a normalisation takes constants away:
            the gradient is then only rounding, but Adam would still make full steps.
        kernel_initializer: for M [c_in, filters]; by default He's, which makes up for the half of
            the signal that a rectifier removes.
        bias_initializer: for b [filters].

    Input and output:
        The observations dict; points [B, N, d] pass through, values and variance [B, N, c_in]
        become [B, N, filters].

    Example:

    >>> import numpy as np, tfpn
    >>> x = tfpn.observations(np.zeros((1, 5, 2)), np.ones((1, 5, 3)), 1.0)
    >>> tfpn.layers.ChannelMix(4)(x)["variance"].shape
    TensorShape([1, 5, 4])
    """

    def __init__(
        self,
        filters: int,
        *,
        use_bias: bool = True,
        train_bias: bool = True,
        kernel_initializer: Initializer = "he_normal",
        bias_initializer: Initializer = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.filters = check_count("filters", filters)
        self.use_bias = check_flag("use_bias", use_bias)
        self.train_bias = check_flag("train_bias", train_bias)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)

    def build(self, observations_shape: Any) -> None:
        _, channels = self._built_for = self._check_shapes(observations_shape)
        self.kernel = self.add_weight(
            name="kernel", shape=(channels, self.filters), initializer=self.kernel_initializer
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias", shape=(self.filters,), initializer=self.bias_initializer
            )

    def call(self, observations: Observations, training: bool = False) -> dict[str, Tensor]:
        points, values, variance = self._unpack(observations)
        way = carried_by(observations)
        infinite = penalty(tf.reduce_max(variance, axis=-1, keepdims=True))
        missing = missing_mask(infinite)
        kernel = self._cast(self.kernel)
        mixed, variance, beside = way.mix(
            observed_only(values, missing),
            observed_only(variance, missing),
            self._read_beside(way, observations),
            kernel,
            self._read_bias(),
            missing,
        )
        return self._output(points, mixed, variance, infinite, way, beside)

    def compute_output_spec(self, observations: Observations, training: bool = False) -> Any:
        return self._spec_like(observations, self.filters)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "filters": self.filters,
            "use_bias": self.use_bias,
            "train_bias": self.train_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }
