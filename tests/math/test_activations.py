"""Nonlinearities on Gaussian variables, against adaptive quadrature and draws."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import integrate

import tfpn
from tfpn.layers.prob_activation import read_activation
from tfpn.math.activations import Rectifier

MEANS, STDS = np.array([-2.0, -0.3, 0.0, 0.7, 3.0]), np.array([0.2, 1.0])
# The documented errors of quadrature by standard deviation, relative to it.
QUADRATURE = {0.2: 1e-7, 1.0: 2e-4}
FUNCTIONS = {  # Keras holds the slope in single precision
    "leaky_relu": lambda x: tf.where(x > 0.0, x, 0.2 * x)
}
CASES = ["relu", "leaky_relu", "softplus", "gelu", "silu", "tanh"]


def function(name):
    return FUNCTIONS.get(name, keras.activations.get(name))


def exact(name, mean, std, power=1, centre=0.0):
    """E (h(f) - centre)^power by adaptive quadrature, split at the kink of rectifiers."""
    h = function(name)

    def integrand(z):
        value = float(h(tf.constant(mean + std * z, tf.float64)))
        return np.exp(-0.5 * z * z) * (value - centre) ** power

    kink = float(np.clip(-mean / std, -9, 9))
    parts = [integrate.quad(integrand, *ends, limit=100)[0] for ends in ((-9, kink), (kink, 9))]
    return sum(parts) / np.sqrt(2 * np.pi)


def tolerance(name, std):
    if name in ("relu", "leaky_relu"):
        return {"rtol": 1e-9, "atol": 1e-12}
    return {"rtol": 0.0, "atol": QUADRATURE[std] * std}


@pytest.mark.parametrize("name", CASES)
def test_moments(name):
    mean, std = np.meshgrid(MEANS, STDS)
    found, spread = read_activation(name).moments(tf.constant(mean), tf.constant(std**2))
    for index in np.ndindex(*mean.shape):
        m, s = mean[index], std[index]
        expected = exact(name, m, s)
        np.testing.assert_allclose(found[index], expected, **tolerance(name, s))
        expected = exact(name, m, s, power=2, centre=expected)
        np.testing.assert_allclose(spread[index], expected, **tolerance(name, s))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_without_variance_it_is_the_function(name, dtype):
    mean = tf.constant(np.linspace(-3, 3, 13), dtype)
    found, spread = read_activation(name).moments(mean, tf.zeros_like(mean))
    expected = function(name)(tf.cast(mean, tf.float64))
    # 32 terms are added up.
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(found, expected, rtol=32 * eps, atol=32 * eps)
    np.testing.assert_allclose(spread, np.zeros(13), atol=(100 * eps) ** 2)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_the_differences_quotients(name):
    activation = read_activation(name)
    given = [tf.constant(t, tf.float64) for t in ([-0.7, 0.2, 1.1], [0.3, 0.8, 1.5])]
    with tf.GradientTape() as tape:
        tape.watch(given)
        mean, variance = activation.moments(*given)
        slope = activation.slope(*given)
        total = tf.reduce_sum(mean + 0.7 * variance + 0.3 * slope)
    found = tape.gradient(total, given)
    step = 1e-5  # the error is of order step^2

    def value(*given):
        mean, variance = activation.moments(*given)
        return mean + 0.7 * variance + 0.3 * activation.slope(*given)

    for which, gradient in enumerate(found):
        moved = [[t + step * sign * (k == which) for k, t in enumerate(given)] for sign in (1, -1)]
        expected = (value(*moved[0]) - value(*moved[1])) / (2 * step)
        np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_finite_without_variance(name):
    given = [tf.constant([-0.7, 0.0, 1.1]), tf.zeros([3])]
    with tf.GradientTape() as tape:
        tape.watch(given)
        activation = read_activation(name)
        total = tf.add_n([tf.reduce_sum(t) for t in activation.moments(*given)])
        total += tf.reduce_sum(activation.slope(*given))
    assert np.all(np.isfinite(tape.gradient(total, given)))


@pytest.mark.parametrize("name", CASES)
def test_covariance_and_slope_against_draws(name):
    rng, count = np.random.default_rng(0), 400_000
    mean, std, rho = np.array([0.3, -0.4]), np.array([0.8, 0.6]), 0.7
    normal = rng.standard_normal((count, 2))
    normal[:, 1] = rho * normal[:, 0] + np.sqrt(1 - rho**2) * normal[:, 1]
    h = function(name)
    draws = np.asarray(h(tf.constant(mean + std * normal)))
    products = (draws[:, 0] - draws[:, 0].mean()) * (draws[:, 1] - draws[:, 1].mean())
    activation = read_activation(name)
    found = activation.covariance(
        *(tf.constant(t, tf.float64) for t in (*mean, *std**2, rho * std[0] * std[1]))
    )
    assert abs(found - products.mean()) < 5 * products.std() / np.sqrt(count)
    # E h'(f) = Cov(h(f), f) / Var(f), Stein's identity.
    by_draws = normal[:, 0] * draws[:, 0] / std[0]
    slope = activation.slope(*(tf.constant(t, tf.float64) for t in (mean[0], std[0] ** 2)))
    assert abs(slope - by_draws.mean()) < 5 * by_draws.std() / np.sqrt(count)


@pytest.mark.parametrize("name", CASES)
def test_covariance_with_itself_is_the_variance(name):
    mean, variance = (tf.constant(t, tf.float64) for t in ([-0.5, 0.4], [0.5, 1.2]))
    activation = read_activation(name)
    found = activation.covariance(mean, mean, variance, variance, variance)
    np.testing.assert_allclose(found, activation.moments(mean, variance)[1], rtol=1e-11)


def test_a_leaky_rectifier_of_slope_1_is_the_identity():
    mean, variance = tf.constant([-1.0, 2.0]), tf.constant([0.5, 3.0])
    found = Rectifier(1.0).moments(mean, variance)
    np.testing.assert_allclose(found[0], mean, rtol=1e-6)
    np.testing.assert_allclose(found[1], variance, rtol=1e-6)


@pytest.mark.parametrize("slope", [-0.1, 1.5, "steep", None])
def test_bad_slopes_are_named(slope):
    with pytest.raises(ValueError, match="negative_slope must be a number in"):
        tfpn.layers.ProbActivation({"negative_slope": slope})


@pytest.mark.parametrize("activation", [None, "softmax", "glu"])
def test_activations_of_several_entries_are_refused(activation):
    with pytest.raises(ValueError, match="activation must act on each entry by itself"):
        tfpn.layers.ProbActivation(activation)
