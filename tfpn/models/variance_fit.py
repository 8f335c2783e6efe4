"""The fit of predicted variances to residuals, by which a regression is calibrated."""

import numpy as np

from tfpn.types import Array


def fit_variance(residuals: Array, variances: Array) -> Array:
    """Logs of factor and noise of largest likelihood for ``N(0, factor * variance + noise)``."""
    from scipy import optimize

    variances = np.asarray(variances, np.float64)
    scale = np.mean(np.square(residuals))
    if not np.any(variances):  # no factor makes anything of them: all is noise
        return np.array([0.0, np.log(scale)])
    relative = variances / np.mean(variances)

    def negative_log_likelihood(logs):
        total = np.exp(logs[0]) * relative + np.exp(logs[1])
        return np.sum(np.log(total) + np.square(residuals) / scale / total)

    # From noise alone and from the network's variance alone: either may be a local optimum.
    bounds = [(-30.0, 10.0)] * 2
    best = min(
        (
            optimize.minimize(negative_log_likelihood, start, bounds=bounds)
            for start in ([-10.0, 0.0], [0.0, -10.0], [-0.7, -0.7])
        ),
        key=lambda result: result.fun,
    )
    return best.x + np.log(scale) - np.array([np.log(np.mean(variances)), 0.0])
