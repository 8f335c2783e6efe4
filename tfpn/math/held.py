"""Numbers that training must not move."""

import tensorflow as tf

from tfpn.types import Tensor


def held(tensor: Tensor) -> Tensor:
    """The tensor itself, with a gradient of exactly 0.

    A constant before a normalisation cancels in training. What is computed as its gradient is
    rounding, of which optimisers that divide by the gradient's size, such as Adam, make full steps.
    With 0 they make none; that there is a gradient at all keeps the list of what they train.

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
