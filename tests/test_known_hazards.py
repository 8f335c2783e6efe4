"""What broke other libraries for neural networks and Gaussian processes, tried here.

Some of it other tests show already, in the folder tests/:

- gradient of a matrix exponential under XLA, which TensorFlow's own has not:
  math/test_coupled_exponential.py, test_compiles_with_its_gradient
- kernels in half precision that do not exist, layer by layer:
  layers/test_layer_contract.py, test_other_policies_compute_in_float32
- float64 input cast without a word: models/test_inputs.py, test_float64_arrays_keep_their_digits
- a gradient of a norm at zero, layer by layer: layers/test_layer_contract.py,
  test_single_points_and_duplicates_without_noise; math/test_disc.py,
  test_gradients_are_finite_and_vanish_at_the_centre
- unknown numbers of examples and points in an exported model: models/test_pncnn_saving.py,
  test_export_takes_any_batch_and_number_of_points; models/test_steerable_keras.py
- two threads at a steerable model: models/test_steerable_keras.py, test_two_threads_predict_at_once
- custom objects that are known to the process that saved them alone: exporting/test_saving.py,
  test_import_tfpn_is_enough_to_load
"""

import ast
import threading
from pathlib import Path

import keras
import numpy as np
import pytest
import slow_gp
import tensorflow as tf

import tfpn
from tfpn.distributions.multivariate_normal import multivariate_normal

KEYS = ("points", "values", "variance")
CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # float32, condition numbers up to 1e3


def data(examples=5, points=8, seed=0):
    """Examples with a noise variance of 0.01; the second ends in three points of padding."""
    rng = np.random.default_rng(seed)
    x = tfpn.observations(
        rng.uniform(size=(examples, points, 2)).astype("float32"),
        rng.normal(size=(examples, points)).astype("float32"),
        0.01,
    )
    x["variance"][1:2, -3:] = np.inf
    x["values"][1:2, -3:] = 0.0
    return x, rng.normal(size=(examples, 1)).astype("float32")


def small(**changes):
    arguments = {"num_outputs": 1, "channels": 3, "num_blocks": 1, "num_basis": 3, "spacing": 0.3}
    return tfpn.models.PNCNN(None, **{**arguments, **changes})


def steerable():
    return tfpn.models.SteerablePNCNN(
        3, copies=1, num_blocks=1, num_basis=1, frequencies=(0, 1), spacing=0.2,
        pooling={"centre": (0.5, 0.5), "radius": 0.6},
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained():
    """A model after two epochs in batches of 2, 2 and 1; a bystander; and the history."""
    keras.utils.set_random_seed(0)
    bystander = small(name="same")
    before = bystander.get_weights()
    model = small(name="same", marginal_likelihood_weight=0.1)
    model.compile(keras.optimizers.Adam(1e-2), "mse", jit_compile=False)
    x, y = data()
    history = model.fit(x, y, batch_size=2, epochs=2, shuffle=False, verbose=0).history
    return model, history, bystander, before


@pytest.fixture(scope="module")
def saved(trained, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model.keras"
    trained[0].save(path)
    return path


def weight_gradients(model, x, loss):
    with tf.GradientTape() as tape:
        total = loss(model(x, training=True)) + tf.add_n(model.losses)
    found = tape.gradient(total, [weight.value for weight in model.trainable_weights])
    return float(total), [np.asarray(gradient) for gradient in found]


class TestNotANumber:
    def test_failed_factorisation_is_an_error(self):
        """A Cholesky factorisation that fails is NaN without a word, and so is all after it."""
        wrong = [[1.0, 2.0], [2.0, 1.0]]  # an eigenvalue of -1
        for dtype in ("float32", "float64"):
            with pytest.raises(tf.errors.InvalidArgumentError, match="not positive semidefinite"):
                multivariate_normal(np.zeros(2, dtype), np.array(wrong, dtype))
        # Of rank 1: factorised, and its own covariance comes out.
        found = multivariate_normal(np.zeros(2), np.ones((2, 2))).covariance()
        np.testing.assert_allclose(found, np.ones((2, 2)), atol=1e-12)

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_exact_values_of_one_place_are_averaged(self, dtype):
        """Points seen twice make a covariance singular: other libraries need a jitter by hand."""
        points = np.array([[[0.2], [0.2], [0.2], [0.9]]], dtype)
        values = np.array([[[1.0], [2.0], [3.0], [0.0]]], dtype)
        mean, variance, nll = tfpn.math.convolve(
            points, values, np.zeros_like(values), points, weights=np.ones((1, 1, 1)),
            drift=np.zeros((1, 1)), diffusion=np.zeros((1, 1, 1)), signal_std=10.0,
            length_scale=0.1,
        )  # fmt: skip
        # Exact values that contradict each other are divided by the least noise, 1e-12 of the
        # signal's variance, which multiplies their rounding in float64.
        tolerance = 1e-3
        np.testing.assert_allclose(mean[0, :, 0], [2, 2, 2, 0], atol=tolerance)
        assert (np.asarray(variance) >= 0).all() and np.max(variance) < tolerance
        assert np.isfinite(nll).all()

    def test_bad_example_is_named(self):
        """One NaN makes the gradient of every weight NaN, whoever caused it."""
        model, (x, y) = small(), data()
        model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
        # In a batch of one, by hand.
        one = {key: value[1:2] for key, value in x.items()}
        with tf.GradientTape() as tape:
            loss = tf.square(model(one)[0, 0] - y[1, 0]) + tf.add_n(model.losses)
        gradient = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
        expected = np.sqrt(sum(np.sum(np.square(g)) for g in gradient))
        weights, metrics = model.get_weights(), [v.numpy() for v in model.metrics_variables]
        norms = tfpn.debug.check_gradients(model, x, y)
        np.testing.assert_allclose(norms[1], expected, rtol=1e-5)
        assert norms.shape == (5,)

        wrong = y.copy()
        wrong[3] = np.nan
        with pytest.raises(ValueError, match="^example 3: the loss is nan"):
            tfpn.debug.check_gradients(model, x, wrong)
        # Weights of 0 do not take a NaN away.
        with pytest.raises(ValueError, match="^example 3: "):
            tfpn.debug.check_gradients(model, x, wrong, np.array([1, 1, 1, 0, 1]))
        values = x["values"].copy()
        values[2, 0] = 1e30  # whose square is too large for float32
        with pytest.raises(ValueError, match="^example 2: "):
            tfpn.debug.check_gradients(model, {**x, "values": values}, y)
        # Nothing of the model has changed.
        for found, expected in zip(model.get_weights(), weights, strict=True):
            np.testing.assert_array_equal(found, expected)
        for found, expected in zip(model.metrics_variables, metrics, strict=True):
            np.testing.assert_array_equal(found, expected)
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        with pytest.raises(ValueError, match="^example 4: its loss cannot be computed.*7"):
            tfpn.debug.check_gradients(model, x, np.array([0, 0, 0, 0, 7]))
        model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
        with pytest.raises(ValueError, match="y is NaN for 1 of 5 examples, the first of them 3"):
            model.train_on_batch(x, wrong)
        for found, expected in zip(model.get_weights(), weights, strict=True):
            np.testing.assert_array_equal(found, expected)

    def test_check_of_gradients_refuses(self):
        model, (x, y) = small(), data()
        with pytest.raises(ValueError, match="call its compile"):
            tfpn.debug.check_gradients(model, x, y)
        model.compile("sgd", "mse")
        with pytest.raises(ValueError, match=r"y has shape \(4, 1\), but there are 5 examples"):
            tfpn.debug.check_gradients(model, x, y[:4])
        with pytest.raises(ValueError, match=r"sample_weight has shape \(\)"):
            tfpn.debug.check_gradients(model, x, y, 1.0)
        with pytest.raises(TypeError, match="found PNCNN and list"):
            tfpn.debug.check_gradients(model, [x], y)
        with pytest.raises(TypeError, match="found Sequential and dict"):
            tfpn.debug.check_gradients(keras.Sequential(), x, y)

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    def test_half_precision_is_refused(self, dtype):
        """There are no factorisations in half precision, and a cast would hide what is lost."""
        x = {key: tf.cast(value, dtype) for key, value in data()[0].items()}
        with pytest.raises(TypeError, match=f"values has dtype {dtype}.*cast it"):
            tfpn.math.integrate(**x, signal_std=1.0, length_scale=0.1)
        with pytest.raises(TypeError, match=f"x1 has dtype {dtype}"):
            tfpn.math.rbf_kernel(x["points"], x["points"], signal_std=1.0, length_scale=0.1)


class TestKeras:
    def test_no_attribute_takes_the_place_of_keras_own(self):
        """A list attribute named ``_layers`` hid Keras's own, and its weights were not saved."""
        own = set(dir(keras.layers.Layer())) | set(dir(keras.Model()))
        # These are for subclasses to set.
        own -= {"built", "trainable"}
        folders = [Path(tfpn.__file__).parent / folder for folder in ("layers", "models")]
        files = [file for folder in folders for file in folder.glob("*.py")]
        assert len(files) > 15
        for file in files:
            taken = {
                node.attr
                for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
                if isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and isinstance(node.value, ast.Name)
                and node.value.id == "self"
            }
            assert not taken & own, file.name
        for model in (small(), steerable()):
            parts = [id(weight) for layer in model.layers for weight in layer.weights]
            assert len(parts) == len(set(parts)) > 8
            assert set(parts) <= {id(weight) for weight in model.weights}

    def test_layers_in_a_list_of_a_layer(self, tmp_path):
        """Weights of layers in lists were lost by saving."""

        @keras.saving.register_keras_serializable(package="hazards")
        class Block(keras.layers.Layer):
            def __init__(self, **kwargs):
                super().__init__(**kwargs)
                self.parts = [tfpn.layers.PNConv(2, 3), tfpn.layers.ProbReLU()]

            def build(self, shapes):
                self.parts[0].build(shapes)

            def call(self, x):
                for layer in self.parts:
                    x = layer(x)
                return x["values"]

        inputs = small().inputs_dict
        model = keras.Model(inputs, Block()(inputs))
        # Signal's standard deviation and length scale, kernel, bias, drift and diffusion.
        assert len(model.trainable_weights) == 6
        model.save(tmp_path / "model.keras")
        loaded = keras.saving.load_model(tmp_path / "model.keras")
        x, _ = data()
        np.testing.assert_array_equal(loaded(x), model(x))

    def test_what_is_not_observed_stays_so_in_every_layer(self):
        """Keras's masks were lost between layers with several inputs."""
        model, (x, _) = small(num_blocks=2), data()
        names = [f"{part}_{block}" for block in (1, 2) for part in ("conv", "relu", "mix", "norm")]
        for found in keras.Model(model.input, [model.get_layer(n).output for n in names])(x):
            variance = np.asarray(found[-1])  # Keras lists a layer's outputs by sorted key
            np.testing.assert_array_equal(np.isinf(variance[1, :, 0]), [0] * 5 + [1] * 3)
            assert np.isfinite(variance[[0, 2, 3, 4]]).all()
        # Other points and values there change nothing.
        other = {key: value.copy() for key, value in x.items()}
        other["points"][1, -3:], other["values"][1, -3:] = 7.0, 1e6
        np.testing.assert_allclose(model(other), model(x), rtol=1e-5, atol=1e-6)

    def test_added_losses_count_once(self, trained, saved):
        """Losses of `add_loss` were counted twice, piled up with calls, or lost by saving."""
        model, (x, y) = trained[0], data()
        model(x), model(x)
        assert len(model.losses) == len(model.pn_layers) == 2
        layer = model.get_layer("conv_1")
        prior = {name: np.exp(float(getattr(layer, f"log_{name}").numpy())) for name in
                 ("signal_std", "length_scale")}  # fmt: skip
        noise = np.exp(2 * float(layer.log_observation_noise.numpy()))
        exact = {key: value.astype("float64") for key, value in x.items()}
        still = np.zeros((1, 2)), np.zeros((1, 2, 2))
        nll = slow_gp.convolve(
            **exact, query=exact["points"][:, :0], weights=np.ones((1, 1, 1)), drift=still[0],
            diffusion=still[1], noise="shared", observation_variance=noise, **prior,
        )[2]  # fmt: skip
        expected = 0.1 * nll.sum() / np.isfinite(x["variance"]).sum()
        np.testing.assert_allclose(model.losses[0], expected, rtol=1e-4)
        losses = []
        for each in (model, keras.saving.load_model(saved)):
            output = each(x)
            task = np.mean((np.asarray(output) - y) ** 2)
            losses.append(float(each.compute_loss(x, y, output, training=False)))
            np.testing.assert_allclose(losses[-1], task + sum(map(float, each.losses)), rtol=1e-5)
        assert losses[0] == losses[1]

    def test_batches_of_any_size(self, trained):
        """The last batch is smaller, down to one example; a sum over the batch hid in a layer."""
        model, history, _, _ = trained
        assert model.optimizer.iterations == 6
        assert np.isfinite(history["loss"]).all() and history["loss"][1] < history["loss"][0]
        x, _ = data()
        for size in (1, 3):
            parts = [
                model({key: value[start : start + size] for key, value in x.items()})
                for start in range(0, 5, size)
            ]
            np.testing.assert_allclose(np.concatenate(parts), model(x), **CLOSE)

    @pytest.mark.graphs
    def test_unknown_numbers_of_examples_and_points(self, trained):
        """Shapes that are known only when run failed, or were traced for every batch anew."""
        model = trained[0]
        spec = {
            key: tf.TensorSpec((None, None, size))
            for key, size in zip(KEYS, (2, 1, 1), strict=True)
        }
        function = tf.function(lambda x: model(x), input_signature=[spec])
        for shape in ((5, 8), (1, 1), (2, 30)):
            x, _ = data(*shape)
            np.testing.assert_allclose(function(x), model(x), **CLOSE)
        assert function.experimental_get_tracing_count() == 1

    def test_two_models_are_strangers(self, trained):
        """Models of one name shared state through names or global registries."""
        model, _, bystander, before = trained
        for found, expected in zip(bystander.get_weights(), before, strict=True):
            np.testing.assert_array_equal(found, expected)
        assert not {id(w) for w in model.weights} & {id(w) for w in bystander.weights}
        both = keras.Model(model.input, [model(model.input), small(name="other")(model.input)])
        assert both(data()[0])[0].shape == (5, 1)

    @pytest.mark.graphs
    def test_threads_predict_at_once(self, trained):
        """A server's threads met in the function that the first call builds."""
        model = trained[0]
        inputs = [data(seed=seed)[0] for seed in range(4)]
        found = [None] * 4

        def predict(number):
            found[number] = model.predict(inputs[number], batch_size=5, verbose=0)

        threads = [threading.Thread(target=predict, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for output, x in zip(found, inputs, strict=True):
            np.testing.assert_allclose(output, model(x), **CLOSE)


class TestSizes:
    @pytest.mark.parametrize("build", [small, steerable], ids=["PNCNN", "SteerablePNCNN"])
    def test_no_point_one_point_and_all_at_one_place(self, build):
        """Norms have no derivative at zero, and means over nothing are NaN."""
        model = build()
        x = tfpn.observations(
            [np.zeros((0, 2)), [[0.5, 0.5]], np.full((6, 2), 0.5), np.full((6, 2), 1 / 3)],
            [np.zeros((0, 1)), [[2.0]], np.ones((6, 1)), np.arange(6.0)[:, None]],
        )
        for key, value in x.items():
            x[key] = value.astype("float32")
        for part in (x, {key: value[:2, :1] for key, value in x.items()}):
            loss, gradients = weight_gradients(model, part, lambda y: tf.reduce_sum(tf.sin(y)))
            assert np.isfinite(loss)
            assert all(np.isfinite(gradient).all() for gradient in gradients)
        with pytest.raises(ValueError, match="of length at least 1"):
            model.predict({key: value[:, :0] for key, value in x.items()}, verbose=0)

    def test_two_thousand_points(self):
        """Dense series: condition numbers grow with the points, and memory with their square."""
        model = tfpn.models.PNCNN(
            2, channels=2, num_blocks=1, num_basis=3, spatial_dim=1, pooling=(0.0, 1.0)
        )
        times = np.linspace(0, 1, 2000, dtype="float32").reshape(1, -1, 1)
        x = tfpn.observations(times, np.sin(9 * times))
        model.adapt(x, fit_priors=False)
        loss, gradients = weight_gradients(model, x, lambda y: tf.reduce_sum(tf.sin(y)))
        assert np.isfinite(loss)
        assert all(np.isfinite(gradient).all() for gradient in gradients)
        assert any(np.any(gradient) for gradient in gradients)

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("length_scale", [1e-4, 1e4])
    def test_extreme_length_scales(self, length_scale, dtype):
        """Hyperparameters run away in training: kernels become the identity, or constant."""
        x = {key: value.astype(dtype) for key, value in data()[0].items()}
        prior = {"signal_std": 2.0, "length_scale": length_scale}
        flow = {"drift": np.zeros((1, 2)), "diffusion": np.zeros((1, 2, 2))}
        mean, variance, nll = tfpn.math.convolve(
            **x, query=x["points"], weights=np.ones((1, 1, 1)), **prior, **flow
        )
        values, observed = x["values"][..., 0], np.isfinite(x["variance"][..., 0])
        if length_scale < 1:  # every point is alone with its prior
            expected = np.where(observed, values * 4 / 4.01, 0.0)
            left = np.where(observed, 4 * 0.01 / 4.01, 4.0)
        else:  # one number for all points
            count = observed.sum(-1, keepdims=True)
            expected = np.where(observed, values, 0).sum(-1, keepdims=True) / 0.01
            expected = np.broadcast_to(expected / (1 / 4 + count / 0.01), values.shape)
            left = np.broadcast_to(1 / (1 / 4 + count / 0.01), values.shape)
        # Points 1e-4 of a length scale apart are 1e-8 from being the same: times values over noise.
        tolerance = 1e-3 if dtype == "float32" else 1e-5
        np.testing.assert_allclose(mean[..., 0], expected, atol=tolerance)
        np.testing.assert_allclose(variance[..., 0], left, atol=tolerance)
        assert np.isfinite(nll).all()

    @pytest.mark.parametrize("build", [small, steerable], ids=["PNCNN", "SteerablePNCNN"])
    def test_extreme_length_scales_of_models(self, build):
        model, (x, _) = build(), data()
        for length_scale in (1e-4, 1e4):
            for layer in model.pn_layers:
                layer.log_length_scale.assign(np.log(length_scale))
            loss, gradients = weight_gradients(model, x, lambda y: tf.reduce_sum(tf.sin(y)))
            assert np.isfinite(loss)
            for weight, gradient in zip(model.trainable_weights, gradients, strict=True):
                assert np.isfinite(gradient).all(), (length_scale, weight.path)
