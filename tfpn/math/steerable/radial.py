"""Functions of a distance as Fourier series, and the Bessel tables of their coefficients.

A field of order n under SO(2)-equivariant flows of the RBF kernel is ``exp(i n phi) P(|x|)`` with a
Hankel transform ``P(R) = int_0^inf r J_|n|(r R) g(r) dr`` (see `tfpn.math.steerable.harmonics`).
Distances and frequencies have a unit of length L: ``R = L t`` and ``r = u / L``. u takes fixed
Gauss-Legendre nodes on [0, U]. t lies in [0, T], beyond which P has decayed. There

    P(L t) = sum_j c_j cos(j theta)    (n even)        P(L t) = sum_j c_j sin(j theta)    (n odd)

with ``theta = pi t / T`` and j up to ``J = U T / pi``. For each order one constant matrix maps g at
the nodes to c. It holds the nodes' weights, the Bessel functions and the projection to the series.
L is only a unit. P does not depend on it, so it has no gradient.

The nodes serve series of several T. A flow takes the first that holds it: short series cost less
for each pair of points.

Series of orders other than 0 vanish at 0. At coincident points ``exp(i n phi)`` is taken as 0 for n
other than 0. Neither is differentiated: derivatives by the points are series of other orders (see
`tfpn.math.steerable.kernels`).
"""

import dataclasses
import functools
import math

import numpy as np
import scipy.special
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Resolution:
    """Sizes of the tables for a dtype.

    Attributes:
        cutoff: U, the largest u.
        nodes: number of nodes u.
        terms: J, the numbers of terms of the series, increasing.
        margin: number of widths after which a diffused kernel has decayed.
    """

    cutoff: float
    nodes: int
    terms: tuple
    margin: float

    @property
    def reaches(self):
        """T of each series: the largest distance that it holds."""
        return tuple(math.pi * terms / self.cutoff for terms in self.terms)


# At the cutoff the Gaussian exp(-U^2 / 2) is 3e-9 and 6e-16; at the margin it is 3e-7 and 1e-14.
# The reaches are 12, 24 and 60, and 18, 36 and 72.
RESOLUTION = {
    tf.float32: Resolution(cutoff=2.0 * math.pi, nodes=224, terms=(24, 48, 120), margin=5.5),
    tf.float64: Resolution(cutoff=8.0 * math.pi / 3.0, nodes=384, terms=(48, 96, 192), margin=8.0),
}


@functools.cache
def quadrature(resolution):
    """Nodes u and weights for integrals ``int_0^U f(u) u du``, two float64 arrays [Q]."""
    nodes, weights = np.polynomial.legendre.leggauss(resolution.nodes)
    nodes = 0.5 * resolution.cutoff * (nodes + 1.0)
    return nodes, 0.5 * resolution.cutoff * weights * nodes


@functools.cache
def series_matrix(order, resolution, level):
    """Maps g at the nodes to the coefficients c of ``int_0^U u J_order(u t) g(u) du``, [J, Q]."""
    nodes, weights = quadrature(resolution)
    terms, reach = resolution.terms[level], resolution.reaches[level]
    points = 4 * terms
    theta = np.linspace(0.0, np.pi, points + 1)
    values = scipy.special.jv(order, np.outer(reach * theta / np.pi, nodes))
    ends = np.ones(points + 1)
    ends[[0, -1]] = 0.5  # the trapezoidal rule
    if order % 2:
        waves = np.sin(np.outer(np.arange(1, terms + 1), theta))
    else:
        waves = np.cos(np.outer(np.arange(terms), theta))
    matrix = (2.0 / points) * (waves * ends) @ values
    if order % 2 == 0:
        matrix[0] *= 0.5
        if order:
            matrix[0] -= np.sum(matrix, axis=0)
    return matrix * weights


def waves(distance, parity, resolution, level):
    """``cos(j theta)``, j = 0 ... J - 1, or ``sin(j theta)``, j = 1 ... J.

    Args:
        distance: t [B, M, N]. Beyond the reach it is taken as the reach.
        parity: 0 for cosines, 1 for sines.
        resolution: a `Resolution`.
        level: index of one of its series.

    Returns:
        [B, M, J, N].
    """
    theta = tf.minimum(distance * (math.pi / resolution.reaches[level]), math.pi)
    multiples = np.arange(resolution.terms[level])[:, None] + parity
    angles = theta[:, :, None] * tf.constant(multiples, distance.dtype)
    return tf.sin(angles) if parity else tf.cos(angles)


def polar(x, y, highest):
    """Polar coordinates of the plane and the harmonics of the angle, as constants.

    Args:
        x, y: coordinates [B, M, N].
        highest: the highest order.

    Returns:
        ``sqrt(x^2 + y^2)`` [B, M, N], and a dict from each order n from 1 to ``highest`` to
        ``cos(n phi)`` and ``sin(n phi)`` [B, M, N], both 0 at the origin.
    """
    squared = tf.square(x) + tf.square(y)
    apart = squared > 0.0
    inverse = tf.where(apart, tf.math.rsqrt(tf.where(apart, squared, 1.0)), 0.0)
    # One Newton step corrects rsqrt, which is off by some units of rounding in float32.
    inverse *= 1.5 - 0.5 * squared * tf.square(inverse)
    first = x * inverse, y * inverse
    powers = {1: first}
    for order in range(2, highest + 1):
        c, s = powers[order - 1]
        powers[order] = c * first[0] - s * first[1], c * first[1] + s * first[0]
    return squared * inverse, powers
