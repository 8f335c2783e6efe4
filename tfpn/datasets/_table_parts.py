"""Splits the readings of a table into parts, and reads what each example is to answer."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfpn import tables
from tfpn.datasets._table_checks import STEPS
from tfpn.datasets.base import Part, TargetPart
from tfpn.types import Array


def places_apart(
    readings: Any, names: Sequence[str], fractions: Sequence[float], seed: int
) -> list[TargetPart | None]:
    """Parts that ask for readings at places that are left out of all examples."""
    tables.check_columns(readings.frame, names)
    place = readings.frame.groupby(names, sort=True, dropna=False).ngroup().to_numpy()
    kinds = _split(place.max() + 1, fractions, seed, f"place(s) of different {', '.join(names)}")
    kind = kinds[place]
    given = readings.observed(kind == 0)
    if np.isfinite(given["variance"]).any(axis=-1).sum(axis=1).max() < 2:
        raise ValueError(
            "no example has readings in two rows to train on: name an example that more rows "
            "belong to, or none."
        )
    parts = []
    for number in range(3):
        query, values = readings.asked(kind == number)
        some = np.isfinite(values).any()
        parts.append(TargetPart(given, values, query, readings.names) if some else None)
    return parts


def examples_apart(
    answers: Array, fractions: Sequence[float], seed: int, what: str, *, balanced: bool = False
) -> Array:
    """The part of each example: 0, 1 or 2 for train, validation and test, -1 without an answer.

    Args:
        answers: the targets of the examples, [B, K], NaN where there is none; or the numbers of
            their classes, [B], -1 where there is none.
        fractions: the shares of validation and test.
        seed: seed of the split.
        what: what an answer is, for the message.
        balanced: whether each part has its share of every class.
    """
    answered = np.isfinite(answers).any(axis=1) if answers.ndim > 1 else answers >= 0
    known = np.flatnonzero(answered)
    kinds = np.full(len(answers), -1)
    strata = answers[known] if balanced else None
    kinds[known] = _split(len(known), fractions, seed, f"example(s) with a {what}", strata)
    return kinds


def scale_of(readings: Any, examples: Array) -> Array:
    """Mean and standard deviation of each channel in some examples (a mask), [2, c]."""
    values = readings.values[examples[readings.rows]]
    found = []
    for column, name in zip(values.T, readings.names, strict=True):
        seen = column[np.isfinite(column)]
        if not seen.size:
            raise ValueError(f"column {name!r} holds no reading in the training part.")
        constant = seen.std() <= STEPS * np.finfo(np.float64).eps * np.abs(seen).max()
        found.append((seen.mean(), 1.0 if constant else seen.std()))
    return np.array(found).T


def example_parts(
    readings: Any, answers: Array, kinds: Array, names: Sequence[str] = ()
) -> list[Part | TargetPart | None]:
    """Parts of whole examples with their targets [B, K] or the numbers of their classes [B]."""
    x = readings.observed()
    parts: list[Any] = []
    for number in range(3):
        some = np.flatnonzero(kinds == number)
        part = {key: array[some] for key, array in x.items()}
        if not len(some):
            parts.append(None)
        elif answers.ndim > 1:
            parts.append(TargetPart(part, answers[some].astype(np.float32), names=names))
        else:
            parts.append(Part(part, answers[some]))
    return parts


def targets_of(readings: Any, names: Sequence[str]) -> Array:
    """The targets of the examples, [B, K], NaN where an example has none."""
    return np.stack([_target(readings, name) for name in names], axis=-1)


def _target(readings, name):
    tables.check_columns(readings.frame, [name])
    try:
        column = tables.numbers(readings.frame, name, gaps=True)
    except ValueError as error:
        raise ValueError(
            f"targets: {error} To predict classes, name the column as labels."
        ) from error
    row = _row_of_each(readings, name, column, np.isfinite(column), "target")
    return np.where(row < 0, np.nan, column[row])


def classes_of(readings: Any, name: str, classes: Sequence[Any]) -> Array:
    """The number of each example's class, [B], -1 where an example has no label.

    Raises:
        ValueError: for a label that is not one of ``classes``.
    """
    labels, known = class_labels(readings.frame, name)
    number = {label: k for k, label in enumerate(classes)}
    unknown = [label for label in labels[known] if label not in number]
    if unknown:
        raise ValueError(
            f"column {name!r} holds {unknown[0]!r}, which is not one of the classes "
            f"{list(classes)}: correct it, or add it to classes."
        )
    row = _row_of_each(readings, name, labels, known, "label")
    return np.array([-1 if k < 0 else number[labels[k]] for k in row], int)


def class_labels(frame: Any, name: str) -> tuple[Array, Array]:
    """A column of labels, and which rows have one, [rows] each.

    Labels are text. In a column of whole numbers they are integers.

    Raises:
        ValueError: for a number that is not whole.

    Example: a gap makes floating-point numbers of a column of integers.

    >>> import pandas as pd
    >>> class_labels(pd.DataFrame({"kind": [2, None]}), "kind")[0].tolist()
    [2, None]
    """
    tables.check_columns(frame, [name])
    column = frame[name]
    known = column.notna().to_numpy(bool)
    found = np.full(len(column), None, object)
    if column.dtype.kind in "iuf":
        numbers = tables.numbers(frame, name, gaps=True)
        broken = known & (numbers % 1.0 != 0.0)
        if broken.any():
            raise ValueError(
                f"column {name!r} holds {numbers[broken][0]:g}: a label is text or a whole number. "
                "To predict numbers, name the column as targets."
            )
        found[known] = [int(number) for number in numbers[known]]
    else:
        found[known] = [str(label) for label in column[known]]
    return found, known


def class_names(frame: Any, name: str, classes: Sequence[Any] = ()) -> list[Any]:
    """The given classes or, if there are none, the different labels of a column, sorted.

    Raises:
        ValueError: if there are fewer than two, or if one is given twice.
    """
    if len(set(classes)) < len(classes):
        raise ValueError(f"classes: found {list(classes)}; give each class once.")
    labels, known = class_labels(frame, name)
    found = list(classes) or sorted(set(labels[known]))
    if len(found) < 2:
        raise ValueError(
            f"labels: column {name!r} holds the classes {found}: at least 2 are needed."
        )
    return found


def _row_of_each(readings, name, cells, known, what):
    """The row from which each example takes its cell of a column; -1 without one."""
    if not known.any():
        raise ValueError(f"column {name!r} holds no {what} in {len(cells)} rows.")
    row_of = np.full(len(readings.examples), -1)
    for row in np.flatnonzero(known):
        example = readings.rows[row]
        first = row_of[example]
        if first < 0:
            row_of[example] = row
        elif cells[row] != cells[first]:
            one, other = (
                f"{c:g}" if isinstance(c, float) else c for c in (cells[first], cells[row])
            )
            raise ValueError(
                f"column {name!r} holds {one} and {other} in the example "
                f"{readings.examples[example]!r}: give one {what} for each example, in all of its "
                "rows or in one."
            )
    return row_of


def _split(count, fractions, seed, what, strata=None):
    """0, 1 or 2 for train, validation and test, [count]; each has its share of all strata."""
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
    if strata is not None:
        order = order[np.argsort(_rank(strata[order]), kind="stable")]
    kinds[order[: sizes[1]]] = 2
    kinds[order[sizes[1] : sum(sizes)]] = 1
    return kinds


def _rank(strata):
    """The rank of each entry in its stratum, from 0 to 1, so that any first share is balanced."""
    rank = np.empty(len(strata))
    for stratum in np.unique(strata):
        some = np.flatnonzero(strata == stratum)
        rank[some] = (np.arange(len(some)) + 0.5) / len(some)
    return rank
