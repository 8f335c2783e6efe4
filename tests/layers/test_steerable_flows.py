"""Layers that `equivariance.keras_source` writes, as the flows of a SteerablePNConv and a model."""

import importlib.util
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_harness import assert_same, gradients, make_input

import tfpn
from equivariance import O2, SO2, solve_generators
from tfpn.layers import SteerablePNConv

FREQUENCIES = (0, 1)
GROUPS = {"SO2": SO2, "O2": O2}


@pytest.fixture(scope="module")
def emitted(tmp_path_factory):
    """The classes of layers for one scalar and one vector, imported from the files they are in."""
    folder, found = tmp_path_factory.mktemp("emitted"), {}
    for name, group in GROUPS.items():
        channels = group.irrep(0) + group.irrep(1)
        source = solve_generators(channels).parameterization().keras_source(f"Flow{name}")
        path = folder / f"flow_{name}.py"
        path.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found[name] = getattr(module, f"Flow{name}")
    return found


def convolution(flows, **changes):
    arguments = {"in_fields": {0: 2}, "frequencies": FREQUENCIES, "spacing": 0.3, **changes}
    return SteerablePNConv({0: 1, 1: 2}, flows=flows, dtype="float64", **arguments)


class Fixed(keras.layers.Layer):
    """A flow that is given by its tensors."""

    def __init__(self, *tensors, **kwargs):
        super().__init__(**kwargs)
        self.tensors = tensors

    def generator(self):
        return self.tensors


def test_flows_are_the_layers_own_generators_in_units_of_the_spacing(emitted):
    """The same generators from a layer of its own parameters, and the same mixing."""
    x = make_input()
    own = SteerablePNConv(
        {0: 1, 1: 2}, in_fields={0: 2}, frequencies=FREQUENCIES, spacing=0.3, seed=1,
        dtype="float64",
    )  # fmt: skip
    expected = own(x)
    c, b, s = (tensor.numpy() for tensor in own.generators())
    flows = [Fixed(c[k], b[k] / 0.3, s[k] / 0.09) for k in range(2)]
    given = convolution(flows)
    given(x)
    for m, kernel in given.kernels.items():
        kernel.assign(own.kernels[m])
    # The same algebra; tensors were divided and multiplied by the spacing.
    assert_same(given(x), expected, rtol=1e-12, atol=1e-12)
    given.set_spacing(0.6)
    for found, tensor, power in zip(given.generators(), (c, b, s), (1, 2, 4), strict=True):
        np.testing.assert_allclose(found, power * tensor, rtol=1e-12, atol=1e-15)
    assert np.exp(given.log_length_scale) == pytest.approx(0.6)


@pytest.mark.parametrize("group", GROUPS)
def test_convolution_commutes_with_rotations_and_reaches_every_weight(emitted, group):
    x = make_input()
    layer = convolution([emitted[group](), emitted[group](dtype="float64")])
    assert tfpn.check_equivariance(layer, x, SO2, n=3).largest < 1e-12
    assert layer.num_basis == 2
    names = [weight.name for weight in layer.trainable_weights]
    assert names.count("factors") == 2 and "log_flow_unit" not in names
    for weight, gradient in zip(layer.trainable_weights, gradients(layer, x)[2:], strict=True):
        assert np.isfinite(gradient).all() and np.any(gradient != 0), weight.path


def test_builds_inside_a_function(emitted):
    layer, x = convolution([emitted["SO2"]()]), make_input()
    assert_same(tf.function(lambda x: layer(x))(x), layer(x), rtol=1e-11, atol=1e-12)


def test_saving_keeps_flows_and_outputs(emitted, tmp_path):
    x = make_input()
    inputs = {key: keras.Input((None, 2), name=key, dtype="float64") for key in x}
    model = keras.Model(inputs, convolution([emitted["SO2"](length=0.7), emitted["O2"]()])(inputs))
    model.layers[-1].set_spacing(0.2)
    expected = model(x)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same(loaded(x), expected, rtol=1e-13)
    first, second = loaded.layers[-1].flows
    assert first.length == 0.7 and type(second) is emitted["O2"]


def test_bad_flows(emitted):
    x = make_input()
    good = emitted["SO2"]

    def raises(message, flows, **changes):
        with pytest.raises(ValueError, match=message):
            convolution(flows, **changes)(x)

    raises(r"flows must be a list of Keras layers .* found \[3\]", [3])
    raises("flows must be a list", [])
    raises("flows must be a list", [keras.layers.Dense(3)])
    raises(r"num_basis=3 and 1 flow\(s\)", [good()], num_basis=3)
    raises(r"flows\[1\] could not be built .* \(0, 1, 2\), 5 channels", [
        Fixed(np.zeros((5, 5)), np.zeros((2, 5, 5)), np.zeros((2, 2, 5, 5))), good()
    ], frequencies=(0, 1, 2))  # fmt: skip
    zeros = [np.zeros(shape) for shape in ((3, 3), (2, 3, 3), (2, 2, 3, 3))]
    raises(r"flows\[0\].generator\(\) must return .* found \[\(3, 3\), \(2, 3, 3\), \(4, 3, 3\)\]",
           [Fixed(*zeros[:2], zeros[2].reshape(4, 3, 3))])  # fmt: skip
    raises("not finite", [Fixed(np.full((3, 3), np.nan), *zeros[1:])])
    for place, index in itertools.product(range(3), [(0, 1), (2, 2)]):
        broken = [tensor.copy() for tensor in zeros]
        broken[place][(0,) * place + index] = 1.0
        raises(r"SteerablePNConv 'conv'.*flows\[0\].generator\(\) does not commute with rotations",
               [Fixed(*broken)], name="conv")  # fmt: skip


def test_a_model_of_copies(emitted, tmp_path):
    """Each flow has weights of its own; trained, saved and loaded it commutes with rotations."""
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x = tfpn.observations(rng.uniform(size=(4, 12, 2)), rng.normal(size=(4, 12)), 0.01)
    prototype = emitted["O2"](length=0.5)
    model = tfpn.models.SteerablePNCNN(
        3, frequencies=FREQUENCIES, flow=prototype, copies=2, num_blocks=1
    )
    model.adapt(x)
    flows = model.get_layer("conv_1").flows
    assert len(flows) == 2 and prototype not in flows and not prototype.built
    assert all(type(flow) is emitted["O2"] and flow.length == 0.5 for flow in flows)
    factors = [flow.factors.numpy() for flow in flows]
    assert np.any(factors[0] != factors[1])
    model.compile(
        keras.optimizers.Adam(1e-2),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        run_eagerly=True,
    )
    model.fit(x, np.array([0, 1, 2, 0]), epochs=1, verbose=0)
    assert all(np.any(flow.factors != old) for flow, old in zip(flows, factors, strict=True))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(x), model(x))
    assert tfpn.check_equivariance(loaded, x, SO2, n=3).largest < 1e-5
    assert loaded.get_config() == model.get_config()


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"flow": 3}, "or a Keras layer with a method generator"),
        ({"in_fields": {2: 1}}, r"in_fields .* has the frequencies \[2\]"),
        ({"num_classes": None, "out_fields": {2: 1}}, r"out_fields .* has the frequencies \[2\]"),
    ],
)
def test_bad_model_arguments(emitted, changes, message):
    arguments = {"num_classes": 3, "frequencies": FREQUENCIES, "flow": emitted["SO2"](), **changes}
    with pytest.raises(ValueError, match=message):
        tfpn.models.SteerablePNCNN(**arguments)
