"""Readings one after the other say what `krige` and a dense solution say of all at once."""

import numpy as np
import pytest
import tensorflow as tf
from test_kriging import NOISE, VARIANCE, dense, observed_and_basis, problem

from tfpn.math.kriging import krige, krige_likelihood
from tfpn.math.sequential import start

pytestmark = pytest.mark.usefixtures("eagerly")
# Covariance matrices of condition below 1e4, in float64.
CLOSE = {"rtol": 1e-9, "atol": 1e-10}


def taken_in(noise, count, pieces):
    """The problem of the tests of kriging in pieces, its query and the basis there."""
    observed, query, basis, variance = observed_and_basis(noise, count)
    points, values, variances, _ = map(tf.constant, problem(noise))
    examples, _, channels = values.shape
    sequence = start(
        observed.kernel, observed.observation_variance, variance, examples, 2, channels,
        noise == "channel",
    )  # fmt: skip
    for first, last in zip(pieces[:-1], pieces[1:], strict=True):
        part = slice(first, last)
        sequence = sequence.update(
            points[:, part], basis[0][:, part], values[:, part], variances[:, part]
        )
    return sequence, query, basis[1]


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("noise", ["shared", "channel"])
def test_one_after_the_other_is_all_at_once(noise, count):
    """In any pieces, with readings that are missing, beside a dense solution and beside `krige`."""
    observed, query, basis, variance = observed_and_basis(noise, count)
    dof = tf.constant(4.0, tf.float64)
    expected = krige(observed, query, basis, variance, dof)
    nll = krige_likelihood(observed, basis[0], variance)
    for pieces in (range(8), (0, 7), (0, 3, 5, 7)):
        sequence, query, there = taken_in(noise, count, list(pieces))
        mean, spread, factor = sequence.predict(query, there, dof)
        np.testing.assert_allclose(mean, expected.mean, **CLOSE)
        np.testing.assert_allclose(spread, expected.variance, **CLOSE)
        np.testing.assert_allclose(factor[:, None], expected.factor, **CLOSE)
        np.testing.assert_allclose(sequence.negative_log_likelihood(), nll, **CLOSE)
        plain = sequence.predict(query, there)[1]
        for example, channel in np.ndindex(2, 2):
            found = dense(noise, count, example, channel)
            np.testing.assert_allclose(mean[example, :, channel], found[0], **CLOSE)
            np.testing.assert_allclose(plain[example, :, channel], np.diag(found[1]), **CLOSE)


def test_nothing_read_is_the_prior():
    sequence, query, there = taken_in("channel", 3, [0, 0])
    mean, variance, factor = sequence.predict(query, there, tf.constant(3.0, tf.float64))
    assert not np.any(mean) and np.all(factor == 1.0)
    expected = np.square([1.3, 0.8]) + np.sum(np.square(there) * VARIANCE, -1, keepdims=True)
    np.testing.assert_allclose(variance, expected, **CLOSE)


def test_many_readings_of_one_place_stay_exact():
    """The mean of n readings of equal noise s^2: their own mean, shrunk by s^2 / n."""
    observed = observed_and_basis("shared", 0)[0]
    one, none = tf.ones([1, 1, 1], tf.float64), tf.zeros([1, 1, 0], tf.float64)
    sequence = start(observed.kernel, observed.observation_variance, none[0, 0], 1, 1, 1, False)
    values = np.random.default_rng(0).normal(5.0, 1.0, 40)
    for value in values:
        sequence = sequence.update(one, none, value * one, 0.0 * one)
    mean, variance, _ = sequence.predict(one, none)
    noise, signal = float(NOISE["shared"]) / 40, 1.3**2
    np.testing.assert_allclose(mean, values.mean() * signal / (signal + noise), rtol=1e-10)
    np.testing.assert_allclose(variance, noise * signal / (signal + noise), rtol=1e-8)
