"""Normalisation of Gaussian process fields, block by block."""

from typing import Any

import keras
import tensorflow as tf

from tfpn.checks import check_number, check_positive
from tfpn.layers.base import GPLayer
from tfpn.layers.running_averages import RunningAverages
from tfpn.layers.steerable_base import FieldsMixin, fields_config
from tfpn.math.missing import observed_entries
from tfpn.math.steerable.fields import block_numbers, read_fields
from tfpn.math.steerable.normalization import field_statistics, normalize_fields
from tfpn.math.uncertainty import carried_by
from tfpn.types import Config, FieldsLike, GroupLike, Observations, Tensor


@keras.saving.register_keras_serializable(package="tfpn")
class SteerableNormalization(FieldsMixin, RunningAverages, GPLayer):
    """`GPNormalization` that commutes with rotations: a scale for each block, shifts for scalars.

    ``values' = gamma (values - m) / q + beta`` and ``variance' = (gamma / q)^2 variance``. Scalars
    are treated as in `GPNormalization`. For fields of frequency 1 or more m and beta are 0, and q^2
    is the mean over the block's components of square plus variance. Training takes the statistics
    of the batch. Inference and a frozen layer take running averages.

    Args:
        fields: type of the input, as in `SteerablePNConv`.
        momentum: momentum of the running averages, which begin as plain means over the first
            batches.
        epsilon: a number to add to q^2.
        spatial_dim, group: as in `SteerablePNConv`.

    Input and output:
        The observations dict; points [B, N, d] pass through, values and variance [B, N, c].

    Example:

    >>> import numpy as np, tfpn
    >>> values = np.random.default_rng(0).normal(0.0, 3.0, (4, 50, 3))
    >>> x = tfpn.observations(np.zeros((4, 50, 2)), values)
    >>> out = tfpn.layers.SteerableNormalization({0: 1, 1: 1})(x, training=True)
    >>> bool(abs(np.std(out["values"]) - 1) < 0.01)
    True
    """

    def __init__(
        self,
        fields: FieldsLike,
        *,
        momentum: float = 0.95,
        epsilon: float = 1e-5,
        spatial_dim: int | None = None,
        group: GroupLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._take_group(group, spatial_dim)
        self.fields = read_fields(fields, group=self.group)
        self.momentum = check_number("momentum", momentum, low=0.0, high=1.0)
        self.epsilon = check_positive("epsilon", epsilon)

    def build(self, observations_shape: Any) -> None:
        _, channels = self._built_for = self._check_shapes(observations_shape)
        self._input_fields(self.fields, channels)
        blocks = block_numbers(self.fields, self.spatial_dim)[-1] + 1
        scalars = dict(self.fields).get(0, 0)

        def weight(name, size, initializer, trainable=True):
            return self.add_weight(
                name=name, shape=(size,), initializer=initializer, trainable=trainable
            )

        self.gamma = weight("gamma", blocks, "ones")
        self.beta = weight("beta", scalars, "zeros") if scalars else None
        self.moving_mean = weight("moving_mean", scalars, "zeros", False) if scalars else None
        self.moving_variance = weight("moving_variance", blocks, "ones", False)
        self.updates = weight("updates", blocks, "zeros", False)

    def call(self, observations: Observations, training: bool = False) -> dict[str, Tensor]:
        points, values, variance = self._unpack(observations)
        with self._fusion(training, values.shape[-1], points):
            values, variance, missing, infinite = observed_entries(values, variance)
        weight = 1.0 - missing
        if training and self.trainable:
            mean, spread, count = field_statistics(
                values, variance, weight, self.fields, self.spatial_dim
            )
            self._update_averages(mean, spread, count)
        else:
            mean, spread = self._scalars(self.moving_mean), self._cast(self.moving_variance)
        beta = self._scalars(self.beta)
        values, variance, scale = normalize_fields(
            values, variance, weight, mean, spread, self._cast(self.gamma), beta, self.fields,
            self.epsilon, self.spatial_dim,
        )  # fmt: skip
        way = carried_by(observations)
        draws = way.affine(self._read_beside(way, observations), scale, values)
        return self._output(points, values, variance, infinite, way, draws)

    def _scalars(self, weight):
        """A weight for scalars, which is None if there are none."""
        return tf.zeros([0], self.algebra_dtype) if weight is None else self._cast(weight)

    def compute_output_spec(self, observations: Observations, training: bool = False) -> Any:
        return self._spec_like(observations, observations["values"].shape[-1])

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "fields": fields_config(self.fields),
            "momentum": self.momentum,
            "epsilon": self.epsilon,
            **self._group_config(),
        }
