"""Channels seen at different points: one factorisation for each example and channel, in blocks.

Every pair (example, channel) has a covariance matrix of its own. The pairs are sorted by their
number of observed points and processed in blocks of equal length: a block gathers the observed
points of its pairs, as many as the fullest of them has, and makes one batched factorisation of
them. Work and memory are those of what was observed rather than of all points; the blocks' length
is such that each of their arrays (length x N x N, length x M K x N, length x M K x K) would stay
within `tfpn.math.blocks.BLOCK_BYTES` if everything were observed.

Under XLA, which compiles for fixed shapes, every pair keeps all its points.
"""

import math

import tensorflow as tf

from tfpn.math.blocks import WHOLE, block_length, compiled, in_blocks, largest, sizes
from tfpn.math.kernels import rbf_kernel
from tfpn.math.posterior import condition, negative_log_marginal_likelihood, solve, whiten

# Rows of tensors: points of examples, points of pairs, pairs.
_POINTS, _ENTRIES, _PAIRS = "points", "entries", "pairs"


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
    batch, queries, operators, size = sizes(cross)

    def function(block, points, variance, nll_variance, values, signal_std, length_scale, cross):
        gp = _Prior(block, points, variance, signal_std, length_scale)
        cross = tf.linalg.matrix_transpose(cross)
        cross = tf.reshape(cross, [-1, queries, operators, tf.shape(cross)[-1]])
        observed = gp.covariance, gp.variance, values, gp.whitener
        mean, explained = condition(cross, *observed)
        return mean[..., 0], explained, gp.nll(values, nll_variance, nll_trains_data)

    flat = tf.linalg.matrix_transpose(tf.reshape(cross, [batch, queries * operators, size]))
    mean, explained, nll = _for_pairs(
        function,
        (points, variance, nll_variance, values, signal_std, length_scale),
        extra=(flat, _POINTS),
        results=(
            (_PAIRS, [queries, operators]),
            (_PAIRS, [queries, operators, operators]),
            (_PAIRS, []),
        ),
        numbers=largest(size * size, queries * operators * largest(size, operators)),
    )
    pairs = sizes(variance)[:2]
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

    def function(block, points, variance, nll_variance, values, signal_std, length_scale, columns):
        gp = _Prior(block, points, variance, signal_std, length_scale)
        solution = solve(gp.covariance, gp.variance, columns, gp.whitener)
        return solution, gp.nll(values, nll_variance, nll_trains_data)

    size = sizes(variance)[2]
    solution, nll = _for_pairs(
        function,
        (points, variance, nll_variance, values, signal_std, length_scale),
        extra=(columns, _ENTRIES),
        results=((_ENTRIES, columns.shape[-1:]), (_PAIRS, [])),
        numbers=size * largest(size, columns.shape[-1]),
    )
    return tf.reshape(solution, tf.shape(columns)), tf.reshape(nll, tf.shape(variance)[:2])


class _Prior:
    """The factorised priors of a block of pairs."""

    def __init__(self, block, points, variance, signal_std, length_scale):
        self._block = block
        self._points = points
        self._hyper = {"signal_std": signal_std, "length_scale": length_scale}
        self.variance = self._without_padding(variance)
        self.covariance = rbf_kernel(points, points, **self._hyper)
        self.whitener, self._log_det = whiten(self.covariance, self.variance)

    def _without_padding(self, variance):
        """A pair that only fills a block up has no observation."""
        return tf.where(self._block.rows["valid"][:, None], variance, math.inf)

    def nll(self, values, variance, trains_data):
        """Negative log marginal likelihood of each pair."""
        covariance = self.covariance
        if self._block.recording and not trains_data:
            points, values = tf.stop_gradient(self._points), tf.stop_gradient(values)
            covariance = rbf_kernel(points, points, **self._hyper)
        variance = self._without_padding(variance)
        return negative_log_marginal_likelihood(
            covariance, variance, values, self.whitener, self._log_det
        )[..., 0]


def _for_pairs(function, tensors, *, extra, results, numbers):
    """`in_blocks` for the six tensors of a prior with its data and one more of the given kind."""
    tensor, kind = extra
    plan = _Plan(tensors[1], numbers)
    return in_blocks(
        function,
        plan,
        tensors=(
            _rows(tensors[0], 2),
            *(_rows(t, 3) for t in tensors[1:4]),
            *tensors[4:],
            _rows(tensor, 2 if kind == _POINTS else 3),
        ),
        kinds=(_POINTS, _ENTRIES, _ENTRIES, _ENTRIES, WHOLE, WHOLE, kind),
        results=[
            (kind, plan.pairs * (1 if kind == _PAIRS else plan.points), shape)
            for kind, shape in results
        ],
    )


def _rows(tensor, axes):
    """The first ``axes`` axes as one."""
    return tf.reshape(tensor, tf.concat([[-1], tf.shape(tensor)[axes:]], axis=0))


class _Plan:
    """The pairs in order of their number of observations, and where these are."""

    def __init__(self, variance, numbers):
        batch, self._channels, self.points = sizes(variance)
        self.pairs = batch * self._channels
        self._length = block_length(self.pairs, numbers, variance.dtype)
        self.count = -(-self.pairs // self._length)
        self._fixed = compiled()
        if self._fixed:
            self._order = tf.range(self.pairs)
        else:
            observed = tf.reshape(tf.math.is_finite(variance), [self.pairs, self.points])
            numbers = tf.reduce_sum(tf.cast(observed, tf.int32), axis=-1)
            self._order = tf.argsort(numbers, direction="DESCENDING", stable=True)
            self._numbers = tf.gather(numbers, self._order)
            # Of each pair the observed points first.
            self._places = tf.argsort(tf.cast(~observed, tf.int32), axis=-1, stable=True)
        self._order = tf.pad(self._order, [[0, self.count * self._length - self.pairs]])

    def rows(self, index):
        """Rows of a block by their kind, and which of its pairs are not padding."""
        start = index * self._length
        pair = tf.slice(self._order, [start], [self._length])
        if self._fixed:
            place = tf.broadcast_to(tf.range(self.points), [self._length, self.points])
        else:
            place = tf.gather(self._places[:, : self._numbers[start]], pair)
        return {
            _POINTS: (pair // self._channels)[:, None] * self.points + place,
            _ENTRIES: pair[:, None] * self.points + place,
            _PAIRS: pair,
            "valid": start + tf.range(self._length) < self.pairs,
        }
