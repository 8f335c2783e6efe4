"""Normalises each channel to zero mean and unit total variance."""

import tensorflow as tf

from tfpn.math.channels import channel_sum
from tfpn.math.fusion import fused, fusion, is_active
from tfpn.math.missing import missing_mask, observed_only, penalty
from tfpn.math.recompute import available_after
from tfpn.math.replicas import replica_sum


def normalize(values, variance, gamma, beta, epsilon, weights=None):
    """Normalises each channel by the statistics of the batch, with a hand-written gradient.

    m is the mean of the values, and q^2 their total variance (variance of the values plus mean of
    the variances). Both are over the observed entries, with `tf.distribute` of all replicas:

        values' = gamma (values - m) / sqrt(q^2 + epsilon) + beta
        variance' = gamma^2 variance / (q^2 + epsilon)

    Args:
        values: [B, N, c], anything where the variance is +inf.
        variance: [B, N, c], +inf where unobserved.
        gamma, beta: [c].
        epsilon: number > 0.
        weights: weight of each point in the statistics, [B, N, 1], >= 0 and constant for gradients;
            None for 1.

    Returns:
        values' and variance' [B, N, c], both 0 where unobserved; the scale
        ``gamma / sqrt(q^2 + epsilon)`` [c]; and m, q^2 and the count of observed entries, each [c]
        and without a gradient.
    """
    if weights is not None:
        weights = tf.stop_gradient(weights)
    *results, mean, spread, count = _normalize(values, variance, gamma, beta, epsilon, weights)
    return *results, *(tf.stop_gradient(t) for t in (mean, spread, count))


def _normalize(values, variance, gamma, beta, epsilon, weights):
    @tf.custom_gradient
    def apply(values, variance, gamma, beta):
        active = is_active()
        # In a compiled function, finding the observed entries again costs less than keeping them.
        count, total = replica_sum(*map(channel_sum, _observed(values, variance, weights)))
        size = tf.where(count > 0.0, count, 1.0)
        mean = total / size
        square = _square(values, variance, mean, weights)
        spread = replica_sum(channel_sum(square))[0] / size
        inverse = tf.math.rsqrt(spread + epsilon)
        scale = gamma * inverse

        def gradient(d_values, d_variance, d_scale, *_):
            again = available_after((d_values, d_variance), (values, variance))
            with fusion(active):
                d_beta, for_values, for_variance = map(
                    channel_sum, _scale_terms(d_values, d_variance, *again, mean)
                )
                d_scale += for_values + 2.0 * scale * for_variance
                # The scale depends on the spread, whose derivative is 2 centred / n and 1 / n.
                all_d_scale, all_d_beta = replica_sum(d_scale, d_beta)
                d_spread = -0.5 * all_d_scale * scale * tf.square(inverse) / size
                centre = scale * all_d_beta / size
                d_values, d_variance = _input_gradient(
                    d_values, d_variance, *again, mean, scale, d_spread, centre, weights
                )
            return d_values, d_variance, d_scale * inverse, d_beta

        new_values, new_variance = _affine(values, variance, mean, scale, beta)
        return (new_values, new_variance, scale, mean, spread, count), gradient

    return apply(values, variance, gamma, beta)


def _centred(values, variance, mean):
    """Values minus the mean, and the variance, both 0 where unobserved; and a weight of 1 or 0."""
    missing = missing_mask(penalty(variance))
    weight = 1.0 - missing
    return observed_only(values - mean, missing), observed_only(variance, missing), weight


def _weighted(tensor, weights):
    return tensor if weights is None else tensor * weights


@fused
def _observed(values, variance, weights):
    values, _, weight = _centred(values, variance, tf.zeros([], values.dtype))
    return _weighted(weight, weights), _weighted(values, weights)


@fused
def _square(values, variance, mean, weights):
    centred, variance, _ = _centred(values, variance, mean)
    return _weighted(tf.square(centred) + variance, weights)


@fused
def _affine(values, variance, mean, scale, beta):
    centred, variance, weight = _centred(values, variance, mean)
    return centred * scale + beta * weight, variance * tf.square(scale)


@fused
def _scale_terms(d_values, d_variance, values, variance, mean):
    centred, variance, weight = _centred(values, variance, mean)
    d_values *= weight
    return d_values, d_values * centred, d_variance * variance


@fused
def _input_gradient(d_values, d_variance, values, variance, mean, scale, d_spread, centre, weights):
    centred, _, weight = _centred(values, variance, mean)
    counted = _weighted(weight, weights)
    return (
        d_values * scale * weight - centre * counted + _weighted(centred, weights) * 2.0 * d_spread,
        d_variance * tf.square(scale) * weight + d_spread * counted,
    )
