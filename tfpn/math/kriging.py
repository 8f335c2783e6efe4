"""Kriging: the posterior of a GP with a trend, at query points.

Each channel is ``y = H b + f + noise``: a trend of p basis functions with ``b ~ N(0, V)``, V
diagonal, and a zero-mean GP f. With ``C = (K + S)^-1`` the closed forms are

    L      = V^-1 + H^T C H                     b^ = L^-1 H^T C y
    mean   = h^T b^ + k^T C (y - H b^)          r = h - H^T C k
    var    = k(x, x) - k^T C k + r^T L^-1 r

This is the GP with the kernel ``k + h^T V h``. As V grows it becomes universal kriging, or ordinary
kriging if the trend is only a constant.

With d degrees of freedom, all variances of an example's channel share a factor t with
``d / t ~ chi^2_d``, including those of noise and trend. The readings are then multivariate t
variables. For n readings with the quadratic form
``q = (y - H b^)^T C (y - H b^) + b^^T V^-1 b^`` the means do not change, and the variances are
multiplied by ``(d + q) / (d + n)``.
"""

import dataclasses

import tensorflow as tf

from tfpn.math.posterior import NOISE, Fixed, Flowed, Observed
from tfpn.types import Tensor


@dataclasses.dataclass(frozen=True)
class Kriged:
    """The result of `krige`.

    Attributes:
        mean, variance: the channels at the query points, without noise, [B, M, c].
        residuals: readings minus the trend [B, N, c], 0 where unobserved.
        factor: the factor of all variances, including the noise, [B, 1 or M, c]; 1 without
            ``dof``.
        nll: negative log marginal likelihood of each channel, [B, c].
    """

    mean: tf.Tensor
    variance: tf.Tensor
    residuals: tf.Tensor
    factor: tf.Tensor
    nll: tf.Tensor


def trend_basis(points: Tensor, count: int, centre: Tensor, unit: Tensor) -> Tensor:
    """Basis functions of the trend: none, a constant, or a constant and the coordinates.

    Args:
        points: [..., d].
        count: 0, 1 or 1 + d.
        centre, unit: [d]. The coordinates count from the centre, in the unit.

    Returns:
        [..., count].
    """
    if count == 0:
        return points[..., :0]
    constant = tf.ones_like(points[..., :1])
    if count == 1:
        return constant
    return tf.concat([constant, (points - centre) / unit], axis=-1)


def krige(
    observed: Observed,
    query: Tensor,
    basis: tuple[Tensor, Tensor],
    trend_variance: Tensor,
    dof: Tensor | None = None,
) -> Kriged:
    """The posterior of each channel at query points, including the trend.

    Args:
        observed: the readings and the prior of f.
        query: [B, M, d].
        basis: the trend's basis functions at the readings [B, N, p] and at the query [B, M, p].
        trend_variance: the diagonal of V, [p].
        dof: degrees of freedom of each example's factor, scalar or [c]; None for no factor.

    Returns:
        A `Kriged`.

    Example: with a constant trend, one exact reading determines the field everywhere.

    >>> import tensorflow as tf
    >>> from tfpn.math.kernels import Kernel
    >>> from tfpn.math.kriging import krige
    >>> from tfpn.math.posterior import Observed
    >>> one = tf.ones([1, 1, 1], tf.float64)
    >>> kernel = Kernel(tf.constant(1e-3, tf.float64), tf.constant(1.0, tf.float64))
    >>> readings = Observed(0.0 * one, 5.0 * one, 0.0 * one, kernel, "shared", 0.0 * one[0, 0, 0])
    >>> found = krige(readings, 9.0 * one, (one, one), 1e6 * one[0, 0])
    >>> bool(abs(found.mean - 5.0) < 1e-4), bool(abs(found.variance - 2e-6) < 1e-8)
    (True, True)
    """
    posterior = observed.posterior()
    functionals = _values_at(query, posterior)
    mean, explained, nll = posterior.condition(functionals)
    mean = mean[:, :, 0]
    variance = posterior.kernel.variance - explained[..., 0, 0]  # [B, M, G]
    values, noise = posterior.observations
    residuals, trend = values, None
    if basis[0].shape[-1]:
        trend = _Trend(posterior, basis[0], trend_variance)
        remainder = trend.remainder(functionals, basis[1])
        mean += tf.linalg.matrix_transpose(_each(remainder, trend.coefficients))
        white = trend.white(remainder)
        variance += tf.linalg.matrix_transpose(tf.reduce_sum(tf.square(white), axis=-2))
        fitted = tf.linalg.matrix_transpose(_each(basis[0][:, None], trend.coefficients))
        known = tf.linalg.matrix_transpose(tf.math.is_finite(noise))
        residuals = tf.where(known, values - fitted, 0.0)
        nll += trend.nll()
    variance = tf.nn.relu(variance) + tf.zeros_like(mean)
    factor, added = _own_factor(posterior, trend, dof)
    factor = factor[:, None]
    return Kriged(mean, variance * factor, residuals, factor, nll + added)


def krige_likelihood(
    observed: Observed, basis: Tensor, trend_variance: Tensor, dof: Tensor | None = None
) -> Tensor:
    """Only the negative log marginal likelihood of each channel, [B, c].

    Args:
        observed, trend_variance, dof: as in `krige`.
        basis: the trend's basis functions at the readings, [B, N, p].
    """
    posterior = observed.posterior()
    if not basis.shape[-1]:
        nll = posterior.negative_log_marginal_likelihood()
        return nll + _own_factor(posterior, None, dof)[1]
    trend = _Trend(posterior, basis, trend_variance)
    return trend.smooth_nll + trend.nll() + _own_factor(posterior, trend, dof)[1]


def krige_covariance(
    observed: Observed, query: Tensor, basis: tuple[Tensor, Tensor], trend_variance: Tensor
) -> Tensor:
    """Posterior covariances of each channel between the query points, [B, c, M, M].

    They do not include an example's factor (`Kriged.factor`).

    Args:
        observed, query, basis, trend_variance: as in `krige`.
    """
    channels = observed.values.shape[-1]
    if NOISE[observed.noise].each:
        parts = [
            krige_covariance(observed.channel(c), query, basis, trend_variance)
            for c in range(channels)
        ]
        return tf.concat(parts, axis=1)
    # Triangular factors keep the digits that differences between close points need.
    posterior = dataclasses.replace(observed, by_factor=True).posterior()
    kernel, functionals = posterior.kernel, _values_at(query, posterior)
    cross = functionals.cross(posterior.points)  # [B, M, 1, N]
    _, explained, _ = posterior.condition(Fixed(tf.transpose(cross, [0, 2, 1, 3])))
    covariance = kernel.covariance(query, query)[:, None] - explained[:, 0]
    if basis[0].shape[-1]:
        trend = _Trend(posterior, basis[0], trend_variance)
        white = trend.white(trend.remainder(functionals, basis[1]))
        covariance += tf.matmul(white, white, transpose_a=True)
    covariance = 0.5 * (covariance + tf.linalg.matrix_transpose(covariance))
    return tf.repeat(covariance, channels, axis=1)


class _Trend:
    """The trend's posterior, with G groups of channels (1 or c).

    Attributes:
        columns: the basis functions at the readings, [B, N, G, p].
        right: H^T C y, [B, c, p].
        factor: the Cholesky factor of ``M = I + V^1/2 H^T C H V^1/2``, [B, G, p, p].
        root: V^1/2, [p].
        coefficients: b^ [B, c, p].
        smooth_nll: negative log marginal likelihood without a trend, [B, c].
    """

    def __init__(self, posterior, basis, variance):
        values, noise = posterior.observations
        groups = noise.shape[1]
        self.posterior = posterior
        self.columns = tf.repeat(basis[:, :, None], groups, axis=2)
        responses, self.smooth_nll = posterior.solve(self.columns)
        gram = tf.einsum("bnp,bngq->bgpq", basis, responses)
        if groups == 1:
            self.right = tf.einsum("bnp,bnc->bcp", responses[:, :, 0], values)
        else:
            self.right = tf.einsum("bncp,bnc->bcp", responses, values)
        self.root = tf.sqrt(variance)
        scaled = gram * self.root[:, None] * self.root
        self.factor = tf.linalg.cholesky(scaled + tf.eye(variance.shape[0], dtype=variance.dtype))
        factor = self.factor + tf.zeros([self.right.shape[1], 1, 1], variance.dtype)
        right = (self.root * self.right)[..., None]
        self.coefficients = self.root * tf.linalg.cholesky_solve(factor, right)[..., 0]

    def remainder(self, functionals, basis):
        """``h - H^T C k`` at the query points, [B, G, M, p]; ``basis`` h [B, M, p]."""
        explained, _ = self.posterior.respond(functionals, tf.transpose(self.columns, [0, 3, 1, 2]))
        return basis[:, None] - tf.transpose(explained[:, :, :, 0], [0, 3, 2, 1])

    def white(self, remainder):
        """W [B, G, p, M]; ``W^T W`` is the covariance that the trend's uncertainty adds."""
        right = tf.linalg.matrix_transpose(remainder * self.root)
        return tf.linalg.triangular_solve(self.factor, right)

    def nll(self):
        """The trend's share of the negative log marginal likelihood, [B, c]."""
        log_det = tf.reduce_sum(tf.math.log(tf.linalg.diag_part(self.factor)), axis=-1)
        return log_det - 0.5 * tf.reduce_sum(self.right * self.coefficients, axis=-1)


def _own_factor(posterior, trend, dof):
    """The factor of variances [B, c], and its share of the negative log likelihood."""
    values, noise = posterior.observations
    if dof is None:
        ones = tf.ones_like(values[:, 0])
        return ones, tf.zeros_like(ones)
    solved, _ = posterior.solve(values[..., None])
    quadratic = tf.reduce_sum(values * solved[..., 0], axis=1)
    if trend is not None:
        quadratic -= tf.reduce_sum(trend.right * trend.coefficients, axis=-1)
    quadratic = tf.nn.relu(quadratic)
    known = tf.cast(tf.math.is_finite(noise), values.dtype)
    count = tf.reduce_sum(known, axis=-1) + tf.zeros_like(quadratic)
    half = 0.5 * (dof + count)
    added = half * tf.math.log1p(quadratic / dof) - 0.5 * quadratic
    added += 0.5 * count * tf.math.log(0.5 * dof)
    added += tf.math.lgamma(0.5 * dof) - tf.math.lgamma(half)
    return (dof + quadratic) / (dof + count), added


def _values_at(query, posterior):
    """The functionals that are the functions' values at the query points."""
    dim = query.shape[-1]
    zeros = tf.zeros([1, dim], query.dtype), tf.zeros([1, dim, dim], query.dtype)
    return Flowed(query, posterior.kernel.flowed(*zeros))


def _each(basis, coefficients):
    """Basis functions [B, G, M, p] times coefficients [B, c, p], [B, c, M]."""
    return tf.einsum("bcmp,bcp->bcm", basis + tf.zeros_like(coefficients)[:, :, None], coefficients)
