"""PNCNN does not depend on the units of its data, and adapt says what is wrong with them."""

import keras
import numpy as np
import pytest
from pncnn_support import make_batch, small

import tfpn
from tfpn.models.inputs import are_merged


@pytest.mark.parametrize("box", [False, True])
def test_outputs_do_not_depend_on_the_unit_of_the_points(box):
    x = make_batch(np.float64)

    def logits(scale):
        keras.utils.set_random_seed(0)
        model = small(pooling=(0.0, scale) if box else "space", dtype="float64")
        scaled = {**x, "points": scale * x["points"]}
        model.adapt(scaled)
        return np.asarray(model(scaled))

    for scale in (1e-8, 1e3, 1e8):
        # Rounding of the scaled coordinates, through two ill-conditioned blocks.
        np.testing.assert_allclose(logits(scale), logits(1.0), rtol=1e-8, atol=1e-10)


def test_box_of_arrays_is_saved_and_loaded(tmp_path):
    x = make_batch()
    low, high = x["points"].min(axis=(0, 1)), x["points"].max(axis=(0, 1))
    model = small(pooling=(low, high))
    model.adapt(x)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(x), model(x))


@pytest.mark.parametrize("pooling", ["sum", (1.0, 0.0), 0.5, ("a", "b"), (0.0, np.inf)])
def test_bad_pooling(pooling):
    with pytest.raises(ValueError, match="pooling must be 'space' or a box"):
        small(pooling=pooling)


def test_adapt_warns_far_from_the_origin():
    x = make_batch()
    with pytest.warns(UserWarning, match="subtract an origin.*float64"):
        small().adapt({**x, "points": x["points"] + np.float32(1e6)})


def test_adapt_refuses_points_that_its_dtype_merges():
    """It made intervals of 95 % that hold two thirds of the readings."""
    rng = np.random.default_rng(0)
    x = tfpn.observations(1e7 + rng.uniform(-10, 10, (1, 100, 2)), rng.normal(size=(1, 100)))
    with pytest.raises(ValueError, match="float32 resolves 1.2, but .*: subtract an origin"):
        small().adapt(x)


def test_points_are_merged_where_values_of_a_coordinate_become_one():
    rng = np.random.default_rng(0)
    places = rng.uniform(size=(2000, 2))
    assert not are_merged(1e5 + 1e3 * places, 20.0, "float32")  # many, but far from each other
    assert are_merged(1e7 + places, 0.02, "float32") and not are_merged(1e7 + places, 1, "float64")
    # Hours from long ago beside near places, which set the spacing.
    hours = np.column_stack([0.01 * places, 1e5 + 0.37 + np.arange(2000.0)])
    assert not are_merged(hours, 1e-3, "float32")


@pytest.mark.parametrize("unit", [1e30, 1e-30])
def test_adapt_wants_a_unit_that_can_be_squared(unit):
    x = make_batch()
    with pytest.raises(ValueError, match="apart, whose square float32 cannot hold"):
        small().adapt({**x, "points": x["points"] * np.float32(unit)})


def test_adapt_checks_its_data():
    with pytest.raises(TypeError, match="data must be the observations dict.*found NoneType"):
        small().adapt(None)
    x = make_batch(channels=2, sporadic=True)
    with pytest.raises(ValueError, match="input_noise='channel'"):
        small(in_channels=2).adapt(x)
    small(in_channels=2, input_noise="channel").adapt(x)
    with pytest.raises(ValueError, match="channel"):
        small(in_channels=3, input_noise="channel").adapt(x)
    negative = make_batch()
    negative["variance"][0, 0] = -1.0
    with pytest.raises(ValueError, match="variance"):
        small().adapt(negative)


@pytest.mark.parametrize("variance", [np.nan, -1.0])
@pytest.mark.parametrize("noise", ["shared", "channel"])
def test_layers_refuse_a_bad_variance(variance, noise):
    x = make_batch()
    x["variance"][0, 0] = variance
    for layer in (
        tfpn.layers.PNConv(2, 2, noise=noise),
        tfpn.layers.IntegralPooling(noise=noise),
    ):
        with pytest.raises(Exception, match="variance is negative or NaN"):
            layer(x)


def test_one_query_serves_all_examples():
    x = make_batch()
    model = small()
    maps = model.feature_maps(x, x["points"][:1])
    assert maps[-1]["values"].shape == (5, 7, 4)
    every = model.feature_maps(x, np.repeat(x["points"][:1], 5, axis=0))
    np.testing.assert_array_equal(maps[0]["values"], every[0]["values"])
