"""Files of tables: reads and writes .csv and .parquet.

Install pandas with ``pip install tfpn[fields]``. Parquet files need pyarrow, too.
"""

import importlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tfpn.files import write
from tfpn.types import PathLike

READ = (".csv", ".parquet")


def read_table(path: PathLike) -> Any:
    """Reads a .csv or .parquet file as a pandas DataFrame.

    Raises:
        ImportError: without pandas; or without pyarrow for Parquet.
        OSError: if there is no such file.
        ValueError: for another suffix, or if the file does not hold a table.
    """
    path = Path(path)
    if path.suffix not in READ:
        raise ValueError(f"{path}: give a table whose name ends in {' or '.join(READ)}.")
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        raise ImportError(
            "tables need pandas: install it with pip install 'tfpn[fields]'"
        ) from error
    if not path.is_file():  # one message, whether pandas or pyarrow would read the file
        raise FileNotFoundError(f"cannot read {path}: there is no such file")
    try:
        if path.suffix == ".csv":
            return _read_csv(pandas, path)
        frame = pandas.read_parquet(path)
        # pandas cannot group by numbers of 16 bits.
        return frame.astype(dict.fromkeys(frame.select_dtypes(np.float16), np.float32))
    except ValueError as error:  # including the errors of the parsers
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if isinstance(error, UnicodeDecodeError):
            reason += "; save it as UTF-8"
        if isinstance(error, pandas.errors.ParserError):
            reason += "; separate cells by commas, and write 2.5 for two and a half"
        raise ValueError(f"{path} is not a table: {reason}") from error


def _read_csv(pandas, path):
    """A .csv file with the names of columns that it has."""
    # pandas calls a second column "v" by another name, "v.1".
    names = pandas.read_csv(path, header=None, nrows=1, dtype=str).iloc[0]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            frame = pandas.read_csv(path, index_col=False)
    except pandas.errors.ParserWarning as error:  # it would leave out cells
        raise ValueError(
            f"rows have more cells than the {len(names)} names of the first row: name each column, "
            "separate cells by commas, and write 2.5 for two and a half"
        ) from error
    frame.columns = [
        name if isinstance(name, str) else found
        for name, found in zip(names, frame.columns, strict=True)
    ]
    return frame


def write_table(path: PathLike, columns: dict[str, Any]) -> None:
    """Writes columns as a .csv or .parquet file, whole or not at all."""
    import pandas as pd

    frame = pd.DataFrame(columns)
    if Path(path).suffix == ".parquet":
        write(path, frame.to_parquet(None, index=False))
    else:
        write(path, csv_text(frame))


def csv_text(columns: Any) -> str:
    """Columns as CSV: float32 with its seven digits, and float64, such as coordinates, in full."""
    import pandas as pd

    frame = pd.DataFrame(columns)
    for name in frame.select_dtypes(np.float32):
        cells = frame[name].map("{:.7g}".format, na_action="ignore")
        frame = frame.assign(**{name: cells})
    return frame.to_csv(index=False, lineterminator="\n")
