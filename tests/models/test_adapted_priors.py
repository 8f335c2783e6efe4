"""`adapt` fits the first convolution's prior, in every model, and says how it goes."""

import re
import warnings

import keras
import numpy as np
import pytest

import tfpn
from tfpn import progress
from tfpn.fitting import fit_prior
from tfpn.spacing import point_spacing


def smooth(rng, dim=1, channels=1, examples=12, points=20):
    """Smooth signals of the length scale 0.2 or so, read with the noise 0.1."""
    where = rng.uniform(size=(examples, points, dim))
    phase = rng.uniform(0, 6, size=(examples, 1, channels))
    values = 3.0 * np.sin(5.0 * where.sum(-1, keepdims=True) + phase)
    return tfpn.observations(where, values + 0.1 * rng.normal(size=values.shape))


def plain(**options):
    return tfpn.models.PNCNN(2, channels=2, num_blocks=2, num_basis=2, **options)


def series(**options):
    options = {"in_channels": 3, "query": 5, "pooling": (0.0, 1.0), **options}
    return tfpn.models.PNTimeSeries(2, channels=2, num_blocks=2, num_basis=2, **options)


def turning(**options):
    return tfpn.models.SteerablePNCNN(
        2, copies=1, num_blocks=1, num_basis=1, frequencies=(0, 1), **options
    )


def learned(model):
    """The first convolution's length scale, signal and noise."""
    found = tfpn.callbacks.learned_parameters(model)
    names = "length_scale", "signal_std", "observation_noise"
    return [found.get(f"conv_1/{name}") for name in names]


def fitted(x, **options):
    found = fit_prior(*(x[key] for key in ("points", "values", "variance")), **options)
    return [found.length_scale, found.signal_std, found.observation_noise]


def assert_learned(model, expected):
    for found, value in zip(learned(model), expected, strict=True):
        np.testing.assert_allclose(found, np.reshape(value, np.shape(found)), rtol=1e-5)


def test_the_plain_model_has_the_fitted_prior():
    x = smooth(np.random.default_rng(0), dim=2, channels=2)
    model = plain(in_channels=2, spacing=0.3, kernel="matern52")
    model.adapt(x)
    assert_learned(model, fitted(x, kernel="matern52"))
    spacing = point_spacing(x["points"], x["variance"])
    assert learned(model)[0] > 1.2 * spacing


@pytest.mark.parametrize(("count", "longest"), [(4, "step"), (40, "spacing")])
def test_flows_reach_from_one_place_of_a_grid_to_the_next(count, longest):
    """The first layer's start at the step or, on a fine grid, at the readings' spacing."""
    x = smooth(np.random.default_rng(0), dim=2, points=60)
    model = plain(query=count, pooling=(0.0, 1.0))
    model.adapt(x, verbose=0)
    units = {"step": 1.0 / count, "spacing": point_spacing(x["points"], x["variance"])}
    assert units[longest] == max(units.values())
    first, second, *_ = model.pn_layers
    for layer, start in ((first, units[longest]), (second, 1.0 / count)):
        drifts = np.abs(layer.flow_parameters()[0])
        np.testing.assert_allclose(drifts.max(), start, rtol=1e-5)
    assert_learned(model, fitted(x))


def test_without_a_noise_none_is_fitted():
    x = smooth(np.random.default_rng(0), dim=2)
    model = plain(observation_noise=None)
    model.adapt(x)
    assert learned(model)[2] is None
    found = fit_prior(x["points"], x["values"], x["variance"], fit_noise=False)
    np.testing.assert_allclose(learned(model)[0], found.length_scale[0], rtol=1e-5)


def test_each_channel_of_a_series_has_its_own_and_one_that_is_never_read_its_start():
    x = smooth(np.random.default_rng(1), channels=3)
    x["variance"][..., 2] = np.inf
    x["values"][..., 2] = 0.0
    model = series()
    model.adapt(x)
    expected = fitted(x, priors=range(3), noises=range(3))
    assert np.isnan(expected[0][2])
    model_before = series()
    model_before.adapt(x, fit_priors=False)
    for found, value, start in zip(learned(model), expected, learned(model_before), strict=True):
        np.testing.assert_allclose(found[:2], value[:2], rtol=1e-5)
        assert found[2] == pytest.approx(start[2])


def test_a_series_with_one_prior_has_noises_of_its_channels():
    x = smooth(np.random.default_rng(2), channels=3)
    model = series(input_prior="shared")
    model.adapt(x)
    assert learned(model)[0].shape == () and learned(model)[2].shape == (3,)
    assert_learned(model, fitted(x, noises=range(3)))


def test_a_turning_model_has_one_noise_for_the_components_of_a_field():
    x = smooth(np.random.default_rng(3), dim=2, channels=3)
    x["variance"][:, :3, 1:] = np.inf  # of the vector
    x["values"][:, :3, 1:] = 0.0
    model = turning(in_fields={0: 1, 1: 1}, input_noise="channel", seed=0)
    model.adapt(x)
    assert learned(model)[2].shape == (2,)
    assert_learned(model, fitted(x, noises=[0, 1, 1]))


def test_what_it_prints(capsys, monkeypatch):
    x = smooth(np.random.default_rng(1), channels=3)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    for verbose in ("auto", 0):
        series().adapt(x, verbose=verbose)
        out, err = capsys.readouterr()
        assert out == ""
        assert re.search("adapt: 3 priors in", err) if verbose else err == ""
    with pytest.raises(ValueError, match=r"verbose must be one of \('auto', 0, 1, 2\), found 3"):
        series().adapt(x, verbose=3)


def test_warns_of_white_noise_by_channel():
    rng = np.random.default_rng(1)
    x = smooth(rng, channels=3)
    x["values"][..., 1] = rng.normal(size=(12, 20))
    model = series()
    with pytest.warns(UserWarning, match=r"the channels \[1\] look independent"):
        model.adapt(x)
    spacing = point_spacing(x["points"], x["variance"])
    assert learned(model)[0][1] == pytest.approx(0.5 * spacing, rel=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        series().adapt(x, fit_priors=False)


def test_warns_of_means_far_from_zero():
    """Beside a mean of 300 the prior's noise, 0.1 in truth, starts above that."""
    x = smooth(np.random.default_rng(1), channels=3)
    x["values"] += np.array([0.0, 300.0, 15.0], x["values"].dtype)
    x["values"][..., 2] *= 1e-15
    model = series()
    with pytest.warns(UserWarning, match=r"means far from 0.*: 1 \(300, 2\.\d+\)\. The priors"):
        model.adapt(x)
    x["values"][..., 1] = 300.0  # a constant
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.adapt(x, fit_priors=False)
        # Of a vector field there is no constant to subtract.
        where = np.random.default_rng(2).uniform(size=(4, 9, 2))
        turning(in_fields={1: 1}).adapt(tfpn.observations(where, where + 300), fit_priors=False)
    with pytest.warns(UserWarning, match=r"means far from 0.*: 0 \(30"):
        scalar = tfpn.observations(where, where[..., :1] + 300)
        turning(in_fields={0: 1}).adapt(scalar, fit_priors=False)


def test_warns_of_channels_of_unlike_size_that_share_a_prior():
    x = smooth(np.random.default_rng(1), channels=3)
    x["values"] *= np.array([1.0, 5e-3, 1.0], x["values"].dtype)
    with pytest.warns(UserWarning, match=r"in channel \d and 0\.0\d+ in channel 1\. One prior"):
        plain(spatial_dim=1, in_channels=3).adapt(x, fit_priors=False)
    x["values"][..., 1] *= 10.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain(spatial_dim=1, in_channels=3).adapt(x, fit_priors=False)
        x["values"][..., 1] = 0.0  # never anything else: no size to go by
        plain(spatial_dim=1, in_channels=3).adapt(x, fit_priors=False)


@pytest.mark.parametrize(("length", "level"), [(1e-12, 1e-15), (1e12, 1e15)])
def test_tiny_and_huge_units_in_float32(length, level):
    x = smooth(np.random.default_rng(4), dim=2)
    one, two = plain(), plain()
    one.adapt(x)
    scaled = {
        "points": x["points"] * np.float32(length),
        "values": x["values"] * np.float32(level),
        "variance": x["variance"],
    }
    two.adapt(scaled)
    found, expected = learned(two), learned(one)
    # Float32 holds logarithms of up to 35 to 2e-6.
    np.testing.assert_allclose(found[0] / length, expected[0], rtol=1e-4)
    for k in (1, 2):
        np.testing.assert_allclose(found[k] / level, expected[k], rtol=1e-4)


def test_more_is_known_between_the_readings():
    """The mean at points that were left out, with the fitted prior and with the spacing's."""
    keras.utils.set_random_seed(0)
    x = smooth(np.random.default_rng(5), examples=40)
    errors = []
    for fit in (False, True):
        model = series(in_channels=1)
        model.adapt(x, fit_priors=fit)
        kept = {key: array.copy() for key, array in x.items()}
        kept["variance"][:, ::2] = np.inf
        left_out = x["points"][:, ::2]
        found = model.input_process(kept, left_out).mean().numpy()[:, 0]
        errors.append(np.sqrt(np.mean((found - x["values"][:, ::2, 0]) ** 2)))
    assert errors[1] < 0.6 * errors[0]
