"""Networks that read all points and look at the first ones."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from tolerance import rounding

import tfpn
from equivariance import O3, SO2

pytestmark = pytest.mark.usefixtures("always_cut")
NUMBER, FIRST = 24, 9
# Rounding along sums of 24 terms behind systems of condition 24 / 0.1^2, through two blocks.
EXACT = {"rtol": rounding(NUMBER, condition=1e5), "atol": rounding(NUMBER, condition=1e5)}


def observations(dim=2):
    """Whole examples, one with points missing in the middle, and one with fewer than FIRST."""
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(3, NUMBER, dim))
    x = tfpn.observations(points, np.sin(4 * points[..., :1]) + points[..., 1:2], 0.01)
    x = {key: value.astype("float64") for key, value in x.items()}
    x["variance"][1, 2:5] = x["variance"][2, 5:] = np.inf
    x["values"][1, 2:5] = x["values"][2, 5:] = np.nan
    return x


def network(dim=2, **options):
    keras.utils.set_random_seed(0)
    small = {"copies": 2, "frequencies": (0, 1), "num_basis": 1, "num_blocks": 2}
    options = {**small, "seed": 0, "dtype": "float64", **options}
    model = tfpn.models.SteerablePNCNN(3, spatial_dim=dim, **options)
    model.adapt(observations(dim))
    return model


def by_hand(model, x, example):
    """Logits of one example, layer by layer, from its observed points alone."""
    seen = np.isfinite(x["variance"][example, :, 0])
    x = {key: tf.constant(value[example : example + 1, seen]) for key, value in x.items()}
    features = model.get_layer("conv_1")(x, x["points"][:, :FIRST])
    for name in ("relu_1", "mix_1", "norm_1", "conv_2", "relu_2", "mix_2", "norm_2", "pooling"):
        features = model.get_layer(name)(features)
    return model.get_layer("head")(features["values"])[0]


@pytest.mark.parametrize("options", [{}, {"uncertainty": "none"}, {"dim": 3}])
def test_as_layer_by_layer(options):
    """Those of an example that has more points than the others stay as they are, too."""
    x, model = observations(options.get("dim", 2)), network(num_query=FIRST, **options)
    logits = model.predict(x, verbose=0)
    for example, found in enumerate(logits):
        np.testing.assert_allclose(found, by_hand(model, x, example), **EXACT)
    whole = network(num_query=NUMBER, **options)
    np.testing.assert_allclose(
        whole.predict(x, verbose=0), network(**options).predict(x, verbose=0), **EXACT
    )
    assert np.abs(logits - whole.predict(x, verbose=0)).max() > 1e-3


def test_sampled_ignores_what_is_unobserved():
    x = observations()
    model = network(num_query=FIRST, uncertainty="sampled", num_samples=2)
    expected = model.predict(x, verbose=0)
    x["values"][2, 5:] = x["values"][1, 2:5] = 1e3
    np.testing.assert_allclose(model.predict(x, verbose=0), expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("group", "options"),
    [(SO2, {"num_query": FIRST}), (O3, {"dim": 3, "group": "O3", "copies": 1, "num_query": FIRST})],
)
def test_commutes_with_rotations(group, options):
    x = observations(options.get("dim", 2))
    assert tfpn.check_equivariance(network(**options), x, group, n=3).largest < 1e-10


def test_later_layers_start_from_the_spacing_of_the_first_points():
    x, model = observations(), network(num_query=FIRST)
    x = {key: value[:2] for key, value in x.items()}
    seen = [np.flatnonzero(np.isfinite(v[:, 0]))[:FIRST] for v in x["variance"]]
    first = np.stack([p[chosen] for p, chosen in zip(x["points"], seen, strict=True)])
    model.adapt(x)
    expected = tfpn.spacing.point_spacing(first, np.zeros_like(first))
    lengths = [float(np.exp(layer.log_length_scale)) for layer in model.pn_layers[1:]]
    np.testing.assert_allclose(lengths, expected, rtol=1e-6)


@pytest.mark.usefixtures("eagerly")
def test_trains_with_common_points_as_without_and_saves(tmp_path):
    x, y = observations(), np.array([0, 1])
    x = {key: np.concatenate([value[1:2], value[1:2]]) for key, value in x.items()}
    x["values"][1] = np.nan_to_num(x["values"][1]) ** 2
    losses = []
    for common in (False, True):
        model = network(num_query=FIRST, common_points=common, num_blocks=1)
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        losses.append(model.fit(x, y, epochs=2, verbose=0).history["loss"])
    np.testing.assert_allclose(*losses, rtol=1e-4)  # fit casts to float32
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), model.predict(x, verbose=0))
    assert {loaded.get_config()[key] for key in ("num_query", "common_points")} == {FIRST, True}


def test_fields_and_their_maps():
    """With a readout at points of its own, and the blocks' features at any points."""
    x = observations()
    model = tfpn.models.SteerablePNCNN(
        None, out_fields={1: 1}, copies=2, frequencies=(0, 1), num_blocks=1, num_query=FIRST,
        seed=0, dtype="float64",
    )  # fmt: skip
    model.adapt(x)
    query = np.random.default_rng(1).uniform(size=(3, 4, 2))
    wind = model({**x, "query": query})
    assert wind.shape == (3, 4, 2)
    angle = 0.7
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    turned = {**x, "points": x["points"] @ turn.T, "query": query @ turn.T}
    np.testing.assert_allclose(model(turned), wind @ turn.T, **EXACT)


@pytest.mark.parametrize("number", [0, -1, 2.5, "all", True])
def test_refuses(number):
    with pytest.raises(ValueError, match="num_query must be a positive whole number"):
        tfpn.models.SteerablePNCNN(3, copies=1, num_query=number)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_warns_if_the_first_points_lie_on_one_side(scale):
    """Rows of an image do, spread out points do not."""
    pixels = scale * np.stack(np.meshgrid(np.arange(8), np.arange(8)), axis=-1).reshape(1, 64, 2)
    x = tfpn.observations(pixels.astype("float32"), np.ones((1, 64)), 0.1)
    model = tfpn.models.SteerablePNCNN(3, copies=1, num_blocks=1, num_query=12, pooling="space")
    with pytest.warns(UserWarning, match=r"the first 12 points .* tfpn.farthest_first\(x, 12\)"):
        model.adapt(x, fit_priors=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.adapt(tfpn.farthest_first(x, 12), fit_priors=False)


def test_what_common_points_need():
    for options, message in (
        ({"conditioning": "local"}, "common_points=True needs conditioning='exact'"),
        ({"input_noise": "channel"}, "common_points=True needs noise='shared'"),
        ({"uncertainty": "sampled"}, "common_points=True needs uncertainty='diagonal' or 'none'"),
        ({"common_points": 1}, "common_points must be"),
    ):
        with pytest.raises(ValueError, match=message):
            tfpn.models.SteerablePNCNN(3, copies=1, **{"common_points": True, **options})
