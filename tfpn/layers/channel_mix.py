"""Mixing of channels, point by point."""

import keras
import tensorflow as tf

from tfpn.layers.base import GPLayer, check_count, check_flag
from tfpn.math.channels import mix_channels
from tfpn.math.joint import marginal_variance, mix_covariance, observed_pairs
from tfpn.math.low_rank import factor_variance, remainder_variance
from tfpn.math.missing import missing_mask, observed_only, penalty


@keras.saving.register_keras_serializable(package="tfpn")
class ChannelMix(GPLayer):
    """Linear map of the channels at each point: ``M f + b`` (eq. mixing).

    The variance is that of independent channels, ``sum_b M[b, a]^2 var_b``: the paper's
    central-limit argument, good for many weakly dependent channels and poor for few. With factors
    only their remainder is taken as independent, with a joint covariance nothing is. A point with
    an unobserved channel comes out unobserved in all channels, as each one mixes all of them.

    Args:
        filters: number of output channels.
        use_bias: adds a learnable constant to each output channel.
        kernel_initializer: for M [c_in, filters]; He's by default, which makes up for the half of
            the signal that a rectifier takes.
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
        filters,
        *,
        use_bias=True,
        kernel_initializer="he_normal",
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.filters = check_count("filters", filters)
        self.use_bias = check_flag("use_bias", use_bias)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)

    def build(self, observations_shape):
        _, channels = self._built_for = self._check_shapes(observations_shape)
        self.kernel = self.add_weight(
            name="kernel", shape=(channels, self.filters), initializer=self.kernel_initializer
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias", shape=(self.filters,), initializer=self.bias_initializer
            )

    def call(self, observations, training=False):
        points, values, variance = self._unpack(observations)
        factors, covariance = self._coherent(observations)
        infinite = penalty(tf.reduce_max(variance, axis=-1, keepdims=True))
        missing = missing_mask(infinite)
        kernel = self._cast(self.kernel)
        bias = None if self.bias is None else self._cast(self.bias)
        mixed = mix_channels(observed_only(values, missing), kernel, bias) * (1.0 - missing)
        variance = observed_only(variance, missing)
        if covariance is not None:
            covariance = mix_covariance(covariance, kernel) * observed_pairs(missing)
            return self._output(
                points, mixed, marginal_variance(covariance), infinite, covariance=covariance
            )
        if factors is None:
            mixed_variance = mix_channels(variance, tf.square(kernel))
        else:  # only the remainder is independent
            remainder = remainder_variance(variance, factors)
            factors = mix_channels(factors, kernel) * (1.0 - missing)
            mixed_variance = mix_channels(remainder, tf.square(kernel)) + factor_variance(factors)
        return self._output(points, mixed, mixed_variance, infinite, factors)

    def compute_output_spec(self, observations, training=False):
        return self._spec_like(observations, self.filters)

    def get_config(self):
        return {
            **super().get_config(),
            "filters": self.filters,
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }
