"""Reading and writing of unobserved entries, whose variance is +inf.

Selections (``tf.where``) cost ten times as much as arithmetic on a CPU. Masks are therefore
numbers, 1 where unobserved and 0 elsewhere, made from the variance by ``inf - max = inf`` and
``x - x = 0``; only what is stored in unobserved entries, which may be NaN, is selected away.
"""

import tensorflow as tf


def missing_mask(variance):
    """1 where ``variance`` is +inf and 0 elsewhere, in its dtype. A constant for gradients."""
    variance = tf.stop_gradient(variance)
    return tf.minimum(variance - tf.minimum(variance, variance.dtype.max), 1.0)


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


def with_missing(values, variance, missing):
    """Value 0 and variance +inf where ``missing`` is 1; both arguments must be finite there."""
    present = 1.0 - missing
    # 1 / present - 1 is 0 or +inf.
    return values * present, variance * present + (tf.math.reciprocal(present) - 1.0)
