"""Assigns each query point to the block nearest to it."""

import dataclasses

import tensorflow as tf

from tfpn.math.blocks import largest
from tfpn.math.shapes import axis_sizes, reshape
from tfpn.types import Tensor

# Numbers of query points of a chunk. The least one is for blocks that all have a chunk: to
# factorise a block for a second chunk takes longer than so many spare places.
_LEAST, _MOST = 16, 1024


@dataclasses.dataclass(frozen=True)
class Chunks:
    """Query points in t chunks of C places; each chunk belongs to one block.

    Attributes:
        block: the block of each chunk, [B, t].
        first: 1 for the first chunk of each block and 0 for the others, int32 [B, t].
        rows: the query point at each place, [B, t, C]; arbitrary at spare places.
        places: the place of each query point, counted through all chunks, [B, M].
    """

    block: tf.Tensor
    first: tf.Tensor
    rows: tf.Tensor
    places: tf.Tensor

    def take(self, query: Tensor) -> Tensor:
        """Query points by chunk, [B, M, d] -> [B t, C, d]."""
        batch, count, length = axis_sizes(self.rows)
        query = tf.pad(query, [(0, 0), (0, 1), (0, 0)])  # a row for spare places, if there is none
        found = tf.gather(query, reshape(self.rows, [batch, count * length]), batch_dims=1)
        return reshape(found, [batch * count, length, query.shape[-1]])

    def put_back(self, tensor: Tensor) -> Tensor:
        """Puts results [B t, C, ...] in the order of the query points, [B, M, ...]."""
        batch, count, length = axis_sizes(self.rows)
        flat = reshape(tensor, [batch, count * length, *axis_sizes(tensor)[2:]])
        return tf.gather(flat, self.places, batch_dims=1)


def chunks(block, blocks, *, every=False):
    """Sorts query points by their blocks.

    The number of chunks suffices for any distribution of the points over blocks. It is at most
    twice the number of blocks. Without ``every`` it is also at most the number of points.

    Args:
        block: the block of each query point, [B, M].
        blocks: n, the number of blocks.
        every: whether each block has a chunk even if no point belongs to it.

    Returns:
        `Chunks`.

    Example: of four points, three belong to the second of two blocks.

    >>> import tensorflow as tf
    >>> found = chunks(tf.constant([[1, 1, 0, 1]]), 2)
    >>> found.block.numpy().tolist(), found.places.numpy().tolist()
    ([[0, 1, 1, 1]], [[2, 3, 0, 4]])
    """
    batch, number = axis_sizes(block)
    length, least = -(-number // blocks), _LEAST if every else 1
    if isinstance(length, int):
        length = min(max(length, least), _MOST)
    else:
        length = tf.minimum(tf.maximum(length, least), _MOST)
    count = blocks + number // length
    if not every:
        known = isinstance(count, int)
        count = largest(min(number, count) if known else tf.minimum(number, count), 1)
    example = tf.range(batch)[:, None]
    flat = tf.reshape(example * blocks + block, [-1])
    ones = tf.ones([batch * number], tf.int32)
    numbers = tf.math.unsorted_segment_sum(ones, flat, batch * blocks)
    numbers = tf.reshape(numbers, [batch, blocks])
    needed = -(-numbers // length)
    if every:
        needed = tf.maximum(needed, 1)
    order = tf.argsort(block, axis=1, stable=True)
    of_sorted = tf.gather(block, order, batch_dims=1)
    first, first_chunk = (
        tf.gather(tf.cumsum(t, axis=1, exclusive=True), of_sorted, batch_dims=1)
        for t in (numbers, needed)
    )
    rank = tf.range(number) - first
    places = (first_chunk + rank // length) * length + rank % length
    rows = tf.scatter_nd(
        tf.reshape(example * (count * length) + places, [-1, 1]),
        tf.reshape(order, [-1]),
        [batch * count * length],
    )
    ends = tf.cumsum(needed, axis=1)
    of_chunk = tf.broadcast_to(tf.range(count), [batch, count])
    chunk_block = tf.searchsorted(ends, of_chunk, side="right")
    chunk_block = tf.minimum(chunk_block, blocks - 1)
    starts = tf.gather(ends - needed, chunk_block, batch_dims=1)
    return Chunks(
        chunk_block,
        tf.cast(of_chunk == starts, tf.int32),
        tf.reshape(rows, [batch, count, length]),
        tf.gather(places, tf.argsort(order, axis=1), batch_dims=1),
    )
