"""Coherent uncertainty in full: one covariance over all points and channels of an example.

The reference for small networks. A covariance is [B, N, c, N, c], 0 where unobserved.
"""

import tensorflow as tf

from tfpn.math.conditioning import prepare
from tfpn.math.convolution import _mix, _operators
from tfpn.math.kernels import operator_pair_kernels
from tfpn.math.low_rank import integrated_gp
from tfpn.math.missing import penalty
from tfpn.math.posterior import solve
from tfpn.math.rectified import rectified_moments
from tfpn.math.rectified_covariance import rectified_covariance


def convolve_joint(
    points,
    values,
    variance,
    covariance,
    query,
    *,
    weights,
    drift,
    diffusion,
    signal_std,
    length_scale,
    observation_noise=0.0,
    bias=None,
    marginal_likelihood_trains="all",
):
    """`convolve` with the joint covariance over points and channels.

    Without ``covariance`` the observations' errors are independent, with ``variance`` as theirs.
    With the covariance C of an earlier layer's values the function between the points is a GP
    conditioned on the values as if exact but for the observation noise R, and the values are
    uncertain by C (law of total covariance): with ``T = sum_k W_k (x) k_k(X, X) (K + R)^-1``

        C' = T C T^T + sum_ij W_i W_j^T (x) [k_ij - k_i (K + R)^-1 k_j^T]

    R is at least the floor of the variance in `convolve`. The marginal likelihood is that of
    independent errors of the given variance in both cases.

    Args:
        points, values, variance, query, weights, drift, diffusion, signal_std, length_scale,
            observation_noise, bias, marginal_likelihood_trains: as in `convolve`, with
            noise="shared".
        covariance: [B, N, c_in, N, c_in] or None.

    Returns:
        mean [B, M, c_out], covariance [B, M, c_out, M, c_out] and the negative log marginal
        likelihood [B, c_in].

    Example:

    >>> import numpy as np, tfpn
    >>> points = np.linspace(0, 1, 9)[None, :, None]
    >>> values = np.sin(2 * np.pi * points)
    >>> mean, covariance, nll = tfpn.math.convolve_joint(
    ...     points, values, np.full_like(values, 0.1), None, points,
    ...     weights=np.ones((1, 1, 2)), drift=np.array([[0.25]]), diffusion=np.zeros((1, 1, 1)),
    ...     signal_std=1.0, length_scale=0.3)
    >>> covariance.shape
    TensorShape([1, 9, 2, 9, 2])
    """
    prior = {"signal_std": signal_std, "length_scale": length_scale, "noise": "shared"}
    gp = noisy = prepare(points, values, variance, observation_noise=observation_noise, **prior)
    if covariance is not None:
        exact = penalty(tf.convert_to_tensor(variance, noisy.values.dtype))
        gp = prepare(points, values, exact, observation_noise=observation_noise, **prior)
    weights, operators = _operators(gp, query, weights, drift, diffusion)
    cross = operators.cross()
    mean = _mix(gp.posterior_mean(cross), weights, bias)
    weights_by_input = tf.einsum("iba,jbc->iajc", weights, weights)
    function = functional_covariance(gp, cross, query, drift=drift, diffusion=diffusion)
    result = tf.einsum("bminj,iajc->bmanc", function, weights_by_input)
    if covariance is not None:
        linear = values_map(gp, cross, weights)
        result += congruence(linear, covariance)
    return mean, result, noisy.negative_log_marginal_likelihood(marginal_likelihood_trains)


def values_map(gp, cross, weights):
    """The values' linear map ``sum_k W_k (x) k_k(x_m, X) (K + S)^-1``, [B, M, c_out, N, c_in]."""
    shape = tf.shape(cross)
    identity = tf.eye(shape[3], batch_shape=shape[:1], dtype=cross.dtype)
    inverse = solve(*gp._matrices(gp.points, gp.given_variance), identity, gp.whitener)
    linear = tf.einsum("bmkn,bnp->bmkp", cross, inverse)
    return tf.einsum("bmkn,kca->bmanc", linear, weights)


def congruence(linear, covariance):
    """``T C T^T``: [B, M, a, N, c] and [B, N, c, N, c] -> [B, M, a, M, a]."""
    half = tf.einsum("bmanc,bncpd->bmapd", linear, covariance)
    return tf.einsum("bmapd,bqepd->bmaqe", half, linear)


def functional_covariance(gp, cross, query, *, drift, diffusion):
    """Posterior covariance of all functionals ``(e^{D_i} f)(x_m)``.

    Returns [B, M, K, M, K].

    Args:
        gp: `Conditioning` with shared noise.
        cross: k_i(x_m, x_n) with its observed points, [B, M, K, N].
        query: [B, M, d].
        drift, diffusion: [K, d], [K, d, d].
    """
    query, drift, diffusion = (
        tf.convert_to_tensor(t, cross.dtype) for t in (query, drift, diffusion)
    )
    shape = tf.shape(cross)
    prior = operator_pair_kernels(
        query,
        query,
        signal_std=gp.signal_std,
        length_scale=gp.length_scale,
        drift=drift,
        diffusion=diffusion,
    )
    # A custom gradient knows the explained part for all pairs: one point with M K functionals.
    flat = tf.reshape(cross, [shape[0], 1, shape[1] * shape[2], shape[3]])
    _, explained = gp.posterior(flat)
    prior = tf.einsum("bmijn->bminj", prior)
    return prior - tf.reshape(explained, tf.shape(prior))


def rectified_joint_covariance(mean, covariance):
    """Mean and covariance of ``relu(f)`` for jointly Gaussian f over points and channels.

    Entry by entry by `rectified_covariance`, and by `rectified_moments` on the diagonal.

    Args:
        mean: [B, N, c].
        covariance: [B, N, c, N, c].

    Returns:
        mean [B, N, c] and covariance [B, N, c, N, c].

    Example:

    >>> import numpy as np, tfpn
    >>> mean, covariance = tfpn.math.rectified_joint_covariance(
    ...     np.zeros((1, 1, 2)), np.reshape([[1.0, 0.5], [0.5, 1.0]], (1, 1, 2, 1, 2)))
    >>> covariance.numpy().round(3).reshape(2, 2).tolist()
    [[0.341, 0.145], [0.145, 0.341]]
    """
    mean = tf.convert_to_tensor(mean)
    covariance = tf.convert_to_tensor(covariance, mean.dtype)
    shape = tf.shape(mean)
    size = shape[1] * shape[2]
    flat = tf.reshape(covariance, [shape[0], size, size])
    loc = tf.reshape(mean, [shape[0], size])
    variance = tf.nn.relu(tf.linalg.diag_part(flat))
    new_mean, new_variance = rectified_moments(loc, variance)
    rectified = rectified_covariance(
        loc[:, :, None], loc[:, None, :], variance[:, :, None], variance[:, None, :], flat
    )
    rectified = tf.linalg.set_diag(rectified, new_variance)
    return tf.reshape(new_mean, shape), tf.reshape(rectified, tf.shape(covariance))


def mix_covariance(covariance, kernel):
    """``(I (x) M) C (I (x) M)^T``: [B, N, c_in, N, c_in] and [c_in, c_out] -> c_out channels."""
    return tf.einsum("bnapd,ac,de->bncpe", covariance, kernel, kernel)


def observed_pairs(missing):
    """1 where both entries are observed and 0 elsewhere, [B, N, c or 1] -> [B, N, c, N, c]."""
    weight = 1.0 - missing
    return weight[:, :, :, None, None] * weight[:, None, None]


def observed_covariance(covariance, missing):
    """``covariance`` with 0 in the rows and columns of entries whose mask [B, N, c] is 1."""
    return tf.where(observed_pairs(missing) > 0.0, covariance, 0.0)


def marginal_variance(covariance):
    """The diagonal, [B, N, c, N, c] -> [B, N, c]."""
    shape = tf.shape(covariance)[:3]
    size = shape[1] * shape[2]
    flat = tf.reshape(covariance, [shape[0], size, size])
    return tf.reshape(tf.nn.relu(tf.linalg.diag_part(flat)), shape)


def integrate_joint(
    points,
    values,
    variance,
    covariance,
    *,
    signal_std,
    length_scale,
    box=None,
    disc=None,
    observation_noise=0.0,
    marginal_likelihood_trains="all",
):
    """`integrate` of values with a joint covariance.

    With t the weights of the values in the integral, ``C'[a, b] = sum_nm t_n t_m C[n, a, m, b]``,
    plus the GP's own variance given values that are exact but for the observation noise, for each
    channel.

    Args:
        points, values, variance, signal_std, length_scale, box, disc, observation_noise,
            marginal_likelihood_trains: as in `integrate`, with noise="shared".
        covariance: [B, N, c, N, c], 0 where unobserved.

    Returns:
        mean [B, c], covariance [B, c, c] (infinite on the diagonal over the whole space) and the
        negative log marginal likelihood [B, c].
    """
    prior = {"signal_std": signal_std, "length_scale": length_scale, "noise": "shared"}
    noisy = prepare(points, values, variance, observation_noise=observation_noise, **prior)
    exact = penalty(tf.convert_to_tensor(variance, noisy.values.dtype))
    gp = prepare(points, values, exact, observation_noise=observation_noise, **prior)
    single, mean, own = integrated_gp(gp, box=box, disc=disc)
    weights = solve(*gp._matrices(gp.points, gp.given_variance), single[..., None], gp.whitener)
    pooled = tf.einsum("bn,bnamc,bm->bac", weights[..., 0], covariance, weights[..., 0])
    own = tf.broadcast_to(own[:, None], tf.shape(mean))
    pooled = tf.linalg.set_diag(pooled, tf.linalg.diag_part(pooled) + own)
    return mean, pooled, noisy.negative_log_marginal_likelihood(marginal_likelihood_trains)
