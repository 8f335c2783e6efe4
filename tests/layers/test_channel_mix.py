"""Mixing of channels: variance of independent channels, partly observed points, arguments."""

import numpy as np
import pytest
from layer_harness import CASES, make_input
from tolerance import rounding

from tfpn.layers import ChannelMix


def test_moments_of_independent_channels_against_monte_carlo():
    rng = np.random.default_rng(0)
    x = {
        "points": np.zeros((1, 2, 1)),
        "values": rng.normal(size=(1, 2, 3)),
        "variance": rng.uniform(0.1, 2.0, size=(1, 2, 3)),
    }
    layer = CASES["mix"].built(x)
    output = layer(x)
    count = 200_000
    noise = np.sqrt(x["variance"]) * rng.normal(size=(count, 2, 3))
    samples = (x["values"] + noise) @ np.asarray(layer.kernel) + np.asarray(layer.bias)
    error = samples.std(0) / np.sqrt(count)
    assert (np.abs(output["values"][0] - samples.mean(0)) < 4 * error).all()
    deviation = (samples - samples.mean(0)) ** 2
    error = deviation.std(0) / np.sqrt(count)
    assert (np.abs(output["variance"][0] - deviation.mean(0)) < 4 * error).all()


def test_partly_observed_point_comes_out_unobserved():
    x = make_input(sporadic=True)
    output = CASES["mix"].built(x)(x)
    partly = np.isinf(x["variance"]).any(-1)
    assert partly.sum() == 11  # 3 partly observed, 8 padding
    assert np.isposinf(np.asarray(output["variance"])[partly]).all()
    assert (np.asarray(output["values"])[partly] == 0).all()
    assert np.isfinite(np.asarray(output["variance"])[~partly]).all()


def test_without_bias():
    x = make_input()
    layer = ChannelMix(3, use_bias=False, dtype="float64")
    output = layer(x)
    assert [weight.name for weight in layer.weights] == ["kernel"]
    # One matrix product of two channels.
    expected, terms = x["values"] @ layer.kernel, np.abs(x["values"]) @ np.abs(layer.kernel)
    assert np.all(np.abs(output["values"] - expected) <= rounding(2) * terms)


@pytest.mark.parametrize("filters", [0, -1, 1.5, True])
def test_bad_filters(filters):
    with pytest.raises(ValueError, match=f"filters must be a positive whole number.*{filters}"):
        ChannelMix(filters)
