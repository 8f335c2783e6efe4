"""Kriging block by block, beside kriging of all readings and of clusters by themselves."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tfpn.math.kernels import Kernel
from tfpn.math.kriging import krige, krige_likelihood, trend_basis
from tfpn.math.neighbourhoods import Neighbourhoods, krige_likelihood_near, krige_near
from tfpn.math.posterior import Observed

pytestmark = pytest.mark.usefixtures("eagerly", "always_cut")
VARIANCE = tf.constant([4.0, 2.0, 0.7], tf.float64)
NOISE = {"shared": 0.05, "channel": [0.05, 0.2]}
FIELDS = "mean", "variance", "residuals", "nll"


def problem(noise, points, seed=0):
    """Readings of two channels at [2, N, 2] points, some of them missing."""
    rng = np.random.default_rng(seed)
    values = 3.0 + np.sin(2.0 * points) + rng.normal(0.0, 0.3, (*points.shape[:2], 2))
    variance = rng.uniform(0.01, 0.1, (*points.shape[:2], 1)) * np.ones(2)
    variance[:, ::4] = np.inf
    if noise == "channel":
        variance[0, ::3, 1] = np.inf
    signal, length = (1.3, 0.6) if noise == "shared" else ([1.3, 0.8], [0.6, 0.9])
    kernel = Kernel(tf.constant(signal, tf.float64), tf.constant(length, tf.float64))
    given = (tf.constant(array) for array in (points, values, variance))
    return Observed(*given, kernel, noise, tf.constant(NOISE[noise], tf.float64))


def bases(observed, query):
    centre, unit = np.array([0.3, -0.2]), np.array([2.0, 0.5])
    return tuple(trend_basis(places, 3, centre, unit) for places in (observed.points, query))


@pytest.mark.parametrize("dof", [None, 3.5])
@pytest.mark.parametrize("noise", ["shared", "channel"])
def test_halos_of_all_points_are_exact(noise, dof):
    """Of forty points thirty are observed. In float64, with conditions below 1e4: 1e-9."""
    rng = np.random.default_rng(1)
    observed = problem(noise, rng.uniform(-1, 1, (2, 40, 2)))
    query = tf.constant(rng.uniform(-2, 2, (2, 90, 2)))
    dof = None if dof is None else tf.constant(dof, tf.float64)
    given = observed, query, bases(observed, query), VARIANCE, dof
    exact, local = krige(*given), krige_near(Neighbourhoods(6, 33), *given)
    for name in FIELDS:
        np.testing.assert_allclose(getattr(local, name), getattr(exact, name), atol=1e-9)
    factor = np.broadcast_to(exact.factor, local.factor.shape)
    np.testing.assert_allclose(local.factor, factor, rtol=1e-9)
    likelihood = krige_likelihood_near(Neighbourhoods(6, 33), observed, given[2][0], VARIANCE, dof)
    np.testing.assert_allclose(likelihood, local.nll, atol=1e-9)


def test_blocks_without_halos_are_kriged_by_themselves():
    """Four clusters far apart, a trend each, beside kriging of one cluster after the other."""
    rng = np.random.default_rng(2)
    centres = np.array([[-9.0, -9.0], [-9.0, 9.0], [9.0, -9.0], [9.0, 9.0]])
    near = centres[:, None] + rng.uniform(-1, 1, (2, 4, 15, 2))
    order = rng.permutation(60)
    observed = problem("shared", near.reshape(2, 60, 2)[:, order])
    observed = dataclasses.replace(observed, variance=tf.ones_like(observed.variance) * 0.05)
    asked = (centres[:, None] + rng.uniform(-1, 1, (2, 4, 3, 2))).reshape(2, 12, 2)
    query = tf.constant(asked)
    near_basis, query_basis = bases(observed, query)
    blocks = Neighbourhoods(15, 0)
    local = krige_near(blocks, observed, query, (near_basis, query_basis), VARIANCE)
    likelihood = 0.0
    for cluster in range(4):
        rows = np.flatnonzero(order // 15 == cluster)
        places = slice(3 * cluster, 3 * cluster + 3)
        one = dataclasses.replace(
            observed,
            **{
                name: tf.gather(getattr(observed, name), rows, axis=1)
                for name in ("points", "values", "variance")
            },
        )
        basis = tf.gather(near_basis, rows, axis=1)
        found = krige(one, query[:, places], (basis, query_basis[:, places]), VARIANCE)
        likelihood += krige_likelihood(one, basis, VARIANCE)
        np.testing.assert_allclose(local.mean[:, places], found.mean, atol=1e-9)
        np.testing.assert_allclose(local.variance[:, places], found.variance, atol=1e-9)
        np.testing.assert_allclose(local.residuals.numpy()[:, rows], found.residuals, atol=1e-9)
    np.testing.assert_allclose(local.nll, likelihood, atol=1e-9)


def test_a_small_halo_is_close_and_its_gradient_is_that_of_differences():
    rng = np.random.default_rng(3)
    observed = problem("shared", rng.uniform(0, 4, (1, 300, 2)).repeat(2, 0))
    query = tf.constant(rng.uniform(0, 4, (2, 50, 2)))
    given = bases(observed, query)
    exact = krige(observed, query, given, VARIANCE)
    local = krige_near(Neighbourhoods(40, 60), observed, query, given, VARIANCE)
    # In units of the exact standard deviation: 0.2 as root mean square.
    error = (local.mean - exact.mean) / np.sqrt(exact.variance)
    assert np.sqrt(np.mean(np.square(error))) < 0.2, np.sqrt(np.mean(np.square(error)))
    np.testing.assert_allclose(local.variance, exact.variance, rtol=0.1)
    np.testing.assert_allclose(local.nll, exact.nll, rtol=0.01)

    def likelihood(length):
        kernel = Kernel(observed.kernel.signal_std, length)
        moved = dataclasses.replace(observed, kernel=kernel)
        found = krige_likelihood_near(Neighbourhoods(40, 60), moved, given[0], VARIANCE)
        return tf.reduce_sum(found)

    length, step = tf.constant(0.6, tf.float64), 1e-5
    with tf.GradientTape() as tape:
        tape.watch(length)
        value = likelihood(length)
    difference = (likelihood(length + step) - likelihood(length - step)) / (2 * step)
    np.testing.assert_allclose(tape.gradient(value, length), difference, rtol=1e-6)
