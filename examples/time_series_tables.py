"""Reads readings and outcomes from CSV files, and checks them: for `own_time_series.py`."""

import csv
import math
from pathlib import Path

import numpy as np

from tfpn.files import same_file

OUTPUTS = ("predictions.csv", "fits.png", "about.json", "model.keras")
DATES = (
    "for dates, hours since the record's first reading: with pandas, once df.time are datetimes, "
    '(df.time - df.groupby("id").time.transform("min")).dt.total_seconds() / 3600'
)


def read_table(path, columns):
    """Yields the rows of a CSV file with the given columns, as (line number, dict)."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            missing = [name for name in columns if name not in (reader.fieldnames or [])]
            if missing:
                raise SystemExit(
                    f"{path}: found the columns {reader.fieldnames}, without {', '.join(missing)}; "
                    f"the first line must name {', '.join(columns)}"
                )
            rows = [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError) as error:
        raise SystemExit(f"cannot read {path}: {error}") from error
    if not rows:
        raise SystemExit(f"{path} has no rows")
    for line, row in rows:
        empty = [name for name in columns if not (row[name] or "").strip()]
        if empty:
            raise SystemExit(f"{path}, line {line}: {empty[0]} is empty; fill it or drop the row")
    return rows


def read_series(path, from_start=False):
    """Reads the readings of each record: {id: [(time, variable, value), ...]}."""
    records = {}
    for line, row in read_table(path, ("id", "time", "variable", "value")):
        for name, advice in (("time", DATES), ("value", "leave out readings that failed")):
            if not is_number(row[name]):
                raise SystemExit(
                    f"{path}, line {line}: {name} is {row[name]!r}; give a number ({advice})"
                )
        records.setdefault(row["id"].strip(), []).append(
            (float(row["time"]), row["variable"].strip(), float(row["value"]))
        )
    if from_start:
        for name, rows in records.items():
            start = min(time for time, _, _ in rows)
            records[name] = [(time - start, *rest) for time, *rest in rows]
    return records


def check_times(path, records, advice):
    """Refuses times that coincide in float32, in which the model computes."""
    distinct = [np.unique([time for time, _, _ in rows]) for rows in records.values()]
    total = sum(map(len, distinct))
    lost = total - sum(len(np.unique(times.astype("float32"))) for times in distinct)
    if lost > 0.01 * total:
        raise SystemExit(
            f"{path}: {lost} of {total} times of one record are the same in float32, which has "
            f"seven digits; {advice}"
        )


def report_times(records, box, from_start):
    """Prints warnings about the readings' times and the stretch at which the model looks."""
    lengths = [np.ptp([time for time, _, _ in rows]) for rows in records.values()]
    lengths = [length for length in lengths if length > 0]
    start, end = box
    if lengths and np.median(lengths) < 0.1 * (end - start):
        print(
            f"the model looks at {start:g} to {end:g}, and a typical record is "
            f"{np.median(lengths):g} long: "
            + ("" if from_start else "if records share no clock, give --from-start; ")
            + "for a shorter stretch of time, give --box"
        )


def report_outside(records, box):
    """Prints how many readings are outside of the stretch at which the model looks."""
    # The times are rounded like the box.
    times = np.array([row[0] for rows in records.values() for row in rows], "float32")
    start, end = np.array(box, "float32")
    outside = np.sum((times < start) | (times > end))
    if outside:
        print(
            f"{outside} of {len(times)} readings ({outside / len(times):.1%}) lie outside "
            f"{start:g} to {end:g}, the stretch of time that the model looks at"
        )


def read_outcomes(path, records):
    """Reads the outcome of each record, in the file's order."""
    outcomes = {}
    for line, row in read_table(path, ("id", "outcome")):
        record = row["id"].strip()
        if record in outcomes:
            raise SystemExit(f"{path}, line {line}: a second outcome of {record!r}; keep one")
        outcomes[record] = row["outcome"].strip()
    lost = sorted(set(records) - set(outcomes))
    if lost:
        raise SystemExit(
            f"{path} has no outcome for {len(lost)} records of the series, such as {lost[0]!r}; "
            "add them, or keep these records for predictions with --model"
        )
    if len(set(outcomes.values())) < 2:
        raise SystemExit(f"{path}: all outcomes are {row['outcome']!r}; there is nothing to learn")
    return outcomes


def read_task(outcomes, wanted):
    """Whether to predict classes or numbers: the wanted task, or a guess from the outcomes."""
    if wanted == "classification":
        return wanted
    numbers = {name: is_number(outcome) for name, outcome in outcomes.items()}
    if not all(numbers.values()):
        other = next(name for name, number in numbers.items() if not number)
        if wanted or any(numbers.values()):
            raise SystemExit(
                f"the outcome of {other!r} is {outcomes[other]!r}, not a number: drop it, or "
                "give --task classification if outcomes are names"
            )
        return "classification"
    if wanted:
        return wanted
    count = len({float(outcome) for outcome in outcomes.values()})
    task = "regression" if count > 10 else "classification"
    other = "classification" if count > 10 else "regression"
    print(f"the outcomes are {count} different numbers: {task} (or give --task {other})")
    return task


def is_number(text):
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def make_folder(path, inputs):
    """Makes the folder --output before the training, whose results would be lost without it."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SystemExit(f"--output {path}: {error}; give another folder") from error
    for name in inputs:
        if name and any(same_file(name, folder / output) for output in OUTPUTS):
            raise SystemExit(f"--output {path} would replace {name}; give another folder")
    return folder
