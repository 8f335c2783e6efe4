"""Holds numbers that training must not move."""

import tensorflow as tf

from tfpn.types import Tensor


def held(tensor: Tensor) -> Tensor:
    """The tensor itself, with a gradient of exactly 0.

    A constant before a normalisation cancels in training, so its computed gradient is only
    rounding. Optimisers that divide by the gradient's size, such as Adam, would turn it into full
    steps. With a gradient of 0 they do not step. With no gradient at all, their list of trained
    variables would change.

    Example:

    >>> import tensorflow as tf
    >>> x = tf.constant(3.0)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = held(x) * x
    >>> float(y), float(tape.gradient(y, x))
    (9.0, 3.0)
    """
    return tf.stop_gradient(tensor) + 0.0 * tensor
