"""Tables of your own as data sets: what is read, what is left out, and what is refused."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from tfpn import datasets, table_files, tasks
from tfpn.training.field_outputs import table_at, write_netcdf


def stations(count=12, months=2):
    rng = np.random.default_rng(0)
    place = rng.uniform([-10, 40], [10, 60], (count, 2)).round(3)
    rows = [
        {"month": m, "lon": x, "lat": y, "warmth": 10.0 * m + k, "rain": 1.0 if k % 3 else np.nan}
        for m in range(months)
        for k, (x, y) in enumerate(place)
    ]
    return pd.DataFrame(rows)


def read(tmp_path, frame, **options):
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    given = {"points": ["lon", "lat"], "values": ["warmth"], **options}
    return datasets.table(path, **given)


def observed(part):
    return np.isfinite(part.x["variance"])


def test_places_are_left_out_of_all_examples(tmp_path):
    data = read(tmp_path, stations(), example="month", values=["warmth", "rain"])
    assert data.task == "field" and data.readings.examples == [0, 1]
    shown = {tuple(p) for p in data.train.x["points"][observed(data.train).any(-1)]}
    for part, count in ((data.validation, 1), (data.test, 2)):
        asked = {tuple(p) for p in part.query[np.isfinite(part.y).any(-1)]}
        assert len(asked) == count and not asked & shown
        np.testing.assert_array_equal(part.x["values"], data.train.x["values"])
        for month in range(2):
            truth = dict(zip(data.readings.places[:, 0], data.readings.values[:, 0], strict=True))
            k = np.flatnonzero(np.isfinite(part.y[month, :, 0]))
            expected = [truth[x] % 10 for x in np.float64(part.query[month, k, 0]).round(3)]
            assert (part.y[month, k, 0] % 10 == expected).all()
    assert len(shown) == 9
    # Every reading is in one part, gaps in none.
    counts = [int(observed(data.train).sum())]
    counts += [int(np.isfinite(part.y).sum()) for part in (data.validation, data.test)]
    assert sum(counts) == np.isfinite(stations()[["warmth", "rain"]].to_numpy()).sum()


def test_two_readings_at_a_place_stay_together_and_both_count(tmp_path):
    frame = stations(months=1)
    frame = pd.concat([frame, frame.assign(warmth=frame.warmth + 0.5)])
    data = read(tmp_path, frame, validation_fraction=0.0, test_fraction=0.25)
    assert data.validation is None
    assert observed(data.train).sum() == 18 and np.isfinite(data.test.y).sum() == 6
    places = data.test.query[0, :6]
    assert len(np.unique(places, axis=0)) == 3


def test_degrees_times_and_covariates_become_coordinates(tmp_path):
    frame = stations(months=1).assign(height=np.arange(12.0))
    frame["when"] = pd.date_range("2024-10-26T22:00", periods=12, freq="30min", tz="UTC")
    frame["when"] = frame["when"].dt.tz_convert("Europe/Berlin").map(lambda t: t.isoformat())
    options = {"degrees": True, "time": "when", "covariates": ["height"]}
    data = read(tmp_path, frame, **options, split_by=["height"])
    found = data.readings.places
    np.testing.assert_allclose(np.linalg.norm(found[:, :3], axis=1), 1.0)
    np.testing.assert_allclose(np.degrees(np.arcsin(found[:, 2])), frame["lat"])
    # The hour that clocks show twice is there twice.
    np.testing.assert_allclose(found[:, 3], np.arange(12) / 2)
    np.testing.assert_array_equal(found[:, 4], frame["height"])
    # Another table counts from the same origin.
    later = data.columns.coordinates.read(frame[6:])
    np.testing.assert_array_equal(later, found[6:])
    from tfpn.datasets._table import suggested

    assert suggested({"points": ["lon", "lat"], "values": ["warmth"], **options}) == {
        **{"num_classes": None, "num_outputs": 1, "spatial_dim": 5, "in_channels": 1},
        **{"channels": 8, "num_blocks": 1, "output": "field", "pooling": "space"},
        **{"ard": [0, 0, 0, 1, 2], "trend": "linear"},
    }


def test_targets_are_numbers_of_examples(tmp_path):
    frame = stations(months=10)
    frame["age"] = np.where(frame["lon"] == frame["lon"][0], 2.0 * frame["month"], np.nan)
    frame.loc[frame["month"] == 4, "age"] = np.nan
    data = read(tmp_path, frame, example="month", targets=["age"], standardize=False)
    assert data.task == "regression" and data.train.query is None
    sizes = [len(part) for part in (data.train, data.validation, data.test)]
    assert sizes == [6, 1, 2]  # of nine with a target
    months = {float(part.x["values"][k, 0, 0]) // 10 for part in (data.train,) for k in range(6)}
    assert 4.0 not in months
    for part in (data.train, data.validation, data.test):
        np.testing.assert_array_equal(part.y[:, 0], 2 * (part.x["values"][:, 0, 0] // 10))
    with pytest.raises(ValueError, match=r"'lat' holds .* in the example 0: give one target"):
        read(tmp_path, frame, example="month", targets=["lat"])


def test_labels_are_numbers_of_classes_of_which_each_part_has_its_share(tmp_path):
    frame = stations(months=20)
    kind = np.where(frame["month"] % 4 == 0, "wet", "dry").astype(object)
    frame["kind"] = np.where(frame["lon"] == frame["lon"][0], kind, None)  # in one row of many
    frame.loc[frame["month"] == 19, "kind"] = None
    options = {"example": "month", "labels": "kind", "standardize": False}
    data = read(tmp_path, frame, **options, validation_fraction=0.2, test_fraction=0.2)
    assert data.task == "classification" and data.classes == ["dry", "wet"]
    for part, counts in ((data.train, [8, 3]), (data.validation, [3, 1]), (data.test, [3, 1])):
        months = part.x["values"][:, 0, 0] // 10
        assert 19 not in months
        np.testing.assert_array_equal(part.y, (months % 4 == 0).astype(int))
        assert np.bincount(part.y).tolist() == counts
    other = read(tmp_path, frame, **options, classes=["wet", "snow", "dry"])
    assert set(other.train.y) == {0, 2}
    # A gap makes floating-point numbers of integers.
    frame["kind"] = frame["kind"].map({"dry": 7, "wet": 3})
    whole = read(tmp_path, frame, **options)
    assert whole.classes == [3, 7] and all(type(name) is int for name in whole.classes)
    frame["kind"] += 0.5
    with pytest.raises(ValueError, match="holds 3.5: a label is text or a whole number"):
        read(tmp_path, frame, **options)


def test_series_of_examples_count_from_their_own_start_in_units_of_the_training_part(tmp_path):
    rng = np.random.default_rng(0)
    starts = pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 300, 20), unit="D")
    hours = rng.uniform(0, 48, (20, 9))
    frame = pd.DataFrame({"who": np.repeat(np.arange(20), 9), "hour": hours.ravel()})
    frame["when"] = np.repeat(starts, 9) + pd.to_timedelta(frame["hour"].round(3), unit="h")
    frame["pulse"] = rng.normal(80.0, 7.0, 180)
    frame["age"] = frame["who"] + 20.0
    frame = frame.sample(frac=1.0, random_state=0)
    options = {"points": [], "time": "when", "values": ["pulse"], "variance": [9.0]}
    options |= {"example": "who", "targets": ["age"], "from_start": True}
    data = read(tmp_path, frame, **options)
    for part in (data.train, data.validation, data.test):
        who = (part.y[:, 0] - 20).astype(int)
        expected = np.sort(hours - hours.min(axis=1, keepdims=True))[who]
        np.testing.assert_allclose(np.sort(part.x["points"][..., 0]), expected, atol=0.01)
    known = data.train.x["values"]
    assert known.mean() == pytest.approx(0.0, abs=1e-5) and known.std() == pytest.approx(1.0)
    truth = frame[frame["who"].isin(data.train.y[:, 0] - 20)]["pulse"].std(ddof=0)
    np.testing.assert_allclose(data.train.x["variance"], 9.0 / truth**2, rtol=1e-5)
    # Another table is read in the same units.
    some = data.columns.read(frame[frame["who"] == 3])
    assert some.places.min() == 0.0
    again = data.readings.values[data.readings.rows == data.readings.examples.index(3)]
    np.testing.assert_allclose(some.values, again)


def test_errors_name_rows_as_the_file_counts(tmp_path):
    frame = stations(months=1)
    frame.loc[:2, "warmth"] = np.nan  # these rows hold no reading
    frame.loc[5, "lon"] = np.nan
    with pytest.raises(ValueError, match="column 'lon' is empty in row 6: fill"):
        read(tmp_path, frame)


def test_places_of_a_grid_become_a_map(tmp_path):
    from tfpn.training import field_outputs

    data = read(tmp_path, stations().assign(height=1.0), example="month", covariates=["height"])
    lon, lat = (axis.ravel() for axis in np.meshgrid([7.0, 8.0, 9.0], [1.0, 2.0]))
    found = {"month": np.repeat([0, 1], 6), "lon": np.tile(lon, 2), "lat": np.tile(lat, 2)}
    found |= {"height": np.zeros(12), "warmth": np.arange(12.0), "warmth_std": np.ones(12)}
    grid = field_outputs.on_grid(data, {name: column[:-1] for name, column in found.items()})
    assert dict(grid.sizes) == {"month": 2, "lon": 3, "lat": 2} and grid.attrs["example"] == "month"
    assert float(grid["warmth"].sel(month="1", lon=8.0, lat=1.0)) == 7.0
    assert np.isnan(grid["warmth_std"].sel(month="1", lon=9.0, lat=2.0))
    found["lat"] = np.arange(12.0)
    with pytest.raises(ValueError, match="do not form a grid: 12 places"):
        field_outputs.on_grid(data, found)
    with pytest.raises(ValueError, match="the table has no row"):
        field_outputs.on_grid(data, {name: column[:0] for name, column in found.items()})


def test_an_example_is_found_by_number_and_by_text(tmp_path, monkeypatch):
    """The file of the readings also names an example "a", so its numbers are text."""
    frame = stations()
    data = read(tmp_path, frame.assign(month=frame["month"].map({0: "a", 1: "1"})), example="month")

    def values(model, x, query):
        return tasks.Values(*(np.full((1, query.shape[1], 1), x["values"][0, 0, 0]) for _ in "12"))

    monkeypatch.setattr(tasks, "interpolate", values)
    asked = pd.DataFrame({"month": [1, 1], "lon": [7.0, 8.0], "lat": [1.0, 2.0]})
    first = data.readings.values[data.readings.examples.index("1") == data.readings.rows][0, 0]
    assert table_at(None, data, asked)["warmth"].tolist() == [np.float32(first)] * 2
    with pytest.raises(ValueError, match="'month' holds 2, which has no reading"):
        table_at(None, data, asked.assign(month=2))


def test_names_of_any_alphabet_are_written_as_netcdf(tmp_path):
    """In UTF-8, as NetCDF has it, where SciPy's Latin-1 does not have the letters."""
    grid = xr.Dataset(
        {"Höhe": (("день", "北"), np.ones((1, 2)))},
        {"день": ["я"], "北": [1.0, 2.0]},
        {"example": "день"},
    )
    write_netcdf(tmp_path / "map.nc", grid)
    found = xr.load_dataset(tmp_path / "map.nc", engine="scipy")
    assert {name.encode("latin1") for name in found.coords} == {b.encode() for b in grid.coords}
    assert found.attrs["example"].encode("latin1").decode() == "день"
    assert list(found["Höhe"].values.ravel()) == [1.0, 1.0]


def test_a_map_of_places_across_180_degrees_is_in_one_piece(tmp_path):
    from tfpn.training import field_outputs

    data = read(tmp_path, stations(), degrees=True, split_by=["month", "lon"])
    for west, east in ((179.9, -179.9), (359.9, 0.1)):
        found = {"lon": np.array([east, west, east, west]), "lat": np.array([1.0, 1.0, 2.0, 2.0])}
        found |= {"warmth": np.arange(4.0), "warmth_std": np.ones(4)}
        grid = field_outputs.on_grid(data, found)
        assert grid["lon"].values.tolist() == [west, round(west + 0.2, 9)]
        assert grid["warmth"].values.tolist() == [[1.0, 3.0], [0.0, 2.0]]
    found["lon"] = np.array([-120.0, 0.0, 120.0, 0.0])  # round the globe: as they are written
    grid = field_outputs.on_grid(data, {name: column[:3] for name, column in found.items()})
    assert grid["lon"].values.tolist() == [-120.0, 0.0, 120.0]


@pytest.mark.parametrize(("zone", "said"), [("", ""), ("+01:00", " UTC")])
def test_hours_of_a_field_say_the_zone_of_their_start(zone, said, tmp_path):
    xr = pytest.importorskip("xarray")
    from tfpn.training import field_outputs

    stamps = [f"2024-01-01T{hour:02d}:00{zone}" for hour in range(24)]
    data = read(tmp_path, stations().assign(when=stamps), points=[], time="when")
    found = {"when": stamps[:2], "warmth": np.zeros(2), "warmth_std": np.ones(2)}
    grid = field_outputs.on_grid(data, found)
    start = pd.Timestamp(stamps[0])
    start = start if start.tzinfo is None else start.tz_convert("UTC").tz_localize(None)
    assert grid["when"].attrs["units"] == f"hours since {start}{said}"
    field_outputs.write_netcdf(tmp_path / "field.nc", grid)
    with xr.open_dataset(tmp_path / "field.nc") as back:
        assert pd.Timestamp(back["when"].values[0]) == start


def test_parquet_with_nullable_and_arrow_columns_is_read_like_csv(tmp_path):
    plain = read(tmp_path, stations(), example="month", values=["warmth", "rain"])
    for backend in ("numpy_nullable", "pyarrow"):
        path = tmp_path / f"{backend}.parquet"
        stations().convert_dtypes(dtype_backend=backend).to_parquet(path)
        frame = table_files.read_table(path)
        assert not all(isinstance(dtype, np.dtype) for dtype in frame.dtypes)
        found = plain.columns.read(frame)
        np.testing.assert_array_equal(found.values, plain.readings.values)
        np.testing.assert_array_equal(found.places, plain.readings.places)


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        ({}, {"values": ["warmht"]}, r"no column 'warmht' \(did you mean 'warmth'\?\); the"),
        ({"kind": "dry"}, {"example": "month", "targets": ["kind"]}, "targets: .*'dry' .* classes"),
        ({"kind": "dry"}, {"example": "month", "labels": "kind"}, r"classes \['dry'\]: at least 2"),
        (
            {"kind": list("abab") * 6},
            {"example": "month", "labels": "kind"},
            "'kind' holds a and b in the example 0: give one label",
        ),
        (
            {"kind": ["a"] * 12 + ["b"] * 12},
            {"example": "month", "labels": "kind", "classes": ["a", "c"]},
            r"'kind' holds 'b', which is not one of the classes \['a', 'c'\]: correct it",
        ),
        ({}, {"labels": "rain", "targets": ["month"]}, "either targets or labels"),
        ({}, {"labels": "warmth"}, "'warmth' is named twice, for values and for labels"),
        ({}, {"example": "lon"}, "'lon' is named twice, for points and for example"),
        ({"row": range(24)}, {"example": "row"}, "no example has readings in two rows"),
        ({"warmth_std": 1}, {"example": "warmth_std"}, "'warmth_std' is named twice, for example"),
        ({}, {"labels": "month", "example": "month"}, "twice, for labels and for example"),
        (
            {"when": 1.0},
            {"time": "when", "from_start": True},
            "from_start needs time, example, and",
        ),
        ({}, {"values": ["wind"]}, r"no column 'wind'; the table has \['month', 'lon'"),
        ({"warmth": "cold"}, {}, "column 'warmth' holds 'cold' in row 1: give a number"),
        ({"warmth": np.inf}, {}, "column 'warmth' holds inf in row 1"),
        (
            {"warmth": 6371008.0 + 0.1 * np.arange(24) % 0.5},
            {},
            "column 'warmth' varies by 0.14 about 6371008.192, where float32 has steps of 0.5",
        ),
        ({"warmth": 1e-50 * np.arange(24)}, {}, "'warmth' varies by 6.9e-50, less than float32"),
        ({"warmth": 1e45}, {}, "column 'warmth' holds 1e.45 in row 1: float32 holds numbers up to"),
        ({"warmth": np.nan}, {}, "column 'warmth' holds no reading in 24 rows"),
        ({"lat": 95.0}, {"degrees": True}, "'lat' holds 95 in row 1: latitudes are"),
        ({"lon": np.nan}, {}, "column 'lon' is empty in row 1"),
        (
            {"lon": 1.0, "lat": 2.0},
            {},
            r"there are 1 place\(s\) of different lon, lat, and .* leave 0",
        ),
        ({}, {"degrees": True, "points": ["lon"]}, "degrees=true needs longitude and latitude"),
        ({}, {"points": []}, "name the columns of values, and of points or time"),
        ({}, {"time": "when"}, "no column 'when'"),
        (
            {"when": "noon"},
            {"time": "when"},
            "column 'when' holds 'noon' in row 1: write stamps",
        ),
        ({}, {"test_fraction": 1.5}, "test_fraction: found 1.5"),
        ({}, {"values": ["rain"], "targets": ["warmth"]}, "'warmth' holds 1 and 2 in the example"),
        ({}, {"targets": ["warmth"]}, "'warmth' is named twice, for values and for targets"),
        ({}, {"values": ["lon"]}, "'lon' is named twice, for points and for values"),
        (
            {},
            {"values": ["rain", "rain_std"]},
            "'rain_std' is named twice, for values and for the st",
        ),
        ({"warmth": "1,5"}, {}, "holds '1,5' in row 1: write 2.5 for two and a half"),
        ({"when": "2024-01-01"}, {"time": "when", "time_zone": "Mars/Base"}, "there is no zone"),
        ({}, {"time_zone": "Europe/Berlin"}, "time_zone: found 'Europe/Berlin', but no time stamp"),
        ({}, {"time": "month", "origin": "2024-01-01"}, "origin: found .* but no time stamps"),
        ({}, {"classes": ["a", "b"]}, "classes are the names of labels"),
        (
            {"when": 1.7e9 + np.arange(24)},
            {"time": "when", "points": []},
            "'when' reaches 1700000023, and float32 tells 1 of 24 values apart: .*time stamps",
        ),
        (
            {"when": 1.7e9 + np.arange(24)},
            {"time": "when"},
            "'when' reaches 1700000023, and float32 tells 1 of 24 values apart: .*time stamps",
        ),
    ],
)
def test_what_cannot_be_used_is_named(change, options, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        read(tmp_path, stations().assign(**change), **options)


def test_numbers_of_16_bits_are_coordinates(tmp_path):
    few = stations()[["lon", "lat", "warmth"]].astype(np.float16)
    few.to_parquet(tmp_path / "few.parquet")
    found = datasets.table(tmp_path / "few.parquet", ["warmth"], ["lon", "lat"])
    np.testing.assert_array_equal(found.readings.places, few[["lon", "lat"]])


def test_one_name_is_no_list(tmp_path):
    with pytest.raises(TypeError, match=r"values: found 'warmth'; give a list, \['warmth'\]"):
        read(tmp_path, stations(), values="warmth")


@pytest.mark.parametrize("stamped", [True, False])
def test_times_stay_stamps_or_numbers(stamped, tmp_path):
    numbers = stations().assign(when=np.arange(24))
    stamps = numbers.assign(when=pd.date_range("2024-01-01", periods=24).astype(str))
    frames = (numbers, stamps) if not stamped else (stamps, numbers)
    data = read(tmp_path, frames[0], points=[], time="when")
    assert data.columns.coordinates.read(frames[0]).shape == (24, 1)
    with pytest.raises(ValueError, match="column 'when' holds .* but the table of the training"):
        data.columns.coordinates.read(frames[1])
