"""Measuring a model: which probabilities are used."""

import keras
import numpy as np
import pytest
import scipy.special

from tfpn import datasets, evaluation, models, observations, training


@pytest.fixture(scope="module")
def part():
    rng = np.random.default_rng(0)
    x = observations(rng.uniform(size=(12, 6, 1)), rng.normal(size=(12, 6)), 0.1)
    return datasets.Part(x, rng.integers(3, size=12))


def small(**arguments):
    keras.utils.set_random_seed(0)
    return models.PNCNN(
        3, spatial_dim=1, channels=4, num_blocks=1, num_basis=3, spacing=0.2, **arguments
    )


def test_pooling_over_the_whole_space_takes_the_softmax_of_the_logits(part):
    model = small()
    found = training.class_probabilities(model, part.x, batch_size=5)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found.sum(-1), 1.0, rtol=1e-14)
    logits = model.predict(part.x, verbose=0)
    np.testing.assert_allclose(found, training.probabilities(logits), rtol=1e-5)
    np.testing.assert_allclose(found, scipy.special.softmax(logits, -1), rtol=1e-5)
    figures = training.evaluate(model, part, batch_size=5)
    assert figures == pytest.approx(evaluation.classification_metrics(found, part.y), rel=1e-5)
    whole = evaluation.classification_metrics(found, part.y, bins=1)
    assert training.evaluate(model, part, bins=1) == pytest.approx(whole, rel=1e-5)


def test_a_box_averages_over_the_logits(part):
    model = small(pooling=(0.0, 1.0))
    model.get_layer("head").kernel.assign(20.0 * model.get_layer("head").kernel)
    found = training.class_probabilities(model, part.x)
    np.testing.assert_allclose(found, model.predict_proba(part.x), rtol=1e-6)
    at_mean = training.probabilities(model.predict(part.x, verbose=0))
    assert np.abs(found - at_mean).max() > 0.02
    assert found.max(-1).mean() < at_mean.max(-1).mean()  # less sure
    figures = training.evaluate(model, part)
    assert figures["nll"] == pytest.approx(-np.log(found[np.arange(12), part.y]).mean())


def test_broken_weights_are_an_error(part):
    model = small()
    model.get_layer("head").bias.assign([0.0, np.nan, 0.0])
    with pytest.raises(training.RunError, match="not finite: its weights are broken"):
        training.evaluate(model, part)
    with pytest.raises(training.RunError, match="not finite"):
        training.probabilities([[np.inf, 0.0]])
