"""The command on tables with a time whose pattern repeats: `season` in a recipe."""

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from cli_support import command, refused, write_recipe

from tfpn import recipes

START = pd.Timestamp("2024-06-01", tz="Europe/Berlin")


def clock(hours):
    """Warmth by the hour of the day."""
    return 15.0 + 8.0 * np.sin(2.0 * np.pi * (np.asarray(hours) - 9.0) / 24.0)


@pytest.fixture
def table(tmp_path):
    """Five days of readings, three hours apart, with one in ten missing."""
    rng = np.random.default_rng(0)
    hours = np.arange(0.0, 120.0, 3.0)
    frame = pd.DataFrame({"when": START + pd.to_timedelta(hours, unit="h")})
    frame["warmth"] = clock(hours) + 0.3 * rng.normal(size=len(hours))
    frame.loc[rng.uniform(size=len(hours)) < 0.1, "warmth"] = np.nan
    frame.to_csv(tmp_path / "own.csv", index=False)
    return tmp_path


def test_the_command_forecasts_a_daily_pattern(table, all_eagerly):
    lines = ("own.csv", 'time = "when"', 'values = ["warmth"]')
    coming = START + pd.to_timedelta(np.arange(120.0, 144.0), unit="h")
    pd.DataFrame({"when": coming}).to_csv(table / "coming.csv", index=False)
    errors = {}
    for name, season in (("plain", ()), ("season", ("season = [24]",))):
        recipe = write_recipe(table, *lines, *season)
        outcome = command("train", recipe, "--output", table / name)
        assert outcome.status == 0, outcome.err
        found = table / f"{name}.csv"
        outcome = command("predict", table / name, table / "coming.csv", "--output", found)
        assert outcome.status == 0, outcome.err
        found = pd.read_csv(found)
        assert list(found) == ["when", "warmth", "warmth_std"]
        errors[name] = found["warmth"] - clock(np.arange(24.0))
    assert np.sqrt(np.mean(errors["season"] ** 2)) < 0.5  # of a pattern of 5.7
    assert np.sqrt(np.mean(errors["plain"] ** 2)) > 2.0
    kept = recipes.load(table / "season" / "recipe.toml").sections
    assert kept["data"]["season"] == [24]
    assert kept["model"]["spatial_dim"] == 3 and kept["model"]["ard"] == [0, 1, 1]
    series = xr.load_dataset(table / "season" / "series.nc", engine="scipy")
    assert dict(series.sizes) == {"when": 400}
    assert set(series.data_vars) == {"warmth", "warmth_std"}
    hours = (pd.DatetimeIndex(series["when"]).tz_localize("UTC") - START) / pd.Timedelta("1h")
    assert np.abs(series["warmth"] - clock(hours)).max() < 2.0
    assert (table / "season" / "series.png").exists()
    measured = json.loads(command("evaluate", table / "season").out)
    assert measured["rmse"] < 1.0
    refused(command("figures", table / "season", "--output", table / "own.csv"), "is the input")
    outcome = command("train", "--resume", "--output", table / "season")
    assert outcome.status == 0, outcome.err
    saved = table / "plain" / "recipe.toml"  # as of a version without seasons
    saved.write_text(saved.read_text().replace("season = []\n", ""))
    assert "season" not in saved.read_text()
    outcome = command("train", "--resume", "--output", table / "plain")
    assert outcome.status == 0, outcome.err
    recipe = write_recipe(table, *lines, "season = [12]")
    changed = command("train", recipe, "--resume", "--output", table / "season")
    refused(changed, "recipe")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["season = [0]", 'time = "when"'], "season: found 0; give positive periods"),
        (["season = [24, -1.0]", 'time = "when"'], "season: found -1.0; give positive periods"),
        (["season = 24", 'time = "when"'], "season: found 24 (int); give a value of type list"),
        (['season = ["day"]', 'time = "when"'], "season: found 'day'; give a number"),
        (["season = [24]", 'points = ["x"]'], "season: found [24], but no time: name its"),
    ],
)
def test_seasons_that_are_refused(lines, said, table):
    recipe = write_recipe(table, "own.csv", 'values = ["warmth"]', *lines)
    refused(command("train", recipe, "--output", table / "run"), said)
