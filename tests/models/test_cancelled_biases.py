"""Biases whose gradient is zero: a normalisation takes constants away, and Adam is not to step."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfpn

SMALL = {"num_blocks": 1, "num_basis": 1, "dtype": "float64"}
PLANAR = {"num_outputs": 2, "channels": 2, "pooling": (0.0, 1.0), **SMALL}
SERIES = {"num_outputs": 1, "channels": 2, "query": 3, "missingness": "intensity", **SMALL}
FIELDS = {"out_fields": {0: 1, 1: 1}, "copies": 1, "frequencies": (0, 1), "seed": 0, **SMALL}
KINDS = {
    "planar": tfpn.models.PNCNN,
    "series": tfpn.models.PNTimeSeries,
    "fields": tfpn.models.SteerablePNCNN,
}
# Of each model the biases that cancel.
CASES = [
    ("planar", PLANAR, ["mix_1/bias"]),
    ("planar", {**PLANAR, "activation": "linear"}, ["conv_1/bias", "mix_1/bias"]),
    ("planar", {**PLANAR, "normalization": False}, []),
    ("series", SERIES, ["mix_1/bias"]),
    (
        "series",
        {**SERIES, "activation": {"negative_slope": 1.0}},
        ["conv_1/bias", "conv_readings/bias", "mix_1/bias"],
    ),
    ("fields", FIELDS, ["mix_1/bias"]),
    ("fields", {**FIELDS, "normalization": False}, []),
]


def problem(kind):
    rng = np.random.default_rng(0)
    x = tfpn.observations(rng.uniform(size=(6, 8, 1 if kind == "series" else 2)), np.zeros((6, 8)))
    x["values"] = rng.normal(size=x["values"].shape)
    shape = {"planar": (6, 2), "series": (6, 1), "fields": (6, 4, 3)}[kind]
    if kind == "fields":
        x["query"] = rng.uniform(size=(6, 4, 2))
    return x, rng.normal(size=shape)


@pytest.mark.parametrize(("kind", "arguments", "cancelled"), CASES)
def test_biases_that_cancel_are_not_trained_and_all_others_are(kind, arguments, cancelled):
    x, y = problem(kind)
    keras.utils.set_random_seed(0)
    model = KINDS[kind](None, **arguments)
    model = KINDS[kind].from_config(model.get_config())
    model.trainable = False
    model.trainable = True
    weights = {weight.path: weight for weight in model.trainable_weights if weight.name == "bias"}
    before = {path: weight.numpy() + 0.1 for path, weight in weights.items()}
    for path, weight in weights.items():
        weight.assign(before[path])
    model.compile(keras.optimizers.Adam(0.1), "mse")
    model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(6), verbose=0)
    moved = {path: np.abs(weight - before[path]).min() for path, weight in weights.items()}
    still = sorted(path for path, step in moved.items() if step == 0.0)
    assert still == sorted(cancelled)
    # Adam's first step is the learning rate, where the gradient is more than its epsilon of 1e-7.
    assert all(step > 0.09 for path, step in moved.items() if path not in still)


def test_the_unit_of_targets_does_not_matter_in_float32():
    x, y = problem("planar")
    x, predicted = {key: value.astype("float32") for key, value in x.items()}, []
    for scale in (1.0, -5e4):
        keras.utils.set_random_seed(0)
        model = tfpn.models.PNCNN(None, **{**PLANAR, "dtype": "float32"})
        model.adapt(x, scale * y)
        model.compile(keras.optimizers.Adam(0.1), "mse")
        for _ in range(3):
            model.train_on_batch(x, scale * y)
        predicted.append(model.predict_on_batch(x) / scale)
    # Float32's rounding; with mix's bias trained the outputs of order 1 move by 1e-2.
    np.testing.assert_allclose(*predicted, atol=1e-4)
