"""`convolve` with shared noise: in float32 where that suffices, example by example."""

import dataclasses

import tensorflow as tf

from tfpn.math.blocks import WHOLE, block_length, in_blocks, largest, sizes
from tfpn.math.conditioning import Conditioning, prepare
from tfpn.math.fusion import fusion
from tfpn.math.kernels import (
    kernels_of_coefficients,
    operator_coefficients,
    operator_prior_covariance,
)
from tfpn.math.operators import mix_response, mixed_variance, prior_variance, read_operators
from tfpn.math.posterior import condition
from tfpn.math.precision import EXAMPLES, Chosen, resolved_variance
from tfpn.math.recompute import recomputed

# Where float32 does, see `convolve_shared`: found by random points at the paper's shapes, where one
# variance in a thousand is then off by 5e-4 of itself, and one example in ten is coarse.
_LARGEST_AMPLIFICATION = 400.0
_LEAST_LEFT = 3e-4
_FEW = 4  # examples that are computed in float64 at a time


def convolve_shared(
    points, values, variance, query, *, weights, drift, diffusion, signal_std, length_scale,
    observation_noise, bias, marginal_likelihood_trains, refined,
):  # fmt: skip
    """`convolve` with shared noise, by examples in float64 where ``refined`` and float32 is coarse.

    The covariance matrix is factorised in float64 in any case. Float32 rounds covariances with the
    points by eps = 6e-8 of signal_std^2, which the whitener enlarges by up to
    `Conditioning.amplification`; and a difference to the prior variance loses the digits that are
    left of it. An example is coarse, and computed in float64, where either is large.
    """
    if refined:
        variance = resolved_variance(
            tf.convert_to_tensor(variance, values.dtype), signal_std, observation_noise
        )
    gp = prepare(
        points, values, variance, signal_std=signal_std, length_scale=length_scale, noise="shared",
        observation_noise=observation_noise, floor_dtype=tf.float64 if refined else None,
    )  # fmt: skip
    weights, operators = read_operators(gp, query, weights, drift, diffusion)
    bias = tf.zeros(weights.shape[-1:], weights.dtype) if bias is None else bias
    trains = marginal_likelihood_trains
    if refined:
        coarse = gp.amplification() > _LARGEST_AMPLIFICATION
        # Nothing of them in float32, which may not even hold their numbers.
        none = tf.zeros([], gp.values.dtype)
        whitener = tf.where(tf.reshape(coarse, [-1, 1, 1]), none, gp.whitener)
        gp = dataclasses.replace(gp, whitener=whitener)
    prior = operators.prior()
    given = *operator_coefficients(**operators.flow), *gp.given(), prior
    mean, new_variance = recomputed(
        _mixed_posterior, operators.query, gp.points, *given, weights, bias
    )
    nll = gp.negative_log_marginal_likelihood(trains)
    if not refined:
        return mean, new_variance, nll
    least = _LEAST_LEFT * prior_variance(prior, weights)
    coarse |= tf.reduce_any(new_variance < least, axis=[1, 2])
    found = _convolve_in_float64(coarse, gp, operators, weights, bias, trains)
    fine = tf.cast(~coarse, mean.dtype)
    return tuple(
        _each_example(fine, one) + other
        for one, other in zip((mean, new_variance, nll), found, strict=True)
    )


def _each_example(factors, tensor):
    """``factors[b] * tensor[b, ...]``."""
    return tf.reshape(factors, [-1, *[1] * (tensor.shape.rank - 1)]) * tensor


def _mixed_posterior(query, points, coefficients, log_amplitude, *tensors):
    """Mean and variance of `convolve` for shared noise.

    The kernels between all points and the response of every flow and channel are by far the
    largest tensors of a layer: to be computed again for the gradient.
    """
    *given, prior, weights, bias = tensors
    cross = kernels_of_coefficients(query, points, coefficients, log_amplitude)
    response, explained = condition(cross, *given)
    variance = mixed_variance(prior, explained, weights, shared=True)
    return mix_response(response, weights, bias), variance


def _convolve_in_float64(chosen, gp, operators, weights, bias, trains):
    """`convolve` of the ``chosen`` examples, bool [B], in float64; 0 for all others."""
    batch, queries = sizes(operators.query)[:2]
    count, out = weights.shape[0], weights.shape[-1]
    numbers = queries * count * largest(sizes(gp.points)[1], out)
    length = block_length(tf.minimum(batch, _FEW), numbers, tf.float64)
    wide = {key: tf.cast(tensor, tf.float64) for key, tensor in operators.flow.items()}

    def function(block, query, points, values, variance, signal_std, length_scale, noise, *mixing):
        gp = Conditioning(
            points, values, variance, noise, signal_std, length_scale, shared=True,
            floor_dtype=tf.float64,
        ).factorised()  # fmt: skip
        *coefficients, prior, weights, bias = mixing
        with fusion(False):  # which is for whole batches
            found = _mixed_posterior(
                query, points, *coefficients, *gp.given(), prior, weights, bias
            )
        valid = tf.cast(block.rows["valid"], tf.float64)
        found = *found, gp.negative_log_marginal_likelihood(trains)
        return tuple(_each_example(valid, tensor) for tensor in found)

    observed = operators.query, gp.points, gp.values, gp.given_variance
    whole = (
        *(wide["signal_std"], wide["length_scale"], gp.observation_noise),
        *(*operator_coefficients(**wide), operator_prior_covariance(**wide), weights, bias),
    )
    shapes = [queries, out], [queries, out], gp.values.shape[-1:]
    found = in_blocks(
        function,
        Chosen(chosen, length),
        tensors=[tf.cast(tensor, tf.float64) for tensor in (*observed, *whole)],
        kinds=(*[EXAMPLES] * len(observed), *[WHOLE] * len(whole)),
        results=[(EXAMPLES, batch, shape) for shape in shapes],
    )
    return tuple(tf.cast(tensor, tf.float32) for tensor in found)
