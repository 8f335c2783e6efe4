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
from tfpn.math.fusion import fusion
from tfpn.math.kernels import kernels_of_coefficients, operator_coefficients, rbf_kernel
from tfpn.math.posterior import condition, negative_log_marginal_likelihood, solve, whiten

# Rows of tensors: points of examples, points of pairs, pairs, examples of pairs, channels of pairs.
_POINTS, _ENTRIES, _PAIRS = "points", "entries", "pairs"
_EXAMPLES, _CHANNELS = "examples", "channels"


def condition_pairs(cross, points, variance, values, signal_std, length_scale, *, nll_variance,
                    nll_trains_data):  # fmt: skip
    """Posterior of K functionals at M points and marginal likelihood, for every pair.

    Args:
        cross: prior covariances of the functionals with the points, [B, M, K, N].
        points: [B, N, d], finite.
        variance: [B, c, N], positive, +inf where unobserved.
        values: [B, c, N, 1], finite.
        signal_std, length_scale: scalars, or in `solve_pairs` [c] too.
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
    return _conditioned(
        function,
        (points, variance, nll_variance, values, signal_std, length_scale),
        extra=((flat, _POINTS),),
        shape=(queries, operators),
    )


def condition_channels(query, points, variance, values, signal_std, length_scale, *, drift,
                       diffusion, nll_variance, nll_trains_data):  # fmt: skip
    """`condition_pairs` for channels with priors of their own.

    The functionals' covariances with the points then differ from channel to channel, and each
    block computes its own.

    Args:
        query: points [B, M, d] at which the K functionals ``(exp(D_i) f)(x_m)`` are taken.
        signal_std, length_scale: [c].
        drift, diffusion: [K, d] and [K, d, d].
        points, variance, values, nll_variance, nll_trains_data: as in `condition_pairs`.

    Returns:
        As `condition_pairs`.
    """
    operators, queries = drift.shape[0], sizes(query)[1]

    def function(block, points, variance, nll_variance, values, signal_std, length_scale, query,
                 coefficients, log_amplitude):  # fmt: skip
        gp = _Prior(block, points, variance, signal_std, length_scale)
        with fusion(False):  # a block's number of points is its own
            cross = kernels_of_coefficients(query, points, coefficients, log_amplitude)
        mean, explained = condition(cross, gp.covariance, gp.variance, values, gp.whitener)
        return mean[..., 0], explained, gp.nll(values, nll_variance, nll_trains_data)

    coefficients = operator_coefficients(signal_std, length_scale, drift, diffusion)
    return _conditioned(
        function,
        (points, variance, nll_variance, values, signal_std, length_scale),
        extra=((query, _EXAMPLES), *((tensor, _CHANNELS) for tensor in coefficients)),
        shape=(queries, operators),
    )


def _conditioned(function, tensors, *, extra, shape):
    """What the function finds for ``shape`` = (M, K) functionals, for every pair."""
    queries, operators = shape
    *pairs, size = sizes(tensors[1])
    shapes = [queries, operators], [queries, operators, operators], []
    found = _for_pairs(
        function,
        tensors,
        extra=extra,
        results=[(_PAIRS, shape) for shape in shapes],
        numbers=largest(size * size, queries * operators * largest(size, operators)),
    )
    return tuple(
        tf.reshape(result, [*pairs, *shape]) for result, shape in zip(found, shapes, strict=True)
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
        extra=((columns, _ENTRIES),),
        results=((_ENTRIES, columns.shape[-1:]), (_PAIRS, [])),
        numbers=size * largest(size, columns.shape[-1]),
    )
    return tf.reshape(solution, tf.shape(columns)), tf.reshape(nll, tf.shape(variance)[:2])


class _Prior:
    """The factorised priors of a block of pairs."""

    def __init__(self, block, points, variance, signal_std, length_scale):
        self._block = block
        self._points = points
        if signal_std.shape.rank:  # one for each pair
            signal_std, length_scale = (t[:, None, None] for t in (signal_std, length_scale))
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
    """`in_blocks` for the six tensors of a prior with its data and more of the given kinds."""
    plan = _Plan(tensors[1], numbers)
    hyper = _CHANNELS if tensors[4].shape.rank else WHOLE
    tensors = (*tensors, *(tensor for tensor, _ in extra))
    kinds = (
        *(_POINTS, _ENTRIES, _ENTRIES, _ENTRIES, hyper, hyper),
        *(kind for _, kind in extra),
    )
    axes = {_POINTS: 2, _ENTRIES: 3}
    return in_blocks(
        function,
        plan,
        tensors=[
            _rows(tensor, axes[kind]) if kind in axes else tensor
            for tensor, kind in zip(tensors, kinds, strict=True)
        ],
        kinds=kinds,
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
            _EXAMPLES: pair // self._channels,
            _CHANNELS: pair % self._channels,
            "valid": start + tf.range(self._length) < self.pairs,
        }
