"""Layers with draws: what prediction and training promise of them."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_harness import assert_same, make_input, perturb
from tolerance import rounding

import tfpn
from tfpn import layers

# Some hundred roundings, enlarged by the condition of the systems (below 1e3).
EXACT = {"rtol": rounding(300, condition=1e3), "atol": rounding(300, condition=1e3)}
NOISE = {"shared": {}, "channel": {"noise": "channel"},
         "prior": {"noise": "channel", "prior": "channel"}}  # fmt: skip


class Chain(keras.layers.Layer):
    """Two convolutions with all that stands between them, and the pooling."""

    def __init__(self, pooling=None, dtype="float64", **arguments):
        super().__init__(autocast=False, dtype=dtype)
        shared = {"uncertainty": "sampled", "num_waves": 16, "spacing": 0.3, "dtype": dtype}
        shared |= {"num_samples": 3, "observation_noise": 0.1}
        self.chain = [
            layers.PNConv(4, 3, seed=1, **shared, **arguments),
            layers.ProbReLU(dtype=dtype),
            layers.ChannelMix(3, dtype=dtype),
            layers.ProbActivation("softplus", dtype=dtype),
            layers.GPNormalization(dtype=dtype),
            layers.PNConv(2, 3, seed=1, stream=2, **shared),
        ]
        if pooling is not None:
            self.chain.append(
                layers.IntegralPooling(**pooling, spacing=0.3, num_waves=16, stream=3, dtype=dtype)
            )

    def call(self, x, training=False):
        for layer in self.chain:
            x = layer(x, training=training)
        return x


def chain(x, **arguments):
    keras.utils.set_random_seed(1)
    layer = Chain(**arguments)
    layer(x)
    perturb(layer)
    return layer


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE.keys())
def test_predictions_repeat_and_belong_to_their_example(eagerly, noise):
    x = make_input(sporadic=bool(noise))
    layer = chain(x, **noise)
    output = layer(x)
    assert output["draws"].shape == (3, 3, 6, 2)
    assert_same(layer(x), output, rtol=0.0)
    np.testing.assert_allclose(output["values"], np.mean(output["draws"], 1), rtol=1e-12)
    known = np.isfinite(output["variance"])
    spread = np.var(output["draws"], axis=1)
    np.testing.assert_allclose(output["variance"][known], spread[known], rtol=1e-9, atol=1e-12)
    assert np.all(np.where(known, True, output["values"] == 0.0))
    # One example alone, and in another place of the batch.
    alone = layer({key: value[1:2] for key, value in x.items()})
    assert_same(alone, {key: value[1:2] for key, value in output.items()}, **EXACT)
    # More padding, with anything in it.
    more = {
        "points": np.pad(x["points"], [(0, 0), (2, 1), (0, 0)], constant_values=np.nan),
        "values": np.pad(x["values"], [(0, 0), (2, 1), (0, 0)], constant_values=np.nan),
        "variance": np.pad(x["variance"], [(0, 0), (2, 1), (0, 0)], constant_values=np.inf),
    }
    found = layer(more)
    np.testing.assert_allclose(found["draws"][:, :, 2:-1], output["draws"], **EXACT)
    # The points in another order.
    order = np.random.default_rng(1).permutation(6)
    found = layer({key: value[:, order] for key, value in x.items()})
    np.testing.assert_allclose(found["draws"], output["draws"].numpy()[:, :, order], **EXACT)
    # All in another place.
    found = layer({**x, "points": x["points"] + [3.0, -7.0]})
    np.testing.assert_allclose(found["draws"], output["draws"], **EXACT)


def test_readings_of_one_place_may_come_in_any_order(eagerly):
    x = make_input()
    x["points"][0, 1] = x["points"][0, 4]
    layer = chain(x)
    order = [0, 4, 2, 3, 1, 5]
    found, expected = layer({key: value[:, order] for key, value in x.items()}), layer(x)
    np.testing.assert_allclose(found["draws"], expected["draws"].numpy()[:, :, order], **EXACT)


def test_training_draws_are_fresh_and_of_each_example(eagerly):
    x = {key: np.repeat(value[:1], 3, axis=0) for key, value in make_input().items()}
    layer = chain(x)
    first, second = (layer(x, training=True)["draws"].numpy() for _ in range(2))
    assert first.shape == (3, 1, 6, 2)
    assert np.abs(first - second).min() > 0.0
    assert np.abs(first[0] - first[1]).min() > 0.0
    # A seed starts the same ones again.
    again = chain(x)
    np.testing.assert_array_equal(again(x, training=True)["draws"], first)


def test_eager_and_graph_agree():
    x = make_input(True)
    layer = chain(x, pooling={}, **NOISE["channel"])
    expected = layer(x)
    assert expected["draws"].shape == (3, 3, 2)
    signature = {key: tf.TensorSpec([None, None, v.shape[-1]], v.dtype) for key, v in x.items()}
    assert_same(tf.function(layer, input_signature=[signature])(x), expected, **EXACT)


def test_float32_has_the_draws_of_float64(eagerly):
    x = make_input()
    wide = chain(x)
    narrow = chain({key: value.astype("float32") for key, value in x.items()}, dtype="float32")
    narrow.set_weights([np.asarray(weight) for weight in wide.weights])
    # 2e-3 of the features' size: single precision in systems of condition 1e3.
    np.testing.assert_allclose(narrow(x)["draws"], wide(x)["draws"], rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("case, samples", [("together", 3), ("nothing", 1), ("one", 1)])
def test_gradients_are_finite(eagerly, case, samples):
    x = make_input()
    if case == "together":
        x["points"][:] = x["points"][:, :1]
        x["variance"][np.isfinite(x["variance"])] = 0.0
    else:
        x["variance"][:, 0 if case == "nothing" else 1 :] = np.inf
    layer = chain(x, pooling={"box": (0.0, 1.0)})
    for convolution in (layer.chain[0], layer.chain[5]):
        convolution.num_training_samples = samples
    x = {key: tf.constant(value) for key, value in x.items()}
    watched = [x["points"], x["values"], x["variance"]]
    with tf.GradientTape() as tape:
        tape.watch(watched)
        output = layer(x, training=True)
        total = tf.reduce_sum(tf.sin(output["draws"])) + tf.reduce_sum(output["variance"])
    assert output["draws"].shape[1] == samples
    for found in tape.gradient(total, [*watched, *layer.trainable_weights]):
        if found is not None:
            assert np.all(np.isfinite(found))


def test_gradient_through_layers_is_that_of_differences(eagerly):
    """Of prediction, whose draws are a fixed function of the weights, but for the waves' choice.

    Length scales are left out: they choose the frequencies, which are constants for gradients.
    """
    x = make_input()
    layer = chain(x)
    weights = [w for w in layer.trainable_weights if w.name != "log_length_scale"]

    def total():
        return tf.reduce_sum(tf.sin(3.0 * layer(x)["draws"]))

    with tf.GradientTape() as tape:
        value = total()
    found = tape.gradient(value, weights)
    rng = np.random.default_rng(2)
    directions = [rng.normal(size=weight.shape) for weight in weights]
    step, sums = 1e-5, []
    for sign in (1.0, -1.0):
        for weight, direction in zip(weights, directions, strict=True):
            weight.assign_add(sign * step * direction)
        sums.append(float(total()))
        for weight, direction in zip(weights, directions, strict=True):
            weight.assign_add(-sign * step * direction)
    expected = (sums[0] - sums[1]) / (2.0 * step)
    slope = sum(np.sum(g * d) for g, d in zip(found, directions, strict=True))
    np.testing.assert_allclose(slope, expected, rtol=1e-6)


def test_process_of_draws_has_a_variance_between_observations(eagerly):
    x = make_input()
    layer = chain(x)
    features = x
    for part in layer.chain[:5]:
        features = part(features)
    process = layer.chain[5].process(features, x["points"][:, :2])
    assert process.mean().shape == (3, 2, 2)
    exact = layer.chain[0].process(x, x["points"][:, :2])
    diagonal = layers.PNConv(4, 3, spacing=0.3, observation_noise=0.1, dtype="float64")
    diagonal(x)
    weights = layer.chain[0].weights  # the last one is the draws' seed
    diagonal.set_weights([np.asarray(w) for w in weights[: len(diagonal.weights)]])
    np.testing.assert_allclose(
        exact.covariance(), diagonal.process(x, x["points"][:, :2]).covariance(), rtol=1e-9
    )


def test_arguments_are_checked_and_saved():
    for name in ("num_samples", "num_training_samples", "num_waves", "stream"):
        with pytest.raises(ValueError, match=name):
            layers.PNConv(2, uncertainty="sampled", **{name: 0})
    layer = layers.PNConv(2, uncertainty="sampled", num_samples=4, num_waves=7, stream=3, seed=5)
    config = layers.PNConv.from_config(layer.get_config()).get_config()
    assert [config[key] for key in ("num_samples", "num_waves", "stream", "seed")] == [4, 7, 3, 5]
    x = tfpn.observations(np.zeros((1, 2, 1)), np.zeros((1, 2, 1)))
    with pytest.raises(ValueError, match="same uncertainty"):
        layers.PNConv(2)(layers.PNConv(2, uncertainty="sampled", num_waves=4)(x))
