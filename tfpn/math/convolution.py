"""Convolutions and integrals of GP posteriors as functions of plain tensors."""

from typing import Any

import tensorflow as tf

from tfpn.checks import require_rank
from tfpn.math.arguments import read_observed
from tfpn.math.kernels.kernel import one_region
from tfpn.math.operator import Operator
from tfpn.math.process import process_covariance, process_marginals
from tfpn.math.stochastic import ESTIMATORS, PROBES, Estimator
from tfpn.math.uncertainty import Diagonal, Joint, LowRank, Without
from tfpn.math.uncertainty.base import Uncertainty
from tfpn.types import KernelLike, Probes, Tensor, Trains, VarianceEstimator


def convolve(
    points: Tensor,
    values: Tensor,
    variance: Tensor,
    query: Tensor,
    *,
    weights: Tensor,
    drift: Tensor,
    diffusion: Tensor,
    signal_std: Tensor,
    length_scale: Tensor,
    kernel: KernelLike = "rbf",
    noise: str = "shared",
    observation_variance: Tensor = 0.0,
    bias: Tensor | None = None,
    marginal_likelihood_trains: Trains = "all",
    variance_estimator: VarianceEstimator = "exact",
    num_probes: int = 20,
    probes: Probes = "rademacher",
    seed: int | None = None,
    double_precision: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """Applies ``A = sum_i W_i exp(D_i)`` to GP posteriors: exact mean and variance.

    Each input channel is a zero-mean GP, observed at ``points``. A has K drift-diffusion flows and
    mixes the channels. With ``w_b = (K + S_b)^-1 y_b`` and
    ``N_ij^b(x) = k_ij(x, x) - k_i(x, X) (K + S_b)^-1 k_j(x, X)^T`` the results are

        mean_a(x) = sum_{i,b} W_i[b, a] k_i(x, X) w_b
        var_a(x)  = sum_{i,j,b} W_i[b, a] W_j[b, a] N_ij^b(x)

    Args:
        points: [B, N, d], float32 or float64, finite where something is observed.
        values: [B, N, c_in], never read where the variance is +inf.
        variance: noise variance [B, N, c_in], >= 0; 0 = exact, +inf = not observed. It is raised to
            a least variance relative to signal_std^2: the larger of 1e-12 and 2e-13 times the
            number of observed points. So exact values that contradict each other at one place are
            averaged. In float32 without ``double_precision`` the least is 3e-5, or 4e-7 times the
            number of points beyond 75 points.
        query: points of the result, [B, M, d], finite.
        weights: W_k, transposed like Keras kernels, [K, c_in, c_out].
        drift: beta [K, d], in units of the points.
        diffusion: Sigma [K, d, d], symmetric positive semidefinite.
        signal_std: prior standard deviation s, scalar, or [c_in] with noise="channel".
        length_scale: l, scalar, or [c_in] with noise="channel", in units of the points.
        kernel: "rbf", "matern32", "matern52", "rational_quadratic", or anything else that
            `tfpn.math.kernels.read_mixture` takes.
        noise: "shared" conditions all channels on the mean of their variances, with one
            factorisation for each example. All channels of a point must then be observed or missing
            together. "channel" is exact for any variances, with a factorisation for each channel of
            an example. It factorises the points that the channel observed, in blocks that bound the
            memory (`tfpn.math.posterior.channel`).
        observation_variance: noise variance to add to ``variance`` where observed, scalar or
            [c_in].
        bias: [c_out], added to the mean, or None.
        marginal_likelihood_trains: "all" differentiates the marginal likelihood with respect to
            everything; "kernel" takes points, values and variance as constants in it.
        variance_estimator: "exact", or "stochastic" for the unbiased estimate of the paper's
            appendix on PhysioNet 2012. It applies the posterior covariance of all outputs to random
            probes and never forms it. It is noisy and may be negative. In all measurements it took
            longer than the exact variance (`benchmarks/variance_estimators`).
        num_probes: P, number of probes of "stochastic". Its error falls as P^(-1/2).
        probes: "rademacher" (+1 or -1) or "gaussian" (the paper's, with a larger error).
        seed: seed of the probes, an integer or an integer tensor [2]. "stochastic" needs it.
        double_precision: whether to compute float32 arguments in float64 where the digits of
            float32 do not suffice. With the exact variance these are the examples (with
            noise="channel" the channels of each example) whose points are close for their noise,
            and the examples that have little of the prior variance left; otherwise they are all.
            Then mean, variance and likelihood have relative errors of about 1e-3. Give False for
            features, whose variances are not those of measurements: then all except the
            factorisation is in float32. It has no effect in float64.

    Returns:
        mean [B, M, c_out], variance [B, M, c_out] and the negative log marginal likelihood of
        each input channel [B, c_in] (0 for a channel without any observation).

    Raises:
        ValueError: for shapes that do not agree, an unknown option or a missing seed.
        TypeError: for half precision.
        tf.errors.InvalidArgumentError: if a point is observed in some channels only, with
            noise="shared"; if a variance is negative or NaN; if an observed point is not finite; if
            a parameter of the prior is not positive and finite; or if the covariance of a flow
            cannot be factorised. XLA-compiled functions check none of this.

    Example:

    >>> import numpy as np, tfpn
    >>> points = np.linspace(0, 1, 9)[None, :, None]
    >>> values = np.sin(2 * np.pi * points)
    >>> mean, variance, nll = tfpn.math.convolve(
    ...     points, values, np.zeros_like(values), points,
    ...     weights=np.ones((1, 1, 1)), drift=np.array([[0.25]]), diffusion=np.zeros((1, 1, 1)),
    ...     signal_std=1.0, length_scale=0.3)
    >>> bool(abs(mean[0, 0, 0] - 1) < 0.01)  # (A f)(0) = f(0.25)
    True
    """
    _check_estimator(variance_estimator, num_probes, probes, seed)
    observed, operator = _problem(
        points, values, variance, query, weights=weights, drift=drift, diffusion=diffusion,
        signal_std=signal_std, length_scale=length_scale, kernel=kernel, noise=noise,
        observation_variance=observation_variance, bias=bias,
        marginal_likelihood_trains=marginal_likelihood_trains, double_precision=double_precision,
    )  # fmt: skip
    if variance_estimator == "exact":
        mean, variance, _, nll = Diagonal().convolve(observed, operator, None, None)
        return mean, variance, nll
    if observed.kernel.each:
        raise ValueError(
            "variance_estimator='stochastic' takes one prior for all channels: give scalars "
            "for signal_std and length_scale, or variance_estimator='exact'."
        )
    estimator = Estimator(num_probes, probes, seed)
    return Diagonal(estimator).estimate(observed, operator)


def convolve_mean(
    points: Tensor, values: Tensor, variance: Tensor, query: Tensor, **arguments: Any
) -> tuple[Tensor, Tensor]:
    """Mean and negative log marginal likelihood of `convolve`, without its variance.

    It is for networks that do not carry uncertainty, and saves the products behind N_ij. Arguments
    and errors are those of `convolve`, without those of the estimator.

    Returns:
        mean [B, M, c_out] and the negative log marginal likelihood [B, c_in].

    Example:

    >>> import numpy as np, tfpn
    >>> points = np.linspace(0, 1, 9)[None, :, None]
    >>> mean, nll = tfpn.math.convolve_mean(
    ...     points, np.sin(2 * np.pi * points), np.zeros_like(points), points,
    ...     weights=np.ones((1, 1, 1)), drift=np.array([[0.25]]), diffusion=np.zeros((1, 1, 1)),
    ...     signal_std=1.0, length_scale=0.3)
    >>> mean.shape, nll.shape
    (TensorShape([1, 9, 1]), TensorShape([1, 1]))
    """
    problem = _problem(points, values, variance, query, **arguments)
    mean, _, _, nll = Without().convolve(*problem, None, None)
    return mean, nll


def convolve_low_rank(
    points: Tensor,
    values: Tensor,
    variance: Tensor,
    factors: Tensor,
    query: Tensor,
    *,
    rank: int = 8,
    query_weight: Tensor | None = None,
    **arguments: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`convolve` with coherent uncertainty (`tfpn.math.uncertainty.low_rank`).

    Args:
        points, values, variance, query: as in `convolve`, with noise="shared".
        factors: factors of the values, [r, B, N, c_in], 0 where unobserved; None if the
            observations' errors are independent.
        rank: number of factors to find if none are given.
        query_weight: [B, M, 1], 0 at query points that are padding and 1 elsewhere, or None.
        **arguments: as in `convolve`, without those of the estimator.

    Returns:
        mean and variance [B, M, c_out], factors [r, B, M, c_out] and the negative log marginal
        likelihood [B, c_in].

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
    observed, operator = _problem(points, values, variance, query, **arguments)
    missing = tf.zeros_like(operator.query[..., :1])
    if query_weight is not None:
        missing = 1.0 - tf.convert_to_tensor(query_weight, missing.dtype)
    return LowRank(rank).convolve(observed, operator, factors, missing)


def convolve_joint(
    points: Tensor,
    values: Tensor,
    variance: Tensor,
    covariance: Tensor,
    query: Tensor,
    **arguments: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """`convolve` with the joint covariance over points and channels.

    The formulas are those of `tfpn.math.uncertainty.joint.Joint`.

    Args:
        points, values, variance, query: as in `convolve`, with noise="shared".
        covariance: covariance of the values, [B, N, c_in, N, c_in]; None if the observations'
            errors are independent.
        **arguments: as in `convolve`, without those of the estimator.

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
    observed, operator = _problem(points, values, variance, query, **arguments)
    missing = tf.zeros_like(operator.query[..., :1])
    mean, _, covariance, nll = Joint().convolve(observed, operator, covariance, missing)
    return mean, covariance, nll


def convolve_process(
    points: Tensor,
    values: Tensor,
    variance: Tensor,
    query: Tensor,
    *,
    factors: Tensor | None = None,
    covariance: Tensor | None = None,
    **arguments: Any,
) -> tuple[Tensor, Tensor]:
    """Mean, and covariance over the query points, of each output channel of `convolve`.

    The covariance's diagonal is the variance of `convolve`, `convolve_low_rank` (with ``factors``)
    or `convolve_joint` (with ``covariance``). In float64 it takes about 32 bytes for each number of
    the covariance, and little more.

    Args:
        points, values, variance, query: as in `convolve`.
        factors: factors of the values, [r, B, N, c_in], or None.
        covariance: covariance of the values, [B, N, c_in, N, c_in], or None.
        **arguments: as in `convolve`, without those of the estimator.

    Returns:
        mean [B, M, c_out] and covariance [B, c_out, M, M].

    Example:

    >>> import numpy as np, tfpn
    >>> points = np.linspace(0, 1, 9)[None, :, None]
    >>> mean, covariance = tfpn.math.convolve_process(
    ...     points, np.sin(2 * np.pi * points), np.full((1, 9, 1), 0.1), points[:, :4],
    ...     weights=np.ones((1, 1, 2)), drift=np.array([[0.25]]), diffusion=np.zeros((1, 1, 1)),
    ...     signal_std=1.0, length_scale=0.3)
    >>> mean.shape, covariance.shape
    (TensorShape([1, 4, 2]), TensorShape([1, 2, 4, 4]))
    """
    observed, operator = _problem(points, values, variance, query, **arguments)
    way: Uncertainty = Diagonal()
    beside = None
    if factors is not None:
        way, beside = LowRank(), factors
    if covariance is not None:
        way, beside = Joint(), covariance
    found = way, observed, operator, beside
    return process_marginals(*found)[0], process_covariance(*found)


def integrate(
    points: Tensor,
    values: Tensor,
    variance: Tensor,
    *,
    signal_std: Tensor,
    length_scale: Tensor,
    kernel: KernelLike = "rbf",
    box: Any = None,
    disc: Any = None,
    ball: Any = None,
    noise: str = "shared",
    observation_variance: Tensor = 0.0,
    marginal_likelihood_trains: Trains = "all",
    double_precision: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """Integral of each channel's GP posterior over R^d, a box, a disc or a ball (the appendix).

        mean = (P k)(X) (K + S)^-1 y        variance = P k P' - (P k)(X) (K + S)^-1 (P k)(X)^T

    Over R^d, P k = a everywhere and the variance is infinite.

    Args:
        points, values, variance: the observations, as in `convolve`.
        box: ``(low, high)``, each a scalar or [d].
        disc, ball: ``(centre, radius)``: [2] for a disc of the plane or [3] for a ball in space,
            and a scalar. Without box, disc and ball the region is R^d.
        signal_std, length_scale: scalars.
        kernel, noise, observation_variance, marginal_likelihood_trains, double_precision: as in
            `convolve`.

    Returns:
        mean [B, c], variance [B, c] and the negative log marginal likelihood [B, c].

    Example:

    >>> import numpy as np, tfpn
    >>> points = np.linspace(0, 1, 21)[None, :, None]
    >>> mean, variance, _ = tfpn.math.integrate(
    ...     points, points**2, np.zeros_like(points), signal_std=1.0, length_scale=0.5,
    ...     box=(0.0, 1.0))
    >>> round(float(mean[0, 0]), 4)
    0.3333
    """
    observed = read_observed(
        points, values, variance, signal_std=signal_std, length_scale=length_scale, kernel=kernel,
        noise=noise, observation_variance=observation_variance,
        marginal_likelihood_trains=marginal_likelihood_trains, double_precision=double_precision,
    )  # fmt: skip
    if observed.kernel.each:
        raise ValueError(
            "integrate takes one prior for all channels: give scalars for signal_std and "
            f"length_scale, found the shape {observed.kernel.signal_std.shape}."
        )
    region = one_region(box=box, disc=disc, ball=ball)
    mean, variance, _, nll = Diagonal().integrate(observed, region, None)
    return mean, variance, nll


def _problem(points, values, variance, query, *, weights, drift, diffusion, bias=None, **prior):
    """Checks the arguments, and returns the observations and the operator."""
    observed = read_observed(points, values, variance, **prior)
    query, weights, drift, diffusion = (
        tf.convert_to_tensor(t, observed.values.dtype) for t in (query, weights, drift, diffusion)
    )
    require_rank(query, "query", ("B", "M", "d"))
    require_rank(weights, "weights", ("K", "c_in", "c_out"))
    dim, channels = observed.points.shape[-1], observed.values.shape[-1]
    operators, _, out = weights.shape
    for name, tensor, shape in (
        ("query", query, [observed.points.shape[0], None, dim]),
        ("weights", weights, [operators, channels, None]),
        ("drift", drift, [operators, dim]),
        ("diffusion", diffusion, [operators, dim, dim]),
    ):
        if not tensor.shape.is_compatible_with(shape):
            raise ValueError(
                f"{name} has shape {tensor.shape}, expected {tf.TensorShape(shape)}: {dim} spatial "
                f"dimension(s), {channels} input channel(s) and {operators} basis operator(s)."
            )
    bias = tf.zeros([out], weights.dtype) if bias is None else bias
    return observed, Operator(
        query, weights, drift, diffusion, tf.convert_to_tensor(bias, weights.dtype)
    )


def _check_estimator(variance_estimator, num_probes, probes, seed):
    for name, found, allowed in (
        ("variance_estimator", variance_estimator, ESTIMATORS),
        ("probes", probes, PROBES),
    ):
        if found not in allowed:
            raise ValueError(f"{name} must be one of {allowed}, found {found!r}.")
    if variance_estimator == "stochastic":
        if seed is None:
            raise ValueError(
                "variance_estimator='stochastic' needs a seed, an integer or an integer tensor "
                "[2]: found None."
            )
        if not (isinstance(num_probes, int) and num_probes >= 1):
            raise ValueError(f"num_probes must be a positive whole number, found {num_probes!r}.")
