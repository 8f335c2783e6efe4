"""What must not matter to `convolve`: order, what is unobserved, origin and units."""

import numpy as np
import pytest
from convolution_examples import ARGUMENTS, EPS, NOISE, assert_all_close, example, gradients

from tfpn.math import convolve


@pytest.mark.parametrize("stored", [np.nan, np.inf, -1e30])
@pytest.mark.parametrize("noise", NOISE)
def test_what_is_stored_where_nothing_is_observed_changes_nothing(noise, stored):
    given = example(noise=noise)
    given["variance"][1, 4] = np.inf
    other = {key: value.copy() for key, value in given.items()}
    other["values"][np.isinf(given["variance"])] = stored
    padding = np.isinf(given["variance"]).all(-1)
    assert padding.any()
    if not np.isfinite(stored):
        other["points"][padding] = stored
    expected, found = gradients(given, noise), gradients(other, noise)
    assert_all_close(found[0], expected[0], rtol=1e-12, atol=1e-13)
    for key in ARGUMENTS:
        assert_all_close([found[1][key]], [expected[1][key]], rtol=1e-11, atol=1e-12)
    for result in (expected, found):
        assert not np.any(result[1]["values"].numpy()[np.isinf(given["variance"])])
        assert not np.any(result[1]["variance"].numpy()[np.isinf(given["variance"])])
        assert not np.any(result[1]["points"].numpy()[padding])


@pytest.mark.parametrize("noise", NOISE)
def test_points_in_any_order(noise):
    given = example(noise=noise, n=7)
    order = np.random.default_rng(3).permutation(7)
    other = {k: v[:, order] if k in ARGUMENTS[:3] else v for k, v in given.items()}
    expected, found = gradients(given, noise), gradients(other, noise)
    # Another order of elimination: rounding times the condition number.
    assert_all_close(found[0], expected[0], rtol=1e-11, atol=1e-13)
    for key in ARGUMENTS:
        one = expected[1][key].numpy()
        one = one[:, order] if key in ARGUMENTS[:3] else one
        assert_all_close([found[1][key]], [one], rtol=1e-10, atol=1e-12)
    # Queries do not see each other.
    back = convolve(**{**given, "query": given["query"][:, ::-1]}, noise=noise)
    assert_all_close([r[:, ::-1] for r in back[:2]], expected[0][:2], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("noise", NOISE)
def test_unobserved_points_change_nothing(noise):
    given = example(noise=noise)
    other = dict(given)
    for key, filling in (("points", 0.3), ("values", np.nan), ("variance", np.inf)):
        extra = np.full((2, 3, given[key].shape[-1]), filling)
        other[key] = np.concatenate([extra[:, :1], given[key], extra[:, 1:]], axis=1)
    expected, found = gradients(given, noise), gradients(other, noise)
    assert_all_close(found[0], expected[0], rtol=1e-12, atol=1e-13)
    for key in ARGUMENTS:
        one = found[1][key].numpy()
        if key in ARGUMENTS[:3]:
            assert not np.any(one[:, :1]) and not np.any(one[:, -2:])
            one = one[:, 1:-2]
        assert_all_close([one], [expected[1][key]], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shifting_everything_changes_nothing(dtype):
    given = example(dtype=dtype)
    shift = np.array([10.0, -20.0], dtype)
    other = dict(given)
    for key in ("points", "query"):
        other[key] = given[key] + shift
    expected, found = gradients(given, "channel"), gradients(other, "channel")
    # Coordinates are rounded at the shift's size: eps 20 / length, times the condition number.
    unit = 25 * EPS[dtype]
    assert_all_close(found[0], expected[0], rtol=100 * unit, atol=10 * unit)
    for key in ARGUMENTS:
        assert_all_close([found[1][key]], [expected[1][key]], rtol=100 * unit, atol=30 * unit)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
@pytest.mark.parametrize("noise", NOISE)
def test_units_do_not_matter(noise, unit):
    powers = {"points": 1, "query": 1, "drift": 1, "length_scale": 1, "diffusion": 2}
    given = example(noise=noise, dtype="float32")
    unit = np.float32(unit)
    other = {key: value * unit ** powers.get(key, 0) for key, value in given.items()}
    expected, found = gradients(given, noise), gradients(other, noise)
    # Every number is rounded anew: eps times the condition number.
    assert_all_close(found[0], expected[0], rtol=1e-4, atol=1e-5)
    for key in ARGUMENTS:
        natural = found[1][key] * unit ** powers.get(key, 0)
        assert_all_close([natural], [expected[1][key]], rtol=1e-3, atol=3e-5)


@pytest.mark.parametrize("noise", NOISE)
def test_scale_of_the_values_does_not_matter(noise):
    given = example(noise=noise, dtype="float32")
    expected = convolve(**given, noise=noise)
    seen = np.isfinite(given["variance"]).sum(1)
    for unit in np.float32([1e-4, 1e4]):
        powers = {"values": 1, "signal_std": 1, "variance": 2, "observation_variance": 2}
        other = {key: value * unit ** powers.get(key, 0) for key, value in given.items()}
        mean, variance, nll = convolve(**other, noise=noise)
        found = mean / unit, variance / unit**2, nll - seen * np.log(unit)
        assert_all_close(found, expected, rtol=1e-4, atol=1e-5)
