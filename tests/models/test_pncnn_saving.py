"""Every way to store and copy a PNCNN gives the same model back."""

import inspect
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from pncnn_support import make_batch, perturb, small

import tfpn
from tfpn.gone import GONE

CONFIGURATIONS = {
    "default": {},
    "without uncertainty": {"uncertainty": "none"},
    "without normalization": {"normalization": False, "num_blocks": 1},
    "box of lists": {"pooling": ([0.0, -1.0], [1.0, 2.0]), "num_blocks": 1},
    "regression in float64": {
        "num_classes": None,
        "num_outputs": 2,
        "num_blocks": 1,
        "dtype": "float64",
    },
    "headless": {"num_classes": None, "pooling": (0.0, 1.0), "num_blocks": 1},
    "channel noise": {"in_channels": 2, "input_noise": "channel", "num_blocks": 1},
    "mixed_bfloat16": {"dtype": "mixed_bfloat16", "num_blocks": 1},
}

# Tracing takes seconds each, so both kinds of noise, pooling, output and precision in two.
EXPORTED = {
    "headless in float64": {**CONFIGURATIONS["headless"], "dtype": "float64"},
}

every_configuration = pytest.mark.parametrize(
    "configuration", CONFIGURATIONS.values(), ids=CONFIGURATIONS.keys()
)


@pytest.fixture
def model(configuration):
    model = small(**configuration)
    perturb(model)
    return model


@pytest.fixture
def x(configuration):
    return batch_for(configuration)


def batch_for(configuration, **changes):
    dtype = "float64" if configuration.get("dtype") == "float64" else "float32"
    channels = configuration.get("in_channels", 1)
    return make_batch(dtype, channels, sporadic=channels > 1, **changes)


def assert_equal(found, expected, rtol=0.0, atol=0.0):
    found, expected = (
        value if isinstance(value, dict) else {"": value} for value in (found, expected)
    )
    assert found.keys() == expected.keys()
    for key in expected:
        assert found[key].dtype == expected[key].dtype
        np.testing.assert_allclose(found[key], expected[key], rtol, atol)


@every_configuration
def test_keras_file(model, x, tmp_path):
    path = tmp_path / "model.keras"
    model.save(path)
    loaded = keras.saving.load_model(path, safe_mode=True)
    assert type(loaded) is tfpn.models.PNCNN
    assert json.dumps(loaded.get_config()) == json.dumps(model.get_config())
    assert [weight.path for weight in loaded.weights] == [weight.path for weight in model.weights]
    assert_equal(loaded(x), model(x))


@every_configuration
def test_weights_file_and_copies(model, x, configuration, tmp_path):
    expected = model(x)
    path = tmp_path / "model.weights.h5"
    model.save_weights(path)
    other = small(**configuration)
    other.load_weights(path)
    assert_equal(other(x), expected)
    copy = type(model).from_config(model.get_config())
    copy.set_weights(model.get_weights())
    assert_equal(copy(x), expected)


@pytest.mark.parametrize("configuration", EXPORTED.values(), ids=EXPORTED.keys())
def test_export_takes_any_batch_and_number_of_points(model, configuration, tmp_path):
    model.export(tmp_path / "exported", verbose=False)
    exported = tf.saved_model.load(tmp_path / "exported")
    for examples, points in ((5, 7), (3, 11)):
        x = batch_for(configuration, examples=examples, points=points)
        # Float32 and another order of operations; condition numbers up to 1e4.
        tolerance = 1e-10 if configuration.get("dtype") == "float64" else 2e-3
        found = exported.serve({key: tf.constant(value) for key, value in x.items()})
        assert_equal(found, model(x), rtol=tolerance, atol=tolerance)


def test_configuration_holds_every_argument():
    other = {
        "num_classes": None,
        "num_outputs": 2,
        "channels": 3,
        "num_blocks": 1,
        "num_basis": 2,
        "spatial_dim": 1,
        "in_channels": 2,
        "uncertainty": "none",
        "rank": 3,
        "num_samples": 3,
        "num_training_samples": 2,
        "num_waves": 16,
        "query": 4,
        "variance_estimator": "stochastic",
        "num_probes": 5,
        "seed": 3,
        "activation": "gelu",
        "normalization": False,
        "kernel": "matern32",
        "spacing": 0.3,
        "length_per_spacing": 0.7,
        "input_noise": "channel",
        "conditioning": "local",
        "block_size": 40,
        "neighbors": 60,
        "observation_noise": None,
        "feature_noise": None,
        "marginal_likelihood_weight": 0.25,
        "pooling": [0.0, 2.0],
        "dtype": "float64",
        "name": "given",
        "trainable": False,
    }
    parameters = inspect.signature(tfpn.models.PNCNN.__init__).parameters
    # What others exclude: options of fields are in test_fields.py, common_points has its own file.
    excluded = {
        "common_points": False,
        "output": "pooled",
        "ard": False,
        "trend": "constant",
        "amplitude": "shared",
        "kriging_kernel": None,
    }
    assert other.keys() == parameters.keys() - {"self", *excluded}
    for name, value in other.items():
        assert value != parameters[name].default, f"{name} was not changed"
    model = tfpn.models.PNCNN(**other)
    config = json.loads(json.dumps(model.get_config()))
    assert config == other | excluded
    rebuilt = tfpn.models.PNCNN.from_config({**config, **GONE})
    assert rebuilt.get_config() == config
    with pytest.raises(TypeError, match="probes"):
        tfpn.models.PNCNN.from_config({**config, "probes": "gaussian"})
    assert rebuilt.trainable_weights == [] and rebuilt.name == "given"
    assert [w.shape for w in rebuilt.weights] == [w.shape for w in model.weights]


def test_reloading_does_not_depend_on_the_global_policy(tmp_path):
    x = make_batch(np.float64)
    before = keras.config.dtype_policy()
    try:
        keras.config.set_dtype_policy("float64")
        model = small(num_blocks=1)
    finally:
        keras.config.set_dtype_policy(before)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_equal(loaded(x), model(x))
    assert loaded(x).dtype == tf.float64


def test_training_continues_as_if_uninterrupted(tmp_path):
    x, y = make_batch(), np.arange(5) % 3

    def compiled():
        keras.utils.set_random_seed(0)
        model = small(num_blocks=1)
        model.compile(
            keras.optimizers.Adam(1e-2),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            run_eagerly=True,
        )
        return model

    fit = {"batch_size": 3, "shuffle": False, "verbose": 0}
    straight = compiled()
    straight.fit(x, y, epochs=2, **fit)
    first = compiled()
    first.fit(x, y, epochs=1, **fit)
    first.save(tmp_path / "model.keras")
    resumed = keras.saving.load_model(tmp_path / "model.keras")
    assert resumed.run_eagerly
    resumed.fit(x, y, epochs=1, **fit)
    assert int(resumed.optimizer.iterations) == 4
    for found, expected in zip(resumed.weights, straight.weights, strict=True):
        # The same operations in float32; reading the file back changes nothing.
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=found.path)
