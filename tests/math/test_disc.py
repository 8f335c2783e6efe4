"""Integrals over a disc against SciPy's noncentral chi-square and quadrature in many digits."""

import mpmath
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import slow_gp
import tensorflow as tf

import tfpn
from tfpn.math import disc_integrals

RATIOS = [1e-3, 1e-2, 0.3, 1.0, 4.0, 30.0, 1e3]  # R / l


def distances(ratio):
    """rho / l inside the disc, at its edge, and outside as far as anything can be seen."""
    return np.array([0.0, 0.3 * ratio, 0.97 * ratio, ratio, ratio + 0.5, ratio + 2.0, ratio + 5.0])


def integrals(ratio, dtype, length=0.25, signal=1.3, unit=1.0):
    rho = distances(ratio) * length * unit
    points = np.stack([0.6 * rho, -0.8 * rho], axis=-1)  # a triangle of 3, 4 and 5
    return disc_integrals(
        points.astype(dtype), signal_std=np.asarray(signal, dtype),
        length_scale=np.asarray(length * unit, dtype), centre=np.zeros(2, dtype),
        radius=np.asarray(ratio * length * unit, dtype),
    )  # fmt: skip


def exact_single(u, v):
    """1 - Q_1(u, v) by its integral, in 30 digits."""
    with mpmath.workdps(30):
        u, v = mpmath.mpf(float(u)), mpmath.mpf(float(v))

        def density(r):
            return r * mpmath.exp(-((r - u) ** 2) / 2 - u * r) * mpmath.besseli(0, u * r)

        nodes = mpmath.linspace(max(mpmath.mpf(0), min(u, v) - 12), min(v, u + 12), 5)
        return float(mpmath.quad(density, nodes))


@pytest.mark.parametrize("ratio", RATIOS)
def test_single_integral_of_any_size(ratio):
    whole = 2 * np.pi * 1.3**2 * 0.25**2
    expected = np.array([exact_single(u, ratio) for u in distances(ratio)])
    found, _ = integrals(ratio, np.float64)
    assert found.dtype == "float64"
    # Relative at the integral's largest value; rho / l itself is rounded by 1e-13 for 1e3.
    np.testing.assert_allclose(found / whole, expected, rtol=1e-9, atol=1e-12 * expected[0])
    chi = scipy.stats.ncx2.cdf(ratio**2, 2, distances(ratio) ** 2)
    np.testing.assert_allclose(found / whole, chi, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("dtype, tolerance", [(np.float64, 1e-14), (np.float32, 2e-7)])
def test_double_integral_of_any_size(ratio, dtype, tolerance):
    _, found = integrals(ratio, dtype, length=0.25, signal=1.5)
    with mpmath.workdps(30):
        t = mpmath.mpf(ratio) ** 2
        bessel = mpmath.besseli(0, t) + mpmath.besseli(1, t)
        expected = float(1 - mpmath.exp(-t) * bessel)
    expected *= 2 * np.pi * 1.5**2 * 0.25**2 * np.pi * (ratio * 0.25) ** 2
    assert found.dtype == dtype
    # Powers of ratio and length are rounded: some units of the dtype.
    np.testing.assert_allclose(found, expected, rtol=4 * tolerance)


@pytest.mark.parametrize("ratio", RATIOS)
def test_float32_is_float64_of_rounded_arguments(ratio):
    rho = (distances(ratio) * 0.25).astype(np.float32)
    points = np.stack([rho, np.zeros_like(rho)], axis=-1)
    radius = np.float32(ratio * 0.25)
    options = {"signal_std": np.float32(1.5), "length_scale": np.float32(0.25)}
    low, _ = disc_integrals(points, centre=np.zeros(2, "f"), radius=radius, **options)
    high, _ = disc_integrals(
        points.astype(np.float64), centre=np.zeros(2), radius=np.float64(radius), **options
    )
    assert low.dtype == "float32"
    np.testing.assert_allclose(low, high, rtol=1e-7)


def test_against_quadrature_over_the_disc():
    """Both integrals of the kernel itself, in polar coordinates."""
    centre, radius, length, signal = np.array([0.3, -0.2]), 0.7, 0.4, 1.3
    points = np.array([[0.3, -0.2], [0.8, 0.1], [1.5, 1.0]])
    single, double = disc_integrals(
        points, signal_std=signal, length_scale=length, centre=centre, radius=radius
    )

    def average(function):
        nodes, weights = np.polynomial.legendre.leggauss(40)
        r, w = 0.5 * radius * (nodes + 1), 0.5 * radius * weights
        angles = np.arange(64) * 2 * np.pi / 64
        at = centre + r[:, None, None] * np.stack([np.cos(angles), np.sin(angles)], -1)
        return np.sum(function(at).mean(-1) * w * 2 * np.pi * r)

    for point, found in zip(points, single.numpy(), strict=True):
        expected = average(
            lambda at, point=point: (
                signal**2 * np.exp(-((at - point) ** 2).sum(-1) / (2 * length**2))
            )
        )
        np.testing.assert_allclose(found, expected, rtol=1e-12)

    def inner(at):
        flat = at.reshape(-1, 2)
        return disc_integrals(
            flat, signal_std=signal, length_scale=length, centre=centre, radius=radius
        )[0].numpy().reshape(at.shape[:-1])  # fmt: skip

    np.testing.assert_allclose(double, average(inner), rtol=1e-12)
    # Once more by brute force, in Cartesian coordinates, with SciPy's own tolerance.
    brute, _ = scipy.integrate.dblquad(
        lambda y, x: signal**2 * np.exp(-((x - 0.5) ** 2 + (y + 0.2) ** 2) / (2 * length**2)),
        -radius, radius, lambda x: -np.sqrt(radius**2 - x**2), lambda x: np.sqrt(radius**2 - x**2),
        epsabs=1e-9,
    )  # fmt: skip
    moved = centre + np.array([0.5, -0.2])
    found, _ = disc_integrals(
        moved, signal_std=signal, length_scale=length, centre=centre, radius=radius
    )
    np.testing.assert_allclose(found, brute, rtol=1e-8)


@pytest.mark.parametrize("radius", [0.1, 0.5, 20.0])
def test_gradients(radius):
    """Of both integrals, against differences in float64."""
    given = {
        "points": np.array([[0.1, 0.2], [0.4, -0.3], [0.6, 0.5], [-18.0, 7.0]]),
        "signal_std": np.array(1.2), "length_scale": np.array(0.4),
        "centre": np.array([0.1, 0.15]), "radius": np.array(radius),
    }  # fmt: skip
    projection = tf.constant([0.7, -1.1, 0.4, 0.9], tf.float64)

    def scalar(**arguments):
        single, double = disc_integrals(**arguments)
        return tf.reduce_sum(projection * single) / radius**2 + double / radius**4

    constants = {key: tf.constant(value) for key, value in given.items()}
    with tf.GradientTape() as tape:
        tape.watch(constants)
        result = scalar(**constants)
    gradients = tape.gradient(result, constants)
    for key, value in given.items():
        expected = slow_gp.differences(
            lambda array, key=key: scalar(**{**constants, key: tf.constant(array)}), value
        )
        scale = max(1.0, np.max(np.abs(expected)))
        np.testing.assert_allclose(
            gradients[key], expected, rtol=1e-7, atol=1e-8 * scale, err_msg=key
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ratio", RATIOS)
def test_gradients_are_finite_and_vanish_at_the_centre(ratio, dtype):
    points = tf.constant([[0.0, 0.0], [1e-20, 0.0], [0.25 * ratio, 0.0], [1e4, 0.0]], dtype)
    with tf.GradientTape() as tape:
        tape.watch(points)
        single, _ = disc_integrals(
            points, signal_std=1.0, length_scale=0.25, centre=[0.0, 0.0], radius=0.25 * ratio
        )
    gradient = tape.gradient(single, points).numpy()
    assert np.isfinite(gradient).all() and (gradient[0] == 0).all()
    assert gradient[2, 0] < 0.0  # it falls where the edge is crossed


@pytest.mark.parametrize("noise", ["shared", "channel"])
def test_integral_of_a_posterior_is_that_of_many_boxes(noise):
    """A disc is the limit of strips; their integrals are products of normal CDFs."""
    rng = np.random.default_rng(0)
    points, values = rng.uniform(size=(2, 6, 2)), rng.normal(size=(2, 6, 2))
    variance = rng.uniform(0.05, 0.2, size=values.shape)
    variance[0, 1] = np.inf
    options = {"signal_std": 1.3, "length_scale": 0.4, "noise": noise}
    centre, radius = np.array([0.4, 0.6]), 0.5
    mean, var, nll = tfpn.math.integrate(points, values, variance, disc=(centre, radius), **options)
    # int over phi in (0, pi) of strips at x = cos(phi), which converges quickly.
    nodes, weights = np.polynomial.legendre.leggauss(60)
    phi, weights = 0.5 * np.pi * (nodes + 1), 0.5 * np.pi * weights
    expected, eps = 0.0, 1e-6
    for angle, weight in zip(phi, weights, strict=True):
        middle, half = centre[0] + radius * np.cos(angle), radius * np.sin(angle)
        low = np.array([middle - eps, centre[1] - half])
        high = np.array([middle + eps, centre[1] + half])
        strip, _, _ = tfpn.math.integrate(points, values, variance, box=(low, high), **options)
        expected = expected + weight * radius * np.sin(angle) * strip.numpy() / (2 * eps)
    np.testing.assert_allclose(mean, expected, rtol=1e-6, atol=1e-8)
    _, prior = disc_integrals(
        points, signal_std=1.3, length_scale=0.4, centre=centre, radius=radius
    )
    assert (var.numpy() > 0).all() and (var.numpy() < prior.numpy()).all()
    np.testing.assert_allclose(nll, tfpn.math.integrate(points, values, variance, **options)[2])


def test_all_space_is_the_limit_of_large_discs():
    rng = np.random.default_rng(0)
    data = rng.uniform(size=(2, 6, 2)), rng.normal(size=(2, 6, 2)), np.full((2, 6, 2), 0.1)
    options = {"signal_std": 1.3, "length_scale": 0.6}
    wide, variance, _ = tfpn.math.integrate(*data, disc=([0.0, 0.0], 50.0), **options)
    np.testing.assert_allclose(tfpn.math.integrate(*data, **options)[0], wide, rtol=1e-12)
    assert np.isfinite(variance).all()


def test_xla_agrees():
    points = tf.random.stateless_uniform([5, 7, 2], [0, 1], dtype=tf.float64)
    options = {"signal_std": 1.0, "length_scale": 0.3, "centre": [0.5, 0.5], "radius": 0.4}

    def call(points):
        return disc_integrals(points, **options)

    for eager, compiled in zip(
        call(points), tf.function(call, jit_compile=True)(points), strict=True
    ):
        np.testing.assert_allclose(compiled, eager, rtol=1e-12)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"radius": 0.0}, "radius must be positive and finite, found 0.0"),
        ({"radius": np.nan}, "radius must be positive"),
        ({"centre": [0.0, 0.0, 0.0]}, r"centre has shape \(3,\), expected \[2\]"),
        ({"radius": [1.0, 2.0]}, r"radius has shape \(2,\), expected \[\]"),
        ({"points": np.zeros((3, 1))}, r"points has shape \(3, 1\): a disc lies in the plane"),
    ],
)
def test_bad_discs(changes, message):
    given = {"points": np.zeros((3, 2)), "centre": [0.0, 0.0], "radius": 1.0, **changes}
    with pytest.raises(ValueError, match=message):
        disc_integrals(signal_std=1.0, length_scale=1.0, **given)


def test_a_box_and_a_disc_exclude_each_other():
    data = np.zeros((1, 2, 2)), np.zeros((1, 2, 1)), np.ones((1, 2, 1))
    with pytest.raises(ValueError, match="give one of box, disc, ball: found box="):
        tfpn.math.integrate(
            *data, signal_std=1.0, length_scale=1.0, box=(0.0, 1.0), disc=([0.0, 0.0], 1.0)
        )
