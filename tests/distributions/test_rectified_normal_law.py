"""The rectified normal's moments and law against exact values, in the tails too."""

import mpmath
import numpy as np
import oracle
import pytest
import tensorflow as tf
from tolerance import rounding

import tfpn
from tfpn.distributions import RectifiedNormal


def of_case(case, by):
    given = case["inputs"]
    if by == "scale":
        return RectifiedNormal(np.float64(given["mu"]), scale=np.sqrt(given["v"]))
    return RectifiedNormal(np.float64(given["mu"]), squared_scale=np.float64(given["v"]))


def exact_log_atom(distribution):
    """log P(h = 0) at 50 digits."""
    with mpmath.workdps(50):
        z = -mpmath.mpf(float(distribution.loc)) / mpmath.mpf(float(distribution.scale))
        if z < 0:
            return float(mpmath.log(mpmath.ncdf(z)))
        return float(mpmath.log1p(-mpmath.ncdf(-z)))


CASES = oracle.cases("rectified_univariate")
WITH_DENSITY = [param for param in CASES if "x" in param.values[0]["inputs"]]


@pytest.mark.parametrize("by", ["scale", "squared_scale"])
@pytest.mark.parametrize("case", CASES)
def test_moments(case, by):
    distribution = of_case(case, by)
    oracle.assert_agrees(case, "mean", distribution.mean())
    # Through the square root v is off by eps.
    loose = {} if by == "squared_scale" else {"rtol": 1e-9, "atol": 0.0}
    oracle.assert_agrees(case, "variance", distribution.variance(), **loose)
    np.testing.assert_allclose(distribution.stddev() ** 2, distribution.variance(), rtol=1e-14)
    np.testing.assert_array_equal(
        distribution.mean_and_variance(),
        tfpn.math.rectified_moments(distribution.loc, distribution.squared_scale),
    )


@pytest.mark.parametrize("by", ["scale", "squared_scale"])
@pytest.mark.parametrize("case", WITH_DENSITY)
def test_law(case, by):
    distribution = of_case(case, by)
    x = np.array(case["inputs"]["x"])
    log_prob, cdf = (oracle.array(case["outputs"][k]) for k in ("log_prob_at_x", "cdf_at_x"))
    oracle.assert_agrees(case, "log_prob_at_x", distribution.log_prob(x))
    np.testing.assert_allclose(distribution.prob(x), np.exp(log_prob), rtol=1e-11, atol=1e-300)
    oracle.assert_agrees(case, "cdf_at_x", distribution.cdf(x))
    zero = tf.zeros([], tf.float64)
    oracle.assert_agrees(case, "log_prob_zero", distribution.log_prob(zero))
    oracle.assert_agrees(case, "prob_zero", distribution.prob(zero))
    oracle.assert_agrees(case, "prob_zero", distribution.cdf(zero))
    oracle.assert_agrees(case, "log_prob_zero", distribution.log_cdf(zero))
    # The exponential multiplies the rounding of a logarithm of up to 700.
    log_cdf = distribution.log_cdf(x)
    np.testing.assert_allclose(np.exp(log_cdf), cdf, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(distribution.survival_function(x), 1 - cdf, rtol=0, atol=rounding(8))
    # P(h > x) = P(-f < -x), the mass of the atom of relu(x - f), keeps its digits where 1 - CDF
    # does not.
    mirrored = [
        0.0 if each < 0 else RectifiedNormal(each - distribution.loc, distribution.scale)
        for each in x
    ]
    expected = [0.0 if m == 0.0 else exact_log_atom(m) for m in mirrored]
    np.testing.assert_allclose(distribution.log_survival_function(x), expected, rtol=1e-12)
    np.testing.assert_allclose(distribution.survival_function(x), np.exp(expected), rtol=1e-11)


@pytest.mark.parametrize("case", WITH_DENSITY)
def test_law_in_float32(case):
    given = case["inputs"]
    loc, v, x = (np.float32(given[k]) for k in ("mu", "v", "x"))
    distribution = RectifiedNormal(loc, squared_scale=v)
    # mu, v and x are rounded: the log density moves by eps times its own size, and the squares of
    # x / sigma and mu / sigma.
    expected = oracle.array(case["outputs"]["log_prob_at_x"])
    size = 10 + float(loc) ** 2 / v + np.square(x, dtype=np.float64) / v
    found = distribution.log_prob(x).numpy()
    assert found.dtype == np.float32
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    error = np.abs(found[finite] - expected[finite])
    np.testing.assert_array_less(error, 1e-6 * size[finite])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_log_mass_of_the_atom_keeps_its_digits(dtype):
    """Where it is about -Phi(loc / scale), and where it is about -(loc / scale)^2 / 2."""
    largest = {np.float32: 12.5, np.float64: 37.0}[dtype]
    loc = np.concatenate([np.linspace(-largest, 2 * largest, 80), [1e3, 1e6]]).astype(dtype)
    distribution = RectifiedNormal(loc, np.ones((), dtype))
    expected = np.array([exact_log_atom(part) for part in map(RectifiedNormal, loc, loc * 0 + 1)])
    # Conditioning of exp(-z^2/2) where the mass is nearly 1, and some roundings.
    unit = np.finfo(dtype).eps * np.maximum(10, np.where(loc < 0, loc, 0) ** 2)
    for found in (distribution.log_prob(0.0), distribution.log_cdf(0.0)):
        assert np.all(np.abs(found - expected) <= unit * np.abs(expected))


@pytest.mark.parametrize("case", CASES)
def test_raw_moments(case):
    distribution = of_case(case, "squared_scale")
    for order in (1, 2, 3, 4):
        output = "mean" if order == 1 else f"raw_moment_{order}"
        oracle.assert_agrees(case, output, distribution.raw_moment(order))


@pytest.mark.parametrize("dtype, top", [(np.float32, 12.0), (np.float64, 36.0)])
def test_tails_keep_their_relative_accuracy(dtype, top):
    z = np.linspace(-top, top, 97).astype(dtype)
    distribution = RectifiedNormal(-z, dtype(1))
    unit = 4 * np.finfo(dtype).eps * np.maximum(1, z.astype(np.float64) ** 2)
    expected = np.array([exact_log_atom(RectifiedNormal(x, x * 0 + 1)) for x in z])
    for found in (distribution.survival_function(dtype(0)),):
        # In the logarithm the digits of 1 - Phi are kept too.
        assert np.all(np.abs(found / np.exp(expected) - 1) <= unit)
    expected = np.array([exact_log_atom(RectifiedNormal(x, x * 0 + 1)) for x in -z])
    assert np.all(np.abs(distribution.cdf(dtype(0)) / np.exp(expected) - 1) <= unit)
