"""ONNX files compute what the models do, or are refused with the reason."""

import keras
import mpmath
import numpy as np
import onnx
import onnxruntime
import pytest
from layer_harness import perturb
from saved_models import SMALL, assert_same, data, inputs_of, layers_model, partly_seen, tensors

import tfpn
from tfpn.exporting._functions import functions

# Of all layers but fields' convolution; the classifier below has channels seen apart.
EXPORTABLE = [
    *("conv", "relu", "mix", "norm", "pool", "pool_box"),
    *("gated_relu", "steerable_mix", "steerable_norm"),
]


@pytest.fixture(scope="module")
def layers():
    model = layers_model(EXPORTABLE)
    perturb(model)
    return model


def run_onnx(path, x):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, x), strict=True))


def test_onnx_computes_the_same(layers, tmp_path):
    path = tmp_path / "layers.onnx"
    tfpn.exporting.onnx(layers, path)
    for size in ({}, {"examples": 4, "points": 9}):
        x = partly_seen(data(**size))
        expected = {f"output_{key}": value for key, value in layers(tensors(x)).items()}
        # float32, another order of operations, condition numbers up to 1e4
        assert_same(run_onnx(path, x), expected, rtol=2e-3, atol=2e-3)
    graph = onnx.load(path).graph
    sizes = [[d.dim_value for d in i.type.tensor_type.shape.dim][:2] for i in graph.input]
    assert sizes == [[0, 0]] * 4  # 0 is a free one


def test_onnx_of_a_classifier(tmp_path):
    ball = {"centre": (0.5, 0.5, 0.5), "radius": 0.6}
    model = tfpn.models.PNCNN(
        3, in_channels=2, input_noise="channel", spatial_dim=3, pooling=ball, **SMALL
    )
    perturb(model)
    tfpn.exporting.onnx(model, tmp_path / "model.onnx")
    x = data(points=7, dim=3)
    found = run_onnx(tmp_path / "model.onnx", x)["output"]
    np.testing.assert_allclose(found, model(x), rtol=2e-3, atol=2e-3)


def test_onnx_names_what_it_has_not(tmp_path):
    path = tmp_path / "model.onnx"
    with pytest.raises(ValueError, match="operations without an ONNX form.*BesselI0e"):
        tfpn.exporting.onnx(layers_model(["pool_disc"]), path)
    assert not path.exists()


@pytest.mark.parametrize("name", ["Cholesky_double", "SolveLower_double", "Erfc_double"])
def test_functions_in_double_precision(name):
    """Against LAPACK, and mpmath's error function far into the tail."""
    (function,) = (f for f in functions() if f.name == name)
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(2, 3, 5, 5))
    matrix = matrix @ np.swapaxes(matrix, -1, -2) + np.eye(5)
    lower, right = np.linalg.cholesky(matrix), rng.normal(size=(2, 3, 5, 2))
    x = np.array([-30.0, -1.5, -1e-3, 0.0, 0.4, 3.0, 20.0, 26.0])
    inputs, expected = {
        "Cholesky_double": ([matrix], lower),
        "SolveLower_double": ([lower, right], np.linalg.solve(lower, right)),
        "Erfc_double": ([x], np.array([float(mpmath.erfc(value)) for value in x])),
    }[name]
    names = "ab"[: len(inputs)]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(name, list(names), ["y"], domain="tfpn")],
        "one",
        [
            onnx.helper.make_tensor_value_info(key, onnx.TensorProto.DOUBLE, array.shape)
            for key, array in zip(names, inputs, strict=True)
        ],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.DOUBLE, expected.shape)],
    )
    model = onnx.helper.make_model(
        graph, functions=[function], ir_version=8,
        opset_imports=[onnx.helper.make_opsetid(*domain) for domain in (("", 18), ("tfpn", 1))],
    )  # fmt: skip
    found = run_onnx(model.SerializeToString(), dict(zip(names, inputs, strict=True)))["y"]
    # Rounding; erfc(26) is conditioned by its argument's square.
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=0)


def test_models_that_cannot_be_exported(tmp_path):
    path = tmp_path / "model.onnx"
    with pytest.raises(TypeError, match="model: give a Keras model.*found ProbReLU"):
        tfpn.exporting.onnx(tfpn.layers.ProbReLU(), path)
    with pytest.raises(ValueError, match="inputs points, values, variance are not float32"):
        tfpn.exporting.onnx(tfpn.models.PNCNN(2, dtype="float64", **SMALL), path)
    x = inputs_of(data())
    listed = keras.Model([x["points"], x["values"]], x["values"] + 1.0)
    with pytest.raises(ValueError, match="its input is not a dict"):
        tfpn.exporting.onnx(listed, path)
