"""Covariance of two rectified Gaussian variables (eq. rectified_moments_Sigma) to full accuracy.

Let h = mu1/s1, k = mu2/s2, and let rho be the correlation. By Price's theorem the second derivative
of Cov(relu f1, relu f2) / (s1 s2) with respect to rho is the bivariate normal density. So

    Cov / (s1 s2)     = rho Phi(h) Phi(k) + int_0^rho (rho - r) phi2(h, k; r) dr
    Phi2(h, k; rho)   =     Phi(h) Phi(k) + int_0^rho           phi2(h, k; r) dr

Nothing cancels here, unlike in the closed form that needs Phi2. A negative rho is the same with -k
and -rho inside the integrals. In the variable xi = sqrt((1 - r) / (1 + r)) the exponent is

    (h^2 + k^2) / 4  +  (h - k)^2 / (8 xi^2)  +  (h + k)^2 xi^2 / 8

A closed form gives the interval in which the exponent is within a given number of its least value.
All nodes lie in this interval. At |rho| = 1 it begins at 0, where exp(-(h-k)^2 / (8 xi^2)) has a
step, which is narrow if h and k are close. Therefore the Gauss-Legendre nodes are spaced in a root
of xi. A step of width d costs the first integral an error of order d^3, but the second one an error
of order d. If the step is narrow, Phi2 comes from the first integral and the closed form that
connects the two.
"""

import math

import numpy as np
import tensorflow as tf

from tfpn.checks import floating
from tfpn.math.activations.rectified import rectified_moments
from tfpn.types import Tensor


class _RootRule:
    """Nodes and weights on [0, 1] for the variable xi^(1/power)."""

    def __init__(self, dtype, count, power, drop, largest):
        nodes, weights = np.polynomial.legendre.leggauss(count)
        self.nodes = (0.5 * (nodes + 1)).astype(dtype).tolist()
        self.weights = (0.5 * weights).astype(dtype).tolist()
        self.power = power
        self.drop = drop  # values below exp(-drop) of the largest one are left out
        self.largest = largest  # phi is 0 there, and Phi is 0 or 1


# Errors measured over all h, k, rho: with 40 nodes 1e-15 of the two integrals in float64, and a
# relative error of 5e-13 in the tail; with 16 nodes 5e-10 and 2e-6.
_RULES = {
    tf.float32: _RootRule(np.float32, count=16, power=2, drop=18.0, largest=30.0),
    tf.float64: _RootRule(np.float64, count=40, power=3, drop=36.0, largest=80.0),
}


def _tiny(dtype):
    return np.finfo(dtype.as_numpy_dtype).tiny


def _sign(x):
    return tf.where(x < 0.0, tf.constant(-1.0, x.dtype), 1.0)


def _density(x):
    return tf.exp(-0.5 * tf.square(x)) * (1.0 / math.sqrt(2.0 * math.pi))


def _cdf(x):
    tail = 0.5 * tf.math.erfc(math.sqrt(0.5) * tf.abs(x))
    return tf.where(x > 0.0, 1.0 - tail, tail)


def _cdf_difference(x, y):
    """Phi(x) - Phi(y), from the upper tails if both are positive."""
    tail1, tail2 = (0.5 * tf.math.erfc(math.sqrt(0.5) * tf.abs(z)) for z in (x, y))
    difference = tail1 - tail2
    # For different signs the difference goes from below 1/2 to above.
    apart = 1.0 - tail1 - tail2
    same = tf.equal(x > 0.0, y > 0.0)
    return tf.where(
        same, tf.where(x > 0.0, -difference, difference), tf.where(x > 0.0, apart, -apart)
    )


def _integrals(h, k, gap):
    """The two integrals of the module's docstring, for a correlation 1 - gap in [0, 1]."""
    rule, tiny = _RULES[h.dtype], _tiny(h.dtype)
    first_square = gap / (2.0 - gap)  # xi^2 at r = rho; at r = 0 xi is 1
    first = tf.sqrt(first_square)
    inverse_part = 0.125 * tf.square(h - k)
    square_part = 0.125 * tf.square(h + k)
    # The exponent is p / X + s X + c in X = xi^2. Its least value is at sqrt(p / s) or at an end.
    # The interval lies between the roots of a quadratic.
    least = tf.sqrt(inverse_part / tf.maximum(square_part, tiny))
    least = tf.clip_by_value(least, first_square, 1.0)
    least = inverse_part / tf.maximum(least, tiny) + square_part * least
    level = least + rule.drop
    root = tf.sqrt(tf.nn.relu(tf.square(level) - 4.0 * inverse_part * square_part))
    low = tf.maximum(first_square, 2.0 * inverse_part / (level + root))
    high = tf.minimum((level + root) / tf.maximum(2.0 * square_part, tiny), 1.0)
    low, high = (tf.pow(x, 0.5 / rule.power) for x in (low, high))
    width = tf.nn.relu(high - low)

    weighted = plain = tf.zeros_like(width)
    for node, weight in zip(rule.nodes, rule.weights, strict=True):
        # One node comes after the other, so that memory holds only one.
        with tf.control_dependencies([weighted, plain]):
            z = low + node * width
        if rule.power == 2:
            derivative, xi = z, tf.square(z)
        else:
            derivative = tf.square(z)
            xi = derivative * z
        square = tf.square(xi)
        ratio = 1.0 / (1.0 + square)
        exponent = inverse_part / tf.maximum(square, tiny) + square_part * square - least
        term = tf.exp(-exponent) * (weight * derivative * ratio)
        plain += term
        weighted += term * ratio * ((xi - first) * (xi + first))
    # The largest value is multiplied last, because it may be near the least number of the dtype.
    factor = tf.exp(-least - 0.25 * (tf.square(h) + tf.square(k))) * (rule.power / math.pi)
    plain *= width * factor
    weighted *= width * (2.0 / (1.0 + first_square)) * factor
    return weighted, plain


def _thresholds(h, k, gap):
    """(h - rho k) / w, (k - rho h) / w and w for rho = 1 - gap, w = sqrt(1 - rho^2)."""
    w = tf.sqrt(gap * (2.0 - gap))
    difference = h - k
    scaled = 1.0 / tf.maximum(w, _tiny(h.dtype))
    bounds = (-1e4, 1e4)  # finite even if w is 0; phi is 0 beyond
    return (
        tf.clip_by_value((difference + gap * k) * scaled, *bounds),
        tf.clip_by_value((gap * h - difference) * scaled, *bounds),
        w,
    )


def _excess_probability(h, k, gap, weighted, plain):
    """Phi2(h, k; 1 - gap) - Phi(h) Phi(k)."""
    u1, u2, w = _thresholds(h, k, gap)
    rho = 1.0 - gap
    denominator = h * k + rho
    rest = (
        h * _density(k) * _cdf_difference(u1, h)
        + k * _density(h) * _cdf_difference(u2, k)
        + _density(h) * (w * _density(u2) - _density(k))
    )
    # Elsewhere (h - k)^2 / 8 > 1/16 or xi > 0.57, and `plain` is fully accurate.
    narrow = tf.logical_and(denominator > 0.5, rho > 0.5)
    found = (weighted - rest) / tf.where(narrow, denominator, tf.ones_like(denominator))
    return tf.where(narrow, found, plain)


def _probability(h, k, sign, excess):
    """Phi2, within its bounds for any correlation."""
    below1, below2 = _cdf(h), _cdf(k)
    lowest = tf.nn.relu(_cdf_difference(h, -k))  # Phi(h) + Phi(k) - 1
    return tf.clip_by_value(
        below1 * below2 + sign * excess, lowest, tf.maximum(lowest, tf.minimum(below1, below2))
    )


def _sum_to_shape(gradient, tensor):
    """Undoes the broadcasting of ``tensor``."""
    if gradient.shape.is_fully_defined() and gradient.shape == tensor.shape:
        return gradient
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(tensor), s1=tf.shape(gradient))
    return tf.reshape(tf.reduce_sum(gradient, axes), tf.shape(tensor))


def rectified_covariance(
    mean1: Tensor, mean2: Tensor, variance1: Tensor, variance2: Tensor, covariance: Tensor
) -> Tensor:
    """``Cov(relu(f1), relu(f2))`` for jointly Gaussian f1 and f2, elementwise.

    This is eq. rectified_moments_Sigma of the paper, minus the product of the means. The form used
    here holds for every correlation from -1 to 1 and far into the tail. Its gradient is
    hand-written. In units of ``sqrt(variance1 * variance2)`` the error is a few units of rounding,
    below 3e-7 in float32 and 2e-15 in float64. The standard deviations of the rectified variables
    are small in the tail. In their units the error is below 1e-5 and 1e-12, as long as their
    product is a normal number.

    The derivative with respect to ``covariance`` is ``P(f1 > 0, f2 > 0)``. The others are closed
    forms in it. A correlation is taken as -1 or 1 if it lies beyond, or differs from it by no more
    than the rounding of the arguments. A variance of 0 gives 0 and finite derivatives; the
    derivative with respect to this variance is taken as 0. There are no second derivatives.

    The cost for each entry of the result is about 16 (float32) or 40 (float64) exponentials, one
    after the other.

    Args:
        mean1, mean2: tensors of float32 or float64 whose shapes broadcast with all the others.
        variance1, variance2: tensors of the same dtype, >= 0 and finite.
        covariance: covariance of the two Gaussian variables, a tensor of the same dtype.

    Returns:
        A tensor of the broadcast shape.

    Raises:
        TypeError: for another dtype.

    Example:

    >>> import tfpn
    >>> round(float(tfpn.math.rectified_covariance(0.0, 0.0, 1.0, 1.0, 0.5)), 4)
    0.1453
    >>> round(float(tfpn.math.rectified_covariance(0.5, 0.5, 1.0, 1.0, 1.0)), 4)  # a variance
    0.5534
    >>> round(float(tfpn.math.rectified_moments(0.5, 1.0)[1]), 4)
    0.5534

    All pairs of four points, from the covariance matrix C of a GP at the points:

    >>> import tensorflow as tf
    >>> C = 0.9 * tf.eye(4) + 0.1
    >>> m, v = tf.zeros(4), tf.linalg.diag_part(C)
    >>> tfpn.math.rectified_covariance(m[:, None], m, v[:, None], v, C).shape
    TensorShape([4, 4])
    """
    mean1 = floating(mean1, "mean1")
    others = (mean2, variance1, variance2, covariance)
    return _rectified_covariance(mean1, *(tf.convert_to_tensor(x, mean1.dtype) for x in others))


def _standardized(mean, variance):
    """mean / sigma (clipped where the result no longer changes), sigma, and 1 / sigma or 0."""
    largest = _RULES[mean.dtype].largest
    # This avoids rsqrt, whose float32 kernels are off by some units of rounding.
    sigma = tf.sqrt(tf.maximum(variance, _tiny(mean.dtype)))
    h = tf.clip_by_value(mean / sigma, -largest, largest)
    present = tf.cast(variance >= _tiny(mean.dtype), mean.dtype)
    return h, present * sigma, present / sigma


def _correlation_gap(variance1, variance2, covariance):
    """1 - abs(correlation), in [0, 1]. It is computed in float64: float32 would lose it near 1."""
    scale = tf.sqrt(tf.cast(variance1, tf.float64)) * tf.sqrt(tf.cast(variance2, tf.float64))
    size = tf.abs(tf.cast(covariance, tf.float64))
    gap = (scale - size) / tf.maximum(scale, _tiny(tf.float64))
    # The rounding errors of sigma^2 and rho sigma1 sigma2 add up to 3 eps.
    gap = tf.where(gap < 4.0 * np.finfo(np.float64).eps, tf.zeros_like(gap), gap)
    return tf.cast(tf.where(scale > 0.0, gap, tf.ones_like(gap)), covariance.dtype)


def _rectified_conditional(shift, offset, threshold, w):
    """E relu(x + w z) - E relu(offset + z) for x = offset - shift = w threshold."""
    x = offset - shift
    tails = (w, rectified_moments(-tf.abs(threshold), tf.ones_like(threshold))[0])
    tail = tails[0] * tails[1] - rectified_moments(-tf.abs(offset), tf.ones_like(offset))[0]
    both = tf.logical_and(x > 0.0, offset > 0.0)
    return tf.where(both, -shift, tf.nn.relu(x) - tf.nn.relu(offset)) + tail


@tf.custom_gradient
def _rectified_covariance(*arguments):
    # Without this an eager tape would keep the results of every node, which nothing needs.
    mean1, mean2, variance1, variance2, covariance = map(tf.stop_gradient, arguments)
    h, sigma1, inverse1 = _standardized(mean1, variance1)
    k, sigma2, inverse2 = _standardized(mean2, variance2)
    gap = _correlation_gap(variance1, variance2, covariance)
    sign = _sign(covariance)
    rho = sign * (1.0 - gap)
    weighted, plain = _integrals(h, sign * k, gap)
    result = sigma1 * sigma2 * (rho * (_cdf(h) * _cdf(k)) + weighted)

    def gradient(upstream):
        u1, u2, w = _thresholds(h, sign * k, gap)
        u2 *= sign
        excess = _excess_probability(h, sign * k, gap, weighted, plain)
        density1, density2 = _density(h), _density(k)
        # This is E[1(f1 > 0) relu(f2)] / sigma2, minus the same for independent variables.
        by_mean1 = k * sign * excess + density2 * _cdf_difference(u1, h) + rho * density1 * _cdf(u2)
        by_mean2 = h * sign * excess + density1 * _cdf_difference(u2, k) + rho * density2 * _cdf(u1)
        # By Price's theorem this is half of the density of f1 at 0, times E[relu(f2) | f1 = 0].
        by_variance1 = 0.5 * density1 * _rectified_conditional(rho * h, k, u2, w)
        by_variance2 = 0.5 * density2 * _rectified_conditional(rho * k, h, u1, w)
        return (
            _sum_to_shape(upstream * sigma2 * by_mean1, mean1),
            _sum_to_shape(upstream * sigma1 * by_mean2, mean2),
            _sum_to_shape(upstream * (sigma2 * inverse1) * by_variance1, variance1),
            _sum_to_shape(upstream * (sigma1 * inverse2) * by_variance2, variance2),
            _sum_to_shape(upstream * _probability(h, k, sign, excess), covariance),
        )

    return result, gradient


def bivariate_normal_cdf(x1: Tensor, x2: Tensor, correlation: Tensor) -> Tensor:
    """``P(z1 <= x1, z2 <= x2)`` for standard normal z1, z2 of a given correlation, elementwise.

    It is also the orthant probability ``P(f1 > 0, f2 > 0)`` for means x1 and x2 and variances 1.
    The error is a few units of rounding for every correlation from -1 to 1: below 2e-7 in float32
    and 5e-15 in float64. For correlations >= 0 it keeps the relative accuracy far into the tail.
    The gradient is hand-written. The derivative with respect to the correlation is the bivariate
    density, and is taken as 0 at correlations -1 and 1.

    Args:
        x1, x2: tensors of float32 or float64 whose shapes broadcast with each other and with
            ``correlation``. Entries may be infinite.
        correlation: tensor of the same dtype, in [-1, 1]. Values outside are taken as -1 or 1.

    Returns:
        A tensor of the broadcast shape.

    Raises:
        TypeError: for another dtype.

    Example:

    >>> import tfpn
    >>> round(float(tfpn.math.bivariate_normal_cdf(0.0, 0.0, 0.5)), 6)  # 1/4 + asin(1/2) / (2 pi)
    0.333333
    """
    x1 = floating(x1, "x1")
    others = (x2, correlation)
    return _bivariate_normal_cdf(x1, *(tf.convert_to_tensor(x, x1.dtype) for x in others))


@tf.custom_gradient
def _bivariate_normal_cdf(*arguments):
    x1, x2, correlation = map(tf.stop_gradient, arguments)
    largest = _RULES[x1.dtype].largest
    h, k = (tf.clip_by_value(x, -largest, largest) for x in (x1, x2))
    gap = tf.nn.relu(1.0 - tf.abs(correlation))
    sign = _sign(correlation)
    excess = _excess_probability(h, sign * k, gap, *_integrals(h, sign * k, gap))
    result = _probability(h, k, sign, excess)

    def gradient(upstream):
        u1, u2, w = _thresholds(h, sign * k, gap)
        density1, density2 = _density(h), _density(k)
        joint = density1 * _density(u2) / tf.where(w > 0.0, w, float("inf"))
        return (
            _sum_to_shape(upstream * density1 * _cdf(sign * u2), x1),
            _sum_to_shape(upstream * density2 * _cdf(u1), x2),
            _sum_to_shape(upstream * joint, correlation),
        )

    return result, gradient
