"""Tables of series with a class each: scales, examples without readings, times and variances."""

import numpy as np
import pandas as pd
import pytest

from tfpn import datasets, tables


def series(**columns):
    rows = [{"id": k, "hour": float(t), "kind": k % 2} for k in range(10) for t in range(5)]
    return pd.DataFrame(rows).assign(**columns)


def read(tmp_path, frame, **options):
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    given = {"time": "hour", "example": "id", "labels": "kind", **options}
    return datasets.table(path, **given)


def test_a_constant_column_has_the_scale_1(tmp_path):
    """The mean of tenths is not a tenth to the last digit."""
    frame = series(still=0.1, heat=np.arange(50.0))
    data = read(tmp_path, frame, values=["still", "heat"])
    assert data.columns.scale[1, 0] == 1.0
    new = data.columns.read(frame.assign(still=0.2)).observed()
    np.testing.assert_allclose(new["values"][..., 0], 0.1, rtol=1e-6)


def test_examples_without_a_reading_are_named(tmp_path):
    frame = series(heat=np.arange(50.0))
    frame.loc[frame["id"] == 3, "heat"] = np.nan
    with pytest.warns(UserWarning, match=r"1 example\(s\) of the table hold no reading .*: 3"):
        data = read(tmp_path, frame, values=["heat"])
    assert data.readings.examples == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_times_from_the_start_may_be_seconds_of_the_clock(tmp_path):
    frame = series(heat=np.arange(50.0))
    frame["hour"] += 1.7e9
    data = read(tmp_path, frame, values=["heat"], from_start=True)
    np.testing.assert_array_equal(data.train.x["points"][0, :, 0], np.arange(5.0))
    with pytest.raises(ValueError, match="float32 tells . of . values apart"):
        read(tmp_path, frame, values=["heat"])


@pytest.mark.parametrize(
    ("variance", "error", "match"),
    [
        ([0.1, np.inf], ValueError, "variance: found inf; give finite numbers"),
        (-1, ValueError, "variance: found -1; give finite"),
        ([1, 2, 3], ValueError, "variance: found 3 numbers for 2 columns"),
        ("a", TypeError, "variance: found 'a'; give a number"),
    ],
)
def test_bad_variances(tmp_path, variance, error, match):
    frame = series(heat=np.arange(50.0), flow=1.0)
    with pytest.raises(error, match=match):
        read(tmp_path, frame, values=["heat", "flow"], variance=variance)


def test_a_long_table_is_recognised(tmp_path):
    frame = series(sensor=["heat", "flow"] * 25, value=np.arange(50.0))
    twice = pd.DataFrame([[1.0, 2.0]], columns=["id", "id"])
    with pytest.raises(ValueError, match="no column 'heat'; the table has"):
        tables.check_columns(twice, ["heat"])
    with pytest.raises(ValueError, match="Column 'sensor' holds 'heat', so the table has a row"):
        read(tmp_path, frame, values=["heat", "flow"])
