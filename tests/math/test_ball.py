"""Integrals over a ball against closed forms in many digits and quadrature over the ball."""

import mpmath
import numpy as np
import pytest
import scipy.stats
import slow_gp
import tensorflow as tf

import tfpn
from tfpn.math import ball_integrals
from tfpn.math.kernels import Kernel, ScaleMixture, read_mixture
from tfpn.math.waves import Waves

RATIOS = [1e-3, 0.3, 1.0, 4.0, 30.0, 1e3]  # R / l
PRIOR = {"signal_std": 1.3, "length_scale": 0.4}
BALL = {"centre": np.array([0.3, -0.2, 0.1]), "radius": 0.7}


def exact_single(u, v):
    """F in 60 digits by the closed form, which cancels."""
    with mpmath.workdps(60):
        u, v = mpmath.mpf(float(u)) + mpmath.mpf(10) ** -25, mpmath.mpf(float(v))
        edges = mpmath.ncdf(v - u) - mpmath.ncdf(-v - u)
        return float(edges - (mpmath.npdf(v - u) - mpmath.npdf(v + u)) / u)


def exact_double(v):
    """h in 60 digits by the moments of a half normal variable."""
    with mpmath.workdps(60):
        w = 2 * mpmath.mpf(float(v))
        density = mpmath.exp(-(w**2) / 2)
        second = mpmath.sqrt(mpmath.pi / 2) * mpmath.erf(w / mpmath.sqrt(2)) - w * density
        third = 2 - (w**2 + 2) * density
        fifth = 8 - (w**4 + 4 * w**2 + 8) * density
        return float(
            mpmath.sqrt(2 / mpmath.pi) * (second - 3 * third / (2 * w) + fifth / (2 * w**3))
        )


@pytest.mark.parametrize("ratio", RATIOS)
def test_integrals_of_any_size(ratio):
    """Inside the ball, at its edge, and outside as far as anything can be seen."""
    rho = np.array([0.0, 0.3 * ratio, 0.97 * ratio, ratio, ratio + 0.5, ratio + 2.0, ratio + 5.0])
    points = 0.25 * rho[:, None] * np.array([2.0, -1.0, 2.0]) / 3.0
    single, double = ball_integrals(
        points, signal_std=1.5, length_scale=0.25, centre=np.zeros(3), radius=0.25 * ratio
    )
    whole = 1.5**2 * (2 * np.pi * 0.25**2) ** 1.5
    expected = np.array([exact_single(u, ratio) for u in rho])
    # Relative at the integral's largest value; rho / l itself is rounded by 1e-13 for 1e3.
    np.testing.assert_allclose(single / whole, expected, rtol=1e-9, atol=1e-12 * expected[0])
    chi = scipy.stats.ncx2.cdf(ratio**2, 3, rho**2)
    np.testing.assert_allclose(single / whole, chi, rtol=1e-8, atol=1e-11)
    volume = 4 / 3 * np.pi * (0.25 * ratio) ** 3
    # Powers of ratio and length are rounded.
    np.testing.assert_allclose(double / (whole * volume), exact_double(ratio), rtol=1e-13)
    # float32 has the error of its rounding alone.
    rounded = {"length_scale": np.float32(0.25), "radius": np.float32(0.25 * ratio)}
    low, high = (
        ball_integrals(
            points.astype("float32").astype(dtype), signal_std=1.5, centre=np.zeros(3), **rounded
        )
        for dtype in ("float32", "float64")
    )
    for one, other in zip(low, high, strict=True):
        assert one.dtype == "float32"
        np.testing.assert_allclose(one, other, rtol=1e-7)


def ball_nodes(count=24):
    """Nodes in the ball and their weights: spherical coordinates, exact for degree 2 count - 1."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    r, w = 0.5 * BALL["radius"] * (nodes + 1), 0.5 * BALL["radius"] * weights
    angle = np.arange(2 * count) * np.pi / count
    flat = np.sqrt(1 - nodes**2)
    around = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    sphere = np.concatenate(
        [
            flat[:, None, None] * around,
            np.broadcast_to(nodes[:, None, None], [count, 2 * count, 1]),
        ],
        axis=-1,
    ).reshape(-1, 3)
    areas = np.repeat(weights * np.pi / count, 2 * count)
    places = BALL["centre"] + r[:, None, None] * sphere
    return places.reshape(-1, 3), (np.outer(w * r**2, areas)).ravel()


@pytest.mark.parametrize("mixture", [read_mixture("rbf"), ScaleMixture([1.0, 2.0], [1.0, 2.5])])
def test_integrals_of_a_posterior_by_quadrature_over_the_ball(mixture):
    rng = np.random.default_rng(0)
    places, volumes = ball_nodes()
    np.testing.assert_allclose(volumes.sum(), 4 / 3 * np.pi * 0.7**3, rtol=1e-13)
    points, values = rng.uniform(size=(1, 5, 3)), rng.normal(size=(1, 5, 1))
    kernel = Kernel(tf.constant(1.3, tf.float64), tf.constant(0.4, tf.float64), mixture)
    ball = tuple(BALL.values())

    def covariance(a, b):
        return 1.3**2 * mixture(np.linalg.norm(a[:, None] - b, axis=-1) / 0.4)

    single = covariance(points[0], places) @ volumes
    once, twice = kernel.integrals(tf.constant(points), ball=ball)
    np.testing.assert_allclose(once[0], single, rtol=1e-10)
    # The double integral is that of the single one, which depends on the distance alone.
    nodes, weights = np.polynomial.legendre.leggauss(24)
    r = 0.35 * (nodes + 1)
    at = BALL["centre"] + np.stack([r, 0 * r, 0 * r], axis=-1)
    once, _ = kernel.integrals(tf.constant(at), ball=ball)
    double = 4 * np.pi * np.sum(0.35 * weights * r**2 * once.numpy())
    np.testing.assert_allclose(twice, double, rtol=1e-10)
    inverse = np.linalg.inv(covariance(points[0], points[0]) + 0.1 * np.eye(5))
    mean, variance, _ = tfpn.math.integrate(
        points, values, np.full((1, 5, 1), 0.1), **PRIOR, kernel=mixture, ball=ball
    )
    np.testing.assert_allclose(mean[0, 0], single @ inverse @ values[0, :, 0], rtol=1e-8)
    np.testing.assert_allclose(variance[0, 0], double - single @ inverse @ single, rtol=1e-7)


def test_integrals_of_plane_waves():
    """Wavelengths from far above to below the radius, in float64."""
    frequencies = np.array([[1e-3, 0.0, 0.0], [0.5, 0.7, -0.3], [3.0, -4.0, 5.0], [9.0, 12.0, 8.0]])
    amplitudes = np.eye(8)[None]  # a channel for each cosine and sine
    waves = Waves(
        tf.constant(frequencies[None]), tf.constant(amplitudes), tf.zeros([1, 1, 3], tf.float64)
    )
    region = {"ball": tuple(tf.constant(part, tf.float64) for part in BALL.values())}
    places, volumes = ball_nodes()
    expected = volumes @ waves(tf.constant(places[None]))[0, 0].numpy()
    np.testing.assert_allclose(waves.integral(region)[0, 0], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("radius", [0.1, 0.5, 20.0])
def test_gradients(radius):
    """Of both integrals in a graph against differences in float64, also at the centre."""
    given = {
        "points": np.array([[0.1, 0.15, 0.2], [0.4, -0.3, 0.1], [0.6, 0.5, 0.4], [-9.0, 7.0, 5.0]]),
        "signal_std": np.array(1.2), "length_scale": np.array(0.4),
        "centre": np.array([0.1, 0.15, 0.2]), "radius": np.array(radius),
    }  # fmt: skip
    projection = tf.constant([0.7, -1.1, 0.4, 0.9], tf.float64)

    def scalar(**arguments):
        single, double = ball_integrals(**arguments)
        return tf.reduce_sum(projection * single) / radius**3 + double / radius**6

    @tf.function
    def gradients_of(constants):
        with tf.GradientTape() as tape:
            tape.watch(constants)
            result = scalar(**constants)
        return tape.gradient(result, constants)

    constants = {key: tf.constant(value) for key, value in given.items()}
    gradients = gradients_of(constants)
    assert (gradients["points"][0] == 0.0).numpy().all()
    for key, value in given.items():
        expected = slow_gp.differences(
            lambda array, key=key: scalar(**{**constants, key: tf.constant(array)}), value
        )
        scale = max(1.0, np.max(np.abs(expected)))
        np.testing.assert_allclose(
            gradients[key], expected, rtol=1e-7, atol=1e-8 * scale, err_msg=key
        )


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"radius": -1.0}, "radius must be positive and finite, found -1.0"),
        ({"centre": [0.0, 0.0]}, r"centre has shape \(2,\), expected \[3\]"),
        ({"points": np.zeros((3, 2))}, r"points has shape \(3, 2\): a ball lies in space"),
    ],
)
def test_bad_balls(changes, message):
    given = {"points": np.zeros((3, 3)), "centre": [0.0, 0.0, 0.0], "radius": 1.0, **changes}
    with pytest.raises(ValueError, match=message):
        ball_integrals(signal_std=1.0, length_scale=1.0, **given)
