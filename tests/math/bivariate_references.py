"""Covariances of rectified variables and Phi2 by integration, and gradients of functions."""

import mpmath
import numpy as np
import tensorflow as tf

from tfpn.math import rectified_covariance


def value_and_gradient(*arguments, function=rectified_covariance, **graph):
    """As arrays; with arguments of `tf.function` in a graph, which both are traced into at once."""

    def both(*arguments):
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            value = function(*arguments)
        return value, tape.gradient(value, arguments)

    both = tf.function(both, **graph) if graph else both
    value, gradient = both(*(tf.convert_to_tensor(x) for x in arguments))
    return value.numpy(), [x.numpy() for x in gradient]


def exact(h, k, rho):
    """Covariance and derivatives for variances 1, and Phi2, from integrals over the first variable.

    In order: covariance, its derivatives with respect to both means, both variances and the
    covariance, standard deviations of the two rectified variables.
    """
    with mpmath.workdps(30):
        h, k, rho = (mpmath.mpf(float(x)) for x in (h, k, rho))
        w = mpmath.sqrt((1 - rho) * (1 + rho))

        def g(x):  # E relu(x + z)
            return x * mpmath.ncdf(x) + mpmath.npdf(x)

        def conditional(mean):  # E relu(mean + w z) and P(mean + w z > 0)
            if w == 0:
                return max(mean, mpmath.mpf(0)), (mpmath.sign(mean) + 1) / 2
            t = mean / w
            probability = mpmath.ncdf(t)
            return w * (t * probability + mpmath.npdf(t)), probability

        def over_first(h, k):
            """From -h of phi(z) times both conditional(k + rho z), the first one by z + h too."""
            low, high = max(-h, -14 + min(0, k)), 14 + max(0, -h, -k)
            points = set(np.arange(np.ceil(float(low)), float(high), 2.0))
            if rho != 0:
                middle, width = -k / rho, max(w / abs(rho), mpmath.mpf(10) ** -12)
                sides = [s * width * 4**n for n in range(20) for s in (-1, 1)]
                points |= {middle} | {middle + side for side in sides}
            points = [low] + sorted(p for p in points if low < p < high) + [high]
            nodes, weights = LEGENDRE
            product = first = both = mpmath.mpf(0)
            for a, b in zip(points[:-1], points[1:], strict=True):
                for node, weight in zip(nodes, weights, strict=True):
                    z = (a + b) / 2 + (b - a) / 2 * node
                    factor = weight * (b - a) / 2 * mpmath.npdf(z)
                    mean, positive = conditional(k + rho * z)
                    product += factor * (z + h) * mean
                    first += factor * mean
                    both += factor * positive
            return product, first, both

        product, first, probability = over_first(h, k)
        covariance = product - g(h) * g(k)
        by_mean1 = first - mpmath.ncdf(h) * g(k)
        by_mean2 = over_first(k, h)[1] - mpmath.ncdf(k) * g(h)
        by_variance1 = mpmath.npdf(h) * (conditional(k - rho * h)[0] - g(k)) / 2
        by_variance2 = mpmath.npdf(k) * (conditional(h - rho * k)[0] - g(h)) / 2
        deviations = [
            mpmath.sqrt((x * x + 1) * mpmath.ncdf(x) + x * mpmath.npdf(x) - g(x) ** 2)
            for x in (h, k)
        ]
        found = [covariance, by_mean1, by_mean2, by_variance1, by_variance2, probability]
        return [float(x) for x in found + deviations]


def _legendre(count):
    with mpmath.workdps(30):
        nodes = []
        for start in np.polynomial.legendre.leggauss(count)[0]:
            root = mpmath.findroot(lambda x: mpmath.legendre(count, x), mpmath.mpf(start))
            nodes.append(root)
        slope = [
            count * (mpmath.legendre(count - 1, x) - x * mpmath.legendre(count, x)) / (1 - x * x)
            for x in nodes
        ]
        return nodes, [2 / ((1 - x * x) * d * d) for x, d in zip(nodes, slope, strict=True)]


LEGENDRE = _legendre(20)
# Of the quadrature in float64, whose terms are positive.
NODES = 40
