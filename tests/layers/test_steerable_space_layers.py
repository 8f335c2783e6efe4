"""Layers and networks of fields in space: exact under rotations, saved and trained."""

import keras
import keras_tuner
import numpy as np
import pytest
import scipy.special
import tensorflow as tf
from layer_harness import perturb

import tfpn
import tfpn.tuning
from equivariance import SO2, SO3
from tfpn import layers, recipes
from tfpn.math.steerable import count_channels, read_fields
from tfpn.models.head import domain_unit
from tfpn.models.query_grid import grid

FIELDS = {0: 3, 1: 2, 2: 1}
SMALL = {0: 2, 1: 1}
# Class, arguments, the input's fields, the output's.
CASES = {
    "conv": (layers.SteerablePNConv, {"fields": SMALL, "in_fields": FIELDS}, FIELDS, SMALL),
    "conv_channel": (
        layers.SteerablePNConv,
        {"fields": {1: 1, 2: 1}, "in_fields": SMALL, "noise": "channel", "observation_noise": 0.2},
        SMALL,
        {1: 1, 2: 1},
    ),
    "relu": (layers.GatedReLU, {"fields": FIELDS}, FIELDS, FIELDS),
    "relu_own": (
        layers.GatedReLU, {"fields": {0: 4, 1: 2, 2: 1}, "gates": "own"}, {0: 4, 1: 2, 2: 1},
        {0: 1, 1: 2, 2: 1},
    ),
    "mix": (layers.SteerableMix, {"fields": {0: 2, 2: 3}, "in_fields": FIELDS}, FIELDS,
            {0: 2, 2: 3}),
    "norm": (layers.SteerableNormalization, {"fields": FIELDS}, FIELDS, FIELDS),
}  # fmt: skip
every_case = pytest.mark.parametrize("name", CASES)


def make(name, dtype="float64"):
    kind, arguments, *_ = CASES[name]
    if kind is layers.SteerablePNConv:
        arguments = {"spacing": 0.3, "seed": 3, "num_basis": 1, **arguments}
    return kind(**arguments, spatial_dim=3, dtype=dtype)


def make_input(fields, dtype="float64", examples=2, size=6, seed=0):
    rng = np.random.default_rng(seed)
    channels = count_channels(read_fields(fields, dim=3), 3)
    variance = np.repeat(rng.uniform(0.01, 0.1, size=(examples, size, 1)), channels, axis=-1)
    variance[-1, 4:] = np.inf
    values = np.where(np.isinf(variance), 0.0, rng.normal(size=variance.shape))
    points = rng.uniform(size=(examples, size, 3))
    return {
        key: array.astype(dtype)
        for key, array in (("points", points), ("values", values), ("variance", variance))
    }


@every_case
def test_commutes_with_rotations(name):
    _, _, fields_in, fields_out = CASES[name]
    for dtype, tolerance in (("float64", 1e-10), ("float32", 1e-5)):
        layer, x = make(name, dtype), make_input(fields_in, dtype)
        layer(x)
        perturb(layer)
        report = tfpn.check_equivariance(
            layer, x, SO3, n=4, rep_in=fields_in, rep_out=fields_out
        )  # fmt: skip
        assert set(report.errors) == {"values", "variance"}
        assert report.largest < tolerance, (dtype, str(report))


@every_case
def test_saving_keeps_the_outputs(name, tmp_path):
    x = make_input(CASES[name][2])
    inputs = {
        key: keras.Input((None, value.shape[-1]), name=key, dtype="float64")
        for key, value in x.items()
    }
    model = keras.Model(inputs, make(name)(inputs))
    perturb(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    expected = model(x)
    for key, found in loaded(x).items():
        np.testing.assert_array_equal(found, expected[key])


def test_variances_of_gates_are_those_of_samples():
    """A gated vector of three components, by 400,000 draws of the gate and the vector."""
    rng = np.random.default_rng(0)
    gate_mean, gate_std, mean, std = 0.4, 0.8, np.array([0.5, -1.0, 0.2]), 0.6
    x = {
        "points": np.zeros((1, 1, 3)),
        "values": np.array([[[gate_mean, *mean]]]),
        "variance": np.array([[[gate_std**2, *[std**2] * 3]]]),
    }
    out = layers.GatedReLU({0: 1, 1: 1}, spatial_dim=3, dtype="float64")(x)
    count = 400_000
    gates = scipy.special.ndtr(gate_mean + gate_std * rng.normal(size=count))
    draws = gates[:, None] * (mean + std * rng.normal(size=(count, 3)))
    np.testing.assert_allclose(out["values"][0, 0, 1:], draws.mean(0), atol=5e-3)
    np.testing.assert_allclose(out["variance"][0, 0, 1:], draws.var(0).mean(), rtol=1e-2)


def test_errors_name_the_argument():
    x = make_input({0: 2})
    plane = {**x, "points": x["points"][..., :2]}
    for kind in (
        layers.SteerablePNConv, layers.GatedReLU, layers.SteerableMix, layers.SteerableNormalization
    ):  # fmt: skip
        name = kind.__name__
        found = r"found \(2, 6, 3\); give spatial_dim=2"
        with pytest.raises(ValueError, match=f"{name} .* needs points of the plane .*{found}"):
            kind({0: 2})(x)
        with pytest.raises(ValueError, match=rf"{name} .* needs points in space \[B, N, 3\]"):
            kind({0: 2}, spatial_dim=3)(plane)
    with pytest.raises(ValueError, match="spatial_dim must be 2 .* found 4"):
        layers.SteerablePNConv({0: 1}, spatial_dim=4)
    with pytest.raises(ValueError, match="takes the fields .* 3 channels, found 2"):
        layers.SteerableNormalization({1: 1}, spatial_dim=3)(x)
    assert layers.SteerableMix(SO3.irrep(1), spatial_dim=3).fields == ((1, 1),)
    with pytest.raises(ValueError, match="must be a representation of SO3, found one of SO2"):
        layers.SteerableMix(SO2.irrep(1), spatial_dim=3)


def test_a_trained_network_of_vectors_turns_and_is_saved(tmp_path, eagerly):
    """Vectors in and out at query points; float64 to rounding, and float32."""
    rng = np.random.default_rng(1)
    x = make_input({1: 1}, "float32", examples=4, size=8)
    x["query"] = rng.uniform(size=(4, 3, 3)).astype("float32")
    y = rng.normal(size=(4, 3, 3)).astype("float32")
    model = tfpn.models.SteerablePNCNN(
        None, out_fields={1: 1}, in_fields={1: 1}, copies=2, frequencies=(0, 1), num_blocks=1,
        num_basis=1, spacing=0.4, seed=0, spatial_dim=3,
    )  # fmt: skip
    model.compile(keras.optimizers.Adam(1e-2), "mse", jit_compile=False)
    model.fit(x, y, epochs=1, batch_size=4, verbose=0)
    report = tfpn.check_equivariance(model, x, SO3, n=2)
    assert set(report.errors) == {"values", "variance"}
    assert report.largest < 1e-5, str(report)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.in_fields == ((1, 1),) and loaded.output_fields == ((1, 1),)
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), model.predict(x, verbose=0))
    exact = tfpn.models.SteerablePNCNN.from_config({**model.get_config(), "dtype": "float64"})
    exact.set_weights(model.get_weights())
    x = {key: value.astype("float64") for key, value in x.items()}
    assert tfpn.check_equivariance(exact, x, SO3, n=2).largest < 1e-10


def small(num_classes=3, **changes):
    arguments = {
        "copies": 1, "frequencies": (0, 1), "num_blocks": 1, "num_basis": 1, "spacing": 0.4,
        "seed": 0, "spatial_dim": 3,
    }  # fmt: skip
    return tfpn.models.SteerablePNCNN(num_classes, **{**arguments, **changes})


def test_logits_of_a_classifier_stay(eagerly):
    """Over all of space their means do, about any centre; over a ball, variances do, too."""
    x = make_input({0: 1}, "float64", examples=2, size=8)
    ball = {"centre": [0.6, 0.4, 0.5], "radius": 0.6}
    for pooling, found in (("space", {"values"}), (ball, {"values", "variance"})):
        model = small(pooling=pooling, dtype="float64")
        perturb(model)
        report = tfpn.check_equivariance(model, x, SO3, n=2)
        assert set(report.errors) == found
        assert report.largest < 1e-10, (pooling, str(report))
    assert type(model).from_config(model.get_config()).get_layer("pooling").ball == ball
    off = tfpn.check_equivariance(model, x, SO3, n=1, centre=(0.2, 0.4, 0.5))
    assert off.largest > 1e-3  # another centre than the ball's


def test_draws_of_a_classifier_over_a_ball_have_its_moments(eagerly):
    """IntegralPooling of draws: their mean and variance are those without draws, to 5 errors."""
    rng = np.random.default_rng(0)
    points, values = rng.uniform(size=(1, 6, 3)), rng.normal(size=(1, 6, 1))
    noise = 0.3 * rng.normal(size=(1, 400, 6, 1))
    x = {"points": points, "values": values, "variance": np.full((1, 6, 1), 0.09)}
    pool = layers.IntegralPooling(ball=((0.5, 0.5, 0.5), 0.5), length_scale=0.4, dtype="float64")
    exact = pool(x)
    draws = pool({**x, "draws": values[:, None] + noise})["draws"][0, :, 0].numpy()
    mean, variance = float(exact["values"][0, 0]), float(exact["variance"][0, 0])
    assert abs(draws.mean() - mean) < 5 * np.sqrt(variance / 400)
    assert abs(draws.var() / variance - 1) < 5 * np.sqrt(2 / 400)


def test_a_ball_is_measured_in_units_of_its_own():
    ball = {"centre": [0.5, 0.5, 0.5], "radius": 0.4}
    assert domain_unit(ball, 3) ** 3 == pytest.approx(4 / 3 * np.pi * 0.4**3)
    places, step = grid(ball, 3, 10)
    assert step == pytest.approx(0.08) and np.max(np.linalg.norm(places - 0.5, axis=-1)) <= 0.4
    # As many middles of cells as the ball has volumes of cells, but for those at its edge.
    assert abs(len(places) / (np.pi / 6 * 1000) - 1) < 0.1
    with pytest.raises(ValueError, match=r"a ball needs points in space \[B, N, 3\], found"):
        layers.IntegralPooling(ball=ball)(tfpn.observations(np.zeros((1, 4, 2)), np.zeros((1, 4))))
    with pytest.raises(ValueError, match="for parts of a ball it has no formula; use"):
        layers.IntegralPooling(ball=ball, conditioning="local")
    with pytest.raises(ValueError, match="ball must be .* 3 finite coordinates"):
        layers.IntegralPooling(ball=((0.0, 0.0), 1.0))


def test_a_search_trains_it(eagerly, tmp_path):
    sections = {"model": {"name": "SteerablePNCNN"}, "training": {"epochs": 1}, "augmentation": {}}
    fixed = {"spatial_dim": 3, "frequencies": [0, 1], "num_blocks": 1, "num_basis": 1, "copies": 1}
    hypermodel = tfpn.tuning.PNCNNHyperModel(
        recipes.Recipe("fields", sections, "here"), num_classes=2, **fixed
    )
    # Of the ways to carry uncertainty those that fields have.
    assert hypermodel.space["model.uncertainty"] == ["diagonal", "none", "sampled"]
    tuner = keras_tuner.RandomSearch(
        hypermodel, keras_tuner.Objective("val_nll", "min"), max_trials=1, seed=0,
        directory=tmp_path,
    )  # fmt: skip
    data = make_input({0: 1}, "float32", size=5), np.array([0, 1])
    tuner.search(*data, validation_data=data, verbose=0)
    (trial,) = tuner.oracle.get_best_trials()
    assert np.isfinite(trial.score)


@pytest.mark.graphs
def test_exported_for_serving(tmp_path):
    model = small(uncertainty="none")
    perturb(model)
    model.export(tmp_path / "served", verbose=False)
    served = tf.saved_model.load(tmp_path / "served")
    for examples, size in ((2, 5), (3, 7)):
        x = make_input({0: 1}, "float32", examples, size)
        found = served.serve({key: tf.constant(array) for key, array in x.items()})
        np.testing.assert_allclose(found, model(x), rtol=1e-4, atol=1e-5)
