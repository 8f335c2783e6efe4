"""Draws of a convolution and of integrals against their exact moments, by Monte Carlo."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from coherent_problems import FILTERS, POINTS, problem
from sampled_problems import (
    SMALL,
    assert_moments,
    convolved,
    many_draws,
    observed_and_operator,
)

import tfpn
from tfpn.math import convolve, convolve_joint
from tfpn.math.arguments import read_observed
from tfpn.math.kernels import CORRELATIONS, Kernel, read_mixture
from tfpn.math.uncertainty import Diagonal
from tfpn.math.waves import _bessel_ratio, draw_waves

DRAWS = 10_000  # in every comparison


def compare(data, query, parameters, waves=16):
    """Mean and covariance of a convolution's draws with `convolve_joint`, or by channel."""
    way = dataclasses.replace(SMALL, waves=waves)
    observed, operator = observed_and_operator(data, query, parameters)
    draws = many_draws(way, convolved(observed, operator), DRAWS // way.samples)
    mean, covariance, _ = convolve_joint(*data, None, query, **parameters)
    for found, centre, spread in zip(draws, mean.numpy(), covariance.numpy(), strict=True):
        size = centre.size
        assert_moments(found.reshape(DRAWS, size), centre.reshape(size), spread.reshape(size, size))


def test_draws_have_the_joint_moments_under_flows_and_missing_points(eagerly):
    data, parameters = problem(3)
    compare(data, data[0], parameters)


@pytest.mark.parametrize("name", ["matern32", "matern52", "rational_quadratic"])
def test_draws_of_mixtures_in_a_gap(eagerly, name):
    points = np.array([[[0.0], [0.1], [0.15], [0.9], [1.0]]])
    values = np.sin(5.0 * points)
    variance = np.array([0.01, 0.0, 0.2, 0.05, np.inf]).reshape(1, 5, 1)
    query = np.array([[[0.0], [0.4], [0.55], [1.4]]])
    parameters = {
        "weights": np.array([[[1.0]], [[-0.7]]]),
        "drift": np.array([[0.0], [0.2]]),
        "diffusion": np.array([[[0.0]], [[0.01]]]),
        "signal_std": np.array(1.3),
        "length_scale": np.array(0.25),
        "kernel": name,
        "observation_variance": np.array(0.02),
    }
    compare([points, values, variance], query, parameters, waves=64)


@pytest.mark.parametrize("each", [False, True])
def test_draws_of_channels_seen_at_different_points(eagerly, each):
    data, parameters = problem(3)
    points, values, variance = (array[:1] for array in data)
    rng = np.random.default_rng(3)
    variance = rng.uniform(0.01, 0.3, variance.shape)
    variance[rng.uniform(size=variance.shape) < 0.4] = np.inf
    parameters["noise"] = "channel"
    if each:
        parameters["signal_std"] = np.array([0.5, 1.0, 2.0])
        parameters["length_scale"] = np.array([0.1, 0.3, 1.2])
    query = points[:, :5]
    data = points, values, variance
    observed, operator = observed_and_operator(data, query, parameters)
    way = dataclasses.replace(SMALL, waves=48)
    draws = many_draws(way, convolved(observed, operator), DRAWS // way.samples)[0]
    _, exact, _ = convolve(*data, query, **parameters)
    mean, covariance = tfpn.math.convolve_process(*data, query, **parameters)
    np.testing.assert_allclose(
        np.diagonal(covariance, axis1=-2, axis2=-1)[0].T, exact[0], rtol=1e-6, atol=1e-9
    )
    for channel in range(FILTERS):
        assert_moments(draws[..., channel], mean[0, :, channel].numpy(), covariance[0, channel])


def test_training_draws_have_the_same_moments(eagerly):
    """Of each example for itself; examples share amplitudes, so each seed gives one draw of it."""
    (points, values, variance), parameters = problem(1)
    query = points[:, :3]
    observed, operator = observed_and_operator((points, values, variance), query, parameters)
    way = dataclasses.replace(SMALL, fresh=True)
    draws = many_draws(way, convolved(observed, operator), DRAWS // way.samples)
    mean, covariance, _ = convolve_joint(points, values, variance, None, query, **parameters)
    size = 3 * FILTERS
    mean = mean.numpy().reshape(2, size)
    covariance = covariance.numpy().reshape(2, size, size)
    for example in range(2):
        assert_moments(draws[example].reshape(DRAWS, size), mean[example], covariance[example])
    # Draws of different examples are not correlated.
    first, second = (draws[e].reshape(DRAWS, size) - mean[e] for e in range(2))
    error = np.sqrt(np.outer(*(np.diag(c) for c in covariance)) / DRAWS)
    np.testing.assert_array_less(np.abs(first.T @ second / DRAWS), 5.0 * error)


def test_draws_as_readings_obey_the_law_of_total_covariance(eagerly):
    """A later layer: readings whose joint covariance is known, against `Joint`."""
    (points, values, _), parameters = problem(2)
    points, values = points[:1], values[:1]
    parameters["observation_variance"] = np.array(0.04)
    size = values[0].size
    factor = 0.3 * np.random.default_rng(1).normal(size=(size, size)) / np.sqrt(size)
    covariance = (factor @ factor.T).reshape(1, POINTS, 2, POINTS, 2)
    spread = np.einsum("bnana->bna", covariance)
    query = points[:, :4] + 0.05
    mean, expected, _ = convolve_joint(points, values, spread, covariance, query, **parameters)
    count, found = 500, []
    for repeat in range(DRAWS // count):
        normal = np.random.default_rng(repeat).normal(size=(count, size))
        beside = tf.constant((values.reshape(size) + normal @ factor.T).reshape(
            1, count, POINTS, 2))  # fmt: skip
        of_draws = np.var(beside, axis=1)
        data = points, np.mean(beside, axis=1), of_draws
        observed, operator = observed_and_operator(data, query, parameters)
        found.append(many_draws(SMALL, convolved(observed, operator, beside), 1, repeat)[0])
    rows = 4 * FILTERS
    assert_moments(
        np.concatenate(found).reshape(DRAWS, rows),
        mean.numpy().reshape(rows),
        expected.numpy().reshape(rows, rows),
    )
    # The moments without drawing, of one set of draws, are within its error of these.
    marginal_mean, variance = SMALL.marginals(observed, operator, beside, None)
    exact = np.diagonal(expected.numpy().reshape(rows, rows)).reshape(4, FILTERS)
    error = 5.0 * np.sqrt(exact / count)
    np.testing.assert_array_less(np.abs(marginal_mean[0] - mean[0]), error)
    np.testing.assert_array_less(np.abs(variance[0] - exact), 5.0 * exact * np.sqrt(2.0 / count))
    factored = dataclasses.replace(observed, by_factor=True)  # as processes have it
    process = SMALL.covariance(factored, operator, beside)
    np.testing.assert_allclose(
        np.diagonal(process[0], axis1=-2, axis2=-1).T, variance[0], rtol=1e-6, atol=1e-8
    )


REGIONS = {
    "box": {"box": (tf.constant(-0.2, tf.float64), tf.constant([0.9, 1.3], tf.float64))},
    "disc": {"disc": (tf.constant([0.4, 0.5], tf.float64), tf.constant(0.6, tf.float64))},
}


@pytest.mark.parametrize("name", REGIONS)
def test_integrals_of_draws(eagerly, name):
    region = REGIONS[name]
    (points, values, variance), _ = problem(2)
    prior = {"signal_std": np.array(1.2), "length_scale": np.array(0.3), "kernel": "matern52"}
    observed = read_observed(points, values, variance, **prior)
    draws = many_draws(
        dataclasses.replace(SMALL, waves=48),
        lambda way: way.integrate(observed, region, None)[2],
        DRAWS // SMALL.samples,
    )
    mean, spread, _, _ = Diagonal().integrate(observed, region, None)
    for example in range(2):
        assert_moments(draws[example], mean[example].numpy(), np.diag(spread[example]))


def test_integral_of_draws_over_the_whole_space_is_that_of_their_means(eagerly):
    (points, values, _), _ = problem(2)
    values = np.nan_to_num(values)
    prior = {"signal_std": np.array(1.2), "length_scale": np.array(0.3),
             "observation_variance": np.array(0.1)}  # fmt: skip
    beside = values[:, None] + 0.1 * np.random.default_rng(0).normal(size=(2, 5, POINTS, 2))
    observed = read_observed(points, beside.mean(1), beside.var(1), **prior)
    mean, variance, draws, _ = SMALL.integrate(observed, {}, tf.constant(beside))
    assert np.all(np.isinf(variance))
    np.testing.assert_allclose(mean, np.mean(draws, axis=1), rtol=1e-12)
    for number in range(5):
        given = read_observed(points, beside[:, number], np.zeros_like(values), **prior)
        expected, *_ = Diagonal().integrate(given, {}, None)
        np.testing.assert_allclose(draws[:, number], expected, rtol=1e-9)


@pytest.mark.parametrize("name", CORRELATIONS)
def test_waves_average_to_the_kernel_of_each_channel(name):
    """Without any noise of amplitudes: the sum over frequencies of a set, over many sets."""
    lengths = tf.constant([0.1, 1.0, 20.0], tf.float64)
    kernel = Kernel(tf.constant([0.5, 1.0, 2.0], tf.float64), lengths, read_mixture(name))
    sets, count = 400, 64
    frequencies = kernel.sample_frequencies(
        count, tf.constant(np.random.default_rng(0).uniform(size=(sets, 1, 3)), tf.float32)
    )
    flat = tf.reshape(frequencies, [-1, 2])
    density = kernel.log_spectral_density(flat)
    weights = np.exp(density - tf.reduce_logsumexp(density, axis=0) + np.log(3.0))
    distance = np.array([[0.0, 0.0], [0.05, 0.02], [0.4, -0.7], [9.0, 4.0]])
    cosines = np.cos(distance @ flat.numpy().T)
    for channel in range(3):
        each = (weights[channel] * cosines).reshape(4, sets, count).mean(-1)
        expected = kernel.mixture(np.linalg.norm(distance, axis=-1) / lengths[channel].numpy())
        error = each.std(-1) / np.sqrt(sets)
        np.testing.assert_array_less(np.abs(each.mean(-1) - expected), 5.0 * error + 1e-6)


def test_gradients_of_draws_are_those_of_the_family_of_kernels(eagerly):
    """The mean square of a draw's difference between two points, by the prior's parameters."""
    offset = tf.constant([[[0.0], [0.3]]], tf.float64)
    parameters = [tf.constant(1.3, tf.float64), tf.constant(0.4, tf.float64)]
    found = []
    for repeat in range(200):
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            waves = draw_waves(
                Kernel(*parameters), 20, offset[:, :1], samples=5, waves=32,
                seed=tf.constant([repeat << 12, 0]), fresh=False,
            )  # fmt: skip
            at = waves(offset)
            total = tf.reduce_mean(tf.square(at[:, :, 0] - at[:, :, 1]))
        found.append(tape.gradient(total, parameters))
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        covariance = Kernel(*parameters).covariance(offset, offset)[0]
        expected = covariance[0, 0] + covariance[1, 1] - 2.0 * covariance[0, 1]
    expected = tape.gradient(expected, parameters)
    error = 5.0 * np.std(found, axis=0) / np.sqrt(len(found))
    np.testing.assert_array_less(np.abs(np.mean(found, axis=0) - expected), error)


def test_bessel_function_of_the_disc():
    from scipy import special

    x = np.concatenate([[0.0, 1e-9, 24.9999, 25.0001], np.geomspace(1e-3, 1e5, 400)])
    expected = np.where(x > 1e-6, special.j1(x) / np.maximum(x, 1e-6), 0.5)
    # Where it is small, the rounding of the argument of the cosine counts: x eps.
    error = 1e-14 + 1e-15 * np.sqrt(np.maximum(x, 1.0)) * np.minimum(1.0, 1.0 / np.maximum(x, 1.0))
    np.testing.assert_array_less(np.abs(_bessel_ratio(tf.constant(x)) - expected), error)
