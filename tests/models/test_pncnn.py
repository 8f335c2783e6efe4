"""PNCNN: training in every way Keras offers, its methods, `adapt`, its errors."""

import io
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from pncnn_support import KEYS, LOSS, as_float32, make_batch, perturb, separable, small

import tfpn


@pytest.fixture(scope="module")
def trained():
    """A model after a short training, its data and history."""
    keras.utils.set_random_seed(0)
    x, y = separable()
    x = as_float32(x)
    model = small(2, num_blocks=1)
    model.adapt(x, fit_priors=False)  # whose likelihood training is to improve
    model.compile(keras.optimizers.Adam(1e-2), LOSS, metrics=["accuracy"], jit_compile=False)
    tf.config.run_functions_eagerly(False)  # tracing pays for so many steps
    history = model.fit(x, y, epochs=25, batch_size=20, validation_split=0.25, verbose=0).history
    tf.config.run_functions_eagerly(True)
    return model, x, y, history


class TestFit:
    def test_learns_a_separable_problem(self, trained):
        model, x, y, history = trained
        assert history["loss"][-1] < 0.5 * history["loss"][0]
        assert history["val_accuracy"][-1] == 1.0
        assert len(history["val_loss"]) == 25
        assert history["marginal_nll"][-1] < history["marginal_nll"][0]
        shown = {"accuracy", "loss", "marginal_nll", "task_loss"}
        assert history.keys() == shown | {f"val_{name}" for name in shown}
        logs = model.evaluate(x, y, verbose=0, return_dict=True)
        assert logs["accuracy"] == 1.0
        assert (model.predict(x, verbose=0).argmax(-1) == y).all()

    def test_all_forms_of_data_give_the_same_loss(self, trained):
        """With learning rate 0, in training mode: what the loss is computed from."""
        _, x, y, _ = trained
        model = small(2, num_blocks=1)
        model.compile(keras.optimizers.SGD(0.0), LOSS, run_eagerly=True)
        fit = {"epochs": 1, "verbose": 0, "batch_size": 40, "shuffle": False}

        def loss(*data, **options):
            return model.fit(*data, **{**fit, **options}).history["loss"][0]

        plain = loss(x, y)
        close = {"rel": 1e-5}  # float32
        dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(40)
        assert loss(dataset, batch_size=None) == pytest.approx(plain, **close)
        shorter = {key: value[:, :9] for key, value in x.items()}
        fills = {key: np.float32(np.inf if key == "variance" else 0.0) for key in x}
        padded = tf.data.Dataset.from_tensor_slices(shorter)
        padded = padded.padded_batch(40, {k: (12, v.shape[-1]) for k, v in x.items()}, fills)
        labelled = tf.data.Dataset.zip(padded, tf.data.Dataset.from_tensors(y))
        assert loss(labelled, batch_size=None) == pytest.approx(loss(shorter, y), **close)
        weights = np.where(y == 0, 2.0, 0.5)
        weighted = loss(x, y, sample_weight=weights)
        assert weighted == pytest.approx(loss(x, y, class_weight={0: 2.0, 1: 0.5}), **close)
        assert abs(weighted - plain) > 1e-3
        logs = model.fit(x, y, **{**fit, "validation_split": 0.25}).history
        last = {key: value[30:] for key, value in x.items()}
        assert logs["val_loss"][0] == pytest.approx(
            model.evaluate(last, y[30:], verbose=0, return_dict=True)["loss"], **close
        )

    @pytest.mark.graphs
    def test_compiled_by_xla_or_not(self):
        x, y = make_batch(), np.arange(5) % 3
        runs = []
        for how in ({"run_eagerly": True}, {"jit_compile": True}):
            keras.utils.set_random_seed(0)
            model = small(num_blocks=1, marginal_likelihood_weight=0.1)
            model.compile(keras.optimizers.SGD(0.05), LOSS, **how)
            losses = [float(model.train_on_batch(x, y)[0]) for _ in range(4)]
            runs.append((losses, model.get_weights()))
        (plain, weights), (compiled, compiled_weights) = runs
        assert plain[-1] < plain[0]
        # float32 and condition numbers up to 1 / (noise floor 3e-5).
        np.testing.assert_allclose(compiled, plain, rtol=1e-4)
        for found, expected in zip(compiled_weights, weights, strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-4)

    @pytest.mark.graphs
    def test_elementwise_work_compiled_or_not(self, monkeypatch):
        """16 points times 64 channels are enough for a graph to compile it, not for eager steps."""
        x, y = make_batch(points=16), np.arange(5) % 3
        active, runs = [], []
        original = tfpn.layers.base.fusion
        monkeypatch.setattr(
            tfpn.layers.base, "fusion", lambda wanted: active.append(wanted) or original(wanted)
        )
        for eager in (False, True):
            keras.utils.set_random_seed(0)
            model = small(channels=64, num_blocks=1)
            model.compile(keras.optimizers.SGD(0.05), LOSS, jit_compile=False, run_eagerly=eager)
            losses = [float(model.train_on_batch(x, y)[0]) for _ in range(2)]
            runs.append((losses, model.get_weights()))
        (compiled, compiled_weights), (plain, weights) = runs
        np.testing.assert_allclose(compiled, plain, rtol=1e-4)
        for found, expected in zip(compiled_weights, weights, strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-4)
        assert any(active)
        active.clear()
        small(channels=60, num_blocks=1)(x, training=True)
        assert active and not any(active)

    def test_deterministic_with_a_seed(self):
        x, y = make_batch(), np.arange(5) % 3
        weights = []
        for _ in range(2):
            keras.utils.set_random_seed(3)
            model = small(num_blocks=1)
            model.compile("adam", LOSS, run_eagerly=True)
            model.fit(x, y, batch_size=3, epochs=1, verbose=0)
            weights.append(model.get_weights())
        for first, second in zip(*weights, strict=True):
            np.testing.assert_array_equal(first, second)

    @pytest.mark.parametrize("dtype", ["float64", "mixed_bfloat16"])
    def test_other_policies(self, dtype):
        exact = dtype == "float64"
        x = make_batch(np.float64 if exact else np.float32)
        model = small(num_blocks=1, dtype=dtype)
        model.compile("adam", LOSS, run_eagerly=True)
        loss = [model.train_on_batch(x, np.arange(5) % 3) for _ in range(2)]
        assert np.isfinite(loss).all()
        assert model.predict(x, verbose=0).dtype == ("float64" if exact else "float32")
        kept = {str(weight.dtype) for weight in model.weights}
        assert kept == {"float64" if exact else "float32"}

    def test_regression(self, trained):
        _, x, y, _ = trained
        keras.utils.set_random_seed(0)
        model = small(None, num_outputs=2, num_blocks=1, pooling=(0.0, 1.0))
        model.adapt(x)
        target = np.stack([2.0 * y - 1.0, 1.0 - y], axis=-1)
        # Few and long steps, which are quicker than a graph.
        model.compile(keras.optimizers.Adam(0.1), "mse", run_eagerly=True)
        loss = model.fit(x, target, epochs=5, batch_size=40, verbose=0).history["loss"]
        assert loss[-1] < 0.5 * loss[0]
        assert model(x).shape == (40, 2)


def block_outputs(model, names, x):
    """Outputs of layers as dicts; Keras's `layer.output` lists a dict's tensors by sorted key."""
    outputs = [model.get_layer(name).output for name in names]
    return [
        dict(zip(KEYS, output, strict=True))
        for output in keras.Model(model.inputs_dict, outputs)(x)
    ]


class TestMethods:
    def test_summary_layers_and_submodels(self, trained):
        model, x, _, _ = trained
        stream = io.StringIO()
        model.summary(print_fn=lambda line: stream.write(line + "\n"))
        assert "conv_1" in stream.getvalue() and "head" in stream.getvalue()
        names = [layer.name for layer in model.layers if not layer.name.startswith(KEYS)]
        assert names == ["conv_1", "relu_1", "mix_1", "norm_1", "pooling", "head", "temperature"]
        assert [layer.name for layer in model.pn_layers] == ["conv_1", "pooling"]
        assert block_outputs(model, ["mix_1", "norm_1"], x)[0]["values"].shape == (40, 12, 4)

    def test_feature_maps_at_the_points_are_the_blocks_outputs(self):
        x = make_batch(np.float64)
        for normalization in (True, False):
            model = small(dtype="float64", normalization=normalization)
            perturb(model)
            maps = model.feature_maps(x, x["points"])
            last = "norm" if normalization else "mix"
            expected = block_outputs(model, [f"{last}_{block}" for block in (1, 2)], x)
            observed = np.isfinite(x["variance"][..., 0])
            assert len(maps) == 2
            for found, wanted in zip(maps, expected, strict=True):
                for key in KEYS:
                    np.testing.assert_allclose(
                        np.asarray(found[key])[observed],
                        np.asarray(wanted[key])[observed],
                        rtol=1e-10,
                        atol=1e-12,
                    )
                # Known everywhere at query points, also where the input has padding.
                assert np.isfinite(np.asarray(found["variance"])).all()

    def test_distribution_of_the_outputs(self):
        x = make_batch()
        model = small(pooling=(0.0, 1.0), num_blocks=1)
        perturb(model)
        distribution = model.predict_distribution(x)
        assert tuple(distribution.batch_shape) == (5,) and tuple(distribution.event_shape) == (3,)
        np.testing.assert_allclose(
            distribution.mean(), model.predict(x, verbose=0), rtol=1e-4, atol=1e-5
        )
        pooled_mean, pooled_variance = keras.Model(
            model.inputs_dict, model.get_layer("pooling").output
        )(x)
        count = 40_000
        noise = np.random.default_rng(0).normal(size=(count, 5, 4))
        features = np.asarray(pooled_mean) + np.sqrt(pooled_variance) * noise
        samples = np.einsum("sbc,co->sbo", features, np.asarray(model.get_layer("head").kernel))
        expected = samples.var(axis=0)
        # The sample variance of normal variables has the relative standard error sqrt(2 / count).
        expected /= float(model.get_layer("temperature").temperature) ** 2
        error = np.abs(np.asarray(distribution.variance()) - expected) / expected
        assert error.max() < 4 * np.sqrt(2 / count)

    def test_distribution_errors(self):
        with pytest.raises(ValueError, match=r"pooling='space'.*infinite.*\(low, high\)"):
            small(num_blocks=1).predict_distribution(make_batch())
        with pytest.raises(ValueError, match="no head"):
            small(None, num_blocks=1, pooling=(0.0, 1.0)).predict_distribution(make_batch())


class TestAdapt:
    def scales(self, model):
        return {layer.name: float(np.exp(layer.log_length_scale)) for layer in model.pn_layers}

    def test_all_layers_take_the_spacing_and_the_first_the_level(self):
        x = make_batch(examples=6)
        x["values"] *= 7
        model = small()
        model.adapt(x, fit_priors=False)
        spacing = tfpn.spacing.point_spacing(x["points"], x["variance"])
        assert self.scales(model) == pytest.approx(
            {"conv_1": spacing, "conv_2": spacing, "pooling": spacing}, rel=1e-5
        )
        level = np.sqrt(np.mean(x["values"][np.isfinite(x["variance"])] ** 2))
        first, second = (model.get_layer(f"conv_{block}") for block in (1, 2))
        assert float(np.exp(first.log_signal_std)) == pytest.approx(level, rel=1e-5)
        assert float(np.exp(second.log_signal_std)) == pytest.approx(1.0)
        assert float(np.exp(first.log_observation_noise)) == pytest.approx(0.1 * level, rel=1e-5)
        for layer in (second, model.get_layer("pooling")):
            assert float(np.exp(layer.log_observation_noise)) == pytest.approx(0.1)

    def test_warns_of_channels_of_different_accuracy(self):
        rng = np.random.default_rng(0)
        points, values = rng.uniform(size=(2, 9, 2)), rng.normal(size=(2, 9, 2))
        x = tfpn.observations(points, values, [1e-4, 1.0])
        with pytest.warns(UserWarning, match="different variances"):
            small(in_channels=2).adapt(x)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            small(in_channels=2, input_noise="channel").adapt(x, fit_priors=False)

    def test_data_sets(self):
        x = make_batch(examples=6)
        expected = small(num_blocks=1)
        expected.adapt(x)
        plain = tf.data.Dataset.from_tensor_slices(x)
        labelled = tf.data.Dataset.from_tensor_slices((x, np.arange(6)))
        ragged = [
            {key: value[:1] for key, value in x.items()},
            {
                k: np.pad(v[1:], [(0, 0), (0, 2), (0, 0)], constant_values=np.inf)
                for k, v in x.items()
            },
        ]
        ragged[1]["points"][~np.isfinite(ragged[1]["points"])] = 0.0
        signature = {k: tf.TensorSpec((None, None, v.shape[-1]), v.dtype) for k, v in x.items()}
        uneven = tf.data.Dataset.from_generator(lambda: ragged, output_signature=signature)
        for dataset in (plain.batch(4), labelled.batch(4), uneven):
            model = small(num_blocks=1)
            model.adapt(dataset)
            assert self.scales(model) == pytest.approx(self.scales(expected), rel=1e-6)
            found, wanted = (m.get_layer("conv_1").log_signal_std for m in (model, expected))
            assert float(found) == pytest.approx(float(wanted), rel=1e-5)

    def test_unbatched_data_set(self):
        dataset = tf.data.Dataset.from_tensor_slices(make_batch())
        with pytest.raises(ValueError, match=r"batched data set.*\(7, 2\).*\.batch\(\)"):
            small(num_blocks=1).adapt(dataset)

    def test_too_few_points(self):
        x = {key: value[:, :1] for key, value in make_batch().items()}
        with pytest.raises(ValueError, match="two distinct observed points"):
            small(num_blocks=1).adapt(x)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"num_outputs": 2}, "not both: found 3 and 2"),
        ({"num_classes": 0}, "num_classes or num_outputs must be .* found 0"),
        ({"num_classes": None, "num_outputs": 1.5}, "num_outputs must be .* found 1.5"),
        ({"channels": 0}, "channels must be a positive whole number, found 0"),
        ({"num_blocks": 0}, "num_blocks must be a positive whole number, found 0"),
        ({"num_basis": 0}, "num_basis must be a positive whole number, found 0"),
        ({"spatial_dim": 0}, "spatial_dim must be a positive whole number, found 0"),
        ({"in_channels": -1}, "in_channels must be a positive whole number, found -1"),
        ({"uncertainty": "all"}, "uncertainty must be one of .* found 'all'"),
        ({"spacing": 0.0}, "spacing must be positive and finite, found 0.0"),
        ({"input_noise": "x"}, "noise must be one of .* found 'x'"),
        ({"observation_noise": -0.1}, "observation_noise must be positive .* found -0.1"),
        ({"feature_noise": 0.0}, "feature_noise must be positive .* found 0.0"),
        ({"marginal_likelihood_weight": -1.0}, "marginal_likelihood_weight must be >= 0"),
        ({"pooling": "box"}, "pooling must be 'space' or a box .* found 'box'"),
        ({"pooling": (1.0, 0.0)}, "pooling must be .* low < high"),
        ({"pooling": ([0.0] * 3, [1.0] * 3)}, "box sides must be .* 2 numbers"),
        ({"dtype": "float33"}, "float33"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_bad_arguments_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        small(**{"num_blocks": 1, **arguments})
