import mpmath
import numpy as np
import oracle
import pytest
import tensorflow as tf
from tolerance import rounding

from tfpn.math import rectified_moments

# Units in the last place, in all that is computed: 4 were seen.
ROUNDINGS = 8
OUTPUTS = ("mean", "variance", "dmean_dmu", "dmean_dv", "dvariance_dmu", "dvariance_dv")


def moments_and_derivatives(mean, variance, function=rectified_moments):
    mean, variance = tf.convert_to_tensor(mean), tf.convert_to_tensor(variance)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([mean, variance])
        first, second = function(mean, variance)
    gradients = [tape.gradient(y, x) for y in (first, second) for x in (mean, variance)]
    return dict(zip(OUTPUTS, [first, second, *gradients], strict=True))


def exact(mean, variance):
    """The six numbers at 50 digits (more inside, for the cancellations of the plain formulas)."""
    with mpmath.workdps(700):
        mu, v = mpmath.mpf(float(mean)), mpmath.mpf(float(variance))
        sigma = mpmath.sqrt(v)
        t = mu / sigma
        above, below = (mpmath.erfc(-sign * t / mpmath.sqrt(2)) / 2 for sign in (1, -1))
        density = mpmath.npdf(t)
        g = density + t * above
        values = (
            sigma * g,
            v * ((t * t + 1) * above + t * density - g * g),
            above,
            density / (2 * sigma),
            2 * sigma * g * below,
            above - g * density,
        )
    with mpmath.workdps(50):
        return [+value for value in values]


@pytest.mark.parametrize("case", oracle.cases("rectified_univariate"))
def test_oracle(case):
    given = case["inputs"]
    found = moments_and_derivatives(np.float64(given["mu"]), np.float64(given["v"]))
    for output in OUTPUTS:
        if output in case["outputs"]:
            oracle.assert_agrees(case, output, found[output])


@pytest.mark.parametrize("case", oracle.cases("rectified_univariate"))
def test_oracle_in_float32(case):
    mu, v = np.float32(case["inputs"]["mu"]), np.float32(case["inputs"]["v"])
    found = moments_and_derivatives(mu, v)
    # Rounding mu and v moves t by eps t and exp(-t^2/2) by eps t^2; the factors multiply it.
    squared = 1.0 if v == 0 else max(1.0, float(mu) ** 2 / float(v))
    for output in OUTPUTS:
        if output in case["outputs"]:
            expected = case["outputs"][output]
            np.testing.assert_allclose(
                found[output], expected, rtol=1e-6 * squared, atol=1e-37, err_msg=output
            )


@pytest.mark.parametrize(
    "dtype, largest", [(np.float64, 37.0), (np.float32, 12.5)], ids=["float64", "float32"]
)
def test_relative_accuracy(dtype, largest):
    rng = np.random.default_rng(0)
    t = np.concatenate([np.linspace(-largest, largest, 75), rng.normal(size=25)])
    variance = np.exp(rng.normal(size=t.size)).astype(dtype)
    mean = (t * np.sqrt(variance)).astype(dtype)
    found = moments_and_derivatives(mean, variance)
    # The results' own conditioning is t^2, of exp(-t^2/2); 4 roundings of it were seen at most.
    unit = np.finfo(dtype).eps * np.maximum(1.0, (mean / np.sqrt(variance)) ** 2)
    expected = [exact(m, v) for m, v in zip(mean, variance, strict=True)]
    for i, output in enumerate(OUTPUTS):
        error = [
            float(abs(mpmath.mpf(float(x)) - y[i]) / y[i])
            for x, y in zip(found[output].numpy(), expected, strict=True)
        ]
        assert np.max(error / unit) < ROUNDINGS, (output, mean[np.argmax(error / unit)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_relative_accuracy_in_any_unit(dtype):
    eps, info = np.finfo(dtype).eps, np.finfo(dtype)
    smallest, largest = np.log2(float(info.tiny)), np.log2(float(info.max))
    sigma = 2.0 ** np.linspace(0.5 * smallest + 8, 0.5 * largest - 8, 15)
    for t in (-2.0, 0.0, 0.7, 3.0):
        variance = (sigma**2).astype(dtype)
        mean = (t * np.sqrt(variance)).astype(dtype)
        found = moments_and_derivatives(mean, variance)
        for n, (m, v) in enumerate(zip(mean, variance, strict=True)):
            for output, value in zip(OUTPUTS, exact(m, v), strict=True):
                np.testing.assert_allclose(
                    float(found[output][n]), float(value), rtol=40 * eps, err_msg=f"{output} {v}"
                )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extremes(dtype):
    info = np.finfo(dtype)
    means = [0.0, -0.0, info.tiny, 1e-20, 1.0, 1e20, 0.1 * info.max]
    means = np.array(means + [-m for m in means])
    variances = np.array([0.0, info.smallest_subnormal, info.tiny, 1e-20, 1.0, 1e20, 1e37])
    mean, variance = (t.ravel().astype(dtype) for t in np.meshgrid(means, variances))
    with np.errstate(under="ignore"):
        found = moments_and_derivatives(mean, variance)
    for output, value in found.items():
        assert np.all(np.isfinite(value)), output
        assert np.all(value.numpy() >= 0), output
    # E relu(f) <= relu(mu) + sigma phi(0), Var relu(f) <= v.
    above = found["mean"] - np.maximum(mean, 0)
    assert np.all(above <= 0.4 * np.sqrt(variance) + info.tiny)
    assert np.all(found["variance"] <= variance * (1 + 2 * info.eps))
    # Without variance it is the ReLU. (At means below the root of the least normal number it is
    # as smooth as with the variance of that number.)
    none = (variance == 0) & ((mean == 0) | (np.abs(mean) > 1e-10))
    zeros = np.zeros_like(mean)
    for output, value in (
        ("mean", np.maximum(mean, 0)),
        ("variance", zeros),
        ("dmean_dv", zeros),
        ("dvariance_dmu", zeros),
        ("dmean_dmu", np.heaviside(mean, 0.5)),
    ):
        np.testing.assert_array_equal(found[output][none], value[none], err_msg=output)
    away = none & (mean != 0)
    np.testing.assert_array_equal(found["dvariance_dv"][away], mean[away] > 0)


def test_shapes_and_modes_agree():
    rng = np.random.default_rng(2)
    mean, variance = rng.normal(size=(2, 3, 4)), rng.uniform(size=(2, 3, 4))
    eager = moments_and_derivatives(mean, variance)
    limit = rounding(ROUNDINGS * 2, condition=np.maximum(1.0, mean**2 / variance))
    unknown = tf.TensorSpec([None, None, None], tf.float64)
    for compiled in (False, True):
        function = tf.function(
            rectified_moments, jit_compile=compiled, input_signature=[unknown, unknown]
        )
        for output, value in moments_and_derivatives(mean, variance, function).items():
            # The compiler orders and contracts operations as it likes, and vectors of numbers have
            # another exp than single ones: both are within what `test_relative_accuracy` allows.
            assert np.all(np.abs(value - eager[output]) <= limit * np.abs(eager[output])), output
    for index in np.ndindex(mean.shape):
        for one, output in zip(rectified_moments(mean[index], variance[index]), OUTPUTS[:2],
                               strict=True):  # fmt: skip
            np.testing.assert_allclose(one, eager[output][index], rtol=limit[index])


def test_dtypes():
    first, second = rectified_moments(np.ones(2, np.float32), np.ones(2, np.float32))
    assert first.dtype == second.dtype == tf.float32
    first, second = rectified_moments([1, 2], [1.0, 2.0])
    assert first.dtype == second.dtype == tf.float32
    for dtype in (np.float16, tf.bfloat16.as_numpy_dtype):
        with pytest.raises(TypeError, match="mean has dtype b?float16.*cast it before the call"):
            rectified_moments(np.ones(2, dtype), np.ones(2, dtype))


def test_monte_carlo():
    rng = np.random.default_rng(4)
    n = 400_000
    for mu, v in ((0.4, 1.7), (-1.1, 0.6)):
        h = np.maximum(mu + np.sqrt(v) * rng.normal(size=n), 0)
        mean, variance = rectified_moments(np.float64(mu), np.float64(v))
        assert abs(h.mean() - mean) < 4 * h.std() / np.sqrt(n)
        squares = (h - h.mean()) ** 2
        assert abs(squares.mean() - variance) < 4 * squares.std() / np.sqrt(n)
