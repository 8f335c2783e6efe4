"""Models with draws: logits of the mixture, distributions, grids, saving."""

import pickle

import keras
import numpy as np
import pytest
from scipy import special

import tfpn
from tfpn.models.head import OverDraws
from tfpn.models.query_grid import grid


def data(seed=0, examples=4, points=7):
    rng = np.random.default_rng(seed)
    x = tfpn.observations(
        rng.uniform(size=(examples, points, 2)), rng.normal(size=(examples, points)), 0.1
    )
    return x, rng.integers(0, 3, size=examples)


def small(**arguments):
    keras.utils.set_random_seed(1)
    defaults = {"num_classes": 3, "channels": 3, "num_blocks": 2, "num_basis": 2}
    defaults |= {"num_samples": 4, "num_waves": 8, "uncertainty": "sampled"}
    return tfpn.models.PNCNN(**(defaults | arguments))


@pytest.mark.parametrize("pooling", ["space", (0.0, 1.0)])
def test_logits_are_those_of_the_mean_probability(pooling, tmp_path):
    x, y = data()
    model = small(pooling=pooling)
    model.adapt(x)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(x, y, epochs=1, verbose=0, class_weight={0: 1.0, 1: 2.0, 2: 1.0})
    assert np.all(np.isfinite(history.history["loss"]))
    logits = model.predict(x, verbose=0)
    pooled = model._moments.predict(x, verbose=0)
    kernel, bias = (np.asarray(w) for w in model.get_layer("head").weights)
    expected = special.softmax(pooled["draws"] @ kernel + bias, axis=-1).mean(axis=1)
    np.testing.assert_allclose(np.exp(logits), expected, rtol=1e-5)
    np.testing.assert_allclose(model.predict_proba(x), expected, rtol=1e-5)
    np.testing.assert_array_equal(model.predict(x, verbose=0), logits)
    parts = model.predict(x, batch_size=3, verbose=0)
    np.testing.assert_allclose(parts, logits, rtol=1e-4, atol=1e-5)
    of_draws = pooled["draws"] @ kernel + bias
    distribution = model.predict_distribution(x)
    np.testing.assert_allclose(distribution.mean(), of_draws.mean(1), rtol=1e-4, atol=1e-5)
    deviations = of_draws - of_draws.mean(1, keepdims=True)
    covariance = np.einsum("bsi,bsj->bij", deviations, deviations) / 4
    # A ridge of 1e-6 of the variance is added; single precision of the draws.
    np.testing.assert_allclose(
        distribution.covariance(), covariance, atol=1e-4 * covariance.max(), rtol=1e-3
    )
    again = pickle.loads(pickle.dumps(distribution))
    np.testing.assert_array_equal(again.covariance(), distribution.covariance())
    assert np.all(np.isfinite(distribution.log_prob(distribution.mean())))
    path = tmp_path / "model.keras"
    model.save(path)
    loaded = keras.saving.load_model(path)
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), logits)


def test_regression_is_calibrated():
    x, _ = data()
    targets = np.random.default_rng(2).normal(3.0, 2.0, size=(4, 2))
    model = small(num_classes=None, num_outputs=2, pooling=(0.0, 1.0))
    model.adapt(x, targets)
    before = model.predict_distribution(x)
    np.testing.assert_allclose(before.mean(), model.predict(x, verbose=0), rtol=1e-4, atol=1e-5)
    model.calibrate(x, targets)
    after = model.predict_distribution(x)
    np.testing.assert_allclose(after.mean(), before.mean(), rtol=1e-5)
    score = [np.sum(np.square(targets - d.mean()) / d.variance()) for d in (before, after)]
    assert abs(score[1] / targets.size - 1.0) < abs(score[0] / targets.size - 1.0)


def test_features_are_moments_over_draws():
    x, _ = data()
    model = small()
    model.adapt(x)
    for features in model.feature_maps(x, x["points"][:, :2]):
        assert features["values"].shape == (4, 2, 3)
        # Of four draws all may lie below the rectifier's kink somewhere.
        assert np.all(features["variance"] >= 0.0) and np.mean(features["variance"] > 0.0) > 0.5
    process = model.feature_process(x, "conv_2", x["points"][:, :2])
    assert np.all(process.variance() > 0.0)


def test_blocks_on_a_grid():
    x, y = data()
    model = small(pooling={"centre": (0.5, 0.5), "radius": 0.5}, query=4)
    model.adapt(x)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(x, y, verbose=0)
    points, step = grid({"centre": (0.5, 0.5), "radius": 0.5}, 2, 4)
    assert len(points) == 12 and step == 0.25  # without the corners of the square
    found = keras.Model(model.inputs_dict, model.blocks[1].given)(x)
    np.testing.assert_allclose(found["points"][0], points, rtol=1e-6)
    np.testing.assert_allclose(np.exp(model.get_layer("conv_2").log_length_scale), 0.25, rtol=0.1)
    for query, pooling in ((3, "space"), (0, (0.0, 1.0)), ("union", (0.0, 1.0))):
        with pytest.raises(ValueError, match="query"):
            small(query=query, pooling=pooling)


def test_outputs_over_draws():
    outputs = np.random.default_rng(0).normal(size=(2, 5, 3)).astype("float32")
    found = OverDraws(3)(outputs)
    np.testing.assert_allclose(
        found, np.log(special.softmax(outputs, -1).mean(1)), rtol=1e-5, atol=1e-6
    )
    single = OverDraws(1)(outputs[..., :1])
    np.testing.assert_allclose(
        special.expit(single), special.expit(outputs[..., :1]).mean(1), rtol=1e-5
    )
    np.testing.assert_allclose(OverDraws()(outputs), outputs.mean(1), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("ending", ["keras", "weights.h5"])
def test_a_loaded_model_draws_on(ending, tmp_path):
    """It trains as the stored model does, bit for bit: its draws do not begin anew."""
    x, y = data()
    model, loaded = small(), small()
    for one in (model, loaded):
        one.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.train_on_batch(x, y)
    path = tmp_path / f"model.{ending}"
    if ending == "keras":
        model.save(path)
        loaded = keras.saving.load_model(path)
    else:
        model.save_weights(path)
        loaded.optimizer.build(loaded.trainable_variables)
        loaded.load_weights(path)
    states = [
        [layer.seed_generator.state.numpy() for layer in one.layers if hasattr(layer, "_next_seed")]
        for one in (model, loaded)
    ]
    np.testing.assert_array_equal(*states)
    assert states[0][0][1] > 0
    losses = [one.train_on_batch(x, y) for one in (model, loaded)]
    assert losses[0] == losses[1]
    for found, expected in zip(loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(found, expected)
