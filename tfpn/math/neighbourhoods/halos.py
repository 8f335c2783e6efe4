"""Finds the halo of each block of points: the nearest observations that are not its own."""

import math

import tensorflow as tf

from tfpn.math.neighbourhoods.cuts import Cuts, median_cuts
from tfpn.math.shapes import axis_sizes, reshape

# The search for a halo looks at so many blocks: the first number for each block that a halo fills,
# and the second for each place of the lattice of blocks around it, which has 3^d.
_PER_HALO, _PER_PLACE, _MOST_AXES = 2, 2, 3
# If two points are within reach of the flows, the one nearer to the block comes first.
_TIE = 1e-3


def box_of(points, filled):
    """Corners [B, n, d] of the boxes around points [B, n, S, d] where ``filled`` [B, n, S].

    The corners of an empty block are the dtype's largest number and its negative.
    """
    most, filled = points.dtype.max, filled[..., None]
    low = tf.reduce_min(tf.where(filled, points, most), axis=2)
    return low, tf.reduce_max(tf.where(filled, points, -most), axis=2)


def nearest(points, cuts, reach, count, source=None):
    """The known points nearest to each block that are not its own.

    A flow reads a block's functions at its points plus the flow's drift. So the distance goes to
    the block's box, extended by the drifts on each side.

    Args:
        points: [B, N, d], finite.
        cuts: `tfpn.math.neighbourhoods.cuts.Cuts` of the points.
        reach: lowest and highest drift along each axis, each [d], the first <= 0 <= the second.
        count: k, the number of points for each block.
        source: the `Cuts` of those points to choose from, with blocks of the same size. The default
            is ``cuts``.

    Returns:
        The points' rows [B, n, k], 0 at spare places; bool [B, n, k], False there; and their blocks
        in ``cuts`` [B, n, k].
    """
    points, source = tf.stop_gradient(points), cuts if source is None else source
    batch, blocks, size = axis_sizes(cuts.rows)
    dim = points.shape[-1]
    low, high = box_of(tf.gather(points, cuts.rows, batch_dims=1), cuts.filled)
    wide = low + reach[0], high + reach[1]
    placed = tf.gather(points, source.rows, batch_dims=1)  # [B, n, S, d]
    candidates = _candidates(wide, (low, high), box_of(placed, source.filled), count, size)
    kept = axis_sizes(candidates)[2]
    of_row = tf.gather(cuts.places // size, source.rows, batch_dims=1)  # [B, n, S]
    usable, of_row = (
        tf.gather(t, candidates, batch_dims=1) for t in (source.filled, of_row)
    )  # [B, n, C, S]
    usable &= of_row != tf.range(blocks)[:, None, None]
    distance = tf.where(usable, tf.zeros([], points.dtype), math.inf)
    # The loop takes axis by axis: a last axis of d numbers would take five times as long.
    for axis in range(dim):
        others = tf.gather(placed[..., axis], candidates, batch_dims=1)
        for weight, (bottom, top) in ((1.0, wide), (_TIE, (low, high))):
            bottom, top = (corner[:, :, None, None, axis] for corner in (bottom, top))
            gap = tf.nn.relu(tf.maximum(bottom - others, others - top))
            distance += weight * tf.square(gap)
    distance = reshape(distance, [batch, blocks, [kept, size]])
    found, place = tf.math.top_k(-distance, count)
    block = tf.gather(candidates, place // size, batch_dims=2)
    flat = tf.reshape(source.rows, [batch, -1])
    rows = tf.gather(flat, block * size + place % size, batch_dims=1)
    seen = found > -math.inf
    rows = tf.where(seen, rows, 0)
    return rows, seen, tf.gather(cuts.places // size, rows, batch_dims=1)


def nearest_by_channel(points, known, cuts, reach, count):
    """`nearest` for each channel: the k points nearest to each block that the channel observed.

    Args:
        points, cuts, reach, count: as in `nearest`.
        known: bool [B, N, c].

    Returns:
        As `nearest`, each [B, n, c k], with the first channel's points first.
    """
    channels = known.shape[-1]
    batch, blocks, size = axis_sizes(cuts.rows)
    points = tf.repeat(points, channels, axis=0)
    known = tf.reshape(tf.linalg.matrix_transpose(known), tf.shape(points)[:2])
    source = median_cuts(points, known, size, blocks)
    repeated = {key: tf.repeat(tensor, channels, axis=0) for key, tensor in vars(cuts).items()}

    def by_block(tensor):
        tensor = tf.transpose(reshape(tensor, [batch, channels, blocks, count]), [0, 2, 1, 3])
        return reshape(tensor, [batch, blocks, [channels, count]])

    return tuple(map(by_block, nearest(points, Cuts(**repeated), reach, count, source)))


def _candidates(wide, own, boxes, count, size):
    """The blocks [B, n, C] whose boxes are nearest to each wide box around a block's own box."""
    dim, blocks = wide[0].shape[-1], axis_sizes(boxes[0])[1]
    around = _PER_PLACE * 3 ** min(dim, _MOST_AXES)
    if isinstance(blocks, int) and isinstance(count, int) and isinstance(size, int):
        kept = min(blocks, around + _PER_HALO * -(-count // size))
    else:
        kept = tf.minimum(blocks, around + _PER_HALO * -(-count // tf.maximum(size, 1)))
    # As in `nearest`: of the blocks within reach, the nearest to the block itself come first.
    squares, most = 0.0, 0.5 * math.sqrt(wide[0].dtype.max / dim)
    for axis in range(dim):
        for weight, (bottom, top) in ((1.0, wide), (_TIE, own)):
            low, high = (t[:, :, None, axis] for t in (bottom, top))
            gap = tf.maximum(boxes[0][:, None, :, axis] - high, low - boxes[1][:, None, :, axis])
            # Squares of gaps to empty blocks are finite.
            squares += weight * tf.square(tf.nn.relu(tf.minimum(gap, most)))
    return tf.math.top_k(-squares, kept)[1]


def nearest_block(query, cuts, points):
    """The block whose box is nearest to each query point; the first one if several are.

    Args:
        query: [B, M, d].
        cuts: the `Cuts` of ``points`` [B, N, d].

    Returns:
        The blocks' numbers [B, M].
    """
    placed = tf.gather(tf.stop_gradient(points), cuts.rows, batch_dims=1)
    low, high = box_of(placed, cuts.filled)
    squares, some = 0.0, tf.reduce_any(cuts.filled, axis=2)[:, None]
    for axis in range(query.shape[-1]):
        at = tf.stop_gradient(query)[:, :, None, axis]
        gap = tf.maximum(low[:, None, :, axis] - at, at - high[:, None, :, axis])
        squares += tf.square(tf.nn.relu(gap))
    # An example without a known point has only its first block.
    squares = tf.where(some, squares, math.inf)
    return tf.argmin(squares, axis=-1, output_type=tf.int32)
