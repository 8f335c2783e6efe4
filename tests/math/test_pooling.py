import mpmath
import numpy as np
import oracle
import pytest
import slow_gp
import tensorflow as tf
from tolerance import differences

import tfpn


def prior(case, dtype):
    given = case["inputs"]
    length, d = given["lengthscale"], given["d"]
    signal = np.sqrt(given["a"] * (2 * np.pi * length**2) ** (-d / 2))
    return {
        "signal_std": tf.constant(signal, dtype),
        "length_scale": tf.constant(length, dtype),
    }


@pytest.mark.parametrize(
    "dtype, tolerance",
    [
        pytest.param("float64", {}, id="float64"),
        # Outside, (Phi(1 - x') - Phi(-x')) / l moves by eps x'^2 / l^2, with x'/l up to 8.
        pytest.param("float32", {"rtol": 1e-5}, id="float32"),
    ],
)
@pytest.mark.parametrize("case", oracle.cases("pooling"))
def test_kernel_integrals(case, dtype, tolerance):
    given = case["inputs"]
    points = tf.constant(given["xp"], dtype)
    single, double = tfpn.math.box_integrals(points, low=0.0, high=1.0, **prior(case, dtype))
    assert single.dtype == double.dtype == dtype
    oracle.assert_agrees(case, "single_unit_box", single, **tolerance)
    oracle.assert_agrees(case, "double_unit_box", double, **tolerance)
    # The box moved, and given by its corners.
    corner = np.arange(1.0, given["d"] + 1)
    moved, same = tfpn.math.box_integrals(
        points + corner.astype(dtype), low=corner, high=corner + 1, **prior(case, dtype)
    )
    shift = {"rtol": 1e-4} if dtype == "float32" else {"rtol": 1e-11}
    oracle.assert_agrees(case, "single_unit_box", moved, **shift)
    oracle.assert_agrees(case, "double_unit_box", same, **shift)
    everywhere = tfpn.math.kernel_integral(*prior(case, dtype).values(), given["d"])
    oracle.assert_agrees(case, "single_all_space", everywhere, **tolerance)


@pytest.mark.parametrize(
    "low, high, message",
    [
        (1.0, 0.0, r"low must be below high .* low = 1.0 and high = 0.0"),
        ([0.0, 1.0], [1.0, 1.0], r"low = \[0.0, 1.0\] and high = \[1.0, 1.0\]"),
        (np.nan, 1.0, "low must be below high"),
        ([0.0, 0.0, 0.0], 1.0, r"low has shape \(3,\), expected a scalar or \[2\]"),
        (0.0, [[1.0], [1.0]], r"high has shape \(2, 1\), expected a scalar or \[2\]"),
    ],
)
def test_bad_boxes(low, high, message):
    with pytest.raises(ValueError, match=message):
        tfpn.math.box_integrals(
            np.zeros((3, 2)), signal_std=1.0, length_scale=1.0, low=low, high=high
        )


def test_a_box_known_later_is_not_looked_at():
    points = np.zeros((3, 2))
    call = tf.function(
        lambda low: tfpn.math.box_integrals(
            points, signal_std=1.0, length_scale=1.0, low=low, high=1.0
        )
    )
    assert np.isfinite(call(tf.constant(2.0, tf.float64))[0]).all()


def test_kernel_integral_takes_integers_and_keeps_the_dtype():
    for signal_std in (2, 2.0, np.float64(2.0)):
        for length_scale in (3, 3.0, np.float64(3.0)):
            found = tfpn.math.kernel_integral(signal_std, length_scale, 2)
            assert found.dtype == ("float64" if isinstance(signal_std, np.float64) else "float32")
            np.testing.assert_allclose(found, 4 * 2 * np.pi * 9, rtol=1e-6)


@pytest.mark.parametrize("dim", [0, -1, 1.5, "a", True, None])
def test_kernel_integral_needs_a_dimension(dim):
    with pytest.raises(ValueError, match=f"dim must be a positive integer.* found {dim!r}"):
        tfpn.math.kernel_integral(1.0, 1.0, dim)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", [1e-3, 0.1, 0.9, 1.1, 30.0, 1e4])
def test_double_integral_of_any_length_scale(length, dtype):
    """Against a quadrature of int_0^1 2 (1 - r) exp(-r^2 / (2 l^2)) dr, all of it positive."""
    x, w = np.polynomial.legendre.leggauss(80)
    end = min(1.0, 12 * length)
    r = end * (x + 1) / 2
    expected = end / 2 * w @ (2 * (1 - r) * np.exp(-0.5 * (r / length) ** 2))
    _, double = tfpn.math.box_integrals(
        tf.zeros([1], dtype), low=0.0, high=1.0, signal_std=1.0, length_scale=length
    )
    # One or two dozen roundings.
    np.testing.assert_allclose(double, expected, rtol=30 * np.finfo(dtype).eps)


def observations(d, seed=0, missing=True, dtype=np.float64):
    rng = np.random.default_rng(seed)
    points, values = rng.uniform(size=(2, 5, d)), rng.normal(size=(2, 5, 2))
    variance = rng.uniform(0.05, 0.2, size=values.shape)
    if missing:
        variance[0, 1] = np.inf
        values[0, 1] = np.nan
        variance[1] = np.inf
    return tuple(t.astype(dtype) for t in (points, values, variance))


BOX = (-0.2, np.array([1.1, 0.9, 1.3]))


@pytest.mark.parametrize("noise", ["shared", "channel"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_integrate_against_quadrature(d, noise):
    data = observations(d)
    options = {"signal_std": 1.3, "length_scale": 0.6, "noise": noise, "observation_variance": 0.03}
    box = BOX[0], BOX[1][:d]
    found = tfpn.math.integrate(*data, box=box, **options)
    expected = slow_gp.integrate(*data, box=box, **options)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    # Nothing observed: the prior.
    assert np.all(found[0][1] == 0) and np.all(found[2][1] == 0)
    low = tfpn.math.integrate(*(t.astype(np.float32) for t in data), box=box, **options)
    for one, other in zip(low, expected, strict=True):
        # Condition number s^2 N / noise, a hundred, times eps.
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("noise", ["shared", "channel"])
def test_all_space_is_the_limit_of_large_boxes(noise):
    data = observations(2)
    options = {"signal_std": 1.3, "length_scale": 0.6, "noise": noise}
    mean, variance, nll = tfpn.math.integrate(*data, **options)
    wide = tfpn.math.integrate(*data, box=(-30.0, 30.0), **options)
    np.testing.assert_allclose(mean, wide[0], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(nll, wide[2], rtol=1e-13)
    assert variance.shape == (2, 2) and np.all(np.isposinf(variance))


@pytest.mark.parametrize("box", [None, (0.0, 1.0)], ids=["space", "box"])
@pytest.mark.parametrize("noise", ["shared", "channel"])
def test_gradients(noise, box):
    points, values, variance = observations(2)
    values = np.nan_to_num(values)
    given = {
        "points": points, "values": values, "variance": variance, "signal_std": np.array(1.2),
        "length_scale": np.array(0.5), "observation_variance": np.array([0.02, 0.05]),
    }  # fmt: skip
    rng = np.random.default_rng(1)
    projections = [tf.constant(rng.normal(size=(2, 2))) for _ in range(3)]

    @tf.function
    def scalar(**arguments):
        mean, variance, nll = tfpn.math.integrate(box=box, noise=noise, **arguments)
        variance = tf.zeros_like(mean) if box is None else variance
        results = mean, variance, nll
        return sum(tf.reduce_sum(p * r) for p, r in zip(projections, results, strict=True))

    constants = {key: tf.constant(value) for key, value in given.items()}
    with tf.GradientTape() as tape:
        tape.watch(constants)
        result = scalar(**constants)
    gradients = tape.gradient(result, constants)
    for key, value in given.items():

        def moved(array, key=key):
            return scalar(**{**constants, key: tf.constant(array)})

        with np.errstate(invalid="ignore"):  # inf - inf stays inf where nothing is observed
            expected = slow_gp.differences(moved, value)
        scale = max(1.0, np.max(np.abs(expected)))
        # Solves by 5 points: the condition number is 5 s^2 / noise, and the solves sum 5 terms. The
        # smallest length on which the result varies is a variance, 0.1.
        condition = 5 * 1.2**2 / 0.07
        limit = differences(abs(float(result)), 1e-3, condition=5 * condition, scale=0.1)
        np.testing.assert_allclose(
            gradients[key], expected, rtol=0, atol=limit * scale, err_msg=key
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_variance_is_never_negative(dtype):
    points = np.linspace(0, 1, 60, dtype=dtype)[None, :, None]
    for length in (0.05, 0.5, 5.0):
        _, variance, _ = tfpn.math.integrate(
            points, np.sin(points), np.zeros_like(points), signal_std=1.0, length_scale=length,
            box=(0.0, 1.0),
        )  # fmt: skip
        assert 0 <= float(variance[0, 0]) < 1e-3


def test_units_do_not_matter():
    points, values, variance = observations(2, dtype=np.float32)
    results = []
    for unit in (1.0, 1e-6, 1e6):
        unit = np.float32(unit)
        mean, var, nll = tfpn.math.integrate(
            points * unit, values, variance, signal_std=1.0, length_scale=0.5 * unit,
            box=(0.0, unit),
        )  # fmt: skip
        results.append((mean / unit**2, var / unit**4, nll))
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", [0.99, 1.01, 10.0, 1e3, 1e8])
def test_boxes_that_are_small_against_the_length_scale(length, dtype):
    points = np.array([0.3, -0.5, 1.7, 0.5, -3 * length]).astype(dtype)
    single, double = tfpn.math.box_integrals(
        points[:, None], signal_std=1.0, length_scale=length, low=0.0, high=1.0
    )
    scale = mpmath.mpf(float(np.asarray(length, dtype)))
    with mpmath.workdps(40):
        sides = [
            ((1 - mpmath.mpf(float(p))) / scale, -mpmath.mpf(float(p)) / scale) for p in points
        ]
        expected = [mpmath.ncdf(high) - mpmath.ncdf(low) for high, low in sides]
        whole = mpmath.sqrt(2 * mpmath.pi) * scale
        u = 1 / scale
        both = 2 * u * mpmath.ncdf(u) - u + mpmath.sqrt(2 / mpmath.pi) * mpmath.expm1(-u * u / 2)
    # Where a point is 3 length scales away the side's rounding counts ten times.
    tolerance = 30 * np.finfo(dtype).eps
    np.testing.assert_allclose(
        single, np.array([value * whole for value in expected], float), rtol=tolerance
    )
    np.testing.assert_allclose(double, float(whole * scale * both), rtol=tolerance)
