"""PNTimeSeries with output="field": channels of a series at any times."""

import keras
import numpy as np
import pytest
from field_support import dense

import tfpn
from tfpn.losses import GaussianNLL


def series(statics=0, seed=0):
    """Three channels, each read at times of its own; the last record has none of the third."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0.0, 48.0, (3, 14, 1)), axis=1)
    values = np.sin(times / 6.0) + [0.0, 10.0, -5.0] + 0.1 * rng.normal(size=(3, 14, 3))
    values[rng.uniform(size=values.shape) < 0.5] = np.nan
    values[2, :, 2] = np.nan
    x = tfpn.observations(times, values)
    x["query"] = rng.uniform(0.0, 60.0, (3, 5, 1))
    if statics:
        x["statics"] = rng.normal(size=(3, statics))
        x["statics_variance"] = np.zeros((3, statics))
    return {key: array.astype("float32") for key, array in x.items()}


def small(**changes):
    arguments = {"in_channels": 3, "channels": 3, "num_blocks": 1, "num_basis": 2, "seed": 0}
    arguments |= {"pooling": (0, 48), "query": 6, **changes}
    return tfpn.models.PNTimeSeries(None, num_outputs=3, output="field", **arguments)


def test_before_training_each_channel_is_a_gp_regression():
    """float32: means to 1e-4 of some 10, variances to 1e-3."""
    model, x = small(), series()
    model.adapt(x, fit_priors=False)
    found = model.predict(x, verbose=0)
    for example in range(3):
        for channel in range(3):
            mean, covariance, noise = dense(model, x, example, channel, dim=1)
            np.testing.assert_allclose(found[example, :, channel, 0], mean, atol=1e-3)
            expected = np.diag(covariance) + noise
            np.testing.assert_allclose(found[example, :, channel, 1], expected, rtol=1e-3)
    with pytest.raises(ValueError, match="call predict_field"):
        model.input_process({k: v for k, v in x.items() if k != "query"}, x["query"])


@pytest.mark.parametrize(
    "changes",
    [
        {"uncertainty": "sampled", "num_samples": 3, "query": "union"},
        {"num_statics": 2, "context": "features", "clock": True, "missingness": "intensity"},
    ],
    ids=["sampled", "statics"],
)
def test_it_trains_and_is_saved(changes, tmp_path):
    model, x = small(**changes), series(changes.get("num_statics", 0))
    model.adapt(x, fit_priors=False)
    model.compile(keras.optimizers.Adam(0.05), GaussianNLL())
    y = np.random.default_rng(0).normal(size=(3, 5, 3))
    y[0, :2, 1] = np.nan
    before = model.predict(x, verbose=0)
    assert np.all(np.isfinite(model.train_on_batch(x, y)))
    assert np.abs(model.predict(x, verbose=0) - before).max() > 1e-3
    model.save(tmp_path / "series.keras")
    again = keras.models.load_model(tmp_path / "series.keras")
    found = again.predict_distribution(x)
    np.testing.assert_allclose(found.mean(), model.predict(x, verbose=0)[..., 0], rtol=1e-5)
    assert np.all(np.isfinite(found.stddev()))


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="output='field' needs context='features', found 'head'"):
        small(num_statics=2)
    with pytest.raises(ValueError, match="output='field' needs windows=1, found 2"):
        small(windows=2)
