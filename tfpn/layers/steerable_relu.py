"""The nonlinearity of fields: rectified scalars, and gates on everything else."""

from typing import Any, Literal

import keras
import tensorflow as tf

from tfpn.checks import check_choice
from tfpn.layers.base import GPLayer
from tfpn.layers.steerable_base import FieldsMixin, fields_config
from tfpn.math.activations.rectified import rectified_moments
from tfpn.math.missing import missing_mask, observed_entries, penalty
from tfpn.math.steerable.fields import (
    component_mean,
    count_channels,
    field_moments,
    join_fields,
    read_fields,
    split_fields,
    spread_blocks,
    width,
)
from tfpn.math.steerable.gates import gate_fields, gate_moments, gate_value
from tfpn.math.uncertainty import carried_by
from tfpn.types import Config, FieldsLike, GroupLike, Observations, Tensor

GATES = ("shared", "own")


@keras.saving.register_keras_serializable(package="tfpn")
class GatedReLU(FieldsMixin, GPLayer):
    """Mean and variance of ``relu(f)`` for scalars and of ``Phi(g) v`` for other fields, exact.

    The ReLU of a vector's components would not commute with rotations. So a field v of frequency 1
    or more is multiplied by a number between 0 and 1: the normal distribution function Phi of a
    Gaussian scalar g, a smooth form of "v where g > 0". Mean and variance have closed forms
    (`tfpn.math.steerable.gates`), which take gate and field as independent. The variance is that of
    the block, the mean over its components. Each draw becomes ``relu(f)`` and ``Phi(g) v``.

    Args:
        fields: type of the input, as in `SteerablePNConv`.
        gates: with "shared" the n-th scalar is the gate of the n-th copy of every other frequency,
            and is also rectified. "own" takes the last scalars, one for each copy of a frequency of
            1 or more in the order of the fields; the output no longer has them.
        spatial_dim, group: as in `SteerablePNConv`.

    Input and output:
        The observations dict; points [B, N, d] pass through. The output's fields are
        ``output_fields``: those of the input without the gates of "own". A field whose gate is
        unobserved is unobserved.

    Raises:
        ValueError: if there are fewer scalars than gates, or channels do not fit.

    Example: a scalar and a vector that it gates; both are known exactly.

    >>> import numpy as np, tfpn
    >>> x = tfpn.observations(np.zeros((1, 1, 2)), np.array([[[0.0, 3.0, 4.0]]]))
    >>> out = tfpn.layers.GatedReLU({0: 1, 1: 1})(x)
    >>> out["values"].numpy().tolist()
    [[[0.0, 1.5, 2.0]]]
    """

    def __init__(
        self,
        fields: FieldsLike,
        *,
        gates: Literal["own", "shared"] = "shared",
        spatial_dim: int | None = None,
        group: GroupLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._take_group(group, spatial_dim)
        self.fields = read_fields(fields, group=self.group)
        self.gates = check_choice("gates", gates, GATES)
        scalars = dict(self.fields).get(0, 0)
        gated = [copies for m, copies in self.fields if m]
        needed = sum(gated) if self.gates == "own" else max(gated, default=0)
        if scalars < needed:
            raise ValueError(
                f"gates={self.gates!r} needs at least {needed} scalars for the fields "
                f"{self.fields}, found {scalars}."
            )
        self._kept = scalars - (needed if self.gates == "own" else 0)
        self.output_fields = tuple(
            (m, self._kept if m == 0 else copies) for m, copies in self.fields if m or self._kept
        )

    def build(self, observations_shape: Any) -> None:
        _, channels = self._built_for = self._check_shapes(observations_shape)
        self._input_fields(self.fields, channels)

    def call(self, observations: Observations, training: bool = False) -> dict[str, Tensor]:
        points, values, variance = self._unpack(observations)
        way, dim = carried_by(observations), self.spatial_dim
        draws = self._read_beside(way, observations)
        with self._fusion(training, values.shape[-1], points):
            values, variance, _, infinite = observed_entries(values, variance)
        infinite = self._closed(split_fields(infinite, self.fields, dim))
        observed = 1.0 - missing_mask(penalty(infinite))
        if way.draws:
            draws = self._of_draws(split_fields(draws, self.fields, dim)) * observed[:, None]
            mean, variance = field_moments(draws, self.output_fields, dim)
            return self._output(points, mean, variance, infinite, way, draws)
        values, variance = (split_fields(t, self.fields, dim) for t in (values, variance))
        new_values, new_variance = {}, {}
        gate = gate_moments(values[0], variance[0]) if 0 in values else ()
        if self._kept:
            scalars = (t[0][..., : self._kept] for t in (values, variance))
            new_values[0], new_variance[0] = rectified_moments(*scalars)
        for m, gates in self._gates():
            block = component_mean(variance[m], m, dim)
            of_gates = (t[..., gates] for t in gate)
            new_values[m], new_variance[m] = gate_fields(values[m], block, *of_gates)
        new_values = join_fields(new_values, self.output_fields, dim) * observed
        new_variance = spread_blocks(new_variance, self.output_fields, dim) * observed
        return self._output(points, new_values, new_variance, infinite)

    def _gates(self):
        """Each frequency above 0, with the slice of the scalars that gate its copies."""
        start = self._kept
        for m, copies in self.fields:
            if m:
                start = 0 if self.gates == "shared" else start
                yield m, slice(start, start + copies)
                start += copies

    def _closed(self, infinite):
        """+inf at each output channel with an unobserved component or gate."""
        found = {0: infinite[0][..., : self._kept]} if self._kept else {}
        for m, gates in self._gates():
            parts = tf.split(infinite[m], width(m, self.spatial_dim), axis=-1)
            found[m] = tf.add_n([*parts, infinite[0][..., gates]])
        return spread_blocks(found, self.output_fields, self.spatial_dim)

    def _of_draws(self, draws):
        """``relu(f)`` and ``Phi(g) v`` for planar parts of draws [B, S, N, ...]."""
        found = {0: tf.nn.relu(draws[0][..., : self._kept])} if self._kept else {}
        for m, gates in self._gates():
            open_part = gate_value(draws[0][..., gates])
            parts = [open_part] * width(m, self.spatial_dim)
            found[m] = draws[m] * tf.concat(parts, axis=-1)
        return join_fields(found, self.output_fields, self.spatial_dim)

    def compute_output_spec(self, observations: Observations, training: bool = False) -> Any:
        return self._spec_like(observations, count_channels(self.output_fields, self.spatial_dim))

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "fields": fields_config(self.fields),
            "gates": self.gates,
            **self._group_config(),
        }
