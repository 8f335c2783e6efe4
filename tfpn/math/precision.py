"""Computes float32 observations in float64 where the digits of float32 do not suffice.

Conditioning takes small differences of large numbers. Let a point be read n times with noise
variance v. Then v / n is left of the prior variance s^2, and float32 loses it below about 1e-7 s^2.
Close points make the covariance matrix K + S so ill-conditioned that N s^2 / v times float32's
rounding counts. Float64 has enough digits.
"""

import dataclasses
import functools

import tensorflow as tf

from tfpn.math.blocks import WHOLE, block_length, in_blocks, largest
from tfpn.math.fusion import fusion
from tfpn.math.posterior.channel import ChannelNoise
from tfpn.math.shapes import axis_sizes

# The limits for float32, see `in_float64_where_coarse`. Both were found with random points at the
# paper's shapes. With shared noise all variances of 3,000 examples then have relative errors below
# 7e-4.
_LARGEST_AMPLIFICATION = 400.0
_LEAST_LEFT = 1e-3
# Pairs (example, channel) are also factorised in float32. One variance in a thousand is then off by
# 2e-4, none of 50,000 by 4e-4, and no likelihood by more than 2e-4.
_LARGEST_PAIR_AMPLIFICATION = 200.0
_FEW = 4  # number of examples that are computed in float64 at a time

_EXAMPLES = "examples"  # the kind of rows of tensors with an axis of examples


def in_double_precision(method):
    """Decorates a method: it computes in float64 if the observations ask for it, and rounds back.

    The method's first argument is a `tfpn.math.posterior.Observed`. All others are tensors, or
    structures that `tf.nest` flattens into tensors. None and other objects stay as they are.
    """

    @functools.wraps(method)
    def call(self, observed, *others):
        return in_float64(functools.partial(method, self), observed, *others)

    return call


def in_float64(function, observed, *others):
    """Calls ``function(observed, *others)``, in float64 if the observations ask for it."""
    if not observed.needs_float64:
        return function(observed, *others)
    others = tf.nest.map_structure(functools.partial(_cast, tf.float64), others)
    found = function(observed.widened(), *others)
    return tf.nest.map_structure(functools.partial(_cast, observed.values.dtype), found)


def _cast(dtype, value):
    return tf.cast(value, dtype) if tf.is_tensor(value) and value.dtype.is_floating else value


def in_float64_where_coarse(function, observed, operator):
    """Mean, variance and likelihood in float32, and for coarse examples in float64.

    With shared noise the covariance matrix is always factorised in float64. Float32 rounds
    covariances with the points by eps = 6e-8 of s^2. The whitener enlarges this by up to
    `Posterior.amplification`. The difference to the prior variance also loses digits if little of
    it is left. An example is coarse if one of these effects is large. If the amplification is
    unknown, all examples are coarse.

    With noise for each channel, a pair (example, channel) is coarse if its amplification is large.
    All pairs of an example are coarse if the other pairs leave too little of the prior variance.
    All other pairs are also factorised in float32. The rounding then counts as a noise variance
    that is small beside the pair's noise.

    Args:
        function: takes a posterior, an operator's functionals, the operator and its outputs' prior
            variances; returns a mean and a variance [B, M, c_out] and a negative log marginal
            likelihood [B, c_in].
        observed: `tfpn.math.posterior.Observed`.
        operator: `tfpn.math.operator.Operator`.

    Returns:
        As ``function``.
    """

    def whole(observed, operator):
        kernel = observed.kernel
        prior_variance = operator.prior_variance(kernel)
        return function(
            observed.posterior(), operator.functionals(kernel), operator, prior_variance
        )

    if not observed.needs_float64:
        return whole(observed, operator)
    resolved = dataclasses.replace(observed, floor_dtype=tf.float64)
    posterior = resolved.posterior()
    if isinstance(posterior, ChannelNoise):
        return _pairs_where_coarse(resolved, operator)
    amplification = posterior.amplification()
    if amplification is None:
        return in_float64(whole, observed, operator)
    coarse = amplification > _LARGEST_AMPLIFICATION
    prior_variance = operator.prior_variance(observed.kernel)
    mean, variance, nll = function(
        posterior.without(coarse),  # float32 may not even hold their numbers
        operator.functionals(observed.kernel),
        operator,
        prior_variance,
    )
    coarse |= tf.reduce_any(variance < _LEAST_LEFT * prior_variance, axis=[1, 2])
    found = _coarse_in_float64(function, coarse, resolved, operator)
    fine = tf.cast(~coarse, mean.dtype)
    return tuple(
        _each_example(fine, one) + other
        for one, other in zip((mean, variance, nll), found, strict=True)
    )


def _pairs_where_coarse(observed, operator):
    """`in_float64_where_coarse` for channels with their own noise."""

    def mixed(observed, operator, **options):
        kernel, weights = observed.kernel, tf.transpose(operator.weights, [1, 0, 2])
        return observed.posterior().mixed(
            operator.functionals(kernel), weights, operator.priors(kernel), **options
        )

    mean, variance, nll, fine = mixed(observed, operator, limit=_LARGEST_PAIR_AMPLIFICATION)
    # float32 suffices if enough is left of the prior variance that fine pairs add to an output.
    prior = tf.matmul(tf.cast(fine, variance.dtype), operator.prior_variances(observed.kernel))
    enough = tf.reduce_all(variance >= _LEAST_LEFT * tf.expand_dims(prior, 1), axis=[1, 2])
    fine &= tf.expand_dims(enough, 1)
    wide = tf.nest.map_structure(functools.partial(_cast, tf.float64), operator)
    coarse = mixed(observed.cast(tf.float64), wide, chosen=~fine)[:3]
    enough, fine = (tf.cast(flags, mean.dtype) for flags in (enough, fine))
    found = _each_example(enough, mean), _each_example(enough, variance), fine * nll
    mean, variance, nll = (
        one + tf.cast(other, one.dtype) for one, other in zip(found, coarse, strict=True)
    )
    return mean + operator.bias, tf.nn.relu(variance), nll


def _each_example(factors, tensor):
    """``factors[b] * tensor[b, ...]``."""
    return tf.reshape(factors, [-1, *[1] * (tensor.shape.rank - 1)]) * tensor


def _coarse_in_float64(function, coarse, observed, operator):
    """The function's results in float64 for examples where ``coarse`` [B] is True; 0 for others."""
    batch, queries = axis_sizes(operator.query)[:2]
    count, channels, out = operator.weights.shape
    numbers = queries * count * largest(axis_sizes(observed.points)[1], out)
    length = block_length(tf.minimum(batch, _FEW), numbers, tf.float64)
    operator, kernel = tf.nest.map_structure(
        lambda tensor: tf.cast(tensor, tf.float64), (operator, observed.kernel)
    )
    functionals = operator.functionals(kernel)
    rows = observed.points, observed.values, observed.variance, observed.stages, functionals.query
    # The flows act on the kernel outside of the loop, so that ONNX can translate them.
    whole = kernel, observed.observation_variance, operator.prior_variance(kernel), operator
    given = rows, whole, functionals.kernel
    flat_rows, flat_whole = tf.nest.flatten(rows), tf.nest.flatten(given[1:])

    def in_block(block, *tensors):
        rows, whole, flowed = tf.nest.pack_sequence_as(given, tensors)
        points, values, variance, stages, query = rows
        kernel, noise, prior_variance, operator = whole
        some = dataclasses.replace(
            observed,
            points=points,
            values=values,
            variance=variance,
            kernel=kernel,
            observation_variance=noise,
            stages=stages,
        )
        with fusion(False):  # fusion is for whole batches
            found = function(
                some.posterior(),
                dataclasses.replace(functionals, query=query, kernel=flowed),
                dataclasses.replace(operator, query=query),
                prior_variance,
            )
        valid = tf.cast(block.rows["valid"], tf.float64)
        return tuple(_each_example(valid, tensor) for tensor in found)

    beside = axis_sizes(observed.values)[-1]  # e c_in channels (`tfpn.math.common_points`)
    shapes = [queries, beside // channels * out], [queries, out], [beside]
    found = in_blocks(
        in_block,
        _Chosen(coarse, length),
        tensors=[tf.cast(tensor, tf.float64) for tensor in (*flat_rows, *flat_whole)],
        kinds=[_EXAMPLES] * len(flat_rows) + [WHOLE] * len(flat_whole),
        results=[(_EXAMPLES, batch, shape) for shape in shapes],
    )
    return tuple(tf.cast(tensor, tf.float32) for tensor in found)


class _Chosen:
    """Some of the examples, a few at a time, for `in_blocks`.

    Args:
        chosen: bool [B].
        length: number of examples at a time.
    """

    def __init__(self, chosen, length):
        self._length = length
        self._number = tf.reduce_sum(tf.cast(chosen, tf.int32))
        self.count = -(-self._number // length)
        order = tf.argsort(tf.cast(~chosen, tf.int32), stable=True)
        self._order = tf.pad(order, [[0, length]])  # the last block is filled up

    def rows(self, index):
        """The block's examples, and whether each of them is no padding."""
        start = index * self._length
        return {
            _EXAMPLES: tf.slice(self._order, [start], [self._length]),
            "valid": start + tf.range(self._length) < self._number,
        }
