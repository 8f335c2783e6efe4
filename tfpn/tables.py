"""Tables with a row for each reading: checks columns, and makes coordinates.

Install pandas with ``pip install tfpn[fields]``.
"""

import dataclasses
import difflib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfpn.types import Array, ArrayLike

# In the dtype of the models.
_LARGEST = float(np.finfo(np.float32).max)


def as_pandas(name: str, frame: Any) -> Any:
    """Returns a table as a pandas DataFrame.

    Args:
        name: name of the argument, for the message.
        frame: a table of pandas, or of a library whose tables have ``to_pandas``, such as polars
            and pyarrow.

    Raises:
        TypeError: for anything else.
    """
    if not (hasattr(frame, "columns") and hasattr(frame, "iloc")) and hasattr(frame, "to_pandas"):
        frame = frame.to_pandas()
    if not (hasattr(frame, "columns") and hasattr(frame, "iloc")):
        raise TypeError(
            f"{name} must be a table of pandas, polars or pyarrow, found {type(frame).__name__}."
        )
    return frame


def check_columns(frame: Any, names: Sequence[str]) -> None:
    """Raises ValueError unless a table has each of the columns exactly once."""
    missing = [name for name in names if name not in frame.columns]
    if missing:
        found = [str(name) for name in frame.columns]
        like = difflib.get_close_matches(str(missing[0]), found, 1, 0.8)
        meant = f" (did you mean {like[0]!r}?)" if like else ""
        advice = ""
        if len(found) == 1 and (";" in found[0] or "\t" in found[0]):
            meant, advice = "", " Separate its cells by commas, and write 2.5 for two and a half."
        for other in frame.columns:
            if frame[other].isin([missing[0]]).to_numpy().any():
                advice = (
                    f" Column {other!r} holds {missing[0]!r}, so the table has a row for each "
                    "reading: give each sensor a column of its own, as pandas' pivot_table does."
                )
        what = ", ".join(map(repr, missing))
        raise ValueError(f"no column {what}{meant}; the table has {found}.{advice}")
    twice = [name for name in names if list(frame.columns).count(name) > 1]
    if twice:
        raise ValueError(f"more than one column {twice[0]!r}: give them different names.")


def numbers(frame: Any, name: str, *, gaps: bool) -> Array:
    """A column as float64 numbers, [rows].

    Args:
        frame: the table.
        name: name of the column, which may have any dtype of pandas.
        gaps: whether cells may be empty. Empty cells become NaN.

    Raises:
        ValueError: for a cell that is not a number, that is infinite or beyond float32, or that is
            empty without ``gaps``.

    Example:

    >>> import pandas as pd
    >>> from tfpn.tables import numbers
    >>> numbers(pd.DataFrame({"t": pd.array([1, None], "Int64")}), "t", gaps=True).tolist()
    [1.0, nan]
    """
    import pandas as pd

    column = frame[name]
    if column.dtype.kind in "Mm":
        raise ValueError(
            f"column {name!r} holds time stamps: give it as the time, or convert it to numbers."
        )
    found = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    empty = column.isna().to_numpy(bool)
    for wrong, advice in (
        (np.isnan(found) & ~empty, "give a number, or nothing where nothing was read"),
        (np.isinf(found), "give a finite number"),
        (np.abs(found) > _LARGEST, "float32 holds numbers up to 3.4e38: take another unit"),
    ):
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            cell = column.iloc[row]
            if isinstance(cell, str) and "," in cell:
                advice = "write 2.5 for two and a half, and 1234 without a comma"
            cell = repr(cell) if isinstance(cell, str) else cell
            raise ValueError(f"column {name!r} holds {cell} in {_row(frame, row)}: {advice}.")
    if not gaps and empty.any():
        _refuse_empty(frame, name, empty)
    return found


def labels(frame: Any, name: str) -> Array:
    """A column of labels as objects, [rows].

    Raises:
        ValueError: for an empty cell.
    """
    empty = frame[name].isna().to_numpy(bool)
    if empty.any():
        _refuse_empty(frame, name, empty)
    return frame[name].to_numpy(object)


def _has_zone(column):
    import pandas as pd

    return any(pd.Timestamp(stamp).tzinfo is not None for stamp in column)


def _refuse_empty(frame, name, empty):
    row = _row(frame, int(np.flatnonzero(empty)[0]))
    raise ValueError(f"column {name!r} is empty in {row}: fill it, or leave out the row.")


def _row(frame, number):
    """Names a row as its file counts, also after others were left out; the header is row 0."""
    label = frame.index[number]
    return f"row {int(label if isinstance(label, int | np.integer) else number) + 1}"


@dataclasses.dataclass(frozen=True)
class Coordinates:
    """The columns that hold the coordinates of points, and how to read them.

    Attributes:
        points: columns of numbers, in order. With ``degrees`` they are longitude and latitude.
        time: a column of numbers or time stamps, or None. Stamps become hours from ``origin``.
        covariates: columns of further coordinates. They must be known at every query point.
        degrees: whether ``points`` are a longitude and a latitude, which become points of the unit
            sphere (`tfpn.coordinates.sphere`).
        time_zone: the time zone of stamps that have none.
        origin: the stamp from which hours count.
        stamped: whether times are time stamps (True) or numbers (False). None takes both.
        season: periods of the time. Each adds a point of a circle (`tfpn.tasks.season`), the last
            two coordinates for the last period.
        series: columns that tell series of rows apart, as ``points`` do. The order of the rows in
            each series tells the two passes through a repeated hour apart.
    """

    points: Sequence[str]
    time: str | None = None
    covariates: Sequence[str] = ()
    degrees: bool = False
    time_zone: str | None = None
    origin: str | None = None
    series: Sequence[str] = ()
    stamped: bool | None = None
    season: Sequence[float] = ()

    @property
    def columns(self) -> list[str]:
        """All columns, in the order of the coordinates; seasons have none of their own."""
        time = [] if self.time is None else [self.time]
        return [*self.points, *time, *self.covariates]

    @property
    def groups(self) -> list[int]:
        """The number of each dimension's length scale, as the models' ``ard`` takes it.

        >>> Coordinates(("lon", "lat"), time="hour", covariates=("height",), degrees=True).groups
        [0, 0, 0, 1, 2]
        >>> Coordinates((), time="hour", season=(24, 168)).groups
        [0, 1, 1, 2, 2]
        """
        size = self.time_axis
        sizes = [size] if size else []
        sizes += [1] * (len(self.columns) - len(self.points)) + [2] * len(self.season)
        return [group for group, size in enumerate(sizes) for _ in range(size)]

    @property
    def time_axis(self) -> int:
        """The number of the time among the model's coordinates, after those of the points."""
        return 3 if self.degrees else len(self.points)

    def read(self, frame: Any) -> Array:
        """The model's coordinates, [rows, d] in float64.

        Raises:
            ValueError: for a missing column, a cell that is empty or not a number, or a latitude
                beyond 90 degrees.
        """
        check_columns(frame, self.columns)
        found = [numbers(frame, name, gaps=False) for name in self.points]
        if self.degrees:
            self._check_latitude(frame, found[1])
        if self.time is not None:
            found.append(self.hours(frame))
        found += [numbers(frame, name, gaps=False) for name in self.covariates]
        return self.of_model(np.stack(found, axis=-1))

    def of_model(self, columns: Array) -> Array:
        """The model's coordinates [rows, d] of the numbers of all columns, [rows, columns].

        Example: an hour, and its point on the circle of a day.

        >>> Coordinates((), time="hour", season=(24,)).of_model(np.array([[6.0]])).round(6).tolist()
        [[6.0, 0.0, 1.0]]
        """
        parts = [columns]
        if self.degrees:
            from tfpn.coordinates import sphere  # it loads TensorFlow, like the others below

            parts = [sphere(columns[:, :2]), columns[:, 2:]]
        if self.season:
            from tfpn.tasks import season

            times = columns[:, len(self.points)]
            parts += [season(times, period) for period in self.season]
        return np.concatenate(parts, axis=1)

    def _check_latitude(self, frame, latitude):
        beyond = np.flatnonzero(np.abs(latitude) > 90.0)
        if beyond.size:
            raise ValueError(
                f"column {self.points[1]!r} holds {latitude[beyond[0]]:g} in "
                f"{_row(frame, beyond[0])}: latitudes are from -90 to 90, and points names the "
                "longitude first."
            )

    def hours(self, frame: Any) -> Array:
        """The column of times, [rows]; stamps become hours.

        Raises:
            ValueError: for a cell that is empty or not a time, or for stamps in place of numbers.
        """
        name = str(self.time)
        column = frame[name]
        if column.isna().any():
            _refuse_empty(frame, name, column.isna().to_numpy(bool))
        if self.stamped is not None and self.stamped != self.has_stamps(frame):
            kinds = ["numbers", "time stamps"]
            raise ValueError(
                f"column {name!r} holds {kinds[not self.stamped]}, but the table of the training "
                f"held {kinds[self.stamped]}: give the same kind."
            )
        if column.dtype.kind in "biuf":
            return numbers(frame, name, gaps=False)
        from tfpn.coordinates import hours_since

        origin, zone = self._start(frame), self.time_zone
        if zone is not None and _has_zone(column.iloc[:1]):
            origin, zone = self.stamps([0.0], origin)[0], None  # the stamps say it themselves
        try:
            if zone is None:
                return hours_since(column, origin)
            found = np.array(hours_since(column, origin, timezone=zone, ambiguous="NaT"))
            for rows in self._series_of(frame, np.isnan(found)):
                found[rows] = hours_since(
                    column.iloc[rows], origin, timezone=zone, ambiguous="infer"
                )
        except (ValueError, TypeError) as error:
            raise self._no_time(frame, error) from error
        return found

    def stamps(self, hours: ArrayLike, origin: Any = None) -> Any:
        """Hours from the origin as time stamps of pandas, with a zone where there is one.

        >>> Coordinates((), "t", time_zone="Europe/Berlin", origin="2024-10-27").stamps([4])[0]
        Timestamp('2024-10-27 03:00:00+0100', tz='Europe/Berlin')
        """
        import pandas as pd

        start = pd.Timestamp(self.origin if origin is None else origin)
        if self.time_zone is not None:
            plain = start.tzinfo is None
            start = (
                start.tz_localize(self.time_zone, ambiguous=True)
                if plain
                else start.tz_convert(self.time_zone)
            )
        return start + pd.to_timedelta(np.asarray(hours, np.float64), unit="h").round("s")

    def has_stamps(self, frame: Any) -> bool:
        """Whether a table's times are time stamps, which become hours."""
        return self.time is not None and frame[self.time].dtype.kind not in "biuf"

    def _start(self, frame):
        return self.first(frame) if self.origin is None else self.origin

    def _series_of(self, frame, some):
        """The rows of each series to which ``some`` belong, in their order."""
        named = [name for name in self.series if name in frame.columns]
        number = np.zeros(len(frame), int)
        # Where no place comes twice something moves, and its name alone tells the series apart.
        for names in ([*self.points, *named], named):
            if names:
                number = frame.groupby(list(dict.fromkeys(names)), dropna=False).ngroup().to_numpy()
            if number.max(initial=0) + 1 < len(frame):
                break
        return [np.flatnonzero(number == one) for one in np.unique(number[some])]

    def first(self, frame: Any) -> str | None:
        """The first time stamp, which becomes the origin of a table; None for numbers."""
        if not self.has_stamps(frame):
            return None
        import pandas as pd

        try:
            stamps = [pd.Timestamp(stamp) for stamp in frame[self.time]]
            return min(stamps).isoformat()
        except (ValueError, TypeError) as error:
            raise self._no_time(frame, error) from error

    def _no_time(self, frame, error):
        """The error for a column that cannot be read as times."""
        import pandas as pd

        column = frame[self.time]
        text = column.map(lambda cell: isinstance(cell, str)).to_numpy(bool)
        found = pd.to_datetime(column, format="ISO8601", utc=True, errors="coerce")
        wrong = np.flatnonzero(text & found.isna().to_numpy(bool))
        if not wrong.size:
            said, advice = str(error).rstrip("."), "."
            if self.time_zone is not None and re.search("ambiguous|dst", said):
                advice = (
                    ". Write stamps with their offset, such as 2024-10-27T02:00+01:00, or name "
                    "what tells series of rows apart in split_by."
                )
            return ValueError(f"column {self.time!r} is no time: {said}{advice}")
        return ValueError(
            f"column {self.time!r} holds {column.iloc[wrong[0]]!r} in {_row(frame, wrong[0])}: "
            "write stamps as 2024-05-31 13:30, or give numbers."
        )
