"""A posterior for each channel of an example: noise, observed points and kernel may differ.

Every pair (example, channel) has its own covariance matrix. The pairs are sorted by their number of
observed points and processed in blocks of equal length. A block gathers the observed points of its
pairs, as many as its fullest pair has, and is a batch of `SharedNoise` posteriors. So work and
memory depend on the observed points instead of all points. The length of the blocks is such that
each of their arrays (length x N x N, length x M F x N, length x M F x F) would stay within
`tfpn.math.blocks.BLOCK_BYTES` if everything were observed.

Under XLA, which compiles for fixed shapes, every pair keeps as many points as any may have
observed.
"""

import dataclasses
import math
from typing import Any, Self

import tensorflow as tf

from tfpn.math.blocks import WHOLE, block_length, compiled, in_blocks, largest
from tfpn.math.fusion import fusion
from tfpn.math.kernels import Kernel
from tfpn.math.posterior.interface import Fixed, Flowed, Functionals, Posterior
from tfpn.math.posterior.shared import factorise
from tfpn.math.shapes import axis_sizes, reshape
from tfpn.types import Tensor, Trains

# Kinds of rows: points of examples, points of pairs, pairs, examples of pairs, channels of pairs.
_POINTS, _ENTRIES, _PAIRS = "points", "entries", "pairs"
_EXAMPLES, _CHANNELS = "examples", "channels"


@dataclasses.dataclass(frozen=True)
class ChannelNoise(Posterior):
    """Posterior of channels that are observed independently of each other.

    Attributes:
        kernel: a kernel with scalar parameters, or with one for each channel.
        points: [B, N, d], finite.
        values: [B, c, N], 0 where unobserved.
        noise: variances [B, c, N], positive, +inf where unobserved.
        likelihood_noise: equal to ``noise``; the marginal likelihood's gradient goes here.
        trains: "all", or "kernel" to keep that gradient from points and values.
        stages, most: as in `tfpn.math.posterior.Observed`.
    """

    kernel: Kernel
    points: tf.Tensor
    values: tf.Tensor
    noise: tf.Tensor
    likelihood_noise: tf.Tensor
    trains: Trains
    stages: tuple = ()
    most: Any = None

    @property
    def _most(self):
        """The largest number of observed points of a pair, as far as it is known beforehand."""
        return axis_sizes(self.noise)[2] if self.most is None else self.most

    @property
    def channels(self) -> int:
        return self.values.shape[1]

    @property
    def observations(self) -> tuple[Tensor, Tensor]:
        return tf.linalg.matrix_transpose(self.values), self.noise

    def condition(self, functionals: Functionals) -> Any:
        given, kinds, rebuilt = self._rows_of(functionals)
        (queries, count), size = functionals.shape, self._most

        def function(posterior, valid, *rows):
            mean, explained, nll = posterior.condition(rebuilt(*rows))
            return mean[..., 0], explained[:, :, 0], nll[..., 0]

        found = self._in_blocks(
            function,
            given,
            kinds,
            results=[(_PAIRS, [queries, count]), (_PAIRS, [queries, count, count]), (_PAIRS, [])],
            numbers=largest(size * size, queries * count * largest(size, count)),
        )
        mean, explained, nll = map(self._by_channel, found)
        return tf.transpose(mean, [0, 2, 3, 1]), tf.transpose(explained, [0, 2, 1, 3, 4]), nll

    def mixed(
        self,
        functionals: Functionals,
        weights: Tensor,
        prior: Tensor,
        *,
        chosen: Tensor | None = None,
        limit: float | None = None,
    ) -> Any:
        """Outputs that add up functionals of the channels, as if some pairs did not exist.

        No array holds the explained parts of all pairs.

        Args:
            functionals: F functionals at each of M places.
            weights: weights of each channel's functionals in an output, [c, F, out].
            prior: the functionals' prior covariances, [c, F, F].
            chosen: bool [B, c], the pairs that exist. The default is all.
            limit: pairs with a larger `SharedNoise.amplification` do not exist either. The
                factorisation is then in the values' dtype, and a failed one excludes its pair.

        Returns:
            Mean and variance [B, M, out], not rectified; the negative log marginal likelihood
            [B, c]; and which pairs exist, bool [B, c].
        """
        given, kinds, rebuilt = self._rows_of(functionals, by_pair=chosen is not None)
        (queries, count), size = functionals.shape, self._most
        out = weights.shape[-1]

        def function(posterior, valid, weights, prior, *rows):
            if limit is not None:
                valid &= posterior.amplification() <= limit
                posterior = posterior.without(~valid)
            mean, explained, nll = posterior.condition(rebuilt(*rows))
            left = reshape(
                tf.expand_dims(prior, 1) - explained[:, :, 0], [None, queries, count * count]
            )
            pairs = tf.expand_dims(weights, 2) * tf.expand_dims(weights, 1)
            pairs = tf.reshape(pairs, [-1, count * count, out])
            exists = tf.cast(valid, nll.dtype)
            by_pair = exists[:, None, None]
            return (
                by_pair * tf.matmul(mean[..., 0], weights),
                by_pair * tf.matmul(left, pairs),
                exists * nll[..., 0],
                tf.stop_gradient(exists),
            )

        found = self._in_blocks(
            function,
            [weights, prior, *given],
            [_CHANNELS, _CHANNELS, *kinds],
            results=[*[(_EXAMPLES, [queries, out])] * 2, *[(_PAIRS, [])] * 2],
            numbers=largest(size * size, queries * count * largest(size, count), queries * out),
            chosen=chosen,
            attempt=limit is not None,
        )
        mean, variance, nll, exists = found
        return mean, variance, self._by_channel(nll), self._by_channel(exists) > 0.0

    def mean(self, functionals: Functionals) -> Any:
        if not self.kernel.each:
            # This takes one system for each pair, and one product for all channels.
            weights, nll = self.solve(tf.expand_dims(tf.linalg.matrix_transpose(self.values), -1))
            cross = functionals.cross(self.points)
            batch, queries, count, size = axis_sizes(cross)
            flat = tf.reshape(cross, [batch, queries * count, size])
            mean = tf.matmul(flat, weights[..., 0])
            return tf.reshape(mean, [batch, queries, count, self.channels]), nll
        given, kinds, rebuilt = self._rows_of(functionals)
        (queries, count), size = functionals.shape, self._most

        def function(posterior, valid, *rows):
            mean, nll = posterior.mean(rebuilt(*rows))
            return mean[..., 0], nll[..., 0]

        found = self._in_blocks(
            function,
            given,
            kinds,
            results=[(_PAIRS, [queries, count]), (_PAIRS, [])],
            numbers=size * largest(size, queries * count),
        )
        mean, nll = map(self._by_channel, found)
        return tf.transpose(mean, [0, 2, 3, 1]), nll

    def solve(self, columns: Tensor) -> Any:
        count, size = columns.shape[-1], self._most

        def function(posterior, valid, columns):
            found, nll = posterior.solve(tf.expand_dims(columns, 2))
            return found[:, :, 0], nll[..., 0]

        columns = tf.transpose(columns, [0, 2, 1, 3])
        solution, nll = self._in_blocks(
            function,
            [columns],
            [_ENTRIES],
            results=[(_ENTRIES, [count]), (_PAIRS, [])],
            numbers=size * largest(size, count),
        )
        solution = tf.reshape(solution, tf.shape(columns))
        return tf.transpose(solution, [0, 2, 1, 3]), self._by_channel(nll)

    def respond(self, functionals: Functionals, columns: Tensor) -> Any:
        if not self.kernel.each:  # one product for all channels
            return super().respond(functionals, columns)
        given, kinds, rebuilt = self._rows_of(functionals)
        (queries, count), size = functionals.shape, self._most
        number = axis_sizes(columns)[1]

        def function(posterior, valid, columns, *rows):
            columns = tf.expand_dims(tf.linalg.matrix_transpose(columns), -1)  # [b, q, n, 1]
            found, nll = posterior.respond(rebuilt(*rows), columns)
            return found[..., 0], nll[..., 0]

        found, nll = self._in_blocks(
            function,
            [tf.transpose(columns, [0, 3, 2, 1]), *given],
            [_ENTRIES, *kinds],
            results=[(_PAIRS, [number, queries, count]), (_PAIRS, [])],
            numbers=largest(size * size, queries * count * largest(size, number)),
        )
        return tf.transpose(self._by_channel(found), [0, 2, 3, 4, 1]), self._by_channel(nll)

    def negative_log_marginal_likelihood(self) -> Tensor:
        return self.solve(tf.expand_dims(tf.linalg.matrix_transpose(self.values), -1))[1]

    def select(self, channels: Any) -> Self:
        def chosen(tensor):
            return tf.gather(tensor, channels, axis=1)

        kernel = self.kernel
        if kernel.each:  # a single channel has scalar parameters again
            one = len(channels) == 1
            kernel = kernel.map(lambda t: t[channels[0]] if one else tf.gather(t, channels))
        return dataclasses.replace(
            self,
            kernel=kernel,
            values=chosen(self.values),
            noise=chosen(self.noise),
            likelihood_noise=chosen(self.likelihood_noise),
        )

    def _rows_of(self, functionals, by_pair=False):
        """Tensors of functionals, their kinds of rows, and a function that rebuilds functionals."""
        if isinstance(functionals, Flowed) and (self.kernel.each or by_pair):
            # The covariances with the points differ from channel to channel, or only a few of the
            # pairs need them.
            kinds = [_EXAMPLES, _CHANNELS if self.kernel.each else WHOLE]
            return [functionals.query, functionals.kernel], kinds, Flowed
        cross = functionals.cross(self.points)
        batch, queries, count, size = axis_sizes(cross)

        def rebuilt(rows):
            rows = tf.linalg.matrix_transpose(rows)
            return Fixed(tf.reshape(rows, [-1, queries, count, tf.shape(rows)[-1]]))

        flat = tf.linalg.matrix_transpose(tf.reshape(cross, [batch, queries * count, size]))
        return [flat], [_POINTS], rebuilt

    def _by_channel(self, rows):
        return tf.reshape(rows, [*axis_sizes(self.values)[:2], *axis_sizes(rows)[1:]])

    def _in_blocks(self, function, given, kinds, *, results, numbers, chosen=None, attempt=False):
        """The function's results for each pair, summed over pairs that share a row.

        Args:
            function: takes the `SharedNoise` of a block's pairs, whether each of them is no
                padding, and the rows of ``given`` there.
            given: tensors, or structures that `tf.nest` flattens into tensors.
            kinds: the kind of rows of each.
            results: for each result the kind of rows and the shape of one row.
            numbers: size of a pair's largest array.
            chosen: bool [B, c], the pairs to take. The default is all.
            attempt: as in `factorise`.
        """
        plan = _Pairs(self.noise, numbers, chosen, self.most)
        given = [
            *(
                self.points,
                tf.expand_dims(self.values, -1),
                self.noise,
                self.likelihood_noise,
                self.kernel,
            ),
            self.stages,
            *given,
        ]
        hyper = _CHANNELS if self.kernel.each else WHOLE
        kinds = [_POINTS, _ENTRIES, _ENTRIES, _ENTRIES, hyper, _POINTS, *kinds]
        kinds = [k for part, k in zip(given, kinds, strict=True) for _ in tf.nest.flatten(part)]

        def in_block(block, *tensors):
            points, values, noise, likelihood_noise, kernel, stages, *rest = (
                tf.nest.pack_sequence_as(given, tensors)
            )
            # A pair that only pads a block has no observation.
            noise, likelihood_noise = (
                tf.where(tf.expand_dims(block.rows["valid"], 1), t, math.inf)
                for t in (noise, likelihood_noise)
            )
            with fusion(False):  # each block has another number of points
                posterior = factorise(
                    *(kernel, points, values, noise, likelihood_noise),
                    trains=self.trains,
                    attempt=attempt,
                    stages=stages,
                )
                return function(posterior, block.rows["valid"], *rest)

        axes = {_POINTS: 2, _ENTRIES: 3}
        numbers_of_rows = {
            _EXAMPLES: axis_sizes(self.noise)[0],
            _PAIRS: plan.pairs,
            _ENTRIES: plan.pairs * plan.points,
        }
        return in_blocks(
            in_block,
            plan,
            tensors=[
                _rows(tensor, axes[kind]) if kind in axes else tensor
                for tensor, kind in zip(tf.nest.flatten(given), kinds, strict=True)
            ],
            kinds=kinds,
            results=[(kind, numbers_of_rows[kind], shape) for kind, shape in results],
        )


def _rows(tensor, axes):
    """Merges the first ``axes`` axes."""
    return tf.reshape(tensor, tf.concat([[-1], tf.shape(tensor)[axes:]], axis=0))


class _Pairs:
    """The pairs sorted by their number of observations, and the places of these."""

    def __init__(self, variance, numbers, chosen=None, most=None):
        batch, self._channels, self.points = axis_sizes(variance)
        self.pairs = self._taken = batch * self._channels
        if chosen is not None:
            chosen = tf.reshape(chosen, [self.pairs])
            self._taken = tf.reduce_sum(tf.cast(chosen, tf.int32))
        self._length = block_length(self.pairs, numbers, variance.dtype)
        self.count = -(-self._taken // self._length)
        observed = tf.reshape(tf.math.is_finite(variance), [self.pairs, self.points])
        # The observed points of each pair come first.
        self._places = tf.argsort(tf.cast(~observed, tf.int32), axis=-1, stable=True)
        number = tf.reduce_sum(tf.cast(observed, tf.int32), axis=-1)
        self._fixed = (self.points if most is None else most) if compiled() else None
        if self._fixed is not None:
            number = tf.zeros([self.pairs], tf.int32)
        if chosen is not None:
            number = tf.where(chosen, number, -1)
        self._order = tf.argsort(number, direction="DESCENDING", stable=True)
        self._numbers = tf.gather(number, self._order)
        self._order = tf.pad(self._order, [[0, self._length]])  # the last block is filled up

    def rows(self, index):
        """Rows of a block by their kind, and whether each of its pairs is no padding."""
        start = index * self._length
        pair = tf.slice(self._order, [start], [self._length])
        most = self._numbers[start] if self._fixed is None else self._fixed
        place = tf.gather(self._places[:, :most], pair)
        return {
            _POINTS: tf.expand_dims(pair // self._channels, 1) * self.points + place,
            _ENTRIES: tf.expand_dims(pair, 1) * self.points + place,
            _PAIRS: pair,
            _EXAMPLES: pair // self._channels,
            _CHANNELS: pair % self._channels,
            "valid": start + tf.range(self._length) < self._taken,
        }
