"""Regression with means and variances as outputs, ``output="normal"``."""

import keras
import numpy as np
import pytest

import tfpn

SETTINGS = {"channels": 4, "num_blocks": 1, "num_basis": 3, "pooling": (0.0, 1.0)}


def make(count=64, seed=0, outputs=1):
    """Readings of random lines, and their slopes, times -1 for a second output."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(size=(count, 12, 1))
    slopes = rng.normal(size=(count, 1, 1))
    values = slopes * (points - 0.5) + 0.1 * rng.normal(size=points.shape)
    y = 20.0 + 3.0 * slopes[:, 0] * [1.0, -1.0][:outputs]
    return tfpn.observations(points, values, variance=0.01), y


def build(kind=tfpn.models.PNCNN, num_outputs=1, **options):
    keras.utils.set_random_seed(0)
    if kind is tfpn.models.PNCNN:
        options = {"spatial_dim": 1, **options}
    return kind(None, num_outputs=num_outputs, output="normal", **{**SETTINGS, **options})


class TestOutputs:
    @pytest.mark.parametrize("uncertainty", ["none", "diagonal", "sampled"])
    def test_are_those_of_pooled_features(self, uncertainty):
        x, y = make(16, outputs=2)
        model = build(num_outputs=2, uncertainty=uncertainty, dtype="float64", num_samples=5)
        model.adapt(x, y, verbose=0)
        pooled = model._moments.predict(x, verbose=0)
        kernel, bias = (np.asarray(w) for w in (model._head.kernel, model._head.bias))
        offset, scale = model._unit()
        expected = np.empty((16, 2, 2))
        for example, output in np.ndindex(16, 2):
            if uncertainty == "sampled":
                rows = pooled["draws"][example]
            else:
                rows = pooled["values"][example : example + 1]
            means = [row @ kernel[:, output] + bias[output] for row in rows]
            logs = [row @ kernel[:, 2 + output] + bias[2 + output] for row in rows]
            variance = np.mean(np.exp(10 * np.tanh(np.array(logs) / 10))) + np.var(means)
            if uncertainty != "sampled":
                variance += pooled["variance"][example] @ kernel[:, output] ** 2
            mean = offset[output] + scale[output] * np.mean(means)
            expected[example, output] = mean, scale[output] ** 2 * variance
        np.testing.assert_allclose(model.predict(x, verbose=0), expected, rtol=1e-6)

    @pytest.mark.parametrize("pooling", [(0.0, 1.0), "space"])
    def test_distribution_has_the_same_moments(self, pooling):
        x, y = make(8)
        model = build(pooling=pooling)
        model.adapt(x, y, verbose=0)
        outputs = model.predict(x, verbose=0)
        found = model.predict_distribution(x, verbose=0)
        assert model.finite_variance
        np.testing.assert_allclose(found.mean(), outputs[..., 0], rtol=1e-5)
        # `multivariate_normal` adds a jitter of 1e-6.
        np.testing.assert_allclose(found.variance(), outputs[..., 1], rtol=1e-5)

    def test_of_few_readings_are_less_certain_before_training(self):
        x, y = make(8)
        model = build()
        model.adapt(x, y, verbose=0)
        few = {**x, "variance": np.where(np.arange(12)[:, None] < 3, x["variance"], np.inf)}
        kernel = np.asarray(model._head.kernel)
        kernel[:, 1] = 0.0  # the same noise for every example
        model._head.kernel.assign(kernel)
        whole, part = (model.predict(some, verbose=0)[..., 1] for some in (x, few))
        assert np.all(part > whole)


class TestTraining:
    def test_learns_a_noise_that_depends_on_the_example(self):
        rng = np.random.default_rng(1)
        count = 400
        x = tfpn.observations(
            np.tile(np.linspace(0, 1, 6)[None, :, None], (count, 1, 1)),
            np.tile(rng.choice([-1.0, 1.0], size=(count, 1, 1)), (1, 6, 1)),
            variance=0.01,
        )
        loud = x["values"][:, 0, 0] > 0
        y = np.where(loud, 4.0, 1.0) * rng.normal(size=count) + 100.0
        model = build(marginal_likelihood_weight=0.0)
        model.adapt(x, y, verbose=0)
        model.compile(keras.optimizers.Adam(0.02), tfpn.losses.GaussianNLL(), metrics=["mae"])
        history = model.fit(x, y, epochs=30, verbose=0).history
        assert history["loss"][-1] < history["loss"][0]
        deviation = np.sqrt(model.predict(x, verbose=0)[:, 0, 1])
        # 200 numbers each give a standard deviation to 5 %, and the two share weights.
        assert deviation[loud].mean() == pytest.approx(y[loud].std(), rel=0.15)
        assert deviation[~loud].mean() == pytest.approx(y[~loud].std(), rel=0.15)

    def test_leaves_out_targets_that_were_not_measured(self):
        x, y = make(8, outputs=2)
        y[3, 1] = np.nan
        model = build(num_outputs=2)
        model.adapt(x, y, verbose=0)
        model.compile("sgd", tfpn.losses.GaussianNLL(), metrics=["mae"])
        outputs = model.predict(x, verbose=0)
        found = model.evaluate(x, y, verbose=0, return_dict=True)
        seen, scale = np.isfinite(y), np.nanstd(y, axis=0)
        z = (y - outputs[..., 0]) / scale
        variance = outputs[..., 1] / scale**2
        nll = 0.5 * (np.log(2 * np.pi * variance) + z**2 / variance)
        assert found["task_loss"] == pytest.approx(nll[seen].mean(), rel=1e-5)
        assert found["mae"] == pytest.approx(np.abs(y - outputs[..., 0])[seen].mean(), rel=1e-5)

    @pytest.mark.parametrize("kind", [tfpn.models.PNCNN, tfpn.models.PNTimeSeries])
    def test_is_calibrated_saved_and_frozen(self, kind, tmp_path):
        x, y = make(32)
        model = build(kind)
        model.adapt(x, y, verbose=0)
        model.calibrate(x, y, verbose=0)
        found = model.predict_distribution(x, verbose=0)
        ratios = (y - found.mean().numpy()) / found.stddev().numpy()
        assert np.sqrt(np.mean(np.square(ratios))) == pytest.approx(1.0, rel=0.02)
        model.save(tmp_path / "model.keras")
        again = keras.models.load_model(tmp_path / "model.keras")
        for other in (again, tfpn.exporting.FrozenModel(model)):
            same = other.predict_distribution(x)
            np.testing.assert_allclose(same.mean(), found.mean(), rtol=1e-5)
            np.testing.assert_allclose(same.variance(), found.variance(), rtol=1e-4)

    def test_as_an_estimator(self):
        x, y = make(32)

        def create(num_outputs):
            model = build(num_outputs=num_outputs)
            model.compile("adam", tfpn.losses.GaussianNLL())
            return model

        estimator = tfpn.wrappers.PNRegressor(create, fit_kwargs={"verbose": 0}).fit(x, y[:, 0])
        mean, deviation = estimator.predict(x, return_std=True)
        outputs = estimator.model_.predict(x, verbose=0)
        assert mean.shape == deviation.shape == (32,)
        np.testing.assert_allclose(estimator.predict(x), outputs[:, 0, 0])
        np.testing.assert_allclose(deviation, np.sqrt(outputs[:, 0, 1]), rtol=1e-5)


def test_needs_outputs():
    with pytest.raises(ValueError, match="output='normal' .* num_outputs"):
        tfpn.models.PNCNN(3, output="normal", spatial_dim=1)


class TestLossesOfMeans:
    @pytest.mark.parametrize("outputs", [1, 2])
    @pytest.mark.parametrize("reduction", ["sum_over_batch_size", "sum"])
    def test_takes_keras_losses_and_metrics_as_ones_of_means(self, outputs, reduction):
        x, y = make(8, outputs=outputs)
        model = build(num_outputs=outputs)
        model.adapt(x, y, verbose=0)
        loss = keras.losses.MeanSquaredError(reduction=reduction)
        metrics = ["mae", "r2_score", keras.metrics.CosineSimilarity()]
        model.compile("sgd", loss, metrics=metrics)
        mean = model.predict(x, verbose=0)[..., 0]
        found = model.evaluate(x, y, verbose=0, return_dict=True)
        squares = np.mean(np.square((y - mean) / y.std(axis=0)), axis=-1)
        wanted = squares.sum() if reduction == "sum" else squares.mean()
        assert found["task_loss"] == pytest.approx(wanted, rel=1e-5)
        assert found["mae"] == pytest.approx(np.abs(y - mean).mean(), rel=1e-5)
        explained = 1 - np.sum((y - mean) ** 2, 0) / np.sum((y - y.mean(0)) ** 2, 0)
        # Keras subtracts squares of some 400 in float32 to get a variance of 9.
        assert found["r2_score"] == pytest.approx(explained.mean(), abs=5e-5)
        norms = np.linalg.norm(y, axis=-1) * np.linalg.norm(mean, axis=-1)
        cosine = np.sum(y * mean, axis=-1) / norms
        assert found["cosine_similarity"] == pytest.approx(cosine.mean(), rel=1e-5)

    def test_gives_functions_of_ones_own_means_and_variances(self):
        x, y = make(8)
        model = build()
        model.adapt(x, y, verbose=0)

        def likelihood(y, outputs):
            return tfpn.losses.gaussian_nll(y, outputs)

        model.compile("sgd", likelihood, metrics=["mae", likelihood])
        outputs = model.predict(x, verbose=0)
        found = model.evaluate(x, y[:, 0], verbose=0, return_dict=True)
        error, variance = y - outputs[..., 0], outputs[..., 1]
        assert found["mae"] == pytest.approx(np.abs(error).mean(), rel=1e-5)
        nll = 0.5 * (np.log(2 * np.pi * variance) + error**2 / variance)
        assert found["likelihood"] == pytest.approx(nll.mean(), rel=1e-5)
        # The loss is in units of the targets' scale.
        assert found["task_loss"] == pytest.approx(nll.mean() - np.log(y.std()), rel=1e-5)


@pytest.mark.parametrize("unit", [1e-20, 1e20])
def test_names_targets_whose_variance_the_dtype_does_not_hold(unit):
    x, y = make(8)
    with pytest.raises(ValueError, match="give them in another unit"):
        build().adapt(x, y * unit, verbose=0)
