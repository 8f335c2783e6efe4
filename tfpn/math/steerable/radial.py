"""Functions of a distance as Fourier series, and the Bessel tables of their coefficients.

A field of order n under equivariant flows of the RBF kernel is a harmonic of the direction, such as
``exp(i n phi)``, times a function ``P(|x|)`` of the distance. This is a Hankel transform on the
plane and a spherical one in space (see `tfpn.math.steerable.plane` and `space`),

    P(R) = int_0^inf r J_|n|(r R) g(r) dr        P(R) = int_0^inf r^2 j_n(r R) g(r) dr

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
`tfpn.math.steerable.plane.kernels`).
"""

import dataclasses
import functools
import math

import numpy as np
import scipy.special
import tensorflow as tf

from tfpn.math.fusion import fused
from tfpn.math.shapes import reshape, sizes


@dataclasses.dataclass(frozen=True)
class Resolution:
    """Sizes of the tables for a dtype.

    Attributes:
        cutoff: U, the largest u.
        nodes: number of nodes u.
        terms: J, the numbers of terms of the series, increasing.
        margin: number of widths after which a diffused kernel has decayed.
        band: the largest multiple of the direction's angle for flows that prefer directions.
    """

    cutoff: float
    nodes: int
    terms: tuple
    margin: float
    band: int

    @property
    def reaches(self):
        """T of each series: the largest distance that it holds."""
        return tuple(math.pi * terms / self.cutoff for terms in self.terms)


# At the cutoff the Gaussian exp(-U^2 / 2) is 3e-9 and 6e-16; at the margin it is 3e-7 and 1e-14.
# The reaches are 12, 24 and 60, and 18, 36 and 72.
RESOLUTION = {
    tf.float32: Resolution(
        cutoff=2.0 * math.pi, nodes=224, terms=(24, 48, 120), margin=5.5, band=16
    ),
    tf.float64: Resolution(
        cutoff=8.0 * math.pi / 3.0, nodes=384, terms=(48, 96, 192), margin=8.0, band=32
    ),
}


@functools.cache
def quadrature(resolution, dim):
    """Nodes u and weights for ``int_0^U f(u) u^(dim - 1) du``, two float64 arrays [Q]."""
    nodes, weights = np.polynomial.legendre.leggauss(resolution.nodes)
    nodes = 0.5 * resolution.cutoff * (nodes + 1.0)
    return nodes, 0.5 * resolution.cutoff * weights * nodes ** (dim - 1)


@functools.cache
def series_matrix(order, resolution, level, dim):
    """Maps g at the nodes to the coefficients c of P, [J, Q].

    P is the integral over u from 0 to U of ``u J_order(u t) g(u)`` for ``dim`` = 2, and of
    ``u^2 j_order(u t) g(u)``, with the spherical Bessel function, for 3.
    """
    nodes, weights = quadrature(resolution, dim)
    bessel = {2: scipy.special.jv, 3: scipy.special.spherical_jn}[dim]
    terms, reach = resolution.terms[level], resolution.reaches[level]
    points = 4 * terms
    theta = np.linspace(0.0, np.pi, points + 1)
    values = bessel(order, np.outer(reach * theta / np.pi, nodes))
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


_STEP = 12  # It divides the terms of all series.


def powers(distance, resolution, level):
    """``exp(i k theta)`` for k from 0 to `_STEP`, and for its multiples below the series' terms.

    Products of powers take two transcendental functions for each pair of points, and not one for
    each term. TensorFlow computes those of float64 slowly.

    Args:
        distance: t [B, M, N]. Beyond the reach it is taken as the reach.
        resolution: a `Resolution`.
        level: index of one of its series.

    Returns:
        Real and imaginary parts of the first, then of the others, each [B, M, powers, N].
    """
    theta = tf.minimum(distance * (math.pi / resolution.reaches[level]), math.pi)
    one = tf.cos(theta), tf.sin(theta)
    first = [(tf.ones_like(theta), tf.zeros_like(theta)), one]
    for _ in range(_STEP - 1):
        first.append(_product(first[-1], one))
    multiples = first[:1]
    for _ in range(resolution.terms[level] // _STEP - 1):
        multiples.append(_product(multiples[-1], first[-1]))
    return [
        tf.stack(part, axis=2) for some in (first, multiples) for part in zip(*some, strict=True)
    ]


def _product(first, second):
    """The product of two complex numbers, as real and imaginary part."""
    (a, b), (c, d) = first, second
    return a * c - b * d, a * d + b * c


@fused
def cosines(real, imaginary, outer_real, outer_imaginary):
    """``cos(j theta)``, j = 0 ... J - 1, of `powers`: [B, M, J, N]."""
    real, imaginary = (part[:, :, None, :_STEP] for part in (real, imaginary))
    return _flat(outer_real[:, :, :, None] * real - outer_imaginary[:, :, :, None] * imaginary)


@fused
def sines(real, imaginary, outer_real, outer_imaginary):
    """``sin(j theta)``, j = 1 ... J, of `powers`: [B, M, J, N]."""
    real, imaginary = (part[:, :, None, 1:] for part in (real, imaginary))
    return _flat(outer_real[:, :, :, None] * imaginary + outer_imaginary[:, :, :, None] * real)


def _flat(products):
    """[B, M, a, b, N] -> [B, M, a b, N]."""
    batch, count, outer, inner, points = sizes(products)
    return reshape(products, [batch, count, [outer, inner], points])
