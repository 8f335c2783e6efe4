"""Gaussian fields times the normal distribution function of a Gaussian scalar, in closed form.

Let g ~ N(mu, s^2) be independent of the field v. With ``m = mu / sqrt(1 + s^2)`` and
``rho = s^2 / (1 + s^2)``

    E Phi(g) = Phi(m)        E Phi(g)^2 = Phi2(m, m; rho)

So by Price's theorem, without cancellation,

    Var Phi(g) = Phi2(m, m; rho) - Phi(m)^2
               = 1 / (2 pi) int_0^asin(rho) exp(-m^2 / (1 + sin t)) dt

With the block's variance sigma^2, the mean over its d components,

    E Phi(g) v = Phi(m) E v        variance = Phi(m)^2 sigma^2 + Var Phi(g) (sigma^2 + |E v|^2 / d).
"""

import math

import numpy as np
import tensorflow as tf

from tfpn.checks import floating

# Numbers of Gauss-Legendre nodes; the worst error of Var Phi(g) is below 1e-7 and 1e-13.
NODES = {tf.float32: 8, tf.float64: 24}


def gate_moments(mean, variance):
    """Mean and variance of ``Phi(g)`` for ``g ~ N(mean, variance)``, elementwise.

    Args:
        mean: tensor of float32 or float64.
        variance: of the same shape, >= 0 and finite.

    Returns:
        Two tensors. The variance is never negative. Its error is below 1e-7 (float32) or 1e-13
        (float64).

    Raises:
        TypeError: for another dtype.

    Example: a very uncertain gate is open or shut with probability 1/2.

    >>> from tfpn.math.steerable.gates import gate_moments
    >>> mean, variance = gate_moments(0.0, 1e6)
    >>> round(float(mean), 3), round(float(variance), 3)
    (0.5, 0.25)
    """
    mean = floating(mean, "mean")
    variance = tf.convert_to_tensor(variance, mean.dtype)
    m = mean * tf.math.rsqrt(1.0 + variance)
    # This is asin(rho) without the root of 1 - rho^2.
    largest = tf.atan(variance * tf.math.rsqrt(1.0 + 2.0 * variance))
    total, square = 0.0, tf.square(m)
    for node, weight in zip(*_rule(NODES[mean.dtype]), strict=True):
        total += weight * tf.exp(-square / (1.0 + tf.sin(node * largest)))
    return gate_value(m), total * largest / (2.0 * math.pi)


def gate_value(scalars):
    """``Phi(g)`` for known numbers, elementwise: `gate_moments` without variance."""
    return 0.5 * tf.math.erfc(scalars * -math.sqrt(0.5))


def gate_fields(values, variance, gate_mean, gate_variance):
    """Mean and block variance of ``Phi(g) v`` for a field of d components.

    Args:
        values: planar means [..., d n], all first components before all second ones and so on.
        variance: of the blocks, [..., n].
        gate_mean, gate_variance: `gate_moments` [..., n].

    Returns:
        Planar means [..., d n] and the blocks' variances [..., n].

    Example:

    >>> import tensorflow as tf
    >>> from tfpn.math.steerable.gates import gate_fields
    >>> one = tf.ones([1])
    >>> values, variance = gate_fields(tf.constant([3.0, 4.0]), one, 0.5 * one, 0.0 * one)
    >>> values.numpy().tolist(), variance.numpy().tolist()
    ([1.5, 2.0], [0.25])
    """
    parts = tf.split(values, values.shape[-1] // variance.shape[-1], axis=-1)
    mean_square = tf.add_n([tf.square(part) for part in parts]) * (1.0 / len(parts))
    gated = tf.square(gate_mean) * variance + gate_variance * (variance + mean_square)
    return tf.concat([gate_mean * part for part in parts], axis=-1), gated


def _rule(count):
    """Gauss-Legendre nodes and weights on [0, 1], as numbers."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (0.5 * (nodes + 1.0)).tolist(), (0.5 * weights).tolist()
