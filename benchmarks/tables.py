"""Results in CSV files that grow by a row for each measurement, so that a run can go on."""

import csv


def read_rows(path):
    """The rows as dicts of strings, none if there is no file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def append_rows(path, fields, rows):
    """Adds rows to the file, which is begun with its header if it is not there."""
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)
