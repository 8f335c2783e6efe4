"""Which observations each block of points is given besides its own: the nearest ones."""

import math

import tensorflow as tf

from tfpn.math.shapes import axis_sizes, reshape

# Blocks among which a block's halo is sought: so many for each of its neighbours' blocks, and for
# each place of the lattice of blocks around it, which has 3^d; as far as there are so many.
_PER_HALO, _PER_PLACE, _MOST_AXES = 2, 2, 3
# Of two points within reach of the flows the one nearer to the block itself comes first.
_TIE = 1e-3


def box_of(points, filled):
    """Corners [B, n, d] of the boxes around points [B, n, S, d] where ``filled`` [B, n, S].

    Those of an empty block are the dtype's largest number and the opposite of it.
    """
    most, filled = points.dtype.max, filled[..., None]
    low = tf.reduce_min(tf.where(filled, points, most), axis=2)
    return low, tf.reduce_max(tf.where(filled, points, -most), axis=2)


def nearest(points, cuts, reach, count):
    """The known points nearest to each block that are not its own.

    A flow reads a block's functions at its points plus the flow's drift. So the distance is that to
    the block's box, with what the drifts add to it on each side.

    Args:
        points: [B, N, d], finite.
        cuts: `tfpn.math.neighbourhoods.cuts.Cuts` of them.
        reach: lowest and highest drift along each axis, [d] each, the first <= 0 <= the second.
        count: k, of points for each block.

    Returns:
        The points' rows [B, n, k], 0 where there are no more of them; bool [B, n, k], False there;
        and their blocks [B, n, k].
    """
    points = tf.stop_gradient(points)
    batch, blocks, size = axis_sizes(cuts.rows)
    dim = points.shape[-1]
    placed = tf.gather(points, cuts.rows, batch_dims=1)  # [B, n, S, d]
    low, high = box_of(placed, cuts.filled)
    wide = low + reach[0], high + reach[1]
    candidates = _candidates(wide, (low, high), count, size)
    kept = axis_sizes(candidates)[2]
    usable = tf.gather(cuts.filled, candidates, batch_dims=1)  # [B, n, C, S]
    usable &= (candidates != tf.range(blocks)[:, None])[..., None]
    distance = tf.where(usable, tf.zeros([], points.dtype), math.inf)
    # Axis by axis: a last axis of d numbers would take five times as long.
    for axis in range(dim):
        others = tf.gather(placed[..., axis], candidates, batch_dims=1)
        for weight, (bottom, top) in ((1.0, wide), (_TIE, (low, high))):
            bottom, top = (corner[:, :, None, None, axis] for corner in (bottom, top))
            gap = tf.nn.relu(tf.maximum(bottom - others, others - top))
            distance += weight * tf.square(gap)
    distance = reshape(distance, [batch, blocks, [kept, size]])
    found, place = tf.math.top_k(-distance, count)
    block = tf.gather(candidates, place // size, batch_dims=2)
    flat = tf.reshape(cuts.rows, [batch, -1])
    rows = tf.gather(flat, block * size + place % size, batch_dims=1)
    seen = found > -math.inf
    return tf.where(seen, rows, 0), seen, block


def _candidates(wide, boxes, count, size):
    """The blocks [B, n, C] whose boxes are nearest to each wide box, its own among them."""
    dim, blocks = wide[0].shape[-1], axis_sizes(wide[0])[1]
    most = _PER_PLACE * 3 ** min(dim, _MOST_AXES)
    if isinstance(blocks, int) and isinstance(count, int) and isinstance(size, int):
        kept = min(blocks, most + _PER_HALO * -(-count // size))
    else:
        kept = tf.minimum(blocks, most + _PER_HALO * -(-count // tf.maximum(size, 1)))
    squares = 0.0
    for axis in range(dim):
        low, high = (t[:, :, None, axis] for t in wide)
        gap = tf.maximum(boxes[0][:, None, :, axis] - high, low - boxes[1][:, None, :, axis])
        squares += tf.square(tf.nn.relu(tf.minimum(gap, gap.dtype.max**0.25)))
    return tf.math.top_k(-squares, kept)[1]


def nearest_block(query, cuts, points):
    """The block whose box is nearest to each query point, the first of several.

    Args:
        query: [B, M, d].
        cuts: of ``points`` [B, N, d].

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
    # An example without any known point has its first block alone.
    squares = tf.where(some, squares, math.inf)
    return tf.argmin(squares, axis=-1, output_type=tf.int32)
