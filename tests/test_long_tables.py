"""Observations from pandas' long tables: one reading a row."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tfpn.coordinates import hours_since
from tfpn.wrappers import from_frame


def long_table(seed=0):
    """Readings of three channels at few times, so that times and readings repeat; some failed."""
    rng = np.random.default_rng(seed)
    count = 60
    table = pd.DataFrame(
        {
            "id": rng.choice(["p1", "p2", "p3"], count),
            "x": rng.integers(3, size=count) / 2,
            "y": rng.integers(2, size=count) / 2,
            "what": rng.choice(["a", "b", "c"], count),
            "value": rng.normal(size=count),
            "noise": rng.uniform(0.1, 1.0, count),
        }
    )
    table.loc[::7, "value"] = np.nan
    return table


COLUMNS = {"example": "id", "points": ["x", "y"], "channel": "what", "value": "value"}


class TestPandas:
    def test_every_reading_once(self):
        table = long_table()
        x, examples, channels = from_frame(table, **COLUMNS, variance="noise")
        assert examples == ["p1", "p2", "p3"] and channels == ["a", "b", "c"]
        found = [
            (examples[b], *x["points"][b, n], channels[c], x["values"][b, n, c], v)
            for (b, n, c), v in np.ndenumerate(x["variance"])
            if np.isfinite(v)
        ]
        expected = [tuple(row) for row in table.dropna().itertuples(index=False)]
        assert sorted(found) == sorted(expected)
        # As few rows as there can be: at each point as many as its most frequent channel.
        known = table.dropna()
        counts = known.groupby(["id", "x", "y", "what"]).size().groupby(["id", "x", "y"]).max()
        rows = np.isfinite(x["variance"]).any(-1).sum(-1)
        assert rows.tolist() == counts.groupby("id").sum().tolist()

    @pytest.mark.parametrize("kind", ["numpy_nullable", "pyarrow", "table"])
    def test_nullable_and_arrow_columns_are_read_like_plain_ones(self, kind):
        table = long_table()
        table["x"] = (2 * table["x"]).astype(int)
        expected = from_frame(table, **COLUMNS, variance="noise")
        if kind == "table":  # of pyarrow, as polars' `to_pandas` too
            other = pa.Table.from_pandas(table)
        else:
            other = table.convert_dtypes(dtype_backend=kind)
            assert other["value"].isna().sum() == 9 and "float" not in map(str, other.dtypes)
        found = from_frame(other, **COLUMNS, variance="noise")
        assert found[1:] == expected[1:]
        for key, array in expected[0].items():
            np.testing.assert_array_equal(found[0][key], array)

    def test_both_readings_of_an_hour_that_clocks_show_twice(self):
        stamps = ["2024-10-27T02:30+02:00", "2024-10-27T02:30+01:00"]
        for times in (stamps, pa.array(pd.to_datetime(stamps, utc=True))):
            hours = hours_since(times, "2024-10-27T00:00+02:00")
            table = pd.DataFrame({"id": "p", "hour": hours, "value": [1.0, 2.0]})
            x, _, _ = from_frame(table, example="id", points="hour", value="value")
            assert x["points"][0, :, 0].tolist() == [2.5, 3.5]
            assert x["values"][0, :, 0].tolist() == [1.0, 2.0]

    def test_order_of_examples_and_channels(self):
        table = long_table()
        whole, *_ = from_frame(table, **COLUMNS, variance=0.1)
        x, examples, channels = from_frame(
            table, **COLUMNS, variance=0.1, examples=["p3", "p9", "p1"], channels=["c", "a"]
        )
        assert examples == ["p3", "p9", "p1"] and channels == ["c", "a"]
        assert np.isinf(x["variance"][1]).all()
        for place, index in ((0, 2), (2, 0)):
            for channel, number in ((0, 2), (1, 0)):
                sums = [
                    values["values"][b, :, c].sum()
                    for values, b, c in ((x, place, channel), (whole, index, number))
                ]
                assert sums[0] == pytest.approx(sums[1], rel=1e-12)
        assert set(np.unique(x["variance"])) == {0.1, np.inf}

    def test_a_misspelt_channel_is_warned_of(self, recwarn):
        table = long_table()
        from_frame(table, **COLUMNS, variance=0.1, channels=["a", "b", "c", "new"])
        from_frame(table, **COLUMNS, variance=0.1, channels=["a", "b"])
        assert not recwarn.list  # nothing is left out; nothing is lacking
        message = r"no reading of \['A'\], and readings of \['a'\] are left out"
        with pytest.warns(UserWarning, match=message):
            from_frame(table, **COLUMNS, variance=0.1, channels=["A", "b", "c"])

    def test_one_channel_of_numbers(self):
        table = pd.DataFrame({"id": [2, 1, 2], "t": [3, 1, 0], "value": [5.0, 6.0, 7.0]})
        x, examples, channels = from_frame(table, example="id", points="t", value="value")
        assert examples == [1, 2] and channels == ["value"]
        assert x["points"][1, :, 0].tolist() == [0.0, 3.0]
        assert x["values"][1, :, 0].tolist() == [7.0, 5.0]
        assert x["variance"][0, :, 0].tolist() == [0.0, np.inf]

    @pytest.mark.parametrize(
        "change, arguments, error, message",
        [
            ({}, {"value": "v"}, ValueError, r"no column \['v'\]; it has \['id', 'x'"),
            ({"x": "now"}, {}, TypeError, "column 'x' holds .*each example's own start"),
            ({"x": np.nan}, {}, ValueError, "column 'x' is empty in the row 1, which"),
            ({"id": None}, {}, ValueError, "column 'id' is empty in the row 1, which"),
            ({"value": np.nan}, {}, ValueError, "column 'value' of frame holds no value"),
            ({}, {"examples": ["p1", "p1"]}, ValueError, "examples must name .* each once"),
            ({}, {"examples": [1, 2]}, ValueError, r"\[1, 2\], but none .* column 'id'.*'p"),
            ({}, {"channels": ["A", "B"]}, ValueError, "none of its names is in the column 'what'"),
            ({}, {"channels": "heart"}, TypeError, "a list of names, found 'heart'"),
            ({}, {"channels": []}, ValueError, r"channels must name at least one .* found \[\]"),
            ({"noise": -1.0}, {"variance": "noise"}, ValueError, "variance.*-1"),
        ],
        ids=lambda value: str(value) if isinstance(value, dict) else "",
    )
    def test_what_is_refused(self, change, arguments, error, message):
        with pytest.raises(error, match=message):
            from_frame(long_table().assign(**change), **{**COLUMNS, **arguments})

    def test_no_table_is_refused(self):
        with pytest.raises(
            TypeError, match="frame must be a table of pandas, polars or pyarrow, found dict"
        ):
            from_frame(dict(long_table()), **COLUMNS)
        table = long_table()
        table.columns = ["x" if name == "noise" else name for name in table.columns]
        with pytest.raises(ValueError, match=r"more than one column \['x'\]"):
            from_frame(table, **COLUMNS)


def test_labels_of_several_kinds_and_names_that_are_none():
    names = {"example": "id", "points": "t", "value": "v"}
    frame = pd.DataFrame({"id": [1, "b"], "t": [0.0, 1.0], "v": [1.0, 2.0], "c": ["p", "q"]})
    with pytest.raises(
        TypeError, match="column 'id' holds labels of the types int, str, .*give ex"
    ):
        from_frame(frame, **names)
    assert from_frame(frame, **names, examples=["b", 1])[1] == ["b", 1]
    with pytest.raises(TypeError, match=r"found \['c'\] instead of the name"):
        from_frame(frame, **names, channel=["c"])
