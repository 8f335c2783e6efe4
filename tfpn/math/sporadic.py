"""Channels seen at different points: one factorisation for each example and channel, in blocks.

Every pair (example, channel) has a covariance matrix of its own. The pairs are sorted by their
number of observed points and processed in blocks of equal length: a block gathers the observed
points of its pairs, as many as the fullest of them has, and makes one batched factorisation of
them. The gradient computes each block anew, so that one block is in memory at a time, and work and
memory are those of what was observed rather than of all points.

Under XLA, which compiles for fixed shapes, every pair keeps all its points.
"""

import math

import tensorflow as tf
from tensorflow.python.ops import control_flow_util

from tfpn.math.kernels import rbf_kernel
from tfpn.math.posterior import condition, negative_log_marginal_likelihood, solve, whiten

# Bound on each of a block's large arrays: size x N x N, size x M K x N and size x M K x K, as if
# everything were observed. Some ten of them are alive at once. A single pair may exceed it.
BLOCK_BYTES = 2**26

# How a tensor is stored: a row for each point of an example, a row for each point of a pair, a
# row for each pair, or as a whole.
_POINTS, _ENTRIES, _PAIRS, _WHOLE = "points", "entries", "pairs", "whole"


def condition_pairs(cross, points, variance, values, signal_std, length_scale, *, nll_variance,
                    nll_trains_data):  # fmt: skip
    """Posterior of K functionals at M points and marginal likelihood, for every pair.

    Args:
        cross: prior covariances of the functionals with the points, [B, M, K, N].
        points: [B, N, d], finite.
        variance: [B, c, N], positive, +inf where unobserved.
        values: [B, c, N, 1], finite.
        signal_std, length_scale: scalars.
        nll_variance: equal to ``variance``; the marginal likelihood's gradient goes here.
        nll_trains_data: whether that gradient reaches points and values.

    Returns:
        The means [B, c, M, K], what the observations explain of the prior covariances
        [B, c, M, K, K] and the negative log marginal likelihood [B, c].
    """
    batch, queries, operators, size = _dims(cross)
    channels = _dims(variance)[1]

    def block(recording, cross, points, variance, nll_variance, values, signal_std, length_scale):
        cross = tf.linalg.matrix_transpose(cross)
        cross = tf.reshape(cross, [-1, queries, operators, tf.shape(cross)[-1]])
        prior = {"signal_std": signal_std, "length_scale": length_scale}
        covariance = rbf_kernel(points, points, **prior)
        factorised = whiten(covariance, variance)
        mean, explained = condition(cross, covariance, variance, values, factorised[0])
        if recording and not nll_trains_data:
            points, values = tf.stop_gradient(points), tf.stop_gradient(values)
            covariance = rbf_kernel(points, points, **prior)
        nll = negative_log_marginal_likelihood(covariance, nll_variance, values, *factorised)
        return mean[..., 0], explained, nll[..., 0]

    flat = tf.linalg.matrix_transpose(tf.reshape(cross, [batch, queries * operators, size]))
    mean, explained, nll = _in_blocks(
        block,
        tensors=(flat, points, variance, nll_variance, values, signal_std, length_scale),
        kinds=(_POINTS, _POINTS, _ENTRIES, _ENTRIES, _ENTRIES, _WHOLE, _WHOLE),
        results=(
            (_PAIRS, [queries, operators]),
            (_PAIRS, [queries, operators, operators]),
            (_PAIRS, []),
        ),
        variance_at=(2, 3),
        numbers=_maximum(size * size, queries * operators * _maximum(size, operators)),
    )
    pairs = [batch, channels]
    return (
        tf.reshape(mean, [*pairs, queries, operators]),
        tf.reshape(explained, [*pairs, queries, operators, operators]),
        tf.reshape(nll, pairs),
    )


def solve_pairs(columns, points, variance, values, signal_std, length_scale, *, nll_variance,
                nll_trains_data):  # fmt: skip
    """``(K + S)^-1 columns`` and marginal likelihood, for every pair.

    Args:
        columns: [B, c, N, q], finite.
        points, variance, values, signal_std, length_scale, nll_variance, nll_trains_data: as in
            `condition_pairs`; ``values`` are those of the marginal likelihood alone.

    Returns:
        [B, c, N, q], 0 where unobserved, and the negative log marginal likelihood [B, c].
    """

    def block(recording, columns, points, variance, nll_variance, values, signal_std, length_scale):
        prior = {"signal_std": signal_std, "length_scale": length_scale}
        covariance = rbf_kernel(points, points, **prior)
        factorised = whiten(covariance, variance)
        solution = solve(covariance, variance, columns, factorised[0])
        if recording and not nll_trains_data:
            points, values = tf.stop_gradient(points), tf.stop_gradient(values)
            covariance = rbf_kernel(points, points, **prior)
        nll = negative_log_marginal_likelihood(covariance, nll_variance, values, *factorised)
        return solution, nll[..., 0]

    size = _dims(variance)[2]
    solution, nll = _in_blocks(
        block,
        tensors=(columns, points, variance, nll_variance, values, signal_std, length_scale),
        kinds=(_ENTRIES, _POINTS, _ENTRIES, _ENTRIES, _ENTRIES, _WHOLE, _WHOLE),
        results=((_ENTRIES, [columns.shape[-1]]), (_PAIRS, [])),
        variance_at=(2, 3),
        numbers=size * _maximum(size, columns.shape[-1]),
    )
    return tf.reshape(solution, tf.shape(columns)), tf.reshape(nll, tf.shape(variance)[:2])


def _dims(tensor):
    """The sizes of the axes, as numbers where they are known."""
    dynamic = tf.shape(tensor)
    return [dynamic[i] if size is None else size for i, size in enumerate(tensor.shape)]


def _maximum(a, b):
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else tf.maximum(a, b)


def _block_length(pairs, numbers, itemsize):
    """Pairs in a block: as many as keep ``numbers`` for each of them within BLOCK_BYTES."""
    if isinstance(pairs, int) and isinstance(numbers, int):
        return max(min(pairs, BLOCK_BYTES // max(numbers * itemsize, 1)), 1)
    fitting = BLOCK_BYTES // tf.maximum(tf.cast(numbers, tf.int64) * itemsize, 1)
    return tf.maximum(tf.minimum(tf.cast(pairs, tf.int64), fitting), 1)


class _Blocks:
    """The pairs in order of their number of observations, and where these are."""

    def __init__(self, variance, numbers):
        batch, self._channels, self.points = _dims(variance)
        self.pairs = batch * self._channels
        length = _block_length(self.pairs, numbers, variance.dtype.size)
        self.length = length if isinstance(length, int) else tf.cast(length, tf.int32)
        self.count = -(-self.pairs // self.length)
        graph = tf.compat.v1.get_default_graph()
        self._fixed = control_flow_util.GraphOrParentsInXlaContext(graph)
        if self._fixed:
            self._order = tf.range(self.pairs)
        else:
            observed = tf.reshape(tf.math.is_finite(variance), [self.pairs, self.points])
            numbers = tf.reduce_sum(tf.cast(observed, tf.int32), axis=-1)
            self._order = tf.argsort(numbers, direction="DESCENDING", stable=True)
            self._numbers = tf.gather(numbers, self._order)
            # Of each pair the observed points first.
            self._places = tf.argsort(tf.cast(~observed, tf.int32), axis=-1, stable=True)
        self._order = tf.pad(self._order, [[0, self.count * self.length - self.pairs]])

    def rows(self, block):
        """Rows of a block in each kind of storage, and which of its pairs are not padding."""
        start = block * self.length
        pair = tf.slice(self._order, [start], [self.length])
        if self._fixed:
            place = tf.broadcast_to(tf.range(self.points), [self.length, self.points])
        else:
            place = tf.gather(self._places[:, : self._numbers[start]], pair)
        rows = {
            _POINTS: (pair // self._channels)[:, None] * self.points + place,
            _ENTRIES: pair[:, None] * self.points + place,
            _PAIRS: pair,
        }
        return rows, start + tf.range(self.length) < self.pairs


def _in_blocks(function, *, tensors, kinds, results, variance_at, numbers):
    """Applies ``function`` to blocks of pairs, in the backward pass once more.

    Args:
        function: takes whether gradients are recorded and the gathered tensors.
        tensors: its arguments, whole.
        kinds: how each of them is stored.
        results: how its results are stored ("pairs" or "entries") and the shape of a row. They must
            be 0 for a pair without observations, and at unobserved entries.
        variance_at: which tensors are variances, +inf where nothing is observed.
        numbers: size of a pair's largest array.

    Returns:
        The results with one row for each pair or entry.
    """
    blocks = _Blocks(tensors[variance_at[0]], numbers)
    leading = {_POINTS: 2, _ENTRIES: 3}
    flat = tuple(
        tensor
        if kind == _WHOLE
        else tf.reshape(tensor, tf.concat([[-1], tf.shape(tensor)[leading[kind] :]], axis=0))
        for tensor, kind in zip(tensors, kinds, strict=True)
    )

    @tf.custom_gradient
    def apply(*flat):
        dtype = flat[0].dtype

        def gather(rows, valid):
            gathered = [
                tensor if kind == _WHOLE else tf.gather(tensor, rows[kind])
                for tensor, kind in zip(flat, kinds, strict=True)
            ]
            for i in variance_at:  # padding: a pair without any observation
                gathered[i] = tf.where(valid[:, None], gathered[i], math.inf)
            return gathered

        def forward(block, carried):
            rows, valid = blocks.rows(block)
            found = function(False, *gather(rows, valid))
            return block + 1, _scattered([kind for kind, _ in results], rows, carried, found)

        start = tuple(
            tf.zeros([blocks.pairs * (1 if kind == _PAIRS else blocks.points), *shape], dtype)
            for kind, shape in results
        )
        whole = _loop(blocks.count, forward, start)

        def gradient(*upstream):
            def backward(block, carried):
                rows, valid = blocks.rows(block)
                gathered = gather(rows, valid)
                with tf.GradientTape() as tape:
                    tape.watch(gathered)
                    found = function(True, *gathered)
                weights = [
                    tf.gather(u, rows[kind]) for u, (kind, _) in zip(upstream, results, strict=True)
                ]
                found = tape.gradient(found, gathered, weights, unconnected_gradients="zero")
                return block + 1, _scattered(kinds, rows, carried, found)

            return _loop(blocks.count, backward, tuple(tf.zeros_like(t) for t in flat))

        return whole, gradient

    return apply(*flat)


def _scattered(kinds, rows, whole, parts):
    """``whole`` with a block's rows added; each kind's rows, or all of it, are in ``parts``."""
    return tuple(
        old + part if kind == _WHOLE else tf.tensor_scatter_nd_add(old, rows[kind][..., None], part)
        for kind, old, part in zip(kinds, whole, parts, strict=True)
    )


def _loop(count, body, start):
    """``start`` carried through ``count`` blocks."""
    return tf.while_loop(
        lambda block, _: block < count, body, (tf.constant(0), start), parallel_iterations=1
    )[1]
