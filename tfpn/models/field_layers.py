"""The layers around the network of a field model: units, coordinates, and the sum of its parts."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfpn.layers.base import GPLayer
from tfpn.math.uncertainty.sampled import DRAWS
from tfpn.models.target_scale import TargetScale
from tfpn.types import Array, Config, Observations, Tensor

# The logarithm of the largest factor by which the network may change the kriging variance.
_LARGEST_LOG_FACTOR = 3.0


class CoordinateScale(GPLayer):
    """Multiplies coordinates by learnt factors, so that each dimension has its own length scale.

    Length scales l_i of the dimensions i are one length scale l in the coordinates ``x_i l / l_i``.
    So every kernel, flow and closed form holds unchanged in all layers. The factors' geometric mean
    over the dimensions is 1, because their common size belongs to l.

    Args:
        groups: the number of each dimension's factor, from 0. Dimensions may share one, such as x,
            y and z on a sphere, which rotations turn into each other.
    """

    def __init__(self, groups: Sequence[int], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.groups = [int(group) for group in groups]

    def build(self, points_shape: Any) -> None:
        self.log_factors = self.add_weight(
            name="log_factors", shape=(max(self.groups) + 1,), initializer="zeros"
        )

    def factors(self) -> Tensor:
        """The factor of each dimension, [d]."""
        logs = tf.gather(self._cast(self.log_factors), self.groups)
        return tf.exp(logs - tf.reduce_mean(logs))

    def call(self, points: Tensor) -> Tensor:
        return self._cast(points) * self.factors()

    def compute_output_spec(self, points: Tensor) -> Any:
        return keras.KerasTensor(points.shape, dtype=self.algebra_dtype)

    def get_config(self) -> Config:
        return {**super().get_config(), "groups": self.groups}


class ChannelScale(GPLayer):
    """Subtracts an offset from each channel and divides it by a scale; variances by its square."""

    def build(self, values_shape: Any, variance_shape: Any) -> None:
        for name, start in (("offset", "zeros"), ("scale", "ones")):
            shape = values_shape[-1:]
            weight = self.add_weight(name=name, shape=shape, initializer=start, trainable=False)
            setattr(self, name, weight)

    def call(self, values: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        offset, scale = self._cast(self.offset), self._cast(self.scale)
        # Of a tiny scale the square is 0 in float32.
        return (self._cast(values) - offset) / scale, self._cast(variance) / scale / scale

    def apply(self, values: Array, variance: Array) -> tuple[Array, Array]:
        """The same for arrays, in float64."""
        offset, scale = (np.asarray(w, np.float64) for w in (self.offset, self.scale))
        return (values - offset) / scale, variance / np.square(scale)

    def compute_output_spec(self, values: Tensor, variance: Tensor) -> Any:
        return tuple(
            keras.KerasTensor(t.shape, dtype=self.algebra_dtype) for t in (values, variance)
        )


class FieldSum(GPLayer):
    """Kriging plus the network's contribution: mean and variance of readings at the query points.

    Kriging has the mean m_b, variance v_b and noise n_b of the input channels b. The readout has
    values r and variances w, two channels for every output a. The result is

        mean_a     = sum_b W_ba m_b + r_a
        latent_a   = exp(h(r_(A+a))) sum_b W_ba^2 v_b + w_a
        variance_a = latent_a + exp(h(r_(A+a))) sum_b W_ba^2 n_b          h(t) = 3 tanh(t / 3)

    W starts as the identity and the readout at 0. An output beyond the input's channels has the
    kriging mean 0 and the noise 1.

    Args:
        outputs: A, the number of outputs.

    Output:
        A dict of values, variance and latent [B, M, A], and of draws [B, S, M, A] if the readout
        has draws.
    """

    def __init__(self, outputs: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.outputs = outputs

    def build(self, kriged_shape: Any, readout_shape: Any) -> None:
        self.kernel = self.add_weight(
            name="kernel",
            shape=(kriged_shape["values"][-1], self.outputs),
            initializer=lambda shape, dtype=None: tf.eye(*shape, dtype=dtype),
        )

    def call(self, kriged: Observations, readout: Observations) -> dict[str, Tensor]:
        kernel, count = self._cast(self.kernel), self.outputs
        added, logs = (readout["values"][..., :count], readout["values"][..., count:])
        squares, factor = tf.square(kernel), self.variance_factor(logs)
        # Outputs without a channel of the input have only noise.
        noise = tf.matmul(kriged["noise"], squares)
        noise += tf.cast(tf.range(count) >= kernel.shape[0], noise.dtype)
        latent = factor * tf.matmul(kriged["variance"], squares)
        latent += readout["variance"][..., :count]
        moments = {
            "values": tf.matmul(kriged["values"], kernel) + added,
            "variance": latent + factor * noise,
            "latent": latent,
        }
        if DRAWS in readout:
            moments[DRAWS] = moments["values"][:, None] + (
                readout[DRAWS][..., :count] - added[:, None]
            )
        return moments

    @staticmethod
    def variance_factor(logs: Tensor) -> Tensor:
        """The factor of the kriging variance for the readout's second half."""
        return tf.exp(_LARGEST_LOG_FACTOR * tf.tanh(logs / _LARGEST_LOG_FACTOR))

    def compute_output_spec(self, kriged: Observations, readout: Observations) -> Any:
        shape = (*kriged["values"].shape[:2], self.outputs)
        shapes = dict.fromkeys(("values", "variance", "latent"), shape)
        if DRAWS in readout:
            shapes[DRAWS] = (shape[0], readout[DRAWS].shape[1], *shape[1:])
        return {
            key: keras.KerasTensor(some, dtype=self.algebra_dtype) for key, some in shapes.items()
        }

    def get_config(self) -> Config:
        return {**super().get_config(), "outputs": self.outputs}


class Stacked(GPLayer):
    """Means and variances [B, M, c] as one tensor [B, M, c, 2], which a loss can take."""

    def call(self, moments: Observations) -> Tensor:
        return tf.stack([moments["values"], moments["variance"]], axis=-1)

    def compute_output_spec(self, moments: Observations) -> Any:
        return keras.KerasTensor((*moments["values"].shape, 2), dtype=self.algebra_dtype)


class FieldScale(TargetScale):
    """`TargetScale` for outputs [..., c, 2], means and variances."""

    has_moments = True

    def call(self, outputs: Any) -> Any:
        mean, variance = tf.unstack(outputs, axis=-1)
        return tf.stack(
            [self.offset + self.scale * mean, tf.square(self.scale) * variance], axis=-1
        )

    def channel_statistics(self, values: Array) -> tuple[Array, Array]:
        """Means and standard deviations [c] of an input's channels [B, N, c]; NaN is left out.

        A channel without readings has 0 and 1. A channel of equal readings has the scale 1.
        """
        rows = values.reshape(-1, values.shape[-1])
        offset, scale = np.zeros(rows.shape[1]), np.ones(rows.shape[1])
        for channel, column in enumerate(rows.T):
            found = column[np.isfinite(column)]
            if not found.size:
                continue
            largest = np.abs(found).max() or 1.0  # so that no square overflows
            offset[channel] = np.mean(found / largest) * largest
            spread = np.std(found / largest) * largest
            if spread > 1e-12 * largest:
                scale[channel] = spread
        return offset, scale

    def standardised(self, y: Any, outputs: Any) -> Any:
        """As `TargetScale.standardised`, for means and variances."""
        mean, variance = tf.unstack(outputs, axis=-1)
        y, mean = super().standardised(y, mean)
        if hasattr(y, "shape") and self._fits(y.shape):
            variance = variance / tf.square(tf.cast(self.scale, variance.dtype))
        return y, tf.stack([mean, variance], axis=-1)
