"""Reads and writes unobserved entries, whose variance is +inf.

Selections (``tf.where``) cost ten times as much as arithmetic on a CPU. Therefore masks are
numbers, 1 where unobserved and 0 elsewhere. They come from the variance by ``inf - max = inf`` and
``x - x = 0``. Selections replace only the contents of unobserved entries, which may be NaN.
"""

import tensorflow as tf

from tfpn.math.fusion import fused, fusion, is_active


def penalty(variance):
    """0 where ``variance`` is finite and +inf where it is +inf. It is a constant for gradients.

    Add it to a finite variance to mark unobserved entries.
    """
    variance = tf.stop_gradient(variance)
    return variance - tf.minimum(variance, variance.dtype.max)


def missing_mask(infinite):
    """1 where a `penalty` is +inf, 0 where it is 0."""
    return tf.minimum(infinite, 1.0)


@tf.custom_gradient
def observed_only(tensor, missing):
    """``tensor`` with 0 where ``missing`` is 1, even if NaN or infinity is stored there.

    Args:
        tensor: values or variance, [B, N, c].
        missing: mask [B, N, c] or [B, N, 1].

    Returns:
        [B, N, c]; the gradient is 0 where missing.
    """

    def gradient(upstream):
        return upstream * (1.0 - missing), None

    return tf.where(missing > 0.0, tf.zeros([], tensor.dtype), tensor), gradient


def observed_entries(values, variance):
    """Splits observations into finite tensors and masks of missing entries.

    Args:
        values: [B, N, c], anything where the variance is +inf.
        variance: [B, N, c].

    Returns:
        Four tensors [B, N, c]: values and variance with 0 where unobserved (as in
        `observed_only`), the `missing_mask` and the `penalty`.
    """

    @tf.custom_gradient
    def split(values, variance):
        values, variance, missing, infinite = _observed_entries(values, variance)
        active = is_active()

        def gradient(d_values, d_variance, *_):
            with fusion(active):
                return _masked(d_values, d_variance, missing)

        return (values, variance, missing, infinite), gradient

    values, variance, missing, infinite = split(values, variance)
    return values, variance, tf.stop_gradient(missing), tf.stop_gradient(infinite)


@fused
def _observed_entries(values, variance):
    infinite = penalty(variance)
    missing = missing_mask(infinite)
    return (*(observed_only(t, missing) for t in (values, variance)), missing, infinite)


@fused
def _masked(values, variance, missing):
    weight = 1.0 - missing
    return values * weight, variance * weight
