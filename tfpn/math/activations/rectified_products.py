"""Moments E[relu(f1) ... relu(fn)] of jointly Gaussian variables, n up to 4, by quadrature.

One variable after the other is integrated over until two are left, which have a closed form up to
`rectified_covariance`. Given f1 = mu1 + s1 z the others are Gaussian with means linear in z and a
constant covariance:

    E[relu(f1) ... relu(fn)] = int_{-mu1/s1}^inf (mu1 + s1 z) phi(z) E[relu(f2) ... | z] dz.

The integrand is analytic, but where the covariance is singular or nearly so it turns sharply: for a
remaining variable with hardly a variance of its own where its mean passes 0, and for two variables
that nearly determine each other where their standardised means are equal or opposite. Places and
widths of these turns are known beforehand. The range is cut there and at even distances, and each
piece has its own nodes of Gauss and Legendre.
"""

import numpy as np
import tensorflow as tf

from tfpn.checks import floating
from tfpn.math.activations.rectified import rectified_moments
from tfpn.math.activations.rectified_covariance import rectified_covariance
from tfpn.math.activations.rectified_raw_moments import HIGHEST_ORDER
from tfpn.types import Tensor

_EVEN_PIECES = 6
_HALF_WIDTH = 5.0  # of a turn, in its own standard deviations
_FAR = 1e3  # outside of any range


class _BoxRule:
    """Nodes and weights on [0, 1] for each piece, and the bounds of the range."""

    def __init__(self, count, reach, largest):
        nodes, weights = np.polynomial.legendre.leggauss(count)
        self.nodes, self.weights = 0.5 * (nodes + 1.0), 0.5 * weights
        self.reach = reach  # standard deviations beyond which nothing is left
        self.largest = largest  # phi is 0 there


_RULES = {
    tf.float32: _BoxRule(count=6, reach=6.0, largest=13.0),
    tf.float64: _BoxRule(count=12, reach=8.5, largest=38.0),
}


def rectified_product_moment(mean: Tensor, covariance: Tensor) -> Tensor:
    """``E[relu(f1) ... relu(fn)]`` for ``f ~ N(mean, covariance)``, n from 1 to 4.

    The higher moments of a rectified Gaussian process (the paper's appendix on its covariance), by
    a deterministic quadrature for any covariance: singular ones, equal variables and variances of 0
    included. In units of ``prod_i sqrt(mean_i^2 + variance_i)`` the error was below 1e-11 in
    float64 and 2e-6 in float32 for random covariances of any rank and nearly any rank; that of the
    derivatives with respect to standardised means below 1e-9 and 1e-5. In the tail it is far
    smaller, like the moment itself; how many digits are left there depends on the correlations, and
    with strongly negative ones it may be none. A derivative with respect to a variance of 0 is
    taken as 0.

    The cost for each entry is one evaluation of `rectified_moments` for n = 1, one of
    `rectified_covariance` for n = 2, 216 (float64) or 108 (float32) of them for n = 3, and 85536 or
    21384 for n = 4. Their intermediate results take up to 30 MB or 5 MB an entry for n = 4, and
    less than 0.1 MB for n = 3: pass few moments of order 4 at a time.

    Args:
        mean: tensor [..., n] of float32 or float64, n from 1 to 4.
        covariance: tensor [..., n, n] of the same dtype, symmetric positive semidefinite; the
            leading axes broadcast with those of ``mean``. Of an asymmetric one the symmetric part
            is taken.

    Returns:
        A tensor [...].

    Raises:
        TypeError: for another dtype.
        ValueError: if n is not known, not from 1 to 4, or not the same in both arguments.

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
    # What a variable leaves to the others is a difference, and float32 would not tell which of two
    # singular covariances it comes from. The bulk of the work has the dtype of the arguments.
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
        return tf.nn.relu(found)  # below 0 by rounding only
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
    """Nodes and weights [..., K] of the integral over z, the weights with phi(z).

    The integral does not depend on where its range is cut, and what is integrated vanishes at the
    lower end: there is nothing to differentiate here.
    """
    means, covariances, sigma, slopes, left = tf.nest.map_structure(
        tf.stop_gradient, (means, covariances, sigma, slopes[1:], left)
    )
    # Where each variable has to be to be positive, in its own standard deviations: with a
    # correlation of 1 z has to be there too.
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
        """Cuts around the zero of offset + slope z, where it passes within the given width."""
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
    """Along a new last axis, after broadcasting."""
    shape = tf.shape(tensors[0])
    for tensor in tensors[1:]:
        shape = tf.broadcast_dynamic_shape(shape, tf.shape(tensor))
    return tf.stack([tf.broadcast_to(tensor, shape) for tensor in tensors], axis=-1)


def _root(variance):
    """The square root; 0 with a gradient of 0 where there is no variance."""
    present = variance >= np.finfo(variance.dtype.as_numpy_dtype).tiny
    root = tf.sqrt(tf.where(present, variance, tf.ones_like(variance)))
    return tf.where(present, root, tf.zeros_like(root))


def _divide(x, y, limit=0.0):
    """x / y within +-limit, which is where it is infinite; limit 0: unlimited, and 0 there."""
    small = tf.abs(y) < np.finfo(x.dtype.as_numpy_dtype).tiny
    found = tf.where(small, limit * tf.sign(x), x / tf.where(small, tf.ones_like(y), y))
    return tf.clip_by_value(found, -limit, limit) if limit else found
