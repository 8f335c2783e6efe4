"""Coherent uncertainty of low rank: shared factors and independent remainders.

A feature map's uncertainty is the sum of r factors and an independent remainder of variance D. A
factor is an unknown standard normal number times a known map J_j over points and channels:

    f[n, a] = values[n, a] + sum_j J_j[n, a] e_j + sqrt(D[n, a]) e[n, a]
    variance[n, a] = sum_j J_j[n, a]^2 + D[n, a]

The factors pass through a layer's linear maps like values. So a common error of many points and
channels stays common. Inside this module factors are [r, B, N, c], which linear maps take without
transposition. In the observations dict they are [B, N, c, r].
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfpn.math.activations import Activation
from tfpn.math.channels import mix_channels
from tfpn.math.operator import Operator, output_covariance
from tfpn.math.posterior import Fixed, Observed, Posterior
from tfpn.math.precision import in_double_precision
from tfpn.math.uncertainty.base import Uncertainty, integrate, mix_values
from tfpn.types import Array, Observations, Shape, Tensor

# Columns beyond the rank, and rounds, of the subspace iteration for the first layer's factors.
_OVERSAMPLING = 8
_ROUNDS = 3


@dataclasses.dataclass(frozen=True)
class LowRank(Uncertainty):
    """Factors and an independent remainder.

    Attributes:
        rank: number of factors that the first convolution finds. Later layers take over its
            number.
    """

    rank: int = 8

    key = "factors"
    takes_channel_noise = False

    @in_double_precision
    def convolve(
        self, observed: Observed, operator: Operator, beside: Tensor | None, missing: Tensor
    ) -> Any:
        """As `Uncertainty.convolve`.

        Without factors the observations' errors are independent. The factors become the leading
        eigenvectors of the joint posterior covariance of all ``(e^{D_i} f)(x_m)``, mixed by W_i.
        With factors from an earlier layer, the GP is conditioned with the remainder as its noise.
        Values and factors pass through the same linear map. The GP's own variance is the new
        remainder.
        """
        posterior = _with_remainder(observed, beside).posterior()
        kernel = observed.kernel
        cross = operator.functionals(kernel).cross(posterior.points)
        response, explained, nll = posterior.condition(Fixed(cross))
        mean = operator.mix(response)
        variance = operator.mix_variance(operator.prior_variance(kernel), explained)
        seen = 1.0 - missing
        if beside is None:
            shapes = leading_functionals(posterior, cross, operator, seen, self.rank)
            return mean, variance, _mix_leading(shapes, operator.weights, self.rank) * seen, nll
        factors = _moved(posterior, cross, operator, beside)
        return mean, variance + factor_variance(factors), factors * seen, nll

    @in_double_precision
    def integrate(
        self, observed: Observed, region: Mapping[str, Any], beside: Tensor | None
    ) -> Any:
        posterior = _with_remainder(observed, beside).posterior()
        once, mean, variance, nll = integrate(posterior, region)
        weights, _ = posterior.solve(once[:, :, None, None])
        factors = tf.matmul(weights[:, :, 0], beside, transpose_a=True)[:, :, 0]
        return mean, variance + factor_variance(factors), factors, nll

    def mix(
        self,
        values: Tensor,
        variance: Tensor,
        beside: Tensor | None,
        kernel: Tensor,
        bias: Tensor | None,
        missing: Tensor,
    ) -> Any:
        mean = mix_values(values, kernel, bias, missing)
        remainder = remainder_variance(variance, beside)
        factors = mix_channels(beside, kernel) * (1.0 - missing)
        mixed = mix_channels(remainder, tf.square(kernel)) + factor_variance(factors)
        return mean, mixed, factors

    def activate(
        self,
        activation: Activation,
        values: Tensor,
        variance: Tensor,
        beside: Tensor | None,
        missing: Tensor,
    ) -> Any:
        # This is exact to first order in the correlation.
        slope = activation.slope(values, variance)
        return *activation.moments(values, variance), beside * slope

    def affine(self, beside: Tensor | None, factor: Tensor, values: Tensor) -> Tensor:
        return beside * factor

    @in_double_precision
    def covariance(self, observed: Observed, operator: Operator, beside: Tensor | None) -> Tensor:
        posterior = _with_remainder(observed, beside).posterior()
        covariance = output_covariance(posterior, operator)
        if beside is not None:
            cross = operator.functionals(observed.kernel).cross(posterior.points)
            moved = _moved(posterior, cross, operator, beside)
            covariance += tf.einsum("rbma,rbna->bamn", moved, moved)
        return covariance

    def joint_covariance(self, pooled: Observations) -> Array:
        factors = np.asarray(pooled["factors"], np.float64)
        remainder = np.asarray(pooled["variance"], np.float64) - np.sum(np.square(factors), axis=-1)
        independent = np.maximum(remainder, 0.0)[..., None] * np.eye(remainder.shape[-1])
        return factors @ np.swapaxes(factors, -2, -1) + independent

    @staticmethod
    def query_points(channels: int) -> int | None:
        return 512  # each pair of them has a covariance

    def shape(self, values_shape: Shape, given: Shape | None = None) -> Any:
        return (*values_shape, self.rank if given is None else given[-1])

    def read(self, tensor: Tensor) -> Tensor:
        return tf.transpose(tensor, [tensor.shape.rank - 1, *range(tensor.shape.rank - 1)])

    def write(self, beside: Tensor) -> Tensor:
        return tf.transpose(beside, [*range(1, beside.shape.rank), 0])


def factor_variance(factors: Tensor) -> Tensor:
    """``sum_j J_j^2``, [r, B, N, c] -> [B, N, c]."""
    return tf.add_n([tf.square(factor) for factor in tf.unstack(factors)])


def remainder_variance(variance: Tensor, factors: Tensor) -> Tensor:
    """``D = variance - sum_j J_j^2``, raised to 0 if rounding makes it negative; +inf stays."""
    return tf.nn.relu(variance - factor_variance(factors))


def _with_remainder(observed, factors):
    if factors is None:
        return observed
    remainder = remainder_variance(observed.variance, factors)
    return dataclasses.replace(observed, variance=remainder)


def _moved(posterior, cross, operator, factors):
    """The factors after an operator, [r, B, M, c_out]."""
    columns = [posterior.solve(factor[..., None])[0][..., 0] for factor in tf.unstack(factors)]
    return tf.stack([_flow(cross, column, operator.weights) for column in columns])


@tf.custom_gradient
def _flow(cross, columns, weights):
    """``sum_{k,n,b} W_k[b, a] k_k(x_m, x_n) columns[n, b]``, [B, M, c_out].

    Here cross is [B, M, K, N], columns [B, N, c_in] and weights [K, c_in, c_out]. The gradient
    computes the responses [B, M, K, c_in] between the two products anew: with r factors they would
    fill a network's memory.
    """
    shape = tf.shape(cross)
    operators, channels, out = weights.shape
    flat = tf.reshape(cross, [shape[0], shape[1] * shape[2], shape[3]])
    kernel = tf.reshape(weights, [operators * channels, out])

    def responses(columns):
        return tf.reshape(tf.matmul(flat, columns), [-1, operators * channels])

    def gradient(upstream):
        upstream = tf.reshape(upstream, [-1, out])
        with tf.control_dependencies([upstream]):  # wait for the gradient to arrive
            again = tf.identity(columns)
        d_weights = tf.matmul(responses(again), upstream, transpose_a=True)
        d_responses = tf.matmul(upstream, kernel, transpose_b=True)
        d_responses = tf.reshape(d_responses, [shape[0], shape[1] * shape[2], channels])
        d_cross = tf.matmul(d_responses, columns, transpose_b=True)
        d_columns = tf.matmul(flat, d_responses, transpose_a=True)
        return tf.reshape(d_cross, shape), d_columns, tf.reshape(d_weights, weights.shape)

    mixed = tf.matmul(responses(columns), kernel)
    return tf.reshape(mixed, [shape[0], shape[1], out]), gradient


def leading_functionals(
    posterior: Posterior, cross: Tensor, operator: Operator, query_weight: Tensor, rank: int
) -> Tensor:
    """Leading eigenvectors of the posterior covariance of all functionals ``(e^{D_i} f)(x_m)``.

    Let P be that covariance, and let the vectors U [.., r] approximate its leading eigenvectors.
    The result is ``J = P U (U^T P U)^(-1/2)``. For any U, ``P - J J^T`` is positive semidefinite,
    and U can be a constant for gradients. U comes from a subspace iteration. The iteration starts
    with waves over the points, so U follows their order and place.

    Args:
        posterior: `tfpn.math.posterior.Posterior` that all channels share.
        cross: k_i(x_m, x_n) with its observed points, [B, M, K, N].
        operator: `tfpn.math.operator.Operator`.
        query_weight: [B, M, 1], 0 at padding.
        rank: r.

    Returns:
        J, [r, B, M, K].
    """
    query, drift, kernel = operator.query, operator.drift, posterior.kernel
    operators = drift.shape[0]
    shape = tf.shape(cross)
    size = shape[1] * operators
    flat = tf.reshape(cross, [shape[0], size, shape[3]])
    prior = kernel.flowed_pairs(query, query, drift, operator.diffusion)
    prior_trace = tf.einsum("bmkkm->b", tf.stop_gradient(prior))
    prior = tf.reshape(prior, [shape[0], size, size])  # (point, operator), (operator, point)
    weight = tf.reshape(
        tf.broadcast_to(query_weight, [shape[0], shape[1], operators]), [shape[0], size, 1]
    )

    def times(prior, flat, vectors):
        """P times vectors. The whitener hides its derivatives from all functions except `solve`."""
        count = tf.shape(vectors)[-1]
        by_operator = tf.reshape(vectors, [shape[0], shape[1], operators, count])
        by_operator = tf.reshape(tf.einsum("bmkr->bkmr", by_operator), tf.shape(vectors))
        observed = tf.matmul(flat, vectors, transpose_a=True)
        solved, _ = posterior.solve(observed[:, :, None])
        explained = tf.matmul(flat, solved[:, :, 0])
        return (tf.matmul(prior, by_operator) - explained) * weight

    constants = tf.stop_gradient(prior), tf.stop_gradient(flat)
    waves = _waves(query, query_weight, kernel.length_scale, operators, rank + _OVERSAMPLING)
    vectors = waves * weight
    for _ in range(_ROUNDS):
        vectors = times(*constants, tf.linalg.qr(vectors).q * weight)
    vectors = tf.linalg.qr(vectors).q * weight
    ritz = tf.matmul(vectors, times(*constants, vectors), transpose_a=True)
    _, rotation = tf.linalg.eigh(0.5 * (ritz + tf.linalg.matrix_transpose(ritz)))
    vectors = tf.matmul(vectors, rotation[..., ::-1][..., :rank])  # leading ones first
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

    The posterior covariance is the prior's minus the explained part. So its rounding is relative to
    the prior, even if little is left.
    """
    size = (1e-6 if gram.dtype == tf.float32 else 1e-11) * prior_trace
    return size[..., None, None] * tf.eye(gram.shape[-1], dtype=gram.dtype)


def _waves(query, query_weight, length_scale, operators, count):
    """Start of the subspace iteration, [B, M K, count]: cosines of fixed random frequencies."""
    dim = query.shape[-1]
    # The generator is fixed, so that XLA and other devices start from the same numbers.
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

    All input channels have the same posterior covariance, and so the same functionals. Of the c_in
    r products the function keeps those with the largest variance in the output.
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
