import types

import numpy as np
import pytest

import tfpn
from benchmarks.time_series_bands import run as time_series_bands
from tfpn import recipes


def test_residuals_against_a_loop():
    rng = np.random.default_rng(0)
    times = [rng.uniform(0, 4, size=(n, 1)) for n in (9, 5, 12)]
    values = [rng.normal(size=(len(t), 2)) for t in times]
    for readings in values:
        readings[rng.uniform(size=readings.shape) < 0.3] = np.nan
    x = {k: v.astype("float32") for k, v in tfpn.observations(times, values).items()}
    model = tfpn.models.PNTimeSeries(
        in_channels=2, channels=2, num_blocks=1, query=3, pooling=(0, 4)
    )
    model.adapt(x)
    prior = tfpn.callbacks.learned_parameters(model)
    signal, length, noise = (
        prior[f"conv_1/{name}"] for name in ("signal_std", "length_scale", "observation_noise")
    )
    found = time_series_bands.residuals(model, x, share=0.4, seed=1)
    seen = np.isfinite(x["variance"])
    left_out = seen & (np.random.default_rng(1).uniform(size=seen.shape) < 0.4)
    for channel in range(2):
        expected = []
        for record in range(3):
            points, y = x["points"][record, :, 0].astype(float), x["values"][record, :, channel]
            kernel = np.exp(-0.5 * ((points[:, None] - points) / length[channel]) ** 2)
            kernel *= signal[channel] ** 2
            out = left_out[record, :, channel]
            kept = seen[record, :, channel] & ~out
            given = kernel[np.ix_(kept, kept)] + noise[channel] ** 2 * np.eye(kept.sum())
            gain = np.linalg.solve(given, kernel[np.ix_(kept, out)]).T
            mean = gain @ y[kept]
            variance = signal[channel] ** 2 - np.sum(gain * kernel[np.ix_(out, kept)], axis=1)
            expected += ((y[out] - mean) / np.sqrt(variance + noise[channel] ** 2)).tolist()
        assert expected
        np.testing.assert_allclose(found[channel], expected, rtol=1e-4, atol=1e-4)


def test_a_model_with_statics_gets_them():
    rng = np.random.default_rng(0)
    x = {
        key: array.astype("float32")
        for key, array in tfpn.observations(
            rng.uniform(size=(3, 6, 1)), rng.normal(size=(3, 6, 1))
        ).items()
    }
    part = types.SimpleNamespace(
        x=x, statics=np.ones((3, 2), "f4"), statics_variance=np.zeros((3, 2), "f4")
    )
    options = {"in_channels": 1, "channels": 2, "num_blocks": 1, "query": 3, "pooling": (0, 1)}
    plain = tfpn.models.PNTimeSeries(**options)
    model = tfpn.models.PNTimeSeries(num_statics=2, **options)
    given = recipes.model_inputs(model, part)
    model.adapt(given)
    plain.adapt(x)
    # Statics do not enter the fits: both models have the same.
    np.testing.assert_allclose(
        time_series_bands.residuals(model, given, share=0.4),
        time_series_bands.residuals(plain, x, share=0.4),
        rtol=1e-5,
    )


def test_coverage():
    found = time_series_bands.coverage([[0.0, 3.0], [-1.0, -2.5]])
    assert found["left_out"] == 4 and found["outside_2_std"] == 0.5
    assert found["root_mean_square"] == pytest.approx(np.sqrt((9 + 1 + 6.25) / 4), abs=1e-3)
    assert found["median_of_squares"] == pytest.approx((1 + 6.25) / 2, abs=1e-3)


def test_nothing_is_read_of_what_is_taken_away():
    x = tfpn.observations([[[0.0], [1.0]]], [[[1.0, 2.0], [3.0, 4.0]]])
    found = time_series_bands.without(x, [1])
    assert (
        np.isfinite(found["variance"][..., 0]).all() and np.isinf(found["variance"][..., 1]).all()
    )
    assert np.isfinite(x["variance"]).all()


def test_made_up_records_are_standardised():
    (x, y), (test, test_y) = time_series_bands.made_up()
    assert len(y) == len(x["values"]) == 225 and len(test_y) == len(test["values"]) == 300
    for channel in range(3):
        readings = x["values"][..., channel][np.isfinite(x["variance"][..., channel])]
        # The scales are those of 900 records, of which these are the first 225. Readings of one
        # record depend on each other, so count records: four standard errors.
        assert abs(readings.mean()) < 4 / np.sqrt(225)
        assert readings.std() == pytest.approx(1.0, abs=4 / np.sqrt(2 * 225))
