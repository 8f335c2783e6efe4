"""The estimators of scikit-learn's kind: labels, weights, cross-validation, targets in any unit."""

import warnings

import keras
import numpy as np
import pandas as pd
import pytest
import sklearn.model_selection
from habits_support import CLOSE, LOSS
from sklearn.exceptions import NotFittedError

import tfpn
from tfpn.wrappers import PNClassifier, PNRegressor, pack, unpack


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


def build(outputs, regression=False, channels=2, pooling="space", optimizer="adam"):
    keras.utils.set_random_seed(0)
    kind = {"num_classes": None, "num_outputs": outputs} if regression else {"num_classes": outputs}
    kind |= {"channels": channels, "pooling": pooling}
    model = tfpn.models.PNCNN(**kind, num_blocks=1, num_basis=1, spatial_dim=1)
    optimizer = keras.optimizers.get({"class_name": optimizer, "config": {"learning_rate": 0.1}})
    model.compile(optimizer, "mse" if regression else LOSS)
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
            estimator = PNClassifier(build, fit_kwargs={"epochs": 1, "class_weight": weights})
            return estimator.fit(pack(x), y).history_["loss"]

        expected = losses(codes, {0: 0.0, 1: 1.0, 2: 5.0})
        assert losses(labels, {"ill": 0.0, "well": 5.0}) == pytest.approx(expected, rel=1e-6)
        assert losses(codes + 7, {7: 0.0, 9: 5.0}) == pytest.approx(expected, rel=1e-6)
        plain = losses(labels, None)
        assert plain[0] != pytest.approx(expected[0], rel=1e-2)
        with pytest.raises(ValueError, match=r"keys \['sick'\], which are not labels; y has"):
            losses(labels, {"sick": 2.0})
        with pytest.raises(ValueError, match=r"keys \[0\], which are not labels; y has"):
            losses(codes + 7, {0: 2.0, 7: 1.0})
        # n / (K n_k)
        balanced = losses(codes, {0: 16 / 18, 1: 16 / 15, 2: 16 / 15})
        assert losses(labels, "balanced") == pytest.approx(balanced, rel=1e-6)
        assert balanced != pytest.approx(plain, rel=1e-6)

    def test_a_model_for_a_function(self):
        with pytest.raises(TypeError, match="model is a PNCNN; give a function"):
            PNClassifier(build(2)).fit(np.zeros((2, 6, 3)), [0, 1])

    def test_one_class(self):
        with pytest.raises(ValueError, match=r"y holds only the class \['a'\]"):
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
        arguments = {"regression": True, "pooling": (0.0, 1.0), "optimizer": "sgd"}
        first, second = (PNRegressor(build, arguments, {"epochs": 3}) for _ in range(2))
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            warnings.filterwarnings("ignore", "Even though the `tf.config")  # eager
            first.fit(X, y)
            second.fit(X, 1e5 - 5e4 * y)
        # Float32; with Adam, its rounding would move parameters whose gradients are 0 but for it.
        mean, deviation = first.predict(X, return_std=True)
        found, scaled = second.predict(X, return_std=True)
        np.testing.assert_allclose((1e5 - found) / 5e4, mean, atol=1e-4)
        np.testing.assert_allclose(scaled / 5e4, deviation, rtol=1e-3)
        score = first.score(X, y)
        assert score > 0.3 and second.score(X, 1e5 - 5e4 * y) == pytest.approx(score, abs=1e-4)

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
            ValueError, match=r"validation_data has the labels \['up'\], which are not in y"
        ):
            estimator.fit(X, y, validation_data=(X[:2], ["up", "rising"]))
        series = PNRegressor(Recorder)
        series.fit(X, codes, validation_data=(X[:5], codes[:5]))
        held, targets = series.model_.fitted[2]["validation_data"]
        assert targets.shape == (5, 1) and held["points"].shape == (5, 6, 1)
        with pytest.raises(ValueError, match=r"targets of the shape \(5, 2\), but y has \[B, \]"):
            series.fit(X, codes, validation_data=(X[:5], np.zeros((5, 2))))

    def test_thinned_training(self):
        x, y = waves(40)
        X, weights = pack(x), np.arange(1.0, 41.0)
        estimator = PNClassifier(Recorder, fit_kwargs={"batch_size": 30}, thin=(0.2, 0.6))
        estimator.fit(X, y, sample_weight=weights, validation_split=0.25)
        batches, none, arguments = estimator.model_.fitted
        (held, codes, held_weights), anew = arguments["validation_data"], arguments["callbacks"][0]
        assert none is None and len(batches) == 1 and len(codes) == 10
        # The held-back ones are whole, with their labels and weights.
        place = [int(np.argwhere((x["points"] == p).all((1, 2)))[0, 0]) for p in held["points"]]
        for key in x:
            np.testing.assert_array_equal(held[key], x[key][place])
        np.testing.assert_array_equal(codes, y[place])
        np.testing.assert_array_equal(held_weights, weights[place])
        seen = []
        for epoch in (0, 1):
            anew.on_epoch_begin(epoch, {})
            given, labels, given_weights = batches[0]
            order = given_weights.astype(int) - 1
            assert sorted([*order, *place]) == list(range(40))
            np.testing.assert_array_equal(labels, y[order])
            before = np.isfinite(x["variance"][order])
            seen.append(np.isfinite(given["variance"]))
            assert not (seen[-1] & ~before).any()
            assert 0.3 < seen[-1].sum() / before.sum() < 0.65
        assert not np.array_equal(*seen)
        trained = PNClassifier(build, thin=(0.2, 0.6)).fit(X, y, epochs=2, batch_size=20)
        assert len(trained.history_["loss"]) == 2
        again = PNClassifier(build, thin=(0.2, 0.6)).fit(X, y, epochs=2, batch_size=20)
        assert again.history_["loss"] == pytest.approx(trained.history_["loss"], rel=1e-6)
        with pytest.raises(ValueError, match="shuffle=False does not go with thin"):
            estimator.fit(X, y, shuffle=False)
        with pytest.raises(ValueError, match="keep: found 0.5; give two shares"):
            PNClassifier(Recorder, thin=0.5).fit(X, y)

    @pytest.mark.parametrize("options", [{}, {"thin": (0.2, 0.6)}])
    def test_weights_of_another_length(self, options):
        x, y = waves(8)
        estimator = PNClassifier(Recorder, fit_kwargs={"validation_split": 0.25}, **options)
        for count in (5, 50):
            with pytest.raises(ValueError, match="inconsistent numbers of samples"):
                estimator.fit(pack(x), y, sample_weight=np.ones(count))

    def test_thinning_drops_whole_channels(self):
        rng = np.random.default_rng(0)
        x = tfpn.observations(rng.uniform(size=(60, 6, 1)), rng.normal(size=(60, 6, 3)))
        y = np.arange(60) % 2
        options = {"fit_kwargs": {"batch_size": 60}, "thin": (1.0, 1.0), "drop_channels": 0.4}
        batches = PNClassifier(Recorder, **options).fit(pack(x), y).model_.fitted[0]
        seen = np.isfinite(batches[0][0]["variance"])
        dead = ~seen.any(1)
        # All readings of a channel or none. 7/8 of the examples lose 0.4 of their channels, less
        # those that would lose all: (0.4 - 0.4 ** 3 / 3) * 7/8 = 0.33, with four standard errors.
        np.testing.assert_array_equal(seen.all(1), ~dead)
        assert abs(dead.mean() - 0.33) < 4 * np.sqrt(0.33 * 0.67 / 180)
        with pytest.raises(ValueError, match="drop_channels needs thin"):
            PNClassifier(Recorder, drop_channels=0.4).fit(pack(x), y)
        with pytest.raises(ValueError, match=r"drop_channels: found 1.5; give a probability below"):
            PNClassifier(Recorder, thin=(1.0, 1.0), drop_channels=1.5).fit(pack(x), y)

    @pytest.mark.parametrize("kind", [PNClassifier, PNRegressor])
    def test_the_observations_dict_is_packed(self, kind):
        x, labels = waves()
        y = labels if kind is PNClassifier else 2.0 * labels
        options = {"model_kwargs": {"regression": kind is PNRegressor}}
        fitted = [kind(build, **options).fit(given, y, epochs=1) for given in (x, pack(x))]
        scores = [fitted[0].score(given, y) for given in (x, pack(x))]
        scores.append(fitted[1].score(pack(x), y))
        assert scores[0] == scores[1] == scores[2]
        np.testing.assert_array_equal(fitted[0].predict(x), fitted[1].predict(pack(x)))
        with pytest.raises(ValueError, match="variance: example 0.*negative"):
            fitted[0].predict({**x, "variance": x["variance"] - 1.0})

    def test_number_of_features(self):
        x, y = waves()
        estimator = PNClassifier(build)
        assert not hasattr(estimator, "n_features_in_")
        assert estimator.fit(pack(x), y).n_features_in_ == 3
        with pytest.raises(ValueError, match="X has 5 features .* is expecting 3 features"):
            estimator.predict(np.zeros((2, 6, 5)))
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            estimator.fit(pack(x), y[:7])
        # A fit begins anew, with other channels, too.
        wide = np.concatenate([pack(x), pack(x)[..., 1:]], axis=-1)
        again = PNClassifier(Recorder).fit(pack(x), y)
        assert again.fit(wide, y).n_features_in_ == wide.shape[-1] == 5

    @pytest.mark.parametrize("thin", [None, (0.2, 0.6)])
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"validation_split": 1.5}, "validation_split must be .*found 1.5"),
            ({"validation_split": 1.0}, "validation_split must be .*found 1.0"),
            ({"validation_data": (np.zeros((2, 6, 3)),)}, "validation_data .*found no y"),
        ],
    )
    def test_bad_validation_is_named(self, thin, arguments, message):
        x, y = waves()
        with pytest.raises(ValueError, match=message):
            estimator = PNClassifier(Recorder, thin=thin)
            estimator.fit(pack(x), y, **arguments)
        with pytest.raises(NotFittedError):  # not weights that nothing has trained
            estimator.predict(pack(x))


class Recorder:
    """In a model's place: keeps what its `fit` is given."""

    def __init__(self, outputs):
        self.inputs_dict = {"points": np.zeros((0, 0, 1))}

    def adapt(self, x, targets=None):
        pass

    def get_config(self):
        return {"input_noise": "channel"}

    def fit(self, x, y=None, **arguments):
        self.fitted = x, y, arguments
        return keras.callbacks.History()
