"""Kriging with a trend beside dense NumPy: the GP with the kernel ``k + h^T V h``."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tfpn.math.kernels import Kernel
from tfpn.math.kriging import krige, krige_covariance, krige_likelihood, trend_basis
from tfpn.math.posterior import Observed

pytestmark = pytest.mark.usefixtures("eagerly")
CENTRE, UNIT = np.array([0.3, -0.2]), np.array([2.0, 0.5])
VARIANCE = np.array([4.0, 2.0, 0.7])
NOISE = {"shared": np.array(0.05), "channel": np.array([0.05, 0.2])}


def problem(noise, seed=0):
    rng = np.random.default_rng(seed)
    points, query = rng.uniform(-1, 1, (2, 7, 2)), rng.uniform(-1, 1, (2, 4, 2))
    values = rng.normal(3.0, 1.0, (2, 7, 2))
    variance = rng.uniform(0.01, 0.1, (2, 7, 1)) * np.ones(2)
    variance[1, 5:] = np.inf
    if noise == "channel":
        variance[0, :2, 1] = np.inf
    values[~np.isfinite(variance)] = np.nan
    return points, values, variance, query


def observed_and_basis(noise, count):
    points, values, variance, query = map(tf.constant, problem(noise))
    signal, length = (1.3, 0.6) if noise == "shared" else ([1.3, 0.8], [0.6, 0.9])
    kernel = Kernel(tf.constant(signal, tf.float64), tf.constant(length, tf.float64))
    observed = Observed(points, values, variance, kernel, noise, tf.constant(NOISE[noise]))
    basis = tuple(trend_basis(p, count, CENTRE, UNIT) for p in (points, query))
    return observed, query, basis, tf.constant(VARIANCE[:count])


def dense_readings(noise, count, example, channel):
    """Covariance of a channel's readings in an example, and the readings."""
    return dense(noise, count, example, channel)[4:]


def dense(noise, count, example, channel):
    """Mean, covariance, residuals and negative log likelihood of a channel of an example."""
    points, values, variance, query = (array[example] for array in problem(noise))
    signal, length = (1.3, 0.6) if noise == "shared" else ([1.3, 0.8][channel], [0.6, 0.9][channel])

    def basis(x):
        return np.column_stack([np.ones(len(x)), (x - CENTRE) / UNIT])[:, :count]

    def kernel(a, b):
        squares = np.sum((a[:, None] - b) ** 2, -1)
        return signal**2 * np.exp(-0.5 * squares / length**2)

    seen = np.isfinite(variance[:, channel])
    x, y = points[seen], values[seen, channel]
    noises = np.diag(variance[seen, channel] + np.broadcast_to(NOISE[noise], 2)[channel])
    smooth = kernel(x, x) + noises
    h, v = basis(x), np.diag(VARIANCE[:count])
    whole = smooth + h @ v @ h.T
    cross = kernel(query, x) + basis(query) @ v @ h.T
    prior = kernel(query, query) + basis(query) @ v @ basis(query).T
    mean = cross @ np.linalg.solve(whole, y)
    covariance = prior - cross @ np.linalg.solve(whole, cross.T)
    residuals = np.zeros(len(points))
    residuals[seen] = y - h @ v @ h.T @ np.linalg.solve(whole, y)
    nll = y @ np.linalg.solve(whole, y) + np.linalg.slogdet(2 * np.pi * whole)[1]
    return mean, covariance, residuals, 0.5 * nll, whole, y


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("noise", ["shared", "channel"])
def test_kriging_is_the_gp_with_the_trend_in_its_kernel(noise, count):
    """In float64 with covariances of condition below 1e4: 1e-9."""
    observed, query, basis, variance = observed_and_basis(noise, count)
    found = krige(observed, query, basis, variance)
    covariance = krige_covariance(observed, query, basis, variance)
    likelihood = krige_likelihood(observed, basis[0], variance)
    np.testing.assert_allclose(likelihood, found.nll, atol=1e-12)
    for example in range(2):
        for channel in range(2):
            mean, expected, residuals, nll, *_ = dense(noise, count, example, channel)
            np.testing.assert_allclose(found.mean[example, :, channel], mean, atol=1e-9)
            np.testing.assert_allclose(
                found.variance[example, :, channel], np.diag(expected), atol=1e-9
            )
            np.testing.assert_allclose(covariance[example, channel], expected, atol=1e-9)
            np.testing.assert_allclose(found.residuals[example, :, channel], residuals, atol=1e-9)
            np.testing.assert_allclose(found.nll[example, channel], nll, atol=1e-9)


@pytest.mark.parametrize("noise", ["shared", "channel"])
@pytest.mark.parametrize("count", [0, 3])
def test_a_factor_of_each_example_makes_t_variables(noise, count):
    """Beside SciPy's multivariate t distribution: 1e-9."""
    observed, query, basis, variance = observed_and_basis(noise, count)
    dof = tf.constant(3.5, tf.float64)
    found = krige(observed, query, basis, variance, dof)
    plain = krige(observed, query, basis, variance)
    likelihood = krige_likelihood(observed, basis[0], variance, dof)
    np.testing.assert_allclose(likelihood, found.nll, atol=1e-12)
    np.testing.assert_array_equal(found.mean, plain.mean)
    np.testing.assert_allclose(found.variance, plain.variance * found.factor, rtol=1e-12)
    for example in range(2):
        for channel in range(2):
            whole, y = dense_readings(noise, count, example, channel)
            nll = -stats.multivariate_t.logpdf(y, shape=whole, df=3.5)
            np.testing.assert_allclose(found.nll[example, channel], nll, atol=1e-9)
            factor = (3.5 + y @ np.linalg.solve(whole, y)) / (3.5 + len(y))
            np.testing.assert_allclose(found.factor[example, 0, channel], factor, rtol=1e-9)
    wide = krige(observed, query, basis, variance, tf.constant(1e9, tf.float64))
    np.testing.assert_allclose(wide.nll, plain.nll, atol=1e-4)


def test_a_wide_constant_is_ordinary_kriging():
    """Weights that sum to one, by the Lagrange multiplier's system."""
    observed, query, basis, _ = observed_and_basis("shared", 1)
    found = krige(observed, query, basis, tf.constant([1e8], tf.float64))
    points, values, variance, query = (array[0] for array in problem("shared"))

    def kernel(a, b):
        return 1.3**2 * np.exp(-0.5 * np.sum((a[:, None] - b) ** 2, -1) / 0.6**2)

    system = np.ones((8, 8))
    system[:7, :7] = kernel(points, points) + np.diag(variance[:, 0] + 0.05)
    system[7, 7] = 0.0
    right = np.vstack([kernel(points, query), np.ones((1, 4))])
    weights = np.linalg.solve(system, right)
    np.testing.assert_allclose(found.mean[0], weights[:7].T @ values, atol=1e-6)
    expected = 1.3**2 - np.sum(weights * right, axis=0)
    np.testing.assert_allclose(found.variance[0, :, 0], expected, atol=1e-6)


@pytest.mark.parametrize("noise", ["shared", "channel"])
def test_gradients_are_those_of_differences(noise):
    observed, query, basis, variance = observed_and_basis(noise, 3)
    start = tf.stack([tf.reduce_mean(observed.kernel.length_scale), *tf.unstack(variance)])

    def loss(parameters):
        kernel = observed.kernel.map(tf.identity)
        kernel = dataclasses.replace(kernel, length_scale=kernel.length_scale * 0.0 + parameters[0])
        given = dataclasses.replace(observed, kernel=kernel)
        found = krige(given, query, basis, parameters[1:])
        parts = (found.mean, tf.math.log(found.variance), found.nll, tf.square(found.residuals))
        return tf.add_n([tf.reduce_sum(part) for part in parts])

    with tf.GradientTape() as tape:
        tape.watch(start)
        value = loss(start)
    gradient = tape.gradient(value, start)
    step = 1e-5
    for index in range(4):
        shift = step * tf.one_hot(index, 4, dtype=tf.float64)
        slope = (loss(start + shift) - loss(start - shift)) / (2 * step)
        # Central differences of a sum of some hundred: rounding 1e-9, third derivatives 1e-6.
        np.testing.assert_allclose(gradient[index], slope, rtol=1e-5, atol=1e-5)


def test_without_readings_it_is_the_prior():
    observed, query, basis, variance = observed_and_basis("shared", 3)
    nothing = dataclasses.replace(observed, variance=observed.variance + np.inf)
    found = krige(nothing, query, basis, variance)
    np.testing.assert_allclose(found.mean, 0.0, atol=1e-12)
    expected = 1.3**2 + tf.reduce_sum(tf.square(basis[1]) * variance, -1)
    np.testing.assert_allclose(found.variance[..., 0], expected, rtol=1e-12)
    np.testing.assert_array_equal(found.nll, 0.0)
