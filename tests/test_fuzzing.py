"""Public entry points under thousands of generated inputs, most of them odd.

Each is answered rightly or refused by a ValueError or TypeError, or by a
tf.errors.InvalidArgumentError where the docstring has it: no crash, no hang, no NaN that was not
handed in. The same cases in every run.
"""

import contextlib
import functools

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import equivariance
import tfpn
from tfpn import layers, recipes
from tfpn.contract import check_observations
from tfpn.distributions.multivariate_normal import multivariate_normal
from tfpn.spacing import lattice, point_spacing

REFUSED = (ValueError, TypeError)
PLANNED = {}
TINY = {"float32": 1e-45, "float64": 5e-324}


def fuzz(cases, **strategies):
    """Makes a test of a function of generated arguments, which counts its cases."""

    def decorate(body):
        PLANNED[body.__name__] = cases

        def test():
            ran = 0

            def run(**arguments):
                nonlocal ran
                ran += 1
                # Warnings of overflow are for values that are meant to overflow.
                with np.errstate(all="ignore"):
                    body(**arguments)

            options = {"derandomize": True, "deadline": None, "database": None}
            every = settings(max_examples=cases, suppress_health_check=list(HealthCheck), **options)
            every(given(**strategies)(run))()
            assert ran >= cases

        test.__name__, test.__doc__ = body.__name__, body.__doc__
        return test

    return decorate


def answer(function, *arguments, refusals=REFUSED, **named):
    """What a function returns, or None where it refuses with a message."""
    try:
        return function(*arguments, **named)
    except refusals as error:
        assert len(str(error)) > 10
        return None


def floats(low=None, high=None, dtype="float32", odd=False):
    """Numbers of a range, subnormal ones among them; odd ones may be NaN or infinite."""
    bounds = {}
    if low is not None:
        bounds = {"min_value": float(np.dtype(dtype).type(low))}
    if high is not None:
        bounds["max_value"] = float(np.dtype(dtype).type(high))
    return st.floats(
        **bounds, width=np.dtype(dtype).itemsize * 8, allow_nan=odd, allow_infinity=odd
    )


def arrays(shape, elements, dtype="float32"):
    return hnp.arrays(np.dtype(dtype), shape, elements=elements, fill=elements)


anything = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 10**20), st.floats(), st.text(max_size=5),
    st.lists(st.floats(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.floats(), max_size=2),
).map(lambda value: value)  # fmt: skip
# Mapped, it is one alternative among others and not seven.


# --- input


@st.composite
def raw_observations(draw):
    """Arguments of `tfpn.observations`: lists of arrays or arrays, some of which do not agree."""
    sizes = st.sampled_from([1, 1, 2, 2, 3, 3, 0])
    examples, dim, channels = draw(sizes), draw(sizes), draw(sizes)
    dtype = draw(st.sampled_from(["float64", "float32", "int64", "bool", "float16", "complex64"]))
    counts = [draw(st.integers(0, 3)) for _ in range(examples)]
    odd = draw(st.sampled_from([False, False, True]))
    numbers = hnp.from_dtype(np.dtype(dtype), allow_nan=odd, allow_infinity=odd)

    def part(size, wrong):
        shapes = [[n + wrong, size] for n in counts]
        return [draw(hnp.arrays(np.dtype(dtype), shape, elements=numbers)) for shape in shapes]

    points = part(dim, 0)
    values = part(channels, draw(st.sampled_from([0, 0, 0, 0, 1])))
    if draw(st.booleans()) and len(set(counts)) == 1:
        points, values = np.array(points), np.array(values)
    variance = draw(st.one_of(st.none(), st.floats(0, 1), st.floats(), anything))
    return points, values, variance


@fuzz(200, given=raw_observations())
def test_observations(given):
    points, values, variance = given
    x = answer(tfpn.observations, points, values, variance)
    if x is None:
        return
    check_observations(x)
    assert {array.dtype.name for array in x.values()} <= {"float32", "float64"}
    assert not np.isnan(x["values"]).any() and not np.isnan(x["points"]).any()
    for b, example in enumerate(values):
        given_values = np.asarray(example, np.float64)
        assert np.isinf(x["variance"][b, len(given_values) :]).all()
        found = x["values"][b, : len(given_values)]
        seen = np.isfinite(x["variance"][b, : len(given_values)])
        np.testing.assert_array_equal(found[seen], given_values.astype(found.dtype)[seen])
        assert not seen[np.isnan(given_values)].any()


@fuzz(150, x=anything, values=anything)
def test_observations_of_anything(x, values):
    for arguments in ((x, values), (values, x, x)):
        found = answer(tfpn.observations, *arguments)
        assert found is None or check_observations(found)
    assert answer(check_observations, x) is None


@st.composite
def observations(draw, dtype=None, dim=None, channels=None, size=1e3, examples=2, points=4):
    """Valid observations; points may coincide, all may be missing."""
    dtype = dtype or draw(st.sampled_from(["float32", "float64"]))
    dim, channels = dim or draw(st.integers(1, 3)), channels or draw(st.integers(1, 2))
    shape = draw(st.tuples(st.integers(1, examples), st.integers(1, points)))
    near = st.sampled_from([0.0, 1.0, 0.5, -0.25, TINY[dtype]])
    points = draw(arrays((*shape, dim), near | floats(-3, 3, dtype), dtype))
    values = draw(arrays((*shape, channels), floats(-size, size, dtype), dtype))
    noise = st.sampled_from([0.0, np.inf, 0.1, TINY[dtype], 1e30]) | floats(0, 10, dtype)
    variance = draw(arrays((*shape, 1), noise, dtype))
    variance = np.repeat(variance, channels, axis=-1)
    return {"points": points, "values": values, "variance": variance}


@fuzz(
    150,
    x=observations(),
    seed=st.integers(0, 9),
    ranges=st.fixed_dictionaries(
        {},
        optional={
            k: st.floats(0, 2) | st.floats() for k in ("scale", "shift", "shear", "rotation")
        },
    ),
)
def test_jitter(x, seed, ranges):
    found = answer(tfpn.augmentation.jitter, x, np.random.default_rng(seed), **ranges)
    if found is None:
        return
    check_observations(found)
    for key in ("values", "variance"):
        np.testing.assert_array_equal(found[key], x[key])
    still = np.isinf(x["variance"]).all(-1)
    np.testing.assert_array_equal(found["points"][still], x["points"][still])


@fuzz(
    100,
    points=arrays(
        st.tuples(st.integers(1, 2), st.integers(1, 6), st.integers(1, 3)),
        st.sampled_from([0.0, 1.0, -2.0]) | floats(dtype="float64"),
        "float64",
    ),
    data=st.data(),
)
def test_spacing(points, data):
    variance = data.draw(arrays((*points.shape[:2], 1), st.sampled_from([0.0, 1.0, np.inf])))
    spacing = answer(point_spacing, points, variance)
    places = [
        np.unique(p[np.isfinite(v[:, 0])], axis=0) for p, v in zip(points, variance, strict=True)
    ]
    distinct = [p for p in places if len(p) > 1]
    if spacing is None:
        return
    assert distinct and np.isfinite(spacing) and spacing > 0.0
    largest = max(np.linalg.norm(np.ptp(p / 4, axis=0)) for p in distinct)
    assert spacing / 4 <= largest * (1 + 1e-12) or not np.isfinite(largest)


@fuzz(40, count=st.integers(1, 40), dim=st.integers(1, 3))
def test_lattice(count, dim):
    found = lattice(count, dim)
    assert found.shape == (count, dim) and len(np.unique(found, axis=0)) == count
    assert not found[0].any() and (np.diff(np.square(found).sum(-1)) >= 0).all()


# --- judging predictions


@fuzz(
    200,
    logits=arrays(
        st.tuples(st.integers(0, 5), st.integers(1, 4)), floats(-900, 900, "float64"), "float64"
    ),
    spoiled=st.sampled_from([None] * 3 + [np.nan, -0.1, np.inf, 2.0]),
    labels=st.lists(st.integers(-1, 4), max_size=5),
    right=st.sampled_from([True, True, False]),
    bins=st.integers(1, 20) | anything,
    adaptive=st.booleans(),
)  # fmt: skip
def test_classification_metrics(logits, spoiled, labels, right, bins, adaptive):
    p = np.exp(logits - logits.max(-1, keepdims=True, initial=-np.inf))
    p /= p.sum(-1, keepdims=True)
    if spoiled is not None and p.size:
        p[0, 0] = spoiled
    if right and p.size:
        labels = [abs(label) % p.shape[1] for label in (labels * 5 + [0] * 5)[: len(p)]]
    labels = np.array(labels, int)
    found = answer(tfpn.evaluation.classification_metrics, p, labels)
    error = answer(tfpn.evaluation.expected_calibration_error, p, labels, bins, adaptive)
    if found is None:
        assert error is None
        return
    assert np.isfinite(list(found.values())).all()
    assert found["nll"] >= 0 and -1e-12 <= found["brier"] <= 2 + 1e-12
    assert found["accuracy"] == pytest.approx(np.mean(p.argmax(-1) == labels))
    assert found["brier"] == pytest.approx(
        np.sum((p - np.eye(p.shape[1])[labels]) ** 2) / len(p), abs=1e-9
    )
    assert error is None or 0.0 <= error <= 1.0
    assert spoiled is None


@fuzz(
    200,
    residuals=arrays(st.tuples(st.integers(0, 5)), floats(-1e100, 1e100, "float64"), "float64"),
    deviations=arrays(st.tuples(st.integers(1, 5)), floats(1e-30, 1e30, "float64"), "float64"),
    spoiled=st.sampled_from([None] * 3 + [np.nan, np.inf, 0.0, -1.0]),
    one=st.booleans(),
    level=st.floats(0.01, 0.99) | st.floats(),
)
def test_gaussian_metrics(residuals, deviations, spoiled, one, level):
    if one:
        deviations = deviations[0] if spoiled is None else spoiled
    elif spoiled is not None:
        deviations[0] = spoiled
    found = answer(tfpn.evaluation.gaussian_metrics, residuals, deviations)
    covered = answer(tfpn.evaluation.interval_coverage, residuals, deviations, level)
    if found is None:
        assert covered is None
        return
    assert spoiled is None
    z = residuals / deviations
    expected = -np.mean(scipy.stats.norm.logpdf(residuals, scale=deviations))
    assert found["nll"] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert np.isfinite(found["rmse"]) and found["coverage_50"] <= found["coverage_95"] <= 1
    assert found["spread"] == pytest.approx(np.sqrt(np.mean(z**2)))
    assert covered is None or 0.0 <= covered <= 1.0


# --- mathematics

scales = st.sampled_from([0.1, 1.0]) | floats(1e-3, 1e3, "float64")
both_types = st.sampled_from(["float32", "float64"])
odd_prior = st.sampled_from([0.0, -1.0, np.nan, np.inf])


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
                         "drift", "diffusion", "noise", "observation_noise", "query"]),
    wrong=anything | odd_prior,
    place=st.booleans(),
)  # fmt: skip
def test_convolve_of_wrong_arguments(x, key, wrong, place):
    dtype = x["values"].dtype
    arguments = {
        **x, "query": x["points"], "weights": np.ones((1, 2, 1), dtype), "signal_std": 1.0,
        "drift": np.zeros((1, 2), dtype), "diffusion": np.zeros((1, 2, 2), dtype),
        "length_scale": 0.5, "noise": "shared", "observation_noise": 0.1,
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


# --- distributions


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


# --- layers and models

LAYERS = {
    "conv": layers.PNConv(2, 3, spacing=0.5),
    "channel": layers.PNConv(2, 3, spacing=0.5, noise="channel"),
    "relu": layers.ProbReLU(),
    "mix": layers.ChannelMix(3),
    "norm": layers.GPNormalization(),
    "space": layers.IntegralPooling(spacing=0.5),
    "box": layers.IntegralPooling(spacing=0.5, box=(0.0, 1.0)),
    "gate": layers.GatedReLU(fields={0: 2}),
}


@fuzz(40, name=st.sampled_from(sorted(LAYERS)), x=observations("float32", dim=2, channels=2))
def test_layers(name, x):
    output = LAYERS[name](x)
    assert np.isfinite(output["values"]).all()
    variance = output["variance"].numpy()
    assert (variance >= 0).all()
    if "points" in output:
        np.testing.assert_array_equal(np.isinf(variance[..., 0]), np.isinf(x["variance"][..., 0]))
    order = np.random.default_rng(1).permutation(x["points"].shape[1])
    other = LAYERS[name]({key: value[:, order] for key, value in x.items()})
    expected = output["values"].numpy()
    if "points" in output:
        expected = expected[:, order]
    size = 1.0 + np.abs(np.where(np.isfinite(x["variance"]), x["values"], 0.0)).max()
    np.testing.assert_allclose(other["values"], expected, atol=0.2 * size)


@fuzz(
    60,
    name=st.sampled_from(sorted(LAYERS)),
    x=observations("float32", dim=2, channels=2),
    key=st.sampled_from(["points", "values", "variance", "other"]),
    wrong=anything | odd_prior | arrays(hnp.array_shapes(max_dims=4, max_side=3), floats(0, 1)),
    place=st.booleans(),
)
def test_layers_with_wrong_input(name, x, key, wrong, place):
    if place and key in x and isinstance(wrong, float):
        x[key][0, 0, 0] = wrong
    else:
        x = {**x, key: wrong}
    seen = np.isfinite(np.asarray(x["variance"])) if np.ndim(x["variance"]) == 3 else None
    output = answer(LAYERS[name], x, refusals=(*REFUSED, tf.errors.InvalidArgumentError))
    if output is None:
        return
    assert not np.isnan(output["values"]).any() and not np.isnan(output["variance"]).any()
    # What is left was no mistake, or not observed, or no business of the layer.
    if key == "values" and seen is not None and np.ndim(wrong) == 0:
        assert np.isfinite(np.asarray(x["values"])[seen & seen.all(-1, keepdims=True)]).all()


@functools.cache
def model(name):
    small = {"num_classes": 2, "num_blocks": 1, "spacing": 0.5}
    if name == "SteerablePNCNN":
        return tfpn.models.SteerablePNCNN(copies=1, frequencies=(0, 1), num_basis=1, **small)
    small |= {"channels": 2, "num_basis": 2}
    if name == "PNCNN":
        return tfpn.models.PNCNN(**small)
    return tfpn.models.PNTimeSeriesClassifier(in_channels=1, query=3, **small)


@fuzz(
    45,
    name=st.sampled_from(["PNCNN", "PNTimeSeriesClassifier", "SteerablePNCNN"]),
    points=arrays((2, 3, 2), floats(-2, 2) | floats(odd=True)) | arrays((2, 3, 2), floats(-2, 2)),
    values=arrays((2, 3, 1), floats(-9, 9) | floats(odd=True)) | arrays((2, 3, 1), floats(-9, 9)),
    variance=arrays((2, 3, 1), floats(0, 1) | floats(odd=True)) | arrays((2, 3, 1), floats(0, 1)),
)
def test_predict(name, points, values, variance):
    if name == "PNTimeSeriesClassifier":
        points = points[..., :1]
    x = {"points": points, "values": values, "variance": variance}
    refusals = (*REFUSED, tf.errors.InvalidArgumentError)
    found = answer(model(name).predict, x, verbose=0, refusals=refusals)
    if found is None:
        with np.errstate(all="ignore"):
            ordinary = all(np.abs(np.nan_to_num(a, nan=np.inf)).max() < 1e6 for a in x.values())
        assert not ordinary or (variance < 0).any()
        return
    assert found.shape == (2, 2) and np.isfinite(found).all()


# --- text and groups

keys = st.sampled_from(
    ["training.epochs", "training.learning_rate", "training.seed", "training.monitor",
     "training.class_weight", "model.channels", "model.pooling", "model.uncertainty",
     "augmentation.rotation", "data.name", "model.name", "model.chanels", "x.y", "model", ""]
)  # fmt: skip
texts = st.text(max_size=8) | st.sampled_from(
    ["=3", "= 1e400", "=nan", "=[1, 2]", "=-1", "='a", "={}"]
)


@fuzz(250, key=keys | st.text(max_size=8), text=texts, value=st.integers() | st.floats())
def test_recipes(key, text, value):
    for assignment in (key + text, f"{key}={value}"):
        recipe = recipes.load("digits")
        try:
            recipes.override(recipe, assignment)
            resolved = recipes.resolve(recipe)
        except recipes.RecipeError as error:
            assert len(str(error)) > 10
            continue
        # What is accepted can be written down and read again.
        section, _, name = assignment.partition("=")[0].strip().partition(".")
        assert name in resolved.sections[section]
        again = recipes.tomllib.loads(recipes.dumps(resolved))
        assert again[section] == resolved.sections[section]


GROUPS = [equivariance.SO2, equivariance.O2, equivariance.Cyclic(4), equivariance.Dihedral(3)]
notation = st.text("0123+-@x*()T, ", max_size=7)


@fuzz(
    150,
    group=st.sampled_from(GROUPS),
    index=st.integers(0, 5) | st.integers(-3, 6) | anything,
    angles=st.tuples(floats(-7, 7, "float64"), floats(-7, 7, "float64")),
    turn=st.integers(0, 11),
)
def test_irreps(group, index, angles, turn):
    irrep = answer(group.irrep, index)
    if irrep is None or index > 1000:  # which leaves an angle times it few digits
        return
    rng = np.random.default_rng(turn)
    g, h = group.random_element(rng), group.random_element(rng)
    if group is equivariance.SO2:
        g, h = angles
    matrices = [np.array(irrep.matrix(e), float) for e in (g, h, group.compose(g, h))]
    np.testing.assert_allclose(matrices[0] @ matrices[1], matrices[2], atol=1e-12)
    np.testing.assert_allclose(matrices[0] @ matrices[0].T, np.eye(irrep.dim), atol=1e-12)


@fuzz(150, group=st.sampled_from(GROUPS), text=notation | st.text(max_size=6), name=st.text(
    "SO()23CDcd1", max_size=5))  # fmt: skip
def test_notation(group, text, name):
    found = answer(equivariance.parse_representation, text, group)
    if found is not None:
        assert found.dim >= 1
        assert equivariance.parse_representation(str(found), group).dim == found.dim
    named = answer(equivariance.parse_group, name)
    assert named is None or equivariance.parse_group(named.name).name == named.name


@fuzz(80, group=st.sampled_from(GROUPS), element=anything | arrays((2, 2), floats(odd=True)),
      order=anything)  # fmt: skip
def test_elements(group, element, order):
    found = answer(group.element, element)
    if found is not None:
        matrix = np.array(found.matrix, float)
        np.testing.assert_allclose(matrix @ matrix.T, np.eye(2), atol=1e-6)
    for kind in (equivariance.Cyclic, equivariance.Dihedral):
        made = answer(kind, order)
        assert made is None or made.order == order


def test_there_are_two_thousand_cases():
    assert sum(PLANNED.values()) >= 2000


def test_what_was_found():
    """Once silent: NaN, infinity or a certainty out of arguments that have no answer."""
    with pytest.raises(ValueError, match="spacing comes out as inf"):
        point_spacing(np.array([[[0.0], [1e200]]]), np.zeros((1, 2, 1)))
    with pytest.raises(ValueError, match="spacing comes out as 0"):
        point_spacing(np.array([[[0.0], [1e-200]]]), np.zeros((1, 2, 1)))
    prior = {"signal_std": 1.0, "length_scale": 1.0}
    # A box so wide that its square is infinite: whole times side, as of the line.
    _, double = tfpn.math.box_integrals(np.zeros((1, 1)), low=0.0, high=1e200, **prior)
    assert float(double) == pytest.approx(np.sqrt(2 * np.pi) * 1e200)
    wide = np.outer([55.1, 48.3], [55.1, 48.3])  # of rank 1, until it is rounded
    arguments = {"signal_std": 1.0, "length_scale": 1e-3, "drift": [0.0, 0.0], "diffusion": wide}
    with pytest.raises(tf.errors.InvalidArgumentError, match="diffusion could not be factorised"):
        tfpn.math.diffused_kernel(np.zeros((1, 2), "float32"), np.zeros((1, 2)), **arguments)
    constant = tfpn.distributions.RectifiedNormal(1.0, 0.0)
    for method in ("cdf", "log_cdf", "survival_function", "log_survival_function"):
        assert np.isnan(getattr(constant, method)(np.nan))
        assert np.isfinite(getattr(constant, method)(1.0)) or "log_survival" in method
    with pytest.raises(ValueError, match=r"points has shape \(\)"):
        layers.ProbReLU()({"points": None, "values": [[[1.0]]], "variance": [[[1.0]]]})
    with pytest.raises(ValueError, match="points is a str that is no array of numbers"):
        layers.ProbReLU()({"points": "here", "values": [[[1.0]]], "variance": [[[1.0]]]})
