"""Ways to carry uncertainty that others add."""

import dataclasses

import numpy as np
import pytest

import tfpn
from tfpn.math.posterior import NOISE, NoiseForm
from tfpn.math.uncertainty import UNCERTAINTY, Diagonal

SIZES = {"channels": 2, "num_blocks": 1, "num_basis": 2}


@dataclasses.dataclass(frozen=True)
class Doubled(Diagonal):
    def convolve(self, observed, operator, beside, missing):
        mean, variance, beside, nll = super().convolve(observed, operator, beside, missing)
        return mean, 2 * variance, beside, nll


@dataclasses.dataclass(frozen=True)
class Elsewhere(Diagonal):
    def activate(self, activation, values, variance, beside, missing):
        return values, variance, beside


@pytest.fixture
def x():
    rng = np.random.default_rng(0)
    return tfpn.observations(rng.uniform(size=(2, 6, 2)), rng.normal(size=(2, 6)))


def test_a_steerable_way_is_known_when_it_is_added(eagerly, monkeypatch, x):
    monkeypatch.setitem(UNCERTAINTY, "doubled", Doubled)
    layers = [
        tfpn.layers.SteerablePNConv({0: 1}, uncertainty=way, frequencies=(0, 1), seed=0)
        for way in ("diagonal", "doubled")
    ]
    once, twice = (layer(x)["variance"] for layer in layers)
    assert once.shape == twice.shape


def test_a_way_that_other_layers_would_not_know_is_refused(eagerly, monkeypatch, x):
    monkeypatch.setitem(UNCERTAINTY, "elsewhere", Elsewhere)
    with pytest.raises(TypeError, match="Elsewhere has its own activate.*set a key of its own"):
        tfpn.models.PNCNN(2, uncertainty="elsewhere", pooling=((0, 0), (1, 1)), **SIZES)(x)


def test_a_form_of_noise_of_all_channels_works_where_shared_noise_does(eagerly, monkeypatch, x):
    monkeypatch.setitem(NOISE, "mine", NoiseForm(NOISE["shared"].posterior))
    with pytest.raises(ValueError, match="prior must be one of"):
        tfpn.layers.PNConv(2, prior="mine")
    layers = [tfpn.layers.PNConv(2, 2, noise=noise, uncertainty="low_rank", dtype="float64")
              for noise in ("shared", "mine")]  # fmt: skip
    layers[0](x)
    layers[1](x)
    layers[1].set_weights(layers[0].get_weights())
    np.testing.assert_array_equal(layers[0](x)["variance"], layers[1](x)["variance"])
