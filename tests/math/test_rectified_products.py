from itertools import permutations

import numpy as np
import oracle
import pytest
import tensorflow as tf
from tolerance import rounding

from tfpn.math import (
    rectified_covariance,
    rectified_moments,
    rectified_product_moment,
    rectified_raw_moments,
)

CASES = oracle.cases("rectified_trivariate")


def value_and_gradient(mean, covariance):
    mean, covariance = tf.convert_to_tensor(mean), tf.convert_to_tensor(covariance)
    with tf.GradientTape() as tape:
        tape.watch([mean, covariance])
        value = rectified_product_moment(mean, covariance)
    return value.numpy(), *(x.numpy() for x in tape.gradient(value, [mean, covariance]))


def scale(mean, covariance):
    return np.prod(np.sqrt(mean**2 + np.diagonal(covariance, axis1=-2, axis2=-1)), axis=-1)


@pytest.fixture(scope="module")
def third_moments():
    """Of all cases in one call: in float64, in float32, and with a constant of 2 beside them."""
    cases = [case.values[0] for case in CASES]
    mean, covariance = (np.array([case["inputs"][k] for case in cases]) for k in ("mu", "cov"))
    beside = np.pad(mean, [(0, 0), (0, 1)], constant_values=2.0)
    found = (
        rectified_product_moment(mean, covariance),
        rectified_product_moment(mean.astype(np.float32), covariance.astype(np.float32)),
        rectified_product_moment(beside, np.pad(covariance, [(0, 0), (0, 1), (0, 1)])),
    )
    return {case["id"]: [each[n] for each in found] for n, case in enumerate(cases)}


@pytest.mark.parametrize("case", CASES)
def test_oracle(third_moments, case):
    double, single, in_four = third_moments[case["id"]]
    oracle.assert_agrees(case, "third_moment", double)
    np.testing.assert_allclose(double, case["outputs"]["third_moment"], rtol=1e-13)
    assert single.dtype == tf.float32
    np.testing.assert_allclose(single, case["outputs"]["third_moment"], rtol=2e-6)
    np.testing.assert_allclose(in_four, 2 * case["outputs"]["third_moment"], rtol=1e-12)


def random_case(rng, n):
    """Any rank, nearly any rank, equal, opposite and constant variables, any units."""
    factor, noise = rng.normal(size=(n, rng.integers(1, n + 1))), rng.normal(size=(n, n))
    covariance = factor @ factor.T
    if rng.random() < 0.6:
        covariance += 10 ** rng.uniform(-12, 0) * noise @ noise.T
    if rng.random() < 0.2:
        i, j = rng.choice(n, 2, replace=False)
        copy = np.eye(n)
        copy[i] = 0
        copy[i, j] = rng.choice([-1, 1, 2])
        covariance = copy @ covariance @ copy.T
    unit = np.exp(rng.normal(size=n))
    unit[rng.random(n) < 0.03] = 0
    covariance = (covariance + covariance.T) / 2 * np.outer(unit, unit)
    mean = rng.choice([0.3, 1, 3]) * rng.normal(size=n) * np.sqrt(np.diag(covariance))
    return mean, covariance


@pytest.mark.parametrize(
    "dtype, value_tolerance, gradient_tolerance",
    [(np.float64, 1e-11, 1e-9), (np.float32, 2e-6, 1e-5)],
)
@pytest.mark.parametrize("n, count", [(3, 8), (4, 1)])
def test_order_of_the_variables(n, count, dtype, value_tolerance, gradient_tolerance):
    """Another order is another quadrature."""
    rng = np.random.default_rng(n)
    orders = np.array(list(permutations(range(n))))[:: 1 if n == 3 else 7]
    for _ in range(count):
        mean, covariance = (x.astype(dtype) for x in random_case(rng, n))
        means = mean[orders]
        covariances = covariance[orders[:, :, None], orders[:, None, :]]
        values, by_mean, by_covariance = value_and_gradient(means, covariances)
        for found in (values, by_mean, by_covariance):
            assert np.all(np.isfinite(found))
        unit = np.sqrt(mean.astype(np.float64) ** 2 + np.diag(covariance))
        size = np.prod(unit)
        assert np.ptp(values.astype(np.float64)) <= value_tolerance * size
        ordered = np.take_along_axis(by_mean, np.argsort(orders, axis=1), axis=1)
        assert np.all(np.ptp(ordered.astype(np.float64), 0) * unit <= gradient_tolerance * size)


def test_one_and_two_variables():
    rng = np.random.default_rng(0)
    mean, factor = rng.normal(size=(20, 2)), rng.normal(size=(20, 2, 2))
    covariance = factor @ np.swapaxes(factor, 1, 2)
    first, _ = rectified_moments(mean, np.diagonal(covariance, axis1=1, axis2=2))
    found = rectified_product_moment(mean[:, :1], covariance[:, :1, :1])
    np.testing.assert_array_equal(found, first[:, 0])
    expected = tf.reduce_prod(first, axis=1) + rectified_covariance(
        *mean.T, covariance[:, 0, 0], covariance[:, 1, 1], covariance[:, 0, 1]
    )
    # The same calculation: a sum of two, of factors of 8 units in the last place each.
    np.testing.assert_allclose(
        rectified_product_moment(mean, covariance), expected, rtol=rounding(2 * 8)
    )
    # Opposite variables are never positive together.
    opposite = np.array([[1.0, -1.0], [-1.0, 1.0]])
    found = rectified_product_moment(np.array([-0.2, 0.1]), opposite)
    # What is left is the difference of the means' product and the covariance, both below 1.
    assert 0 <= found < rounding(2 * 8)


@pytest.mark.parametrize("n", [3, 4])
def test_singular_cases_in_closed_form(n):
    mean, variance = np.array([-2.0, 0.0, 0.4]), 1.7
    raw = rectified_raw_moments(mean, variance)
    means = np.repeat(mean[:, None], n, axis=1)
    # All the same variable; one of them twice it; one its negative.
    units = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 1.0, 1.0], [1.0, -1.0, 1.0, 1.0]])[:, :n]
    # Constants; two independent pairs, or a pair and one more, each pair the same variable.
    blocks = np.kron(np.eye(2), np.ones((2, 2)))[:n, :n]
    covariances = variance * np.stack(
        [*(np.outer(unit, unit) for unit in units), np.zeros((n, n)), blocks]
    )
    means = means * np.concatenate([units, np.ones((2, n))])[:, None]
    # In one call, as most of its time is Python's.
    found = rectified_product_moment(means, covariances[:, None])
    np.testing.assert_allclose(found[0], raw[n - 1], rtol=1e-12)
    np.testing.assert_allclose(found[1], 2 * raw[n - 1], rtol=1e-12)
    np.testing.assert_allclose(found[2], 0, atol=1e-13)
    np.testing.assert_allclose(found[3], np.maximum(mean, 0) ** n, rtol=1e-13)
    np.testing.assert_allclose(found[4], raw[1] * raw[n - 3], rtol=1e-12)


@pytest.mark.parametrize("n", [3, 4])
def test_homogeneous_case_of_rank_two(n):
    """Without means and in the plane: E r^n times an integral over the angle."""
    angles = np.array([0.2, 1.0, -0.5, 0.6])[:n]
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    # All are positive between the last angle less a right angle and the first one plus that.
    low, high = angles.max() - np.pi / 2, angles.min() + np.pi / 2
    x, w = np.polynomial.legendre.leggauss(40)
    x, w = (low + high) / 2 + (high - low) / 2 * x, (high - low) / 2 * w
    radial = {3: 3 * np.sqrt(np.pi / 2), 4: 8.0}[n]  # E r^n
    expected = radial / (2 * np.pi) * (w @ np.prod(np.cos(x[:, None] - angles), axis=1))
    found = rectified_product_moment(np.zeros(n), vectors @ vectors.T)
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_far_from_zero_it_is_the_product_of_the_variables():
    """Isserlis' theorem, as none of them is ever negative."""
    rng = np.random.default_rng(7)
    factor = rng.normal(size=(4, 4))
    c, m = factor @ factor.T, np.full(4, 40.0)
    expected = np.prod(m)
    for i, j in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)):
        others = sorted({0, 1, 2, 3} - {i, j})
        expected += c[i, j] * (np.prod(m[others]) + c[tuple(others)] / 2)
    np.testing.assert_allclose(rectified_product_moment(m, c), expected, rtol=1e-13)


@pytest.mark.parametrize("n", [3, 4])
def test_gradient(n):
    rng = np.random.default_rng(8)
    factor, mean = rng.normal(size=(n, n)), rng.normal(size=n)
    covariance = factor @ factor.T
    _, by_mean, by_covariance = value_and_gradient(mean, covariance)
    np.testing.assert_array_equal(by_covariance, by_covariance.T)
    shifts = [(np.eye(n)[i], np.zeros((n, n))) for i in range(n)]
    for i, j in ((0, 0), (n - 1, n - 1), (0, n - 1), (1, 2)):
        unit = np.zeros((n, n))
        unit[i, j] = unit[j, i] = 1.0
        shifts.append((np.zeros(n), unit))
    d_mean, d_covariance = (1e-4 * np.array(x) for x in zip(*shifts, strict=True))
    signs = np.array([1.0, -1.0])[:, None, None]
    above, below = rectified_product_moment(
        mean + signs * d_mean, covariance + signs[..., None] * d_covariance
    )
    expected = d_mean @ by_mean + np.sum(d_covariance * by_covariance, axis=(1, 2))
    np.testing.assert_allclose((above - below) / 2, expected, atol=1e-11)


def test_shapes_and_modes_agree():
    rng = np.random.default_rng(9)
    mean, factor = rng.normal(size=(4, 1, 3)), rng.normal(size=(2, 3, 3))
    covariance = factor @ np.swapaxes(factor, 1, 2)
    value, by_mean, by_covariance = value_and_gradient(mean, covariance)
    assert value.shape == (4, 2)
    assert by_mean.shape == mean.shape and by_covariance.shape == covariance.shape
    for i, j in ((0, 0), (2, 1)):
        single = rectified_product_moment(mean[i, 0], covariance[j])
        np.testing.assert_allclose(value[i, j], single, rtol=1e-13)
    specs = [tf.TensorSpec([None, 1, 3], tf.float64), tf.TensorSpec([None, 3, 3], tf.float64)]

    @tf.function(input_signature=specs)
    def in_a_graph(mean, covariance):  # with the gradient, so that it is traced once
        with tf.GradientTape() as tape:
            tape.watch([mean, covariance])
            value = rectified_product_moment(mean, covariance)
        return value, *tape.gradient(value, [mean, covariance])

    found = in_a_graph(mean, covariance)
    for a, b in zip(found, (value, by_mean, by_covariance), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    compiled = tf.function(rectified_product_moment, jit_compile=True)
    two = tf.cast(mean[..., :2], tf.float32), tf.cast(covariance[..., :2, :2], tf.float32)
    expected = rectified_product_moment(mean[..., :2], covariance[..., :2, :2])
    np.testing.assert_allclose(compiled(*two), expected, atol=1e-5)


def test_errors():
    for shape in ((5,), (0,), ()):
        with pytest.raises(ValueError, match="mean has shape .*number of factors, from 1 to 4"):
            rectified_product_moment(np.zeros(shape), np.eye(3))
    for shape in ((3,), (2, 2), (3, 2)):
        with pytest.raises(ValueError, match=r"covariance has shape .*expected \[\.\.\., 3, 3\]"):
            rectified_product_moment(np.zeros(3), np.zeros(shape))
    with pytest.raises(TypeError, match="mean has dtype float16"):
        rectified_product_moment(np.zeros(3, np.float16), np.eye(3, dtype=np.float16))


def test_monte_carlo():
    rng = np.random.default_rng(4)
    n, factor = 1_000_000, rng.normal(size=(4, 4))
    mean, covariance = rng.normal(size=4), factor @ factor.T
    h = np.prod(np.maximum(mean + rng.normal(size=(n, 4)) @ factor.T, 0), axis=1)
    found = rectified_product_moment(mean, covariance)
    assert abs(h.mean() - found) < 4 * h.std() / np.sqrt(n)
