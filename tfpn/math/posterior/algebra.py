"""Gaussian process posteriors at finitely many points (eq. posterior), with exact gradients.

Observation noise is given as a variance, +inf where nothing was observed. The algebra uses the
precision p = 1 / variance (0 where unobserved), so that no infinity enters it:

    D = diag(sqrt(p))    B = I + D K D = L L^T    F = L^-1 D    (K + S)^-1 = F^T F

B has eigenvalues >= 1. Gradients are written by hand. They need no factorisation of their own, only
products of the known matrices. A second differentiation raises an error.
"""

import math

import tensorflow as tf

from tfpn.math.shapes import reshape, sizes
from tfpn.types import Tensor

# Least noise variance relative to the signal variance, for up to so many points. If points are
# close, D K D has a rounding error of about N eps / floor. It has to stay well below the least
# eigenvalue 1 of B, so the floor grows with the number of points beyond. In float64 it stays a
# thousand times N eps, so that the variance left by N readings of one place has digits.
_RELATIVE_FLOOR = {tf.float32: 3e-5, tf.float64: 1e-12}
_FLOOR_POINTS = {tf.float32: 75.0, tf.float64: 5.0}


def floored_variance(variance: Tensor, signal_std: Tensor) -> Tensor:
    """Raises noise variances to the least one that the dtype can resolve.

    Args:
        variance: [..., N], >= 0, +inf where unobserved.
        signal_std: scalar or [..., 1].

    Returns:
        ``max(variance, floor)``, where the floor is the `least_variance` for the number of observed
        points.
    """
    count = tf.reduce_sum(tf.cast(_observed(variance), variance.dtype), axis=-1, keepdims=True)
    return tf.maximum(variance, least_variance(signal_std, count))


def least_variance(signal_std: Tensor, count: Tensor = 1.0) -> Tensor:
    """The least noise variance that the dtype can resolve among ``count`` observed points.

    Relative to signal_std^2 it is the larger of 1e-12 and 2e-13 times their number (float64), or of
    3e-5 and 4e-7 times their number (float32).
    """
    dtype = signal_std.dtype
    growth = tf.maximum(count / tf.constant(_FLOOR_POINTS[dtype], dtype), 1.0)
    return _RELATIVE_FLOOR[dtype] * growth * tf.square(signal_std)


def _observed(variance):
    return tf.math.is_finite(variance)


def whiten(covariance: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """Factorises ``K + S`` once, for all functions below.

    Args:
        covariance: K, prior covariance matrix at the observed points, [..., N, N].
        variance: S's diagonal, [..., N], positive (see `floored_variance`), +inf = unobserved.

    Returns:
        The whitener F [..., N, N] with ``F^T F = (K + S)^-1``, whose columns at unobserved points
        are 0; and ``log det(K + S)`` over the observed points, [...]. Both are opaque to automatic
        differentiation. The functions that take them know their derivatives. Differentiating
        through them in another way raises a LookupError.

    Example:

    >>> import tensorflow as tf, tfpn
    >>> f, log_det = tfpn.math.whiten(tf.constant([[[3.0]]]), tf.constant([[1.0]]))
    >>> float(f[0, 0, 0] ** 2), round(float(log_det[0]), 4)  # 1 / (3 + 1), log(3 + 1)
    (0.25, 1.3863)
    """
    whitener, log_det = attempted_whitening(covariance, variance)
    # A failed factorisation gives NaN on a CPU, without an error.
    log_det = tf.debugging.check_numerics(
        log_det,
        "the covariance of the observations could not be factorised: their variance is too small "
        "for this dtype, or a length scale or signal is not finite",
    )
    with tf.control_dependencies([log_det]):
        return tf.identity(whitener), log_det


def attempted_whitening(covariance: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """`whiten`, but both results hold NaN if the factorisation fails."""
    observed = _observed(variance)
    root = tf.where(observed, tf.math.rsqrt(variance), 0.0)
    scale = tf.expand_dims(root, -2)
    scaled = covariance * tf.expand_dims(root, -1) * scale
    identity = tf.eye(covariance.shape[-1] or tf.shape(covariance)[-1], dtype=covariance.dtype)
    factor = tf.linalg.cholesky(scaled + identity)
    identity = tf.zeros_like(covariance) + identity
    inverse = tf.linalg.triangular_solve(factor, identity)
    log_det = 2.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)), axis=-1)
    log_det += tf.reduce_sum(tf.where(observed, tf.math.log(variance), 0.0), axis=-1)
    message = "second derivatives of Gaussian process posteriors are not implemented"
    return tuple(
        tf.raw_ops.PreventGradient(input=result, message=message)
        for result in (inverse * scale, log_det)
    )


def _symmetric(matrix):
    return 0.5 * (matrix + tf.linalg.matrix_transpose(matrix))


@tf.custom_gradient
def condition(
    cross: Tensor, covariance: Tensor, variance: Tensor, values: Tensor, whitener: Tensor
) -> tuple[Tensor, Tensor]:
    """Posterior of K linear functionals at each of M points, given N noisy observations.

    k_i(x_m, X) are the prior covariances between the functionals and the function at the observed
    points. The results are the posterior means, and the part of the prior covariances that the
    observations explain (the second terms of eq. posterior):

        mean[m, i, :]       = k_i(x_m, X) (K + S)^-1 y
        explained[m, i, j]  = k_i(x_m, X) (K + S)^-1 k_j(x_m, X)^T

    Args:
        cross: k_i(x_m, x_n), [..., M, K, N].
        covariance, variance: K [..., N, N] and S's diagonal [..., N], as in `whiten`.
        values: y [..., N, c]; finite, read only where observed.
        whitener: F of `whiten(covariance, variance)`.

    Returns:
        mean [..., M, K, c] and explained [..., M, K, K].

    Example:

    >>> import tensorflow as tf, tfpn
    >>> k, noise, y = tf.constant([[[3.0]]]), tf.constant([[1.0]]), tf.constant([[[2.0]]])
    >>> f, _ = tfpn.math.whiten(k, noise)
    >>> mean, explained = tfpn.math.condition(k[:, None], k, noise, y, f)
    >>> mean.numpy().item(), explained.numpy().item()  # 3 * 2 / 4, 3 * 3 / 4
    (1.5, 2.25)
    """
    shape = sizes(cross)
    flat_shape = [*shape[:-3], shape[-3:-1], shape[-1]]
    flat = reshape(cross, flat_shape)
    white_flat = tf.matmul(flat, whitener, transpose_b=True)
    white_values = tf.matmul(whitener, values)
    flat_mean = tf.matmul(white_flat, white_values)
    white = reshape(white_flat, shape)
    mean = reshape(flat_mean, [*shape[:-1], sizes(values)[-1]])
    explained = tf.matmul(white, white, transpose_b=True)

    def gradient(d_mean, d_explained):
        d_mean = reshape(d_mean, [*flat_shape[:-1], sizes(values)[-1]])
        d_white = tf.matmul(d_mean, white_values, transpose_b=True)
        d_white_values = tf.matmul(white_flat, d_mean, transpose_a=True)
        # This frees d_mean, the largest tensor of a network's step, before others are made.
        with tf.control_dependencies([d_white, d_white_values]):
            symmetric = d_explained + tf.linalg.matrix_transpose(d_explained)
        d_white += reshape(tf.matmul(symmetric, white), flat_shape)
        d_cross = reshape(tf.matmul(d_white, whitener), shape)
        d_values = tf.matmul(whitener, d_white_values, transpose_a=True)
        # d(K + S) = -A^-1 G A^-1, with G the gradient for A^-1; both sides use the whitener.
        inner = tf.matmul(white_flat, d_white, transpose_a=True)
        inner += tf.matmul(d_white_values, white_values, transpose_b=True)
        outer = tf.matmul(whitener, tf.matmul(inner, whitener), transpose_a=True)
        d_covariance = -0.5 * _symmetric(outer)
        return d_cross, d_covariance, _noise_gradient(d_covariance, variance), d_values, None

    return (mean, explained), gradient


@tf.custom_gradient
def posterior_mean(
    cross: Tensor, covariance: Tensor, variance: Tensor, values: Tensor, whitener: Tensor
) -> Tensor:
    """Only the mean of `condition`, ``cross (K + S)^-1 y``.

    Args:
        cross: [..., M, N].
        covariance, variance, values, whitener: as in `condition`.

    Returns:
        [..., M, c].

    Example:

    >>> import tensorflow as tf, tfpn
    >>> k, noise, y = tf.constant([[[3.0]]]), tf.constant([[1.0]]), tf.constant([[[2.0]]])
    >>> tfpn.math.posterior_mean(k, k, noise, y, tfpn.math.whiten(k, noise)[0]).numpy().item()
    1.5
    """
    white_values = tf.matmul(whitener, values)
    weights = tf.matmul(whitener, white_values, transpose_a=True)  # (K + S)^-1 y
    mean = tf.matmul(cross, weights)

    def gradient(d_mean):
        d_cross = tf.matmul(d_mean, weights, transpose_b=True)
        d_weights = tf.matmul(cross, d_mean, transpose_a=True)
        d_values = tf.matmul(whitener, tf.matmul(whitener, d_weights), transpose_a=True)
        d_covariance = -_symmetric(tf.matmul(d_values, weights, transpose_b=True))
        return d_cross, d_covariance, _noise_gradient(d_covariance, variance), d_values, None

    return mean, gradient


@tf.custom_gradient
def solve(covariance: Tensor, variance: Tensor, values: Tensor, whitener: Tensor) -> Tensor:
    """Solves for ``(K + S)^-1 values``.

    Args:
        covariance, variance, values, whitener: as in `condition`.

    Returns:
        [..., N, c], 0 at unobserved points.

    Example:

    >>> import tensorflow as tf, tfpn
    >>> k, noise, y = tf.constant([[[3.0]]]), tf.constant([[1.0]]), tf.constant([[[2.0]]])
    >>> tfpn.math.solve(k, noise, y, tfpn.math.whiten(k, noise)[0]).numpy().item()
    0.5
    """
    weights = tf.matmul(whitener, tf.matmul(whitener, values), transpose_a=True)

    def gradient(upstream):
        d_values = tf.matmul(whitener, tf.matmul(whitener, upstream), transpose_a=True)
        d_covariance = -_symmetric(tf.matmul(d_values, weights, transpose_b=True))
        return d_covariance, _noise_gradient(d_covariance, variance), d_values, None

    return weights, gradient


@tf.custom_gradient
def negative_log_marginal_likelihood(
    covariance: Tensor, variance: Tensor, values: Tensor, whitener: Tensor, log_det: Tensor
) -> Tensor:
    """Negative log marginal likelihood of each column of ``values`` (the paper's L_GP).

    It is ``1/2 [y^T (K + S)^-1 y + log det(K + S) + n log 2 pi]``, where determinant and n count
    only the observed points. Without any observation it is 0.

    Args:
        covariance, variance, values: as in `condition`; only the gradient reads them.
        whitener, log_det: the results of `whiten(covariance, variance)`.

    Returns:
        [..., c].

    Example:

    >>> import tensorflow as tf, tfpn
    >>> k, noise, y = tf.constant([[[3.0]]]), tf.constant([[1.0]]), tf.constant([[[2.0]]])
    >>> nll = tfpn.math.negative_log_marginal_likelihood(k, noise, y, *tfpn.math.whiten(k, noise))
    >>> round(nll.numpy().item(), 4)  # (2^2 / 4 + log 4 + log 2 pi) / 2
    2.1121
    """
    white_values = tf.matmul(whitener, values)
    count = tf.reduce_sum(tf.cast(_observed(variance), values.dtype), axis=-1)
    constant = log_det + count * math.log(2.0 * math.pi)
    result = 0.5 * (tf.reduce_sum(tf.square(white_values), axis=-2) + tf.expand_dims(constant, -1))

    def gradient(upstream):
        weights = tf.matmul(whitener, white_values, transpose_a=True)
        weighted = weights * tf.expand_dims(upstream, -2)
        inverse = tf.matmul(whitener, whitener, transpose_a=True)
        total = tf.reduce_sum(upstream, axis=-1)[..., None, None]
        d_covariance = 0.5 * (total * inverse - tf.matmul(weighted, weights, transpose_b=True))
        return d_covariance, _noise_gradient(d_covariance, variance), weighted, None, None

    return result, gradient


@tf.custom_gradient
def negative_log_conditional_likelihood(
    covariance: Tensor, variance: Tensor, values: Tensor, whitener: Tensor, stage: Tensor
) -> Tensor:
    """Negative log likelihood of each column at some points, given it at the points before.

    L is triangular, so the rows of F whiten what their points add to all points before them:

        1/2 [|F_1 y|^2 - 2 sum log F_ii + n_1 log 2 pi]    over the n_1 observed points of stage 1

    Args:
        covariance, variance, values, whitener: as in `condition`.
        stage: [..., N], not decreasing along the points: 0 at given points, 1 at points whose
            likelihood it is, and 2 at points that do not count.

    Returns:
        [..., c].

    Example: y_2 given y_1 is normal with mean y_1 / 2 and variance 2 - 1 / 2.

    >>> import tensorflow as tf, tfpn
    >>> from tfpn.math.posterior import negative_log_conditional_likelihood
    >>> k, noise = tf.constant([[[1.0, 1.0], [1.0, 1.0]]]), tf.ones([1, 2])
    >>> y, f = tf.constant([[[2.0], [1.0]]]), tfpn.math.whiten(k, noise)[0]
    >>> nll = negative_log_conditional_likelihood(k, noise, y, f, tf.constant([[0.0, 1.0]]))
    >>> round(nll.numpy().item(), 4)  # log(2 pi 3 / 2) / 2
    1.1217
    """
    given, own = (
        tf.expand_dims(tf.cast(stage == number, values.dtype), -1) for number in (0.0, 1.0)
    )
    white_values = tf.matmul(whitener, values)
    counted = tf.where(_observed(variance), own[..., 0], 0.0)
    # The whitener is 0 for an example that counts as unobserved.
    diagonal = tf.linalg.diag_part(whitener)
    logs = tf.where(diagonal > 0.0, tf.math.log(tf.where(diagonal > 0.0, diagonal, 1.0)), 0.0)
    constant = tf.reduce_sum(counted * (math.log(2.0 * math.pi) - 2.0 * logs), axis=-1)
    squares = tf.reduce_sum(own * tf.square(white_values), axis=-2)
    result = 0.5 * (squares + tf.expand_dims(constant, -1))

    def gradient(upstream):
        before = tf.matmul(whitener, given * white_values, transpose_a=True)
        added = tf.matmul(whitener, own * white_values, transpose_a=True)
        after = before + added
        scale = tf.expand_dims(upstream, -2)
        inverse = tf.matmul(whitener, own * whitener, transpose_a=True)
        d_covariance = tf.reduce_sum(upstream, axis=-1)[..., None, None] * inverse
        d_covariance -= tf.matmul(scale * after, after, transpose_b=True)
        d_covariance += tf.matmul(scale * before, before, transpose_b=True)
        d_covariance *= 0.5
        d_noise = _noise_gradient(d_covariance, variance)
        return d_covariance, d_noise, scale * added, None, None

    return result, gradient


def _noise_gradient(d_covariance, variance):
    return tf.where(_observed(variance), tf.linalg.diag_part(d_covariance), 0.0)
