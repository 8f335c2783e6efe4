"""What is checked of a table of your own: names, digits, and whether it has changed."""

import zlib
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from tfpn.types import Array

# Of different places, the part that float32 has to tell apart.
_APART = 0.9
# Numbers that vary by fewer steps of float32 have lost their digits. By fewer steps of float64 they
# are a constant.
STEPS = 30.0


def checksum(frame: Any, columns: Any) -> int:
    """A number that another table, or a changed one, would hardly have."""
    place = columns.coordinates  # its series are the example and split_by
    labels = [] if columns.labels is None else [columns.labels]
    series = [name for name in place.series if name in frame.columns]
    names = [*series, *place.columns, *columns.values, *columns.targets, *labels]
    return zlib.crc32(frame[names].to_csv(index=False, lineterminator="\n").encode())


def check_names(
    lists: dict[str, Sequence[Any]], time: str | None, labels: str | None, example: str | None
) -> None:
    """Raises where a name stands for a list, or where two arguments have one column."""
    for argument, names in lists.items():
        if isinstance(names, str):
            raise TypeError(f"{argument}: found {names!r}; give a list, [{names!r}].")
    columns = [(name, arg) for arg in ("points", "covariates") for name in lists[arg]]
    columns += [] if time is None else [(time, "time")]
    answers = [(name, arg) for arg in ("values", "targets") for name in lists[arg]]
    answers += [] if labels is None else [(labels, "labels")]
    if example is not None:
        answers.append((example, "example"))  # it stands beside what is predicted
    if example is not None and not (labels or lists["targets"]):  # a map has both as coordinates
        columns += [(example, "example")] if example in (*lists["points"], time) else []
    # What is predicted of a value stands beside the coordinates, and of a target alone.
    for group in ([*columns, *((name, "values") for name in lists["values"])], answers):
        _refuse_twice(group)


def _refuse_twice(columns):
    """Raises ValueError if two of the columns, or their standard deviations, have one name."""
    deviations = [
        (f"{name}_std", f"the standard deviation of {name!r}")
        for name, argument in columns
        if argument in ("values", "targets")
    ]
    found: dict[str, str] = {}
    for name, argument in [*columns, *deviations]:
        if name in found:
            raise ValueError(
                f"the column {name!r} is named twice, for {found[name]} and for {argument}: each "
                "column has one part; give others another name."
            )
        found[name] = argument


def check_times(stamped: bool, **given: str | None) -> None:
    """Raises ValueError for arguments that only time stamps need, if there are none."""
    for argument, value in given.items():
        if value is not None and not stamped:
            raise ValueError(
                f"{argument}: found {value!r}, but no time stamps; name a column of time stamps as "
                f"the time, or leave out {argument}."
            )


def check_season(season: Sequence[float], time: str | None) -> None:
    """Raises unless ``season`` is a list of positive periods, and there is a time to turn."""
    if isinstance(season, str) or np.ndim(season) != 1:
        raise TypeError(f"season: found {season!r}; give a list of periods, such as [24].")
    for period in season:
        if isinstance(period, bool) or not isinstance(period, Real):
            raise TypeError(f"season: found {period!r}; give a number, such as 24 hours.")
        if not 0.0 < period < np.inf:
            raise ValueError(
                f"season: found {period!r}; give positive periods, such as 24 hours, or leave it "
                "out."
            )
    if len(season) and time is None:
        raise ValueError(
            f"season: found {list(season)}, but no time: name its column as time, or leave season "
            "out."
        )


def check_digits(places: Array, coordinates: Any) -> None:
    """Raises ValueError if float32, in which models compute, makes one of many places or times."""
    places = places[:, : places.shape[1] - 2 * len(coordinates.season)]
    plain = coordinates.columns[2 * coordinates.degrees :]
    columns = dict(zip(plain[::-1], places.T[::-1], strict=False))
    for name, column in columns.items():  # other coordinates may hide that times become one
        span = max(float(np.ptp(column)), np.finfo(np.float64).tiny)
        steps = np.round((column - column.min()) / span * 1e6)  # not the rounding of float64
        _refuse_merged(name, column, steps, column, "values", coordinates)
    columns = columns or {"points": places[:, 0]}
    name = max(columns, key=lambda one: np.abs(columns[one]).max())
    _refuse_merged(name, columns[name], places, places, "places", coordinates)


def _refuse_merged(name, column, distinct, merged, what, coordinates):
    """Raises ValueError if ``merged`` has far fewer different rows in float32 than ``distinct``."""
    whole = len(np.unique(distinct, axis=0))
    rounded = len(np.unique(merged.astype(np.float32), axis=0))
    if rounded >= _APART * whole:
        return
    advice = "or write time stamps" if name == coordinates.time else "or take another unit"
    raise ValueError(
        f"column {name!r} reaches {np.abs(column).max():.10g}, and float32 tells {rounded} of "
        f"{whole} {what} apart: subtract a constant from it, {advice}."
    )


def check_spread(numbers: Array, names: Sequence[str]) -> None:
    """Raises ValueError if float32 holds too few digits of what varies in a column [rows, c]."""
    for name, column in zip(names, numbers.T, strict=True):
        seen = column[np.isfinite(column)]
        middle, spread = seen.mean(), seen.std()
        if 0.0 < spread < np.finfo(np.float32).tiny:
            raise ValueError(
                f"column {name!r} varies by {spread:.2g}, less than float32 holds: take another "
                "unit."
            )
        size = STEPS * np.abs(seen).max()
        if size * np.finfo(np.float64).eps < spread < size * np.finfo(np.float32).eps:
            raise ValueError(
                f"column {name!r} varies by {spread:.2g} about {middle:.10g}, where float32 has "
                f"steps of {np.spacing(np.float32(middle)):.2g}: subtract a constant from it."
            )


def check_variance(variance: Any, names: Sequence[str]) -> None:
    """Raises unless ``variance`` is None or a finite number of at least 0, or one for each name."""
    if variance is None:
        return
    several = isinstance(variance, (list, tuple))
    if several and len(variance) != len(names):
        raise ValueError(
            f"variance: found {len(variance)} numbers for {len(names)} columns of values; give one "
            "for each of them, or one for all."
        )
    for number in variance if several else [variance]:
        if isinstance(number, bool) or not isinstance(number, Real):
            raise TypeError(f"variance: found {number!r}; give a number.")
        if not 0.0 <= float(number) < np.inf:
            raise ValueError(f"variance: found {number!r}; give finite numbers of at least 0.")
