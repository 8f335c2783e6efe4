"""Shapes with sizes that are unknown until the run, in few operations of a graph."""

import math

import tensorflow as tf


def sizes(tensor):
    """The size of each axis: a number if known, None for a single unknown size, else a tensor.

    Example:

    >>> import tensorflow as tf
    >>> sizes(tf.zeros([2, 3]))
    [2, 3]
    """
    known = tensor.shape.as_list()
    if known.count(None) == 0 or (known.count(None) == 1 and 0 not in known):
        return known
    found = tf.unstack(tf.shape(tensor), len(known))
    return [found[axis] if size is None else size for axis, size in enumerate(known)]


def reshape(tensor, shape):
    """``tf.reshape`` to a list of entries from `sizes`, or of lists whose product is a size.

    Example:

    >>> import tensorflow as tf
    >>> x = tf.zeros([2, 3, 4])
    >>> rows, columns, channels = sizes(x)
    >>> reshape(x, [[rows, columns], channels]).shape
    TensorShape([6, 4])
    """
    shape = [_product(size) if isinstance(size, list) else size for size in shape]
    return tf.reshape(tensor, [-1 if size is None else size for size in shape])


def _product(factors):
    return None if None in [f for f in factors if not tf.is_tensor(f)] else math.prod(factors)


def axis_sizes(tensor):
    """The sizes of all axes: numbers if they are known, else scalar tensors.

    Unlike those of `sizes`, you can compute with all of them.
    """
    dynamic = tf.shape(tensor)
    return [dynamic[i] if size is None else size for i, size in enumerate(tensor.shape)]
