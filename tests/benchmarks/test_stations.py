"""The benchmark of stations: what it reads, what it scores, and that nothing left out is seen."""

import argparse

import numpy as np
import pytest

from benchmarks.stations import baselines
from benchmarks.stations import run as stations
from tfpn import evaluation, losses


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    count, years = 60, np.arange(1966, 1998)
    elevation = rng.uniform(1000, 3000, count)
    values = 20.0 - 0.006 * elevation + rng.normal(size=(len(years), 12, 1))
    values = values + 0.2 * rng.normal(size=(len(years), 12, count))
    values[rng.uniform(size=values.shape) < 0.1] = np.nan
    lonlat = rng.uniform([-109, 37], [-102, 41], (count, 2))
    file = tmp_path / "stations.npz"
    np.savez(file, lonlat=lonlat, elev=elevation, years=years, tmax=values, ppt=values**2)
    return file


def test_it_reads_places_and_months(path):
    places, values, years = stations.read(path, "tmax")
    assert (
        places.shape == (60, 3)
        and values.shape == (384, 60)
        and years[11:13].tolist() == [1966, 1967]
    )
    assert 5.0 < np.ptp(places[:, 0]) < 7.0 and 3.0 < np.ptp(places[:, 1]) < 5.0  # 100 km
    months = stations.months_of(places, values[:2], np.arange(10))
    known = np.flatnonzero(np.isfinite(values[0, :10]))
    np.testing.assert_array_equal(months[0][1], values[0, known])
    np.testing.assert_array_equal(months[0][0], places[known])
    roots = stations.read(path, "ppt")[1]
    np.testing.assert_allclose(roots, np.abs(values))


def test_scores_are_those_of_the_library():
    rng = np.random.default_rng(0)
    truth, mean, deviation = rng.normal(size=(2, 50)).tolist() + [rng.uniform(0.5, 2.0, 50)]
    truth, mean = np.array(truth), np.array(mean)
    found = stations.scores(truth, mean, deviation)
    expected = evaluation.gaussian_metrics(truth - mean, deviation)
    assert found["rmse"] == pytest.approx(expected["rmse"])
    assert found["nll"] == pytest.approx(expected["nll"])
    assert found["coverage"] == expected["coverage_95"]
    score = losses.crps(truth, np.stack([mean, deviation**2], -1))
    assert found["crps"] == pytest.approx(float(np.mean(score)), rel=1e-6)


def test_baselines_never_see_what_is_left_out(path, monkeypatch):
    """And find the slope in elevation, but for the one that does not look at it."""
    seen = []

    class Field(stations.FieldModel):
        def fit(self, months, validation):
            seen.extend(tuple(place) for places, _ in months + validation for place in places)

        def predict(self, months, queries):
            given = {tuple(place) for places, _ in months for place in places} | set(seen)
            assert not given & {tuple(place) for places in queries for place in places}
            return [(np.zeros(len(places)), np.ones(len(places))) for places in queries]

    monkeypatch.setattr(stations, "FieldModel", Field)
    options = argparse.Namespace(
        ask="stations", hidden=0.3, months=1, training_months=4, epochs=1, series=5, own_prior=0.5
    )
    kept = "ordinary kriging", "inverse distance"
    chosen = {name: baselines.BASELINES[name] for name in kept}
    monkeypatch.setattr(stations, "BASELINES", chosen)
    found = {
        name: scores
        for name, scores, _ in stations.compare(*stations.read(path, "tmax"), 0, options)
    }
    assert list(found)[-1] == "tfpn field, trained"
    assert found["inverse distance"]["rmse"] < 0.4 < found["ordinary kriging"]["rmse"]


def test_left_out_months_are_shown_at_no_station(path):
    _, values, years = stations.read(path, "tmax")
    options = argparse.Namespace(hidden=0.3, series=5)
    learnt, chosen, shown, asked = stations.left_out_months(values, years, 0, options)
    assert len(learnt) + len(chosen) == len(shown) == len(asked) == 5
    months = [{tuple(place) for places, _ in part for place in places} for part in (shown, asked)]
    assert not months[0] & months[1] and 30 < len(months[1]) < 58  # of 144
    # Before the first year asked for, and a tenth for each year.
    assert max(places[:, 2].max() for places, _ in learnt) < -0.1 < 0.0
    known = {round(place[2], 6): value for place, value in zip(*shown[0], strict=True)}
    column = [
        k
        for k in range(values.shape[1])
        if all(values[round(120 * t) + 240, k] == v for t, v in known.items())
    ]
    assert len(column) == 1
    rows = np.round(120 * asked[0][0][:, 2]).astype(int) + 240
    np.testing.assert_array_equal(asked[0][1], values[rows, column[0]])
    np.testing.assert_allclose(asked[0][0][:, 0], np.cos(2 * np.pi * (rows % 12) / 12), atol=1e-12)
