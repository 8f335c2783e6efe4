"""Cuts points into blocks of neighbours: a k-d tree for whole batches, which only sorts.

An example's n known points become ``ceil(n / size)`` blocks whose numbers of points differ by at
most 1. A cut divides a set of blocks as evenly as possible, across the axis along which its points
extend farthest. It cuts at a rank of the coordinate, so it is a sort. All sets of a level are
sorted at once. The cuts depend only on the known points, and on their order only if coordinates are
equal.
"""

import dataclasses
import math

import tensorflow as tf

from tfpn.math.blocks import largest
from tfpn.math.shapes import axis_sizes


@dataclasses.dataclass(frozen=True)
class Cuts:
    """An example's points in n blocks of S places. All tensors are constants for gradients.

    Attributes:
        rows: the point at each place, [B, n, S]; 0 at spare places.
        filled: bool [B, n, S], False at spare places.
        places: the place of each known point, counted through all blocks, [B, N]; 0 for others.
        low, high: corners of the blocks' cells, boxes that fill R^d without overlap, [B, n, d].
            The outer cells are infinite. Spare blocks have both corners at 0.
    """

    rows: tf.Tensor
    filled: tf.Tensor
    places: tf.Tensor
    low: tf.Tensor
    high: tf.Tensor


def median_cuts(points, known, size, count):
    """Cuts examples into blocks of neighbours.

    Args:
        points: [B, N, d], finite.
        known: bool [B, N]. Other points are in no block.
        size: S, the largest number of points of a block.
        count: n, the number of blocks, ``ceil(N / size)``.

    Returns:
        `Cuts`.

    Example: five points on a line in blocks of two.

    >>> import tensorflow as tf
    >>> points = tf.constant([[[4.0], [0.0], [3.0], [1.0], [2.0]]])
    >>> cuts = median_cuts(points, tf.ones([1, 5], tf.bool), size=2, count=3)
    >>> tf.gather(points[0, :, 0], cuts.rows[0]).numpy().tolist()
    [[0.0, 1.0], [2.0, 3.0], [4.0, 4.0]]
    >>> cuts.filled[0].numpy().tolist()
    [[True, True], [True, True], [True, False]]
    """
    points = tf.stop_gradient(points)
    batch, number, dim = axis_sizes(points)
    plan = _Plan(known, size, count)
    order = tf.argsort(tf.cast(~known, tf.int32), axis=1, stable=True)
    zeros = tf.zeros([batch, count], tf.int32)
    infinite = tf.fill([batch, count, dim], tf.constant(math.inf, points.dtype))
    state = order, zeros, plan.blocks[:, None] + zeros, -infinite, infinite

    def cut(order, start, length, low, high):
        return plan.cut(points, order, start, length, low, high)

    if isinstance(count, int):
        for _ in range(math.ceil(math.log2(count))):
            state = cut(*state)
    else:
        state = tf.while_loop(
            lambda order, start, length, *_: tf.reduce_any(length > 1), cut, state
        )
    order, _, _, low, high = state
    within = tf.range(size)
    starts = plan.edges(tf.range(count)[None])
    position = starts[..., None] + within
    filled = within < plan.sizes[..., None]
    rows = tf.gather(order, tf.where(filled, position, 0), batch_dims=1)
    first = tf.gather(starts, plan.block, batch_dims=1)
    place = plan.block * size + plan.position - first
    places = tf.gather(place, tf.argsort(order, axis=1), batch_dims=1)
    used = (tf.range(count) < plan.blocks[:, None])[..., None]
    low, high = (tf.where(used, corner, tf.zeros([], low.dtype)) for corner in (low, high))
    return Cuts(tf.where(filled, rows, 0), filled, tf.where(known, places, 0), low, high)


class _Plan:
    """The positions of each block in the order of an example's known points."""

    def __init__(self, known, size, count):
        batch, number = axis_sizes(known)
        self.count = count
        self.known = tf.reduce_sum(tf.cast(known, tf.int32), axis=1)  # [B]
        self.blocks = tf.maximum(-(-self.known // size), 1)
        self._each, self._more = self.known // self.blocks, self.known % self.blocks
        numbers = tf.range(count)[None]
        self.sizes = self.edges(numbers + 1) - self.edges(numbers)  # [B, n]
        self.position = tf.broadcast_to(tf.range(number), [batch, number])
        # The first blocks have one more point than the others.
        each, more = (t[:, None] for t in (self._each, self._more))
        full = more * (each + 1)
        late = more + (self.position - full) // tf.maximum(each, 1)
        block = tf.where(self.position < full, self.position // (each + 1), late)
        self.block = tf.minimum(block, count - 1)
        self.inside = self.position < self.known[:, None]

    def edges(self, numbers):
        """The first positions [B, n] of the blocks with the numbers [B or 1, n]."""
        numbers = tf.minimum(numbers, self.blocks[:, None])
        return numbers * self._each[:, None] + tf.minimum(numbers, self._more[:, None])

    def cut(self, points, order, start, length, low, high):
        """Cuts one level: sorts every set of blocks along an axis, and divides it.

        Args:
            order: the points' numbers by position, [B, N].
            start, length: the first block of each block's set, and the number of its blocks,
                [B, n].
            low, high: corners of the cells, [B, n, d].
        """
        batch, number, dim = axis_sizes(points)
        example = tf.range(batch)[:, None] * self.count
        sorted_points = tf.gather(points, order, batch_dims=1)
        here = tf.gather(start, self.block, batch_dims=1)
        sets = tf.reshape(example + here, [-1])
        flat = tf.reshape(sorted_points, [-1, dim])
        inside, total = tf.reshape(self.inside, [-1, 1]), batch * self.count
        most = flat.dtype.max
        least = tf.math.unsorted_segment_min(tf.where(inside, flat, most), sets, total)
        extent = tf.math.unsorted_segment_max(tf.where(inside, flat, -most), sets, total) - least
        axis = tf.argmax(extent, axis=-1, output_type=tf.int32)  # [B n]
        own_axis = tf.gather(axis, sets)
        coordinate = tf.gather(flat, own_axis, batch_dims=1)
        least, extent = (tf.gather(tf.gather(t, axis, batch_dims=1), sets) for t in (least, extent))
        # The key is between 0 and 1, so the sets keep their order.
        relative = tf.math.divide_no_nan(coordinate - least, extent)
        key = tf.cast(here, tf.float64) + 0.5 * tf.cast(tf.reshape(relative, [batch, number]),
                                                        tf.float64)  # fmt: skip
        key = tf.where(self.inside, key, tf.cast(self.count + 1, tf.float64))
        moved = tf.argsort(key, axis=1, stable=True)
        order = tf.gather(order, moved, batch_dims=1)
        coordinate = tf.gather(tf.reshape(coordinate, [batch, number]), moved, batch_dims=1)
        half = (length + 1) // 2
        middle = start + half
        edge = self.edges(middle)
        last = tf.maximum(number - 1, 0)
        left, right = (
            tf.gather(coordinate, tf.clip_by_value(edge + step, 0, last), batch_dims=1)
            for step in (-1, 0)
        )
        at = 0.5 * left + 0.5 * right
        divided, above = length > 1, tf.range(self.count) >= middle
        axis = tf.gather(axis, example + start)
        here = (tf.one_hot(axis, dim) > 0.0) & divided[..., None]
        high = tf.where(here & ~above[..., None], at[..., None], high)
        low = tf.where(here & above[..., None], at[..., None], low)
        start = tf.where(divided & above, middle, start)
        length = tf.where(divided, tf.where(above, length - half, half), length)
        return order, start, length, low, high


def block_count(number, size):
    """``ceil(number / size)``, at least 1."""
    return largest(-(-number // size), 1)
