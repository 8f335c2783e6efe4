"""What users of Keras, scikit-learn and pandas are used to doing works with the models."""

import io
import warnings

import keras
import numpy as np
import pandas as pd
import pytest
import sklearn.model_selection
import tensorflow as tf
from sklearn.exceptions import NotFittedError

import tfpn
from tfpn.wrappers import PNClassifier, PNRegressor, from_frame, pack, unpack

LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
FROZEN = ("conv_1", "mix_1", "norm_1")
# float32, and condition numbers of the Gaussian processes
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


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
    model(x, training=True)  # so that the running averages are not their start values
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
        for again in (loaded, keras.models.clone_model(model)):
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
        for found, expected in zip(model.get_weights(), by_fit, strict=True):
            np.testing.assert_allclose(found, expected, **CLOSE)

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
        # K basis operators, d = 1: kernel, bias, drifts, diffusions, two of the prior and noise
        convolution = {"conv_1": 2 * 1 * 3 + 3 + 2 + 2 + 3, "conv_2": 2 * 3 * 3 + 3 + 2 + 2 + 3}
        for name, kind, parameters in (
            *((name, "PNConv", count) for name, count in convolution.items()),
            ("relu_1", "ProbReLU", 0),
            ("mix_2", "ChannelMix", 3 * 3 + 3),
            ("head", "Dense", 3 * 2 + 2),
        ):
            (line,) = (line for line in lines if f" {name} " in line)
            assert kind in line and f" {parameters} " in line
        # The first block is frozen; a normalisation trains two numbers a channel, the pooling 3.
        trainable = convolution["conv_2"] + 12 + 2 * 3 + 3 + 8
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


def waves(examples=16, seed=0):
    """Series of two kinds that differ in their sign."""
    rng = np.random.default_rng(seed)
    labels = np.arange(examples) % 2
    times = rng.uniform(size=(examples, 6, 1))
    values = (2 * labels[:, None] - 1) * np.cos(times[..., 0]) + 0.1 * rng.normal(
        size=(examples, 6)
    )
    values[::3, 4:] = np.nan
    return tfpn.observations(times, values, 0.01), labels


def build(outputs, regression=False, channels=2, pooling="space"):
    keras.utils.set_random_seed(0)
    kind = {"num_classes": None, "num_outputs": outputs} if regression else {"num_classes": outputs}
    model = tfpn.models.PNCNN(
        **kind, channels=channels, num_blocks=1, num_basis=1, spatial_dim=1, pooling=pooling
    )
    # Eager, as that is quicker for so few steps.
    loss = "mse" if regression else LOSS
    model.compile(keras.optimizers.Adam(0.1), loss, run_eagerly=True)
    return model


class TestScikitLearn:
    def test_pack_and_unpack(self):
        x, _ = waves()
        packed = pack(x)
        assert packed.shape == (16, 6, 3)
        for key, array in unpack(packed, 1).items():
            np.testing.assert_array_equal(array, x[key])
        with pytest.raises(ValueError, match=r"X has the shape \(2, 3\), expected \[B, N, 1"):
            unpack(np.zeros((2, 3)), 1)
        with pytest.raises(ValueError, match=r"shape \(2, 3, 4\), expected \[B, N, 1 \+ 2c\]"):
            unpack(np.zeros((2, 3, 4)), 1)

    def test_statics_are_refused(self):
        x, _ = waves()
        with pytest.raises(ValueError, match="x holds statics, which the wrappers do not take"):
            pack({**x, "statics": np.zeros((16, 2)), "statics_variance": np.zeros((16, 2))})

    def test_class_weights_go_by_label(self):
        x, _ = waves()
        labels = np.array(["ill", "odd", "well"])[np.arange(16) % 3]
        codes = np.unique(labels, return_inverse=True)[1]

        def losses(y, weights):
            estimator = PNClassifier(build, fit_kwargs={"epochs": 2, "class_weight": weights})
            return estimator.fit(pack(x), y).history_["loss"]

        expected = losses(codes, {0: 0.0, 1: 1.0, 2: 5.0})
        assert losses(labels, {"ill": 0.0, "well": 5.0}) == pytest.approx(expected, rel=1e-6)
        assert losses(codes + 7, {7: 0.0, 9: 5.0}) == pytest.approx(expected, rel=1e-6)
        assert losses(labels, None)[0] != pytest.approx(expected[0], rel=1e-2)
        with pytest.raises(ValueError, match=r"keys \['sick'\], which are no labels; y has"):
            losses(labels, {"sick": 2.0})
        with pytest.raises(ValueError, match=r"keys \[0\], which are no labels; y has"):
            losses(codes + 7, {0: 2.0, 7: 1.0})
        # n / (K n_k)
        balanced = losses(codes, {0: 16 / 18, 1: 16 / 15, 2: 16 / 15})
        assert losses(labels, "balanced") == pytest.approx(balanced, rel=1e-6)
        assert balanced != pytest.approx(losses(labels, None), rel=1e-6)

    def test_a_model_for_a_function(self):
        with pytest.raises(TypeError, match="model is a PNCNN; give a function"):
            PNClassifier(build(2)).fit(np.zeros((2, 6, 3)), [0, 1])

    def test_one_class(self):
        with pytest.raises(ValueError, match=r"y holds the class \['a'\] alone"):
            PNClassifier(build).fit(np.zeros((2, 6, 3)), ["a", "a"])

    @pytest.mark.parametrize(
        "y, message",
        [
            ([0.0, 1.0, np.nan], "NaN or None for 1 examples"),
            (["ill", None, "well"], "NaN or None for 1 examples"),
            (np.array(["ill", np.nan, "well"], object), "NaN or None for 1 examples"),
            (["ill", np.nan, "well"], "NaN or None for 1 examples"),
            (pd.Series(["ill", None, None], dtype="string"), "NaN or None for 2 examples"),
            ([0.3, 1.7, 2.9], "continuous"),
            (np.eye(3), r"shape \(3, 3\)"),
        ],
    )
    def test_what_is_no_label(self, y, message):
        with pytest.raises(ValueError, match=message):
            PNClassifier(build).fit(np.zeros((3, 6, 3)), y)

    def test_not_fitted(self):
        with pytest.raises(NotFittedError, match="'fit'"):
            PNClassifier(build).predict(np.zeros((2, 6, 3)))

    def test_cross_validation(self):
        x, codes = waves()
        X, y = pack(x), np.array(["falling", "rising"])[codes]
        estimator = PNClassifier(build, {"channels": 3}, {"epochs": 2, "batch_size": 8})
        folds = sklearn.model_selection.StratifiedKFold(2)
        found = sklearn.model_selection.cross_validate(
            *(estimator, X, y), cv=folds, scoring=["accuracy", "neg_log_loss"],
            return_estimator=True, error_score="raise",
        )  # fmt: skip
        assert len(found["estimator"]) == 2 and not hasattr(estimator, "model_")
        for fold, (_, held_out) in enumerate(folds.split(X, y)):
            fitted = found["estimator"][fold]
            assert len(fitted.history_["loss"]) == 2  # the folds' fits take the arguments
            assert fitted.model_.get_config()["channels"] == 3
            part = {key: array[held_out] for key, array in x.items()}
            logits = fitted.model_.predict(part, verbose=0)
            assert found["test_accuracy"][fold] == np.mean(logits.argmax(-1) == codes[held_out])
            likelihood = np.log(fitted.model_.predict_proba(part))[range(8), codes[held_out]]
            assert found["test_neg_log_loss"][fold] == pytest.approx(likelihood.mean(), rel=1e-5)

    def test_regression(self):
        x, y = waves()
        X = pack(x)
        estimator = PNRegressor(build, {"regression": True}, {"batch_size": 16})
        with pytest.raises(NotFittedError):
            estimator.predict(X)
        with pytest.raises(ValueError, match=r"y has the shape \(16, 1, 1\), expected \[B\] or"):
            estimator.fit(X, y.reshape(16, 1, 1))
        two = np.stack([y, 1.0 - y], axis=-1)
        predicted = estimator.fit(X, two).predict(X)
        assert predicted.shape == (16, 2)
        share = np.sum((two - predicted) ** 2, 0) / np.sum((two - two.mean(0)) ** 2, 0)
        assert estimator.score(X, two) == pytest.approx(np.mean(1 - share), rel=1e-4)
        estimator.set_params(model_kwargs={"regression": True, "pooling": (0.0, 1.0)})
        estimator.fit(X, y)
        mean, deviation = estimator.predict(X, return_std=True)
        assert mean.shape == deviation.shape == y.shape
        np.testing.assert_allclose(estimator.predict(X), mean, **CLOSE)
        expected = estimator.model_.predict_distribution(x).stddev()
        np.testing.assert_allclose(deviation, expected[:, 0], rtol=1e-6)

    def test_targets_in_any_unit(self):
        x, labels = waves()
        X, y = pack(x), labels + 0.1 * np.cos(np.arange(16.0))
        arguments = {"regression": True, "pooling": (0.0, 1.0)}
        first, second = (PNRegressor(build, arguments, {"epochs": 3}) for _ in range(2))
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            first.fit(X, y)
            second.fit(X, 1e5 - 5e4 * y)
        # Float32, whose rounding decides where Adam's steps of 0.1 take parameters whose gradients
        # are 0 but for it; float64 and small steps are in tests/models/test_targets.py.
        mean, deviation = first.predict(X, return_std=True)
        found, scaled = second.predict(X, return_std=True)
        np.testing.assert_allclose((1e5 - found) / 5e4, mean, atol=0.02)
        np.testing.assert_allclose(scaled / 5e4, deviation, rtol=0.02)
        score = first.score(X, y)
        assert score > 0.3 and second.score(X, 1e5 - 5e4 * y) == pytest.approx(score, abs=0.02)

    def test_validation_split_takes_its_part_of_every_class(self):
        x, _ = waves()
        X, y = pack(x)[:15], np.repeat(["a", "b", "c", "d", "e"], 3)
        X[:, 0, 0] = np.arange(15)  # which example is which
        weights = np.arange(15.0)
        estimator = PNClassifier(Recorder, fit_kwargs={"validation_split": 1 / 3})
        estimator.fit(X, y, sample_weight=weights)
        given, codes, arguments = estimator.model_.fitted
        place = given["points"][:, 0, 0].astype(int)
        assert sorted(place) == list(range(15)) and list(place) != list(range(15))
        np.testing.assert_array_equal(codes, place // 3)
        np.testing.assert_array_equal(arguments["sample_weight"], weights[place])
        # Keras holds the last third back.
        assert np.bincount(codes[:10]).tolist() == [2] * 5
        again = PNClassifier(Recorder, fit_kwargs={"validation_split": 1 / 3}).fit(X, y)
        np.testing.assert_array_equal(again.model_.fitted[1], codes)
        rare = PNClassifier(Recorder).fit(X, np.repeat([0, 1], [14, 1]), validation_split=0.4)
        assert rare.model_.fitted[1][:9].max() == 1
        targets = np.arange(15.0)
        series = PNRegressor(Recorder, fit_kwargs={"validation_split": 0.2}).fit(X, targets)
        given, y, _ = series.model_.fitted
        np.testing.assert_array_equal(given["points"][:, 0, 0], y[:, 0])
        assert set(y[12:, 0]) != {12.0, 13.0, 14.0}

    def test_validation_data_have_labels_of_any_kind(self):
        x, codes = waves()
        X, y = pack(x), np.array(["falling", "rising"])[codes]
        held = {key: array[:5] for key, array in x.items()}
        estimator = PNClassifier(build)
        packed = estimator.fit(X, y, validation_data=(X[:5], y[:5].tolist())).history_["val_loss"]
        as_dict = estimator.fit(X, y, validation_data=(held, y[:5])).history_["val_loss"]
        loss = estimator.model_.evaluate(held, codes[:5], verbose=0, return_dict=True)["loss"]
        assert packed == as_dict == pytest.approx([loss], rel=1e-5)
        with pytest.raises(
            ValueError, match=r"validation_data has the labels \['up'\], which y has"
        ):
            estimator.fit(X, y, validation_data=(X[:2], ["up", "rising"]))
        series = PNRegressor(Recorder)
        series.fit(X, codes, validation_data=(X[:5], codes[:5]))
        held, targets = series.model_.fitted[2]["validation_data"]
        assert targets.shape == (5, 1) and held["points"].shape == (5, 6, 1)
        with pytest.raises(ValueError, match=r"targets of the shape \(5, 2\), but y has \[B, \]"):
            series.fit(X, codes, validation_data=(X[:5], np.zeros((5, 2))))

    def test_number_of_features(self):
        x, y = waves()
        estimator = PNClassifier(build)
        assert not hasattr(estimator, "n_features_in_")
        assert estimator.fit(pack(x), y).n_features_in_ == 3
        with pytest.raises(ValueError, match="X has 5 features .* is expecting 3 features"):
            estimator.predict(np.zeros((2, 6, 5)))
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            estimator.fit(pack(x), y[:7])


class Recorder:
    """In a model's place: keeps what its `fit` is given."""

    def __init__(self, outputs):
        self.inputs_dict = {"points": np.zeros((0, 0, 1))}

    def adapt(self, x, targets=None):
        pass

    def fit(self, x, y, **arguments):
        self.fitted = x, y, arguments
        return keras.callbacks.History()


def long_table(seed=0):
    """Readings of three channels at few times, so that times and readings repeat; some failed."""
    rng = np.random.default_rng(seed)
    count = 60
    table = pd.DataFrame(
        {
            "id": rng.choice(["p1", "p2", "p3"], count),
            "x": rng.integers(3, size=count) / 2,
            "y": rng.integers(2, size=count) / 2,
            "what": rng.choice(["a", "b", "c"], count),
            "value": rng.normal(size=count),
            "noise": rng.uniform(0.1, 1.0, count),
        }
    )
    table.loc[::7, "value"] = np.nan
    return table


COLUMNS = {"example": "id", "points": ["x", "y"], "channel": "what", "value": "value"}


class TestPandas:
    def test_every_reading_once(self):
        table = long_table()
        x, examples, channels = from_frame(table, **COLUMNS, variance="noise")
        assert examples == ["p1", "p2", "p3"] and channels == ["a", "b", "c"]
        found = [
            (examples[b], *x["points"][b, n], channels[c], x["values"][b, n, c], v)
            for (b, n, c), v in np.ndenumerate(x["variance"])
            if np.isfinite(v)
        ]
        expected = [tuple(row) for row in table.dropna().itertuples(index=False)]
        assert sorted(found) == sorted(expected)
        # As few rows as there can be: at each point as many as its most frequent channel.
        known = table.dropna()
        counts = known.groupby(["id", "x", "y", "what"]).size().groupby(["id", "x", "y"]).max()
        rows = np.isfinite(x["variance"]).any(-1).sum(-1)
        assert rows.tolist() == counts.groupby("id").sum().tolist()

    def test_order_of_examples_and_channels(self):
        table = long_table()
        whole, *_ = from_frame(table, **COLUMNS, variance=0.1)
        x, examples, channels = from_frame(
            table, **COLUMNS, variance=0.1, examples=["p3", "p9", "p1"], channels=["c", "a"]
        )
        assert examples == ["p3", "p9", "p1"] and channels == ["c", "a"]
        assert np.isinf(x["variance"][1]).all()
        for place, index in ((0, 2), (2, 0)):
            for channel, number in ((0, 2), (1, 0)):
                sums = [
                    values["values"][b, :, c].sum()
                    for values, b, c in ((x, place, channel), (whole, index, number))
                ]
                assert sums[0] == pytest.approx(sums[1], rel=1e-12)
        assert set(np.unique(x["variance"])) == {0.1, np.inf}

    def test_a_misspelt_channel_is_warned_of(self, recwarn):
        table = long_table()
        from_frame(table, **COLUMNS, variance=0.1, channels=["a", "b", "c", "new"])
        from_frame(table, **COLUMNS, variance=0.1, channels=["a", "b"])
        assert not recwarn.list  # nothing is left out; nothing is lacking
        message = r"no reading of \['A'\], and readings of \['a'\] are left out"
        with pytest.warns(UserWarning, match=message):
            from_frame(table, **COLUMNS, variance=0.1, channels=["A", "b", "c"])

    def test_one_channel_of_numbers(self):
        table = pd.DataFrame({"id": [2, 1, 2], "t": [3, 1, 0], "value": [5.0, 6.0, 7.0]})
        x, examples, channels = from_frame(table, example="id", points="t", value="value")
        assert examples == [1, 2] and channels == ["value"]
        assert x["points"][1, :, 0].tolist() == [0.0, 3.0]
        assert x["values"][1, :, 0].tolist() == [7.0, 5.0]
        assert x["variance"][0, :, 0].tolist() == [0.0, np.inf]

    @pytest.mark.parametrize(
        "change, arguments, error, message",
        [
            ({}, {"value": "v"}, ValueError, r"no column \['v'\]; it has \['id', 'x'"),
            ({"x": "now"}, {}, TypeError, "column 'x' holds .*each example's own start"),
            ({"x": np.nan}, {}, ValueError, "column 'x' is empty in the row 1, which"),
            ({"id": None}, {}, ValueError, "column 'id' is empty in the row 1, which"),
            ({"value": np.nan}, {}, ValueError, "column 'value' of frame holds no value"),
            ({}, {"examples": ["p1", "p1"]}, ValueError, "examples must name .* each once"),
            ({}, {"examples": [1, 2]}, ValueError, r"\[1, 2\], and none .* column 'id'.*'p"),
            ({}, {"channels": ["A", "B"]}, ValueError, "none of them is in the column 'what'"),
            ({}, {"channels": "heart"}, TypeError, "a list of names, found 'heart'"),
            ({}, {"channels": []}, ValueError, r"channels must name at least one .* found \[\]"),
            ({"noise": -1.0}, {"variance": "noise"}, ValueError, "variance.*-1"),
        ],
        ids=lambda value: str(value) if isinstance(value, dict) else "",
    )
    def test_what_is_refused(self, change, arguments, error, message):
        with pytest.raises(error, match=message):
            from_frame(long_table().assign(**change), **{**COLUMNS, **arguments})

    def test_no_table_is_refused(self):
        with pytest.raises(TypeError, match="frame must be a pandas DataFrame, found dict"):
            from_frame(dict(long_table()), **COLUMNS)
        table = long_table()
        table.columns = ["x" if name == "noise" else name for name in table.columns]
        with pytest.raises(ValueError, match=r"more than one column \['x'\]"):
            from_frame(table, **COLUMNS)
