"""PNCNN with output="field": kriging before training, and what training adds."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from field_support import dense, make, small, start, without_query

import tfpn
from tfpn.losses import GaussianNLL, crps, gaussian_nll


@pytest.mark.parametrize(
    "uncertainty, ard, trend",
    [("diagonal", False, "constant"), ("sampled", True, "linear"), ("none", (0, 0), "none")],
)
def test_an_untrained_network_is_a_gp_regression(uncertainty, ard, trend):
    """float32 of values of some 30: means to 1e-4 of them, variances to 1e-3."""
    model, x = start(uncertainty=uncertainty, ard=ard, trend=trend), make()
    found = model.predict(x, verbose=0)
    latent = model.predict_field(without_query(x), x["query"], noise=False)
    joint = model.predict_field(without_query(x), x["query"], noise=False, joint=True)
    for example in range(3):
        mean, covariance, noise = dense(model, x, example, 0)
        np.testing.assert_allclose(found[example, :, 0, 0], mean, rtol=1e-4)
        np.testing.assert_allclose(found[example, :, 0, 1], np.diag(covariance) + noise, rtol=1e-3)
        np.testing.assert_allclose(
            latent.variance()[example, :, 0], np.diag(covariance), rtol=1e-3, atol=1e-3 * noise
        )
        np.testing.assert_allclose(
            joint.covariance()[example, 0], covariance, atol=1e-3 * noise + 1e-3 * covariance.max()
        )


def test_channels_seen_at_different_points_have_priors_of_their_own():
    model, x = start(2, 2, input_noise="channel"), make(2, sporadic=True)
    assert model.length_scales.shape == (2, 2)
    found = model.predict(x, verbose=0)
    for example in range(3):
        for channel in range(2):
            mean, covariance, noise = dense(model, x, example, channel)
            np.testing.assert_allclose(found[example, :, channel, 0], mean, rtol=1e-4)
            expected = np.diag(covariance) + noise
            np.testing.assert_allclose(found[example, :, channel, 1], expected, rtol=1e-3)


def test_examples_may_have_variances_of_their_own():
    """The second example's values are twice as far from their level."""
    model, x = start(amplitude="example"), make()
    x["values"][1] = 2.0 * x["values"][1]
    found = model.predict(x, verbose=0)
    joint = model.predict_field(without_query(x), x["query"], noise=False, joint=True)
    factors = []
    for example in range(3):
        mean, covariance, noise = dense(model, x, example, 0)
        np.testing.assert_allclose(found[example, :, 0, 0], mean, rtol=1e-4)
        ratio = found[example, :, 0, 1] / (np.diag(covariance) + noise)
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-3)
        factors.append(ratio[0])
        expected = ratio[0] * covariance
        tolerance = 1e-3 * (noise + expected.max())
        np.testing.assert_allclose(joint.covariance()[example, 0], expected, atol=tolerance)
    assert factors[1] > 1.5 * factors[0]


def perturbed(**changes):
    """A model whose readout and other weights are off their start, and its input."""
    model, x = start(**changes), make()
    rng = np.random.default_rng(1)
    for weight in model.trainable_weights:
        weight.assign(np.asarray(weight) + rng.uniform(0.02, 0.1, weight.shape))
    return model, x


def test_the_joint_distribution_has_the_marginals():
    """And the network's part in its covariance. float32 against float64: 1e-3."""
    model, x = perturbed(ard=True)
    y = np.nan_to_num(np.random.default_rng(0).normal(25.0, 4.0, (3, 5, 1)))
    model.calibrate(x, y)
    for noise in (True, False):
        given = without_query(x), x["query"]
        marginal = model.predict_field(*given, noise=noise)
        joint = model.predict_field(*given, noise=noise, joint=True)
        np.testing.assert_allclose(joint.mean()[:, 0], marginal.mean()[..., 0], rtol=1e-6)
        np.testing.assert_allclose(joint.variance()[:, 0], marginal.variance()[..., 0], rtol=1e-5)
        covariance = joint.covariance().numpy()
        variances = np.diagonal(covariance, axis1=-2, axis2=-1)
        np.testing.assert_allclose(variances, joint.variance(), rtol=1e-3)
        assert np.linalg.eigvalsh(covariance).min() > -1e-6 * covariance.max()
        assert np.all(np.isfinite(joint.sample(2, seed=0)))


def test_draws_make_a_mixture_with_the_outputs_moments():
    model, x = perturbed(uncertainty="sampled", num_samples=6)
    found = model.predict(x, verbose=0)
    mixture = model.predict_field(without_query(x), x["query"])
    assert mixture.components_distribution.batch_shape == (3, 5, 1, 6)
    np.testing.assert_allclose(mixture.mean(), found[..., 0], rtol=1e-5)
    np.testing.assert_allclose(mixture.variance(), found[..., 1], rtol=1e-3)
    assert np.std(mixture.components_distribution.mean(), axis=-1).min() > 0.0
    for level in (0.025, 0.5, 0.975):  # float32, at some 30 with deviations of 3
        np.testing.assert_allclose(mixture.cdf(mixture.quantile(level)), level, atol=1e-5)


def test_losses_and_metrics_leave_out_missing_targets():
    """float32: 1e-5. The loss is in units of the input's deviation, metrics are not."""
    model, x = perturbed()
    y = np.random.default_rng(0).normal(25.0, 4.0, (3, 5, 1))
    y[0, 1] = y[2] = np.nan
    found = model.predict(x, verbose=0).astype(float)
    known, scale = np.isfinite(y), float(model.get_layer("units").scale[0])
    model.compile("adam", GaussianNLL(), metrics=["mse", crps])
    scores = model.evaluate(x, y, verbose=0, return_dict=True)
    expected = gaussian_nll(y, found)[known].numpy().mean() - np.log(scale)
    assert scores["task_loss"] == pytest.approx(expected, abs=1e-4)
    error = np.mean((y - found[..., 0])[known] ** 2)
    assert scores["mse"] == pytest.approx(error, rel=1e-4)
    assert scores["crps"] == pytest.approx(crps(y, found)[known].numpy().mean(), rel=1e-4)
    model.compile("adam", "mse")
    found = float(model.compute_loss(x, y.astype("float32"), model(x)))
    others = sum(map(float, model.losses))
    assert found - others == pytest.approx(error / scale**2, rel=1e-4)


def test_training_starts_at_kriging_and_can_leave_it():
    """The loss falls along its gradient in the readout, and then reaches the blocks."""
    model, x = start(), make()
    y = np.random.default_rng(0).normal(25.0, 4.0, (3, 5, 1)).astype("float32")
    model.compile(loss=GaussianNLL())
    readout, first = model.get_layer("readout").kernel, model.get_layer("conv_1").kernel

    def loss():
        return model.compute_loss(x, y, model(x, training=True))

    with tf.GradientTape(persistent=True) as tape:
        before = loss()
    gradient = tape.gradient(before, readout)
    np.testing.assert_array_equal(readout, 0.0)
    np.testing.assert_array_equal(tape.gradient(before, first), 0.0)
    readout.assign_sub(1e-3 * gradient / tf.norm(gradient))
    with tf.GradientTape() as tape:
        after = loss()
    # By the gradient's size times the step, to its first order.
    assert float(before - after) == pytest.approx(1e-3 * float(tf.norm(gradient)), rel=0.1)
    assert np.all(np.isfinite(gradient)) and np.any(tape.gradient(after, first))


def test_every_example_has_query_points_and_readings_of_its_own():
    """Alone, permuted or with padding an example has the same result. float32: 1e-4."""
    model, x = perturbed()
    found = model.predict(x, verbose=0)
    order = np.random.default_rng(0).permutation(12)
    for example in range(3):
        one = {key: array[example : example + 1] for key, array in x.items()}
        for key in ("points", "values", "variance"):
            one[key] = one[key][:, order]
        np.testing.assert_allclose(model.predict(one, verbose=0)[0], found[example], rtol=2e-4)
    hidden = {**x, "values": np.where(np.isinf(x["variance"]), np.nan, x["values"])}
    np.testing.assert_array_equal(model.predict(hidden, verbose=0), found)


def test_without_readings_the_prior_answers():
    model, x = perturbed()
    nothing = {**x, "variance": np.full_like(x["variance"], np.inf)}
    found = model.predict(nothing, verbose=0)
    assert np.all(np.isfinite(found))
    assert np.all(found[..., 1] > model.predict(x, verbose=0)[..., 1])


def test_ard_does_not_depend_on_the_coordinates_units(monkeypatch):
    """Metres for the first and milliseconds for the second: the same search, step by step."""
    monkeypatch.setattr(tfpn.models.field_start, "STEPS", 12)
    found = []
    for units in ([1.0, 1.0], [1000.0, 1e-3]):
        model, x = small(ard=True), make()
        for key in ("points", "query"):
            x[key] = x[key] * np.array(units, "float32")
        model.adapt(without_query(x))
        found.append((model.predict(x, verbose=0), model.length_scales / units))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-3)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-2)
    assert found[0][1][1] > 5.0 * found[0][1][0]  # a wave of 1.6 in the first, a slope of 30


def test_a_saved_model_is_the_same(tmp_path):
    model, x = perturbed(ard=(0, 1), trend="linear", kriging_kernel="matern32")
    model.compile("adam", GaussianNLL())
    model.save(tmp_path / "field.keras")
    again = keras.models.load_model(tmp_path / "field.keras")
    np.testing.assert_array_equal(again.predict(x, verbose=0), model.predict(x, verbose=0))
    np.testing.assert_array_equal(again.length_scales, model.length_scales)
    assert isinstance(again.loss, GaussianNLL)
    config = again.get_config()
    assert [config[key] for key in ("output", "ard", "trend", "kriging_kernel")] == [
        *("field", [0, 1], "linear", "matern32")
    ]


def test_features_and_their_process_are_those_of_the_points():
    """`feature_maps` takes query points in the user's coordinates. float32: 1e-3."""
    model, x = perturbed(ard=True)
    maps = model.feature_maps(without_query(x), x["points"])
    process = model.feature_process(without_query(x), "conv_1", x["query"])
    assert process.mean().shape == (3, 4, 5)
    scaled = x["points"] * model._field.factors()
    np.testing.assert_allclose(maps[0]["points"], scaled, rtol=1e-5)
    features = model._field.features_model(model.inputs_dict)(x)
    np.testing.assert_allclose(maps[0]["values"][:2], features["features_values"][:2], atol=1e-3)


def test_many_query_points_are_taken_in_pieces(monkeypatch):
    monkeypatch.setattr(tfpn.models.fields, "_AT_ONCE", 8)
    model, x = perturbed(uncertainty="sampled", num_samples=3)
    mixture = model.predict_field(without_query(x), x["query"])
    found = model.predict(x, verbose=0)
    np.testing.assert_allclose(mixture.mean(), found[..., 0], rtol=1e-5)
    assert mixture.components_distribution.batch_shape == (3, 5, 1, 3)


def test_float64_keeps_its_digits():
    model, x = start(dtype="float64"), make()
    x = {key: array.astype("float64") for key, array in x.items()}
    mean, covariance, noise = dense(model, x, 0, 0)
    found = model.predict_field(without_query(x), x["query"], noise=False)
    assert found.dtype == tf.float64
    np.testing.assert_allclose(found.mean()[0, :, 0], mean, rtol=1e-8)
    np.testing.assert_allclose(found.variance()[0, :, 0], np.diag(covariance), atol=1e-8 * noise)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"num_outputs": None}, "output='field' predicts num_outputs channels"),
        ({"ard": (0, 2)}, r"ard must be True, False or 2 whole numbers"),
        ({"ard": 3.5}, r"ard must be True, False or 2 whole numbers"),
        ({"pooling": (0, 1)}, "output='field' needs pooling='space', found"),
        ({"trend": "cubic"}, "trend must be one of"),
        ({"output": "map"}, "output must be one of"),
        ({"observation_noise": None}, "observation_noise"),
        ({"output": "pooled", "ard": True}, "found output='pooled'"),
    ],
)
def test_bad_arguments_are_named(changes, message):
    arguments = {"num_outputs": 1, "output": "field", **changes}
    with pytest.raises(ValueError, match=message):
        tfpn.models.PNCNN(None, **arguments)


def test_misuse_is_explained():
    model, x = small(), make()
    with pytest.raises(ValueError, match="query: found the shape"):
        model.predict({**x, "query": x["query"][..., :1]}, verbose=0)
    with pytest.raises(ValueError, match="takes a dict with the keys"):
        model.predict(without_query(x), verbose=0)
    model.compile("adam", GaussianNLL())
    with pytest.raises(ValueError, match=r"y has the shape \(3, 4, 1\)"):
        model.fit(x, np.zeros((3, 4, 1)), verbose=0)
    with pytest.raises(ValueError, match="y is inf"):
        model.fit(x, np.full((3, 5, 1), np.inf), verbose=0)
    plain = tfpn.models.PNCNN(2, channels=2, num_blocks=1)
    with pytest.raises(ValueError, match="predict_field works for models of fields only"):
        plain.predict_field(without_query(x), x["query"])
    for query in (x["query"][:2], x["query"][:0], x["query"][0], np.zeros(0)):
        with pytest.raises(ValueError, match="query: found the shape"):
            model.predict_field(without_query(x), query)
    for large in (1e20, 1e39):
        far = np.where(np.arange(5)[:, None] == 3, large, x["query"].astype(float))
        with pytest.raises(ValueError, match="example 0, point 3 .* squares float32 cannot hold"):
            model.predict_field(without_query(x), far)
    nothing = {**without_query(x), "variance": np.full_like(x["variance"], np.inf)}
    with pytest.raises(ValueError, match="x holds no reading"):
        model.adapt(nothing)


@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_values_may_be_of_any_size(unit):
    x = make()
    plain, other = small(), small()
    plain.adapt(without_query(x), fit_priors=False)
    x["values"] = x["values"] * np.float32(unit)
    with pytest.warns(UserWarning, match="values: the standard deviation of channel 0"):
        other.adapt(without_query(x), fit_priors=False)
    expected = plain.predict_field({**without_query(x), "values": x["values"] / unit}, x["query"])
    found = other.predict_field(without_query(x), x["query"])
    np.testing.assert_allclose(found.mean() / unit, expected.mean(), rtol=1e-4)
    np.testing.assert_allclose(found.stddev() / unit, expected.stddev(), rtol=1e-3)


@pytest.mark.parametrize("changes", [{}, {"conditioning": "local", "block_size": 4}])
def test_no_query_point_has_an_empty_prediction(changes):
    model, x = start(**changes), make()
    found = model.predict_field(without_query(x), x["query"][:, :0])
    assert found.mean().shape == found.stddev().shape == (3, 0, 1)


def test_no_query_point_has_an_empty_joint_distribution():
    model, x = start(), make()
    found = model.predict_field(without_query(x), x["query"][:, :0], joint=True)
    assert found.mean().shape == (3, 1, 0) and found.covariance().shape == (3, 1, 0, 0)


def test_many_examples_can_be_adapted_to():
    """The network starts from some of them, the units come from all."""
    rng = np.random.default_rng(0)
    values = rng.normal(3.0, 2.0, (300, 3))
    x = tfpn.observations(rng.uniform(size=(300, 3, 1)), values)
    model = tfpn.models.PNCNN(
        None, num_outputs=1, output="field", spatial_dim=1, channels=2, num_blocks=1, num_basis=2
    )
    model.adapt(x, fit_priors=False, verbose=0)
    np.testing.assert_allclose(model.get_layer("units").offset, [values.mean()], rtol=1e-5)
    assert np.isfinite(model.predict_field(x, x["points"][:, :1]).stddev()).all()


def test_many_priors_are_fitted_to_more_than_a_handful_of_examples():
    """A few records may all be constant in a channel; a fit to these alone is far too sure."""
    rng = np.random.default_rng(0)
    where = np.tile(np.linspace(0.0, 1.0, 100), (60, 1))[..., None]
    values = rng.normal(size=(60, 100, 20))
    seen = np.ones((60, 100), bool)
    chosen = tfpn.models.field_start._chosen(where, values, np.zeros_like(values), seen, 20, 0)
    assert chosen[0].shape[:2] == (32, 45)  # the work of three whole examples
    whole = tfpn.models.field_start._chosen(where, values, np.zeros_like(values), seen, 1, 0)
    assert whole[0].shape[:2] == (60, 100)
