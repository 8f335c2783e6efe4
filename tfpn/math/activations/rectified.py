"""Moments of a rectified Gaussian variable (eq. rectified_moments_mu), accurate in the tail.

The formulas use ``M_n(t) = int_0^inf x^n exp(-t x - x^2/2) dx`` at ``t = |mu| / sigma >= 0``. M_0
is Mills' ratio, Phi(-t) = phi(t) M_0(t). Integration by parts gives

    M_1 = 1 - t M_0         M_2 = M_0 - t M_1

In this direction the recurrence loses digits as t^2 and t^4. Backwards from M_2 every term is
positive, and nothing cancels:

    M_1 = (1 - t M_2) / (1 + t^2)         M_0 = M_2 + t M_1

So M_2 is the only function to approximate. The approximation is a rational function of t with
positive coefficients, fitted to the integral over all t >= 0. Its relative error is 3.4e-8
(float32) and 2e-17 (float64).
"""

import math

import tensorflow as tf

from tfpn.checks import floating
from tfpn.math.fusion import fused, fusion, is_active
from tfpn.math.recompute import available_after
from tfpn.types import Tensor

M2_COEFFICIENTS = {  # numerator, denominator; the constant term first
    tf.float32: (
        (1.253314179, 0.8385848357, 0.2818229769, 0.05388894052, 0.00540235748),
        (
            *(1.0, 2.264865778, 2.339028114, 1.442290133, 0.5812296643, 0.1571118709),
            *(0.02694453274, 0.002701178648),
        ),
    ),
    tf.float64: (
        (
            *(1.25331413731550028, 1.61574948431877484, 1.06212914437242978),
            *(0.459209441958297253, 0.143068637236027002, 0.0333778402330162299),
            *(0.00589482474228993459, 0.000779436089606030833, 0.0000742494599360874858),
            *(4.65314260777168757e-6, 1.49178886881804084e-7),
        ),
        (
            *(1.0, 2.88495068926887708, 3.9511716731637893, 3.40797392128123564),
            *(2.06987778269766516, 0.937215976362849034, 0.326454147555831597),
            *(0.0888918303864564817, 0.0190062892527509569, 0.00316948944584502659),
            *(0.000403677472627238835, 0.000037572266628685491, 2.32657130388584953e-6),
            7.45894434409020406e-8,
        ),
    ),
}
# phi(t) is exactly 0 well before this t, and the powers of t stay finite.
_LARGEST_T = 1e3


def _horner(coefficients, t):
    result = coefficients[-1] * t + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        result = result * t + coefficient
    return result


def _tail_functions(t):
    """phi(t) M_n(t) for n = 0, 1, 2 and phi(t), at t >= 0, each with full relative accuracy."""
    numerator, denominator = M2_COEFFICIENTS[t.dtype]
    square = tf.square(t)
    density = tf.exp(-0.5 * square) * (1.0 / math.sqrt(2.0 * math.pi))
    second = density * (_horner(numerator, t) / _horner(denominator, t))
    first = (density - t * second) / (1.0 + square)
    return second + t * first, first, second, density


def rectified_moments(mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of ``relu(f)`` for ``f ~ N(mean, variance)``, elementwise.

    This is eq. rectified_moments_mu of the paper and the matching second moment, with a
    hand-written gradient. Values and gradients keep their relative accuracy far into the tail: a
    few units of rounding times ``max(1, t^2)``, with t = \\|mean\\| / sqrt(variance). This factor
    is the conditioning of exp(-t^2/2). A variance of 0 gives ``relu(mean)`` and 0. At ``mean = 0``
    the derivative with respect to this variance does not exist, and is taken as 0.

    Args:
        mean: tensor of float32 or float64.
        variance: tensor of the same shape and dtype, >= 0 and finite.

    Returns:
        A pair of tensors like ``mean``: mean and variance of the rectified variable.

    Raises:
        TypeError: for another dtype.

    Example:

    >>> import tfpn
    >>> mean, variance = tfpn.math.rectified_moments(0.0, 1.0)
    >>> round(float(mean), 4), round(float(variance), 4)  # 1/sqrt(2 pi), 1/2 - 1/(2 pi)
    (0.3989, 0.3408)
    """
    mean = floating(mean, "mean")
    variance = tf.convert_to_tensor(variance, mean.dtype)
    return _rectified_moments(mean, variance)


@tf.custom_gradient
def _rectified_moments(mean, variance):
    active = is_active()  # TensorFlow calls the gradient outside of the context

    def gradient(d_mean, d_variance):
        # Keeping the derivatives would take twice as many maps as keeping the arguments.
        again = available_after((d_mean, d_variance), (mean, variance))
        with fusion(active):
            return _chain_rule(*again, d_mean, d_variance)

    return _moments(mean, variance), gradient


@fused
def _moments(mean, variance):
    rectified_mean, rectified_variance, *_ = _parts(mean, variance)
    return rectified_mean, rectified_variance


@fused
def _chain_rule(mean, variance, d_mean, d_variance):
    """The gradient with respect to the mean and to the variance."""
    rectified_mean, _, inverse_sigma, first, density, signed, probability, complement = _parts(
        mean, variance
    )
    # d E / d mu = Phi, d E / d v = phi / (2 sigma), d Var / d mu = 2 E Phi(-mu/sigma),
    # d Var / d v = Phi - E phi / sigma.
    # variance * inverse_sigma^2 is 1, and 0 at variance 0.
    mean_by_variance = 0.5 * density * inverse_sigma * (variance * inverse_sigma * inverse_sigma)
    variance_by_variance = probability - (signed + first) * density
    return (
        d_mean * probability + d_variance * (2.0 * rectified_mean * complement),
        d_mean * mean_by_variance + d_variance * variance_by_variance,
    )


def _parts(mean, variance):
    """The two moments, and the parts of their derivatives."""
    # The floor avoids 0/0. Where it acts, sigma is 0, and so is every term with phi.
    tiny = mean.dtype.as_numpy_dtype(2.0) ** (-126 if mean.dtype == tf.float32 else -1022)
    inverse_sigma = tf.math.rsqrt(tf.maximum(variance, tiny))
    sigma = variance * inverse_sigma
    t = tf.minimum(tf.abs(mean) * inverse_sigma, _LARGEST_T)
    tail, first, second, density = _tail_functions(t)  # tail is Phi(-t)
    # For mean > 0 this uses relu(f) = f + relu(-f). Sums replace selections: `step` is 1 or 0, and
    # 1/2 at mean = 0, where `central` is 0.
    step = 0.5 + 0.5 * tf.sign(mean)
    central = 1.0 - 2.0 * tail
    upper = step * central
    probability = tail + upper  # Phi(mean / sigma)
    complement = tail + (central - upper)  # not 1 - probability, which cancels
    rectified_mean = tf.nn.relu(mean) + sigma * first
    rectified_variance = variance * (upper + second - tf.square(first))
    return (
        *(rectified_mean, rectified_variance),
        *(inverse_sigma, first, density, step * t, probability, complement),
    )


@tf.custom_gradient
def rectified_slope(mean: Tensor, variance: Tensor) -> Tensor:
    """Mean slope of ``relu(f)`` for ``f ~ N(mean, variance)``: ``P(f > 0) = Phi(mean / sigma)``.

    It is the first coefficient of Mehler's expansion. To first order in the correlation,
    ``Cov(relu f1, relu f2) = slope1 slope2 Cov(f1, f2)``. The gradient is 0 at variance 0.

    Args:
        mean, variance: as in `rectified_moments`.

    Returns:
        A tensor like ``mean``.

    Example:

    >>> import tensorflow as tf
    >>> from tfpn.math.activations.rectified import rectified_slope
    >>> round(float(rectified_slope(tf.constant(1.0), tf.constant(1.0))), 4)
    0.8413
    """
    tiny = mean.dtype.as_numpy_dtype(2.0) ** (-126 if mean.dtype == tf.float32 else -1022)
    inverse_sigma = tf.math.rsqrt(tf.maximum(variance, tiny))
    z = tf.clip_by_value(mean * inverse_sigma, -_LARGEST_T, _LARGEST_T)

    def gradient(upstream):
        density = tf.exp(-0.5 * tf.square(z)) * (1.0 / math.sqrt(2.0 * math.pi))
        # variance / sigma^2 is 1, and 0 at variance 0.
        density *= upstream * (variance * inverse_sigma * inverse_sigma) * inverse_sigma
        return density, -0.5 * z * density * inverse_sigma

    return 0.5 * tf.math.erfc(-math.sqrt(0.5) * z), gradient
