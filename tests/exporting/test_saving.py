"""Every layer and model comes back from every file and copy, and from SavedModels, the same."""

import copy
import json
import subprocess
import sys
import zipfile

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
from saved_models import COPIES, MODELS, assert_same, made, tensors

import tfpn
from tfpn import _registration

COPIED = ("layers", "regressor", "nested", "time series", "steerable")
# Tracing takes seconds, so each layer once; tests/models exports a PNCNN.
EXPORTED = ("other layers", "time series", "steerable")


@pytest.fixture(scope="module", params=COPIED)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def model(name):
    return made(name)


@pytest.fixture(scope="module")
def expected(model, name):
    return model(tensors(MODELS[name][1]()))


@pytest.mark.parametrize("route", COPIES.values(), ids=COPIES.keys())
def test_copies_compute_the_same(model, name, expected, route, tmp_path):
    again = route(model, name, tmp_path)
    assert type(again) is type(model)
    assert [weight.name for weight in again.weights] == [weight.name for weight in model.weights]
    # Calibration, which no output depends on, and the statistics of normalisations, too.
    for found, weight in zip(again.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(found, weight)
    assert_same(again(tensors(MODELS[name][1]())), expected)


def test_copies_compute_the_same_and_clones_are_refused(model, name, expected):
    """Keras would clone a model's layers into a plain functional model, without its calibration."""
    x = tensors(MODELS[name][1]())
    if type(model).__module__.startswith("tfpn"):
        with pytest.raises(TypeError, match="would make a plain functional.*: take copy.deepcopy"):
            keras.models.clone_model(model)
    else:  # a functional model of layers, or of a model
        clone = keras.models.clone_model(model)
        clone.set_weights(model.get_weights())
        assert_same(clone(x), expected)
    again = copy.deepcopy(model)
    assert type(again) is type(model)
    assert_same(again(x), expected)


@pytest.mark.parametrize("name", EXPORTED, indirect=True)
def test_saved_model_leaves_examples_and_points_free(name, model, tmp_path):
    model.export(tmp_path / "served", verbose=False)
    signature = tf.saved_model.load(tmp_path / "served").signatures["serving_default"]
    _, given = signature.structured_input_signature
    for points in (6, 9):
        x = MODELS[name][1](points=points)
        assert {key: spec.shape.as_list() for key, spec in given.items()} == {
            key: [None, None, array.shape[-1]] for key, array in x.items()
        }
        output = model(tensors(x))
        output = output if isinstance(output, dict) else {"output_0": output}
        # float32, another order of operations, condition numbers up to 1e4
        tolerance = 1e-4 if "steerable" in name else 2e-3
        assert_same(signature(**tensors(x)), output, rtol=tolerance, atol=tolerance)


def test_files_hold_neither_code_nor_pickles(model, tmp_path):
    model.save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as archive:
        assert set(archive.namelist()) == {"metadata.json", "config.json", "model.weights.h5"}
        config = archive.read("config.json").decode()
        archive.extract("model.weights.h5", tmp_path)
    json.loads(config)
    assert "__lambda__" not in config
    kinds = set()
    with h5py.File(tmp_path / "model.weights.h5") as file:
        file.visititems(
            lambda _, item: kinds.add(item.dtype.kind) if hasattr(item, "dtype") else None
        )
    assert kinds <= set("fiu") and "f" in kinds


def test_import_tfpn_is_enough_to_load(tmp_path):
    """In a new process, where tfpn is imported before Keras and loads nothing of it."""
    model = made("regressor")
    x = MODELS["regressor"][1]()
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    model.optimizer.iterations.assign(1)
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "x.npz", **x)
    code = (
        "import sys, tfpn\n"
        "assert 'keras' not in sys.modules and 'tensorflow' not in sys.modules\n"
        "import keras, numpy as np\n"
        "assert 'tfpn.models' not in sys.modules\n"
        "model = keras.models.load_model('model.keras', safe_mode=True)\n"
        "assert model.optimizer.iterations == 1\n"
        "np.save('y.npy', model(dict(np.load('x.npz'))))\n"
        "print(type(model).__module__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split()[-1] == "tfpn.models.pncnn"
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), model(x), rtol=1e-5, atol=1e-5)


def test_the_first_name_of_the_time_series_model_still_loads():
    assert tfpn.models.PNTimeSeriesClassifier is tfpn.models.PNTimeSeries
    model = tfpn.models.PNTimeSeries(2, channels=2, num_blocks=1, spacing=0.2)
    saved = keras.saving.serialize_keras_object(model)
    saved |= {
        "class_name": "PNTimeSeriesClassifier",
        "registered_name": "tfpn>PNTimeSeriesClassifier",
    }
    loaded = keras.saving.deserialize_keras_object(saved)
    assert type(loaded) is tfpn.models.PNTimeSeries and loaded.get_config() == model.get_config()


def test_all_classes_are_known_to_keras_after_import_tfpn(monkeypatch):
    """Where Keras was imported first; a class that was imported is not replaced."""
    names = {(m, n) for m in ("tfpn.layers", "tfpn.models") for n in getattr(
        tfpn, m.removeprefix("tfpn.")).__all__}  # fmt: skip
    others = {("tfpn.metrics", "BinaryAUC")}
    others |= {("tfpn.losses", name) for name in ("CRPS", "GaussianNLL", "SquaredError")}
    assert names | others == {
        (module, name) for module, names in _registration.MODULES.items() for name in names
    }
    known = keras.saving.get_custom_objects()
    registered = {key for key in known if key.startswith("tfpn>")}
    assert registered == {f"tfpn>{n}" for names in _registration.MODULES.values() for n in names}
    layer = tfpn.layers.ProbReLU(name="given")
    monkeypatch.delitem(known, "tfpn>ProbReLU")
    saved = keras.saving.serialize_keras_object(layer)
    with pytest.raises(TypeError, match="Could not locate class 'ProbReLU'"):
        keras.saving.deserialize_keras_object(saved)
    _registration.register()
    assert type(keras.saving.deserialize_keras_object(saved)) is tfpn.layers.ProbReLU
    assert known["tfpn>PNConv"] is tfpn.layers.PNConv
