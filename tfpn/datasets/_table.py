"""Reads a table of your own by the names of its columns."""

import dataclasses
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfpn import table_files, tables
from tfpn.contract import observations
from tfpn.datasets._table_checks import (
    check_digits,
    check_names,
    check_season,
    check_spread,
    check_times,
    check_variance,
    checksum,
)
from tfpn.datasets._table_parts import (
    class_names,
    classes_of,
    example_parts,
    examples_apart,
    places_apart,
    scale_of,
    targets_of,
)
from tfpn.datasets.base import Dataset, check_fraction, check_integer
from tfpn.types import Array, PathLike


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns of a table, which read `Readings` from any table that has them.

    Attributes:
        coordinates: the `tfpn.tables.Coordinates`.
        values: the columns of readings.
        example: the column that says which example a row belongs to, or None for a single one.
        targets: the columns of an example's targets.
        labels: the column of an example's class, or None.
        variance: variance of the readings' noise: a number, one for each column of values, or None.
        from_start: whether times count from the first reading of each example.
        scale: mean and standard deviation of each channel, [2, c], which readings are given in
            units of; None leaves them as they are.
    """

    coordinates: tables.Coordinates
    values: Sequence[str]
    example: str | None = None
    targets: Sequence[str] = ()
    labels: str | None = None
    variance: Any = None
    from_start: bool = False
    scale: Any = None

    def read(self, frame: Any) -> "Readings":
        """Checks a pandas table, and returns the rows that hold a reading.

        Raises:
            ValueError: if columns are missing, if cells are not numbers, or if there is no reading.
        """
        label = [] if self.example is None else [self.example]
        tables.check_columns(frame, [*label, *self.coordinates.columns, *self.values])
        values = np.stack([tables.numbers(frame, n, gaps=True) for n in self.values], axis=-1)
        for name, column in zip(self.values, values.T, strict=True):
            if not np.isfinite(column).any():
                raise ValueError(f"column {name!r} holds no reading in {len(frame)} rows.")
        kept = np.isfinite(values).any(axis=1)
        frame = frame.reset_index(drop=True)  # errors name rows as the file counts
        whole, frame = frame, frame[kept]
        places = self.coordinates.read(frame)
        named = tables.labels(frame, label[0]) if label else np.zeros(len(frame), object)
        examples = list(dict.fromkeys(named.tolist()))
        if label:
            _warn_of_unread(whole, label[0], examples)
        number = {name: k for k, name in enumerate(examples)}
        rows = np.array([number[name] for name in named.tolist()], int)
        if self.from_start:
            axis = self.coordinates.time_axis  # seasons are those of the clock
            start = np.full(len(examples), np.inf)
            np.minimum.at(start, rows, places[:, axis])
            places[:, axis] -= start[rows]
        check_digits(places, self.coordinates)
        found = Readings(frame, places, values[kept], rows, examples, self.variance, self.values)
        return found if self.scale is None else found.scaled(self.scale)


def _warn_of_unread(frame, column, read):
    """Warns of the examples of a table that hold no reading."""
    known, named = set(read), dict.fromkeys(frame[column].dropna().tolist())
    unread = [name for name in named if name not in known]
    if unread:
        shown = ", ".join(map(repr, unread[:3])) + (" ..." if len(unread) > 3 else "")
        warnings.warn(
            f"{len(unread)} example(s) of the table hold no reading and are left out: {shown}.",
            stacklevel=3,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Readings:
    """The readings of a table.

    Attributes:
        frame: the rows that hold a reading, a pandas DataFrame.
        places: their coordinates [rows, d].
        values: [rows, c], NaN where a channel was not read.
        rows: the number of each row's example.
        examples: the labels of the examples.
        variance: as in `Columns`.
        names: the names of the channels.
    """

    frame: Any
    places: Array
    values: Array
    rows: Array
    examples: list[Any]
    variance: Any
    names: Sequence[str]

    def scaled(self, scale: Array) -> "Readings":
        """The same in units of ``scale``, the mean and standard deviation of each channel."""
        mean, std = scale
        variance = None if self.variance is None else np.asarray(self.variance) / std**2
        return dataclasses.replace(self, values=(self.values - mean) / std, variance=variance)

    def observed(self, kept: Any = True) -> dict[str, Array]:
        """The observations of all examples, [B, ...] in float32, from the rows ``kept``."""
        some = [self._of(k, kept) for k in range(len(self.examples))]
        points, values = ([array[rows] for rows in some] for array in (self.places, self.values))
        found = observations(points, values, self.variance)
        return {key: array.astype(np.float32) for key, array in found.items()}

    def asked(self, kept: Any) -> tuple[Array, Array]:
        """Points [B, M, d] and values [B, M, c] of the rows ``kept``; padding has values of NaN."""
        some = [self._of(k, kept) for k in range(len(self.examples))]
        size = max(1, max(map(len, some)))
        query = np.zeros((len(some), size, self.places.shape[1]), np.float32)
        values = np.full((len(some), size, self.values.shape[1]), np.nan, np.float32)
        query += self.places[:1].astype(np.float32)  # the place of the padding
        for k, rows in enumerate(some):
            query[k, : len(rows)] = self.places[rows]
            values[k, : len(rows)] = self.values[rows]
        return query, values

    def _of(self, example, kept):
        return np.flatnonzero((self.rows == example) & kept)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Table(Dataset):
    """A `Dataset` from a table.

    Args:
        task: "classification", "regression" or "field".
        columns: the `Columns`, which read other tables of the same kind.
        readings: all the `Readings`, including those that parts are to predict.
        checksum: checksum of the rows that were read, by which a run notices a change.
        classes: the names of the classes, in the order of their numbers.
    """

    task: str = "field"
    columns: Any = None
    readings: Any = None
    checksum: int | None = None
    classes: Sequence[Any] = ()


def table(
    file: PathLike,
    values: Sequence[str],
    points: Sequence[str] = (),
    *,
    time: str | None = None,
    covariates: Sequence[str] = (),
    example: str | None = None,
    targets: Sequence[str] = (),
    labels: str | None = None,
    classes: Sequence[str | int] = (),
    variance: float | Sequence[float] | None = None,
    degrees: bool = False,
    time_zone: str | None = None,
    origin: str | None = None,
    from_start: bool = False,
    season: Sequence[float] = (),
    standardize: bool = True,
    split_by: Sequence[str] = (),
    validation_fraction: float = 0.1,
    test_fraction: float = 0.2,
    seed: int = 0,
    data_dir: PathLike | None = None,
) -> Dataset:
    """Reads a .csv or .parquet table with a row for each place or time.

    The task is the field of the values, unless you name ``targets`` or ``labels``. Some places are
    left out of all examples, and validation and test ask for the readings there, given all others.
    With ``targets`` the task is regression: numbers of each example. With ``labels`` it is
    classification: the class of each example. Both leave out some examples.

    Args:
        file: the table. In a recipe, its path from the recipe's folder.
        values: columns of readings. An empty cell was not read. A row need not have all of them.
        points: columns of the coordinates, such as ``["east", "north"]``.
        time: another column of coordinates, which holds numbers or time stamps.
        covariates: further columns of coordinates, such as a height. They must be known at every
            query point.
        example: the column that says which example a row belongs to, such as a day or a patient.
            None if all rows are one map or one series.
        targets: columns of numbers that are the same in all rows of an example.
        labels: a column that holds the class of each example, as text or whole numbers. An example
            without a label is in no part.
        classes: the names of the classes, in the order of the model's outputs. The default is all
            labels of the table, sorted.
        variance: variance of the readings' noise, to which the model adds what it learns: a number
            or one for each of the values.
        degrees: whether ``points`` are longitude and latitude on the globe.
        time_zone: the time zone of stamps that have none, such as "Europe/Berlin". The order of
            the rows tells the two passes through a repeated hour apart. Each place, example and
            entry of ``split_by`` has its own order.
        origin: the stamp from which times count, in hours. The default is the first one of the
            table.
        from_start: with ``targets`` or ``labels``, whether times count from the first reading of
            each example.
        season: periods of the time, such as [24, 168] for the hour of the day and of the week.
            Each becomes two further coordinates, a point of a circle (`tfpn.tasks.season`). The
            unit is that of the time, and hours for stamps. Hours are those that have passed: after
            a change of the clock, a daily pattern is an hour off. ``from_start`` leaves seasons as
            they are.
        standardize: with ``targets`` or ``labels``, whether each of the values loses its mean and
            is divided by its standard deviation, both from the training part. A field has a trend
            instead.
        split_by: columns that say which rows are left out together, such as a station's name. The
            default is ``points`` or, without them, the time.
        validation_fraction, test_fraction: shares of the places or, with ``targets`` or
            ``labels``, of the examples. With ``labels`` they are shares of each class.
        seed: seed of the split.
        data_dir: a folder that holds ``file``.

    Returns:
        A `Dataset` whose parts hold targets [B, M, values], or [B, targets], or the numbers of the
        classes [B]. Its ``classes`` are their names.

    Raises:
        ImportError: without pandas.
        OSError: if the file cannot be read.
        TypeError: for a name in place of a list of names.
        ValueError: if columns are missing, do not hold numbers or are named twice, if there are too
            few places, examples or classes, if a label is not one of ``classes``, or if float32
            cannot tell the coordinates apart, or the numbers of a column.
    """
    check_fraction("validation_fraction", validation_fraction)
    check_fraction("test_fraction", test_fraction)
    check_integer("seed", seed, 0)
    named = {"points": points, "covariates": covariates, "values": values, "targets": targets}
    check_names({**named, "split_by": split_by, "classes": classes}, time, labels, example)
    if degrees and len(points) != 2:
        raise ValueError(
            f"points: found {list(points)}; degrees=true needs longitude and latitude."
        )
    if not values or not (points or time):
        raise ValueError("name the columns of values, and of points or time or both.")
    check_season(season, time)
    check_variance(variance, values)
    if targets and labels:
        raise ValueError("name either targets or labels: a model predicts numbers or classes.")
    if from_start and not (time and example and (targets or labels)):
        raise ValueError("from_start needs time, example, and targets or labels.")
    if len(classes) and not labels:
        raise ValueError("classes are the names of labels: name the column of labels, too.")
    path = Path(file) if data_dir is None else Path(data_dir) / file
    frame = table_files.read_table(path)
    series = [*([] if example is None else [example]), *split_by]
    place = tables.Coordinates(
        points, time, covariates, degrees, time_zone, origin, series, season=tuple(season)
    )
    columns = Columns(place, list(values), example, list(targets), labels, variance, from_start)
    readings = columns.read(frame)
    stamped = place.has_stamps(readings.frame)
    check_times(stamped, origin=origin, time_zone=time_zone)
    # Other tables of this kind count from the same origin.
    start = place.first(readings.frame) if origin is None else origin
    place = dataclasses.replace(place, origin=start, stamped=stamped)
    columns = dataclasses.replace(columns, coordinates=place)
    fractions = validation_fraction, test_fraction
    parts: list[Any]
    if not (standardize and (targets or labels)):
        check_spread(readings.values, columns.values)
    if targets or labels:
        if labels:
            classes = class_names(readings.frame, labels, classes)
            answers, what = classes_of(readings, labels, classes), "label"
        else:
            answers, what = targets_of(readings, targets), "target"
        kinds = examples_apart(answers, fractions, seed, what, balanced=labels is not None)
        if standardize:
            columns = dataclasses.replace(columns, scale=scale_of(readings, kinds == 0))
            readings = readings.scaled(columns.scale)
        if targets:
            check_spread(answers, columns.targets)
        parts = example_parts(readings, answers, kinds, columns.targets)
    else:
        parts = places_apart(
            readings, list(split_by) or list(points) or [str(time)], fractions, seed
        )
    shape = f"{len(readings.values)} rows of {path.name}, {len(readings.examples)} example(s)"
    train, validation, test = parts
    return Table(
        train=train,
        validation=validation,
        test=test,
        name="table",
        description=f"{shape}; left out: {validation_fraction:.0%} to choose by, "
        f"{test_fraction:.0%} to test on",
        task="classification" if labels else "regression" if targets else "field",
        columns=columns,
        readings=readings,
        checksum=checksum(readings.frame, columns),
        classes=classes if labels else (),
    )


def labels_in(data: dict[str, Any]) -> list[Any]:
    """The classes of the table that some arguments of `table` name, sorted.

    Raises:
        ImportError, OSError, ValueError: as `table`.
    """
    path = Path(data.get("data_dir") or "") / data["file"]
    return class_names(table_files.read_table(path), data["labels"])


def suggested(data: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a model that follow from the arguments of `table`.

    >>> suggested({"points": ["x", "y"], "values": ["rain"], "covariates": ["height"]})["ard"]
    [0, 0, 1]
    """
    points, values, targets = (list(data.get(key) or ()) for key in ("points", "values", "targets"))
    covariates = list(data.get("covariates") or ())
    degrees = bool(data.get("degrees")) and len(points) == 2
    season = list(data.get("season") or ())
    place = tables.Coordinates(points, data.get("time"), covariates, degrees, season=season)
    groups = place.groups
    labels = data.get("labels")
    found: dict[str, Any] = {
        "spatial_dim": len(groups),
        "in_channels": len(values),
        "channels": 8,
        "num_blocks": 1,
    }
    if labels:
        found["num_classes"] = len(data.get("classes") or ())
    else:
        found |= {"num_classes": None, "num_outputs": len(targets or values)}
    if len(values) > 1:
        found["input_noise"] = "channel"
    if targets or labels:
        return found
    found["output"] = "field"
    found["pooling"] = "space"  # `PNTimeSeries` else looks at the times from 0 to 1 only
    if len(set(groups)) > 1:
        found["ard"] = groups
    if covariates:
        found["trend"] = "linear"
    return found
