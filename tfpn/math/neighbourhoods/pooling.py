"""Integrals block by block: each block's posterior over the block's cell, a part of the region.

Cells fill the region without overlap, so that the integral is the sum of the cells'. Its variance
is the sum over the cells of the covariance of the cell's integral with the whole one; what lies far
beyond a block's halo hardly covaries with the cell, given the halo.
"""

import math

import tensorflow as tf

from tfpn.math.kernels.box import kernel_integral, normal_interval
from tfpn.math.shapes import axis_sizes, reshape

# Beyond so many length scales from all points a posterior mean is 0 to rounding.
_FAR = 12.0


def cells(blocks, observed, region):
    """The part of the region in each block's cell.

    Args:
        blocks: `tfpn.math.neighbourhoods.Blocks` of ``observed``.
        region: dict of a ``box``, or empty for R^d.

    Returns:
        Corners [B n, d] each, finite and in their order.
    """
    points, kernel = tf.stop_gradient(observed.finite_points()), observed.kernel
    if region:
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


def cell_integrals(kernel, points, low, high):
    """The kernel's integrals over cells, ``(P k)(x_n)``.

    Args:
        kernel: with scalar parameters.
        points: [B, m, d].
        low, high: corners of each example's cell, [B, d].

    Returns:
        [B, m].
    """
    dim, found = points.shape[-1], 0.0
    low, high = low[:, None], high[:, None]
    for std, length in kernel.terms():
        parts = normal_interval((low - points) / length, (high - low) / length)
        found += kernel_integral(std, length, dim) * tf.reduce_prod(parts, axis=-1)
    return found


def double_integrals(kernel, low, high, box):
    """The kernel's integrals over cells in one argument and a box in the other, [B].

    Along an axis, with ``H'' = exp(-u^2 / 2)``, it is
    ``l^2 [H((b - c) / l) + H((a - d) / l) - H((a - c) / l) - H((b - d) / l)]`` for a cell from a to
    b and a box from c to d.

    Args:
        kernel: with scalar parameters.
        low, high: of the cells, [B, d].
        box: corners, scalars or [d].
    """
    found = 0.0
    for std, length in kernel.terms():
        a, b, c, d = (side / length for side in (low, high, *box))
        parts = _second(b - c) + _second(a - d) - _second(a - c) - _second(b - d)
        found += tf.square(std) * tf.reduce_prod(tf.square(length) * parts, axis=-1)
    return found


def _second(u):
    """An even function whose second derivative is ``exp(-u^2 / 2)``, less a constant."""
    return math.sqrt(0.5 * math.pi) * u * tf.math.erf(u * math.sqrt(0.5)) + tf.math.expm1(
        -0.5 * tf.square(u)
    )
