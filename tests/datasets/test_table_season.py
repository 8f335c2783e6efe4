"""Seasons of a table's time: further coordinates on circles."""

import numpy as np
import pandas as pd
import pytest

from tfpn import datasets, tasks
from tfpn.datasets._table import suggested
from tfpn.training.field_outputs import grid_of


def read(tmp_path, frame, **options):
    frame.to_csv(tmp_path / "table.csv", index=False)
    return datasets.table(tmp_path / "table.csv", ["v"], **options)


def frame(count=40):
    hours = 5.0 * np.arange(count)
    return pd.DataFrame(
        {"when": hours, "lon": hours % 7, "lat": hours % 11, "height": hours % 3, "v": hours % 13}
    )


def test_each_period_becomes_two_coordinates_with_a_length_scale(tmp_path):
    options = {"points": ["lon", "lat"], "degrees": True, "time": "when", "covariates": ["height"]}
    season = [24, 168.0]
    data = read(tmp_path, frame(), **options, season=season)
    found = data.readings.places
    plain = read(tmp_path, frame(), **options).readings.places
    np.testing.assert_array_equal(found[:, :5], plain)
    expected = [tasks.season(frame()["when"], period) for period in season]
    np.testing.assert_array_equal(found[:, 5:], np.concatenate(expected, axis=1))
    assert data.train.x["points"].shape[-1] == data.test.query.shape[-1] == 9
    args = suggested({"values": ["v"], **options, "season": season})
    assert args["spatial_dim"] == 9 and args["ard"] == [0, 0, 0, 1, 2, 3, 3, 4, 4]
    # Another table is read in the same way.
    some = data.columns.coordinates.read(frame()[3:9])
    np.testing.assert_array_equal(some, found[3:9])


def test_a_season_counts_the_hours_that_have_passed(tmp_path):
    """Over a change of the clock, from 2024-03-30 to 31 in Berlin, a day is 23 hours."""
    stamps = pd.date_range("2024-03-30T12:00", periods=20, freq="D", tz="Europe/Berlin")
    table = pd.DataFrame({"when": stamps.tz_localize(None), "v": np.arange(20.0)})
    options = {"time": "when", "time_zone": "Europe/Berlin", "season": [24]}
    found = read(tmp_path, table, **options).readings.places
    np.testing.assert_allclose(found[0, 1:], [1.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(found[1:, 1:], np.tile(tasks.season(23.0, 24), (19, 1)), atol=1e-9)


@pytest.mark.parametrize("answer", ["targets", "labels"])
def test_times_from_the_start_keep_the_season_of_the_clock(answer, tmp_path):
    table = pd.concat([frame(6).assign(who=k, age=k % 3) for k in range(12)])
    table["when"] += 7.0 * table["who"]
    options = {"time": "when", "example": "who", "from_start": True, "covariates": ["height"]}
    options[answer] = ["age"] if answer == "targets" else "age"
    data = read(tmp_path, table, **options, season=[24])
    places, clock = data.readings.places, data.readings.frame["when"].to_numpy()
    np.testing.assert_allclose(places[:, 0], frame(6)["when"].to_numpy().tolist() * 12)
    np.testing.assert_array_equal(places[:, 1], data.readings.frame["height"])
    np.testing.assert_array_equal(places[:, 2:], tasks.season(clock, 24))


def test_the_grid_of_a_series_is_one_of_times(tmp_path):
    grid = grid_of(read(tmp_path, frame(), time="when", season=[24]))
    assert list(grid) == ["when"] and grid["when"].shape == (400,)


def test_digits_are_checked_of_the_time_and_not_of_its_season(tmp_path):
    """On the circle of an hour float32 tells all apart."""
    table = frame().assign(when=1.7e9 + 5.0 * np.arange(40))
    with pytest.raises(ValueError, match="column 'when' reaches 1700000195, and float32 tells"):
        read(tmp_path, table, time="when", season=[3600])
    # Years of whole hours are apart, although many are at one hour of the day.
    table = frame().assign(when=24.0 * np.arange(40))
    assert read(tmp_path, table, time="when", season=[24]).readings.places.shape == (40, 3)


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        ({"season": [24]}, ValueError, "season: found .24., but no time: name its column"),
        ({"time": "when", "season": [-1]}, ValueError, "season: found -1; give positive periods"),
        ({"time": "when", "season": [np.nan]}, ValueError, "season: found nan; give positive"),
        ({"time": "when", "season": 24}, TypeError, r"give a list of periods, such as \[24\]"),
        ({"time": "when", "season": [True]}, TypeError, "found True; give a number"),
    ],
)
def test_what_is_no_season(given, kind, said, tmp_path):
    with pytest.raises(kind, match=said):
        read(tmp_path, frame(), **{"points": ["lon"], **given})
