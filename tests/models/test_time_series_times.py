"""PNTimeSeries: its results are continuous in the times of the readings."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfpn
from tfpn.models import PNTimeSeries

CHANNELS = 3
# Signals of length scale 0.3 and coefficients of order 1 change by some 1e-7 / 0.3 over 1e-7, and
# by ten times as much where noise of 0.1 is what keeps neighbours apart.
GAP, NEAR = 1e-7, {"rtol": 1e-5, "atol": 5e-6}
# Sums in another order, conditioning 1e4 (noise variances of 0.01), float64.
EQUAL = {"rtol": 1e-9, "atol": 1e-10}

OPTIONS = [
    {"missingness": missingness, "query": query}
    for missingness, query in itertools.product(("none", "counts", "intensity"), ("union", 6))
] + [
    {"missingness": "counts", "context": "both", "clock": True, "windows": 2},
    {"pooling": "space"},
    {"uncertainty": "none", "input_prior": "shared"},
]


def small(options):
    keras.utils.set_random_seed(0)
    model = PNTimeSeries(
        2, in_channels=CHANNELS, channels=4, num_blocks=2, num_basis=3, dtype="float64",
        **{
            "query": "union", "pooling": (0.0, 4.0), "spacing": 0.3,
            "marginal_likelihood_weight": 1.0, **options,
        },
    )  # fmt: skip
    rng = np.random.default_rng(1)
    for weight in model.weights:
        weight.assign(np.asarray(weight) + rng.uniform(0.02, 0.1, weight.shape))
    return model


def listed(gap, rows):
    """Two records; at each time two channels, in one row or two that are ``gap`` apart."""
    rng = np.random.default_rng(0)
    points, values = [], []
    for times in (np.array([1.3]), rng.uniform(0, 4, size=5)):
        pairs = np.full((len(times), 2, CHANNELS), np.nan)
        pairs[:, 0, 0], pairs[:, 1, 2] = rng.normal(size=(2, len(times)))
        if rows == 1:
            points.append(times[:, None])
            values.append(np.fmax(*np.moveaxis(pairs, 1, 0)))
        else:
            points.append((times[:, None] + [0.0, gap]).reshape(-1, 1))
            values.append(pairs.reshape(-1, CHANNELS))
    return tfpn.observations(points, values, 0.01)


def results(model, x):
    """Logits, in training too, and the losses of the likelihoods."""
    given = {key: tf.constant(array) for key, array in x.items()}
    logits, before = model(given).numpy(), model.get_weights()
    trained = model(given, training=True).numpy()
    model.set_weights(before)  # the running averages
    return logits, trained, np.array([float(loss) for loss in model.losses])


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(map(str, o.values())))
def test_readings_at_nearly_one_time_are_as_at_one_time(options):
    model = small(options)
    one_row = results(model, listed(0.0, rows=1))
    for found, expected in zip(results(model, listed(0.0, rows=2)), one_row, strict=True):
        np.testing.assert_allclose(found, expected, **EQUAL)
    for gap in (GAP, -GAP):
        for found, expected in zip(results(model, listed(gap, rows=2)), one_row, strict=True):
            np.testing.assert_allclose(found, expected, **NEAR)


@pytest.mark.parametrize("uncertainty", ["diagonal", "low_rank", "joint"])
def test_a_repeated_reading_of_all_channels_counts_the_same_nearby(uncertainty):
    model = small({"input_noise": "shared", "input_prior": "shared", "uncertainty": uncertainty})
    rng = np.random.default_rng(0)
    times, values = rng.uniform(0, 4, size=(1, 5, 1)), rng.normal(size=(1, 10, CHANNELS))

    def found(gap):
        return results(
            model, tfpn.observations(np.concatenate([times, times + gap], 1), values, 0.01)
        )

    for near, at in zip(found(GAP), found(0.0), strict=True):
        np.testing.assert_allclose(near, at, **NEAR)


def test_results_change_in_small_steps_as_two_times_part():
    """From one time to two in 22 steps: a jump would put the whole change into one of them."""
    model = small({"missingness": "intensity"})
    width = float(np.exp(model.get_layer("entry_weights").log_width))
    gaps = width * np.linspace(0.0, 1.1, 23)
    each = [listed(gap, rows=2) for gap in gaps]
    logits = model({key: np.concatenate([x[key] for x in each]) for key in each[0]}).numpy()
    logits = logits.reshape(len(gaps), -1)
    steps = np.abs(np.diff(logits, axis=0)).max(axis=1)
    whole = np.abs(logits[-1] - logits[0]).max()
    assert whole > 0.01 and steps.max() < 0.5 * whole


def test_gradients_by_times_are_those_of_differences():
    """Between the width of one time and none, where weights change fastest."""
    model = small({"missingness": "intensity"})
    width = float(np.exp(model.get_layer("entry_weights").log_width))
    x = {k: tf.constant(a) for k, a in listed(0.5 * width, rows=2).items()}
    with tf.GradientTape() as tape:
        tape.watch(x["points"])
        total = tf.reduce_sum(tf.square(model(x)))
    gradient = tape.gradient(total, x["points"]).numpy()
    step = 1e-4 * width
    moved = np.zeros(x["points"].shape)
    moved[1, 3, 0] = step
    differences = [
        float(tf.reduce_sum(tf.square(model({**x, "points": x["points"] + sign * moved}))))
        for sign in (1, -1)
    ]
    expected = (differences[0] - differences[1]) / (2 * step)
    assert gradient[1, 3, 0] == pytest.approx(expected, rel=1e-4, abs=1e-5)
    at_once = {k: tf.constant(a) for k, a in listed(0.0, rows=2).items()}
    with tf.GradientTape() as tape:
        tape.watch(at_once["points"])
        total = tf.reduce_sum(tf.square(model(at_once)))
    assert np.all(np.isfinite(tape.gradient(total, at_once["points"])))


@pytest.mark.parametrize("query", ["union", 6])
def test_adapt_takes_channels_read_one_after_the_other_for_read_at_once(query):
    """Three channels at each time: weights as with one row a time, to the times' own change.

    From gaps of a hundredth of the length scale on, the readings' indicators tell them apart, but
    scales stay as they are: to a tenth, as times that are half as near count by degrees.
    """
    rng = np.random.default_rng(0)
    # No two times of a record are nearer than three tenths of what is typical.
    times = np.sort(rng.uniform(0.0, 0.35, size=(6, 8, 1)) + 0.5 * np.arange(8)[:, None], axis=1)
    values = rng.normal(size=(6, 8, CHANNELS))
    options = {"missingness": "intensity", "pooling": "space", "dtype": "float64"}
    if query != "union":
        options |= {"query": query, "pooling": (0.0, 5.0)}

    def adapted(points, values):
        model = PNTimeSeries(
            2, in_channels=CHANNELS, channels=2, num_blocks=2, num_basis=3, **options
        )
        model.adapt(tfpn.observations(points, values))
        drawn = ("kernel", "bias")
        return {w.path: w.numpy() for w in model.weights if not w.path.endswith(drawn)}

    expected = adapted(times, values)
    apart = np.where(np.eye(CHANNELS, dtype=bool), values[:, :, None], np.nan).reshape(6, 24, -1)
    for gap, tolerance in ((0.0, 1e-12), (GAP, 1e-5), (1e-4, 1e-3), (2e-3, 0.02), (1e-2, 0.1)):
        rows = (times + gap * np.arange(CHANNELS)).reshape(6, 24, 1)
        for path, found in adapted(rows, apart).items():
            if gap <= 1e-4 or not path.startswith("conv_readings/log_"):
                np.testing.assert_allclose(
                    found, expected[path], rtol=tolerance, atol=tolerance, err_msg=path
                )


def test_a_model_of_all_times_can_be_made_again():
    model = small({"missingness": "intensity"})
    clone = type(model).from_config(model.get_config())
    clone.set_weights(model.get_weights())
    x = listed(0.0, rows=2)
    np.testing.assert_allclose(clone(x), model(x), **EQUAL)


@pytest.mark.parametrize(("query", "unit"), [(24, 1 / 60), (4, 1 / 4)])
def test_flows_start_at_the_step_if_channels_are_read_more_often(query, unit):
    """Three channels in turn, each at steps of 1/20: all readings together are at steps of 1/60."""
    times = (np.arange(60) + 0.5) / 60
    values = np.full((3, 60, 3), np.nan)
    rng = np.random.default_rng(0)
    for channel in range(3):
        values[:, channel::3, channel] = rng.normal(size=(3, 20))
    x = tfpn.observations(np.tile(times[None, :, None], (3, 1, 1)), values)
    model = tfpn.models.PNTimeSeries(in_channels=3, channels=2, num_blocks=1, query=query)
    model.adapt(x, fit_priors=False, verbose=0)
    # The spacing is that of points in float32.
    layer = model.get_layer("conv_1")
    assert np.exp(layer.log_flow_unit) == pytest.approx(layer.flow_unit(unit), rel=1e-5)
