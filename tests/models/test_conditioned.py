"""A field model that reads on predicts what it predicts of all readings at once."""

import numpy as np
import pytest
import tensorflow as tf

import tfpn
from tfpn.models import field_refine

pytestmark = pytest.mark.usefixtures("eagerly")
# float32 in and out; the batch answer is in float64 between.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
KINDS = {
    "shared": {"ard": (0, 1), "trend": "linear", "amplitude": "example"},
    "channel": {"input_noise": "channel", "kriging_kernel": "matern32"},
}


def readings(kind, examples=2, count=9):
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(examples, count, 2))
    values = 40.0 + 5.0 * np.sin(4.0 * points) + 0.1 * rng.normal(size=points.shape)
    if kind == "channel":
        values[:, ::3, 1] = np.nan
    return points, values, rng.uniform(size=(1, 6, 2))


@pytest.fixture(scope="module", params=list(KINDS))
def adapted(request, all_eagerly):
    points, values, query = readings(request.param)
    model = tfpn.models.PNCNN(
        *(None,), num_outputs=2, output="field", in_channels=2, channels=2, num_blocks=1,
        num_basis=2, **KINDS[request.param],
    )  # fmt: skip
    model.adapt(tfpn.observations(points, values), fit_priors=False, verbose=0)
    return model, points, values, query


def test_updates_give_the_batch_answer(adapted):
    model, points, values, query = adapted
    field = model.conditioned(tfpn.observations(points[:, :4], values[:, :4], 0.01))
    for k in range(4, 9):
        step = slice(k, k + 1)
        assert field.update(points[:, step], values[:, step], 0.01) is field
    x = tfpn.observations(points, values, 0.01)
    assert {key: array.shape for key, array in field.observations.items()} == {
        key: array.shape for key, array in x.items()
    }
    for noise in (True, False):
        expected = model.predict_field(x, query, noise=noise)
        found = field.predict(query, noise=noise)
        np.testing.assert_allclose(found.mean(), expected.mean(), **CLOSE)
        np.testing.assert_allclose(found.stddev(), expected.stddev(), **CLOSE)
    # A reading that is not there changes nothing.
    again = field.update(points[:, :1], np.full([2, 1, 2], np.nan)).predict(query, noise=False)
    np.testing.assert_allclose(again.stddev(), found.stddev(), rtol=1e-12)


def test_a_trained_network_sees_all_readings_anew(adapted):
    model, points, values, query = adapted
    field = model.conditioned(tfpn.observations(points[:, :8], values[:, :8]))
    before = field.predict(query).mean()
    kernel = model.get_layer("readout").kernel
    start = kernel.numpy()
    try:
        kernel.assign(np.random.default_rng(1).normal(size=start.shape))
        field.update(points[:, 8:], values[:, 8:])
        found = field.predict(query)
        expected = model.predict_field(tfpn.observations(points, values), query)
        np.testing.assert_allclose(found.mean(), expected.mean(), **CLOSE)
        assert np.abs(found.mean() - before).max() > 0.1
    finally:
        kernel.assign(start)


def test_one_example_may_come_without_its_axis(adapted):
    model, points, values, query = adapted
    x = tfpn.observations(points[:1, :8], values[:1, :8], 0.01)
    batch = model.conditioned(x).update(points[:1, 8:], values[:1, 8:], np.full([1, 1, 2], 0.01))
    alone = model.conditioned(x).update(points[0, 8:], values[0, 8:], np.full([1, 2], 0.01))
    np.testing.assert_array_equal(alone.predict(query[0]).mean(), batch.predict(query).mean())


def test_what_cannot_be_taken_in_is_named(adapted):
    model, points, values, query = adapted
    field = model.conditioned(tfpn.observations(points, values))
    with pytest.raises(ValueError, match="found 1 examples, but the readings so far have 2"):
        field.update(points[:1], values[:1])
    with pytest.raises(ValueError, match="query: found the shape"):
        field.predict(query[..., :1])
    with pytest.raises(ValueError, match="query: .* squares float32 cannot hold"):
        field.predict(np.full_like(query, 1e39))
    assert field.predict(query[:, :0]).mean().shape == (2, 0, values.shape[-1])
    with pytest.raises(TypeError, match="observations"):
        model.conditioned(points)
    plain = tfpn.models.PNCNN(2, channels=2, num_blocks=1, num_basis=2)
    with pytest.raises(ValueError, match="conditioned works for models of fields only"):
        plain.conditioned(tfpn.observations(points, values[..., :1]))


def test_examples_may_be_given_unequal_numbers(adapted):
    model, points, values, query = adapted
    x = tfpn.observations(points[:, :6], values[:, :6])
    ragged = [points[0, 6:7], points[1, 6:8]], [values[0, 6:7], values[1, 6:8]]
    found = model.conditioned(x).update(*ragged).predict(query)
    filled = values[:, 6:8].copy()
    filled[0, 1] = np.nan
    expected = model.conditioned(x).update(points[:, 6:8], filled).predict(query)
    np.testing.assert_allclose(found.mean(), expected.mean(), rtol=1e-5)


def test_a_prior_of_an_examples_own(adapted, monkeypatch):
    """The most probable parameters, by differences; and the model is itself afterwards."""
    steps = field_refine._STEPS
    monkeypatch.setattr(field_refine, "_STEPS", 3)  # enough to move
    model, points, values, query = adapted
    x = tfpn.observations(points[:1], values[:1], 0.01)
    before = model.get_weights()
    plain = model.predict_field(x, query)
    near = model.predict_field(x, query, own_prior=1e-4)
    np.testing.assert_allclose(near.mean(), plain.mean(), rtol=1e-3)
    np.testing.assert_allclose(near.stddev(), plain.stddev(), rtol=1e-2)
    own = model.predict_field(x, query, own_prior=0.5)
    assert np.abs(own.stddev() / plain.stddev() - 1.0).max() > 0.02
    for weight, expected in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, expected)

    if model._field.kriging.noise == "channel":  # the rest takes time
        return
    monkeypatch.setattr(field_refine, "_STEPS", steps)
    priors = field_refine.OwnPriors(model._field, 0.5)
    seen = np.isfinite(x["variance"])
    given = model._field.units.apply(np.where(seen, x["values"], 0.0), x["variance"])
    one = x["points"], *given
    theta = priors.find(one)
    start = np.concatenate([part.ravel() for part in priors._start])

    def loss(theta):
        return float(priors._loss(*map(tf.constant, (theta, start, *one)))[0])

    assert loss(theta) < loss(start) - 1e-3
    for k in range(len(theta)):
        step = 0.02 * np.eye(len(theta))[k]
        assert loss(theta) < min(loss(theta + step), loss(theta - step))
