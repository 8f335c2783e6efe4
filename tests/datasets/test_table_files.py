"""Files of tables: what is read and written, and what is refused."""

import numpy as np
import pytest

from tfpn import datasets, table_files


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("table.txt", "a,b", "ends in .csv or .parquet"),
        ("table.csv", "", "is not a table: No columns"),
        ("table.parquet", "no parquet", "is not a table: "),
        ("table.csv", "x,v\n1,5,2,5\n2,5,3,1\n", "rows have more cells than the 2 names"),
        ("table.csv", "x,v\n7,5,1\n3,2,5\n", "rows have more cells than the 2 names"),
        ("table.csv", "x;v\n1;5\n2;2,5\n3;1,5,1\n", "not a table: .*separate cells by commas"),
    ],
)
def test_files_that_are_no_tables(name, content, said, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=said):
        table_files.read_table(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        table_files.read_table(tmp_path / "missing.csv")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("x;v\n1,5;2\n2,5;3\n", "separate cells by commas"),
        ("x;v\n1;2\n2;3\n", "Separate its cells by commas"),
        ("x,v,v\n1,2,3\n2,3,4\n", "more than one column 'v'"),
    ],
)
def test_columns_are_those_of_the_file(content, said, tmp_path):
    (tmp_path / "table.csv").write_text(content)
    with pytest.raises(ValueError, match=said):
        datasets.table(tmp_path / "table.csv", ["v"], ["x"])


def test_csv_keeps_the_digits_that_there_are():
    columns = {"east": [5500123.456789, 0.1], "v": np.array([1.0 / 3.0, np.nan], np.float32)}
    assert table_files.csv_text(columns) == "east,v\n5500123.456789,0.3333333\n0.1,\n"


def test_a_mark_of_unicode_is_no_part_of_a_name(tmp_path):
    (tmp_path / "table.csv").write_text("\ufeffx,v\n1,2\n", encoding="utf-8")
    assert list(table_files.read_table(tmp_path / "table.csv").columns) == ["x", "v"]
