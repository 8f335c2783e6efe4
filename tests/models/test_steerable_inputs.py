"""What SteerablePNCNN says of inputs that are not its own, and the calibration of odd targets."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

import tfpn
from equivariance import SO2
from tfpn.models import SteerablePNCNN
from tfpn.models.variance_fit import fit_variance

TARGETS = np.zeros((3, 4, 2))
WAYS = {
    "call": lambda model, x: model(x),
    "predict": lambda model, x: model.predict(x, verbose=0),
    "fit": lambda model, x: model.fit(x, TARGETS, verbose=0),
    "predict_distribution": lambda model, x: model.predict_distribution(x),
    "calibrate": lambda model, x: model.calibrate(x, TARGETS),
    "adapt": lambda model, x: model.adapt(x),  # which does not read the query
}


@pytest.fixture(scope="module")
def x():
    rng = np.random.default_rng(0)
    x = tfpn.observations(rng.uniform(size=(3, 6, 2)), rng.normal(size=(3, 6, 2)), 0.01)
    x["query"] = rng.uniform(size=(3, 4, 2))
    return {key: value.astype("float32") for key, value in x.items()}


@pytest.fixture(scope="module")
def model():
    """Vectors in and out; nothing here compiles it."""
    return SteerablePNCNN(
        None, in_fields={1: 1}, out_fields={1: 1}, copies=1, num_blocks=1, num_basis=1,
        frequencies=(0, 1),
    )  # fmt: skip


def changed(x, key, place, value):
    array = x[key].copy()
    array[place] = value
    return {**x, key: array}


PARTLY = "variance: example 1, point 2 has \\[inf, 0.01\\] in the channels \\[{}\\], .* " + (
    "Give each the same finite variance, or each the variance inf"
)


@pytest.mark.parametrize("way", ["predict", "fit", "adapt", "predict_distribution"])
def test_components_of_a_field_are_seen_together(x, model, way):
    given = changed(x, "variance", (1, 2, 0), np.inf)
    with pytest.raises(ValueError, match=PARTLY.format("0, 1")):
        WAYS[way](model, given)


def test_noise_of_each_channel_is_for_whole_fields(x):
    model = SteerablePNCNN(
        3, in_fields={0: 1, 1: 1}, copies=1, num_blocks=1, frequencies=(0, 1),
        input_noise="channel",
    )  # fmt: skip
    pads = [(0, 0), (0, 0), (1, 0)]
    x = {
        "points": x["points"],
        "values": np.pad(x["values"], pads),
        "variance": np.pad(x["variance"], pads, constant_values=np.inf),
    }
    model.adapt(x)  # a scalar that is nowhere seen
    with pytest.raises(ValueError, match=PARTLY.format("1, 2")):
        model.adapt(changed(x, "variance", (1, 2, 1), np.inf))


def test_components_of_a_field_have_one_variance(x, model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.adapt(changed(x, "variance", (0, 1), np.inf), fit_priors=False)
    with pytest.warns(UserWarning, match="components of some fields differ .* their mean counts"):
        model.adapt(changed(x, "variance", (0, 1, 1), 0.5), fit_priors=False)


@pytest.mark.parametrize("way", [way for way in WAYS if way != "adapt"])
@pytest.mark.parametrize(
    "change, error, message",
    [
        (lambda q: q[0], ValueError, r"query: found the shape \[4, 2\]; give \[3, M, 2\]"),
        (lambda q: q[:2], ValueError, r"\[2, 4, 2\]; give \[3, M, 2\], .*or \[1, M, 2\]"),
        (lambda q: q[..., :1], ValueError, r"query: found the shape \[3, 4, 1\]"),
        (lambda q: np.where(q == q[1, 2], np.nan, q), ValueError, "query: example 1, point 2 has"),
        (lambda q: np.full(q.shape, "a"), TypeError, "query: found ndarray of dtype <U1"),
        (None, ValueError, "takes a dict with the keys points, query, values, variance, found"),
    ],
    ids=["rank", "examples", "dimension", "nan", "text", "missing"],
)
def test_query(x, model, way, change, error, message):
    given = {**x}
    query = given.pop("query")
    if change:
        given["query"] = change(query)
    with pytest.raises(error, match=message):
        WAYS[way](model, given)


def test_one_examples_query_points_are_those_of_all(x, model):
    one = {**x, "query": x["query"][:1]}
    every = {**x, "query": np.repeat(one["query"], 3, axis=0)}
    expected = model.predict_on_batch(every)
    for given in (one, {key: array.tolist() for key, array in one.items()}):
        np.testing.assert_array_equal(model(given), expected)
    np.testing.assert_array_equal(model.predict(one, verbose=0), expected)
    law, other = model.predict_distribution(one), model.predict_distribution(every)
    np.testing.assert_array_equal(law.stddev(), other.stddev())
    tensors = {key: tf.constant(array) for key, array in one.items()}
    with tf.GradientTape() as tape:
        tape.watch(tensors["query"])
        total = tf.reduce_sum(model(tensors))
    assert tape.gradient(total, tensors["query"]).shape == (1, 4, 2)
    again = SteerablePNCNN.from_config(model.get_config())
    again.compile(loss="mse")
    loss = again.evaluate(one, expected, verbose=0)
    assert loss == pytest.approx(again.evaluate(every, expected, verbose=0))
    again.fit(one, expected, validation_data=(one, expected), verbose=0)
    again.calibrate(one, TARGETS)
    tfpn.check_equivariance(model, one, SO2, 1)


def test_equivariance_of_a_field_needs_a_query(x, model):
    given = {key: value for key, value in x.items() if key != "query"}
    with pytest.raises(ValueError, match=r"x has no query: .* \[3, M, 2\]"):
        tfpn.check_equivariance(model, given, SO2)


@pytest.mark.parametrize(
    "build",
    [
        lambda: tfpn.models.PNCNN(3, channels=2, num_blocks=1, pooling=(0.0, 1.0)),
        lambda: tfpn.models.PNTimeSeries(channels=2, num_blocks=1),
    ],
    ids=["PNCNN", "PNTimeSeries"],
)
@pytest.mark.parametrize("way", ["predict_distribution", "predict_proba"])
def test_distributions_check_what_they_are_given(build, way):
    predict = getattr(model := build(), way)
    dim = model.inputs_dict["points"].shape[-1]
    x = tfpn.observations(np.zeros((2, 3, dim)), np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"points: found the shape \[0, 3"):
        predict({key: value[:0] for key, value in x.items()})
    with pytest.raises(ValueError, match="variance: example 0.*not negative"):
        predict({**x, "variance": x["variance"] - 1.0})
    for bad in (0, 1.5, None):
        with pytest.raises(ValueError, match="batch_size must be a positive whole number"):
            predict(x, batch_size=bad)


@pytest.fixture(scope="module")
def regressor():
    rng = np.random.default_rng(1)
    x = tfpn.observations(rng.uniform(size=(6, 5, 2)), rng.normal(size=(6, 5)))
    model = tfpn.models.PNCNN(
        None, num_outputs=1, channels=2, num_blocks=1, num_basis=1, pooling=(0.0, 1.0)
    )
    return model, x, model.predict_distribution(x).mean().numpy()


def test_calibration_on_one_target_is_its_distance(regressor):
    model, x, mean = regressor
    targets = np.full(6, np.nan)
    targets[2] = mean[2, 0] + 0.25
    model.calibrate(x, targets)
    assert model.predict_distribution(x).stddev().numpy()[2, 0] == pytest.approx(0.25, rel=1e-3)


def test_calibration_needs_errors(regressor):
    model, x, mean = regressor
    before = model._calibration.numpy()
    for bad, error, message in (
        (mean, ValueError, "y holds what the model predicts for output 0"),
        (np.full((6, 1), "a"), TypeError, "y must be an array of numbers"),
    ):
        with pytest.raises(error, match=message):
            model.calibrate(x, bad)
    with pytest.raises(TypeError, match="x must be the model's input dict, found list"):
        model.calibrate([1.0], mean)
    np.testing.assert_array_equal(model._calibration, before)


def test_variances_of_zero_leave_the_noise():
    residuals = np.array([0.3, -0.4, 0.0])
    factor, noise = fit_variance(residuals, np.zeros(3, "float32"))
    assert factor == 0.0 and np.exp(noise) == pytest.approx(0.25 / 3.0)
    # Some variances of zero are no obstacle either.
    logs = fit_variance(residuals, np.array([0.0, 0.1, 0.0], "float32"))
    assert np.isfinite(logs).all()
