"""Gates against adaptive quadrature and sampling, and the normalisation of fields."""

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import tensorflow as tf

from tfpn.math.steerable.gates import gate_fields, gate_moments
from tfpn.math.steerable.normalization import field_statistics, normalize_fields

normal = scipy.stats.norm


def slow_moments(mean, variance):
    """E and Var of Phi(g) by adaptive quadrature over g."""
    std = np.sqrt(variance)

    def expected(power, centre=0.0):
        def integrand(z):
            return (normal.cdf(mean + std * z) - centre) ** power * normal.pdf(z)

        edge = np.clip(-mean / max(std, 1e-9), -12, 12)
        points = sorted({-12.0, float(edge), 12.0})
        return sum(
            scipy.integrate.quad(integrand, a, b, epsabs=1e-15, epsrel=1e-13, limit=200)[0]
            for a, b in zip(points[:-1], points[1:], strict=True)
        )

    first = expected(1)
    return first, expected(2, first)


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-13), ("float32", 2e-7)])
def test_moments_equal_quadrature(dtype, tolerance):
    for mean in (-6.0, -1.5, 0.0, 0.3, 4.0):
        for variance in (0.0, 1e-4, 0.5, 3.0, 1e3):
            found = gate_moments(np.array(mean, dtype), np.array(variance, dtype))
            expected = slow_moments(mean, variance)
            np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
            assert found[1] >= 0.0


def test_moments_have_finite_gradients():
    mean, variance = (
        tf.constant([-40.0, -1.0, 0.0, 2.0, 40.0]),
        tf.constant([0.0, 0.0, 1.0, 1e4, 9.0]),
    )
    with tf.GradientTape() as tape:
        tape.watch([mean, variance])
        out = tf.add_n([tf.reduce_sum(m) for m in gate_moments(mean, variance)])
    assert all(np.all(np.isfinite(g)) for g in tape.gradient(out, [mean, variance]))


def test_gated_fields_equal_sampling():
    rng = np.random.default_rng(0)
    v, spread = np.array([1.5, -0.4]), 0.7
    gate = {"mean": 0.3, "variance": 1.4}
    g = normal.cdf(gate["mean"] + np.sqrt(gate["variance"]) * rng.normal(size=(400_000, 1)))
    samples = g * (v + np.sqrt(spread) * rng.normal(size=(400_000, 2)))
    moments = gate_moments(np.array([gate["mean"]]), np.array([gate["variance"]]))
    mean, variance = gate_fields(tf.constant(v), tf.constant([spread], tf.float64), *moments)
    # Standard errors are 0.0015 and 0.003.
    np.testing.assert_allclose(mean, samples.mean(0), atol=0.006)
    np.testing.assert_allclose(variance[0], samples.var(0).mean(), atol=0.012)


def test_normalisation_equals_its_definition():
    rng = np.random.default_rng(1)
    fields = ((0, 2), (1, 1))
    values, variance = rng.normal(1.0, 2.0, size=(3, 5, 4)), rng.uniform(size=(3, 5, 4))
    variance[..., 3] = variance[..., 2]
    seen = rng.uniform(size=(3, 5, 3)) < 0.7
    weight = seen[..., [0, 1, 2, 2]].astype(float)
    values, variance = values * weight, variance * weight
    gamma, beta = rng.uniform(1, 2, size=3), rng.normal(size=2)
    mean, spread, count = field_statistics(*map(tf.constant, (values, variance, weight)), fields)
    new_values, new_variance, scales = normalize_fields(
        *map(tf.constant, (values, variance, weight)), mean, spread, tf.constant(gamma),
        tf.constant(beta), fields, 1e-3,
    )  # fmt: skip
    np.testing.assert_allclose(count, seen.sum((0, 1)))
    for block, channels in enumerate(([0], [1], [2, 3])):
        chosen = seen[..., block]
        v, s = values[chosen][:, channels], variance[chosen][:, channels]
        m = v.mean() if block < 2 else 0.0
        scale = gamma[block] / np.sqrt(np.mean((v - m) ** 2 + s) + 1e-3)
        shift = beta[block] if block < 2 else 0.0
        found = new_values.numpy()[chosen][:, channels], new_variance.numpy()[chosen][:, channels]
        np.testing.assert_allclose(found[0], (v - m) * scale + shift, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found[1], s * scale**2, rtol=1e-12)
        assert np.all(new_values.numpy()[~chosen][:, channels] == 0.0)
