"""What users of Keras are used to doing works with the models."""

import copy
import io

import keras
import numpy as np
import pytest
import tensorflow as tf
from habits_support import CLOSE, LOSS

import tfpn

FROZEN = ("conv_1", "mix_1", "norm_1")


def make(examples=8, points=6, seed=0):
    rng = np.random.default_rng(seed)
    x = tfpn.observations(
        rng.uniform(size=(examples, points, 1)), rng.normal(size=(examples, points)), 0.04
    )
    return {key: array.astype("float32") for key, array in x.items()}, np.arange(examples) % 2


@pytest.fixture(scope="module")
def tuned():
    """A model of two blocks, the first one frozen, compiled; its data; its weights before."""
    keras.utils.set_random_seed(0)
    x, y = make()
    model = tfpn.models.PNCNN(2, channels=3, num_blocks=2, num_basis=2, spatial_dim=1)
    model.adapt(x)
    # Of other readings: the running averages are neither their start values nor those of x.
    model({**x, "values": 2.0 * x["values"]}, training=True)
    for name in FROZEN:
        model.get_layer(name).trainable = False
    model.compile(keras.optimizers.SGD(0.1), LOSS, jit_compile=False)
    return model, x, y, model.get_weights()


def cross_entropies(logits, y):
    logits = np.asarray(logits, np.float64)
    return np.log(np.exp(logits).sum(-1)) - logits[np.arange(len(y)), y]


def one_step(model, x, y, **options):
    """A step on all examples by Keras's fit; returns the task's part of the loss."""
    options = {"sample_weight": np.ones(len(y), "float32")} | options  # one trace serves all
    history = model.fit(x, y, batch_size=len(y), epochs=1, shuffle=False, verbose=0, **options)
    return history.history["task_loss"][0]


class TestTraining:
    def test_sample_and_class_weights(self, tuned):
        model, x, y, start = tuned
        model.set_weights(start)
        losses = cross_entropies(model(x, training=True), y)
        weights = np.linspace(0.0, 2.0, len(y)).astype("float32")
        found = one_step(model, x, y, sample_weight=weights)
        assert found == pytest.approx(np.mean(weights * losses), rel=1e-4)  # float32
        losses = cross_entropies(model(x, training=True), y)
        by_class = np.where(y == 1, 3.0, 0.5)
        found = one_step(model, x, y, sample_weight=None, class_weight={0: 0.5, 1: 3.0})
        assert found == pytest.approx(np.mean(by_class * losses), rel=1e-4)
        assert abs(found - losses.mean()) > 0.05

    def test_frozen_layers_stay_and_the_others_learn(self, tuned):
        model, x, y, start = tuned
        model.set_weights(start)
        one_step(model, x, y)
        before = dict(zip([weight.path for weight in model.weights], start, strict=True))
        assert not np.all(before["norm_1/moving_mean"] == 0.0)  # it had learned something
        moved = {w.path for w in model.weights if np.any(before[w.path] != w.numpy())}
        assert not {path.split("/")[0] for path in moved} & set(FROZEN)
        assert {"norm_2/moving_mean", "conv_2/drift", "head/kernel"} <= moved

    def test_frozen_layers_stay_frozen_in_a_file(self, tuned, tmp_path):
        model = tuned[0]
        model.save(tmp_path / "tuned.keras")
        loaded = keras.models.load_model(tmp_path / "tuned.keras")
        for again in (loaded, copy.deepcopy(model)):
            assert [layer.name for layer in again.layers if not layer.trainable] == list(FROZEN)
        assert loaded.optimizer.variables and len(loaded.trainable_weights) == len(
            model.trainable_weights
        )
        for found, expected in zip(
            loaded.optimizer.variables, model.optimizer.variables, strict=True
        ):
            np.testing.assert_array_equal(found.numpy(), expected.numpy())
        with pytest.raises(ValueError, match="filepath must end in .keras"):
            model.save(tmp_path / "tuned.h5")

    def test_a_training_loop_of_ones_own(self, tuned):
        model, x, y, start = tuned
        model.set_weights(start)
        one_step(model, x, y)
        by_fit = model.get_weights()
        model.set_weights(start)
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            # model.losses: each layer's marginal likelihood, times its weight
            loss = LOSS(y, logits) + sum(model.losses)
        assert len(model.losses) == len(model.pn_layers) == 3
        assert abs(float(loss) - cross_entropies(logits, y).mean()) > 1e-4
        gradients = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
        keras.optimizers.SGD(0.1).apply(gradients, model.trainable_weights)
        for weight, expected in zip(model.weights, by_fit, strict=True):
            if weight.name != "readings":  # of which fit takes note
                np.testing.assert_allclose(weight.numpy(), expected, **CLOSE)

    def test_generators_and_pydatasets(self, tuned):
        model, x, y, start = tuned
        model.set_weights(start)
        expected = np.mean(cross_entropies(model(x), y))
        parts = [slice(0, 5), slice(5, 8)]
        batches = [({key: array[part] for key, array in x.items()}, y[part]) for part in parts]

        class Batches(keras.utils.PyDataset):
            def __len__(self):
                return len(batches)

            def __getitem__(self, index):
                return batches[index]

        for data in (Batches(), (batch for batch in batches)):
            logs = model.evaluate(data, steps=2, verbose=0, return_dict=True)
            assert logs["task_loss"] == pytest.approx(expected, rel=1e-4)  # float32

    def test_frozen_steerable_normalization(self):
        x, _ = make()
        x["points"] = np.repeat(x["points"], 2, axis=-1)
        layer = tfpn.layers.SteerableNormalization({0: 1})
        layer(x, training=True)
        before = layer.get_weights()
        layer.trainable = False
        frozen = layer({**x, "values": 3.0 * x["values"] + 1.0}, training=True)
        plain = layer({**x, "values": 3.0 * x["values"] + 1.0})
        np.testing.assert_array_equal(frozen["values"], plain["values"])
        for found, expected in zip(layer.get_weights(), before, strict=True):
            np.testing.assert_array_equal(found, expected)


class TestLooking:
    def test_summary(self, tuned):
        model = tuned[0]
        stream = io.StringIO()
        model.summary(print_fn=lambda line: stream.write(line + "\n"))
        lines = stream.getvalue().splitlines()
        assert max(map(len, lines)) <= 100
        # K basis operators, d = 1: kernel, bias, drifts, diffusions, two units, two of the prior
        # and noise
        convolution = {"conv_1": 2 * 1 * 3 + 3 + 2 + 2 + 5, "conv_2": 2 * 3 * 3 + 3 + 2 + 2 + 5}
        for name, kind, parameters in (
            *((name, "PNConv", count) for name, count in convolution.items()),
            ("relu_1", "ProbReLU", 0),
            ("mix_2", "ChannelMix", 3 * 3 + 3),
            ("head", "Dense", 3 * 2 + 2),
        ):
            (line,) = (line for line in lines if f" {name} " in line)
            assert kind in line and f" {parameters} " in line
        # The first block is frozen, and so are units; a normalisation trains two numbers a channel,
        # the pooling 3.
        trainable = convolution["conv_2"] - 2 + 12 + 2 * 3 + 3 + 8
        assert any(f"Trainable params: {trainable} " in line for line in lines)

    def test_diagram(self, tuned):
        dot = keras.utils.model_to_dot(tuned[0], show_shapes=True, show_layer_names=True)
        nodes = [node.get_label() for node in dot.get_nodes() if node.get_label()]
        (convolution,) = (label for label in nodes if "conv_2" in label)
        assert "PNConv" in convolution and "(None, None, 3)" in convolution
        assert len(nodes) == len(tuned[0].layers) and len(dot.get_edges()) >= len(nodes) - 3

    def test_features_by_a_sub_model(self, tuned):
        model, x, _, start = tuned
        model.set_weights(start)
        extractor = keras.Model(model.inputs_dict, model.get_layer("conv_2").output)
        points, values, variance = extractor(x)
        np.testing.assert_array_equal(points, x["points"])
        # The same as a process, jointly over the points in float64.
        process = model.feature_process(x, "conv_2", x["points"])
        close = {"rtol": 1e-3, "atol": 1e-3}  # float32 against float64
        np.testing.assert_allclose(values, np.swapaxes(process.mean(), 1, 2), **close)
        np.testing.assert_allclose(variance, np.swapaxes(process.variance(), 1, 2), **close)
        assert np.asarray(variance).max() > 0.05
