"""Coherent uncertainty at low rank: shared factors beside independent remainders.

A feature map's uncertainty is the sum of r factors, each one an unknown standard normal number
times a known map J_j over points and channels, and of an independent remainder of variance D:

    f[n, a] = values[n, a] + sum_j J_j[n, a] e_j + sqrt(D[n, a]) e[n, a]
    variance[n, a] = sum_j J_j[n, a]^2 + D[n, a]

The factors pass through a layer's linear maps as values do, so that what is wrong in common at many
points and channels stays in common. Inside this module factors are [r, B, N, c], which linear maps
take without transposition; in the observations dict they are [B, N, c, r].
"""

import math

import tensorflow as tf

from tfpn.math.channels import mix_channels
from tfpn.math.conditioning import prepare
from tfpn.math.convolution import _mix, _mixed_variance, _operators
from tfpn.math.kernels import operator_pair_kernels
from tfpn.math.pooling import domain_integrals
from tfpn.math.posterior import solve

# Columns beyond the rank and rounds of the subspace iteration for the first layer's factors.
_OVERSAMPLING = 8
_ROUNDS = 3


def factors_first(factors):
    """[B, N, c, r] of the observations dict -> [r, B, N, c]."""
    return tf.transpose(factors, [3, 0, 1, 2])


def factors_last(factors):
    """[r, B, N, c] -> [B, N, c, r] of the observations dict."""
    return tf.transpose(factors, [1, 2, 3, 0])


def factor_variance(factors):
    """``sum_j J_j^2``, [r, B, N, c] -> [B, N, c]."""
    return tf.add_n([tf.square(factor) for factor in tf.unstack(factors)])


def remainder_variance(variance, factors):
    """``D = variance - sum_j J_j^2``, not below the zero that rounding may cross; +inf stays."""
    return tf.nn.relu(variance - factor_variance(factors))


def convolve_low_rank(
    points,
    values,
    variance,
    factors,
    query,
    *,
    weights,
    drift,
    diffusion,
    signal_std,
    length_scale,
    rank=8,
    observation_noise=0.0,
    bias=None,
    query_weight=None,
    marginal_likelihood_trains="all",
):
    """`convolve` with coherent uncertainty.

    Without ``factors`` the observations' errors are independent, mean and variance are those of
    `convolve`, and the factors become the leading eigenvectors of the joint posterior covariance of
    all ``(e^{D_i} f)(x_m)``, mixed by W_i. With factors from an earlier layer the GP is conditioned
    with the remainder as its noise; values and factors go through the same linear map, and the GP's
    own variance is the new remainder.

    Args:
        points, values, variance, query, weights, drift, diffusion, signal_std, length_scale,
            observation_noise, bias, marginal_likelihood_trains: as in `convolve`, with
            noise="shared".
        factors: [r, B, N, c_in], 0 where unobserved, or None.
        rank: number of factors to find where there are none.
        query_weight: [B, M, 1], 0 at query points that are padding and 1 elsewhere, or None.

    Returns:
        mean and variance [B, M, c_out], factors [r, B, M, c_out] and the negative log marginal
        likelihood [B, c_in].

    Raises:
        ValueError, TypeError, tf.errors.InvalidArgumentError: as `convolve`.

    Example:

    >>> import numpy as np, tfpn
    >>> points = np.linspace(0, 1, 9)[None, :, None]
    >>> values = np.sin(2 * np.pi * points)
    >>> mean, variance, factors, nll = tfpn.math.convolve_low_rank(
    ...     points, values, np.full_like(values, 0.1), None, points,
    ...     weights=np.ones((1, 1, 1)), drift=np.array([[0.25]]), diffusion=np.zeros((1, 1, 1)),
    ...     signal_std=1.0, length_scale=0.3, rank=2)
    >>> factors.shape, bool(np.all(np.sum(np.square(factors), 0) <= variance))
    (TensorShape([2, 1, 9, 1]), True)
    """
    if factors is not None:
        values = tf.convert_to_tensor(values)
        variance = remainder_variance(tf.convert_to_tensor(variance, values.dtype), factors)
    gp = prepare(
        points, values, variance, signal_std=signal_std, length_scale=length_scale, noise="shared",
        observation_noise=observation_noise,
    )  # fmt: skip
    weights, operators = _operators(gp, query, weights, drift, diffusion)
    cross = operators.cross()
    response, explained = gp.posterior(cross)
    mean = _mix(response, weights, bias)
    remainder = _mixed_variance(operators.prior(), explained, weights, True)
    nll = gp.negative_log_marginal_likelihood(marginal_likelihood_trains)
    if factors is not None:
        matrices = gp._matrices(gp.points, gp.given_variance)
        columns = [solve(*matrices, factor, gp.whitener) for factor in tf.unstack(factors)]
        factors = tf.stack([_flow(cross, column, weights) for column in columns])
        return mean, remainder + factor_variance(factors), factors, nll
    if query_weight is None:
        query_weight = tf.ones_like(mean[..., :1])
    shapes = leading_functionals(
        gp, cross, query, query_weight, drift=drift, diffusion=diffusion, rank=rank
    )
    return mean, remainder, _mix_leading(shapes, weights, rank), nll


@tf.custom_gradient
def _flow(cross, columns, weights):
    """``sum_{k,n,b} W_k[b, a] k_k(x_m, x_n) columns[n, b]``, [B, M, c_out].

    cross [B, M, K, N], columns [B, N, c_in], weights [K, c_in, c_out]. The responses
    [B, M, K, c_in] between the two products are computed anew for the gradient: with r factors
    they would be what a network's memory is full of.
    """
    shape = tf.shape(cross)
    operators, channels, out = weights.shape
    flat = tf.reshape(cross, [shape[0], shape[1] * shape[2], shape[3]])
    kernel = tf.reshape(weights, [operators * channels, out])

    def responses(columns):
        return tf.reshape(tf.matmul(flat, columns), [-1, operators * channels])

    def gradient(upstream):
        upstream = tf.reshape(upstream, [-1, out])
        with tf.control_dependencies([upstream]):  # not before the gradient arrives
            again = tf.identity(columns)
        d_weights = tf.matmul(responses(again), upstream, transpose_a=True)
        d_responses = tf.matmul(upstream, kernel, transpose_b=True)
        d_responses = tf.reshape(d_responses, [shape[0], shape[1] * shape[2], channels])
        d_cross = tf.matmul(d_responses, columns, transpose_b=True)
        d_columns = tf.matmul(flat, d_responses, transpose_a=True)
        return tf.reshape(d_cross, shape), d_columns, tf.reshape(d_weights, weights.shape)

    mixed = tf.matmul(responses(columns), kernel)
    return tf.reshape(mixed, [shape[0], shape[1], out]), gradient


def leading_functionals(gp, cross, query, query_weight, *, drift, diffusion, rank):
    """Leading eigenvectors of the posterior covariance of all functionals ``(e^{D_i} f)(x_m)``.

    With P that covariance and U [.., r] vectors that approximate its leading eigenvectors, the
    result is ``J = P U (U^T P U)^(-1/2)``: ``P - J J^T`` is positive semidefinite whatever U is,
    and U can be a constant for gradients. U comes from a subspace iteration that starts with waves
    over the points, so that it moves with their order and place.

    Args:
        gp: `Conditioning` with shared noise.
        cross: k_i(x_m, x_n) with its observed points, [B, M, K, N].
        query: x_m [B, M, d].
        query_weight: [B, M, 1], 0 at padding.
        drift, diffusion: [K, d], [K, d, d].
        rank: r.

    Returns:
        J, [r, B, M, K].
    """
    query, drift, diffusion = (
        tf.convert_to_tensor(t, cross.dtype) for t in (query, drift, diffusion)
    )
    operators = drift.shape[0]
    shape = tf.shape(cross)
    size = shape[1] * operators
    flat = tf.reshape(cross, [shape[0], size, shape[3]])
    prior = operator_pair_kernels(
        query,
        query,
        signal_std=gp.signal_std,
        length_scale=gp.length_scale,
        drift=drift,
        diffusion=diffusion,
    )
    prior_trace = tf.einsum("bmkkm->b", tf.stop_gradient(prior))
    prior = tf.reshape(prior, [shape[0], size, size])  # (point, operator), (operator, point)
    weight = tf.reshape(
        tf.broadcast_to(query_weight, [shape[0], shape[1], operators]), [shape[0], size, 1]
    )

    def times(prior, flat, vectors):
        """P vectors; the whitener hides its derivatives from all but `solve`."""
        count = tf.shape(vectors)[-1]
        by_operator = tf.reshape(vectors, [shape[0], shape[1], operators, count])
        by_operator = tf.reshape(tf.einsum("bmkr->bkmr", by_operator), tf.shape(vectors))
        observed = tf.matmul(flat, vectors, transpose_a=True)
        explained = tf.matmul(flat, solve(*matrices, observed, gp.whitener))
        return (tf.matmul(prior, by_operator) - explained) * weight

    matrices = gp._matrices(gp.points, gp.given_variance)
    constants = tf.stop_gradient(prior), tf.stop_gradient(flat)
    waves = _waves(query, query_weight, gp.length_scale, operators, rank + _OVERSAMPLING)
    vectors = waves * weight
    for _ in range(_ROUNDS):
        vectors = times(*constants, tf.linalg.qr(vectors).q * weight)
    vectors = tf.linalg.qr(vectors).q * weight
    ritz = tf.matmul(vectors, times(*constants, vectors), transpose_a=True)
    _, rotation = tf.linalg.eigh(0.5 * (ritz + tf.linalg.matrix_transpose(ritz)))
    vectors = tf.matmul(vectors, rotation[..., ::-1][..., :rank])  # leading first
    vectors = tf.pad(vectors, [[0, 0], [0, 0], [0, rank - tf.shape(vectors)[-1]]])
    vectors = tf.ensure_shape(vectors, [None, None, rank])
    vectors = tf.stop_gradient(vectors)
    images = times(prior, flat, vectors)
    gram = tf.matmul(vectors, images, transpose_a=True)
    gram = 0.5 * (gram + tf.linalg.matrix_transpose(gram))
    factor = tf.linalg.cholesky(gram + _ridge(gram, prior_trace))
    factors = tf.linalg.triangular_solve(factor, tf.linalg.matrix_transpose(images))
    factors = tf.reshape(factors, [shape[0], rank, shape[1], operators])
    return tf.transpose(factors, [1, 0, 2, 3])


def _ridge(gram, prior_trace):
    """A multiple of the identity, of the size of the Gram matrix's rounding error.

    The posterior covariance is a difference of the prior's and what is explained of it, so its
    rounding is relative to the prior however little is left.
    """
    size = (1e-6 if gram.dtype == tf.float32 else 1e-11) * prior_trace
    return size[..., None, None] * tf.eye(gram.shape[-1], dtype=gram.dtype)


def _waves(query, query_weight, length_scale, operators, count):
    """Start of the subspace iteration, [B, M K, count]: cosines of fixed random frequencies."""
    dim = query.shape[-1]
    # One generator, so that XLA and other devices start from the same numbers.
    options = {"dtype": query.dtype, "alg": "philox"}
    frequency = tf.random.stateless_normal([dim, count], seed=[3, 1], **options)
    phase = tf.random.stateless_uniform(
        [operators, count], seed=[3, 2], maxval=2.0 * math.pi, **options
    )
    total = tf.reduce_sum(query_weight, axis=1, keepdims=True)
    centre = tf.math.divide_no_nan(
        tf.reduce_sum(query * query_weight, axis=1, keepdims=True), total
    )
    angle = tf.tensordot(query - centre, frequency / length_scale, 1)[:, :, None] + phase
    return tf.reshape(tf.cos(angle), [tf.shape(query)[0], -1, count])


def _mix_leading(shapes, weights, rank):
    """The factors' channels, [r, B, M, K] and [K, c_in, c_out] -> [r, B, M, c_out].

    All input channels have the same posterior covariance, and so the same functionals: of the
    c_in r products those with the largest variance in the output are kept.
    """
    operators, channels, out = weights.shape
    if channels == 1:
        return mix_channels(shapes, weights[:, 0])
    gram = tf.einsum("kba,lba->bkl", *2 * [tf.stop_gradient(weights)])
    shapes_now = tf.stop_gradient(shapes)
    size = tf.einsum("rmkl,bkl->mbr", tf.einsum("rmnk,rmnl->rmkl", shapes_now, shapes_now), gram)
    _, chosen = tf.math.top_k(tf.reshape(size, [tf.shape(size)[0], channels * rank]), rank)
    of_channel = tf.gather(tf.transpose(weights, [1, 0, 2]), chosen // rank)  # [B, r, K, c_out]
    by_example = tf.transpose(shapes, [1, 0, 2, 3])
    by_example = tf.gather(by_example, chosen % rank, batch_dims=1)
    return tf.transpose(tf.matmul(by_example, of_channel), [1, 0, 2, 3])


def integrate_low_rank(
    points,
    values,
    variance,
    factors,
    *,
    signal_std,
    length_scale,
    box=None,
    disc=None,
    observation_noise=0.0,
    marginal_likelihood_trains="all",
):
    """`integrate` with coherent uncertainty: the factors' integrals beside the remainder's.

    Args:
        points, values, variance, signal_std, length_scale, box, disc, observation_noise,
            marginal_likelihood_trains: as in `integrate`, with noise="shared".
        factors: [r, B, N, c], 0 where unobserved.

    Returns:
        mean and variance [B, c] (the variance infinite over the whole space), factors [r, B, c] and
        the negative log marginal likelihood [B, c].
    """
    values = tf.convert_to_tensor(values)
    variance = remainder_variance(tf.convert_to_tensor(variance, values.dtype), factors)
    gp = prepare(
        points, values, variance, signal_std=signal_std, length_scale=length_scale, noise="shared",
        observation_noise=observation_noise,
    )  # fmt: skip
    single, mean, remainder = integrated_gp(gp, box=box, disc=disc)
    matrices = gp._matrices(gp.points, gp.given_variance)
    weights = solve(*matrices, single[..., None], gp.whitener)
    factors = tf.matmul(weights, factors, transpose_a=True)[:, :, 0]
    variance = remainder[:, None] + tf.add_n([tf.square(f) for f in tf.unstack(factors)])
    return mean, variance, factors, gp.negative_log_marginal_likelihood(marginal_likelihood_trains)


def integrated_gp(gp, **domain):
    """Integral of a GP with shared noise: (P k)(X) [B, N], the mean [B, c] and the variance [B].

    ``domain`` is the box or the disc of `domain_integrals`.
    """
    single, double = domain_integrals(
        gp.points, signal_std=gp.signal_std, length_scale=gp.length_scale, **domain
    )
    cross = single[:, None, None]
    if all(region is None for region in domain.values()):
        mean = gp.posterior_mean(cross)[:, 0, 0]
        return single, mean, tf.fill(tf.shape(mean)[:1], double)
    mean, explained = gp.posterior(cross)
    return single, mean[:, 0, 0], tf.nn.relu(double - explained[:, 0, 0, 0])
