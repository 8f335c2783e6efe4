"""Maps of tables whose places have a time."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from tfpn import datasets, figures
from tfpn.training import field_outputs


def read(tmp_path, when, **options):
    """A data set of 24 readings at two places and the given times."""
    count = np.arange(24.0)
    frame = pd.DataFrame({"lon": count % 5, "lat": count % 7, "x": count, "when": when})
    frame["warmth"], frame["height"] = 3.0 * count, 1.0
    frame.to_csv(tmp_path / "table.csv", index=False)
    given = {"points": ["lon", "lat"], "time": "when", "split_by": ["x"], **options}
    return datasets.table(tmp_path / "table.csv", ["warmth"], **given)


def places(**columns):
    """What the command predicts at six places."""
    lon, lat = (axis.ravel() for axis in np.meshgrid([7.0, 8.0, 9.0], [1.0, 2.0]))
    found = {"lon": lon, "lat": lat, **columns}
    return found | {"warmth": np.arange(6.0), "warmth_std": np.ones(6)}


STAMPS = [f"2024-01-01T{hour:02d}:00+01:00" for hour in range(24)]


@pytest.mark.parametrize(
    ("times", "moment", "hours", "said"),
    [
        (STAMPS, "2024-01-01T12:00+01:00", 12.0, "when 2024-01-01 12:00:00+01:00"),
        (np.arange(24.0) / 2, 4.5, 4.5, "when 4.5"),
    ],
)
def test_places_of_one_moment_are_a_map_that_says_when(
    times, moment, hours, said, tmp_path, monkeypatch
):
    data = read(tmp_path, times)
    grid = field_outputs.on_grid(data, places(when=np.full(6, moment)))
    assert dict(grid.sizes) == {"lon": 3, "lat": 2}
    assert grid["when"].dims == () and float(grid["when"]) == hours
    field_outputs.write_netcdf(tmp_path / "map.nc", grid)
    kept = xr.load_dataset(tmp_path / "map.nc", engine="scipy")
    if isinstance(moment, str):  # as NetCDF's conventions read it
        assert kept["when"].values == np.datetime64("2024-01-01T11:00")
    drawn = []
    monkeypatch.setattr(figures, "save", lambda figure, path: drawn.append(figure))
    field_outputs.picture(grid, data, tmp_path / "map.png")
    assert drawn[0].get_suptitle() == said
    # Of 24 readings one is of this moment.
    dots = drawn[0].axes[0].collections[1].get_offsets()
    there = data.readings.places[data.readings.places[:, 2] == hours]
    np.testing.assert_array_equal(dots, there[:, :2])


def test_places_on_a_line_at_one_moment_are_a_series(tmp_path):
    data = read(tmp_path, np.arange(24.0), points=["x"])
    found = {"x": [1.0, 2.0], "when": [3.0, 3.0], "warmth": [1.0, 2.0], "warmth_std": [1.0, 1.0]}
    assert dict(field_outputs.on_grid(data, found).sizes) == {"x": 2}
    found = {name: np.repeat(column, 2) for name, column in found.items()}
    found["when"] = np.array([3.0, 4.0] * 2)
    assert dict(field_outputs.on_grid(data, found).sizes) == {"x": 2, "when": 2}


def test_places_of_several_moments_are_refused(tmp_path):
    data = read(tmp_path, np.arange(24.0))
    with pytest.raises(ValueError, match="a map is of one moment, and column 'when' holds 2: give"):
        field_outputs.on_grid(data, places(when=np.arange(6) % 2))


def test_the_advice_names_columns_and_a_file_that_can_be_written(tmp_path):
    def advice(**options):
        return field_outputs.how_to_draw(read(tmp_path, np.arange(24.0), **options), "RUN")

    ends = "tfpn predict RUN TABLE --output"
    assert advice() == f"lon, lat, when (when has one value in a map): {ends} map.png"
    covariates = {"time": None, "covariates": ["height"]}
    assert advice(**covariates) == f"lon, lat, height: {ends} map.png"
    assert advice(points=["lon", "lat", "height"]).endswith(f"{ends} found.csv")
