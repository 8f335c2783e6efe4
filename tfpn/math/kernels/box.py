"""Integrals of the RBF kernel over a box and over R^d (the paper's appendix on pooling)."""

import math
import numbers

import numpy as np
import tensorflow as tf

from tfpn.checks import floating, require_static_dim
from tfpn.types import Tensor


def kernel_integral(signal_std: Tensor, length_scale: Tensor, dim: int) -> Tensor:
    """The integral of the RBF kernel over R^d, ``a = s^2 (2 pi l^2)^(d/2)``.

    Args:
        signal_std: s, number or tensor.
        length_scale: l, number or tensor, in units of the points.
        dim: d, a positive integer.

    Returns:
        a, in the arguments' shape and the dtype of ``signal_std`` (integers count as float32).

    Raises:
        ValueError: if ``dim`` is not a positive integer.

    Example:

    >>> import tfpn
    >>> round(float(tfpn.math.kernel_integral(1.0, 0.5, 1)), 4)
    1.2533
    """
    if not isinstance(dim, numbers.Integral) or isinstance(dim, bool) or dim < 1:
        raise ValueError(f"dim must be a positive integer, the number of axes; found {dim!r}.")
    signal_std = floating(signal_std, "signal_std")
    length_scale = tf.convert_to_tensor(length_scale, signal_std.dtype)
    return tf.square(signal_std) * (2.0 * math.pi * tf.square(length_scale)) ** (0.5 * dim)


def box_integrals(
    points: Tensor, *, signal_std: Tensor, length_scale: Tensor, low: Tensor, high: Tensor
) -> tuple[Tensor, Tensor]:
    """Integrals of the RBF kernel over a box, once and twice.

    With ``a = s^2 (2 pi l^2)^(d/2)``, u = high - low and Phi the normal CDF:

        (P k)(x_n) = a prod_i [Phi((high_i - x_i) / l) - Phi((low_i - x_i) / l)]
        P k P'     = a prod_i [2 u Phi(u / l) - u + l sqrt(2 / pi) (exp(-u^2 / (2 l^2)) - 1)]

    For the unit box these are the paper's formulas.

    Args:
        points: [..., d], float32 or float64.
        signal_std: s, scalar.
        length_scale: l, scalar, in units of the points.
        low: lower corner, scalar or [d].
        high: upper corner, scalar or [d]; above ``low``.

    Returns:
        (P k)(x_n) of shape [...] and the scalar P k P'.

    Raises:
        ValueError: if a corner is neither a scalar nor [d], or if ``low`` is not below ``high``
            (not checked inside a ``tf.function``).

    Example:

    >>> import numpy as np, tfpn
    >>> single, double = tfpn.math.box_integrals(
    ...     np.array([[0.5]]), signal_std=1.0, length_scale=0.05, low=0.0, high=1.0)
    >>> round(float(single[0] / (0.05 * np.sqrt(2 * np.pi))), 6)
    1.0
    """
    points = floating(points, "points")
    dtype = points.dtype
    dim = require_static_dim(points, "points")
    low, high, signal_std, length_scale = (
        tf.convert_to_tensor(t, dtype) for t in (low, high, signal_std, length_scale)
    )
    _check_box(low, high, dim)
    single = kernel_integral(signal_std, length_scale, dim) * tf.reduce_prod(
        normal_interval((low - points) / length_scale, (high - low) / length_scale), axis=-1
    )
    width = tf.broadcast_to((high - low) / length_scale, [dim])
    factor = _double_factor(width)
    # The factor of an axis is sqrt(2 pi) l * l * [...], in units that neither overflow nor cancel.
    per_axis = math.sqrt(2.0 * math.pi) * tf.square(length_scale) * factor
    return single, tf.square(signal_std) * tf.reduce_prod(per_axis)


def _check_box(low, high, dim):
    for name, corner in (("low", low), ("high", high)):
        if corner.shape.rank != 0 and not corner.shape.is_compatible_with([dim]):
            raise ValueError(
                f"{name} has shape {corner.shape}, expected a scalar or [{dim}], one number for "
                "each axis of the points."
            )
    known = [tf.get_static_value(corner) for corner in (low, high)]
    if not any(corner is None for corner in known) and not (known[0] < known[1]).all():
        raise ValueError(
            f"low must be below high on every axis, found low = {known[0].tolist()} and "
            f"high = {known[1].tolist()}."
        )


def normal_interval(lower, width):
    """Phi(lower + width) - Phi(lower) for a width > 0, without cancellation."""
    narrow = width < 1.0
    # For a narrow interval, Gauss-Legendre quadrature has an error below rounding.
    nodes, weights = np.polynomial.legendre.leggauss(10)
    short = tf.where(narrow, width, 1.0)
    total = 0.0
    for node, weight in zip(0.5 + 0.5 * nodes, 0.5 * weights, strict=True):
        total += weight * tf.exp(-0.5 * tf.square(lower + node * short))
    quadrature = short / math.sqrt(2.0 * math.pi) * total
    root = math.sqrt(0.5)
    upper = lower + width
    flip = lower + upper > 0.0  # an interval on the right is replaced by its mirror image
    lower, upper = tf.where(flip, -upper, lower), tf.where(flip, -lower, upper)
    difference = 0.5 * (tf.math.erfc(-upper * root) - tf.math.erfc(-lower * root))
    return tf.where(narrow, quadrature, difference)


def _double_factor(width):
    """``2 u Phi(u) - u + sqrt(2/pi) (exp(-u^2/2) - 1)`` for u = width > 0 in length scales."""
    # The terms have opposite signs, but the first is at least twice the second, so no digit is
    # lost. Both functions are constant beyond 50, and NaN if the square overflows.
    near = tf.minimum(width, 50.0)
    rise, decay = tf.math.erf(near * math.sqrt(0.5)), tf.math.expm1(-0.5 * tf.square(near))
    return width * rise + math.sqrt(2.0 / math.pi) * decay
