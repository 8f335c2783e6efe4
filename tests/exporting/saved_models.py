"""The models and layers that every way of storing and copying is held to, and those ways."""

import keras
import numpy as np
import tensorflow as tf
from layer_harness import CASES, perturb

import tfpn

SMALL = {"channels": 3, "num_blocks": 1, "num_basis": 2}


def inputs_of(x):
    return {
        key: keras.Input((None, v.shape[-1]), name=key, dtype="float32") for key, v in x.items()
    }


def data(examples=3, points=6, channels=2, dim=2, **more):
    """Float32 observations: complete, with padding, without any observation."""
    rng = np.random.default_rng(points)
    variance = rng.uniform(0.01, 0.1, size=(examples, points, channels))
    variance[1, points // 2 :] = np.inf
    variance[2] = np.inf
    x = {
        "points": rng.uniform(size=(examples, points, dim)),
        "values": rng.normal(size=(examples, points, channels)),
        "variance": variance,
        **more,
    }
    return {key: value.astype("float32") for key, value in x.items()}


def partly_seen(x):
    """Beside the variance another one, of points observed in some channels only."""
    sporadic = x["variance"].copy()
    sporadic[0, 1, 0] = sporadic[0, 2, -1] = np.inf
    return {**x, "partly_seen": sporadic}


def layers_model(names):
    """A user's own functional model: one layer of each case beside the others."""
    x = inputs_of(partly_seen(data()))
    outputs = {}
    for name in names:
        case = CASES[name]
        variance = x["partly_seen" if case.sporadic else "variance"]
        given = {"points": x["points"], "values": x["values"], "variance": variance}
        for key, tensor in case.make("float32", name=name)(given).items():
            outputs[f"{name}_{key}"] = keras.layers.Identity(name=f"{name}_{key}")(tensor)
    return keras.Model(x, outputs)


def _regressor():
    return tfpn.models.PNCNN(
        num_classes=None, num_outputs=2, in_channels=2, pooling=(0.0, 1.0), **SMALL
    )


def _nested():
    """A model of ours inside another, with a head of the user's."""
    x = inputs_of(data())
    # Less to trace than the regressor by itself.
    inner = tfpn.models.PNCNN(
        None, num_outputs=2, in_channels=2, pooling=(0.0, 1.0), uncertainty="none",
        marginal_likelihood_weight=0.0, **SMALL,
    )  # fmt: skip
    return keras.Model(x, keras.layers.Dense(2, name="own")(inner(x)))


def _time_series():
    return tfpn.models.PNTimeSeries(
        2, in_channels=2, pooling=(0.0, 1.0), query=3, missingness="counts", **SMALL
    )


def _steerable():
    return tfpn.models.SteerablePNCNN(
        None, in_fields={1: 1}, out_fields={1: 1}, copies=1, num_blocks=1, num_basis=1,
        frequencies=(0, 1), spacing=0.3,
    )  # fmt: skip


MODELS = {  # how it is made, and its input for a number of points
    "layers": (lambda: layers_model(CASES), lambda **size: partly_seen(data(**size))),
    "other layers": (  # those that no model below holds
        lambda: layers_model(["pool_disc", "gated_relu", "steerable_mix", "steerable_norm"]),
        lambda **size: partly_seen(data(**size)),
    ),
    "regressor": (_regressor, data),
    "nested": (_nested, data),
    "time series": (_time_series, lambda **size: data(dim=1, **size)),
    "steerable": (_steerable, lambda **size: data(query=np.full((3, 4, 2), 0.4), **size)),
}


def made(name):
    """A model with every weight off its initial value, also those that are not trained."""
    keras.utils.set_random_seed(0)
    model = MODELS[name][0]()
    perturb(model)
    return model


def _from_file(model, name, folder):
    model.save(folder / "model.keras")
    return keras.saving.load_model(folder / "model.keras", safe_mode=True)


def _from_weights_file(model, name, folder):
    model.save_weights(folder / "model.weights.h5")
    other = MODELS[name][0]()
    other.load_weights(folder / "model.weights.h5")
    return other


def _from_configuration(model, name, folder):
    other = type(model).from_config(model.get_config())
    other.set_weights(model.get_weights())
    return other


COPIES = {
    "keras file": _from_file,
    "weights file": _from_weights_file,
    "configuration": _from_configuration,
}


def assert_same(found, expected, rtol=0.0, atol=0.0):
    """Compares outputs; infinities must be at the same entries."""
    if not isinstance(expected, dict):
        found, expected = {"output": found}, {"output": expected}
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(
            np.asarray(found[key]), np.asarray(value), rtol, atol, err_msg=key
        )


def tensors(x):
    return {key: tf.constant(value) for key, value in x.items()}
