"""The middle of an example's points, and their order along a direction."""

import math

import numpy as np
import tensorflow as tf

from tfpn.types import Tensor


def middle(points: Tensor, known: Tensor) -> Tensor:
    """The middle of the box around each example's known points, or 0 without any, [B, 1, d].

    It moves with the points. A point that is listed twice does not change it.

    Args:
        points: [B, N, d], finite.
        known: bool [B, N, 1].
    """
    infinity = tf.constant(math.inf, points.dtype)
    low = tf.reduce_min(tf.where(known, points, infinity), axis=1, keepdims=True)
    high = tf.reduce_max(tf.where(known, points, -infinity), axis=1, keepdims=True)
    return tf.where(low <= high, 0.5 * (low + high), 0.0)


def ranks(points, known, std, values):
    """The rank of each observed point along a fixed direction, [B, G, N].

    Points at one place are sorted by their readings.

    Args:
        points: [B, N, d].
        known: bool [B, G, N].
        std: [B, G, N].
        values: [B, N, c], or None if only the places of points are known.
    """
    direction = np.sqrt(1.0 + np.arange(points.shape[-1])) % 1.0 + 0.5
    along = zip(tf.unstack(points, axis=-1), direction.tolist(), strict=True)
    infinity = tf.constant(math.inf, points.dtype)
    place = tf.where(known, tf.add_n([x * part for x, part in along])[:, None], infinity)
    if values is None:
        order = tf.argsort(place, axis=-1, stable=True)
    else:
        read = tf.linalg.matrix_transpose(values)
        if std.shape[1] == 1:
            read = tf.reduce_mean(read, axis=1, keepdims=True)
        first = tf.argsort(tf.where(known, read + 0.618 * std, infinity), axis=-1, stable=True)
        second = tf.argsort(tf.gather(place, first, batch_dims=2), axis=-1, stable=True)
        order = tf.gather(first, second, batch_dims=2)
    return tf.argsort(order, axis=-1)
