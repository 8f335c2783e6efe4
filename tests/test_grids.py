"""Labelled arrays to observations and back, cell by cell."""

import doctest

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import tfpn
from tfpn.coordinates import sphere
from tfpn.figures import field_map
from tfpn.grids import from_xarray, grid_points, to_xarray
from tfpn.tasks import Values


def dataset(seed=0):
    rng = np.random.default_rng(seed)
    shape = (3, 2, 4)
    rain, heat = rng.normal(size=shape), rng.normal(size=shape[1:])
    rain[rng.uniform(size=shape) < 0.4] = np.nan
    return xr.Dataset(
        {"rain": (("time", "lat", "lon"), rain), "heat": (("lat", "lon"), heat)},
        {"time": [10, 20, 30], "lat": [50.0, 60.0], "lon": [7.0, 8.0, 9.0, 10.0]},
    )


def test_every_reading_has_its_place():
    data = dataset()
    x, times, names = from_xarray(data, points=("lon", "lat"), example="time", variance=0.1)
    assert times == [10, 20, 30] and names == ["rain", "heat"]
    for row, time in enumerate(times):
        for n in range(8):  # heat is known everywhere
            lon, lat = x["points"][row, n]
            cell = data.sel(time=time, lat=lat, lon=lon)
            assert x["values"][row, n, 1] == float(cell["heat"])
            known = np.isfinite(float(cell["rain"]))
            assert np.isfinite(x["variance"][row, n, 0]) == known
            if known:
                assert x["values"][row, n, 0] == float(cell["rain"])


def test_stations_and_times_as_points():
    data = dataset()["rain"].stack(station=("lat", "lon")).reset_index("station")
    x, labels, names = from_xarray(
        data, points=("lon", "lat", "time"), convert=lambda p: np.c_[sphere(p[:, :2]), p[:, 2]]
    )
    assert labels == [0] and names == ["rain"]
    assert x["points"].shape == (1, int(np.isfinite(dataset()["rain"]).sum()), 4)
    assert set(x["points"][0, :, 3]) == {10.0, 20.0, 30.0}
    np.testing.assert_allclose(np.linalg.norm(x["points"][0, :, :3], axis=-1), 1.0, rtol=1e-12)


def test_a_grid_there_and_back(tmp_path):
    data = dataset()
    grid = {"lat": data["lat"].values, "lon": data["lon"].values}
    query = grid_points(grid)
    x, times, _ = from_xarray(data[["heat"]].expand_dims(time=[1, 2]), points=list(grid),
                              example="time")  # fmt: skip
    np.testing.assert_array_equal(x["points"], np.repeat(query, 2, axis=0))
    values = Values(x["values"], 2.0 * np.ones_like(x["values"]))
    found = to_xarray(values, grid, channels=["heat"], example="time", examples=times)
    xr.testing.assert_equal(found["heat"].isel(time=0, drop=True), data["heat"])
    assert found["heat_std"].dims == ("time", "lat", "lon") and found["heat_std"].max() == 2.0
    found.to_netcdf(tmp_path / "heat.nc", engine="scipy")
    xr.testing.assert_identical(xr.load_dataset(tmp_path / "heat.nc", engine="scipy"), found)
    single = to_xarray(Values(*(part[:1] for part in values)), grid, channels=["heat"])
    xr.testing.assert_equal(single["heat"], data["heat"])


def test_the_examples_run():
    found = doctest.testmod(tfpn.grids)
    assert found.failed == 0 and found.attempted > 5


def test_bad_arguments_are_named():
    data = dataset()
    with pytest.raises(ValueError, match=r"points: data have no \['height'\]"):
        from_xarray(data, points="height")
    with pytest.raises(ValueError, match="example: data have no"):
        from_xarray(data, points="lon", example="day")
    with pytest.raises(TypeError, match="data must be an xarray"):
        from_xarray(np.zeros(3), points="lon")
    with pytest.raises(TypeError, match="hours_since"):
        from_xarray(
            data.assign_coords(time=pd.to_datetime(["2020", "2021", "2022"])), points="time"
        )
    with pytest.raises(ValueError, match="data hold no reading"):
        from_xarray(data[["rain"]] * np.nan, points="lon")
    with pytest.raises(ValueError, match="data hold no reading"):
        from_xarray(data[["rain"]].isel(time=slice(0)), points="lon", example="time")
    with pytest.raises(ValueError, match=r"values have the shape \[1, 5, 1\]"):
        to_xarray(Values(np.zeros((1, 5, 1)), np.zeros((1, 5, 1))), {"lon": [1.0]}, channels=["a"])
    with pytest.raises(ValueError, match="grid: 'lon' has the shape"):
        grid_points({"lon": [[1.0]]})
    with pytest.raises(ValueError, match="convert gives the shape"):
        grid_points({"lon": [1.0, 2.0]}, convert=lambda p: p[:1])


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda d: d.astype(complex), "channels: '.*' holds complex128"),
        (lambda d: d.astype("timedelta64[ns]"), "channels: '.*' holds timedelta64"),
        (lambda d: d.astype(str), "channels: '.*' holds <U"),
    ],
)
def test_channels_are_real_numbers(change, said):
    """What NumPy would make numbers of is no reading."""
    with pytest.raises(TypeError, match=said):
        from_xarray(change(dataset()), points="lon")


def test_readings_are_not_repeated_and_infinity_is_no_gap():
    data = xr.Dataset({"rain": ("lon", [1.0, 2.0])}, {"lon": [0.0, 1.0]})
    with pytest.raises(ValueError, match="channels: 'rain' has no dimension depth"):
        from_xarray(data.assign(salt=("depth", [3.0, 4.0])), points="lon")
    with pytest.raises(ValueError, match="name at least one"):
        from_xarray(data, points=[])
    with pytest.raises(ValueError, match="an observed value is finite"):
        from_xarray(data.assign(rain=("lon", [np.inf, 1.0])), points="lon")


@pytest.mark.parametrize(
    "channels, grid",
    [(["rain", "rain_std"], "lat"), (["rain", "rain"], "lat"), (["lat", "rain"], "lat")],
)
def test_no_variable_takes_the_place_of_another(channels, grid):
    values = Values(np.zeros((1, 2, 2)), np.ones((1, 2, 2)))
    with pytest.raises(ValueError, match="would be there twice"):
        to_xarray(values, {grid: [1.0, 2.0]}, channels=channels)


@pytest.mark.parametrize("kind", ["Float64", "double[pyarrow]"])
def test_tables_of_nullable_and_arrow_types(kind):
    """Missing entries of pandas's own types are left out like NaN."""
    plain = pd.DataFrame(
        {"id": [1, 1, 2, 2], "t": [0.0, 1.0, 0.5, 2.0], "v": [1.0, None, 3.0, 4.0]}
    )
    frame = plain.astype({"t": kind, "v": kind})
    assert frame["v"].isna().sum() == 1
    arguments = {"example": "id", "points": "t", "value": "v"}
    found, expected = (tfpn.wrappers.from_frame(f, **arguments)[0] for f in (frame, plain))
    for key, array in expected.items():
        np.testing.assert_array_equal(found[key], array)


def test_stamps_of_arrow():
    stamps = pd.Series(pd.to_datetime(["2024-01-01 06:00", "2024-01-02 00:00"], utc=True))
    arrow = stamps.astype("timestamp[us, UTC][pyarrow]")
    found = tfpn.coordinates.hours_since(arrow, "2024-01-01T00:00Z")
    np.testing.assert_array_equal(found, [6.0, 24.0])


def test_examples_that_are_named_by_numbers_are_drawn_as_examples():
    values = Values(np.arange(12.0).reshape(2, 6, 1), np.ones((2, 6, 1)))
    grid = {"x": [1.0, 2.0], "y": [7.0, 8.0, 9.0]}
    found = to_xarray(values, grid, channels=["rain"], example="year", examples=[1990.0, 1991.0])
    titles = [axes.get_title() for axes in field_map(found).axes]
    assert [title for title in titles if title and "deviation" not in title] == [
        "rain, year 1990.0",
        "rain, year 1991.0",
    ]


DAYS = pd.DatetimeIndex(["2024-03-31", "2024-04-01"], tz="Europe/Berlin")


@pytest.mark.parametrize(
    "labels",
    [
        list(DAYS),
        [day.to_pydatetime() for day in DAYS],
        DAYS,
        pd.Series(DAYS),
        DAYS.tz_convert("UTC").tz_localize(None),
        xr.DataArray(DAYS.tz_convert("UTC").tz_localize(None), dims="day"),
    ],
    ids=lambda labels: type(labels).__name__,
)
def test_labels_may_be_stamps_with_a_zone_and_arrays(labels, tmp_path):
    values = Values(np.arange(4.0).reshape(2, 2, 1), np.ones((2, 2, 1)))
    grid = {"lon": [1.0, 2.0]}
    found = to_xarray(values, grid, channels=["rain"], example="day", examples=labels)
    found.to_netcdf(tmp_path / "map.nc", engine="scipy")
    again = xr.load_dataset(tmp_path / "map.nc", engine="scipy")
    moments = np.array(["2024-03-30T23:00", "2024-03-31T22:00"], "datetime64[ns]")
    np.testing.assert_array_equal(again["day"].values.astype("datetime64[ns]"), moments)


def test_labels_of_time_stamps_stay_time_stamps():
    data = dataset().assign_coords(time=pd.date_range("2024-01-01", periods=3))
    _, times, _ = from_xarray(data, points=("lon", "lat"), example="time")
    assert times == [np.datetime64(f"2024-01-0{day}") for day in (1, 2, 3)]
    values = Values(np.zeros((3, 1, 1)), np.ones((3, 1, 1)))
    found = to_xarray(values, {"x": [0.0]}, channels=["v"], example="time", examples=times)
    np.testing.assert_array_equal(found["time"].values, data["time"].values)
