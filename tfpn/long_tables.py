"""Observations from a long table with one row for each reading."""

import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tfpn.contract import observations
from tfpn.tables import as_pandas
from tfpn.types import Array


def from_frame(
    frame: Any,
    *,
    example: str,
    points: str | Sequence[str],
    value: str,
    channel: str | None = None,
    variance: Any = None,
    examples: Sequence[Any] | None = None,
    channels: Sequence[Any] | None = None,
) -> tuple[dict[str, Array], Sequence[Any], Sequence[Any]]:
    """Turns a long table with one row for each reading into observations.

    Args:
        frame: a DataFrame of pandas, with columns of any type, or a table of polars or pyarrow.
        example: name of the column that says which example a reading belongs to.
        points: name of the column of coordinates, or a list of d names. The columns hold numbers.
            For times, subtract the start of each example (a common start only if all share a
            clock), and divide by a unit. With a column ``t`` and an "id" for the example, write
            ``(t - t.groupby(frame["id"]).transform("min")) / pandas.Timedelta("1h")``.
        value: name of the column of values. A row with NaN there is no reading and is left out.
        channel: name of the column that says what was read, or None if there is one channel.
        variance: variance of the readings' noise: the name of a column, or a number or one for
            each channel, as for `tfpn.observations`.
        examples: the examples in the wanted order, such as the index of a table of outcomes. An
            example without readings gets no points. Readings of other examples are left out. The
            default is all examples of the table, sorted.
        channels: the channels in the wanted order, such as those of the training data. Readings of
            other channels are left out. The default is all channels of the table, sorted.

    Warns:
        UserWarning: if one of ``channels`` is never read and readings of other channels are left
            out, which may be a misspelling.

    Returns:
        The observations dict in float64, the list of examples [B] and the list of channels [c].
        Readings of different channels at one point share a row. Several readings of a channel at
        one point take several rows. The points of an example are sorted.

    Raises:
        TypeError: if coordinates, values or variances are not numbers, or if ``examples`` or
            ``channels`` is a single string.
        ValueError: if a column is missing; if a reading has no example, point, channel or
            variance; if ``examples`` or ``channels`` repeat a name or share none with the table
            (the text "7" is not the number 7); or if nothing was read.

    Example:

    >>> import pandas as pd, tfpn
    >>> table = pd.DataFrame({
    ...     "patient": ["a", "a", "b"],
    ...     "hour": [0.5, 0.5, 2.0],
    ...     "variable": ["pulse", "lactate", "pulse"],
    ...     "value": [88.0, 1.2, 70.0],
    ... })
    >>> x, patients, variables = tfpn.wrappers.from_frame(
    ...     table, example="patient", points="hour", channel="variable", value="value")
    >>> patients, variables
    (['a', 'b'], ['lactate', 'pulse'])
    >>> x["values"].tolist()  # lactate of the second patient was not read
    [[[1.2, 88.0]], [[0.0, 70.0]]]
    """
    points = [points] if isinstance(points, str) else list(points)
    noise = [variance] if isinstance(variance, str) else []
    labels = [example] if channel is None else [example, channel]
    frame = _readings(frame, labels, points, value, noise)
    examples = _order("examples", examples, frame[example])
    if channel is None:
        places, channels = np.zeros(len(frame), int), [value]
    else:
        channels = _order("channels", channels, frame[channel])
        _warn_of_misspelt(channels, frame[channel])
        place_of = {name: place for place, name in enumerate(channels)}
        frame = frame[frame[channel].isin(place_of)]
        places = frame[channel].map(place_of).to_numpy(int)
    # The second reading of a channel at one point has turn 1, and so on.
    turns = frame.groupby([*labels, *points]).cumcount().to_numpy()
    where = np.column_stack([frame[points].to_numpy(float), turns])
    readings = frame[[value, *noise]].to_numpy(float)
    rows_of = frame.groupby(example).indices

    tables = []
    for name in examples:
        rows = rows_of.get(name, np.array([], int))
        distinct, row = np.unique(where[rows], axis=0, return_inverse=True)
        table = np.full((1 + len(noise), len(distinct), len(channels)), np.nan)
        table[:, row.ravel(), places[rows]] = readings[rows].T
        tables.append((distinct[:, :-1], *table))
    coordinates, measured, *noises = (list(column) for column in zip(*tables, strict=True))
    x = observations(coordinates, measured, noises[0] if noise else variance)
    return x, examples, channels


def _readings(frame, labels, points, value, noise):
    """Checks the table, and returns the rows that hold a reading."""
    columns = [*labels, *points, value, *noise]
    for name in columns:
        if not isinstance(name, Hashable):
            raise TypeError(f"found {name!r} instead of the name of a column: give the name alone.")
    frame = as_pandas("frame", frame)
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()].tolist()
        raise ValueError(f"frame has more than one column {twice}: give them different names.")
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise ValueError(f"frame has no column {missing}; it has {list(frame.columns)}.")
    for name in (*points, value, *noise):
        if frame[name].dtype.kind not in "biuf":
            raise TypeError(
                f"column {name!r} holds {frame[name].dtype}; give numbers (from times subtract "
                "each example's own start, and divide by a unit; convert text by "
                "pandas.to_numeric)."
            )
    frame = frame[frame[value].notna()]
    for name in columns:
        empty = frame[name].isna()
        if empty.any():
            row = frame.index[empty].tolist()[0]
            raise ValueError(
                f"column {name!r} is empty in the row {row!r}, which holds a value: fill it or "
                "drop the row."
            )
    if frame.empty:
        raise ValueError(f"column {value!r} of frame holds no value; there is nothing to observe.")
    return frame


def _order(name, wanted, found):
    """The labels in the wanted order, sorted by default."""
    if wanted is None:
        labels = found.unique().tolist()
        try:
            return sorted(labels)
        except TypeError as error:
            kinds = sorted({type(label).__name__ for label in labels})
            raise TypeError(
                f"column {found.name!r} holds labels of the types {', '.join(kinds)}, which cannot "
                f"be sorted: convert them to one type, such as by .astype(str), or give {name}."
            ) from error
    if isinstance(wanted, str):
        raise TypeError(f"{name} must be a list of names, found {wanted!r}; give [{wanted!r}].")
    wanted = list(wanted)
    if not wanted or len(set(wanted)) < len(wanted):
        raise ValueError(f"{name} must name at least one and each once, found {wanted}.")
    if not found.isin(wanted).any():
        raise ValueError(
            f"{name} begins with {wanted[:3]}, but none of its names is in the column "
            f"{found.name!r}, which holds {found.unique().tolist()[:3]} and so on; give the same "
            "names in the same type."
        )
    return wanted


def _warn_of_misspelt(channels, found):
    """Warns if a wanted channel is never read while others are left out."""
    present = found.unique().tolist()
    unread = [name for name in channels if name not in present]
    left_out = [name for name in present if name not in channels]
    if unread and left_out:
        warnings.warn(
            f"channels: found no reading of {unread}, and readings of {left_out} are left out; "
            "check the names.",
            stacklevel=3,
        )
