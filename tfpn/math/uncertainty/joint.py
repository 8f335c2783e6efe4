"""Full coherent uncertainty: one covariance over all points and channels of an example.

It is the reference for small networks. A covariance is [B, N, c, N, c], 0 where unobserved.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfpn.math.activations import Activation, Rectifier
from tfpn.math.operator import Operator, output_covariance
from tfpn.math.posterior import Fixed, Functionals, Observed, Posterior
from tfpn.math.precision import in_double_precision
from tfpn.math.shapes import reshape, sizes
from tfpn.math.uncertainty.base import Uncertainty, integrate, mix_values
from tfpn.types import Array, Observations, Shape, Tensor


@dataclasses.dataclass(frozen=True)
class Joint(Uncertainty):
    """The whole covariance of points and channels."""

    key = "covariance"
    takes_channel_noise = False
    may_split = False
    integrates_in_float64 = False  # the covariance would take too much memory

    @in_double_precision
    def convolve(
        self, observed: Observed, operator: Operator, beside: Tensor | None, missing: Tensor
    ) -> Any:
        """As `Uncertainty.convolve`.

        Without a covariance the observations' errors are independent. An earlier layer's values
        have a covariance C. Between the points the function is then a GP, conditioned on the values
        as if they were exact up to the observation noise R. The values are uncertain by C. By the
        law of total covariance, with ``T = sum_k W_k (x) k_k(X, X) (K + R)^-1``

            C' = T C T^T + sum_ij W_i W_j^T (x) [k_ij - k_i (K + R)^-1 k_j^T]

        R is at least the least noise variance of the dtype. In both cases the marginal likelihood
        is that of independent errors of the given variance.
        """
        posterior = _exact(observed, beside).posterior()
        functionals = operator.functionals(observed.kernel)
        response, _ = posterior.mean(functionals)
        weights = operator.weights
        function = covariance_of_functionals(posterior, operator)
        covariance = tf.einsum(
            "bminj,iajc->bmanc", function, tf.einsum("iba,jbc->iajc", weights, weights)
        )
        if beside is not None:
            covariance += congruence(values_map(posterior, functionals, weights), beside)
        covariance *= observed_pairs(missing)
        nll = observed.posterior().negative_log_marginal_likelihood()
        return operator.mix(response), marginal_variance(covariance), covariance, nll

    @in_double_precision
    def integrate(
        self, observed: Observed, region: Mapping[str, Any], beside: Tensor | None
    ) -> Any:
        """As `Uncertainty.integrate`.

        With the weights t of the values in the integral, ``C'[a, b] = sum_nm t_n t_m C[n, a, m,
        b]``, plus the GP's own variance given values that are exact up to the observation noise.
        """
        posterior = _exact(observed, beside).posterior()
        once, mean, own, _ = integrate(posterior, region)
        nll = observed.posterior().negative_log_marginal_likelihood()
        weights, _ = posterior.solve(once[:, :, None, None])
        weights = weights[:, :, 0, 0]
        pooled = tf.einsum("bn,bnamc,bm->bac", weights, beside, weights)
        variance = tf.linalg.diag_part(pooled) + own
        return mean, variance, tf.linalg.set_diag(pooled, variance), nll

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
        covariance = mix_covariance(beside, kernel) * observed_pairs(missing)
        return mean, marginal_variance(covariance), covariance

    def activate(
        self,
        activation: Activation,
        values: Tensor,
        variance: Tensor,
        beside: Tensor | None,
        missing: Tensor,
    ) -> Any:
        mean, new_variance = activation.moments(values, variance)
        covariance = activated_covariance(activation, values, beside)
        covariance = tf.where(observed_pairs(missing) > 0.0, covariance, 0.0)
        return mean, new_variance, covariance

    def affine(self, beside: Tensor | None, factor: Tensor, values: Tensor) -> Tensor:
        return beside * factor[:, None, None] * factor

    @in_double_precision
    def covariance(self, observed: Observed, operator: Operator, beside: Tensor | None) -> Tensor:
        posterior = _exact(observed, beside).posterior()
        covariance = output_covariance(posterior, operator)
        if beside is not None:
            functionals = operator.functionals(observed.kernel)
            linear = values_map(posterior, functionals, operator.weights)
            half = tf.einsum("bmanc,bncpd->bmapd", linear, beside)
            covariance += tf.einsum("bmapd,bqapd->bamq", half, linear)
        return covariance

    def joint_covariance(self, pooled: Observations) -> Array:
        return np.asarray(pooled["covariance"], np.float64)

    @staticmethod
    def query_points(channels: int) -> int | None:
        return max(1, 512 // channels)  # each pair of them has a covariance

    def shape(self, values_shape: Shape, given: Shape | None = None) -> Any:
        return (*values_shape, *values_shape[1:])


def _exact(observed, covariance):
    """The observations with the variance that exceeds the covariance's diagonal: mostly none."""
    if covariance is None:
        return observed
    beside = tf.nn.relu(observed.variance - marginal_variance(covariance))
    return dataclasses.replace(observed, variance=beside)


def covariance_of_functionals(posterior: Posterior, operator: Operator) -> Tensor:
    """Posterior covariances of all ``(exp(D_k) f)(x_m)``, [B, M, K, M, K]."""
    cross = operator.functionals(posterior.kernel).cross(posterior.points)
    batch, queries, count, size = sizes(cross)
    # They form one place with M K functionals, so the explained part of all pairs has a
    # hand-written gradient.
    together = Fixed(reshape(cross, [batch, 1, [queries, count], size]))
    _, explained, _ = posterior.condition(together)
    query = operator.query
    prior = posterior.kernel.flowed_pairs(query, query, operator.drift, operator.diffusion)
    prior = tf.einsum("bmijn->bminj", prior)
    return prior - tf.reshape(explained, tf.shape(prior))


def values_map(posterior: Posterior, functionals: Functionals, weights: Tensor) -> Tensor:
    """The linear map of values ``sum_k W_k (x) k_k(x_m, X) (K + S)^-1``, [B, M, c_out, N, c_in]."""
    cross = functionals.cross(posterior.points)
    shape = tf.shape(cross)
    identity = tf.eye(shape[3], batch_shape=shape[:1], dtype=cross.dtype)
    inverse, _ = posterior.solve(identity[:, :, None])
    linear = tf.einsum("bmkn,bnp->bmkp", cross, inverse[:, :, 0])
    return tf.einsum("bmkn,kca->bmanc", linear, weights)


def congruence(linear: Tensor, covariance: Tensor) -> Tensor:
    """``T C T^T``: [B, M, a, N, c] and [B, N, c, N, c] -> [B, M, a, M, a]."""
    half = tf.einsum("bmanc,bncpd->bmapd", linear, covariance)
    return tf.einsum("bmapd,bqepd->bmaqe", half, linear)


def activated_covariance(activation: Activation, mean: Tensor, covariance: Tensor) -> Tensor:
    """Covariance of ``h(f)`` for f that is jointly Gaussian over points and channels.

    Args:
        activation: `tfpn.math.activations.Activation`.
        mean: [B, N, c].
        covariance: [B, N, c, N, c].

    Returns:
        [B, N, c, N, c].
    """
    shape = tf.shape(mean)
    size = shape[1] * shape[2]
    flat = tf.reshape(covariance, [shape[0], size, size])
    loc = tf.reshape(mean, [shape[0], size])
    variance = tf.nn.relu(tf.linalg.diag_part(flat))
    _, new_variance = activation.moments(loc, variance)
    found = activation.covariance(
        loc[:, :, None], loc[:, None, :], variance[:, :, None], variance[:, None, :], flat
    )
    return tf.reshape(tf.linalg.set_diag(found, new_variance), tf.shape(covariance))


def rectified_joint_covariance(mean: Tensor, covariance: Tensor) -> Tensor:
    """Mean and covariance of ``relu(f)`` for f that is jointly Gaussian over points and channels.

    The entries come from `rectified_covariance`, and the diagonal from `rectified_moments`.

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
    rectified, _ = Rectifier().moments(mean, marginal_variance(covariance))
    return rectified, activated_covariance(Rectifier(), mean, covariance)


def mix_covariance(covariance: Tensor, kernel: Tensor) -> Tensor:
    """``(I (x) M) C (I (x) M)^T``: [B, N, c_in, N, c_in] and [c_in, c_out] -> c_out channels."""
    return tf.einsum("bnapd,ac,de->bncpe", covariance, kernel, kernel)


def observed_pairs(missing: Tensor) -> Tensor:
    """1 where both entries are observed and 0 elsewhere, [B, N, c or 1] -> [B, N, c, N, c]."""
    weight = 1.0 - missing
    return weight[:, :, :, None, None] * weight[:, None, None]


def marginal_variance(covariance: Tensor) -> Tensor:
    """The diagonal, [B, N, c, N, c] -> [B, N, c]."""
    shape = tf.shape(covariance)[:3]
    size = shape[1] * shape[2]
    flat = tf.reshape(covariance, [shape[0], size, size])
    return tf.reshape(tf.nn.relu(tf.linalg.diag_part(flat)), shape)
