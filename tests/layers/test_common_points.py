"""Batches whose examples have the same points, conditioned on at once, beside one by one."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tolerance import rounding

import tfpn
from tfpn.layers import PNConv, SteerablePNConv
from tfpn.math.posterior import algebra

pytestmark = pytest.mark.usefixtures("always_cut")
EXAMPLES, NUMBER = 3, 24
# Rounding along sums of 24 terms, behind systems of the condition number 24 s^2 / noise = 2.4e3.
EXACT = {"rtol": rounding(NUMBER, condition=2.4e3), "atol": rounding(NUMBER, condition=2.4e3)}
LOCAL = {"conditioning": "local", "block_size": 6, "neighbors": 8}


def observations(common=True, dtype="float64"):
    """Readings of three channels; one point is missing, and padded with NaN."""
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(1 if common else EXAMPLES, NUMBER, 2))
    points = np.broadcast_to(points, (EXAMPLES, NUMBER, 2)).copy()
    x = tfpn.observations(points, rng.normal(size=(EXAMPLES, NUMBER, 3)), variance=0.01)
    x["variance"][:, 5] = np.inf
    x["values"][:, 5] = x["points"][:, 5] = np.nan
    return {key: value.astype(dtype) for key, value in x.items()}


def layers(**options):
    """A layer that conditions one by one and one that does not, with the same weights."""
    for common in (False, True):
        keras.utils.set_random_seed(0)
        layer = PNConv(
            2, 3, observation_noise=0.1, marginal_likelihood_weight=1.0, common_points=common,
            dtype="float64", **options,
        )  # fmt: skip
        layer.build({key: value.shape for key, value in observations().items()})
        yield layer


def results(layer, x, query):
    """Mean, variance and loss, and gradients for the values and all weights."""
    values = tf.constant(x["values"])
    upstream = tf.constant(np.random.default_rng(1).normal(size=(EXAMPLES, 1, 1)))
    with tf.GradientTape() as tape:
        tape.watch(values)
        out = layer({**x, "values": values}, query)
        spread = tf.where(tf.math.is_finite(out["variance"]), out["variance"], 0.0)
        loss = tf.reduce_sum(upstream * (out["values"] + spread))
        loss += tf.cast(tf.add_n(layer.losses), loss.dtype)
    gradients = tape.gradient(loss, [values, *layer.trainable_variables])
    return [out["values"], out["variance"], loss, *gradients]


@pytest.mark.parametrize(
    ("uncertainty", "conditioning", "own", "common"),
    [
        ("diagonal", {}, True, True),
        ("diagonal", {}, False, False),
        ("diagonal", LOCAL, False, True),
        ("none", {}, False, True),
        ("none", LOCAL, True, True),
    ],
)
def test_as_one_by_one(uncertainty, conditioning, own, common):
    x = observations(common)
    query = None
    if not own:
        query = np.broadcast_to(np.random.default_rng(2).uniform(size=(1, 7, 2)), (EXAMPLES, 7, 2))
    expected, found = (
        results(layer, x, query) for layer in layers(uncertainty=uncertainty, **conditioning)
    )
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, **EXACT)


@pytest.mark.parametrize("uncertainty", ["diagonal", "none"])
@pytest.mark.parametrize(("own", "common"), [(True, True), (False, True), (False, False)])
@pytest.mark.parametrize(("fields", "dim"), [({0: 1, 1: 1}, 2), ({1: 1}, 3)])
def test_fields_as_one_by_one(fields, dim, own, common, uncertainty):
    """Scalars and vectors, on the plane and in space."""
    x, query, found = observations(common), None, []
    if dim == 3:
        x["points"] = np.concatenate([x["points"], x["points"][..., :1] ** 2], axis=-1)
    if not own:
        query = np.broadcast_to(np.random.default_rng(2).uniform(size=(1, 7, dim)), (3, 7, dim))
    for together in (False, True):
        keras.utils.set_random_seed(0)
        layer = SteerablePNConv(
            {0: 2} if dim == 2 else {0: 1, 1: 1},
            1, in_fields=fields, frequencies=(0, 1), observation_noise=0.1, seed=0,
            marginal_likelihood_weight=1.0, common_points=together, uncertainty=uncertainty,
            spatial_dim=dim, dtype="float64",
        )  # fmt: skip
        layer.build({key: value.shape for key, value in x.items()})
        found.append(results(layer, x, query))
    for one, other in zip(*found, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, **EXACT)


@pytest.mark.parametrize(
    ("change", "expected"),
    [(None, 1), ("points", EXAMPLES), ("variance", EXAMPLES), ("query", EXAMPLES)],
)
def test_factorises_once(change, expected, monkeypatch):
    sizes, whiten = [], algebra.whiten
    monkeypatch.setattr(
        algebra, "whiten", lambda covariance, *rest: sizes.append(len(covariance)) or
        whiten(covariance, *rest),
    )  # fmt: skip
    x = observations()
    query = np.tile(np.linspace(0.0, 1.0, 4)[None, :, None], (EXAMPLES, 1, 2))
    if change:
        {**x, "query": query}[change][1, 0] += 0.25
    _, layer = layers()
    layer(x, query)
    assert sizes == [expected]


def test_coarse_examples_in_float32():
    """Close points with little noise, which float32 layers compute in float64."""
    x = observations(dtype="float32")
    x["points"][:, 1] = x["points"][:, 0] + 1e-4
    x["variance"][np.isfinite(x["variance"])] = 1e-8
    keras.utils.set_random_seed(0)
    single = PNConv(2, 3, common_points=True)
    expected = PNConv(2, 3, dtype="float64")
    single(x)
    exact = {key: value.astype("float64") for key, value in x.items()}
    expected(exact)
    expected.set_weights(single.get_weights())
    # What `in_float64_where_coarse` promises.
    for key, found in single(x).items():
        np.testing.assert_allclose(found, expected(exact)[key], rtol=1e-3, atol=1e-3)


def test_graphs_of_any_batch():
    """One graph computes batches of common points, of other points, of one example and of none."""
    expected, layer = layers(**LOCAL)
    shapes = {
        key: tf.TensorSpec([None, NUMBER, 2 if key == "points" else 3], "float64")
        for key in ("points", "values", "variance")
    }
    graph = tf.function(layer, input_signature=[shapes])
    one, none = ({key: a[:n] for key, a in observations().items()} for n in (1, 0))
    for x in (observations(), observations(False), one, none):
        agree(graph(x), expected(x))


def test_compiled():
    expected, layer = layers()
    x = observations()
    agree(tf.function(layer, jit_compile=True)(x), expected(x))


def agree(found, expected):
    for key in ("values", "variance"):
        np.testing.assert_allclose(found[key], expected[key], **EXACT)


@pytest.mark.usefixtures("eagerly")
def test_a_model_trains_alike_and_saves(tmp_path):
    x, y = observations(dtype="float32"), np.array([0, 1, 0])
    x["points"][:, 5] = 0.0
    losses, options = [], {"channels": 3, "num_blocks": 2, "num_basis": 3, "in_channels": 3}
    for common in (False, True):
        keras.utils.set_random_seed(0)
        model = tfpn.models.PNCNN(2, common_points=common, **options)
        model.adapt(x, fit_priors=False, verbose=0)
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        losses.append(model.fit(x, y, epochs=2, verbose=0).history["loss"])
    np.testing.assert_allclose(*losses, rtol=1e-4)
    assert [layer.common_points for layer in model.pn_layers[:2]] == [True, False]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.pn_layers[0].common_points and loaded.get_config()["common_points"]
    np.testing.assert_allclose(loaded(x), model(x), rtol=1e-6)


@pytest.mark.parametrize("key", ["points", "variance"])
def test_no_gradient_for_what_is_common(key):
    x = observations()
    _, layer = layers()
    given = tf.constant(x[key])
    with tf.GradientTape() as tape:
        tape.watch(given)
        loss = tf.reduce_sum(layer({**x, key: given})["values"])
    with pytest.raises(LookupError, match="common_points=False"):
        tape.gradient(loss, given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": "channel"}, "needs noise='shared', found 'channel'"),
        ({"variance_estimator": "stochastic"}, "needs variance_estimator='exact'"),
        ({"uncertainty": "sampled"}, "needs uncertainty='diagonal' or 'none', found 'sampled'"),
    ],
)
def test_what_common_points_need(options, message):
    with pytest.raises(ValueError, match=message):
        PNConv(2, common_points=True, **options)
    with pytest.raises(ValueError, match="common_points must be"):
        PNConv(2, common_points=1)


def test_what_common_points_of_a_model_need():
    field = {"num_outputs": 1, "output": "field", "channels": 2, "num_blocks": 1}
    with pytest.raises(ValueError, match="output='field' needs common_points=False, found True"):
        tfpn.models.PNCNN(None, common_points=True, **field)
    with pytest.raises(ValueError, match="common_points must be"):
        tfpn.models.PNCNN(2, channels=2, num_blocks=1, common_points="yes")
