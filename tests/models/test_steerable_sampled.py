"""SteerablePNCNN with draws: equivariant in law, mixtures of logits and fields, saving."""

import dataclasses

import keras
import numpy as np
import pytest
import slow_steerable
from scipy import special

import tfpn
from equivariance import SO2
from tfpn.math.uncertainty import Sampled
from tfpn.models import SteerablePNCNN

DISC = {"centre": [0.5, 0.5], "radius": 0.6}
IN, HIDDEN, POOLED = ((0, 1), (1, 1)), ((0, 3), (1, 3)), ((0, 9),)


def data(dtype="float64", examples=3, points=8, channels=3):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(examples, points, channels))
    x = tfpn.observations(rng.uniform(size=(examples, points, 2)), values, 0.05)
    x["variance"][0, -2:] = np.inf
    return {key: value.astype(dtype) for key, value in x.items()}


def with_query(x, count=5):
    query = np.random.default_rng(1).uniform(size=(len(x["points"]), count, 2))
    return {**x, "query": query.astype(x["points"].dtype)}


def small(num_classes=3, **changes):
    keras.utils.set_random_seed(0)
    arguments = {"copies": 3, "num_blocks": 1, "num_basis": 1, "frequencies": (0, 1)}
    arguments |= {"spacing": 0.3, "seed": 1, "in_fields": IN, "uncertainty": "sampled"}
    arguments |= {"num_samples": 4, "num_waves": 16, "dtype": "float64"}
    return SteerablePNCNN(num_classes, **{**arguments, **changes})


@pytest.fixture
def turn_draws(monkeypatch):
    """A function that lets all layers make the draws of the unturned input, turned.

    It takes an angle, and the types of the layers' inputs in the order of their streams.
    """
    plain = Sampled._waves, Sampled._noise

    def turn(angle, types):
        matrix = slow_steerable.representation(((1, 1),))(angle)
        by_stream = [slow_steerable.representation(fields)(angle) for fields in types]

        def rho_of(way):
            return by_stream[(int(way.seed[0]) >> 12) - 1]

        def waves(self, observed, beside):
            rho = rho_of(self)
            before = dataclasses.replace(observed, points=observed.points @ matrix)
            found = plain[0](self, before, beside)
            return dataclasses.replace(
                found,
                frequencies=found.frequencies @ matrix.T,
                amplitudes=found.amplitudes @ rho.T,
                centre=found.centre @ matrix.T,
            )

        def noise(self, points, known, std, values, samples, channels):
            rho = rho_of(self)
            values = None if values is None else values @ rho
            found = plain[1](self, points @ matrix, known, std, values, samples, channels)
            return found @ rho.T

        monkeypatch.setattr(Sampled, "_waves", waves)
        monkeypatch.setattr(Sampled, "_noise", noise)

    return turn


@pytest.mark.parametrize("pooling", ["space", {"centre": [0.0, 0.0], "radius": 0.8}])
def test_logits_of_turned_points_and_draws_are_the_same(turn_draws, pooling):
    x = data()
    model = small(num_blocks=2, pooling=pooling)
    expected, before = model(x).numpy(), model.predict_distribution(x).covariance().numpy()
    for angle in (0.7, -2.1):
        turn, rho = (slow_steerable.representation(f)(angle) for f in (((1, 1),), IN))
        turned = {**x, "points": x["points"] @ turn.T, "values": x["values"] @ rho.T}
        turn_draws(angle, [IN, HIDDEN, POOLED])
        # Two layers, systems of condition 1e4.
        np.testing.assert_allclose(model(turned), expected, rtol=0.0, atol=1e-9)
        covariance = model.predict_distribution(turned).covariance()
        np.testing.assert_allclose(covariance, before, rtol=1e-6, atol=1e-9 * before.max())
    turn_draws(0.0, [IN, HIDDEN, POOLED])  # which are other draws
    assert np.abs(model(turned) - expected).max() > 1e-4


def test_fields_of_turned_points_and_draws_turn(turn_draws):
    x = with_query(data())
    model = small(None, out_fields={0: 1, 1: 1})
    found = model.predict_distribution(x)
    mean, covariance = found.mean().numpy(), found.covariance().numpy()
    np.testing.assert_allclose(mean, model(x), rtol=1e-9, atol=1e-12)
    turn, rho = (slow_steerable.representation(f)(0.7) for f in (((1, 1),), IN))
    moved = {key: x[key] @ turn.T for key in ("points", "query")}
    turn_draws(0.7, [IN, HIDDEN])
    turned = model.predict_distribution({**x, **moved, "values": x["values"] @ rho.T})
    np.testing.assert_allclose(turned.mean(), mean @ rho.T, rtol=0.0, atol=1e-9)
    expected = rho @ covariance @ rho.T
    np.testing.assert_allclose(turned.covariance(), expected, atol=1e-9 * expected.max())


def test_what_a_rotation_changes_is_monte_carlo_error():
    """It falls with the root of the number of draws, and none of it is there without draws."""
    x = data()
    x["points"] -= 0.5
    errors = {}
    for samples in (4, 256):
        model = small(num_samples=samples, num_waves=64, pooling={"centre": [0, 0], "radius": 0.6})
        report = tfpn.check_equivariance(model, x, SO2, n=4, seed=1)
        errors[samples] = report.errors["values"]
    # 1 / 8 on average; 0.4 leaves room for the largest of a few numbers.
    assert 1e-3 < errors[256] < 0.4 * errors[4]
    model = small(uncertainty="none", pooling={"centre": [0, 0], "radius": 0.6})
    assert tfpn.check_equivariance(model, x, SO2, n=4, seed=1).largest < 1e-10


def test_classifier_trains_repeats_and_is_saved(tmp_path):
    x, y = data("float32"), np.array([0, 1, 2])
    model = small(num_blocks=2, pooling=DISC, dtype="float32")
    model.adapt(x)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(x, y, epochs=1, verbose=0).history
    assert np.all(np.isfinite(history["loss"]))
    logits = model.predict(x, verbose=0)
    np.testing.assert_array_equal(model.predict(x, verbose=0), logits)
    pooled = model._moments.predict(x, verbose=0)
    kernel, bias = (np.asarray(w) for w in model.get_layer("head").weights)
    expected = special.softmax(pooled["draws"] @ kernel + bias, axis=-1).mean(axis=1)
    np.testing.assert_allclose(np.exp(logits), expected, rtol=1e-5)
    np.testing.assert_allclose(model.predict_proba(x), expected, rtol=1e-5)
    # One example alone, its points in another order; single precision in systems of condition 1e3.
    order = np.random.default_rng(0).permutation(8)
    alone = {key: value[1:2, order] for key, value in x.items()}
    np.testing.assert_allclose(model(alone)[0], logits[1], rtol=1e-3, atol=1e-3)
    path = tmp_path / "model.keras"
    model.save(path)
    loaded = keras.saving.load_model(path)
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), logits)
    maps = model.feature_maps(x, x["points"][:, :2])
    assert [part["values"].shape for part in maps] == [(3, 2, 9), (3, 2, 9)]


def test_fields_are_calibrated_and_read_out_in_pieces(monkeypatch):
    x = with_query(data("float32"))
    targets = np.random.default_rng(2).normal(size=(3, 5, 3))
    model = small(None, out_fields={0: 1, 1: 1}, dtype="float32")
    model.adapt(x, targets)
    model.calibrate(x, targets)
    distribution = model.predict_distribution(x)
    assert distribution.batch_shape == (3, 5) and distribution.event_shape == (3,)
    moments = model._moments.predict(x, verbose=0)
    offset, unit = model._unit()
    factor, noise = model._factor_and_noise()
    deviations = moments["draws"] - moments["values"][:, None]
    covariance = np.einsum("bsmi,bsmj->bmij", deviations, deviations) / 4
    expected = covariance * np.outer(np.sqrt(factor) * unit, np.sqrt(factor) * unit)
    expected += np.diag(noise)
    # A ridge of 1e-6 of the variance is added; single precision of the draws.
    scale = expected.max()
    np.testing.assert_allclose(distribution.covariance(), expected, rtol=1e-3, atol=1e-4 * scale)
    np.testing.assert_allclose(
        distribution.mean(), moments["values"] * unit + offset, rtol=1e-4, atol=1e-5
    )
    monkeypatch.setattr("tfpn.models.readout.piece_length", lambda *sizes: 2)
    monkeypatch.setattr(type(model), "_at_many_points", lambda *arguments: True)
    found = model._read_out(x, 2, verbose=0)
    for key in ("values", "variance", "draws"):
        np.testing.assert_allclose(found[key], moments[key], rtol=1e-3, atol=1e-4)


def test_saved_draws_repeat_without_a_seed(tmp_path):
    x = data("float32")
    model = small(seed=None, dtype="float32", pooling=DISC)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), model.predict(x, verbose=0))


def test_one_draw_has_no_distribution():
    model = small(num_samples=1, pooling=DISC)
    with pytest.raises(ValueError, match="num_samples=1: one draw has no spread"):
        model.predict_distribution(data())


def test_seeds_of_numpy_are_whole_numbers():
    layer = tfpn.layers.SteerablePNConv(1, seed=np.int64(3))
    assert layer.get_config()["seed"] == 3 and isinstance(layer.seed, int)
