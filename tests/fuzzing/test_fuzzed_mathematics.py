"""Functions of tensors and distributions under generated arguments, most of them odd.

Each is answered rightly or refused by a ValueError or TypeError, or by a
tf.errors.InvalidArgumentError where the docstring has it: no crash, no hang, no NaN that was not
handed in. See `generated` for how to run more cases.
"""

import contextlib
import functools

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
from generated import (
    REFUSED,
    TINY,
    answer,
    anything,
    arrays,
    both_types,
    floats,
    fuzz,
    observations,
    odd_prior,
    scales,
)
from hypothesis import strategies as st

import tfpn
from tfpn.distributions.multivariate_normal import multivariate_normal


@fuzz(50, data=st.data(), dtype=both_types, s=scales, length=scales, dim=st.integers(1, 3))
def test_kernels(data, dtype, s, length, dim):
    numbers = floats(-1e3, 1e3, dtype) | st.sampled_from([0.0, 1.0, TINY[dtype]])
    x1, x2 = (data.draw(arrays((n, dim), numbers, dtype)) for n in (2, 3))
    prior = {"signal_std": s, "length_scale": length}
    kernel = tfpn.math.rbf_kernel(x1, x2, **prior).numpy()
    squared = np.square(x1[:, None].astype("float64") - x2).sum(-1)
    expected = s**2 * np.exp(-squared / (2 * length**2))
    # The exponent is rounded relative to itself, and below -100 nothing is left.
    tolerance = 1e-4 if dtype == "float32" else 1e-11
    np.testing.assert_allclose(kernel, expected, rtol=tolerance, atol=1e-30)
    flow = {"drift": np.zeros(dim), "diffusion": np.zeros((dim, dim))}
    same = tfpn.math.diffused_kernel(x1[:, None], x2, **prior, **flow)
    np.testing.assert_allclose(same, kernel, rtol=tolerance, atol=1e-30)
    factor = data.draw(arrays((dim, dim), floats(-10, 10, "float64"), "float64"))
    flow = {"drift": factor[0], "diffusion": factor @ factor.T}
    failed = (tf.errors.InvalidArgumentError,)  # far wider than it is long, but for rounding
    call = functools.partial(tfpn.math.diffused_kernel, x1[:, None], x2)
    moved = answer(call, **prior, **flow, refusals=failed)
    if moved is None:
        assert np.trace(factor @ factor.T) > 1e-2 / np.finfo(dtype).eps * length**2
    else:
        assert ((moved >= 0) & (moved <= s**2 * (1 + 1e-5))).numpy().all()


@fuzz(150, a=arrays(st.lists(st.integers(0, 3), max_size=3).map(tuple), floats(-1, 1)),
      b=arrays(st.lists(st.integers(0, 3), max_size=3).map(tuple), floats(-1, 1)))  # fmt: skip
def test_kernels_of_any_shape(a, b):
    prior = {"signal_std": 1.0, "length_scale": 1.0}
    found = answer(tfpn.math.rbf_kernel, a, b, **prior)
    if found is not None:
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        assert found.shape == (*lead, a.shape[-2], b.shape[-2]) and a.shape[-1] == b.shape[-1]


def moments_input(dtype):
    """Means and variances of any size whose square is a number, and NaN."""
    largest = 1e18 if dtype == "float32" else 1e150
    mean = floats(-largest, largest, dtype) | st.sampled_from([0.0, -0.0, TINY[dtype], np.nan])
    variance = floats(0, largest, dtype) | st.sampled_from([0.0, TINY[dtype], 1.0, np.nan])
    return st.tuples(arrays(4, mean, dtype), arrays(4, variance, dtype), st.just(dtype))


@fuzz(150, given=both_types.flatmap(moments_input))
def test_rectified_moments(given):
    mean, variance, dtype = given
    first, second = (t.numpy() for t in tfpn.math.rectified_moments(mean, variance))
    unknown = np.isnan(mean) | np.isnan(variance)
    for result in (first, second):
        np.testing.assert_array_equal(np.isnan(result), unknown)
    m, v, e, s = (a[~unknown].astype("float64") for a in (mean, variance, first, second))
    slack = 1e-5 if dtype == "float32" else 1e-12
    smallest = np.finfo(dtype).tiny  # what is below it counts as 0
    assert (e >= np.maximum(m, 0) * (1 - slack) - smallest).all()
    assert (e <= np.maximum(m, 0) + 0.4 * np.sqrt(v) * (1 + slack) + smallest).all()
    assert ((s >= 0) & (s <= v * (1 + slack) + smallest)).all()
    normal = v > 1e-30
    z = m[normal] / np.sqrt(v[normal])
    centre = np.abs(z) < 3
    expected = np.sqrt(v[normal]) * (scipy.stats.norm.pdf(z) + z * scipy.stats.norm.cdf(z))
    np.testing.assert_allclose(e[normal][centre], expected[centre], rtol=100 * slack)


@fuzz(80, given=both_types.flatmap(moments_input), order=st.integers(1, 4) | anything)
def test_raw_moments(given, order):
    mean, variance, dtype = given
    mean, variance = np.clip(mean, -1e4, 1e4), np.clip(variance, 0, 1e4)
    found = answer(tfpn.math.rectified_raw_moments, mean, variance, order)
    if found is None:
        assert isinstance(order, bool) or order not in (1, 2, 3, 4)
        return
    unknown = np.isnan(mean) | np.isnan(variance)
    for moment in found:
        np.testing.assert_array_equal(np.isnan(moment), unknown)
        assert (moment.numpy()[~unknown] >= 0).all()
    np.testing.assert_allclose(
        found[0], tfpn.math.rectified_moments(mean, variance)[0], rtol=1e-4, atol=1e-30
    )


@fuzz(
    20,
    m=st.tuples(floats(-30, 30), floats(-30, 30)),
    v=st.tuples(floats(0, 1e6), floats(0, 1e6) | st.just(0.0)),
    rho=floats(-1, 1) | st.sampled_from([-1.0, 0.0, 1.0]),
    dtype=both_types,
)
def test_rectified_covariance(m, v, rho, dtype):
    (m1, m2), (v1, v2) = np.array(m, dtype), np.array(v, dtype)
    covariance = np.array(rho * np.sqrt(np.float64(v1) * v2), dtype)
    found = float(tfpn.math.rectified_covariance(m1, m2, v1, v2, covariance))
    other = float(tfpn.math.rectified_covariance(m2, m1, v2, v1, covariance))
    slack = (1e-6 if dtype == "float32" else 1e-13) * np.sqrt(np.float64(v1) * v2) + 1e-37
    assert abs(found - other) <= slack
    limits = [float(tfpn.math.rectified_moments(a, b)[1]) for a, b in ((m1, v1), (m2, v2))]
    assert abs(found) <= np.sqrt(limits[0] * limits[1]) * (1 + 1e-4) + slack
    assert found * rho >= -slack  # Slepian: relu grows


@fuzz(
    30,
    x=st.tuples(floats(odd=True), floats(odd=True)) | st.tuples(floats(-5, 5), floats(-5, 5)),
    rho=floats(-1, 1) | st.sampled_from([-1.0, 0.0, 1.0, np.nan]),
    dtype=both_types,
)
def test_bivariate_normal_cdf(x, rho, dtype):
    x1, x2, r = (np.array(a, dtype) for a in (*x, rho))
    found = float(tfpn.math.bivariate_normal_cdf(x1, x2, r))
    if np.isnan([x1, x2, r]).any():
        assert np.isnan(found)
        return
    marginals = scipy.stats.norm.cdf([x1, x2])
    slack = 1e-6 if dtype == "float32" else 1e-13
    # The bounds of Fréchet.
    assert max(0.0, marginals.sum() - 1.0) - slack <= found <= marginals.min() + slack


@fuzz(20, n=st.integers(0, 5), data=st.data(), dtype=both_types)
def test_product_moments(n, data, dtype):
    mean = data.draw(arrays(n, floats(-5, 5, dtype), dtype))
    factor = data.draw(arrays((n, 2), floats(-2, 2, "float64"), "float64"))
    covariance = (factor @ factor.T).astype(dtype)
    if n in (3, 4):  # hundreds of evaluations: see tests/math
        mean, covariance = mean[:2], covariance[:2, :2]
    found = answer(tfpn.math.rectified_product_moment, mean, covariance)
    if found is None:
        assert n in (0, 5)
        return
    size = np.prod(np.sqrt(mean**2 + np.diag(covariance)))
    # Cauchy and Schwarz.
    assert -1e-5 * size <= float(found) <= size * (1 + 1e-5) + 1e-30


@st.composite
def flows(draw, dim, channels):
    factors = draw(arrays((2, dim, dim), floats(-1, 1, "float64"), "float64"))
    return {
        "weights": draw(arrays((2, channels, 2), floats(-2, 2, "float64"), "float64")),
        "drift": draw(arrays((2, dim), floats(-2, 2, "float64"), "float64")),
        "diffusion": factors @ np.swapaxes(factors, 1, 2),
    }


@fuzz(
    30,
    x=observations(),
    s=st.sampled_from([0.5, 1.0, 30.0]),
    length=scales,
    noise=st.sampled_from(["shared", "channel"]),
    data=st.data(),
)
def test_convolve(x, s, length, noise, data):
    flow = data.draw(flows(x["points"].shape[-1], x["values"].shape[-1]))
    dtype = x["values"].dtype
    # Values for which float32 has digits left after a division by the noise floor.
    prior = {"signal_std": s, "length_scale": length, "noise": noise}
    arguments = {**{k: v.astype(dtype) for k, v in flow.items()}, **prior}
    query = x["points"][:, :1]
    mean, variance, nll = tfpn.math.convolve(**x, query=query, **arguments)
    assert all(np.isfinite(t).all() for t in (mean, variance, nll))
    most = s**2 * (np.abs(flow["weights"]).sum(0) ** 2).sum(0)
    assert ((variance >= 0) & (variance <= most * (1 + 1e-4))).numpy().all()
    seen = np.isfinite(x["variance"])
    assert (nll.numpy()[~seen.any(1)] == 0).all() and (mean.numpy()[~seen.any((1, 2))] == 0).all()
    order = np.random.default_rng(0).permutation(x["points"].shape[1])
    other = tfpn.math.convolve(
        **{key: value[:, order] for key, value in x.items()}, query=query, **arguments
    )
    # Relative to the largest value, times 1 / (noise floor) where exact values contradict.
    size = 1.0 + np.abs(np.where(seen, x["values"], 0)).max()
    np.testing.assert_allclose(
        other[0], mean, atol=(0.3 if dtype == "float32" else 1e-2) * size * np.abs(most).max()
    )
    np.testing.assert_allclose(
        other[1], variance, atol=(1e-2 if dtype == "float32" else 1e-3) * most.max()
    )


@fuzz(
    60,
    x=observations(dim=2, channels=2),
    key=st.sampled_from(["points", "values", "variance", "signal_std", "length_scale", "weights",
                         "drift", "diffusion", "noise", "observation_variance", "query"]),
    wrong=anything | odd_prior,
    place=st.booleans(),
)  # fmt: skip
def test_convolve_of_wrong_arguments(x, key, wrong, place):
    dtype = x["values"].dtype
    arguments = {
        **x, "query": x["points"], "weights": np.ones((1, 2, 1), dtype), "signal_std": 1.0,
        "drift": np.zeros((1, 2), dtype), "diffusion": np.zeros((1, 2, 2), dtype),
        "length_scale": 0.5, "noise": "shared", "observation_variance": 0.1,
    }  # fmt: skip
    array = np.ndim(arguments[key]) == 3 and place and isinstance(wrong, float)
    if array:
        arguments[key] = arguments[key].copy()
        with contextlib.suppress(OverflowError):
            arguments[key][0, 0, 0] = wrong
    else:
        arguments[key] = wrong
    refusals = (*REFUSED, tf.errors.InvalidArgumentError)
    found = answer(tfpn.math.convolve, **arguments, refusals=refusals)
    if found is None or array:
        # Where NaN or infinity stands in an array, so it does in what depends on it.
        return
    assert all(not np.isnan(t).any() for t in found), (key, wrong)


@fuzz(
    30,
    x=observations(dim=2),
    domain=st.sampled_from([{}, {"box": (0.0, 1.0)}, {"box": ([-1.0, 0.0], [0.5, 2.0])},
                            {"disc": ((0.2, 0.3), 0.7)}]),
    s=st.sampled_from([0.5, 1.0]),
    length=scales,
    noise=st.sampled_from(["shared", "channel"]),
)  # fmt: skip
def test_integrate(x, domain, s, length, noise):
    prior = {"signal_std": s, "length_scale": length}
    mean, variance, nll = tfpn.math.integrate(**x, **prior, noise=noise, **domain)
    assert np.isfinite(mean).all() and np.isfinite(nll).all()
    assert (variance >= 0).numpy().all()
    assert np.isinf(variance).all() == (not domain)
    nothing = ~np.isfinite(x["variance"]).any((1, 2))
    assert (mean.numpy()[nothing] == 0).all()
    if domain:
        kind, where = next(iter(domain.items()))
        names = {"box": ("low", "high"), "disc": ("centre", "radius")}[kind]
        function = getattr(tfpn.math, f"{kind}_integrals")
        single, double = function(x["points"], **prior, **dict(zip(names, where, strict=True)))
        whole = float(tfpn.math.kernel_integral(s, length, 2))
        assert ((single >= 0) & (single <= whole * (1 + 1e-5))).numpy().all()
        area = np.pi * 0.49 if kind == "disc" else np.prod(np.subtract(*where[::-1]) * np.ones(2))
        assert 0 < float(double) <= min(whole * area, s**2 * area**2) * (1 + 1e-5)
        assert (variance <= double * (1 + 1e-5)).numpy().all()


@fuzz(
    40,
    points=arrays((2, 2), floats(-1e3, 1e3, "float64"), "float64"),
    low=st.floats() | st.floats(-2, 2) | st.lists(st.floats(-3, 3), max_size=3),
    high=st.floats() | st.floats(-2, 2) | st.lists(st.floats(-3, 3), max_size=3),
    disc=st.booleans(),
    dim=st.integers(-3, 9) | st.floats() | st.text(max_size=3) | st.none(),
)
def test_domains(points, low, high, disc, dim):
    prior = {"signal_std": 1.0, "length_scale": 0.5}
    if disc:
        found = answer(tfpn.math.disc_integrals, points, centre=low, radius=high, **prior)
    else:
        found = answer(tfpn.math.box_integrals, points, low=low, high=high, **prior)
    if found is not None:
        assert not np.isnan(found[0]).any() and not np.isnan(found[1])
        assert (found[0].numpy() >= 0).all() and float(found[1]) >= 0
        assert np.asarray(low).ndim == 1 if disc else (np.asarray(low) < np.asarray(high)).all()
    whole = answer(tfpn.math.kernel_integral, 1.0, 0.5, dim)
    if whole is not None:
        assert float(whole) == pytest.approx((2 * np.pi * 0.25) ** (dim / 2), rel=1e-5)


@fuzz(
    40,
    loc=floats(-1e3, 1e3),
    scale=floats(0, 1e3) | st.just(0.0),
    value=floats(odd=True) | floats(-5, 5),
    probability=floats(0, 1) | floats(odd=True),
)
def test_rectified_normal(loc, scale, value, probability):
    law = tfpn.distributions.RectifiedNormal(np.float64(loc), np.float64(scale))
    below, above = float(law.cdf(value)), float(law.survival_function(value))
    if np.isnan(value):
        assert np.isnan([below, float(law.log_prob(value))]).all()
    else:
        assert 0.0 <= below <= 1.0 and below + above == pytest.approx(1.0)
        assert not np.isnan(float(law.log_prob(value)))
        expected = 0.0 if value < 0 else scipy.stats.norm.cdf(value, loc, scale) if scale else None
        assert expected is None or below == pytest.approx(expected, abs=1e-12)
    quantile = float(law.quantile(probability))
    if 0.0 <= probability <= 1.0:
        assert quantile >= 0.0
    else:
        assert np.isnan(quantile)
    assert float(law.mean()) >= max(loc, 0.0) * (1 - 1e-12) and float(law.variance()) >= 0.0


@fuzz(20, data=st.data(), n=st.integers(1, 4), dtype=both_types)
def test_multivariate_normal(data, n, dtype):
    numbers = floats(-100, 100, "float64") | st.just(0.0)
    matrix = data.draw(arrays((n, n), numbers, "float64"))
    for covariance in (matrix @ matrix.T, matrix + matrix.T, matrix * np.nan):
        found = answer(
            multivariate_normal, np.zeros(n, dtype), covariance.astype(dtype),
            refusals=(tf.errors.InvalidArgumentError,),
        )  # fmt: skip
        known = np.isfinite(covariance).all()
        least = np.linalg.eigvalsh(covariance)[0] if known else -np.inf
        size = np.abs(covariance).sum() if known else 1.0
        if found is None:
            assert least < 1e-9 * size or dtype == "float32" and least < 1e-4 * size
        else:
            assert least > -1e-4 * size - 1e-20
            np.testing.assert_allclose(found.covariance(), covariance, atol=1e-4 * size + 1e-12)
