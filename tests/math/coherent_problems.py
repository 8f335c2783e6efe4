"""Observations and parameters for the tests of coherent uncertainty."""

import numpy as np

BATCH, POINTS, DIM, OPERATORS, FILTERS = 2, 12, 2, 3, 4


def problem(channels, seed=0, dtype="float64"):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(OPERATORS, DIM, DIM)) * 0.1
    parameters = {
        "weights": rng.normal(size=(OPERATORS, channels, FILTERS)),
        "drift": rng.normal(size=(OPERATORS, DIM)) * 0.2,
        "diffusion": factor @ np.swapaxes(factor, 1, 2),
        "signal_std": np.array(1.2),
        "length_scale": np.array(0.3),
    }
    variance = np.full((BATCH, POINTS, channels), 0.05)
    variance[1, -3:] = np.inf
    points = rng.uniform(size=(BATCH, POINTS, DIM))
    values = rng.normal(size=(BATCH, POINTS, channels))
    values[1, -3:] = np.nan
    data = [array.astype(dtype) for array in (points, values, variance)]
    return data, {key: value.astype(dtype) for key, value in parameters.items()}
