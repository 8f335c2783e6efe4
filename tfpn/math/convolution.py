"""A = sum_k W_k exp(D_k) applied in closed form to a GP posterior (eqs. A_rbf, A_rbf_A)."""

import tensorflow as tf

from tfpn.math.checks import floating
from tfpn.math.conditioning import prepare
from tfpn.math.operators import mix_response, mixed_variance, read_operators
from tfpn.math.precision import in_double_precision
from tfpn.math.shared_noise import convolve_shared
from tfpn.math.stochastic import ESTIMATORS, PROBES, estimate_condition


def convolve(
    points,
    values,
    variance,
    query,
    *,
    weights,
    drift,
    diffusion,
    signal_std,
    length_scale,
    noise="shared",
    observation_noise=0.0,
    bias=None,
    marginal_likelihood_trains="all",
    variance_estimator="exact",
    num_probes=20,
    probes="rademacher",
    seed=None,
    double_precision=True,
):
    """Flow of K drift-diffusions of a GP posterior, channels mixed: exact mean and variance.

    Each input channel is a zero-mean GP with the RBF kernel, observed at ``points``. With
    ``w_b = (K + S_b)^-1 y_b`` and
    ``N_ij^b(x) = k_ij(x, x) - k_i(x, X) (K + S_b)^-1 k_j(x, X)^T`` the results are

        mean_a(x) = sum_{i,b} W_i[b, a] k_i(x, X) w_b
        var_a(x)  = sum_{i,j,b} W_i[b, a] W_j[b, a] N_ij^b(x)

    Args:
        points: [B, N, d], float32 or float64, finite where something is observed.
        values: [B, N, c_in], never read where the variance is +inf.
        variance: noise variance [B, N, c_in], >= 0; 0 = exact, +inf = not observed. It is raised to
            a least one, relative to signal_std^2: 1e-12 in float64 (beyond 1000 observed points
            1e-15 times their number); in float32 the larger of 1e-12 and 2e-13 times the number of
            observed points, so that exact values of one place that contradict each other are
            averaged; without ``double_precision`` 3e-5 (beyond 75 points 4e-7 times their number).
        query: points of the result, [B, M, d], finite.
        weights: W_k transposed, as Keras kernels are, [K, c_in, c_out].
        drift: beta [K, d], in units of the points.
        diffusion: Sigma [K, d, d], symmetric positive semidefinite.
        signal_std: prior standard deviation s, scalar, or [c_in] with noise="channel".
        length_scale: l, scalar, or [c_in] with noise="channel", in units of the points.
        noise: "shared" conditions all channels on the mean of their variances, one factorisation
            an example; all channels of a point must then be observed or missing together.
            "channel" is exact for any variances, with a factorisation for each channel of an
            example, of the points that it observed; memory is bounded by blocks of them
            (`tfpn.math.sporadic`).
        observation_noise: variance added to ``variance`` where observed, scalar or [c_in].
        bias: added to the mean, [c_out], or None.
        marginal_likelihood_trains: "all" differentiates the marginal likelihood with respect to
            everything; "kernel" takes points, values and variance as constants in it.
        variance_estimator: "exact", or "stochastic" for the unbiased estimate of the paper's
            appendix on PhysioNet 2012, which applies the posterior covariance of all outputs to
            random probes and never forms it. It is noisy, may be negative, and took longer than
            the exact variance in all that was measured (`benchmarks/README.md`).
        num_probes: P, number of probes of "stochastic"; its error falls as P^(-1/2).
        probes: "rademacher" (+1 or -1) or "gaussian" (the paper's, with a larger error).
        seed: of the probes, an integer or an integer tensor [2]; needed with "stochastic".
        double_precision: whether float32 arguments are computed in float64 where float32's digits
            do not suffice: with noise="shared" and the exact variance the examples whose points are
            close for their noise or where little is left of the prior variance, and otherwise all.
            Then mean, variance and likelihood are right to about 1e-3 of themselves. False is for
            features whose variances are no measurement's: all but the factorisation of shared noise
            is float32's. Without effect in float64.

    Returns:
        mean [B, M, c_out], variance [B, M, c_out] and the negative log marginal likelihood of
        each input channel [B, c_in] (0 for a channel without any observation).

    Raises:
        ValueError: for shapes that do not agree, an unknown option or a missing seed.
        TypeError: for half precision.
        tf.errors.InvalidArgumentError: with noise="shared", if a point is observed in some
            channels only; for a negative variance or one that is NaN, an observed point that is
            not finite, and a prior or flow whose covariance cannot be factorised (none of it is
            checked inside XLA-compiled functions).

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
    values = floating(values, "values")
    observed = points, values, variance, query
    options = {
        "weights": weights, "drift": drift, "diffusion": diffusion, "signal_std": signal_std,
        "length_scale": length_scale, "observation_noise": observation_noise, "bias": bias,
        "marginal_likelihood_trains": marginal_likelihood_trains,
    }  # fmt: skip
    if noise == "shared" and variance_estimator == "exact":
        return convolve_shared(
            *observed, **options, refined=double_precision and values.dtype == tf.float32
        )
    return _convolve(
        *observed, **options, noise=noise, double_precision=double_precision,
        variance_estimator=variance_estimator, num_probes=num_probes, probes=probes, seed=seed,
    )  # fmt: skip


@in_double_precision
def _convolve(
    points, values, variance, query, *, weights, drift, diffusion, signal_std, length_scale, noise,
    observation_noise, bias, marginal_likelihood_trains, variance_estimator, num_probes, probes,
    seed,
):  # fmt: skip
    """`convolve` with noise for each channel or the stochastic estimator."""
    gp = prepare(
        points, values, variance, signal_std=signal_std, length_scale=length_scale, noise=noise,
        observation_noise=observation_noise,
    )  # fmt: skip
    weights, operators = read_operators(gp, query, weights, drift, diffusion)
    trains = marginal_likelihood_trains
    if variance_estimator == "stochastic":
        if gp.each_prior:
            raise ValueError(
                "variance_estimator='stochastic' takes one prior for all channels: give scalars "
                "for signal_std and length_scale, or variance_estimator='exact'."
            )
        response, new_variance, nll = estimate_condition(
            gp, operators, weights, trains, num_probes=num_probes, probes=probes, seed=seed
        )
    else:
        response, explained, nll = operators.condition(trains)
        new_variance = mixed_variance(operators.prior(), explained, weights, gp.shared)
    return mix_response(response, weights, bias), new_variance, nll


@in_double_precision
def convolve_mean(
    points,
    values,
    variance,
    query,
    *,
    weights,
    drift,
    diffusion,
    signal_std,
    length_scale,
    noise="shared",
    observation_noise=0.0,
    bias=None,
    marginal_likelihood_trains="all",
):
    """Mean and negative log marginal likelihood of `convolve`, without its variance.

    For networks that do not carry uncertainty: it saves the products behind N_ij. Arguments and
    errors are those of `convolve`; ``double_precision`` computes all of float32 in float64.

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
    gp = prepare(
        points, values, variance, signal_std=signal_std, length_scale=length_scale, noise=noise,
        observation_noise=observation_noise,
    )  # fmt: skip
    weights, operators = read_operators(gp, query, weights, drift, diffusion)
    if gp.each_prior:
        response, _, nll = operators.condition(marginal_likelihood_trains)
    else:
        response, nll = gp.condition_mean(operators.cross(), marginal_likelihood_trains)
    return mix_response(response, weights, bias), nll


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
