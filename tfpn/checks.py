"""Checks of arguments: numbers, and tensors.

The library checks what you give it once, where it enters. `tfpn.contract` and `tfpn.models.checked`
check arrays of examples. Each layer checks its input. `tfpn.math.arguments` checks the arguments of
`tfpn.math`. The functions behind them trust their callers.

Only the checks of tensors import TensorFlow, so that work on arrays need not load it.
"""

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfpn.types import Tensor


def check_positive(name: str, value: Any) -> Any:
    """``value`` as a float; raises ValueError unless it is finite and positive."""
    number = _number(value)
    if not (np.isfinite(number) and number > 0.0):
        raise ValueError(f"{name} must be positive and finite, found {value!r}.")
    return number


def check_number(name: str, value: Any, low: float, high: Any = np.inf) -> Any:
    """``value`` as a float; raises ValueError unless it is in [low, high)."""
    number = _number(value)
    if not low <= number < high:
        wanted = f">= {low:g} and finite" if high == np.inf else f"in [{low:g}, {high:g})"
        raise ValueError(f"{name} must be {wanted}, found {value!r}.")
    return number


def _number(value):
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan


def check_choice(name: str, value: Any, choices: Sequence[Any]) -> Any:
    """``value``; raises ValueError unless it is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {choices}, found {value!r}.")
    return value


def check_count(name: str, value: Any) -> int:
    """``value`` as an int; raises ValueError unless it is a positive whole number."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or value % 1 or value < 1:
        raise ValueError(f"{name} must be a positive whole number, found {value!r}.")
    return int(value)


def check_flag(name: str, value: Any) -> bool:
    """``value`` as a bool; raises ValueError unless it is one."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, found {value!r}.")
    return bool(value)


def floating(value: Any, name: str) -> Any:
    """Converts ``value`` to a tensor of float32 or float64.

    Integers become float32. Half precision raises a TypeError: TensorFlow has no half-precision
    factorisations, and a silent cast would hide that.
    """
    import tensorflow as tf

    tensor = tf.convert_to_tensor(value)
    if tensor.dtype.is_integer:
        tensor = tf.cast(tensor, tf.float32)
    if tensor.dtype not in (tf.float32, tf.float64):
        raise TypeError(
            f"{name} has dtype {tensor.dtype.name}, but the algebra of Gaussian processes needs "
            "float32 or float64: cast it before the call."
        )
    return tensor


def require_static_dim(tensor: Any, name: str) -> Any:
    """The size of the last axis, the spatial dimension d; raises ValueError if it is unknown."""
    dim = tensor.shape[-1] if tensor.shape.rank else None
    if dim is None:
        raise ValueError(
            f"{name} has shape {tensor.shape}; its last axis is the spatial dimension and must be "
            "known when the function is traced."
        )
    return dim


def require_rank(tensor: Any, name: str, axes: Any) -> None:
    """Raises ValueError unless ``tensor`` has one axis for each name in ``axes``."""
    if tensor.shape.rank != len(axes):
        expected = f"{len(axes)} axes [{', '.join(axes)}]" if axes else "a scalar"
        raise ValueError(f"{name} has shape {tensor.shape}; expected {expected}.")


def same_sizes(message: Any, *tensors: Tensor) -> list[Any]:
    """Asserts that tensors agree in their first two axes, if a size is unknown until the run.

    Returns:
        A list with the assertion, or an empty list if all sizes are known.
    """
    if all(size is not None for tensor in tensors for size in tensor.shape[:2]):
        return []
    import tensorflow as tf

    # This takes few operations, because a network has dozens of these checks.
    sizes = tf.stack(tf.shape_n(tensors))[:, :2]
    same = tf.reduce_all(tf.equal(tf.reduce_min(sizes, axis=0), tf.reduce_max(sizes, axis=0)))
    return [tf.debugging.Assert(same, [message, sizes])]
