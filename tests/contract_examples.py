"""Observations of unequal length, and comparisons, for the tests of the contract."""

import numpy as np

from tfpn.contract import observations


def assert_same(x, expected):
    assert set(x) == set(expected)
    for key in expected:
        np.testing.assert_array_equal(x[key], expected[key], err_msg=key)


def ragged_example(seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 6, size=5)
    lengths[0] = 5
    points = [rng.normal(size=(n, 2)).astype(dtype) for n in lengths]
    values = [rng.normal(size=(n, 3)).astype(dtype) for n in lengths]
    variance = [rng.uniform(0, 1, size=(n, 3)).astype(dtype) for n in lengths]
    for v, noise in zip(values, variance, strict=True):
        v[rng.random(v.shape) < 0.4] = np.nan
        noise[rng.random(v.shape) < 0.2] = np.inf
    # A padding point of the user's own, without coordinates.
    points[0][2], values[0][2] = [np.nan, 1.0], np.nan
    # A point that no channel is observed at, with coordinates.
    values[0][3] = np.nan
    return points, values, variance


def changed(array, index, value):
    array = array.copy()
    array[index] = value
    return array


def formed():
    points, values, variance = ragged_example(0)
    return observations(points, values, variance)
