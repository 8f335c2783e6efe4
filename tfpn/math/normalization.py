"""Normalisation of each channel to zero mean and unit total variance."""

import tensorflow as tf

from tfpn.math.channels import channel_sum
from tfpn.math.fusion import fused, fusion, is_active
from tfpn.math.replicas import replica_sum


def normalize(values, variance, weight, gamma, beta, epsilon):
    """Affine map per channel by the statistics of the batch itself, with a hand-written gradient.

    With the mean m of the values and their total variance q^2 (variance of the values plus mean of
    the variances) over entries of weight 1, with `tf.distribute` of all replicas:

        values' = gamma (values - m) / sqrt(q^2 + epsilon) + beta
        variance' = gamma^2 variance / (q^2 + epsilon)

    Args:
        values, variance: [B, N, c], both 0 where the weight is 0.
        weight: [B, N, c], 1 where observed and 0 elsewhere.
        gamma, beta: [c].
        epsilon: number > 0.

    Returns:
        values' and variance' [B, N, c], both 0 where the weight is 0; the scale
        ``gamma / sqrt(q^2 + epsilon)`` [c]; and m and q^2 [c], which carry no gradient.
    """
    values, variance, scale, mean, spread = _normalize(
        values, variance, weight, gamma, beta, epsilon
    )
    return values, variance, scale, tf.stop_gradient(mean), tf.stop_gradient(spread)


def _normalize(values, variance, weight, gamma, beta, epsilon):
    @tf.custom_gradient
    def apply(values, variance, gamma, beta):
        active = is_active()
        count, total = replica_sum(channel_sum(weight), channel_sum(values))
        count = tf.maximum(count, 1.0)
        mean = total / count
        centred, square = _centre(values, variance, weight, mean)
        spread = replica_sum(channel_sum(square))[0] / count
        inverse = tf.math.rsqrt(spread + epsilon)
        scale = gamma * inverse

        def gradient(d_values, d_variance, d_scale, *_):
            with fusion(active):
                d_values, d_variance, for_values, for_variance = _scale_terms(
                    d_values, d_variance, centred, variance, weight
                )
                d_beta = channel_sum(d_values)
                d_scale += channel_sum(for_values) + 2.0 * scale * channel_sum(for_variance)
                # scale depends on the spread, whose derivative is 2 centred / n and 1 / n.
                all_d_scale, all_d_beta = replica_sum(d_scale, d_beta)
                d_spread = -0.5 * all_d_scale * scale * tf.square(inverse) / count
                centre = scale * all_d_beta / count
                d_values, d_variance = _input_gradient(
                    d_values, d_variance, centred, weight, scale, d_spread, centre
                )
            return d_values, d_variance, d_scale * inverse, d_beta

        new_values, new_variance = _affine(centred, variance, weight, scale, beta)
        return (new_values, new_variance, scale, mean, spread), gradient

    return apply(values, variance, gamma, beta)


@fused
def _centre(values, variance, weight, mean):
    centred = values - mean * weight  # 0 where unobserved, as the values are
    return centred, tf.square(centred) + variance


@fused
def _affine(centred, variance, weight, scale, beta):
    return centred * scale + beta * weight, variance * tf.square(scale)


@fused
def _scale_terms(d_values, d_variance, centred, variance, weight):
    d_values *= weight
    d_variance *= weight
    return d_values, d_variance, d_values * centred, d_variance * variance


@fused
def _input_gradient(d_values, d_variance, centred, weight, scale, d_spread, centre):
    return (
        d_values * scale + centred * (2.0 * d_spread) - centre * weight,
        d_variance * tf.square(scale) + d_spread * weight,
    )
