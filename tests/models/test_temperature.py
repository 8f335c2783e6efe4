"""`calibrate` of classifiers."""

import keras
import numpy as np
import pytest
import scipy.special
from pncnn_support import LOSS, separable, small

import tfpn
from tfpn.models.temperature import fit_temperature

pytestmark = pytest.mark.usefixtures("eagerly")


def sampled(temperature, examples=4000, classes=4, seed=0):
    """Logits, and labels drawn from their softmax at a temperature."""
    rng = np.random.default_rng(seed)
    logits = 3 * rng.normal(size=(examples, classes))
    chances = scipy.special.softmax(logits / temperature, axis=-1)
    return logits, (rng.uniform(size=(examples, 1)) > chances.cumsum(-1)).sum(-1)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_the_temperature_that_labels_were_drawn_at(temperature):
    logits, labels = sampled(temperature)
    # Its standard error is about 1.5 % at 4, less at lower ones, by bootstrap.
    assert fit_temperature(logits, labels) == pytest.approx(temperature, rel=0.06)


def test_extremes():
    logits = np.array([[5.0, 0.0], [0.0, 5.0]] * 20)
    right = np.array([0, 1] * 20)
    # All right, by which the likelihood grows up to T = 0: the prior's optimum, by hand. With
    # b = 5 / T, d/dlogT of 40 log(1 + e^-b) + log(T)^2 / 2 is 40 b / (1 + e^b) + log T = 0.
    best = fit_temperature(logits, right)
    assert 0.1 < best < 1
    assert 40 * (5 / best) / (1 + np.exp(5 / best)) + np.log(best) == pytest.approx(0, abs=1e-3)
    assert np.isfinite(fit_temperature(-1e6 * logits, right))
    assert fit_temperature(0 * logits, right) == pytest.approx(1, abs=1e-3)  # the prior's


def trained(pooling):
    keras.utils.set_random_seed(0)
    x, y = separable(60)
    model = small(2, num_blocks=1, pooling=pooling)
    model.adapt(x)
    model.compile(keras.optimizers.Adam(0.03), LOSS, metrics=["accuracy"])
    return model, x, y


@pytest.mark.parametrize("pooling", ["space", (0.0, 1.0)])
def test_all_that_a_classifier_says(pooling, tmp_path):
    model, x, y = trained(pooling)
    wrong = np.where(np.arange(60) % 5 == 0, 1 - y, y)  # so that T is not 1
    model.get_layer("head").kernel.assign(5.0 * model.get_layer("head").kernel)
    logits, probabilities = model.predict(x, verbose=0), model.predict_proba(x)
    nll = tfpn.evaluation.classification_metrics(probabilities, wrong)["nll"]
    model.calibrate(x, wrong)
    temperature = float(model.get_layer("temperature").temperature)
    assert abs(np.log(temperature)) > 0.2
    assert temperature == pytest.approx(fit_temperature(np.log(probabilities), wrong), rel=1e-4)
    np.testing.assert_allclose(model.predict(x, verbose=0), logits / temperature, rtol=1e-5)
    powers = probabilities ** (1 / temperature)
    found = model.predict_proba(x)
    np.testing.assert_allclose(found, powers / powers.sum(-1, keepdims=True), rtol=1e-4)
    assert tfpn.evaluation.classification_metrics(found, wrong)["nll"] < nll
    loss = LOSS(wrong, logits / temperature)
    assert model.evaluate(x, wrong, verbose=0)[0] == pytest.approx(float(loss), rel=1e-2)
    if pooling != "space":
        predicted = model.predict_distribution(x)
        np.testing.assert_allclose(predicted.mean(), logits / temperature, rtol=1e-4, atol=1e-6)
    # Again on the same data it is the same, from wherever it starts.
    model.calibrate(x, wrong)
    assert float(model.get_layer("temperature").temperature) == pytest.approx(temperature, rel=1e-3)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))


def test_distributions_spread_by_the_temperature():
    model, x, _ = trained((0.0, 1.0))
    before = model.predict_distribution(x).covariance().numpy()
    model.get_layer("temperature").temperature.assign(2.0)
    np.testing.assert_allclose(model.predict_distribution(x).covariance(), before / 4, rtol=1e-4)


def test_errors():
    model, x, y = trained("space")
    for bad, error, match in (
        (y[:5], ValueError, r"y has the shape \(5,\); give a class number for each of the 60"),
        (np.eye(2)[y], ValueError, r"y has the shape \(60, 2\)"),
        (y + 1, ValueError, "y is 2 for example 1; give class numbers from 0 to 1"),
        (y - 0.5, ValueError, "y is -0.5 for example 0"),
        (np.where(y, np.nan, 0), ValueError, "y is nan for example 1"),
        (["a"] * 60, TypeError, "y must be an array of class numbers"),
    ):
        with pytest.raises(error, match=match):
            model.calibrate(x, bad)
    assert float(model.get_layer("temperature").temperature) == 1.0
    model.calibrate(x, y[:, None])
    with pytest.raises(TypeError, match="x must be the model's input dict"):
        model.calibrate([x], y)
    with pytest.raises(ValueError, match="calibrate needs a classifier of two or more classes, or"):
        tfpn.models.PNCNN(None, num_outputs=1, channels=2, num_blocks=1).calibrate(x, y)
