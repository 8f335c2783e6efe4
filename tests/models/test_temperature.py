"""`calibrate` of classifiers."""

import keras
import numpy as np
import pytest
import scipy.optimize
import scipy.special
from pncnn_support import LOSS, separable, small

import tfpn
from tfpn.models.temperature import fit_temperature


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
    found, offsets = fit_temperature(logits, labels)
    assert found == pytest.approx(temperature, rel=0.06) and not offsets.any()
    found, offsets = fit_temperature(logits, labels, offsets=True)
    assert found == pytest.approx(temperature, rel=0.08)
    # Standard errors of log odds of 1000 labels a class are some 0.04, more where few are unsure.
    assert np.ptp(offsets) < 0.4


def test_extremes():
    logits = np.array([[5.0, 0.0], [0.0, 5.0]] * 20)
    right = np.array([0, 1] * 20)
    # All right, by which the likelihood grows up to T = 0: the prior's optimum, by hand. With
    # b = 5 / T, d/dlogT of 40 log(1 + e^-b) + log(T)^2 / 2 is 40 b / (1 + e^b) + log T = 0.
    best, _ = fit_temperature(logits, right)
    assert 0.1 < best < 1
    assert 40 * (5 / best) / (1 + np.exp(5 / best)) + np.log(best) == pytest.approx(0, abs=1e-3)
    assert np.isfinite(fit_temperature(-1e6 * logits, right)[0])
    assert fit_temperature(0 * logits, right)[0] == pytest.approx(1, abs=1e-3)  # the prior's


def test_offsets_by_a_search_of_another_kind():
    """Against the optimum that a method without gradients finds of the density written out."""
    logits, labels = sampled(2.0, examples=60, classes=3)
    labels = np.where(np.arange(60) % 3 == 0, 2, labels)  # the last class is more frequent

    def loss(numbers):
        chances = scipy.special.softmax(logits / np.exp(numbers[0]) + numbers[1:], axis=-1)
        return np.sum(numbers**2) / 2 - np.sum(np.log(chances[np.arange(60), labels]))

    options = {"xatol": 1e-7, "fatol": 1e-10, "maxiter": 10_000}
    expected = scipy.optimize.minimize(loss, np.zeros(4), method="Nelder-Mead", options=options).x
    found, offsets = fit_temperature(logits, labels, offsets=True)
    np.testing.assert_allclose([np.log(found), *offsets], expected, atol=1e-4)
    assert offsets[2] > 0.3 + offsets[:2].max()


EXAMPLES = 32  # one batch of a prediction


def trained(pooling):
    keras.utils.set_random_seed(0)
    x, y = separable(EXAMPLES)
    model = small(2, num_blocks=1, pooling=pooling)
    model.adapt(x)
    model.compile(keras.optimizers.Adam(0.03), LOSS, metrics=["accuracy"])
    return model, x, y


@pytest.mark.parametrize("pooling", ["space", (0.0, 1.0)])
def test_all_that_a_classifier_says(pooling, tmp_path):
    model, x, y = trained(pooling)
    wrong = np.where(np.arange(EXAMPLES) % 3 == 0, 1 - y, y)  # so that T is not 1
    model.get_layer("head").kernel.assign(5.0 * model.get_layer("head").kernel)
    logits, probabilities = model.predict(x, verbose=0), model.predict_proba(x)
    nll = tfpn.evaluation.classification_metrics(probabilities, wrong)["nll"]
    model.calibrate(x, wrong)
    temperature = float(model.get_layer("temperature").temperature)
    assert abs(np.log(temperature)) > 0.2
    assert temperature == pytest.approx(fit_temperature(np.log(probabilities), wrong)[0], rel=1e-4)
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


@pytest.mark.parametrize("pooling", ["space", (0.0, 1.0)])
def test_distributions_and_offsets(pooling):
    model, x, y = trained(pooling)
    layer, offsets = model.get_layer("temperature"), np.array([0.5, -1.0])
    logits, probabilities = model.predict(x, verbose=0), model.predict_proba(x)
    if pooling != "space":
        covariance = model.predict_distribution(x).covariance().numpy()
    layer.temperature.assign(2.0)
    layer.offsets.assign(offsets)
    np.testing.assert_allclose(model.predict(x, verbose=0), logits / 2 + offsets, rtol=1e-5)
    expected = np.sqrt(probabilities) * np.exp(offsets)
    expected /= expected.sum(-1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(x), expected, rtol=1e-4)
    if pooling != "space":
        predicted = model.predict_distribution(x)
        np.testing.assert_allclose(predicted.mean(), logits / 2 + offsets, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(predicted.covariance(), covariance / 4, rtol=1e-4)
    model.calibrate(x, y, offsets=True)
    temperature, fitted = layer.numbers
    expected = fit_temperature(np.log(probabilities), y, offsets=True)
    assert temperature == pytest.approx(expected[0], rel=1e-3)
    np.testing.assert_allclose(fitted, expected[1], atol=1e-3)
    model.calibrate(x, y)
    assert not np.any(layer.numbers[1])


def test_errors():
    model, x, y = trained("space")
    for bad, error, match in (
        (y[:5], ValueError, r"y has the shape \(5,\); give a class number for each of the 32"),
        (np.eye(2)[y], ValueError, r"y has the shape \(32, 2\)"),
        (y + 1, ValueError, "y is 2 for example 1; give class numbers from 0 to 1"),
        (y - 0.5, ValueError, "y is -0.5 for example 0"),
        (np.where(y, np.nan, 0), ValueError, "y is nan for example 1"),
        (["a"] * EXAMPLES, ValueError, "y holds texts; labels are whole numbers"),
        (["0"] * EXAMPLES, ValueError, "y holds texts"),
    ):
        with pytest.raises(error, match=match):
            model.calibrate(x, bad)
    assert float(model.get_layer("temperature").temperature) == 1.0
    model.calibrate(x, y[:, None])
    with pytest.raises(TypeError, match="x must be the model's input dict"):
        model.calibrate([x], y)
    with pytest.raises(ValueError, match="offsets must be True or False, found 'no'"):
        model.calibrate(x, y, offsets="no")
    options = {"num_outputs": 1, "channels": 2, "num_blocks": 1}
    with pytest.raises(ValueError, match="calibrate needs a classifier of two or more classes, or"):
        tfpn.models.PNCNN(None, **options).calibrate(x, y)
    with pytest.raises(ValueError, match="offsets=True is for classifiers"):
        tfpn.models.PNCNN(None, **options, pooling=(0, 1)).calibrate(x, y, offsets=True)
