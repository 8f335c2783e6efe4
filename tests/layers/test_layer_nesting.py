"""Layers inside of models of every kind: Sequential, functional, subclassed, wrapped, nested."""

import keras
import numpy as np
import tensorflow as tf
from layer_harness import assert_same, every_layer, make_input

from tfpn import layers, models


def inputs_of(x):
    return {key: keras.Input(v.shape[1:], dtype=v.dtype, name=key) for key, v in x.items()}


def functional(layer, x):
    inputs = inputs_of(x)
    return keras.Model(inputs, layer(inputs))


class Subclassed(keras.Model):
    """A model of one layer, in the way of the Keras guide."""

    def __init__(self, layer):
        super().__init__(dtype=layer.dtype_policy)
        self.layer = layer

    def call(self, x, training=None):
        return self.layer(x, training=training)


class EachStep(keras.layers.Wrapper):
    """`keras.layers.TimeDistributed` for dicts: the layer at each place of the second axis."""

    @staticmethod
    def _child(shapes):
        return {key: (shape[0], *shape[2:]) for key, shape in shapes.items()}

    def build(self, shapes):
        super().build(self._child(shapes))

    def call(self, x, training=None):
        steps = range(next(iter(x.values())).shape[1])
        each = [
            self.layer.call({key: v[:, step] for key, v in x.items()}, training=training)
            for step in steps
        ]
        return {key: tf.stack([output[key] for output in each], axis=1) for key in each[0]}

    def compute_output_spec(self, x, training=None):
        steps = next(iter(x.values())).shape[1]
        shapes = self.layer.compute_output_shape(
            self._child({key: tensor.shape for key, tensor in x.items()})
        )
        return {
            key: keras.KerasTensor((shape[0], steps, *shape[1:]), dtype=self.compute_dtype)
            for key, shape in shapes.items()
        }


NESTINGS = {
    "sequential": lambda layer, x: keras.Sequential([layer]),
    "sequential_in_functional": lambda layer, x: functional(keras.Sequential([layer]), x),
    "sequential_in_sequential": lambda layer, x: functional(
        keras.Sequential([keras.Sequential([layer])]), x
    ),
    "functional": functional,
    "functional_in_functional": lambda layer, x: functional(functional(layer, x), x),
    "functional_in_sequential": lambda layer, x: keras.Sequential([functional(layer, x)]),
    "subclassed": lambda layer, x: Subclassed(layer),
    "subclassed_in_functional": lambda layer, x: functional(Subclassed(layer), x),
}


@every_layer
def test_every_nesting_computes_what_the_layer_does(case):
    # In float32: a Sequential reads its input in Keras's own float type.
    x = make_input(case.sporadic, np.float32)
    layer, alone = case.built(x, "float32"), case.built(x, "float32")
    weights = layer.get_weights()
    alone.set_weights(weights)
    expected, trained = alone(x), alone(x, training=True)
    for name, nest in NESTINGS.items():
        model = nest(layer, x)
        assert_same(model(x), expected, rtol=0, name=name)
        assert_same(model(x, training=True), trained, rtol=0, name=name)
        layer.set_weights(weights)  # a normalisation's averages have moved


@every_layer
def test_a_wrapper_that_applies_the_layer_at_each_step(case):
    first, second = make_input(case.sporadic), make_input(case.sporadic, seed=1)
    x = {key: np.stack([first[key], second[key]], axis=1) for key in first}
    layer = case.make()
    wrapper = EachStep(layer, dtype="float64", autocast=False)
    model = functional(wrapper, x)
    found = model(x)
    assert {key: tuple(v.shape) for key, v in found.items()} == {
        key: (3, *spec.shape[1:]) for key, spec in model.output.items()
    }
    for step, observations in enumerate((first, second)):
        expected = layer(observations)
        assert_same({key: v[:, step] for key, v in found.items()}, expected, rtol=1e-12)


@every_layer
def test_output_shape_is_that_of_the_output(case):
    x = make_input(case.sporadic)
    found = case.make().compute_output_shape({key: v.shape for key, v in x.items()})
    assert found == {key: tuple(v.shape) for key, v in case.make()(x).items()}


def test_a_nested_sequential_trains_and_is_saved(tmp_path):
    x = make_input(dtype=np.float32)
    stack = [
        layers.ChannelMix(3),
        layers.ProbReLU(),
        layers.GPNormalization(),
        layers.SteerableMix({0: 2, 1: 1}, in_fields={0: 1, 1: 1}),
        layers.GatedReLU({0: 2, 1: 1}),
        layers.SteerableNormalization({0: 2, 1: 1}),
        layers.IntegralPooling(spacing=0.3, box=(0.0, 1.0), marginal_likelihood_weight=0.1),
    ]
    model = functional(keras.Sequential(stack), x)
    model.compile("sgd", {"values": "mse", "variance": None}, run_eagerly=True)  # one step
    history = model.fit(x, {"values": np.zeros((3, 4), np.float32)}, verbose=0).history
    assert history.keys() == {"loss", f"{stack[-1].name}_nll"}
    assert np.isfinite(list(history.values())).all()
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same(loaded(x), model(x), rtol=0)


def test_a_whole_network_is_a_layer_of_another_model():
    x = make_input(dtype=np.float32)
    network = models.PNCNN(2, channels=2, in_channels=2, num_blocks=1, num_basis=2, spacing=0.3)
    expected = network(x)
    for name, nest in NESTINGS.items():
        np.testing.assert_allclose(nest(network, x)(x), expected, rtol=1e-6, err_msg=name)
