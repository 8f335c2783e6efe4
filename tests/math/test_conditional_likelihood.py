"""The likelihood of some points given others, beside the difference of two dense ones."""

import numpy as np
import pytest
import tensorflow as tf

from tfpn.math.posterior import negative_log_conditional_likelihood, whiten

pytestmark = pytest.mark.usefixtures("eagerly")


def problem():
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(2, 9, 2))
    squares = np.sum((points[:, :, None] - points[:, None]) ** 2, -1)
    covariance = np.exp(-2.0 * squares)
    variance = rng.uniform(0.1, 0.5, size=(2, 9))
    variance[0, [1, 5]] = np.inf
    values = rng.normal(size=(2, 9, 3))
    stage = np.array([[0, 0, 0, 1, 1, 1, 1, 2, 2.0], [1, 1, 1, 1, 2, 2, 2, 2, 2]])
    return covariance, variance, values * np.isfinite(variance)[..., None], stage


def dense(covariance, variance, values, chosen):
    chosen &= np.isfinite(variance)
    gram = covariance[np.ix_(chosen, chosen)] + np.diag(variance[chosen])
    y = values[chosen]
    quadratic = np.einsum("nc,nc->c", y, np.linalg.solve(gram, y))
    log_det = np.linalg.slogdet(gram)[1] + chosen.sum() * np.log(2 * np.pi)
    return 0.5 * (quadratic + log_det)


def slow(covariance, variance, values, stage):
    return np.stack(
        [
            dense(*one, at <= 1) - dense(*one, at < 1)
            for *one, at in zip(covariance, variance, values, stage, strict=True)
        ]
    )


def fast(covariance, variance, values, stage):
    return negative_log_conditional_likelihood(
        covariance, variance, values, whiten(covariance, variance)[0], stage
    )


def test_value_and_gradient():
    given = [tf.constant(t) for t in problem()]
    weights = np.random.default_rng(1).normal(size=(2, 3))
    with tf.GradientTape() as tape:
        tape.watch(given[:3])
        found = fast(*given)
        total = tf.reduce_sum(found * weights)
    np.testing.assert_allclose(found, slow(*problem()), rtol=1e-12)
    gradients = tape.gradient(total, given[:3])
    rng, step = np.random.default_rng(2), 1e-5
    for place, gradient in enumerate(gradients):
        direction = rng.normal(size=gradient.shape)
        if place == 0:  # a covariance matrix stays symmetric
            direction += np.swapaxes(direction, 1, 2)
        ends = []
        for sign in (1, -1):
            moved = problem()
            with np.errstate(invalid="ignore"):
                moved[place][...] = moved[place] + sign * step * direction
            ends.append(np.sum(weights * slow(*moved)))
        expected = (ends[0] - ends[1]) / (2 * step)
        # Of the second order in the step, whose third derivatives are some 1e2.
        np.testing.assert_allclose(np.sum(gradient * direction), expected, rtol=1e-6)
    assert np.isfinite(gradients[1]).all() and np.all(gradients[1][0].numpy()[[1, 5]] == 0)


def test_stages_add_up_to_the_whole():
    covariance, variance, values, _ = problem()
    first = np.where(np.arange(9) < 4, 1.0, 2.0) * np.ones((2, 1))
    second = np.where(np.arange(9) < 4, 0.0, 1.0) * np.ones((2, 1))
    whole = np.ones((2, 9))
    total, *parts = (
        fast(*map(tf.constant, (covariance, variance, values, stage)))
        for stage in (whole, first, second)
    )
    np.testing.assert_allclose(sum(parts), total, rtol=1e-13)


def test_nothing_observed():
    covariance, variance, values, stage = problem()
    found = fast(*map(tf.constant, (covariance, variance * np.inf, values, stage)))
    np.testing.assert_array_equal(found, 0.0)
