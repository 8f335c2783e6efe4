r"""Integrals of the RBF kernel over a disc of the plane.

With rho = |x - centre|, u = rho / l, v = R / l and ``a = 2 pi s^2 l^2``

    (P k)(x) = a F(u, v)     F(u, v) = int_0^v r e^{-(r^2 + u^2) / 2} I_0(u r) dr = 1 - Q_1(u, v)

Q_1 is Marcum's Q function. F is the probability that a standard normal vector is within v of a
point at distance u. With t = v^2

    P k P'   = a pi R^2 h(t)    h(t) = 1 - e^{-t} [I_0(t) + I_1(t)] = int_0^t e^{-s} I_1(s) / s ds.

The integrands are positive, so their quadrature keeps the digits of small results. The derivatives
are closed forms in exponentially scaled Bessel functions:

    dF/d(u^2) = -v^2 / 2 e^{-(u - v)^2 / 2} g(u v)    dF/dv = v e^{-(u - v)^2 / 2} e^{-uv} I_0(u v)
    dh/dt     = g(t)                                  g(z) = e^{-z} I_1(z) / z,   g(0) = 1/2
"""

import math

import numpy as np
import tensorflow as tf

from tfpn.checks import floating, require_static_dim
from tfpn.types import Tensor

# Nothing counts beyond so many standard deviations from u: exp(-9.5^2 / 2) is 3e-20.
_REACH = 9.5
_NODES = 48  # on at most 19 standard deviations; the error is below 1e-15
_SMALL = 1.0  # below this h needs a quadrature; above it the formula loses less than a digit
_SMALL_NODES = 12


def disc_integrals(
    points: Tensor, *, signal_std: Tensor, length_scale: Tensor, centre: Tensor, radius: Tensor
) -> tuple[Tensor, Tensor]:
    """Integrals of the RBF kernel over a disc, once and twice.

        (P k)(x_n) = a [1 - Q_1(|x_n - centre| / l, R / l)]           a = 2 pi s^2 l^2
        P k P'     = a pi R^2 (1 - e^{-t} [I_0(t) + I_1(t)])          t = (R / l)^2

    Q_1 is Marcum's Q function, and I_n are the modified Bessel functions. All is computed in
    float64, so that float32 results have only the error of their rounding. The relative error in
    float64 is about 1e-12 for R / l from 1e-3 to 1e3, and 1e-9 at 1e-6. The gradient by ``points``
    is finite everywhere, also at the centre.

    Args:
        points: [..., 2], float32 or float64.
        signal_std: s, scalar.
        length_scale: l, scalar, in units of the points.
        centre: the disc's centre, [2].
        radius: R, scalar > 0.

    Returns:
        (P k)(x_n) of shape [...] and the scalar P k P'.

    Raises:
        ValueError: if the points do not lie in the plane, if ``centre`` is not [2] or ``radius``
            not a scalar, or if the radius is not positive (not checked inside a ``tf.function``).

    Example: the disc holds the whole kernel around its centre, and half of a kernel at its edge.

    >>> import numpy as np, tfpn
    >>> single, double = tfpn.math.disc_integrals(
    ...     np.array([[0.0, 0.0], [1.0, 0.0]]), signal_std=1.0, length_scale=0.01,
    ...     centre=(0.0, 0.0), radius=1.0)
    >>> (single / (2 * np.pi * 0.01**2)).numpy().round(2)
    array([1. , 0.5])
    """
    points = floating(points, "points")
    if require_static_dim(points, "points") != 2:
        raise ValueError(
            f"points has shape {points.shape}: a disc lies in the plane, so the last axis must be "
            "2; in other dimensions use a box."
        )
    dtype = points.dtype
    points, centre, radius, signal_std, length_scale = (
        tf.cast(tf.convert_to_tensor(t, dtype), tf.float64)
        for t in (points, centre, radius, signal_std, length_scale)
    )
    _check_disc(centre, radius)
    scaled = tf.square((points - centre) / length_scale)
    v = radius / length_scale
    single = _disc_probability(scaled[..., 0] + scaled[..., 1], v)
    area = math.pi * tf.square(radius)
    whole = 2.0 * math.pi * tf.square(signal_std * length_scale)
    double = whole * area * _double_fraction(tf.square(v))
    return tf.cast(whole * single, dtype), tf.cast(double, dtype)


def _check_disc(centre, radius):
    for name, tensor, expected in (("centre", centre, [2]), ("radius", radius, [])):
        if not tensor.shape.is_compatible_with(expected):
            raise ValueError(f"{name} has shape {tensor.shape}, expected {expected}.")
    known = tf.get_static_value(radius)
    if known is not None and not 0.0 < known < np.inf:
        raise ValueError(f"radius must be positive and finite, found {known!s}.")


@tf.custom_gradient
def _disc_probability(square, v):
    """F for the squared distance u^2 [...] and the scalar v."""
    u = tf.sqrt(square)[..., None]
    # r = u + s runs from the smaller of v - 9.5 and u - 9.5 to the smaller of v and u + 9.5.
    low = tf.maximum(tf.minimum(v - u, 0.0) - _REACH, -u)
    high = tf.minimum(v - u, _REACH)
    nodes, weights = _legendre(_NODES)
    s = low + (high - low) * nodes
    density = (u + s) * tf.exp(-0.5 * tf.square(s)) * tf.math.bessel_i0e(u * (u + s))
    result = tf.reduce_sum(weights * density, axis=-1) * (high - low)[..., 0]

    def gradient(upstream):
        u = tf.sqrt(square)
        gaussian = upstream * tf.exp(-0.5 * tf.square(u - v))
        d_square = -0.5 * tf.square(v) * gaussian * _scaled_i1(u * v)
        return d_square, tf.reduce_sum(v * gaussian * tf.math.bessel_i0e(u * v))

    return result, gradient


@tf.custom_gradient
def _double_fraction(t):
    """h, a scalar."""
    nodes, weights = _legendre(_SMALL_NODES)
    small = tf.minimum(t, _SMALL)
    series = small * tf.reduce_sum(weights * _scaled_i1(small * nodes))
    formula = 1.0 - tf.math.bessel_i0e(t) - tf.math.bessel_i1e(t)
    result = tf.where(t < _SMALL, series, formula)
    return result, lambda upstream: upstream * _scaled_i1(t)


def _scaled_i1(z):
    """``e^{-z} I_1(z) / z`` for z >= 0."""
    positive = z > 1e-30
    safe = tf.where(positive, z, 1.0)
    return tf.where(positive, tf.math.bessel_i1e(safe) / safe, 0.5)


def _legendre(count):
    """Gauss-Legendre nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return 0.5 * (nodes + 1.0), 0.5 * weights
