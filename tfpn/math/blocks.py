"""Computes results block by block, and their gradients block by block again.

If a whole batch does not fit into memory, a loop over blocks computes it. Automatic differentiation
of a loop would keep the results of every block. Here the backward pass computes each block anew. So
only one block is in memory at a time in both passes.
"""

import tensorflow as tf
from tensorflow.python.ops import control_flow_util

# Bound on each of a block's large arrays, of which about ten are in memory at once. A block has at
# least one row, which may exceed it. Small blocks hold pairs of similar length and stay near the
# cache, but every block has a cost. At PhysioNet 2012's shapes 2**26 and 2**23 are slower on a CPU.
BLOCK_BYTES = 2**24

WHOLE = "whole"  # a tensor that every block takes whole


def in_blocks(function, plan, *, tensors, kinds, results):
    """Sums the results of ``function`` over the blocks, with one block in memory at a time.

    Args:
        function: takes a `Block` and the tensors' rows in it, and returns a tuple of the results'
            rows. Tensors that it captures get no gradient.
        plan: has ``count``, the number of blocks, and ``rows(index)``: a dict from each kind of
            rows to an integer tensor of those in the block. Its entry "valid" tells the function
            about padding. Rows that a block repeats as padding must add nothing.
        tensors: float tensors of one dtype.
        kinds: for each tensor the kind of rows on its leading axis, or `WHOLE`.
        results: for each result the kind of rows, their number, and the shape of one row.

    Returns:
        A tuple of the results, [number of rows, *shape].
    """
    result_kinds = [kind for kind, _, _ in results]

    @tf.custom_gradient
    def apply(*tensors):
        def gather(rows):
            return [
                tensor if kind == WHOLE else tf.gather(tensor, rows[kind])
                for tensor, kind in zip(tensors, kinds, strict=True)
            ]

        def forward(index, sums):
            rows = plan.rows(index)
            found = function(Block(index, rows, False), *gather(rows))
            return index + 1, _add(result_kinds, rows, sums, found)

        def gradient(*upstream):
            def backward(index, sums):
                rows = plan.rows(index)
                gathered = gather(rows)
                with tf.GradientTape() as tape:
                    tape.watch(gathered)
                    found = function(Block(index, rows, True), *gathered)
                weights = [
                    tf.gather(u, rows[kind]) for u, kind in zip(upstream, result_kinds, strict=True)
                ]
                found = tape.gradient(found, gathered, weights, unconnected_gradients="zero")
                return index + 1, _add(kinds, rows, sums, found)

            return _loop(plan.count, backward, tuple(tf.zeros_like(t) for t in tensors))

        start = tuple(tf.zeros([size, *shape], tensors[0].dtype) for _, size, shape in results)
        return _loop(plan.count, forward, start), gradient

    return apply(*tensors)


class Block:
    """One block: its index, its rows by kind, and whether a tape records gradients."""

    def __init__(self, index, rows, recording):
        self.index = index
        self.rows = rows
        self.recording = recording


def _add(kinds, rows, whole, parts):
    return tuple(
        old + part if kind == WHOLE else _add_rows(old, rows[kind], part)
        for kind, old, part in zip(kinds, whole, parts, strict=True)
    )


def _add_rows(whole, rows, part):
    return tf.tensor_scatter_nd_add(whole, tf.expand_dims(rows, -1), part)


def _loop(count, body, start):
    return tf.while_loop(
        lambda index, _: index < count, body, (tf.constant(0), start), parallel_iterations=1
    )[1]


def block_length(rows, numbers, dtype):
    """The number of rows of a block, so that their largest array fits into BLOCK_BYTES.

    Args:
        rows: number of all rows.
        numbers: size of a row's largest array.
        dtype: its dtype.

    Returns:
        A number if ``rows`` and ``numbers`` are numbers, otherwise a tensor.
    """
    if isinstance(rows, int) and isinstance(numbers, int):
        return max(min(rows, BLOCK_BYTES // max(numbers * dtype.size, 1)), 1)
    fitting = BLOCK_BYTES // tf.maximum(tf.cast(numbers, tf.int64) * dtype.size, 1)
    length = tf.maximum(tf.minimum(tf.cast(rows, tf.int64), fitting), 1)
    return tf.cast(length, tf.int32)


def compiled():
    """Whether XLA compiles the operations made here; it needs fixed shapes."""
    return control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def largest(*numbers):
    """The maximum of numbers or integer tensors."""
    if all(isinstance(number, int) for number in numbers):
        return max(numbers)
    return tf.reduce_max(tf.stack([tf.cast(number, tf.int32) for number in numbers]))
