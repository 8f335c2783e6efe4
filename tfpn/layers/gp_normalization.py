"""Normalisation of GP feature maps, channel by channel."""

from typing import Any

import keras
import tensorflow as tf

from tfpn.checks import check_number, check_positive
from tfpn.layers.base import GPLayer
from tfpn.layers.running_averages import RunningAverages
from tfpn.math.missing import observed_entries, penalty
from tfpn.math.normalization import normalize
from tfpn.math.uncertainty import carried_by
from tfpn.types import Config, Observations, Tensor


@keras.saving.register_keras_serializable(package="tfpn")
class GPNormalization(RunningAverages, GPLayer):
    """Affine map per channel that gives a GP feature map zero mean and unit spread.

    ``values' = gamma (values - m) / q + beta`` and ``variance' = (gamma / q)^2 variance``. Here m
    is the mean of the values over the observed entries of the batch. q^2 is their total variance:
    the variance of the values plus the mean of their uncertainties (law of total variance). A
    unit-variance prior in the next layer expects this spread. In inference, running averages of m
    and q^2 take the place of the batch, as in batch normalisation. A frozen layer
    (``trainable=False``) uses them too, and leaves them as they are.

    Args:
        momentum: momentum of the running averages, which begin as plain means over the first
            batches.
        epsilon: a number to add to q^2.

    Input and output:
        The observations dict; points [B, N, d] pass through, values and variance [B, N, c]. In
        ``call`` a second argument ``weights`` [B, N, 1] says how much each point counts in the
        batch's statistics, by default 1.

    Example:

    >>> import numpy as np, tfpn
    >>> values = np.random.default_rng(0).normal(5.0, 3.0, (4, 50, 2))
    >>> x = tfpn.observations(np.zeros((4, 50, 1)), values)
    >>> out = tfpn.layers.GPNormalization()(x, training=True)
    >>> bool(abs(np.std(out["values"]) - 1) < 1e-3)
    True
    """

    def __init__(self, *, momentum: float = 0.95, epsilon: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = check_number("momentum", momentum, low=0.0, high=1.0)
        self.epsilon = check_positive("epsilon", epsilon)

    def build(self, observations_shape: Any, weights_shape: Tensor | None = None) -> None:
        _, channels = self._built_for = self._check_shapes(observations_shape)

        def weight(name, initializer, trainable=True):
            return self.add_weight(
                name=name, shape=(channels,), initializer=initializer, trainable=trainable
            )

        self.gamma = weight("gamma", "ones")
        self.beta = weight("beta", "zeros")
        self.moving_mean = weight("moving_mean", "zeros", trainable=False)
        self.moving_variance = weight("moving_variance", "ones", trainable=False)
        self.updates = weight("updates", "zeros", trainable=False)

    def call(
        self, observations: Observations, weights: Tensor | None = None, training: bool = False
    ) -> dict[str, Tensor]:
        points, values, variance = self._unpack(observations)
        way = carried_by(observations)
        gamma, beta = self._cast(self.gamma), self._cast(self.beta)
        fusion = self._fusion(training, values.shape[-1], points)
        if training and self.trainable:
            infinite = penalty(variance)
            with fusion:
                values, variance, scale, *statistics = normalize(
                    values,
                    variance,
                    gamma,
                    beta,
                    self.epsilon,
                    None if weights is None else self._cast(weights),
                )
            self._update_averages(*statistics)
        else:
            with fusion:
                values, variance, missing, infinite = observed_entries(values, variance)
            scale = gamma * tf.math.rsqrt(self._cast(self.moving_variance) + self.epsilon)
            shift = beta - self._cast(self.moving_mean) * scale
            values = values * scale + shift * (1.0 - missing)
            variance *= tf.square(scale)
        beside = way.affine(self._read_beside(way, observations), scale, values)
        return self._output(points, values, variance, infinite, way, beside)

    def compute_output_spec(
        self, observations: Observations, weights: Tensor | None = None, training: bool = False
    ) -> Any:
        return self._spec_like(observations, observations["values"].shape[-1])

    def get_config(self) -> Config:
        return {**super().get_config(), "momentum": self.momentum, "epsilon": self.epsilon}
