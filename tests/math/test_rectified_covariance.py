import numpy as np
import oracle
import pytest
import tensorflow as tf
from bivariate_references import NODES, exact, value_and_gradient
from tolerance import rounding

from tfpn.math import bivariate_normal_cdf, rectified_covariance, rectified_moments

CASES = oracle.cases("rectified_bivariate")
ARGUMENTS = ("mean1", "mean2", "variance1", "variance2", "covariance")


def oracle_arguments(case, dtype):
    names = ("mu1", "mu2", "sigma1", "sigma2", "rho")
    mu1, mu2, sigma1, sigma2, rho = (case["inputs"][name] for name in names)
    values = (mu1, mu2, sigma1**2, sigma2**2, rho * sigma1 * sigma2)
    return [dtype(x) for x in values], sigma1, sigma2, rho


def second_moment_gradient(case, gradient, sigma1, sigma2, rho):
    """Of E[relu(f1) relu(f2)] in the oracle's parameters, from that of the covariance."""
    arguments = [tf.Variable(np.float64(case["inputs"][n])) for n in ("mu1", "mu2")]
    arguments += [tf.Variable(np.float64(s)) for s in (sigma1, sigma2)]
    with tf.GradientTape() as tape:
        m1 = rectified_moments(arguments[0], tf.square(arguments[2]))[0]
        m2 = rectified_moments(arguments[1], tf.square(arguments[3]))[0]
        product = m1 * m2
    of_product = [float(x) for x in tape.gradient(product, arguments)] + [0.0]
    mean1, mean2, variance1, variance2, covariance = (float(x) for x in gradient)
    of_covariance = (
        mean1,
        mean2,
        2 * sigma1 * variance1 + covariance * rho * sigma2,
        2 * sigma2 * variance2 + covariance * rho * sigma1,
        covariance * sigma1 * sigma2,
    )
    names = ("mu1", "mu2", "sigma1", "sigma2", "rho")
    sums = (a + b for a, b in zip(of_product, of_covariance, strict=True))
    return dict(zip(names, sums, strict=True))


@pytest.fixture(scope="module")
def values_and_gradients():
    """Of all cases in one call, in float64 and float32; Phi2 besides."""
    cases, found = [case.values[0] for case in CASES], {}
    for dtype in (np.float64, np.float32):
        arguments = np.array([oracle_arguments(case, dtype)[0] for case in cases]).T
        value, gradient = value_and_gradient(*arguments)
        h, k = (np.array([case["outputs"][x] for case in cases], dtype) for x in "hk")
        rho = np.array([case["inputs"]["rho"] for case in cases], dtype)
        below = bivariate_normal_cdf(h, k, rho).numpy()
        for n, case in enumerate(cases):
            found[case["id"], dtype] = value[n], [x[n] for x in gradient], below[n]
    return found


@pytest.mark.parametrize("case", CASES)
def test_oracle(case, values_and_gradients):
    arguments, sigma1, sigma2, rho = oracle_arguments(case, np.float64)
    value, gradient, _ = values_and_gradients[case["id"], np.float64]
    oracle.assert_agrees(case, "covariance", value)
    m1, m2 = (rectified_moments(m, v)[0] for m, v in (arguments[0:3:2], arguments[1:4:2]))
    oracle.assert_agrees(case, "second_moment", value + m1 * m2)
    tolerance = case["tolerance"]["grad_second_moment"]
    found = second_moment_gradient(case, gradient, sigma1, sigma2, rho)
    for name, expected in case["outputs"]["grad_second_moment"].items():
        np.testing.assert_allclose(found[name], expected, **tolerance, err_msg=name)


@pytest.mark.parametrize("case", CASES)
def test_oracle_in_float32(case, values_and_gradients):
    _, sigma1, sigma2, rho = oracle_arguments(case, np.float32)
    value, gradient, _ = values_and_gradients[case["id"], np.float32]
    scale = sigma1 * sigma2
    assert value.dtype == np.float32
    np.testing.assert_allclose(value, case["outputs"]["covariance"], atol=2e-7 * scale, rtol=0)
    found = second_moment_gradient(case, gradient, sigma1, sigma2, rho)
    size = max(1, abs(case["outputs"]["h"]), abs(case["outputs"]["k"])) * max(sigma1, sigma2)
    for name, expected in case["outputs"]["grad_second_moment"].items():
        np.testing.assert_allclose(found[name], expected, atol=1e-5 * size, rtol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_oracle_bivariate_normal_cdf(case, values_and_gradients):
    *_, found = values_and_gradients[case["id"], np.float64]
    oracle.assert_agrees(case, "bivariate_cdf", found)
    # In float32 1 - rho has no more digits than rho.
    *_, found = values_and_gradients[case["id"], np.float32]
    np.testing.assert_allclose(found, case["outputs"]["bivariate_cdf"], atol=2e-6, rtol=0)


def random_arguments(count):
    """Everything: tails, narrow steps at correlations near 1 and -1, weak correlations."""
    rng = np.random.default_rng(5)
    gap = np.where(rng.random(count) < 0.4, 10 ** rng.uniform(-12, 0, count), rng.random(count))
    gap[::7] = 0
    rho = (1 - gap) * rng.choice([-1, 1], count)
    h = rng.uniform(-7, 7, count)
    near = h + rng.normal(size=count) * 10 ** rng.uniform(-8, 0.5, count)
    k = np.where(rng.random(count) < 0.5, rng.uniform(-7, 7, count), np.sign(rho) * near)
    h[0] = k[0] = -7
    return h, k, rho


@pytest.fixture(scope="module")
def references():
    arguments = {np.float32: 22, np.float64: 22}
    for dtype, count in arguments.items():
        h, k, rho = (x.astype(dtype) for x in random_arguments(count))
        arguments[dtype] = h, k, rho, np.array([exact(*x) for x in zip(h, k, rho, strict=True)])
    return arguments


@pytest.mark.parametrize(
    "dtype, nodes, relative, slope",
    [(np.float32, 16, 1e-5, 3e-6), (np.float64, NODES, 1e-12, 2e-14)],
    ids=["float32", "float64"],
)
def test_accuracy(references, dtype, nodes, relative, slope):
    h, k, rho, expected = references[dtype]
    one = np.ones_like(h)
    value, gradient = value_and_gradient(h, k, one, one, rho)
    error = np.abs(value - expected[:, 0])
    # The terms of the quadrature are positive, and their sum is below 1.
    assert np.max(error) < rounding(nodes, dtype)
    # In units of the standard deviations of relu(f1) and relu(f2), small in the tail.
    assert np.max(error / np.prod(expected[:, 6:], axis=1)) < relative
    for n, name in enumerate(ARGUMENTS):
        error = np.abs(gradient[n] - expected[:, n + 1])
        assert np.max(error) < slope, (name, h[np.argmax(error)], k[np.argmax(error)])


@pytest.mark.parametrize("dtype, atol", [(np.float32, 2e-7), (np.float64, 1e-15)])
def test_accuracy_of_bivariate_normal_cdf(references, dtype, atol):
    h, k, rho, expected = references[dtype]
    found = bivariate_normal_cdf(h, k, rho)
    np.testing.assert_allclose(found, expected[:, 5], atol=atol, rtol=0)
    tail = (rho > 0.1) & (expected[:, 5] > 0)
    np.testing.assert_allclose(found[tail], expected[tail, 5], rtol=1e5 * atol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_variables(dtype):
    """At the correlation 1 it is the variance, and the derivative in any direction agrees."""
    eps = np.finfo(dtype).eps
    t = np.concatenate([np.linspace(-8, 8, 65), [30.0, 1e3, -1e3]])
    variance = np.exp(np.random.default_rng(0).normal(size=t.size)).astype(dtype)
    mean = (t * np.sqrt(variance)).astype(dtype)
    value, gradient = value_and_gradient(mean, mean, variance, variance, variance)
    single = tf.convert_to_tensor(mean), tf.convert_to_tensor(variance)
    with tf.GradientTape() as tape:
        tape.watch(single)
        expected = rectified_moments(*single)[1]
    by_mean, by_variance = tape.gradient(expected, single)
    # 2e-6 is the quadrature's in float32; t^2 is the conditioning of exp(-t^2/2).
    rtol = max(2e-13, 20 * eps) * np.maximum(1, t * t)
    assert np.all(np.abs(value - expected) <= rtol * expected)
    scale = 10 * np.maximum(1, np.abs(t)) * eps
    assert np.all(np.abs(gradient[0] + gradient[1] - by_mean) <= scale * np.sqrt(variance))
    assert np.all(np.abs(gradient[2] + gradient[3] + gradient[4] - by_variance) <= scale)
    # Opposite variables: f2 = -f1.
    value, _ = value_and_gradient(mean, -mean, variance, variance, -variance)
    product = rectified_moments(mean, variance)[0] * rectified_moments(-mean, variance)[0]
    np.testing.assert_allclose(value, -product, rtol=0, atol=2 * eps * np.max(variance))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_correlations_beyond_one_by_rounding(dtype):
    eps = np.finfo(dtype).eps
    for mean1, mean2 in ((0.3, 0.3), (0.2, -1.4), (-2.0, -2.1)):
        arguments = [dtype(x) for x in (mean1, mean2, 0.7, 2.1)]
        for sign in (1, -1):
            exactly = sign * np.sqrt(dtype(0.7)) * np.sqrt(dtype(2.1))
            at_one = value_and_gradient(*arguments, dtype(exactly))
            beyond = value_and_gradient(*arguments, dtype(exactly * (1 + 8 * eps)))
            np.testing.assert_allclose(beyond[0], at_one[0], atol=20 * eps)
            np.testing.assert_allclose(beyond[1], at_one[1], atol=2 * np.sqrt(eps))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extremes(dtype):
    info = np.finfo(dtype)
    means = np.array([0.0, 1e-20, 0.5, 9.0, 40.0, 1e6, 1e18])
    means = np.concatenate([-means, means])
    variances = np.array([0.0, info.smallest_subnormal, info.tiny, 1e-12, 1.0, 1e12])
    correlations = np.array([-1.1, -1.0, -0.5, 0.0, 1 - 4 * info.eps, 1.0, 1.1])
    grid = np.meshgrid(means, means, variances, variances, correlations)
    mean1, mean2, variance1, variance2, correlation = (x.ravel().astype(dtype) for x in grid)
    covariance = correlation * np.sqrt(variance1) * np.sqrt(variance2)
    value, gradient = value_and_gradient(mean1, mean2, variance1, variance2, covariance)
    assert np.all(np.isfinite(value))
    for name, each in zip(ARGUMENTS, gradient, strict=True):
        assert np.all(np.isfinite(each)), name
    scale = np.sqrt(variance1) * np.sqrt(variance2)
    assert np.all(np.abs(value) <= scale * (1 + 4 * info.eps))
    assert np.all((gradient[4] >= 0) & (gradient[4] <= 1))
    none = np.minimum(variance1, variance2) < info.tiny
    assert np.all(value[none] == 0)
    # Both always positive: their covariance stays as it is. One never positive: 0.
    positive = (mean1 >= 40 * np.sqrt(variance1)) & (mean2 >= 40 * np.sqrt(variance2)) & ~none
    expected = np.clip(correlation, -1, 1) * scale
    error = np.abs(value - expected)[positive]
    assert np.all(error <= 8 * info.eps * scale[positive] + info.tiny)
    never = (mean1 <= -40 * np.sqrt(variance1)) & (mean1 < 0)
    assert np.all(value[never] == 0)


def test_covariance_matrices_stay_positive_in_the_tail():
    """In float32, where an error of 1e-7 would be a thousand times the variances."""
    x = np.linspace(0, 1, 30)
    prior = np.exp(-0.5 * np.subtract.outer(x, x) ** 2 / 0.15**2) + 1e-3 * np.eye(30)
    covariance, mean = prior.astype(np.float32), np.linspace(-6, -4, 30, dtype=np.float32)
    variance = np.diag(covariance)
    found = rectified_covariance(
        mean[:, None], mean, variance[:, None], variance, covariance
    ).numpy()
    np.testing.assert_allclose(found, found.T, rtol=1e-6)
    expected = rectified_moments(mean, variance)[1].numpy()
    np.testing.assert_allclose(np.diag(found), expected, rtol=1e-4)
    deviation = np.sqrt(np.diag(found).astype(np.float64))
    assert np.linalg.eigvalsh(found / np.outer(deviation, deviation)).min() > -1e-5


def test_shapes_and_modes_agree():
    rng = np.random.default_rng(2)
    mean = rng.normal(size=(2, 5))
    factor = rng.normal(size=(2, 5, 4))
    covariance = factor @ np.swapaxes(factor, -1, -2)
    variance = np.diagonal(covariance, axis1=-2, axis2=-1).copy()
    arguments = (
        *(mean[:, :, None], mean[:, None, :], variance[:, :, None], variance[:, None, :]),
        covariance,
    )
    value, gradient = value_and_gradient(*arguments)
    assert value.shape == (2, 5, 5)
    for x, each in zip(arguments, gradient, strict=True):
        assert each.shape == x.shape
    for dtype, compiled, unit in ((tf.float64, False, 1e-15), (tf.float32, True, 1e-6)):
        cast = [tf.cast(x, dtype) for x in arguments]
        value, gradient = value_and_gradient(*cast)
        specs = [tf.TensorSpec([None] * 3, dtype)] * 5
        other, others = value_and_gradient(*cast, jit_compile=compiled, input_signature=specs)
        np.testing.assert_allclose(other, value, atol=10 * unit)
        for a, b in zip(others, gradient, strict=True):
            np.testing.assert_allclose(a, b, atol=np.sqrt(unit))  # at correlations of 1
    value = rectified_covariance(*arguments)
    for i, j in np.ndindex(5, 5):
        single = rectified_covariance(*(x[1, i % x.shape[1], j % x.shape[2]] for x in arguments))
        np.testing.assert_allclose(single, value[1, i, j], atol=rounding(NODES))


def test_gradient_sums_over_broadcast_axes():
    rng = np.random.default_rng(3)
    shapes = [(3, 1), (4,), (1, 1), (), (3, 4)]
    arguments = [rng.uniform(0.5, 1.0, shape) for shape in shapes]
    _, gradient = value_and_gradient(*arguments)
    full = [np.broadcast_to(x, (3, 4)) for x in arguments]
    _, expected = value_and_gradient(*full)
    for x, found, each in zip(arguments, gradient, expected, strict=True):
        assert found.shape == x.shape
        axes = [n for n in range(2) if (1, 1, *x.shape)[-2:][n] == 1]
        summed = each.sum(axis=tuple(axes), keepdims=True) if axes else each
        np.testing.assert_allclose(found, summed.reshape(x.shape), rtol=1e-13)


def test_dtypes():
    assert rectified_covariance([1, 2], 0.5, 1.0, 1.0, 0.3).dtype == tf.float32
    with pytest.raises(TypeError, match="mean1 has dtype float16.*cast it before the call"):
        rectified_covariance(*np.ones((5, 2), np.float16))
    with pytest.raises(TypeError, match="x1 has dtype float16"):
        bivariate_normal_cdf(*np.ones((3, 2), np.float16))


def test_monte_carlo():
    rng = np.random.default_rng(4)
    n = 400_000
    mean, covariance = np.array([0.4, -0.3]), np.array([[1.7, -0.6], [-0.6, 0.8]])
    h = np.maximum(rng.multivariate_normal(mean, covariance, n), 0)
    product = np.prod(h - h.mean(axis=0), axis=1)
    found = rectified_covariance(*mean, *np.diag(covariance), covariance[0, 1])
    assert abs(product.mean() - found) < 4 * product.std() / np.sqrt(n)
