"""Integrals of the RBF kernel and of a GP posterior (the paper's appendix on integral pooling)."""

import math
import numbers

import numpy as np
import tensorflow as tf

from tfpn.math.checks import floating, require_static_dim
from tfpn.math.conditioning import prepare
from tfpn.math.disc import disc_integrals
from tfpn.math.precision import in_double_precision


def kernel_integral(signal_std, length_scale, dim):
    """The integral of the RBF kernel over R^d, ``a = s^2 (2 pi l^2)^(d/2)``.

    Args:
        signal_std: s, number or tensor.
        length_scale: l, number or tensor, in units of the points.
        dim: d, a positive integer.

    Returns:
        a, in the arguments' shape and the dtype of ``signal_std`` (integers count as float32).

    Raises:
        ValueError: if ``dim`` is no positive integer.

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


def box_integrals(points, *, signal_std, length_scale, low, high):
    """Integrals of the RBF kernel over a box, once and twice.

    With ``a = s^2 (2 pi l^2)^(d/2)``, u = high - low and Phi the normal CDF:

        (P k)(x_n) = a prod_i [Phi((high_i - x_i) / l) - Phi((low_i - x_i) / l)]
        P k P'     = a prod_i [2 u Phi(u / l) - u + l sqrt(2 / pi) (exp(-u^2 / (2 l^2)) - 1)]

    which for the unit box are the paper's formulas.

    Args:
        points: [..., d], float32 or float64.
        signal_std: s, scalar.
        length_scale: l, scalar, in units of the points.
        low: lower corner, scalar or [d].
        high: upper corner, scalar or [d]; above ``low``.

    Returns:
        (P k)(x_n) of shape [...] and the scalar P k P'.

    Raises:
        ValueError: if a corner is neither a scalar nor [d], or if ``low`` is known not to be below
            ``high`` (which is not looked at inside a ``tf.function``).

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
        _normal_interval((low - points) / length_scale, (high - low) / length_scale), axis=-1
    )
    width = tf.broadcast_to((high - low) / length_scale, [dim])
    factor = _double_factor(width)
    # Per axis: sqrt(2 pi) l * l * [...], in units that neither overflow nor cancel.
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


def _normal_interval(lower, width):
    """Phi(lower + width) - Phi(lower) for a width > 0, without cancellation anywhere."""
    narrow = width < 1.0
    # A narrow one by Gauss-Legendre quadrature, whose error is below rounding.
    nodes, weights = np.polynomial.legendre.leggauss(10)
    short = tf.where(narrow, width, 1.0)
    total = 0.0
    for node, weight in zip(0.5 + 0.5 * nodes, 0.5 * weights, strict=True):
        total += weight * tf.exp(-0.5 * tf.square(lower + node * short))
    quadrature = short / math.sqrt(2.0 * math.pi) * total
    root = math.sqrt(0.5)
    upper = lower + width
    flip = lower + upper > 0.0  # the interval lies to the right: use its mirror image
    lower, upper = tf.where(flip, -upper, lower), tf.where(flip, -lower, upper)
    difference = 0.5 * (tf.math.erfc(-upper * root) - tf.math.erfc(-lower * root))
    return tf.where(narrow, quadrature, difference)


def _double_factor(width):
    """``2 u Phi(u) - u + sqrt(2/pi) (exp(-u^2/2) - 1)`` for u = width > 0 in length scales."""
    # The terms have opposite signs, but the first is at least twice the second: no digit is lost.
    # Both functions are constant beyond 50, and NaN where the square overflows.
    near = tf.minimum(width, 50.0)
    rise, decay = tf.math.erf(near * math.sqrt(0.5)), tf.math.expm1(-0.5 * tf.square(near))
    return width * rise + math.sqrt(2.0 / math.pi) * decay


def domain_integrals(points, *, signal_std, length_scale, box=None, disc=None):
    """(P k)(x_n) and P k P' of R^d, a box ``(low, high)`` or a disc ``(centre, radius)``.

    Args:
        points: [..., d].
        signal_std, length_scale: scalars.
        box, disc: one of them, or neither for R^d.

    Returns:
        (P k)(x_n) of shape [...] and the scalar P k P', which over R^d is infinite.

    Raises:
        ValueError: if both are given, or for those of `box_integrals` and `disc_integrals`.
    """
    prior = {"signal_std": signal_std, "length_scale": length_scale}
    if box is not None and disc is not None:
        raise ValueError(f"give box or disc, not both: found box={box!r} and disc={disc!r}.")
    if box is not None:
        return box_integrals(points, low=box[0], high=box[1], **prior)
    if disc is not None:
        return disc_integrals(points, centre=disc[0], radius=disc[1], **prior)
    single = kernel_integral(signal_std, length_scale, points.shape[-1])
    single *= tf.ones_like(points[..., 0])
    return single, tf.constant(math.inf, points.dtype)


@in_double_precision
def integrate(
    points,
    values,
    variance,
    *,
    signal_std,
    length_scale,
    box=None,
    disc=None,
    noise="shared",
    observation_noise=0.0,
    marginal_likelihood_trains="all",
):
    """Integral of each channel's GP posterior over R^d, a box or a disc (appendix on pooling).

        mean = (P k)(X) (K + S)^-1 y        variance = P k P' - (P k)(X) (K + S)^-1 (P k)(X)^T

    Over R^d, P k = a everywhere and the variance is infinite.

    Args:
        points, values, variance: the observations, as in `convolve`.
        box: ``(low, high)``, each a scalar or [d].
        disc: ``(centre, radius)``, [2] and a scalar. Without box and disc it is R^d.
        signal_std, length_scale, noise, observation_noise, marginal_likelihood_trains: as in
            `convolve`.
        double_precision: True computes float32 arguments in float64, with the least variance of
            `convolve`; False is for features whose variances are no measurement's.

    Returns:
        mean [B, c], variance [B, c] and the negative log marginal likelihood [B, c].

    Example:

    >>> import numpy as np, tfpn
    >>> points = np.linspace(0, 1, 21)[None, :, None]
    >>> mean, variance, _ = tfpn.math.integrate(
    ...     points, points**2, np.zeros_like(points), signal_std=1.0, length_scale=0.5,
    ...     box=(0.0, 1.0))
    >>> round(float(mean[0, 0]), 4)
    0.3333
    """
    gp = prepare(
        points, values, variance, signal_std=signal_std, length_scale=length_scale, noise=noise,
        observation_noise=observation_noise,
    )  # fmt: skip
    if gp.each_prior:
        raise ValueError(
            "integrate takes one prior for all channels: give scalars for signal_std and "
            f"length_scale, found the shapes {gp.signal_std.shape} and {gp.length_scale.shape}."
        )
    prior = {"signal_std": gp.signal_std, "length_scale": gp.length_scale}
    single, double = domain_integrals(gp.points, box=box, disc=disc, **prior)
    cross = single[:, None, None]
    if box is None and disc is None:
        mean, nll = gp.condition_mean(cross, marginal_likelihood_trains)
        mean = mean[:, 0, 0]
        return mean, tf.fill(tf.shape(mean), double), nll
    mean, explained, nll = gp.condition(cross, marginal_likelihood_trains)
    left = tf.nn.relu(double - explained[..., 0, 0, 0])  # [B], or [B, c] with channel noise
    variance = tf.broadcast_to(left[:, None] if gp.shared else left, tf.shape(mean[:, 0, 0]))
    return mean[:, 0, 0], variance, nll
