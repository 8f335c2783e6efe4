"""What `PNTimeSeriesClassifier` makes of its inputs beside convolutions: layers without weights."""

import keras
import tensorflow as tf

from tfpn.layers.base import GPLayer
from tfpn.math.missing import missing_mask, observed_only, penalty
from tfpn.math.readings import first_of_each_point, reading_counts, reading_indicators


class QueryGrid(GPLayer):
    """For each example ``count`` points in the middles of equal parts of an interval, [B, M, 1]."""

    def __init__(self, low, high, count, **kwargs):
        super().__init__(**kwargs)
        self.step = (high - low) / count
        self._points = [low + (i + 0.5) * self.step for i in range(count)]

    def call(self, observations):
        points = tf.constant(self._points, self.algebra_dtype)[None, :, None]
        return tf.tile(points, [tf.shape(observations["values"])[0], 1, 1])

    def compute_output_spec(self, observations):
        batch = observations["values"].shape[0]
        return keras.KerasTensor((batch, len(self._points), 1), dtype=self.algebra_dtype)


class Readings(GPLayer):
    """Which channels were read when: indicators, known exactly at each distinct observed point."""

    def call(self, observations):
        points, _, variance = self._unpack(observations)
        repeated = 1.0 - first_of_each_point(points, variance)
        unknown = tf.broadcast_to(_infinite(repeated[..., None]), tf.shape(variance))
        values = observed_only(reading_indicators(points, variance), repeated[..., None])
        return {"points": points, "values": values, "variance": unknown}

    def compute_output_spec(self, observations):
        return self._spec(observations["points"], *observations["values"].shape)


class FeatureSum(GPLayer):
    """Sum of independent features at the same points; unobserved where one of them is."""

    def call(self, features, others):
        points, values, variance = self._unpack(features)
        variance += self._cast(others["variance"])
        missing = missing_mask(penalty(variance))
        values = (values + self._cast(others["values"])) * (1.0 - missing)
        return {"points": points, "values": values, "variance": variance}

    def compute_output_spec(self, features, others):
        return self._spec(features["points"], *features["values"].shape)


class DistinctPoints(GPLayer):
    """Features at the first entry of each distinct observed point; other entries are padding.

    Without it a point that the input lists twice would count twice in the next layer.
    """

    def call(self, features, observations):
        points, values, variance = self._unpack(features)
        first = first_of_each_point(points, self._cast(observations["variance"]))[..., None]
        variance += _infinite(1.0 - first)
        return {"points": points, "values": values * first, "variance": variance}

    def compute_output_spec(self, features, observations):
        return self._spec(features["points"], *features["values"].shape)


class Beside(GPLayer):
    """Pooled features with further inputs of the head beside them, as values without variance.

    Args:
        counts: takes ``log(1 + n)`` of each channel's number n of observations.

    Input:
        The pooled dict, the observations, and a dict of statics and statics_variance [B, S] or
        None. A static becomes two inputs: its value, 0 where unknown, and 1 if it is known.
    """

    def __init__(self, counts, **kwargs):
        super().__init__(**kwargs)
        self.counts = counts

    def call(self, pooled, observations, statics=None):
        values, variance = pooled["values"], pooled["variance"]
        beside = []
        if self.counts:
            beside.append(tf.math.log1p(reading_counts(self._cast(observations["variance"]))))
        if statics is not None:
            missing = missing_mask(penalty(self._cast(statics["statics_variance"])))
            beside += [observed_only(self._cast(statics["statics"]), missing), 1.0 - missing]
        self._check_finite(*beside)
        beside = tf.concat(beside, axis=-1)
        return {
            "values": tf.concat([values, beside], axis=-1),
            "variance": tf.concat([variance, tf.zeros_like(beside)], axis=-1),
        }

    def compute_output_spec(self, pooled, observations, statics=None):
        batch, size = pooled["values"].shape
        size += observations["values"].shape[-1] if self.counts else 0
        size += 0 if statics is None else 2 * statics["statics"].shape[-1]
        return {
            key: keras.KerasTensor((batch, size), dtype=self.algebra_dtype)
            for key in ("values", "variance")
        }


def _infinite(mask):
    """+inf where the mask is 1, 0 where it is 0."""
    return tf.where(mask > 0.0, tf.constant(float("inf"), mask.dtype), 0.0)
