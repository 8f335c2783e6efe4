"""Fused training steps: the same numbers as operation by operation, and only where it is meant."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfpn

# Rounding of float32 in another order of operations; kernels also take another form when fused.
TOLERANCE = 2e-4


@pytest.fixture(autouse=True)
def _fuse_small_maps(monkeypatch):
    monkeypatch.setattr("tfpn.layers.base._FUSED_ENTRIES", 80)


def _observations(rng, batch=3, points=20):
    variance = rng.uniform(0.0, 0.1, size=(batch, points, 1))
    variance[:, -4:] = np.inf
    values = rng.normal(size=(batch, points, 1))
    values[:, -4:] = np.nan
    return {
        "points": tf.constant(rng.uniform(size=(batch, points, 2)), tf.float32),
        "values": tf.constant(values, tf.float32),
        "variance": tf.constant(variance, tf.float32),
    }


def _loss_and_gradients(model, x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(model(x, training=True))) + tf.add_n(model.losses)
    return loss, tape.gradient(loss, model.trainable_variables)


def test_fused_step_agrees_with_eager_one():
    keras.utils.set_random_seed(0)
    x = _observations(np.random.default_rng(0))
    model = tfpn.models.PNCNN(3, channels=8, num_blocks=1)
    model(x)
    loss, gradients = _loss_and_gradients(model, x)
    fused_loss, fused_gradients = tf.function(_loss_and_gradients)(model, x)
    np.testing.assert_allclose(fused_loss, loss, rtol=TOLERANCE)
    # Of the largest gradient: some are zero but for rounding, as normalisation follows a bias.
    scale = max(np.abs(gradient).max() for gradient in gradients)
    for variable, expected, found in zip(
        model.trainable_variables, gradients, fused_gradients, strict=True
    ):
        error = np.abs(found - expected).max()
        assert error <= TOLERANCE * scale, f"{variable.path}: {error} of {scale}"


def _compiled_functions(training, points):
    layers = [tfpn.layers.ProbReLU(), tfpn.layers.GPNormalization()]

    def call(x):
        for layer in layers:
            x = layer(x, training=training)
        return x["values"], x["variance"]

    channels = {"points": 2, "values": 4, "variance": 4}
    signature = {key: tf.TensorSpec([None, points, n], tf.float32) for key, n in channels.items()}
    graph = tf.function(call).get_concrete_function(signature).graph
    functions = graph.as_graph_def().library.function
    return sum(function.attr["_XlaMustCompile"].b for function in functions)


def test_only_training_with_a_known_number_of_points_is_fused():
    assert _compiled_functions(training=True, points=20) > 0
    assert _compiled_functions(training=True, points=None) == 0
    assert _compiled_functions(training=False, points=20) == 0


def test_small_maps_are_not_fused(monkeypatch):
    monkeypatch.setattr("tfpn.layers.base._FUSED_ENTRIES", 81)  # 20 points, 4 channels
    assert _compiled_functions(training=True, points=20) == 0
