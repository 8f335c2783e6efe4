"""Reads a table of your own by the names of its columns."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfpn import tables
from tfpn.contract import observations
from tfpn.datasets._table_checks import check_digits, check_names, checksum
from tfpn.datasets.base import Dataset, TargetPart, check_fraction, check_integer
from tfpn.types import Array, PathLike


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns of a table, which read `Readings` from any table that has them.

    Attributes:
        coordinates: the `tfpn.tables.Coordinates`.
        values: the columns of readings.
        example: the column that says which example a row belongs to, or None for a single one.
        targets: the columns of an example's targets.
        variance: variance of the readings' noise: a number, one for each column of values, or None.
        from_start: whether times count from the first reading of each example.
        scale: mean and standard deviation of each channel, [2, c], which readings are given in
            units of; None leaves them as they are.
    """

    coordinates: tables.Coordinates
    values: Sequence[str]
    example: str | None = None
    targets: Sequence[str] = ()
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
        frame = frame.reset_index(drop=True)[kept]  # errors name rows as the file counts
        places = self.coordinates.read(frame)
        check_digits(places, self.coordinates)
        named = tables.labels(frame, label[0]) if label else np.zeros(len(frame), object)
        examples = list(dict.fromkeys(named.tolist()))
        number = {name: k for k, name in enumerate(examples)}
        rows = np.array([number[name] for name in named.tolist()], int)
        if self.from_start:
            axis = len(places.T) - 1 - len(self.coordinates.covariates)
            start = np.full(len(examples), np.inf)
            np.minimum.at(start, rows, places[:, axis])
            places[:, axis] -= start[rows]
        found = Readings(frame, places, values[kept], rows, examples, self.variance, self.values)
        return found if self.scale is None else found.scaled(self.scale)


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
        task: "regression" or "field".
        columns: the `Columns`, which read other tables of the same kind.
        readings: all the `Readings`, including those that parts are to predict.
        checksum: checksum of the rows that were read, by which `tfpn evaluate` notices a change.
    """

    task: str = "field"
    columns: Any = None
    readings: Any = None
    checksum: int | None = None


def table(
    file: PathLike,
    values: Sequence[str],
    points: Sequence[str] = (),
    *,
    time: str | None = None,
    covariates: Sequence[str] = (),
    example: str | None = None,
    targets: Sequence[str] = (),
    variance: float | Sequence[float] | None = None,
    degrees: bool = False,
    time_zone: str | None = None,
    origin: str | None = None,
    from_start: bool = False,
    standardize: bool = True,
    split_by: Sequence[str] = (),
    validation_fraction: float = 0.1,
    test_fraction: float = 0.2,
    seed: int = 0,
    data_dir: PathLike | None = None,
) -> Dataset:
    """Reads a .csv or .parquet table with a row for each place or time.

    Without ``targets`` the task is the field of the values. Some places are left out of all
    examples, and validation and test ask for the readings there, given all others. With ``targets``
    the task is regression: numbers of each example. Some examples are left out.

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
        variance: variance of the readings' noise, to which the model adds what it learns: a number
            or one for each of the values.
        degrees: whether ``points`` are longitude and latitude on the globe.
        time_zone: the time zone of stamps that have none, such as "Europe/Berlin". The order of
            the rows tells the two passes through a repeated hour apart. Each place, example and
            entry of ``split_by`` has its own order.
        origin: the stamp from which times count, in hours. The default is the first one of the
            table.
        from_start: with ``targets``, whether times count from the first reading of each example.
        standardize: with ``targets``, whether each of the values loses its mean and is divided by
            its standard deviation, both from the training part. A field has a trend instead.
        split_by: columns that say which rows are left out together, such as a station's name. The
            default is ``points`` or, without them, the time.
        validation_fraction, test_fraction: shares of the places or, with ``targets``, of the
            examples.
        seed: seed of the split.
        data_dir: a folder that holds ``file``.

    Returns:
        A `Dataset` whose parts hold targets [B, M, values], or [B, targets].

    Raises:
        ImportError: without pandas.
        OSError: if the file cannot be read.
        TypeError: for a name in place of a list of names.
        ValueError: if columns are missing, do not hold numbers or are named twice, if there are too
            few places or examples to split, or if float32 cannot tell the coordinates apart.
    """
    check_fraction("validation_fraction", validation_fraction)
    check_fraction("test_fraction", test_fraction)
    check_integer("seed", seed, 0)
    named = {"points": points, "covariates": covariates, "values": values, "targets": targets}
    check_names({**named, "split_by": split_by}, time)
    if degrees and len(points) != 2:
        raise ValueError(
            f"points: found {list(points)}; degrees=true needs longitude and latitude."
        )
    if not values or not (points or time):
        raise ValueError("name the columns of values, and of points or time or both.")
    if from_start and not (time and example and targets):
        raise ValueError("from_start needs time, example and targets.")
    path = Path(file) if data_dir is None else Path(data_dir) / file
    frame = tables.read_table(path)
    series = [*([] if example is None else [example]), *split_by]
    place = tables.Coordinates(points, time, covariates, degrees, time_zone, origin, series)
    columns = Columns(place, list(values), example, list(targets), variance, from_start)
    readings = columns.read(frame)
    if origin is None:  # other tables of this kind count from the same origin
        place = dataclasses.replace(place, origin=place.first(readings.frame))
        columns = dataclasses.replace(columns, coordinates=place)
    fractions = validation_fraction, test_fraction
    if targets:
        targets_of, kinds = _examples_apart(readings, columns, fractions, seed)
        if standardize:
            columns = dataclasses.replace(columns, scale=_scale(readings, kinds == 0))
            readings = readings.scaled(columns.scale)
        parts = _target_parts(readings, columns, targets_of, kinds)
    else:
        parts = _places_apart(readings, list(split_by) or list(points) or [time], fractions, seed)
    shape = f"{len(readings.values)} rows of {path.name}, {len(readings.examples)} example(s)"
    train, validation, test = parts
    return Table(
        train=train,
        validation=validation,
        test=test,
        name="table",
        description=f"{shape}; left out: {validation_fraction:.0%} to choose by, "
        f"{test_fraction:.0%} to test on",
        task="regression" if targets else "field",
        columns=columns,
        readings=readings,
        checksum=checksum(readings.frame, columns),
    )


def suggested(data: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a model that follow from the arguments of `table`.

    >>> suggested({"points": ["x", "y"], "values": ["rain"], "covariates": ["height"]})["ard"]
    [0, 0, 1]
    """
    points, values, targets = (list(data.get(key) or ()) for key in ("points", "values", "targets"))
    covariates = list(data.get("covariates") or ())
    degrees = bool(data.get("degrees")) and len(points) == 2
    groups = tables.Coordinates(points, data.get("time"), covariates, degrees).groups
    found: dict[str, Any] = {
        "num_classes": None,
        "num_outputs": len(targets or values),
        "spatial_dim": len(groups),
        "in_channels": len(values),
        "channels": 8,
        "num_blocks": 1,
    }
    if len(values) > 1:
        found["input_noise"] = "channel"
    if targets:
        return found
    found["output"] = "field"
    if len(set(groups)) > 1:
        found["ard"] = groups
    if covariates:
        found["trend"] = "linear"
    return found


def _places_apart(readings, names, fractions, seed):
    """Parts that ask for readings at places that are left out of all examples."""
    tables.check_columns(readings.frame, names)
    place = readings.frame.groupby(names, sort=True, dropna=False).ngroup().to_numpy()
    kinds = _split(place.max() + 1, fractions, seed, f"place(s) of different {', '.join(names)}")
    kind = kinds[place]
    given = readings.observed(kind == 0)
    parts = []
    for number in range(3):
        query, values = readings.asked(kind == number)
        some = np.isfinite(values).any()
        parts.append(TargetPart(given, values, query, readings.names) if some else None)
    return parts


def _examples_apart(readings, columns, fractions, seed):
    """The targets of all examples, and the part of each: -1 if it has no target."""
    targets = np.stack([_target(readings, name) for name in columns.targets], axis=-1)
    known = np.flatnonzero(np.isfinite(targets).any(axis=1))
    kinds = np.full(len(targets), -1)
    kinds[known] = _split(len(known), fractions, seed, "example(s) with a target")
    return targets, kinds


def _scale(readings, examples):
    """Mean and standard deviation of each channel in some examples, [2, c]."""
    values = readings.values[examples[readings.rows]]
    found = []
    for column, name in zip(values.T, readings.names, strict=True):
        seen = column[np.isfinite(column)]
        if not seen.size:
            raise ValueError(f"column {name!r} holds no reading in the training part.")
        found.append((seen.mean(), seen.std() or 1.0))
    return np.array(found).T


def _target_parts(readings, columns, targets, kinds):
    """Parts of whole examples with their targets."""
    x = readings.observed()
    parts: list[Any] = []
    for number in range(3):
        some = np.flatnonzero(kinds == number)
        part = {key: array[some] for key, array in x.items()}
        some_targets = targets[some].astype(np.float32)
        names = columns.targets
        parts.append(TargetPart(part, some_targets, names=names) if len(some) else None)
    return parts


def _target(readings, name):
    """The target of each example, NaN if it has none."""
    tables.check_columns(readings.frame, [name])
    try:
        column = tables.numbers(readings.frame, name, gaps=True)
    except ValueError as error:
        raise ValueError(
            f'targets: {error} To predict classes, see the guide "Classify irregular series".'
        ) from error
    if not np.isfinite(column).any():
        raise ValueError(f"column {name!r} holds no target in {len(column)} rows.")
    found = np.full(len(readings.examples), np.nan)
    for k, label in enumerate(readings.examples):
        some = np.unique(column[(readings.rows == k) & np.isfinite(column)])
        if len(some) > 1:
            raise ValueError(
                f"column {name!r} holds {some[0]:g} and {some[1]:g} in the example {label!r}: give "
                "one target for each example, in all of its rows or in one."
            )
        if len(some):
            found[k] = some[0]
    return found


def _split(count, fractions, seed, what):
    """0, 1 or 2 for train, validation and test, [count]."""
    sizes = [int(round(fraction * count)) for fraction in fractions]
    sizes = [max(size, int(fraction > 0)) for size, fraction in zip(sizes, fractions, strict=True)]
    if count - sum(sizes) < 2:
        raise ValueError(
            f"there are {count} {what}, and {sizes[0]} for validation and {sizes[1]} for the test "
            f"leave {max(count - sum(sizes), 0)} to train on: at least 2 are needed. Give "
            "validation_fraction=0 and test_fraction=0, or more data."
        )
    kinds = np.zeros(count, int)
    order = np.random.default_rng(seed).permutation(count)
    kinds[order[: sizes[1]]] = 2
    kinds[order[sizes[1] : sum(sizes)]] = 1
    return kinds
