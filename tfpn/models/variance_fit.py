"""Fits predicted variances to residuals, to calibrate a regression."""

import numpy as np

from tfpn.types import Array


def fit_variance(residuals: Array, variances: Array) -> Array:
    """Logs of the likeliest factor and noise for ``N(0, factor * variance + noise)``."""
    from scipy import optimize

    variances = np.asarray(variances, np.float64)
    scale = np.mean(np.square(residuals))
    if not np.any(variances):  # a factor has no effect: all is noise
        return np.array([0.0, np.log(scale)])
    relative = variances / np.mean(variances)

    def negative_log_likelihood(logs):
        total = np.exp(logs[0]) * relative + np.exp(logs[1])
        return np.sum(np.log(total) + np.square(residuals) / scale / total)

    # The search starts from only noise and from only the network's variance: each may lead to a
    # local optimum.
    bounds = [(-30.0, 10.0)] * 2
    best = min(
        (
            optimize.minimize(negative_log_likelihood, start, bounds=bounds)
            for start in ([-10.0, 0.0], [0.0, -10.0], [-0.7, -0.7])
        ),
        key=lambda result: result.fun,
    )
    return best.x + np.log(scale) - np.array([np.log(np.mean(variances)), 0.0])
