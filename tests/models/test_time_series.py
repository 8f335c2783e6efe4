"""PNTimeSeries: what must not matter, options and saving."""

import inspect

import keras
import numpy as np
import pytest
import slow_gp
import tensorflow as tf
from time_series_support import (
    CHANNELS,
    EXACT,
    KEYS,
    every_option,
    inputs,
    layer_output,
    outputs,
    small,
    split,
)

import tfpn
from tfpn.models import PNTimeSeries
from tfpn.models.time_series_inputs import KnownSeries
from tfpn.spacing import point_spacing
from tfpn.training import ShuffledBatches


@every_option
def test_rows_and_padding_do_not_matter(options):
    model = small(**options)
    x = inputs(model)
    expected = outputs(model, x)
    rng = np.random.default_rng(2)
    np.testing.assert_allclose(outputs(model, split(x, rng)), expected, **EXACT)
    shuffled = rng.permutation(9)
    moved = {key: x[key][:, shuffled] if key in KEYS else x[key] for key in x}
    np.testing.assert_allclose(outputs(model, moved), expected, **EXACT)
    padded = dict(x)
    for key, fill in (("points", np.nan), ("values", np.nan), ("variance", np.inf)):
        padded[key] = np.pad(x[key], [(0, 0), (2, 3), (0, 0)], constant_values=fill)
    hidden = {**padded, "values": np.where(np.isinf(padded["variance"]), np.nan, padded["values"])}
    np.testing.assert_allclose(outputs(model, hidden), expected, **EXACT)


@every_option
def test_the_order_of_channels_moves_with_the_weights(options):
    model, other = small(**options), small(**options)
    x = inputs(model)
    order = np.array([2, 0, 1])
    names = {"conv_1": ("kernel", "log_observation_noise")}
    if options.get("input_prior") != "shared":
        names["conv_1"] += ("log_signal_std", "log_length_scale", "log_value_unit")
    if options.get("missingness") == "intensity":
        names["conv_readings"] = ("kernel",)
    for layer, weights in names.items():
        for name in weights:
            weight = getattr(other.get_layer(layer), name)
            axis = 1 if name == "kernel" else 0
            weight.assign(np.take(weight, order, axis=axis))
    if options.get("missingness") == "counts":
        rows = {"head": 4 * options.get("windows", 1)}  # where the counts begin
        if options.get("context") == "both":
            rows["known"] = 0
        for layer, row in rows.items():
            kernel = other.get_layer(layer).kernel.numpy()
            kernel[row : row + CHANNELS] = kernel[row : row + CHANNELS][order]
            other.get_layer(layer).kernel.assign(kernel)
    moved = {**x, **{key: x[key][..., order] for key in ("values", "variance")}}
    np.testing.assert_allclose(outputs(other, moved), outputs(model, x), **EXACT)


@every_option
def test_gradients_are_finite(options):
    """Exact readings too, and records with one reading or none."""
    model = small(dtype="float32", perturbed=False, **options)
    x = inputs(model)
    x["variance"] = np.where(np.isfinite(x["variance"]), 0.0, np.inf)
    model.adapt(x)
    with tf.GradientTape() as tape:
        given = {key: tf.constant(array, tf.float32) for key, array in x.items()}
        logits = model(given, training=True)
        loss = tf.reduce_sum(tf.square(logits)) + tf.add_n(model.losses)
    for weight, gradient in zip(
        model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True
    ):
        assert np.all(np.isfinite(gradient)), weight.path


@pytest.mark.graphs  # sixty steps
def test_it_learns_with_class_weights():
    model = small(
        dtype="float32", perturbed=False, num_blocks=1, query=7, missingness="counts", num_statics=2
    )
    x = {key: array.astype("float32") for key, array in inputs(model, examples=30).items()}
    y = np.arange(30) % 2
    x["values"] += 1.5 * y[:, None, None]
    model.adapt(x)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.05), loss)
    batches = ShuffledBatches(x, y, 15, seed=0, by_length=True)
    weights = {0: 1.0, 1: 2.0}
    history = model.fit(batches, shuffle=False, class_weight=weights, epochs=30, verbose=0).history
    assert history["loss"][-1] < 0.5 * history["loss"][0]
    found = model.predict_proba(x)
    np.testing.assert_allclose(found.sum(-1), 1.0, rtol=1e-5)
    assert np.mean(found.argmax(-1) == y) > 0.9


def test_class_weights_multiply_the_loss():
    model = small(marginal_likelihood_weight=0, num_blocks=1, query=5, dtype="float32")
    x, y = inputs(model), np.array([0, 1, 1, 0, 1])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.0), loss, run_eagerly=True)
    found = model.fit(x, y, class_weight={0: 1.0, 1: 3.0}, verbose=0).history["loss"][0]
    # Normalisation takes the batch's own statistics in training.
    trained = np.asarray(model(x, training=True))
    each = np.log(np.exp(trained).sum(-1)) - trained[np.arange(5), y]
    assert found == pytest.approx(np.mean(each * np.array([1, 3, 3, 1, 3])), rel=1e-4)


def test_counts_and_statics_reach_the_head_as_they_should():
    model = small(missingness="counts", num_statics=2)
    x = inputs(model)
    pooled = layer_output(model, x, "beside")
    beside = pooled["values"][:, 4:]
    counts = np.log1p(np.isfinite(x["variance"]).sum(1))
    known = np.isfinite(x["statics_variance"])
    statics = np.where(known, x["statics"], 0.0)
    np.testing.assert_allclose(beside, np.concatenate([counts, statics, known], -1), rtol=1e-12)
    np.testing.assert_array_equal(pooled["variance"][:, 4:], 0.0)
    unknown = {**x, "statics": np.where(known, x["statics"], np.nan)}
    np.testing.assert_array_equal(outputs(model, unknown), outputs(model, x))


def test_readings_are_known_at_every_time():
    model = small(missingness="intensity")
    x = split(inputs(model), np.random.default_rng(3))
    found = model.get_layer("readings")(x, *model.get_layer("entry_weights")(x))
    for example in range(5):
        seen = np.isfinite(x["variance"][example])
        times = np.unique(x["points"][example][seen.any(-1)])
        known = np.isfinite(found["variance"][example]).all(-1)
        assert known.sum() == len(times) and np.all(
            np.isin(found["variance"][example], [0, np.inf])
        )
        for time, indicators in zip(
            found["points"][example].numpy()[known, 0],
            found["values"][example].numpy()[known],
            strict=True,
        ):
            rows = x["points"][example][:, 0] == time
            np.testing.assert_array_equal(indicators, seen[rows].any(0))


def test_the_grid_lies_in_the_middles():
    model = small(query=4)
    x = inputs(model)
    features = layer_output(model, x, "conv_1")
    np.testing.assert_allclose(features["points"][1, :, 0], [0.5, 1.5, 2.5, 3.5], rtol=1e-12)
    assert np.all(np.isfinite(features["variance"]))


def test_input_process_is_the_posterior_of_each_channel():
    model = small()
    x = inputs(model)
    query = np.array([[[0.3], [1.0], [2.2]]])
    found = model.input_process(x, query)
    layer = model.get_layer("conv_1")
    scales = [np.exp(np.asarray(t)) for t in (layer.log_signal_std, layer.log_length_scale)]
    noise = np.exp(2 * np.asarray(layer.log_observation_noise))
    for c in range(CHANNELS):
        mean, variance, _ = slow_gp.convolve(
            x["points"], x["values"][..., c : c + 1], x["variance"][..., c : c + 1],
            np.repeat(query, 5, axis=0), weights=np.ones((1, 1, 1)), drift=np.zeros((1, 1)),
            diffusion=np.zeros((1, 1, 1)), signal_std=scales[0][c], length_scale=scales[1][c],
            noise="channel", observation_variance=noise[c : c + 1],
        )  # fmt: skip
        np.testing.assert_allclose(found.mean()[:, c], mean[..., 0], rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(found.variance()[:, c], variance[..., 0], rtol=1e-8, atol=1e-9)
    with pytest.raises(ValueError, match=r"query has shape \(3, 1\); expected \[5, M, 1\]"):
        model.input_process(x, query[0])


@every_option
def test_feature_maps_at_the_queried_times_are_those_of_the_network(options):
    model = small(**options)
    x = inputs(model)
    query = x["points"] if model.get_config()["query"] == "union" else None
    if query is None:
        query = np.tile((np.arange(7)[:, None] + 0.5) * 4 / 7, (5, 1, 1))
    maps = model.feature_maps(x, query)
    assert len(maps) == 2
    for block, found in enumerate(maps, start=1):
        expected = layer_output(model, x, f"norm_{block}")
        known = np.isfinite(expected["variance"])
        np.testing.assert_allclose(
            found["values"].numpy()[known], expected["values"][known], **EXACT
        )
        np.testing.assert_allclose(
            found["variance"].numpy()[known], expected["variance"][known], **EXACT
        )


@every_option
def test_saving_keeps_everything(options, tmp_path):
    model = small(**options)
    x = inputs(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.get_config() == model.get_config()
    np.testing.assert_array_equal(outputs(loaded, x), outputs(model, x))


def test_configuration_holds_every_argument():
    names = set(inspect.signature(PNTimeSeries.__init__).parameters) - {"self"}
    assert names == set(small().get_config())


def test_known_series_are_the_limit_of_a_convolution():
    """Constants and the time, read almost exactly, through a GP so smooth that it continues them.

    A noise of a thousandth bounds the condition number by 9 * 100^2 / 1e-6 = 1e11.
    """
    rng = np.random.default_rng(0)
    points = np.linspace(0.0, 4.0, 9)[None, :, None]
    values = np.concatenate([np.ones_like(points), points / 2.0 - 1.0], axis=-1)
    weights, drift = rng.normal(size=(3, 2, 4)), rng.uniform(-0.3, 0.3, size=(3, 1))
    mean, variance, _ = slow_gp.convolve(
        points, values, np.full_like(values, 1e-6), points, weights=weights, drift=drift,
        diffusion=np.full((3, 1, 1), 0.05), signal_std=100.0, length_scale=40.0, noise="shared",
    )  # fmt: skip
    layer = KnownSeries((0.0, 4.0), dtype="float64")
    zeros = np.zeros((1, 9, 4))
    features = {"points": points, "values": zeros, "variance": zeros}
    constants = np.ones((1, 1))
    layer(features, constants)
    layer.kernel.assign(weights.sum(0))
    bias = (weights[:, 1] * drift / 2.0).sum(0)  # the time's shift by the drifts
    found = layer(features, constants)
    # Where the series bend away from the GP's prior mean: (4 / 40)^2.
    np.testing.assert_allclose(found["values"] + bias, mean, atol=0.02)
    assert np.max(variance) < 0.02


def test_windows_add_up_to_the_stay():
    model = small(perturbed=False, windows=4, query=7)
    x = inputs(model)
    features = layer_output(model, x, "norm_2")
    layer = tfpn.layers.IntegralPooling(
        box=(0.0, 4.0), spacing=0.5, observation_noise=0.1, dtype="float64"
    )
    whole = layer(features)["values"]
    parts = layer_output(model, x, "joined")["values"].reshape(len(whole), 4, -1)
    np.testing.assert_allclose(parts.sum(1), whole, **EXACT)  # each in units of its window, 1


def test_regression_calibrates():
    model = small(None, num_outputs=1)
    x = inputs(model, examples=20)
    rng = np.random.default_rng(0)
    y = 30.0 * rng.normal(size=20)  # more than the network's own variance, whatever its weights
    before = model.predict_distribution(x).variance().numpy()
    model.calibrate(x, y)
    after = model.predict_distribution(x)
    assert np.mean((y - after.mean()[:, 0]) ** 2 / after.variance()[:, 0]) == pytest.approx(
        1.0, abs=0.2
    )
    assert np.all(before < after.variance())


def test_feature_process_agrees_with_the_layer():
    model = small(missingness="intensity")
    x = inputs(model)
    query = np.array([[[0.5], [2.0]]])
    for name in ("conv_1", "conv_readings", "conv_2"):
        process = model.feature_process(x, name, query)
        assert process.mean().shape == (5, 4, 2)
    first = model.get_layer("conv_1")(x, np.repeat(query, 5, axis=0))
    found = model.feature_process(x, "conv_1", query)
    np.testing.assert_allclose(np.swapaxes(found.mean(), 1, 2), first["values"], **EXACT)


def test_adapt_starts_grids_from_their_step_and_warns_of_times_outside():
    model = small(query=4, perturbed=False, missingness="intensity")
    x = inputs(model)
    model.adapt(x)
    for name in ("conv_2", "pooling"):
        scale = float(np.exp(model.get_layer(name).log_length_scale))
        assert scale == pytest.approx(1.0, rel=1e-6)
    assert np.ptp(model.get_layer("conv_1").log_length_scale) > 0
    spacing = point_spacing(x["points"], x["variance"])
    assert 0.5 < spacing < 1.0
    fine = small(query=8, perturbed=False)
    fine.adapt(x)
    coarse = small(query=1, perturbed=False, missingness="intensity")
    coarse.adapt(x)
    # Channels are read less often than once in a step of 1, and more often than in a step of 4.
    for layer, unit in (
        (model.get_layer("conv_1"), spacing),
        (coarse.get_layer("conv_1"), 4.0),
        (coarse.get_layer("conv_readings"), 4.0),
        (fine.get_layer("conv_1"), spacing),
    ):
        drift = layer.flow_parameters()[0]
        np.testing.assert_allclose(sorted(np.ravel(drift)), [-unit, 0.0, unit], rtol=1e-6)
    outside = {**x, "points": x["points"] * 12}
    with pytest.warns(UserWarning, match=r"% of the points lie outside pooling=\[0.0, 4.0\]"):
        model.adapt(outside)


def test_channels_read_together_may_share_all():
    model = small(input_noise="shared", input_prior="shared", uncertainty="low_rank", rank=2)
    rng = np.random.default_rng(0)
    x = tfpn.observations(rng.uniform(0, 4, size=(2, 6, 1)), rng.normal(size=(2, 6, CHANNELS)), 0.1)
    assert outputs(model, x).shape == (2, 2)
