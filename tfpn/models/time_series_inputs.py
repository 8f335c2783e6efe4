"""The layers of `PNTimeSeries` for its inputs, other than convolutions."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfpn.layers.base import GPLayer
from tfpn.math.missing import missing_mask, observed_only, penalty
from tfpn.math.readings import entry_weights, faded, reading_counts, reading_indicators
from tfpn.math.uncertainty.sampled import DRAWS, Sampled, draw_moments
from tfpn.spacing import point_spacing
from tfpn.types import DType, Observations, Tensor

# `adapt_readings` starts the convolution from so many examples.
_ADAPT_EXAMPLES = 256

# The conditions on statics and their variances, for messages.
FINITE = "a known static is a finite number; give statics_variance +inf where it is not known"
KNOWN = "0 says that a static is known and +inf that it is not; it has no noise"


def statics_inputs(count: int, dtype: DType) -> dict[str, Any]:
    """Symbolic inputs of ``count`` statics and their variances, by name."""
    return {
        key: keras.Input((count,), dtype=dtype, name=key) for key in ("statics", "statics_variance")
    }


class EntryWeights(GPLayer):
    """How much each entry counts as a time of its own (see `tfpn.math.readings.entry_weights`).

    Args:
        width: initial distance from which two times count as different.

    Output:
        The weights [B, N, 1], and the width for each example [B, 1, 1].
    """

    def __init__(self, width: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._width = width

    def build(self, observations_shape: Any) -> None:
        self.log_width = self.add_weight(
            name="log_width",
            shape=(),
            initializer=keras.initializers.Constant(math.log(self._width)),
            trainable=False,
        )

    def set_width(self, width: float) -> None:
        """Sets the distance from which two times count as different."""
        self.log_width.assign(math.log(width))

    def load_own_variables(self, store: Any) -> None:
        """Keras's; models stored without this layer keep the width of their spacing."""
        if len(store):
            super().load_own_variables(store)

    def call(self, observations: Observations) -> Any:
        points, _, variance = self._unpack(observations)
        width = tf.exp(self._cast(self.log_width))
        widths = tf.fill([tf.shape(points)[0], 1, 1], width)
        return entry_weights(points, variance, width), widths

    def compute_output_spec(self, observations: Observations) -> Any:
        batch, size, _ = observations["points"].shape
        return tuple(
            keras.KerasTensor((batch, count, 1), dtype=self.algebra_dtype) for count in (size, 1)
        )


class Readings(GPLayer):
    """Which channels were read when: indicators, known exactly at each distinct observed time.

    Input:
        The observations, and the two outputs of `EntryWeights`.
    """

    def call(self, observations: Observations, weights: Tensor, widths: Tensor) -> Any:
        points, _, variance = self._unpack(observations)
        values = reading_indicators(points, variance, self._cast(widths))
        variance = faded(tf.zeros_like(values), self._cast(weights))
        values = observed_only(values, missing_mask(penalty(variance)))
        return {"points": points, "values": values, "variance": variance}

    def compute_output_spec(
        self, observations: Observations, weights: Tensor, widths: Tensor
    ) -> Any:
        return self._spec(observations["values"].shape, points=observations["points"])


def adapt_readings(layer: Any, weigh: Any, indicate: Any, observations: Observations) -> None:
    """Sets the start values of the convolution that takes the output of `Readings`.

    If the time of an entry repeats another time, the entry counts by its weight. The spacing is
    that of the observations, where channels that are read one after the other count once.

    Args:
        layer: the `PNConv`.
        weigh: the `EntryWeights`.
        indicate: the `Readings`.
        observations: the data; their first 256 examples count.
    """
    observations = {key: array[:_ADAPT_EXAMPLES] for key, array in observations.items()}
    weights, widths = weigh(observations)
    values = indicate(observations, weights, widths)["values"]
    layer.set_spacing(point_spacing(observations["points"], observations["variance"]))
    squares = np.square(np.asarray(values, np.float64))
    if layer.prior == "shared":
        squares = squares.mean(axis=-1, keepdims=True)
    weights = np.asarray(weights, np.float64)
    squares = np.sum(weights * squares, axis=(0, 1)) / np.sum(weights)
    if np.any(squares):
        # A channel that is never read takes the mean level of all.
        levels = np.sqrt(np.where(squares > 0.0, squares, squares.mean()))
        layer._set_level(levels[0] if layer.prior == "shared" else levels)


class FeatureSum(GPLayer):
    """Sum of independent features at the same points; unobserved if one of them is."""

    def call(self, features: Observations, others: Tensor) -> Any:
        points, values, variance = self._unpack(features)
        variance += self._cast(others["variance"])
        missing = missing_mask(penalty(variance))
        values = (values + self._cast(others["values"])) * (1.0 - missing)
        sums = {"points": points, "values": values, "variance": variance}
        if DRAWS in features:
            draws = self._cast(features[DRAWS]) + self._cast(others[DRAWS])
            sums[DRAWS] = draws * (1.0 - missing[:, None])
            sums["values"], spread = draw_moments(sums[DRAWS])
            sums["variance"] = spread + penalty(variance)
        return sums

    def compute_output_spec(self, features: Observations, others: Tensor) -> Any:
        way = Sampled() if DRAWS in features else None
        shape = features["values"].shape
        return self._spec(shape, way, features, points=features["points"])


class Faded(GPLayer):
    """Raises the variances of features whose time repeats another one (see `faded`).

    Without it a time that the input lists twice would count twice in the next layer.
    """

    def call(self, features: Observations, weights: Tensor) -> Any:
        variance = faded(self._cast(features["variance"]), self._cast(weights))
        missing = missing_mask(penalty(variance[..., :1]))
        values = observed_only(self._cast(features["values"]), missing)
        output = {**features, "values": values, "variance": variance}
        if DRAWS in features:
            output[DRAWS] = self._cast(features[DRAWS]) * (1.0 - missing[:, None])
        return output

    def compute_output_spec(self, features: Observations, weights: Tensor) -> Any:
        return self._spec_like(features, features["values"].shape[-1])


class Context(GPLayer):
    """Knowledge of an example other than its features: counts of observations, and statics, [B, S].

    Args:
        counts: takes ``log(1 + n)`` of each channel's number n of observations.

    Input:
        The observations, and a dict of statics and statics_variance [B, S] or None. A static
        becomes two numbers: its value, 0 where unknown, and 1 if it is known.
    """

    def __init__(self, counts: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.counts = counts

    def call(self, observations: Observations, statics: Observations | None = None) -> Any:
        context = []
        if self.counts:
            context.append(tf.math.log1p(reading_counts(self._cast(observations["variance"]))))
        if statics is not None:
            variance = self._cast(statics["statics_variance"])
            known = tf.equal(variance, 0.0)
            message = f"Context {self.name!r}: a statics_variance is neither 0 nor +inf: {KNOWN}"
            tf.debugging.Assert(tf.reduce_all(known | tf.equal(variance, float("inf"))), [message])
            missing = missing_mask(penalty(variance))
            values = observed_only(self._cast(statics["statics"]), missing)
            tf.debugging.check_numerics(
                values, f"Context {self.name!r}: statics hold NaN or infinity: {FINITE}"
            )
            context += [values, 1.0 - missing]
        return tf.concat(context, axis=-1)

    def compute_output_spec(
        self, observations: Observations, statics: Observations | None = None
    ) -> Any:
        batch, _, size = observations["values"].shape
        size = size if self.counts else 0
        size += 0 if statics is None else 2 * statics["statics"].shape[-1]
        return keras.KerasTensor((batch, size), dtype=self.algebra_dtype)


class Beside(GPLayer):
    """Appends further numbers [B, S] to pooled features, as values without variance."""

    def call(self, pooled: Observations, context: Tensor) -> Any:
        output = {
            "values": tf.concat([pooled["values"], context], axis=-1),
            "variance": tf.concat([pooled["variance"], tf.zeros_like(context)], axis=-1),
        }
        if DRAWS in pooled:
            draws = pooled[DRAWS]
            same = tf.repeat(context[:, None], tf.shape(draws)[1], axis=1)
            output[DRAWS] = tf.concat([draws, same], axis=-1)
        return output

    def compute_output_spec(self, pooled: Observations, context: Tensor) -> Any:
        batch, size = pooled["values"].shape
        way = Sampled() if DRAWS in pooled else None
        return self._spec((batch, size + context.shape[-1]), way, pooled)


class KnownSeries(GPLayer):
    """Adds the features of series that are known exactly at all times to those of a convolution.

    A flow leaves a constant unchanged and shifts the time t by its drift. So for any flows
    ``sum_k W_k exp(D_k)`` maps constants and the time linearly, up to a bias. This layer adds the
    map to the means and changes no variance.

    Args:
        clock: ``(start, end)`` between which the time becomes a series from -1 to 1, or None.

    Input:
        The features, and constants [B, S] or None.
    """

    def __init__(self, clock: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.clock = clock

    def build(self, features_shape: Tensor, context_shape: Tensor | None = None) -> None:
        channels = features_shape["values"][-1]
        size = (0 if context_shape is None else context_shape[-1]) + (self.clock is not None)
        self.kernel = self.add_weight(name="kernel", shape=(size, channels))

    def call(self, features: Observations, context: Tensor | None = None) -> Any:
        points, values, variance = self._unpack(features)
        kernel, series = self._cast(self.kernel), tf.zeros_like(points)
        if context is not None:
            size = context.shape[-1]
            series += tf.matmul(self._cast(context), kernel[:size])[:, None]
        if self.clock is not None:
            start, end = self.clock
            series += (2.0 * (points - start) / (end - start) - 1.0) * kernel[-1]
        missing = missing_mask(penalty(variance))
        values = (values + series) * (1.0 - missing)
        output = {"points": points, "values": values, "variance": variance}
        if DRAWS in features:
            draws = self._cast(features[DRAWS]) + series[:, None]
            output[DRAWS] = draws * (1.0 - missing[:, None])
        return output

    def compute_output_spec(self, features: Observations, context: Tensor | None = None) -> Any:
        way = Sampled() if DRAWS in features else None
        shape = features["values"].shape
        return self._spec(shape, way, features, points=features["points"])


class Joined(GPLayer):
    """Concatenates the pooled features of several windows.

    The errors of a channel's windows stay independent. Draws keep them together.
    """

    def call(self, windows: Sequence[Observations]) -> Any:
        axes = self._axes(windows[0])
        return {key: tf.concat([w[key] for w in windows], axes[key]) for key in windows[0]}

    def compute_output_spec(self, windows: Sequence[Observations]) -> Any:
        def spec(axis, tensors):
            shape = list(tensors[0].shape)
            shape[axis] = sum(tensor.shape[axis] for tensor in tensors)
            return keras.KerasTensor(shape, dtype=self.algebra_dtype)

        axes = self._axes(windows[0])
        return {key: spec(axes[key], [w[key] for w in windows]) for key in windows[0]}

    @staticmethod
    def _axes(pooled):
        """The axis of channels of each tensor."""
        return {key: 2 if key == DRAWS else 1 for key in pooled}
