"""Reading and writing of unobserved entries, whose variance is +inf.

Selections (``tf.where``) cost ten times as much as arithmetic on a CPU. Masks are therefore
numbers, 1 where unobserved and 0 elsewhere, made from the variance by ``inf - max = inf`` and
``x - x = 0``; only what is stored in unobserved entries, which may be NaN, is selected away.
"""

import tensorflow as tf


def penalty(variance):
    """0 where ``variance`` is finite and +inf where it is +inf. A constant for gradients.

    Added to a finite variance it marks what is not observed.
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
