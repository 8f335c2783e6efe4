"""Moments E[relu(f1) ... relu(fn)] of jointly Gaussian variables, n up to 4, by quadrature.

The quadrature integrates over one variable after the other until two are left. These have a closed
form up to `rectified_covariance`. Given f1 = mu1 + s1 z the others are Gaussian, with means linear
in z and a constant covariance:

    E[relu(f1) ... relu(fn)] = int_{-mu1/s1}^inf (mu1 + s1 z) phi(z) E[relu(f2) ... | z] dz.

The integrand is analytic, but it turns sharply if the covariance is nearly singular. It does so
where the mean of a remaining variable with hardly any variance passes 0. It also does so for two
variables that nearly determine each other, where their standardised means are equal or opposite.
The places and widths of these turns are known beforehand. The range is cut there and at even
distances, and each piece has its own Gauss-Legendre nodes.
"""

import numpy as np
import tensorflow as tf

from tfpn.checks import floating
from tfpn.math.activations.rectified import rectified_moments
from tfpn.math.activations.rectified_covariance import rectified_covariance
from tfpn.math.activations.rectified_raw_moments import HIGHEST_ORDER
from tfpn.types import Tensor

_EVEN_PIECES = 6
_HALF_WIDTH = 5.0  # half of a turn's width, in its own standard deviations
_FAR = 1e3  # outside of any range


class _BoxRule:
    """Nodes and weights on [0, 1] for each piece, and the range's bounds."""

    def __init__(self, count, reach, largest):
        nodes, weights = np.polynomial.legendre.leggauss(count)
        self.nodes, self.weights = 0.5 * (nodes + 1.0), 0.5 * weights
        self.reach = reach  # the density vanishes beyond so many standard deviations
        self.largest = largest  # phi is 0 there


_RULES = {
    tf.float32: _BoxRule(count=6, reach=6.0, largest=13.0),
    tf.float64: _BoxRule(count=12, reach=8.5, largest=38.0),
}


def rectified_product_moment(mean: Tensor, covariance: Tensor) -> Tensor:
    """``E[relu(f1) ... relu(fn)]`` for ``f ~ N(mean, covariance)``, n from 1 to 4.

    These are the higher moments of a rectified Gaussian process (the paper's appendix on its
    covariance). A deterministic quadrature computes them for any covariance, including singular
    ones, equal variables and variances of 0. In units of ``prod_i sqrt(mean_i^2 + variance_i)`` the
    error was below 1e-11 in float64 and 2e-6 in float32, for random covariances of any rank and
    nearly any rank. The error of derivatives with respect to standardised means was below 1e-9 and
    1e-5. In the tail the error is far smaller, like the moment itself. How many digits are left
    there depends on the correlations; with strongly negative ones it may be none. A derivative with
    respect to a variance of 0 is taken as 0.

    The cost for each entry is one evaluation of `rectified_moments` for n = 1, one of
    `rectified_covariance` for n = 2, 216 (float64) or 108 (float32) of them for n = 3, and 85536 or
    21384 for n = 4. Their intermediate results take up to 30 MB or 5 MB for each entry for n = 4,
    and less than 0.1 MB for n = 3. So pass only a few moments of order 4 at a time.

    Args:
        mean: tensor [..., n] of float32 or float64, n from 1 to 4.
        covariance: tensor [..., n, n] of the same dtype, symmetric positive semidefinite. The
            leading axes broadcast with those of ``mean``. Only the symmetric part counts.

    Returns:
        A tensor [...].

    Raises:
        TypeError: for another dtype.
        ValueError: if n is unknown, not from 1 to 4, or not the same in both arguments.

    Example:

    >>> import tensorflow as tf
    >>> import tfpn
    >>> mean, covariance = tf.zeros(3), tf.eye(3)
    >>> moment = tfpn.math.rectified_product_moment(mean, covariance)
    >>> round(float(moment), 5)  # (2 pi)^(-3/2)
    0.06349
    """
    mean = floating(mean, "mean")
    covariance = tf.convert_to_tensor(covariance, mean.dtype)
    n = mean.shape[-1] if mean.shape.rank else None
    if n not in range(1, HIGHEST_ORDER + 1):
        raise ValueError(
            f"mean has shape {mean.shape}; its last axis is the number of factors, from 1 to "
            f"{HIGHEST_ORDER}, and must be known when the function is traced."
        )
    if covariance.shape.rank is None or covariance.shape[-2:] != (n, n):
        raise ValueError(
            f"covariance has shape {covariance.shape}; expected [..., {n}, {n}] for a mean of "
            f"shape {mean.shape}."
        )
    covariance = 0.5 * (covariance + tf.linalg.matrix_transpose(covariance))
    # The variance that a variable leaves to the others is a difference. float32 could not tell two
    # singular covariances apart there. The bulk of the work has the dtype of the arguments.
    dtype = mean.dtype
    means = tf.unstack(tf.cast(mean, tf.float64), axis=-1)
    rows = tf.unstack(tf.cast(covariance, tf.float64), axis=-2)
    return tf.cast(_moment(means, [tf.unstack(row, axis=-1) for row in rows], dtype), dtype)


def _moment(means, covariances, dtype):
    """The moment from a list of means and lists of covariances, tensors that broadcast."""
    if len(means) <= 2:
        means, covariances = tf.nest.map_structure(
            lambda x: tf.cast(x, dtype), (means, covariances)
        )
    if len(means) == 1:
        return _rectified_mean(means[0], covariances[0][0])
    if len(means) == 2:
        (variance1, covariance), (_, variance2) = covariances
        product = _rectified_mean(means[0], variance1) * _rectified_mean(means[1], variance2)
        found = product + rectified_covariance(means[0], means[1], variance1, variance2, covariance)
        return tf.nn.relu(found)  # only rounding makes it negative
    return _integral(means, covariances, dtype)


def _rectified_mean(mean, variance):
    shape = tf.broadcast_dynamic_shape(tf.shape(mean), tf.shape(variance))
    return rectified_moments(tf.broadcast_to(mean, shape), tf.broadcast_to(variance, shape))[0]


def _integral(means, covariances, dtype):
    others = range(1, len(means))
    sigma = _root(covariances[0][0])
    slopes = [0.0] + [_divide(covariances[0][i], sigma) for i in others]
    left = [[covariances[i][j] - slopes[i] * slopes[j] for j in others] for i in others]
    for i in range(len(left)):
        left[i][i] = tf.nn.relu(left[i][i])
    nodes, weights = _nodes(means, covariances, sigma, slopes, left, _RULES[dtype])
    conditional = _moment(
        [means[i][..., None] + slopes[i][..., None] * nodes for i in others],
        [[x[..., None] for x in row] for row in left],
        dtype,
    )
    values = means[0][..., None] + sigma[..., None] * nodes
    return tf.reduce_sum(weights * values * tf.cast(conditional, tf.float64), axis=-1)


def _nodes(means, covariances, sigma, slopes, left, rule):
    """Nodes and weights [..., K] of the integral over z; the weights include phi(z).

    The integral does not depend on the cuts of its range, and the integrand vanishes at the lower
    end. So nothing here needs a gradient.
    """
    means, covariances, sigma, slopes, left = tf.nest.map_structure(
        tf.stop_gradient, (means, covariances, sigma, slopes[1:], left)
    )
    # Each variable is positive from here on, in its own standard deviations. With a correlation of
    # 1 the same holds for z.
    starts = [
        _divide(-mean, _root(row[n]), _FAR)
        for n, (mean, row) in enumerate(zip(means, covariances, strict=True))
    ]
    highest = tf.nn.relu(tf.reduce_max(_stack(starts), axis=-1))
    low = tf.maximum(starts[0], -highest - rule.reach)
    low = tf.clip_by_value(low, -rule.largest, rule.largest)
    high = tf.clip_by_value(highest + rule.reach, low, rule.largest)

    cuts = [low + (high - low) * (n / _EVEN_PIECES) for n in range(_EVEN_PIECES + 1)]
    deviations = [_root(left[n][n]) for n in range(len(left))]

    def turn(offset, slope, width):
        """Cuts at the zero of offset + slope z and beside it, so far that the width is passed."""
        middle = _divide(-offset, slope, _FAR)
        distance = _HALF_WIDTH * _divide(width, tf.abs(slope), _FAR)
        cuts.extend([middle - distance, middle, middle + distance])

    for n in range(len(left)):
        turn(means[n + 1], slopes[n], deviations[n])
        for m in range(n):
            both = deviations[n] * deviations[m]
            for sign in (1.0, -1.0):
                # The difference or sum of the standardised means, times both deviations.
                offset = means[n + 1] * deviations[m] - sign * means[m + 1] * deviations[n]
                slope = slopes[n] * deviations[m] - sign * slopes[m] * deviations[n]
                gap = tf.nn.relu(both - sign * left[n][m])  # times 1 - rho, 1 + rho
                turn(offset, slope, tf.sqrt(2.0 * gap * both))
    edges = tf.clip_by_value(_stack(cuts), low[..., None], high[..., None])
    edges = tf.sort(edges, axis=-1)
    start, width = edges[..., :-1, None], (edges[..., 1:] - edges[..., :-1])[..., None]
    nodes = start + width * rule.nodes
    weights = width * rule.weights * tf.exp(-0.5 * tf.square(nodes)) / np.sqrt(2.0 * np.pi)
    flat = tf.concat([tf.shape(edges)[:-1], [-1]], axis=0)
    return tf.reshape(nodes, flat), tf.reshape(weights, flat)


def _stack(tensors):
    """Stacks tensors along a new last axis, after broadcasting."""
    shape = tf.shape(tensors[0])
    for tensor in tensors[1:]:
        shape = tf.broadcast_dynamic_shape(shape, tf.shape(tensor))
    return tf.stack([tf.broadcast_to(tensor, shape) for tensor in tensors], axis=-1)


def _root(variance):
    """The square root; at 0 it is 0 with a gradient of 0."""
    present = variance >= np.finfo(variance.dtype.as_numpy_dtype).tiny
    root = tf.sqrt(tf.where(present, variance, tf.ones_like(variance)))
    return tf.where(present, root, tf.zeros_like(root))


def _divide(x, y, limit=0.0):
    """x / y, clipped to +-limit. A limit of 0 means no clipping, and 0 for y = 0."""
    small = tf.abs(y) < np.finfo(x.dtype.as_numpy_dtype).tiny
    found = tf.where(small, limit * tf.sign(x), x / tf.where(small, tf.ones_like(y), y))
    return tf.clip_by_value(found, -limit, limit) if limit else found
