"""Losses of means and variances: quadrature, SciPy, missing targets and the limits."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import integrate, stats

import tfpn
from tfpn.losses import crps, gaussian_nll, squared_error

CASES = [(0.3, -1.0, 0.5), (2.0, 2.0, 1.7), (-4.0, 1.0, 0.2)]


@pytest.mark.parametrize("y, mean, deviation", CASES)
def test_crps_is_its_integral(y, mean, deviation):
    """Quadrature of the squared difference of distribution functions, to 1e-8."""

    def difference(t):
        return (stats.norm.cdf(t, mean, deviation) - (t >= y)) ** 2

    low, high = min(y, mean - 12 * deviation), max(y, mean + 12 * deviation)
    expected = sum(
        integrate.quad(difference, a, b, epsabs=1e-11, limit=200)[0]
        for a, b in ((low, y), (y, high))
    )
    found = crps(tf.constant([y], tf.float64), tf.constant([[mean, deviation**2]], tf.float64))
    assert found.numpy()[0] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("y, mean, deviation", CASES)
def test_likelihood_and_error(y, mean, deviation):
    given = tf.constant([y], tf.float64), tf.constant([[mean, deviation**2]], tf.float64)
    expected = -stats.norm.logpdf(y, mean, deviation)
    assert gaussian_nll(*given).numpy()[0] == pytest.approx(expected, rel=1e-12)
    assert squared_error(*given).numpy()[0] == pytest.approx((y - mean) ** 2, rel=1e-12)


def test_crps_of_certainty_is_the_absolute_error():
    """Variances below 1e-10 count as that: within 1e-5."""
    np.testing.assert_allclose(crps([3.0, -1.0], [[1.0, 0.0], [1.0, 0.0]]), 2.0, atol=1e-5)


@pytest.mark.parametrize("function", [crps, gaussian_nll, squared_error])
def test_missing_targets_have_no_loss_and_no_gradient(function):
    y = tf.constant([np.nan, 1.0])
    predicted = tf.Variable([[0.5, 2.0], [0.0, 0.0]])
    with tf.GradientTape() as tape:
        loss = function(y, predicted)
    gradient = tape.gradient(loss, predicted)
    assert loss[0] == 0.0 and np.all(np.isfinite(loss))
    np.testing.assert_array_equal(gradient[0], 0.0)
    assert np.all(np.isfinite(gradient))


def test_classes_are_their_functions_and_saved():
    y, predicted = np.array([[1.0, -0.5]]), np.array([[[0.0, 1.0], [1.0, 0.3]]])
    for kind, function in (
        (tfpn.losses.GaussianNLL, gaussian_nll),
        (tfpn.losses.CRPS, crps),
        (tfpn.losses.SquaredError, squared_error),
    ):
        again = keras.losses.deserialize(keras.losses.serialize(kind()))
        assert type(again) is kind
        expected = np.mean(function(y, predicted))
        assert float(again(y, predicted)) == pytest.approx(expected, rel=1e-6)


def test_a_mean_alone_is_refused():
    with pytest.raises(
        ValueError, match=r"y_pred has the shape \(3, 1\); give means and variances"
    ):
        crps([1.0, 2.0, 3.0], [[1.0], [2.0], [3.0]])


def test_targets_of_another_shape_are_not_spread():
    with pytest.raises(ValueError, match=r"y_true has the shape \(3,\) and y_pred \(4, 3, 2\)"):
        gaussian_nll(np.zeros(3), np.zeros((4, 3, 2)))
    with pytest.raises(ValueError, match=r"give one target for each mean"):
        squared_error(np.zeros((4, 2)), np.zeros((4, 2)))
    with pytest.raises(ValueError, match=r"y_pred has the shape \(\)"):
        crps(1.0, 1.0)
    assert float(squared_error([3], [[1, 1]])[0]) == 4.0
