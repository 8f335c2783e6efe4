"""Layers and models under generated input, most of it odd.

Each is answered rightly or refused by a ValueError or TypeError, or by a
tf.errors.InvalidArgumentError where the docstring has it: no crash, no hang, no NaN that was not
handed in. See `generated` for how to run more cases.
"""

import functools

import numpy as np
import tensorflow as tf
from generated import (
    REFUSED,
    answer,
    anything,
    arrays,
    floats,
    fuzz,
    observations,
    odd_prior,
)
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tfpn
from tfpn import layers

LAYERS = {
    "conv": layers.PNConv(2, 3, spacing=0.5),
    "channel": layers.PNConv(2, 3, spacing=0.5, noise="channel"),
    "relu": layers.ProbReLU(),
    "mix": layers.ChannelMix(3),
    "norm": layers.GPNormalization(),
    "space": layers.IntegralPooling(spacing=0.5),
    "box": layers.IntegralPooling(spacing=0.5, box=(0.0, 1.0)),
    "gate": layers.GatedReLU(fields={0: 2}),
}


@fuzz(40, name=st.sampled_from(sorted(LAYERS)), x=observations("float32", dim=2, channels=2))
def test_layers(name, x):
    output = LAYERS[name](x)
    assert np.isfinite(output["values"]).all()
    variance = output["variance"].numpy()
    assert (variance >= 0).all()
    if "points" in output:
        np.testing.assert_array_equal(np.isinf(variance[..., 0]), np.isinf(x["variance"][..., 0]))
    order = np.random.default_rng(1).permutation(x["points"].shape[1])
    other = LAYERS[name]({key: value[:, order] for key, value in x.items()})
    expected = output["values"].numpy()
    if "points" in output:
        expected = expected[:, order]
    size = 1.0 + np.abs(np.where(np.isfinite(x["variance"]), x["values"], 0.0)).max()
    np.testing.assert_allclose(other["values"], expected, atol=0.2 * size)


@fuzz(
    60,
    name=st.sampled_from(sorted(LAYERS)),
    x=observations("float32", dim=2, channels=2),
    key=st.sampled_from(["points", "values", "variance", "other"]),
    wrong=anything | odd_prior | arrays(hnp.array_shapes(max_dims=4, max_side=3), floats(0, 1)),
    place=st.booleans(),
)
def test_layers_with_wrong_input(name, x, key, wrong, place):
    if place and key in x and isinstance(wrong, float):
        x[key][0, 0, 0] = wrong
    else:
        x = {**x, key: wrong}
    seen = np.isfinite(np.asarray(x["variance"])) if np.ndim(x["variance"]) == 3 else None
    output = answer(LAYERS[name], x, refusals=(*REFUSED, tf.errors.InvalidArgumentError))
    if output is None:
        return
    assert not np.isnan(output["values"]).any() and not np.isnan(output["variance"]).any()
    # What is left was no mistake, or not observed, or no business of the layer.
    if key == "values" and seen is not None and np.ndim(wrong) == 0:
        assert np.isfinite(np.asarray(x["values"])[seen & seen.all(-1, keepdims=True)]).all()


@functools.cache
def model(name):
    small = {"num_classes": 2, "num_blocks": 1, "spacing": 0.5}
    if name == "SteerablePNCNN":
        return tfpn.models.SteerablePNCNN(copies=1, frequencies=(0, 1), num_basis=1, **small)
    small |= {"channels": 2, "num_basis": 2}
    if name == "PNCNN":
        return tfpn.models.PNCNN(**small)
    return tfpn.models.PNTimeSeries(in_channels=1, query=3, **small)


@fuzz(
    45,
    name=st.sampled_from(["PNCNN", "PNTimeSeries", "SteerablePNCNN"]),
    points=arrays((2, 3, 2), floats(-2, 2) | floats(odd=True)) | arrays((2, 3, 2), floats(-2, 2)),
    values=arrays((2, 3, 1), floats(-9, 9) | floats(odd=True)) | arrays((2, 3, 1), floats(-9, 9)),
    variance=arrays((2, 3, 1), floats(0, 1) | floats(odd=True)) | arrays((2, 3, 1), floats(0, 1)),
)
def test_predict(name, points, values, variance):
    if name == "PNTimeSeries":
        points = points[..., :1]
    x = {"points": points, "values": values, "variance": variance}
    refusals = (*REFUSED, tf.errors.InvalidArgumentError)
    found = answer(model(name).predict, x, verbose=0, refusals=refusals)
    if found is None:
        with np.errstate(all="ignore"):
            ordinary = all(np.abs(np.nan_to_num(a, nan=np.inf)).max() < 1e6 for a in x.values())
        assert not ordinary or (variance < 0).any()
        return
    assert found.shape == (2, 2) and np.isfinite(found).all()
