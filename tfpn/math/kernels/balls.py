r"""Integrals of the RBF kernel over a disc of the plane or a ball in space.

With rho = |x - centre|, u = rho / l, v = R / l, V the volume and ``a = s^2 (2 pi l^2)^(d/2)``

    (P k)(x) = a F(u, v)     F(u, v) = int_0^v r^(d-1) e^{-(r - u)^2 / 2} A(u r) dr
    P k P'   = a V h(v)

F is the probability that a standard normal vector is within v of a point at distance u. A is the
exponentially scaled mean of plane waves over directions, and G its slope over its argument:

                 disc                    ball
    A(z)         e^{-z} I_0(z)           sqrt(2 / pi) e^{-z} sinh(z) / z
    G(z)         e^{-z} I_1(z) / z       sqrt(2 / pi) e^{-z} [cosh(z) - sinh(z) / z] / z^2

    dF/d(u^2) = -v^d / 2 e^{-(u - v)^2 / 2} G(u v)    dF/dv = v^(d-1) e^{-(u - v)^2 / 2} A(u v)

For a disc, F is 1 - Q_1(u, v) with Marcum's Q function, and with t = v^2 and its own G

    h = 1 - e^{-t} [I_0(t) + I_1(t)] = int_0^t G(s) ds.

For a ball, F is Phi(v - u) - Phi(-v - u) - [phi(v - u) - phi(v + u)] / u. The mean of the kernel
over pairs of points of the ball is one over their distance l r. With x = r / (2 v)

    h = sqrt(2 / pi) int_0^{2 v} r^2 e^{-r^2 / 2} (1 - x)^2 (1 + x / 2) dr.

The integrands are positive, so their quadrature keeps the digits of small results, which the
closed forms lose.
"""

import math

import numpy as np
import tensorflow as tf

from tfpn.checks import floating, require_static_dim
from tfpn.math.kernels.box import kernel_integral
from tfpn.types import Tensor

# Nothing counts beyond so many standard deviations from u: exp(-9.5^2 / 2) is 3e-20.
_REACH = 9.5
_NODES = 48  # on at most 19 standard deviations; the error is below 1e-15
# Below this h of a disc and G of a ball have other formulas; above it they lose a digit at most.
_SMALL = 1.0
_SMALL_NODES = 12
_SERIES = 10  # terms of G for z < 1; the error is below 1e-17
_HALF_NORMAL = math.sqrt(2.0 / math.pi)


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
    return _integrals(2, points, signal_std, length_scale, centre, radius)


def ball_integrals(
    points: Tensor, *, signal_std: Tensor, length_scale: Tensor, centre: Tensor, radius: Tensor
) -> tuple[Tensor, Tensor]:
    """Integrals of the RBF kernel over a ball in space, once and twice.

        (P k)(x_n) = a {Phi(v - u) - Phi(-v - u) - [phi(v - u) - phi(v + u)] / u}
        P k P'     = a V sqrt(2 / pi) int_0^{2 v} r^2 e^{-r^2 / 2} (1 - x)^2 (1 + x / 2) dr

    with u = |x_n - centre| / l, v = R / l, x = r / (2 v), ``a = s^2 (2 pi l^2)^(3/2)`` and ``V = 4
    pi R^3 / 3``. phi and Phi are the standard normal density and distribution function. Precision
    and gradients are those of `disc_integrals`.

    Args:
        points: [..., 3], float32 or float64.
        signal_std: s, scalar.
        length_scale: l, scalar, in units of the points.
        centre: the ball's centre, [3].
        radius: R, scalar > 0.

    Returns:
        (P k)(x_n) of shape [...] and the scalar P k P'.

    Raises:
        ValueError: if the points do not lie in space, if ``centre`` is not [3] or ``radius`` not a
            scalar, or if the radius is not positive (not checked inside a ``tf.function``).

    Example: a ball much smaller than the length scale has the integrals V and V^2.

    >>> import numpy as np, tfpn
    >>> single, double = tfpn.math.ball_integrals(
    ...     np.zeros((1, 3)), signal_std=1.0, length_scale=100.0, centre=(0.0, 0.0, 0.0),
    ...     radius=1.0)
    >>> volume = 4 / 3 * np.pi
    >>> round(float(single[0] / volume), 3), round(float(double / volume**2), 3)
    (1.0, 1.0)
    """
    return _integrals(3, points, signal_std, length_scale, centre, radius)


def ball_volume(radius: float | Tensor, dim: int) -> float | Tensor:
    """The area of a disc for ``dim`` 2, and the volume of a ball for 3."""
    return {2: math.pi, 3: 4.0 / 3.0 * math.pi}[dim] * radius**dim


def bessel_ratio(z: Tensor) -> Tensor:
    """``j_1(z) / z`` for z >= 0, with the spherical Bessel function j_1.

    >>> bessel_ratio(tf.constant([0.0, 2.0], tf.float64)).numpy().round(4).tolist()
    [0.3333, 0.2177]
    """
    small = z < _SMALL
    safe = tf.where(small, tf.ones_like(z), z)
    far = (tf.sin(safe) / safe - tf.cos(safe)) / tf.square(safe)
    return tf.where(small, _slope_series(-tf.square(tf.minimum(z, _SMALL))), far)


def _integrals(dim, points, signal_std, length_scale, centre, radius):
    points = floating(points, "points")
    if require_static_dim(points, "points") != dim:
        where = {2: "disc lies in the plane", 3: "ball lies in space"}[dim]
        raise ValueError(
            f"points has shape {points.shape}: a {where}, so the last axis must be {dim}; use a "
            "disc in the plane, a ball in space, and a box in other dimensions."
        )
    dtype = points.dtype
    points, centre, radius, signal_std, length_scale = (
        tf.cast(tf.convert_to_tensor(t, dtype), tf.float64)
        for t in (points, centre, radius, signal_std, length_scale)
    )
    _check(centre, radius, dim)
    parts = tf.unstack(tf.square((points - centre) / length_scale), axis=-1)
    v = radius / length_scale
    whole = kernel_integral(signal_std, length_scale, dim)
    single = whole * _probability(tf.add_n(parts), v, dim)
    fraction = _disc_fraction(tf.square(v)) if dim == 2 else _ball_fraction(v)
    double = whole * ball_volume(radius, dim) * fraction
    return tf.cast(single, dtype), tf.cast(double, dtype)


def _check(centre, radius, dim):
    for name, tensor, expected in (("centre", centre, [dim]), ("radius", radius, [])):
        if not tensor.shape.is_compatible_with(expected):
            raise ValueError(f"{name} has shape {tensor.shape}, expected {expected}.")
    known = tf.get_static_value(radius)
    if known is not None and not 0.0 < known < np.inf:
        raise ValueError(f"radius must be positive and finite, found {known!s}.")


def _probability(square, v, dim):
    """F for the squared distance u^2 [...] and the scalar v."""
    mean, slope = {2: (tf.math.bessel_i0e, _disc_slope), 3: (_ball_mean, _ball_slope)}[dim]

    @tf.custom_gradient
    def apply(square, v):
        u = tf.sqrt(square)[..., None]
        # r = u + s runs from the smaller of v - 9.5 and u - 9.5 to the smaller of v and u + 9.5.
        low = tf.maximum(tf.minimum(v - u, 0.0) - _REACH, -u)
        high = tf.minimum(v - u, _REACH)
        nodes, weights = _legendre(_NODES)
        s = low + (high - low) * nodes
        density = (u + s) ** (dim - 1) * tf.exp(-0.5 * tf.square(s)) * mean(u * (u + s))
        result = tf.reduce_sum(weights * density, axis=-1) * (high - low)[..., 0]

        def gradient(upstream):
            u = tf.sqrt(square)
            gaussian = upstream * tf.exp(-0.5 * tf.square(u - v))
            d_square = -0.5 * v**dim * gaussian * slope(u * v)
            return d_square, tf.reduce_sum(v ** (dim - 1) * gaussian * mean(u * v))

        return result, gradient

    return apply(square, v)


@tf.custom_gradient
def _disc_fraction(t):
    """h of a disc by t = v^2, a scalar."""
    nodes, weights = _legendre(_SMALL_NODES)
    small = tf.minimum(t, _SMALL)
    series = small * tf.reduce_sum(weights * _disc_slope(small * nodes))
    formula = 1.0 - tf.math.bessel_i0e(t) - tf.math.bessel_i1e(t)
    result = tf.where(t < _SMALL, series, formula)
    return result, lambda upstream: upstream * _disc_slope(t)


def _ball_fraction(v):
    """h of a ball, a scalar."""
    nodes, weights = _legendre(_NODES)
    end = tf.minimum(2.0 * v, _REACH)
    r = end * nodes
    x = 0.5 * r / v
    density = tf.square(r * (1.0 - x)) * (1.0 + 0.5 * x) * tf.exp(-0.5 * tf.square(r))
    return _HALF_NORMAL * end * tf.reduce_sum(weights * density)


def _disc_slope(z):
    """G of a disc for z >= 0."""
    positive = z > 1e-30
    safe = tf.where(positive, z, 1.0)
    return tf.where(positive, tf.math.bessel_i1e(safe) / safe, 0.5)


def _ball_mean(z):
    """A of a ball for z >= 0."""
    positive = z > 1e-30
    safe = tf.where(positive, z, 1.0)
    tanh = tf.tanh(safe)  # it has an ONNX form, and expm1 has none
    return _HALF_NORMAL * tf.where(positive, tanh / (safe * (1.0 + tanh)), 1.0)


def _ball_slope(z):
    """G of a ball for z >= 0."""
    small = z < _SMALL
    near, safe = tf.minimum(z, _SMALL), tf.where(~small, z, 1.0)
    decay = tf.exp(-2.0 * safe)
    far = 0.5 * (1.0 + decay - (1.0 - decay) / safe) / tf.square(safe)
    return _HALF_NORMAL * tf.where(small, tf.exp(-near) * _slope_series(tf.square(near)), far)


def _slope_series(square):
    """``[cosh(z) - sinh(z) / z] / z^2`` as a series in ``square = z^2``, which may be negative."""
    found = tf.zeros_like(square)
    for k in reversed(range(_SERIES)):
        found = found * square + 2.0 * (k + 1) / math.factorial(2 * k + 3)
    return found


def _legendre(count):
    """Gauss-Legendre nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return 0.5 * (nodes + 1.0), 0.5 * weights
