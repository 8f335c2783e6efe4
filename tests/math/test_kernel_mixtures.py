"""Kernels that are mixtures of Gaussians, against closed forms and quadrature."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import integrate

import tfpn
from tfpn.math.kernels import (
    CORRELATIONS,
    Kernel,
    ScaleMixture,
    fit_mixture,
    mean_mixture,
    read_mixture,
)

# The documented errors, relative to the variance.
ERRORS = {"matern32": 2e-5, "matern52": 3e-6, "rational_quadratic": 3e-6}
NAMES = sorted(ERRORS)
NEAR = np.concatenate([np.geomspace(1e-5, 1.0, 500), np.linspace(1.0, 8.0, 500)])


def kernel(name, signal_std=1.3, length_scale=0.7):
    signal_std, length_scale = (tf.constant(t, tf.float64) for t in (signal_std, length_scale))
    return Kernel(signal_std, length_scale, read_mixture(name))


@pytest.mark.parametrize("name", NAMES)
def test_correlation_is_the_closed_form(name):
    exact, mixture = CORRELATIONS[name], read_mixture(name)
    assert np.max(np.abs(mixture(NEAR) - exact(NEAR))) < ERRORS[name]
    np.testing.assert_allclose(mixture(0.0), 1.0, rtol=1e-14)
    beyond = np.geomspace(8.0, 100.0, 100)
    tail = 4e-3 if name == "rational_quadratic" else 1e-6
    assert np.max(np.abs(mixture(beyond) - exact(beyond))) < tail


@pytest.mark.parametrize("terms, error", [(8, 2e-4), (12, 2e-5)])
def test_more_terms_are_closer(terms, error):
    exact = CORRELATIONS["matern32"]
    mixture = fit_mixture(exact, terms)
    assert len(mixture.weights) <= terms
    assert np.max(np.abs(mixture(NEAR) - exact(NEAR))) < error


def test_a_cusp_is_warned_of():
    with pytest.warns(UserWarning, match=r"12 Gaussians is off by up to 0.00\d+ over .* a cusp"):
        mixture = fit_mixture(lambda distance: np.exp(-distance))
    assert 1e-3 < np.max(np.abs(mixture(NEAR) - np.exp(-NEAR))) < 1e-2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_mixture(CORRELATIONS["matern52"], 8)


@pytest.mark.parametrize("name", NAMES)
def test_covariance(name):
    rng = np.random.default_rng(0)
    x1, x2 = rng.normal(size=(2, 5, 3)), rng.normal(size=(2, 4, 3))
    found = kernel(name).covariance(tf.constant(x1), tf.constant(x2))
    distance = np.linalg.norm(x1[:, :, None] - x2[:, None], axis=-1)
    expected = 1.3**2 * CORRELATIONS[name](distance / 0.7)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1.3**2 * ERRORS[name])


@pytest.mark.parametrize("name", NAMES)
def test_flows_average_the_kernel_over_a_shifted_normal(name):
    """(exp(D) k)(x) = E k(x + beta + sqrt(Sigma) xi), in one dimension by adaptive quadrature."""
    drift, diffusion = np.array([[0.4], [-0.9]]), np.array([[[0.3]], [[1.1]]])
    query, points = np.array([[[0.2], [1.0]]]), np.array([[[-0.5], [0.3], [2.0]]])
    flows = tf.constant(drift), tf.constant(diffusion)
    given = kernel(name)
    found = given.flowed(*flows)(tf.constant(query), tf.constant(points)).numpy()

    def average(offset, variance):
        def integrand(xi):
            return np.exp(-0.5 * xi**2) * CORRELATIONS[name](
                np.abs(offset + np.sqrt(variance) * xi) / 0.7
            )

        kink = -offset / np.sqrt(variance)
        value, _ = integrate.quad(integrand, -9, 9, points=[np.clip(kink, -9, 9)], limit=200)
        return 1.3**2 * value / np.sqrt(2 * np.pi)

    tolerance = {"rtol": 0.0, "atol": 1.3**2 * ERRORS[name]}
    for m in range(2):
        for k in range(2):
            for n in range(3):
                offset = query[0, m, 0] - points[0, n, 0] + drift[k, 0]
                expected = average(offset, diffusion[k, 0, 0])
                np.testing.assert_allclose(found[0, m, k, n], expected, **tolerance)
    both = given.flowed_variance(*flows).numpy()
    places = tf.constant(query)
    pairs = given.flowed_pairs(places, places, *flows).numpy()
    for i in range(2):
        for j in range(2):
            variance = diffusion[i, 0, 0] + diffusion[j, 0, 0]
            expected = average(drift[i, 0] - drift[j, 0], variance)
            np.testing.assert_allclose(both[i, j], expected, **tolerance)
            offset = query[0, 0, 0] - query[0, 1, 0] + drift[i, 0] - drift[j, 0]
            np.testing.assert_allclose(pairs[0, 0, i, j, 1], average(offset, variance), **tolerance)
    np.testing.assert_allclose(both, both.T, rtol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_integrals_over_a_box(name):
    given, points = kernel(name), np.array([[0.1], [0.8], [2.5]])
    once, twice = given.integrals(tf.constant(points), box=(0.0, 1.0))

    def k(x, y):
        return 1.3**2 * CORRELATIONS[name](np.abs(x - y) / 0.7)

    for found, x in zip(once.numpy(), points[:, 0], strict=True):
        expected, _ = integrate.quad(lambda y, x=x: k(x, y), 0, 1, points=[np.clip(x, 0, 1)])
        np.testing.assert_allclose(found, expected, atol=1.3**2 * ERRORS[name])
    expected, _ = integrate.quad(lambda r: 2 * (1 - r) * k(r, 0.0), 0, 1)
    np.testing.assert_allclose(twice, expected, atol=1.3**2 * ERRORS[name])
    line, infinite = given.integrals(tf.constant(points))
    # Over the line the errors of all distances add up, most of all those of the slow tail.
    expected, _ = integrate.quad(lambda r: 2 * k(r, 0.0), 0, np.inf)
    np.testing.assert_allclose(line, expected, rtol=0.1 if name == "rational_quadratic" else 1e-4)
    assert np.isinf(infinite)


def test_integrals_over_a_disc():
    given = kernel("matern32")
    once, _ = given.integrals(tf.zeros([1, 2], tf.float64), disc=((0.0, 0.0), 1.2))
    expected, _ = integrate.quad(
        lambda r: 2 * np.pi * r * 1.3**2 * CORRELATIONS["matern32"](r / 0.7), 0, 1.2
    )
    np.testing.assert_allclose(once[0], expected, rtol=1e-4)


@pytest.mark.parametrize("name", ["rbf", *NAMES])
def test_waves_of_the_spectrum_average_to_the_kernel(name):
    given, count = kernel(name), 20_000
    shift = tf.constant([[[0.3, 0.6, 0.1]]])
    waves = given.sample_frequencies(count, shift).numpy()
    assert waves.shape == (1, count, 2)
    again = given.sample_frequencies(count, shift).numpy()
    np.testing.assert_array_equal(waves, again)
    offset = np.array([[0.0, 0.0], [0.3, 0.1], [0.7, -0.7], [2.0, 1.0]])
    cosines = 1.3**2 * np.cos(offset @ waves[0].T)
    origin = tf.zeros([1, 1, 2], tf.float64)
    expected = given.covariance(origin, tf.constant(offset[None])).numpy()[0, 0]
    error = cosines.std(axis=-1) / np.sqrt(count)
    assert np.all(np.abs(cosines.mean(axis=-1) - expected) <= 5 * error + 1e-12)


def test_parameters_for_each_channel():
    """A kernel with a parameter for each channel is those channels' kernels."""
    rng = np.random.default_rng(1)
    x = tf.constant(rng.normal(size=(3, 4, 2)))
    signal_std, length_scale = np.array([0.5, 1.0, 2.0]), np.array([0.3, 0.6, 1.2])
    together = Kernel(tf.constant(signal_std), tf.constant(length_scale), read_mixture("matern52"))
    flows = tf.constant(rng.normal(size=(2, 2))), tf.eye(2, batch_shape=[2], dtype=tf.float64)
    covariance, flowed = together.covariance(x, x), together.flowed(*flows)(x, x)
    variance = together.flowed_variance(*flows)
    for c in range(3):
        one = kernel("matern52", signal_std[c], length_scale[c])
        rows = x[c : c + 1]
        tolerance = {"rtol": 1e-13, "atol": 1e-15}
        np.testing.assert_allclose(covariance[c], one.covariance(rows, rows)[0], **tolerance)
        np.testing.assert_allclose(flowed[c], one.flowed(*flows)(rows, rows)[0], **tolerance)
        np.testing.assert_allclose(variance[c], one.flowed_variance(*flows), **tolerance)


@pytest.mark.parametrize("noise", ["shared", "channel"])
def test_convolution_is_the_dense_posterior(noise):
    """`convolve` with the mixture's covariances written out in NumPy."""
    rng = np.random.default_rng(2)
    points, query = rng.uniform(size=(1, 7, 1)), rng.uniform(size=(1, 3, 1))
    values, noises = rng.normal(size=(1, 7, 1)), rng.uniform(0.1, 0.3, size=(1, 7, 1))
    mean, variance, nll = tfpn.math.convolve(
        points, values, noises, query, weights=np.ones((1, 1, 1)), drift=np.zeros((1, 1)),
        diffusion=np.zeros((1, 1, 1)), signal_std=1.3, length_scale=0.7, kernel="matern32",
        noise=noise,
    )  # fmt: skip

    def k(x, y):
        return 1.3**2 * read_mixture("matern32")(np.abs(x[:, None, 0] - y[None, :, 0]) / 0.7)

    gram = k(points[0], points[0]) + np.diag(noises[0, :, 0])
    cross = k(query[0], points[0])
    np.testing.assert_allclose(mean[0], cross @ np.linalg.solve(gram, values[0]), rtol=1e-11)
    left = 1.3**2 - np.diag(cross @ np.linalg.solve(gram, cross.T))
    np.testing.assert_allclose(variance[0, :, 0], left, rtol=1e-10)
    y = values[0, :, 0]
    expected = y @ np.linalg.solve(gram, y) + np.linalg.slogdet(gram)[1] + 7 * np.log(2 * np.pi)
    np.testing.assert_allclose(nll[0, 0], 0.5 * expected, rtol=1e-12)


@pytest.mark.parametrize("layer", ["PNConv", "SteerablePNConv", "IntegralPooling"])
@pytest.mark.parametrize("given", ["matern52", read_mixture("rbf").stretched(2.0)])
def test_layers_keep_their_kernel(layer, given):
    cls = getattr(tfpn.layers, layer)
    arguments = {"PNConv": [2, 3], "SteerablePNConv": [{0: 1, 1: 1}, 1], "IntegralPooling": []}
    built = cls(*arguments[layer], kernel=given, dtype="float64")
    x = tfpn.observations(np.random.default_rng(3).uniform(size=(2, 6, 2)), np.ones((2, 6)))
    config = keras.saving.serialize_keras_object(built)
    again = keras.saving.deserialize_keras_object(config)
    outputs = [built(x)["values"]]
    again(x)
    again.set_weights(built.get_weights())
    np.testing.assert_array_equal(again(x)["values"], outputs[0])
    other = cls.from_config({**built.get_config(), "kernel": "rbf"})
    other(x)
    other.set_weights(built.get_weights())
    assert np.max(np.abs(other(x)["values"] - outputs[0])) > 1e-4


def test_a_sum_of_kernels():
    both = mean_mixture([read_mixture("matern32"), read_mixture("rbf").stretched(4.0)], [1.0, 3.0])
    expected = 0.25 * read_mixture("matern32")(NEAR) + 0.75 * np.exp(-0.5 * (NEAR / 4.0) ** 2)
    np.testing.assert_allclose(both(NEAR), expected, rtol=1e-13)


@pytest.mark.parametrize(
    "given, found",
    [
        ("matern", "'matern'"),
        (3, "3"),
        ({"weights": [1.0]}, "'weights'"),
    ],
)
def test_unknown_kernels_are_named(given, found):
    with pytest.raises(ValueError, match=f"kernel must be one of .*{found}"):
        tfpn.layers.PNConv(2, kernel=given)


@pytest.mark.parametrize(
    "weights, scales, message",
    [
        ([1.0], [1.0, 2.0], "as many weights as scales"),
        ([], [], "at least one"),
        ([1.0, -1.0], [1.0, 2.0], "weights must be positive"),
        ([1.0], [0.0], "scales must be positive"),
        ([np.nan], [1.0], "weights must be positive"),
    ],
)
def test_bad_mixtures_are_named(weights, scales, message):
    with pytest.raises(ValueError, match=message):
        ScaleMixture(weights, scales)
