"""Raw moments of a rectified Gaussian variable to order 4, accurate in the tail.

With ``M_n(t) = int_0^inf x^n exp(-t x - x^2/2) dx`` at ``t = |mean| / sigma``, the moment of order
n of relu(-|mean| + sigma z) is sigma^n phi(t) M_n(t). The recurrence

    M_{n+1} = n M_{n-1} - t M_n

loses digits upwards, but none downwards, where every term is positive. So M_4 is the only function
to approximate. The approximation is a rational function of t with positive coefficients, fitted to
the integral over all t >= 0. Its relative error is 1.3e-8 (float32) and 1.4e-17 (float64). The
recurrence and M_1 + t M_0 = 1 then give M_3 and all the others.
"""

import math

import numpy as np
import tensorflow as tf

from tfpn.checks import floating
from tfpn.types import Tensor

_M4_COEFFICIENTS = {  # numerator, denominator; the constant term first
    tf.float32: (
        (3.7599424579, 2.1498396509, 0.62396575324, 0.10551650932, 0.010112198301),
        (
            *(1.0, 2.6994681001, 3.409564721, 2.6617537346, 1.4268449345, 0.55189529212),
            *(0.1555629228, 0.032317993232, 0.0043965262182, 0.00042134158936),
        ),
    ),
    tf.float64: (
        (
            *(3.7599424119465008, 4.11999384362884956, 2.3267588622450363),
            *(0.87285695574264825, 0.238307734117530358, 0.0492187869510197778),
            *(0.00777783299348894071, 0.000930881568527301599, 0.0000813243200022640596),
            *(4.74988764115939329e-6, 1.45560744806267505e-7),
        ),
        (
            *(1.0, 3.22345198828574879, 4.97734185481203811, 4.89145980713429678),
            *(3.42772694045252073, 1.81804916557193092, 0.755802779654222552),
            *(0.251486781263998579, 0.0677571161714642701, 0.0148428267980092483),
            *(0.00263555245097562704, 0.000374995050182103737, 0.0000417554117977854731),
            *(3.4794887989312667e-6, 1.97911985048308528e-7, 6.06503103359447922e-9),
        ),
    ),
}
# phi(t) is exactly 0 well before this t, and the powers of t stay finite.
_LARGEST_T = 1e3
HIGHEST_ORDER = 4


def _horner(coefficients, t):
    result = coefficients[-1] * t + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        result = result * t + coefficient
    return result


def _tail_moments(t):
    """phi(t), and phi(t) M_n(t) for n = 0 to 4, at t >= 0."""
    numerator, denominator = _M4_COEFFICIENTS[t.dtype]
    square = tf.square(t)
    density = tf.exp(-0.5 * square) * (1.0 / math.sqrt(2.0 * math.pi))
    ratio4 = _horner(numerator, t) / _horner(denominator, t)
    ratio3 = (6.0 - t * (3.0 + square) * ratio4) / (square * (square + 6.0) + 3.0)
    ratio2 = (ratio4 + t * ratio3) / 3.0
    ratio1 = (ratio3 + t * ratio2) / 2.0
    ratio0 = ratio2 + t * ratio1
    return density, [density * ratio for ratio in (ratio0, ratio1, ratio2, ratio3, ratio4)]


def rectified_raw_moments(
    mean: Tensor, variance: Tensor, order: int = HIGHEST_ORDER
) -> tuple[Tensor, ...]:
    """``E[relu(f)^n]`` for ``f ~ N(mean, variance)`` and n = 1, ..., ``order``, elementwise.

    The gradient is hand-written: ``d/d mean E h^n = n E h^(n-1)`` and
    ``d/d variance E h^n = n (n-1) / 2 E h^(n-2)``. Values and gradients keep their relative
    accuracy far into the tail: a few units of rounding times ``max(1, t^2)``, with t = \\|mean\\| /
    sqrt(variance). This factor is the conditioning of exp(-t^2/2). A variance of 0 gives
    ``relu(mean)^n``. The first moment is eq. rectified_moments_mu of the paper.

    Args:
        mean: tensor of float32 or float64.
        variance: tensor of the same dtype, >= 0 and finite, whose shape broadcasts with the mean's.
        order: the highest order, from 1 to 4.

    Returns:
        A tuple of ``order`` tensors of the broadcast shape.

    Raises:
        TypeError: for another dtype.
        ValueError: for another order.

    Example:

    >>> import tfpn
    >>> moments = tfpn.math.rectified_raw_moments(0.0, 1.0)  # half of E |z|^n
    >>> [round(float(moment), 4) for moment in moments]
    [0.3989, 0.5, 0.7979, 1.5]
    """
    if isinstance(order, bool) or order not in range(1, HIGHEST_ORDER + 1):
        raise ValueError(f"order is {order!r}; expected an integer from 1 to {HIGHEST_ORDER}.")
    mean = floating(mean, "mean")
    variance = tf.convert_to_tensor(variance, mean.dtype)
    if not mean.shape.is_fully_defined() or mean.shape != variance.shape:
        shape = tf.broadcast_dynamic_shape(tf.shape(mean), tf.shape(variance))
        mean, variance = tf.broadcast_to(mean, shape), tf.broadcast_to(variance, shape)
    return tuple(_rectified_raw_moments(order)(mean, variance))


def _rectified_raw_moments(order):
    """The function for one order. A higher moment that overflows must not reach the gradients."""

    @tf.custom_gradient
    def moments(mean, variance):
        tiny = np.finfo(mean.dtype.as_numpy_dtype).tiny
        # This avoids rsqrt, whose float32 kernels are off by some units of rounding.
        sigma = tf.sqrt(tf.maximum(variance, tiny))
        t = tf.minimum(tf.abs(mean) / sigma, _LARGEST_T)
        present = tf.cast(variance >= tiny, mean.dtype)
        by_sigma = present / sigma
        sigma *= present
        density, tail = _tail_moments(t)
        # For mean > 0 this uses relu(f)^n = f^n - (-1)^n relu(-f)^n.
        positive = tf.nn.relu(mean)
        step = 0.5 + 0.5 * tf.sign(mean)  # at 0 both forms agree, and their mean is taken
        sign = 1.0 - 2.0 * step  # the sign of the tail's part in an even moment
        found = [tail[0] + step * (1.0 - 2.0 * tail[0]), positive + sigma * tail[1]]
        if order >= 2:
            square, sigma2 = tf.square(positive), tf.square(sigma)
            found.append(square + sigma2 * (step + sign * tail[2]))
        if order >= 3:
            found.append(positive * (square + 3.0 * sigma2) + sigma2 * sigma * tail[3])
        if order >= 4:
            even = square * (square + 6.0 * sigma2)
            found.append(even + tf.square(sigma2) * (3.0 * step + sign * tail[4]))
        first_by_variance = 0.5 * density * by_sigma

        def gradient(*upstream):
            by_mean = upstream[0] * found[0]
            by_variance = upstream[0] * first_by_variance
            for n in range(2, order + 1):
                by_mean += n * upstream[n - 1] * found[n - 1]
                by_variance += (n * (n - 1) / 2) * upstream[n - 1] * found[n - 2]
            return by_mean, by_variance

        return found[1:], gradient

    return moments
