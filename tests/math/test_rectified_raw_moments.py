import mpmath
import numpy as np
import oracle
import pytest
import tensorflow as tf
from tolerance import rounding

from tfpn.math import rectified_moments, rectified_raw_moments


def values_and_derivatives(mean, variance, function=rectified_raw_moments):
    """Arrays [order, ...]: the moments, their derivatives by the mean and by the variance."""
    mean, variance = tf.convert_to_tensor(mean), tf.convert_to_tensor(variance)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([mean, variance])
        moments = function(mean, variance)
    gradients = [tape.gradient(moment, [mean, variance]) for moment in moments]
    return np.array(moments), *(np.array([g[n] for g in gradients]) for n in range(2))


def exact(mean, variance):
    with mpmath.workdps(120):
        mu, v = mpmath.mpf(float(mean)), mpmath.mpf(float(variance))
        t, s = mu / mpmath.sqrt(v), mpmath.sqrt(v)
        moments = [mpmath.ncdf(t) if t > 0 else mpmath.erfc(-t / mpmath.sqrt(2)) / 2]
        moments.append(mu * moments[0] + s * mpmath.npdf(t))
        for n in range(2, 5):
            moments.append(mu * moments[n - 1] + (n - 1) * v * moments[n - 2])
        by_mean = [n * moments[n - 1] for n in range(1, 5)]
        by_variance = [n * (n - 1) * moments[n - 2] / 2 for n in range(2, 5)]
        by_variance = [mpmath.npdf(t) / (2 * s), *by_variance]
        return [[float(x) for x in xs] for xs in (moments[1:], by_mean, by_variance)]


@pytest.mark.parametrize("case", oracle.cases("rectified_univariate"))
def test_oracle(case):
    given = case["inputs"]
    found = rectified_raw_moments(np.float64(given["mu"]), np.float64(given["v"]))
    for n in range(1, 5):
        name = "mean" if n == 1 else f"raw_moment_{n}"
        oracle.assert_agrees(case, name, found[n - 1])


@pytest.mark.parametrize("case", oracle.cases("rectified_univariate"))
def test_oracle_in_float32(case):
    mu, v = np.float32(case["inputs"]["mu"]), np.float32(case["inputs"]["v"])
    squared = 1.0 if v == 0 else max(1.0, float(mu) ** 2 / float(v))
    for n, found in enumerate(rectified_raw_moments(mu, v), start=1):
        assert found.dtype == tf.float32
        expected = case["outputs"]["mean" if n == 1 else f"raw_moment_{n}"]
        np.testing.assert_allclose(found, expected, rtol=1e-6 * squared, atol=1e-37)


@pytest.mark.parametrize("dtype, largest", [(np.float64, 36.0), (np.float32, 12.0)])
def test_relative_accuracy(dtype, largest):
    rng = np.random.default_rng(0)
    t = np.concatenate([np.linspace(-largest, largest, 73), rng.normal(size=25), [0.0]])
    variance = np.exp(rng.normal(size=t.size)).astype(dtype)
    mean = (t * np.sqrt(variance)).astype(dtype)
    expected = np.array([exact(m, v) for m, v in zip(mean, variance, strict=True)])
    # The results' own conditioning is t^2, of exp(-t^2/2).
    unit = np.finfo(dtype).eps * np.maximum(1.0, mean.astype(np.float64) ** 2 / variance)
    tiny = np.finfo(dtype).tiny
    for n, found in enumerate(values_and_derivatives(mean, variance)):
        error = np.abs(found.T.astype(np.float64) - expected[:, n])
        # phi / 2 loses its last digits among the numbers that are not normal.
        within = error <= 8 * unit[:, None] * np.abs(expected[:, n]) + 4 * tiny
        assert np.all(within), (n, mean[~within.all(axis=1)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extremes(dtype):
    info = np.finfo(dtype)
    means = np.array([0.0, info.tiny, 1e-20, 1.0, 1e8])
    variances = [0.0, info.smallest_subnormal, info.tiny, 1e-20, 1.0, 1e16]
    grid = np.meshgrid(np.concatenate([means, -means]), variances)
    mean, variance = (x.ravel().astype(dtype) for x in grid)
    for found in values_and_derivatives(mean, variance):
        assert np.all(np.isfinite(found)) and np.all(found >= 0)
    none = variance == 0
    for n, moment in enumerate(rectified_raw_moments(mean[none], variance[none]), start=1):
        expected = np.maximum(mean[none], 0) ** n
        np.testing.assert_allclose(moment, expected, rtol=4 * info.eps, atol=info.tiny)


def test_agrees_with_mean_and_variance():
    rng = np.random.default_rng(1)
    mean, variance = rng.normal(size=(2, 50)) * [[2.0], [1.0]]
    variance = variance**2
    first, second = rectified_raw_moments(mean, variance, order=2)
    expected = rectified_moments(mean, variance)
    # 8 units in the last place each, times the conditioning t^2 of exp(-t^2 / 2); and the
    # difference cancels down from the second moment.
    limit = rounding(16, condition=np.maximum(1.0, mean**2 / variance))
    assert np.all(np.abs(first - expected[0]) <= limit * expected[0])
    variance_error = np.abs(second - first**2 - expected[1])
    assert np.all(variance_error <= limit * (second + 2.0 * first**2))


def test_shapes_orders_and_modes():
    mean, variance = np.float64([[-1.0], [0.5]]), np.float64([0.3, 1.0, 2.0])
    moments = rectified_raw_moments(mean, variance)
    assert len(moments) == 4 and all(moment.shape == (2, 3) for moment in moments)
    for order in (1, 2, 3, 4):
        part = rectified_raw_moments(mean, variance, order)
        assert len(part) == order
        np.testing.assert_array_equal(part, moments[:order])
    expected = values_and_derivatives(mean, variance)
    assert expected[2].shape == (4, 3)
    specs = [tf.TensorSpec([None, 1], tf.float64), tf.TensorSpec([None], tf.float64)]
    for compiled in (False, True):
        function = tf.function(rectified_raw_moments, jit_compile=compiled, input_signature=specs)
        for a, b in zip(values_and_derivatives(mean, variance, function), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13)


def test_errors():
    for order in (0, 5, 2.5, True, "2"):
        with pytest.raises(ValueError, match="order is .*; expected an integer from 1 to 4"):
            rectified_raw_moments(0.0, 1.0, order)
    with pytest.raises(TypeError, match="mean has dtype float16"):
        rectified_raw_moments(*np.ones((2, 1), np.float16))


def test_higher_moments_that_overflow_do_not_matter():
    mean, variance = tf.constant(1e15), tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch([mean, variance])
        second = rectified_raw_moments(mean, variance, 2)[1]
    np.testing.assert_allclose(tape.gradient(second, [mean, variance]), [2e15, 1.0])
