"""Random numbers that are the same everywhere.

TensorFlow's own generators give other numbers in compiled functions. Here a number is a hash of its
index (SplitMix64), in whole numbers. So it is the same on every device, compiled or not, in float32
and float64. The first numbers do not depend on how many you draw. This takes no longer.
"""

import tensorflow as tf

from tfpn.types import DType, Tensor

_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_BITS = 23  # bits of a uniform number, which keeps half a step from 0 and from 1


def uniform(shape: Tensor, seed: Tensor, dtype: DType) -> Tensor:
    """Uniform numbers between 0 and 1 that float32 can hold exactly.

    Args:
        shape: a list of numbers and integer tensors.
        seed: integer tensor [2].
        dtype: dtype of the result.

    Example:

    >>> uniform([2], [0, 1], "float64").numpy().round(4).tolist()
    [0.6524, 0.7012]
    """
    seed = tf.convert_to_tensor(seed)
    key = _hashed(tf.cast(seed, tf.uint64))
    key = _hashed(key[:1] + _number(_STEP) * tf.cast(seed[1:], tf.uint64))
    count = 1
    for size in shape:
        count *= size
    index = tf.cast(tf.range(count, dtype=tf.int64), tf.uint64)
    bits = tf.bitwise.right_shift(_hashed(key + _number(_STEP) * (index + 1)), _number(64 - _BITS))
    numbers = tf.cast(tf.cast(bits, tf.int32), dtype)
    return tf.reshape((numbers + 0.5) * 2.0**-_BITS, shape)


def normal(shape: Tensor, seed: Tensor, dtype: DType) -> Tensor:
    """Standard normal numbers; arguments as in `uniform`."""
    return tf.math.ndtri(uniform(shape, seed, dtype))


def _hashed(z):
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        z = tf.bitwise.bitwise_xor(z, tf.bitwise.right_shift(z, _number(shift))) * _number(factor)
    return tf.bitwise.bitwise_xor(z, tf.bitwise.right_shift(z, _number(31)))


def _number(value):
    return tf.constant(value, tf.uint64)
