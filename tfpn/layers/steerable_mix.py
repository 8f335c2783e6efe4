"""Mixing of fields, point by point."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfpn.checks import check_flag
from tfpn.layers.base import GPLayer
from tfpn.layers.steerable_base import (
    FieldsMixin,
    fields_config,
    optional_fields,
)
from tfpn.math.missing import missing_mask, observed_only, penalty
from tfpn.math.steerable.fields import (
    component_mean,
    count_channels,
    field_moments,
    join_fields,
    read_fields,
    split_fields,
    spread_blocks,
)
from tfpn.math.steerable.mixing import mix_block_variance, mix_fields
from tfpn.math.uncertainty import carried_by
from tfpn.types import Config, FieldsLike, GroupLike, Observations, Tensor


@keras.saving.register_keras_serializable(package="tfpn")
class SteerableMix(FieldsMixin, GPLayer):
    """Linear map of the fields at each point that commutes with rotations.

    One number mixes a pair of scalars. On the plane a complex number (a scale and a turn) mixes a
    pair of copies of any other frequency. In space one number mixes a pair of copies of any spin.
    By Schur's lemma there is no other such map. The variance is that of
    independent blocks, ``sum_c |w_cp|^2 variance_c``, as in `ChannelMix`. If one channel of a point
    is unobserved, all output channels are. Each draw is mixed by itself.

    Args:
        fields: type of the output, as in `SteerablePNConv`; its frequencies must be among the
            input's.
        in_fields: type of the input; by default all its channels are scalars.
        use_bias: adds a learnable constant to each output scalar.
        train_bias: whether the bias is trained, as in `ChannelMix`.
        spatial_dim, group: as in `SteerablePNConv`.

    Input and output:
        The observations dict; points [B, N, d] pass through.

    Example:

    >>> import numpy as np, tfpn
    >>> x = tfpn.observations(np.zeros((1, 5, 2)), np.ones((1, 5, 4)), 1.0)
    >>> mix = tfpn.layers.SteerableMix({0: 3, 1: 2}, in_fields={0: 2, 1: 1})
    >>> mix(x)["variance"].shape
    TensorShape([1, 5, 7])
    """

    def __init__(
        self,
        fields: FieldsLike,
        *,
        in_fields: FieldsLike | None = None,
        use_bias: bool = True,
        train_bias: bool = True,
        spatial_dim: int | None = None,
        group: GroupLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._take_group(group, spatial_dim)
        self.fields = read_fields(fields, group=self.group)
        self.in_fields = optional_fields(in_fields, "in_fields", self.group)
        self.use_bias = check_flag("use_bias", use_bias)
        self.train_bias = check_flag("train_bias", train_bias)

    def build(self, observations_shape: Any) -> None:
        _, channels = self._built_for = self._check_shapes(observations_shape)
        self._input = self._input_fields(self.in_fields, channels)
        copies = dict(self._input)
        self.kernels = {}
        for m, number in self.fields:
            if m not in copies:
                raise ValueError(
                    f"{type(self).__name__} {self.name!r}: no mixing that commutes with rotations "
                    f"leads to the frequency {m} from the input's fields {self._input}."
                )
            # He's, which makes up for the half of the signal that a rectifier takes.
            parts = self._weight_parts(m)
            scale = np.sqrt(2.0 / (len(parts) + 1.0) / copies[m])
            self.kernels[m] = self.add_weight(
                name=f"kernel_{m}",
                shape=(*parts, copies[m], number),
                initializer=keras.initializers.RandomNormal(stddev=scale),
            )
        self.bias = None
        scalars = dict(self.fields).get(0)
        if self.use_bias and scalars:
            self.bias = self.add_weight(name="bias", shape=(scalars,), initializer="zeros")

    def call(self, observations: Observations, training: bool = False) -> dict[str, Tensor]:
        points, values, variance = self._unpack(observations)
        way = carried_by(observations)
        draws = self._read_beside(way, observations)
        infinite = penalty(tf.reduce_max(variance, axis=-1, keepdims=True))
        missing = missing_mask(infinite)
        weights = {m: self._cast(w) for m, w in self.kernels.items()}
        bias, dim = self._read_bias(), self.spatial_dim
        if way.draws:
            draws = mix_fields(split_fields(draws, self._input, dim), weights, bias)
            draws = join_fields(draws, self.fields, dim) * (1.0 - missing[:, None])
            mixed, mixed_variance = field_moments(draws, self.fields, dim)
            return self._output(points, mixed, mixed_variance, infinite, way, draws)
        values, variance = (
            split_fields(observed_only(t, missing), self._input, dim) for t in (values, variance)
        )
        mixed = join_fields(mix_fields(values, weights, bias), self.fields, dim)
        blocks = {m: component_mean(part, m, dim) for m, part in variance.items()}
        mixed_variance = spread_blocks(mix_block_variance(blocks, weights), self.fields, dim)
        return self._output(points, mixed * (1.0 - missing), mixed_variance, infinite)

    def compute_output_spec(self, observations: Observations, training: bool = False) -> Any:
        return self._spec_like(observations, count_channels(self.fields, self.spatial_dim))

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "fields": fields_config(self.fields),
            "in_fields": fields_config(self.in_fields),
            "use_bias": self.use_bias,
            "train_bias": self.train_bias,
            **self._group_config(),
        }
