"""Gaps, grids and futures: what is given stays, and what is filled is the model's."""

import numpy as np
import pytest

import tfpn
from tfpn.tasks import Values, forecast, forecasting, impute, interpolate, season, windows

HOURS = np.arange(0.0, 60.0)
WAVE = 20.0 + 3.0 * np.sin(2.0 * np.pi * HOURS / 12.0)


def clock(times):
    return season(times, 12.0)


@pytest.fixture(scope="module")
def model():
    """Not trained: a GP with a periodic part, fitted to windows of a wave."""
    x, _, _ = windows(HOURS, WAVE, history=24, horizon=12, covariates=clock)
    model = tfpn.models.PNCNN(
        None, num_outputs=1, output="field", spatial_dim=3, ard=(0, 1, 1), trend="linear",
        channels=2, num_blocks=1, num_basis=2,
    )  # fmt: skip
    model.adapt({key: array for key, array in x.items() if key != "query"})
    return model


@pytest.mark.usefixtures("eagerly")
def test_a_periodic_forecast(model):
    """float32, and noise of 1e-3 deviations at least: within 0.05 of an amplitude of 3."""
    future = 60.0 + np.arange(12.0)
    found = forecast(model, HOURS, WAVE, future, history=24, covariates=clock)
    assert found.mean.shape == found.std.shape == (1, 12, 1)
    np.testing.assert_allclose(found.mean[0, :, 0], WAVE[:12], atol=0.05)
    low, high = found.interval(0.5)
    np.testing.assert_allclose(high - low, 2 * 0.6744898 * found.std, rtol=1e-4)
    # The same window, by hand.
    x, y, _ = windows(
        np.append(HOURS, future), np.append(WAVE, WAVE[:12]),
        history=24, horizon=12, start=60.0, covariates=clock,
    )  # fmt: skip
    query = x.pop("query")
    again = interpolate(model, x, query)
    np.testing.assert_allclose(again.mean, found.mean, rtol=1e-6)
    np.testing.assert_allclose(y[0, :, 0], WAVE[:12])


@pytest.mark.usefixtures("eagerly")
def test_gaps_are_filled_and_readings_stay(model):
    values = WAVE[:24].copy()
    values[5:8] = np.nan
    points = np.column_stack([HOURS[:24], clock(HOURS[:24])])[None]
    x = tfpn.observations(points, values[None], 0.04)
    filled = impute(model, x)
    known = np.isfinite(values)
    np.testing.assert_array_equal(filled.mean[0, known, 0], values[known].astype("float32"))
    np.testing.assert_allclose(filled.std[0, known, 0], 0.2, rtol=1e-6)
    expected = interpolate(model, x, points[:, ~known])
    np.testing.assert_allclose(filled.mean[0, ~known], expected.mean[0], rtol=1e-5)
    np.testing.assert_allclose(filled.std[0, ~known], expected.std[0], rtol=1e-3)
    np.testing.assert_allclose(filled.mean[0, ~known, 0], WAVE[5:8], atol=0.3)
    alone = interpolate(model, x, points[0, ~known], noise=False)
    np.testing.assert_array_less(alone.std, expected.std)


def test_windows_by_a_slow_loop():
    rng = np.random.default_rng(0)
    times, values = rng.uniform(0.0, 50.0, 80), rng.normal(size=(80, 2))
    values[rng.uniform(size=values.shape) < 0.3] = np.nan
    x, y, origins = windows(
        times, values, history=7.0, horizon=3.0, step=2.0, start=8.0, stop=40.0, variance=0.1
    )
    assert origins.tolist() == (8.0 + 2.0 * np.arange(15)).tolist()
    seen = np.isfinite(values).any(-1)
    for row, origin in enumerate(origins):
        for what, low, high in (("past", origin - 7.0, origin), ("next", origin, origin + 3.0)):
            inside = sorted(np.flatnonzero(seen & (low <= times) & (times < high)), key=times.item)
            if what == "past":
                known = np.isfinite(x["variance"][row]).any(-1)
                np.testing.assert_allclose(x["points"][row, known, 0], times[inside] - origin)
                expected = np.nan_to_num(values[inside])
                np.testing.assert_array_equal(x["values"][row, known], expected)
            else:
                known = np.isfinite(y[row]).any(-1)
                np.testing.assert_allclose(x["query"][row, known, 0], times[inside] - origin)
                np.testing.assert_array_equal(y[row, known], values[inside])


@pytest.mark.parametrize("times", [0.1 * np.arange(60), np.cumsum(np.full(60, 0.1)) + 1e6])
def test_rounded_times_are_in_the_windows_of_exact_ones(times):
    """Sums of steps of 0.1 miss the origins by their rounding."""
    x, y, _ = windows(times, np.ones(60), history=0.3, horizon=0.2)
    assert np.isfinite(x["variance"]).sum(axis=1).ravel().tolist() == [3] * len(y)
    assert np.isfinite(y).sum(axis=1).ravel().tolist() == [2] * (len(y) - 1) + [1]


def test_a_reading_at_the_rounded_origin_is_no_history(monkeypatch):
    given = []
    monkeypatch.setattr(forecasting, "interpolate", lambda model, x, query, **_: given.append(x))
    forecast(None, np.arange(8) / 10, np.ones(8), [0.1 * 6], history=0.3)
    forecast(None, [1e-13, 2e-13], [1.0, 1.0], [3e-13])  # rounding is not a length of its own
    np.testing.assert_allclose(given[0]["points"][0, :, 0], [-0.3, -0.2, -0.1], atol=1e-9)
    assert given[1]["points"].shape[1] == 2


def test_season_is_the_circle():
    found = season(np.array([[0.0, 3.0], [6.0, 15.0]]), 12.0)
    assert found.shape == (2, 2, 2)
    np.testing.assert_allclose(np.sum(found**2, -1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(found[0, 1], found[1, 1], atol=1e-12)
    with pytest.raises(ValueError, match="period must be positive"):
        season([0.0], 0.0)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"values": np.full(60, np.nan)}, "values holds no reading"),
        ({"history": 200.0}, "no window has a reading"),
        ({"values": WAVE[:5]}, r"times and values have the shapes \[60\] and \[5\]"),
        ({"times": np.full(60, np.nan)}, "times holds NaN"),
        ({"horizon": -1.0}, "horizon must be positive"),
        ({"covariates": lambda t: np.zeros(3)}, "covariates gives the shape"),
        ({"values": np.where(HOURS == 5.0, np.inf, WAVE)}, "values holds infinity"),
        ({"start": -np.inf}, "start must be"),
        ({"stop": np.inf}, "stop must be"),
    ],
)
def test_bad_series_are_named(changes, message):
    arguments = {"times": HOURS, "values": WAVE, "history": 24.0, "horizon": 12.0, **changes}
    with pytest.raises(ValueError, match=message):
        windows(arguments.pop("times"), arguments.pop("values"), **arguments)


def test_the_last_future_may_end_at_stop_before_zero():
    assert windows(HOURS - 100.0, WAVE, history=4, horizon=2, stop=-90)[2].tolist() == [
        -96,
        -94,
        -92,
    ]


def test_bad_questions_are_named(model):
    with pytest.raises(TypeError, match="covariates must be a function of times"):
        forecast(model, HOURS, WAVE, [60.0], covariates=np.zeros(60))
    with pytest.raises(ValueError, match="times: one is infinite"):
        clock([np.inf])
    with pytest.raises(ValueError, match="no reading lies in the history before -5"):
        forecast(model, HOURS, WAVE, [-5.0], covariates=clock)
    with pytest.raises(ValueError, match=r"future: found the shape \[0\]"):
        forecast(model, HOURS, WAVE, np.zeros(0), covariates=clock)
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        Values(np.zeros(1), np.ones(1)).interval(95)
    one = tfpn.observations(np.zeros((1, 2, 3)), np.zeros((1, 2)))
    two = tfpn.observations(np.zeros((1, 2, 3)), np.zeros((1, 2, 2)))
    for ask in (lambda query: interpolate(model, one, query), model.conditioned(one).predict):
        with pytest.raises(
            ValueError, match=r"query: .*shapes \[\[1, 3\], \[2, 3\]\]; give as many"
        ):
            ask([np.zeros((2, 3)), np.zeros((1, 3))])
    with pytest.raises(ValueError, match="the model has 1 outputs, but the input has 2 channels"):
        impute(model, two)


def test_readings_at_an_edge_stay_there_after_rounding(model):
    # 0.5 + 0.2 k is a little above or below the time of a reading.
    tenths = 0.1 * np.arange(200)
    x, y, origins = windows(tenths, np.arange(200.0), history=0.5, horizon=0.2)
    futures = y[..., 0][np.isfinite(y[..., 0])]
    np.testing.assert_array_equal(futures, np.arange(5.0, 200.0))  # each once
    assert set(np.isfinite(y[:-1]).sum(axis=(1, 2))) == {2}
    assert set(np.isfinite(x["variance"]).sum(axis=(1, 2))) == {5}
    at = np.nextafter(48.0, 49.0)  # the reading at 48 is at the origin
    found = [
        forecast(model, HOURS, wave, [at], covariates=clock)
        for wave in (WAVE, np.where(HOURS == 48.0, 99.0, WAVE))
    ]
    np.testing.assert_array_equal(found[0].mean, found[1].mean)
