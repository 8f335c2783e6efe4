"""Integrals block by block: each block's posterior over its cell, a part of the region.

Cells fill the region without overlap, so the integral is the sum over the cells. Its variance is
the sum of the covariances of each cell's integral with the whole integral. Given the halo, points
far beyond it hardly covary with the cell. The prior's share of the sum is the prior variance of the
whole integral.
"""

import math

import numpy as np
import tensorflow as tf

from tfpn.math.kernels.box import kernel_integral, normal_interval
from tfpn.math.shapes import axis_sizes, reshape

# Beyond so many length scales from all points, a posterior mean is 0 to rounding.
_FAR = 8.5
# Number of nodes over a disc, between corners: the error is 1e-6 of the integral over 25 length
# scales. Kernels with shorter ones get more nodes, up to the second number.
_NODES, _MOST_NODES = 32, 96


def cells(blocks, observed, region):
    """The part of the region in each block's cell.

    Args:
        blocks: `tfpn.math.neighbourhoods.Blocks` of ``observed``.
        region: dict of a ``box`` or a ``disc``, or empty for R^d. A disc has the cells of R^d.

    Returns:
        Lower and upper corners, each [B n, d], finite and ordered.
    """
    points, kernel = tf.stop_gradient(observed.finite_points()), observed.kernel
    if "box" in region:
        lowest, highest = (tf.stop_gradient(side) for side in region["box"])
    else:
        far = _FAR * max(kernel.mixture.scales) * tf.stop_gradient(kernel.length_scale)
        lowest = tf.reduce_min(points, axis=1)[:, None] - far
        highest = tf.reduce_max(points, axis=1)[:, None] + far
    corners = (
        tf.minimum(tf.maximum(corner, lowest), highest)
        for corner in (blocks.cuts.low, blocks.cuts.high)
    )
    batch, count, dim = axis_sizes(blocks.cuts.low)
    return tuple(reshape(corner, [batch * count, dim]) for corner in corners)


def integrals_over(region, kernel, points, low, high):
    """The kernel's integrals over the region's parts in cells, ``(P k)(x_n)``.

    Args:
        region: as in `cells`.
        kernel: a kernel with scalar parameters.
        points: [B, m, d].
        low, high: corners of each example's cell, [B, d].

    Returns:
        [B, m].
    """
    if "disc" in region:
        return disc_cell_integrals(kernel, points, low, high, region["disc"])
    return cell_integrals(kernel, points, low, high)


def cell_integrals(kernel, points, low, high):
    """`integrals_over` for whole cells."""
    dim, found = points.shape[-1], 0.0
    low, high = low[:, None], high[:, None]
    for std, length in kernel.terms():
        parts = normal_interval((low - points) / length, (high - low) / length)
        found += kernel_integral(std, length, dim) * tf.reduce_prod(parts, axis=-1)
    return found


def disc_cell_integrals(kernel, points, low, high, disc):
    """`integrals_over` for the intersections of cells with a disc of the plane.

    With ``x = r sin t`` the disc's chords within a cell are smooth in t between the corners of the
    intersection. So Gauss-Legendre quadrature integrates over t, and the normal distribution
    function along each chord.

    Args:
        kernel, points, low, high: as in `integrals_over`, in the plane.
        disc: centre [2] and radius.

    Returns:
        [B, m].
    """
    centre, radius = (tf.stop_gradient(t) for t in disc)
    low, high = ((corner - centre) / radius for corner in (low, high))
    # From here on the chords end at a side of the cell instead of the circle.
    ends = [tf.sqrt(tf.nn.relu(1.0 - tf.square(corner[:, 1]))) for corner in (low, high)]
    breaks = tf.stack([low[:, 0], high[:, 0], *ends, *(-end for end in ends)], axis=1)
    first, last = (tf.clip_by_value(corner[:, :1], -1.0, 1.0) for corner in (low, high))
    breaks = tf.sort(tf.maximum(tf.minimum(breaks, last), first), axis=1)
    breaks = tf.asin(breaks)
    count = min(math.ceil(_NODES / min(1.0, *kernel.mixture.scales)), _MOST_NODES)
    nodes, weights = (tf.constant(t, points.dtype) for t in np.polynomial.legendre.leggauss(count))
    start, half = breaks[:, :-1, None], 0.5 * (breaks[:, 1:] - breaks[:, :-1])[..., None]
    angle = start + half * (1.0 + nodes)  # [B, 5, nodes]
    weight = half * weights * tf.cos(angle) * radius
    angle, weight = (tf.reshape(t, [-1, 1, 5 * count]) for t in (angle, weight))
    bottom, top = (
        tf.maximum(tf.minimum(corner[:, None, 1:], tf.cos(angle)), -tf.cos(angle))
        for corner in (low, high)
    )
    relative = points - centre
    across = radius * tf.sin(angle) - relative[..., :1]
    below = radius * bottom - relative[..., 1:]
    chord = tf.nn.relu(top - bottom) * radius
    found = 0.0
    for std, length in kernel.terms():
        along = normal_interval(below / length, chord / length) * length * math.sqrt(2.0 * math.pi)
        terms = weight * along * tf.exp(-0.5 * tf.square(across / length))
        found += tf.square(std) * tf.reduce_sum(terms, axis=-1)
    return found
