"""Checks of arguments shared by the mathematical functions."""

import tensorflow as tf


def floating(value, name):
    """Converts ``value`` to a tensor of float32 or float64.

    Integers become float32. Half precision is refused: there are no half-precision
    factorisations, and a silent cast would hide it.
    """
    tensor = tf.convert_to_tensor(value)
    if tensor.dtype.is_integer:
        tensor = tf.cast(tensor, tf.float32)
    if tensor.dtype not in (tf.float32, tf.float64):
        raise TypeError(
            f"{name} has dtype {tensor.dtype.name}; the algebra of Gaussian processes needs "
            "float32 or float64: cast it before the call."
        )
    return tensor


def require_static_dim(tensor, name):
    """The size of the last axis, which must be known (the spatial dimension d)."""
    dim = tensor.shape[-1] if tensor.shape.rank else None
    if dim is None:
        raise ValueError(
            f"{name} has shape {tensor.shape}; its last axis is the spatial dimension and must be "
            "known when the function is traced."
        )
    return dim


def require_rank(tensor, name, axes):
    """Raises unless ``tensor`` has one axis for each name in ``axes``."""
    if tensor.shape.rank != len(axes):
        expected = f"{len(axes)} axes [{', '.join(axes)}]" if axes else "a scalar"
        raise ValueError(f"{name} has shape {tensor.shape}; expected {expected}.")


def same_sizes(message, *tensors):
    """Asserts that tensors agree in their first two axes, where sizes are known only when run.

    Returns:
        A list of the assertion, or an empty one where all sizes are known.
    """
    if all(size is not None for tensor in tensors for size in tensor.shape[:2]):
        return []
    # Few operations: a network has dozens of these checks.
    sizes = tf.stack(tf.shape_n(tensors))[:, :2]
    same = tf.reduce_all(tf.equal(tf.reduce_min(sizes, axis=0), tf.reduce_max(sizes, axis=0)))
    return [tf.debugging.Assert(same, [message, sizes])]
