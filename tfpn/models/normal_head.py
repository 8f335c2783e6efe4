"""The head of a regression whose outputs are means and variances."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfpn.types import Array, Distribution, Model, Observations, Tensor, Verbose

# Bounds the log of a noise variance, in units of the targets' variance.
_LARGEST_LOG = 10.0


class NormalHead(keras.layers.Dense):
    """Means and variances [B, K, 2] of K outputs, a linear map of pooled features.

    The variance of an output is the sum of two parts: that of the features through the map
    of the means, and ``exp(10 tanh(l / 10))``, the noise. The number l is a linear map of the
    features, too, so the noise depends on the example. The features count as independent, also with
    "low_rank" and "joint". Of draws, the result is mean and variance of their mixture.

    Args:
        outputs: K.
    """

    def __init__(self, outputs: int, **kwargs: Any) -> None:
        kwargs.pop("units", None)  # when Keras rebuilds the layer
        super().__init__(2 * outputs, **kwargs)
        self.outputs = outputs

    def call(self, values: Tensor, variance: Tensor | None = None) -> Tensor:
        """Applies the head.

        Args:
            values: features [B, C], or draws of them [B, S, C].
            variance: [B, C] variances of the features, or None for known features or draws.
        """
        mean, logs = tf.split(super().call(values), 2, axis=-1)
        spread = tf.exp(_LARGEST_LOG * tf.tanh(logs / _LARGEST_LOG))
        if variance is not None:
            spread += tf.matmul(variance, tf.square(self.kernel[:, : self.outputs]))
        if len(mean.shape) == 3:
            spread = tf.reduce_mean(spread, 1) + tf.math.reduce_variance(mean, 1)
            mean = tf.reduce_mean(mean, 1)
        return tf.stack([mean, spread], axis=-1)

    def compute_output_spec(self, values: Tensor, variance: Tensor | None = None) -> Any:
        return keras.KerasTensor((values.shape[0], self.outputs, 2), dtype=self.compute_dtype)

    def get_config(self) -> Any:
        return {**super().get_config(), "outputs": self.outputs}


def normal_prediction(
    model: Model, x: Observations, batch_size: int, verbose: Verbose
) -> Distribution:
    """The outputs of a model with a `NormalHead` as independent normal variables, calibrated."""
    from tfpn.distributions.multivariate_normal import multivariate_normal

    found: Array = np.asarray(model._predicted(model, x, batch_size, verbose))
    factor, noise = model._factor_and_noise()
    units = np.abs(np.broadcast_to(model._unit()[1], found.shape[1:2]))
    # In units of the targets' scale, whose square may overflow.
    relative = np.asarray(found[..., 1], np.float64) / units / units
    covariance = (factor * relative + noise / units / units)[..., None] * np.eye(found.shape[1])
    return multivariate_normal(found[..., 0], covariance.astype(found.dtype), units=units)
