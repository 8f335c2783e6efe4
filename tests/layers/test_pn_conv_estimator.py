"""PNConv with the stochastic variance, and channels seen at different points through a model."""

import keras
import numpy as np
import pytest
from layer_harness import CASES, make_input

import tfpn
from tfpn.layers import PNConv

STOCHASTIC = {"variance_estimator": "stochastic", "num_probes": 4, "seed": 3}


def layer_and_input(name="conv_channel", **options):
    x = make_input(CASES[name].sporadic)
    keras.utils.set_random_seed(0)
    return CASES[name].built(x, **{**STOCHASTIC, **options}), x


@pytest.mark.parametrize("name", ["conv", "conv_channel"])
def test_many_probes_approach_the_exact_variance(name):
    layer, x = layer_and_input(name, num_probes=20000)
    exact = CASES[name].make()
    exact(x)
    for weight, other in zip(exact.trainable_weights, layer.trainable_weights, strict=True):
        weight.assign(other)
    exact.log_flow_unit.assign(layer.log_flow_unit)
    exact.log_value_unit.assign(layer.log_value_unit)
    found, expected = layer(x, training=True), exact(x)
    np.testing.assert_allclose(found["values"], expected["values"], rtol=1e-11, atol=1e-11)
    seen = np.isfinite(expected["variance"])
    np.testing.assert_array_equal(np.isfinite(found["variance"]), seen)
    # Errors are about the variance itself over sqrt(20000), 0.7 %; allowed: five times as much
    # of the largest one.
    error = np.abs(found["variance"].numpy()[seen] - expected["variance"].numpy()[seen])
    assert error.max() < 0.035 * expected["variance"].numpy()[seen].max()


def test_training_steps_draw_anew_and_a_seed_reproduces():
    runs = []
    for _ in range(2):
        layer, x = layer_and_input()
        runs.append([layer(x, training=True)["variance"][0].numpy() for _ in range(3)])
    np.testing.assert_array_equal(*runs)
    assert np.abs(runs[0][0] - runs[0][1]).max() > 1e-3
    assert np.abs(runs[0][1] - runs[0][2]).max() > 1e-3
    other, x = layer_and_input(seed=4)
    assert np.abs(other(x, training=True)["variance"][0] - runs[0][0]).max() > 1e-3


def test_inference_repeats_itself():
    layer, x = layer_and_input()
    first = layer(x)["variance"]
    layer(x, training=True)
    np.testing.assert_array_equal(layer(x)["variance"], first)


def test_variance_is_cut_off_at_zero():
    layer, x = layer_and_input(num_probes=1, probes="gaussian")
    found = [layer(x, training=True)["variance"].numpy()[:1] for _ in range(10)]
    assert np.min(found) == 0.0 and np.max(found) > 0.0


def test_configuration():
    layer = PNConv(3, 4, **STOCHASTIC, probes="gaussian")
    config = layer.get_config()
    assert {**STOCHASTIC, "probes": "gaussian"}.items() <= config.items()
    assert PNConv.from_config(config).get_config() == config
    for wrong in (
        {"variance_estimator": "guess"},
        {"probes": "uniform"},
        {"num_probes": 0},
        {"variance_estimator": "stochastic", "uncertainty": "low_rank"},
        {"variance_estimator": "stochastic", "noise": "channel", "prior": "channel"},
    ):
        name = next(iter(wrong))
        with pytest.raises(ValueError, match=name):
            PNConv(3, **wrong)


def sporadic_data(count=6, channels=3):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(count, 8, channels))
    values[rng.uniform(size=values.shape) < 0.6] = np.nan
    values[:, 6:] = np.nan
    return tfpn.observations(rng.uniform(size=(count, 8, 1)), values), np.arange(count) % 2


def model_of(num_blocks=1, **options):
    return tfpn.models.PNCNN(
        2, channels=4, num_blocks=num_blocks, num_basis=3, spatial_dim=1, in_channels=3,
        input_noise="channel", **options,
    )  # fmt: skip


def test_the_models_first_block_alone_is_estimated():
    model = model_of(3, variance_estimator="stochastic", num_probes=7)
    layers = [model.get_layer(f"conv_{block}") for block in (1, 2, 3)]
    found = [layer.variance_estimator for layer in layers]
    assert found == ["stochastic", "exact", "exact"] and layers[0].num_probes == 7
    assert model.get_config()["variance_estimator"] == "stochastic"


def test_a_model_trains_saves_and_repeats(tmp_path):
    x, y = sporadic_data()
    keras.utils.set_random_seed(0)
    model = model_of(variance_estimator="stochastic", num_probes=3)
    model.adapt(x)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, run_eagerly=True)  # quicker than tracing for so few steps
    history = model.fit(x, y, epochs=2, batch_size=6, verbose=0).history
    assert np.all(np.isfinite(history["loss"]))
    before = model.predict(x, verbose=0)
    np.testing.assert_array_equal(model.predict(x, verbose=0), before)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.predict(x, verbose=0), before, rtol=1e-5, atol=1e-6)


def test_nan_and_infinite_variance_are_the_same_to_a_model():
    x, _ = sporadic_data()
    model = model_of()
    expected = model.predict(x, verbose=0)
    stored = np.where(np.isinf(x["variance"]), np.nan, x["values"])
    np.testing.assert_array_equal(model.predict({**x, "values": stored}, verbose=0), expected)
