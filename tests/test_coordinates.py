"""Places on a sphere and moments: against rotations, the poles, the date line and clock changes."""

import types

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import tfpn
from tfpn import tables
from tfpn.coordinates import EARTH_RADIUS, degrees, great_circle, hours_since, sphere
from tfpn.math.kernels import Kernel
from tfpn.spacing import point_spacing
from tfpn.training.field_outputs import grid_of


def places(count=200, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack(
        [rng.uniform(-180, 180, count), np.degrees(np.arcsin(rng.uniform(-1, 1, count)))]
    )


def test_there_and_back():
    """Rounding of angles, larger near the poles: 1e-9 degrees."""
    lonlat = places()
    points = sphere(lonlat, radius=3.0)
    np.testing.assert_allclose(np.linalg.norm(points, axis=-1), 3.0, rtol=1e-14)
    np.testing.assert_allclose(degrees(points), lonlat, atol=1e-9)
    np.testing.assert_allclose(sphere(lonlat + [360.0, 0.0]), sphere(lonlat), atol=1e-14)
    assert degrees([[-1.0, -0.0, 0.0], [0.0, 0.0, -2.0]]).tolist() == [[180.0, 0.0], [0.0, -90.0]]


@pytest.mark.parametrize("backend", ["numpy_nullable", "pyarrow"])
def test_columns_of_nullable_and_arrow_types(backend):
    table = pd.DataFrame({"lon": [10.0, None, 30.5], "lat": [1, 2, 3]})
    found = table.convert_dtypes(dtype_backend=backend)
    np.testing.assert_array_equal(sphere(found), sphere(table))
    values = [found[["lat"]], found[["lon"]]]
    x = tfpn.observations(np.zeros((2, 3, 1)), values)
    np.testing.assert_array_equal(x["values"][0, :, 0], table["lat"])
    np.testing.assert_array_equal(np.isfinite(x["variance"][1, :, 0]), table["lon"].notna())
    with pytest.raises(TypeError, match="of dtype object; give real numbers"):
        sphere(found.astype({"lat": "string"}))


def test_time_stamps_in_place_of_numbers_are_told_how_to_become_hours():
    stamps = pd.date_range("2024-01-01", periods=3, freq="h", tz="UTC")
    with pytest.raises(TypeError, match="times: .*the hours that tfpn.coordinates.hours_since"):
        tfpn.tasks.forecast(None, stamps, np.zeros(3), [4.0])
    with pytest.raises(ValueError, match=r"times: .* format\. Write stamps as 2024-12-31T06:00"):
        hours_since(["2024-01-01T00:00", "20.10.2024 00:00"], "2024-01-01T00:00")


def test_distances_are_the_angles_of_space():
    """Angles by the arc cosine have 1e-8 near 0 and 180 degrees."""
    first, second = places(seed=1), places(seed=2)
    angle = np.arccos(np.clip(np.sum(sphere(first) * sphere(second), -1), -1, 1))
    np.testing.assert_allclose(great_circle(first, second, 1.0), angle, atol=1e-7)
    chord = np.linalg.norm(sphere(first) - sphere(second), axis=-1)
    np.testing.assert_allclose(
        chord, 2.0 * np.sin(great_circle(first, second, 1.0) / 2.0), atol=1e-14
    )
    # A millimetre keeps its digits, and so does the other end of the globe.
    near = np.array([12.0, 50.0])
    step = np.degrees(1e-6 / EARTH_RADIUS)
    assert great_circle(near, near + [0.0, step]) == pytest.approx(1e-6, rel=1e-3)
    assert great_circle([0.0, 0.0], [180.0, 0.0]) == pytest.approx(np.pi * EARTH_RADIUS)


def test_the_spacing_of_places_is_the_distance_that_the_kernel_reads():
    """A length scale of one spacing correlates neighbours by exp(-1/2), as on a lattice.

    The places are 30 degrees apart. An arc would give exp(-0.4886), which is 1.1 % more.
    """
    ring = sphere(np.column_stack([np.arange(175.0, 535.0, 30.0), np.zeros(12)]))
    spacing = point_spacing(ring[None], np.zeros((1, 12, 1)))
    assert spacing == pytest.approx(2.0 * np.sin(np.pi / 12.0), rel=1e-12)
    kernel = Kernel(tf.constant(1.0, tf.float64), tf.constant(spacing, tf.float64))
    neighbours = np.diagonal(kernel.covariance(ring, ring), offset=1)
    np.testing.assert_allclose(neighbours, np.exp(-0.5), rtol=1e-12)


def test_a_field_crosses_the_date_line_and_the_pole():
    """A prediction does not know where longitudes begin. float32 positions: 1e-4 of the values."""
    rng = np.random.default_rng(0)
    lonlat = np.column_stack([rng.uniform(-180, 180, 40), rng.uniform(60, 90, 40)])
    values = np.sin(4.0 * sphere(lonlat)[:, 0]) + 3.0 * sphere(lonlat)[:, 1]
    query = np.array([[180.0, 70.0], [-180.0, 70.0], [30.0, 90.0], [-150.0, 90.0]])
    found = []
    for turn in (0.0, 180.0):  # the same map with longitudes from another meridian
        x = tfpn.observations(sphere(lonlat + [turn, 0.0])[None], values[None])
        model = tfpn.models.PNCNN(
            None, num_outputs=1, output="field", spatial_dim=3, ard=(0, 0, 0), channels=2,
            num_blocks=1, num_basis=1, seed=0,
        )  # fmt: skip
        model.adapt(x, fit_priors=False)
        mean = tfpn.tasks.interpolate(model, x, sphere(query + [turn, 0.0])).mean[0, :, 0]
        np.testing.assert_allclose(mean[0], mean[1], atol=1e-4)
        np.testing.assert_allclose(mean[2], mean[3], atol=1e-4)
        found.append(mean)
    np.testing.assert_allclose(found[0], found[1], atol=1e-3)


def test_bad_places_are_named():
    with pytest.raises(ValueError, match="a latitude is 120 degrees"):
        sphere([[40.0, 120.0]])
    with pytest.raises(ValueError, match=r"lonlat: found the shape \[3\]"):
        sphere([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"points: found the shape \[2\]"):
        degrees([1.0, 2.0])
    with pytest.raises(ValueError, match="lonlat: a longitude is infinite"):
        sphere([[np.inf, 0.0]])
    with pytest.raises(ValueError, match="points: a coordinate is infinite"):
        degrees([[np.inf, 0.0, 0.0]])
    assert np.all(np.isnan(degrees([[0.0, 0.0, 0.0], [np.nan, 0.0, 0.0]])))


@pytest.mark.parametrize(
    "times, origin, error, said",
    [
        ([1, 2], "2024-01-01", TypeError, "times: found 1, which is no time stamp"),
        ([1.5, None], "2024-01-01", TypeError, "times: found 1.5, which is no time stamp"),
        (["2024-01-01", 3], "2024-01-01", TypeError, "times: found 3, which is no time stamp"),
        (pd.to_timedelta([1], "h"), "2024-01-01", TypeError, "times: found 0 days 01:00:00"),
        (["2024-01-01"], 0, TypeError, "origin is 0: give a time stamp"),
        (["2024-01-01"], None, ValueError, "origin is None: give a time stamp"),
        (["2024-01-01"], "soon", ValueError, "origin is 'soon': give a time stamp"),
        (["soon"], "2024-01-01", ValueError, "times: .*Write stamps as 2024-12-31T06:00"),
        (["31/12/2024"], "2024-01-01", ValueError, "times: .*Write stamps as 2024-12-31T06:00"),
    ],
)
def test_what_is_no_time_stamp_is_named(times, origin, error, said):
    """Numbers, which pandas takes for nanoseconds since 1970, most of all."""
    with pytest.raises(error, match=said):
        hours_since(times, origin)


def test_there_is_no_such_zone():
    for zone in ("Mars/Base", ""):
        with pytest.raises(ValueError, match=f"timezone: there is no zone '{zone}'"):
            hours_since(["2024-01-01"], "2024-01-01", timezone=zone)
    assert np.isnan(hours_since([None, np.nan], "2024-01-01")).all()


def test_hours_that_clocks_show_twice_are_an_hour_apart():
    clocks = ["2024-10-27 01:30", "2024-10-27 02:30", "2024-10-27 02:30", "2024-10-27 03:30"]
    options = {"timezone": "Europe/Berlin", "ambiguous": "infer"}
    found = hours_since(clocks, "2024-10-27", **options)
    assert found.tolist() == [1.5, 2.5, 3.5, 4.5]
    zoned = pd.Series(pd.to_datetime(clocks)).dt.tz_localize("Europe/Berlin", ambiguous="infer")
    assert hours_since(zoned, "2024-10-26T22:00Z").tolist() == found.tolist()
    with pytest.raises(ValueError, match="(?i)ambiguous"):
        hours_since(clocks, "2024-10-27", timezone="Europe/Berlin")


@pytest.mark.parametrize(
    "times, origin", [("2024-03-31 02:30", "2024-01-01"), ("2024-05-01", "2024-03-31 02:30")]
)
def test_an_hour_that_clocks_skip_is_named(times, origin):
    with pytest.raises(ValueError, match="origin: 2024-03-31 02:30:00 is a nonexistent time"):
        hours_since([times], origin, timezone="Europe/Berlin")


def test_missing_stamps_and_kinds_of_columns():
    stamps = pd.Series(pd.to_datetime(["2024-01-01 06:00", None, "2024-01-02 00:00"]))
    found = hours_since(stamps, "2024-01-01")
    np.testing.assert_array_equal(found, [6.0, np.nan, 24.0])
    np.testing.assert_array_equal(hours_since(pd.DatetimeIndex(stamps), "2024-01-01"), found)
    with pytest.raises(ValueError, match="origin has a time zone and times has none"):
        hours_since(stamps, "2024-01-01T00:00Z")
    with pytest.raises(ValueError, match="with and without a time zone"):
        hours_since(["2024-01-01T00:00Z", "2024-01-01"], "2024-01-01T00:00Z")


def hours_of(frame, **columns):
    return tables.Coordinates((), "when", time_zone="Europe/Berlin", **columns).hours(frame)


def test_each_series_of_a_table_tells_its_own_twice_shown_hours():
    moments = pd.date_range("2024-10-27", periods=6, freq="h", tz="Europe/Berlin")
    clocks = moments.tz_localize(None)
    expected = np.repeat(np.arange(6.0), 2)
    both = pd.DataFrame({"device": ["x", "y"] * 6, "when": np.repeat(clocks, 2)})
    np.testing.assert_array_equal(hours_of(both, series=["device"]), expected)
    stacked = both.sort_values("device", kind="stable")
    np.testing.assert_array_equal(hours_of(stacked, series=["device"]), np.tile(np.arange(6.0), 2))
    # Something that moves is a series of its own, and stamps with offsets need no order.
    frame = pd.DataFrame({"east": np.arange(6.0), "when": clocks, "device": "x"})
    moving = {"points": ["east"], "time": "when", "time_zone": "Europe/Berlin"}
    found = tables.Coordinates(**moving, series=["device"]).hours(frame)
    np.testing.assert_array_equal(found, np.arange(6.0))
    offsets = pd.DataFrame({"when": [stamp.isoformat() for stamp in moments[::-1]]})
    np.testing.assert_array_equal(hours_of(offsets, origin="2024-10-27"), np.arange(6.0)[::-1])
    # An origin in the hour itself is the first of the two.
    np.testing.assert_array_equal(hours_of(both[4:], series=["device"]), expected[:-4])
    # Two places are no two readings of one, and one reading is either.
    twice = tables.Coordinates(**moving, origin="2024-10-27")
    for asked in (frame[2:4], frame[2:3]):
        with pytest.raises(ValueError, match="Write stamps with their offset"):
            twice.hours(asked)


def test_hours_become_stamps_again():
    columns = tables.Coordinates((), "when", time_zone="Europe/Berlin", origin="2024-10-27")
    stamps = columns.stamps(np.arange(5.0))
    assert [stamp.hour for stamp in stamps] == [0, 1, 2, 2, 3]
    np.testing.assert_array_equal(columns.hours(pd.DataFrame({"when": stamps})), np.arange(5.0))
    plain = tables.Coordinates((), "when", origin="2024-10-27").stamps([25.0])
    assert plain.tolist() == [pd.Timestamp("2024-10-28 01:00")]


def test_a_grid_of_a_table_goes_over_the_date_line_and_not_beyond_a_pole():
    def ends(longitudes, latitudes=(0.0, 10.0)):
        size = len(longitudes)
        frame = pd.DataFrame({"lon": longitudes, "lat": np.resize(latitudes, size)})
        place = tables.Coordinates(["lon", "lat"], degrees=True)
        columns = types.SimpleNamespace(coordinates=place)
        readings = types.SimpleNamespace(frame=frame)
        grid = grid_of(types.SimpleNamespace(columns=columns, readings=readings), 5)
        assert all(np.all(np.diff(axis) > 0.0) for axis in grid.values())
        return grid["lon"][0], grid["lon"][-1], grid["lat"][0], grid["lat"][-1]

    assert ends([175.0, -175.0, 180.0, 178.0])[:2] == pytest.approx((174.8, 185.2))
    assert ends([5.0, 5.0])[:2] == (5.0, 5.0)  # no longitude twice
    assert ends([-84.0, -80.0])[:2] == pytest.approx((-84.08, -79.92))
    assert ends([350.0, 352.0])[:2] == pytest.approx((349.96, 352.04))
    west, east, south, north = ends(np.arange(-180.0, 180.0, 30.0), (-90.0, 90.0))
    assert east - west <= 360.0 + 1e-9 and (south, north) == (-90.0, 90.0)
    # Round a pole, with the widest gap from 80 to 150 degrees.
    west, east, *_ = ends([-180.0, 170.0, -120.0, -60.0, 0.0, 60.0, 80.0, 150.0])
    assert (west, east) == pytest.approx((-185.0, 175.0))
    assert ends([10.0, 60.0, 100.0, 190.0, 240.0, 280.0, -10.0, -179.0])[:2] == (-180.0, 180.0)
    # A gap of 100 degrees is one.
    assert ends([0.0, 90.0, 180.0, -100.0])[:2] == pytest.approx((-5.2, 265.2))


def test_advice_on_times_names_what_there_is():
    with pytest.raises(ValueError, match="nonexistent time.*; correct it, or give no time zone"):
        hours_since(["2024-03-31 02:30"], "2024-03-31", timezone="Europe/Berlin")
    with pytest.raises(ValueError, match="not ISO8601 format. Write stamps as"):
        hours_since(["01/02/2024"], "2024-01-01")
