"""Input, and the judging of predictions, under generated arguments, most of them odd.

Each is answered rightly or refused by a ValueError or TypeError, or by a
tf.errors.InvalidArgumentError where the docstring has it: no crash, no hang, no NaN that was not
handed in. See `generated` for how to run more cases.
"""

import numpy as np
import pytest
import scipy.stats
from generated import (
    answer,
    anything,
    arrays,
    floats,
    fuzz,
    observations,
)
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tfpn
from tfpn.contract import check_observations
from tfpn.spacing import lattice, point_spacing


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


@fuzz(
    150,
    x=observations(),
    seed=st.integers(0, 9),
    ranges=st.fixed_dictionaries(
        {},
        optional={
            k: st.floats(0, 2) | st.floats()
            for k in ("scale", "shift", "shear", "rotation", "elastic", "elastic_length")
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
