"""The benchmark of starts: what it drops, and that its starts are what they are called."""

import pathlib
import sys

import keras
import numpy as np
import pytest

import tfpn

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "benchmarks"))
import starts

pytestmark = pytest.mark.usefixtures("eagerly")


def data(examples=12):
    rng = np.random.default_rng(0)
    times = np.tile(np.arange(20.0)[None, :, None], (examples, 1, 1))
    values = np.sin(times / 5 + rng.uniform(0, 6, size=(examples, 1, 2)))
    values[0, 15:] = np.nan
    return tfpn.observations(times, values), np.arange(examples) % 2


def test_thinned_keeps_a_share_of_each_channel():
    x, _ = data()
    found = starts.thinned(x, 0.8, 0)
    seen = np.isfinite(found["variance"])
    assert not np.any(seen & ~np.isfinite(x["variance"]))
    expected = np.full((12, 2), 4)
    expected[0] = 3
    np.testing.assert_array_equal(seen.sum(axis=1), expected)
    np.testing.assert_array_equal(found["values"][seen], x["values"][seen])
    assert np.all(found["values"][~seen] == 0.0)
    again = starts.thinned(x, 0.8, 1)
    assert np.any(np.isfinite(again["variance"]) != seen)


def test_starts_are_what_they_are_called():
    x, y = data()
    lengths, models = {}, {}
    for start in starts.STARTS:
        keras.utils.set_random_seed(0)
        model = models[start] = starts.build("GunPoint", x, y)
        spacing, lengths[start] = starts.begin(model, x, start)
        assert spacing == pytest.approx(1.0)

    def prior(start, layer="conv_1"):
        return np.exp(models[start].get_layer(layer).log_length_scale.numpy())

    def unit(start, layer="conv_1"):
        return float(np.exp(models[start].get_layer(layer).log_flow_unit.numpy()))

    assert lengths["spacing"] == pytest.approx(1.0)
    fitted = lengths["fitted"]
    assert fitted > 3.0
    for start in ("length", "half", "layers", "half_layers"):
        np.testing.assert_allclose(prior(start), prior("fitted"), rtol=1e-6)
    half = min(fitted / 2, 3.0)
    expected = {"spacing": 1.0, "fitted": 1.0, "length": fitted, "half": half, "units": 1.0}
    for start, length in expected.items():
        assert unit(start) == pytest.approx(length, rel=1e-5), start
    step = 19.0 / starts.QUERY
    assert unit("fitted", "conv_2") == pytest.approx(step, rel=1e-5)
    assert unit("units", "conv_2") == 1.0
    np.testing.assert_allclose(
        *(models[s].get_layer("conv_2").flow_parameters()[0] for s in ("units", "fitted")),
        rtol=1e-5, atol=1e-6,
    )  # fmt: skip
    assert prior("layers", "conv_2") != pytest.approx(prior("fitted", "conv_2"), rel=1e-3)
    for layer in ("conv_1", "conv_2"):
        np.testing.assert_allclose(prior("units", layer), prior("spacing", layer), rtol=1e-6)
