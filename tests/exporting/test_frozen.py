"""A frozen model predicts what the model predicts, by one graph without variables."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_harness import perturb
from saved_models import MODELS, SMALL, assert_same, data, made, tensors

import tfpn

# float32, the same operations in another order
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


def _classifier(**changes):
    model = tfpn.models.PNCNN(3, in_channels=2, pooling=(0.0, 1.0), **{**SMALL, **changes})
    perturb(model)
    return model


def _series():
    """A field in time; its draws come from waves."""
    model = tfpn.models.PNTimeSeries(
        None, num_outputs=2, in_channels=2, output="field", uncertainty="sampled", num_samples=2,
        num_waves=4, channels=3, num_blocks=1, num_basis=1,
    )  # fmt: skip
    perturb(model)
    return model


def test_one_graph_for_all_sizes_that_keeps_the_checks():
    model = _classifier(uncertainty="none", num_basis=1)  # little to trace
    frozen = tfpn.exporting.FrozenModel(model)
    for size in ({}, {"examples": 4, "points": 9}):
        x = data(**size)
        assert_same(frozen.predict(x, batch_size=3), model(tensors(x)), **TOLERANCE)
    (function,) = frozen._functions.values()
    assert function.experimental_get_tracing_count() == 1
    graph = function.get_concrete_function()
    assert not graph.captured_inputs  # no variable, not even a metric's
    huge = {**x, "values": np.full_like(x["values"], 3e38)}
    with pytest.raises(tf.errors.InvalidArgumentError, match="computed a result that is not fin"):
        frozen.predict(huge)


def test_predictions_of_a_time_series_field(eagerly):
    query = np.linspace(0.0, 1.0, 12, dtype="float32").reshape(3, 4, 1)
    model, x = _series(), data(dim=1)
    frozen = tfpn.exporting.FrozenModel(model)
    expected = model(tensors({**x, "query": query}))
    assert_same(frozen.predict({**x, "query": query}), expected, **TOLERANCE)
    mean = frozen.predict_field(x, query).mean()
    np.testing.assert_allclose(mean, expected[..., 0], **TOLERANCE)


def test_predictions_of_a_steerable_network(eagerly):
    model, x = made("steerable"), MODELS["steerable"][1]()
    frozen = tfpn.exporting.FrozenModel(model)
    assert_same(frozen.predict(x), model(tensors(x)), **TOLERANCE)


def test_other_methods_and_what_is_refused(eagerly):
    model, x = _classifier(), data()
    expected = model.predict_proba(x, verbose=0)
    mean = model(tensors(x))
    frozen = tfpn.exporting.FrozenModel(model)
    model.set_weights([np.zeros_like(weight) for weight in model.get_weights()])
    np.testing.assert_allclose(frozen.predict_proba(x, batch_size=2), expected, **TOLERANCE)
    np.testing.assert_allclose(frozen.predict_distribution(x).mean(), mean, **TOLERANCE)

    with pytest.raises(TypeError, match="model: give one of tfpn.models, found Sequential"):
        tfpn.exporting.FrozenModel(keras.Sequential())
    with pytest.raises(TypeError, match="a FrozenModel takes arrays"):
        frozen.predict(tf.data.Dataset.from_tensors(x))
    with pytest.raises(ValueError, match="batch_size"):
        frozen.predict(x, batch_size=0)
    x["values"][0, 2, 1] = np.nan
    with pytest.raises(ValueError, match="values: example 0, point 2, channel 1 is nan"):
        frozen.predict(x)
