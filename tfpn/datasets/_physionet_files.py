"""Reads the original files of the PhysioNet / Computing in Cardiology Challenge 2012."""

import csv
import gzip
import hashlib
import math
import os
import pathlib
import re
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tfpn.progress import Progress
from tfpn.types import Array

SETS = ("a", "b", "c")
SPLITS = ("train", "validation", "test")
LAST_MINUTE = 48 * 60

# The rows about the patient at 00:00. Weight is a series, too: its value at 00:00 is both.
DESCRIPTORS = ("Age", "Gender", "Height", "ICUType")
# fmt: off
SERIES = (
    "ALP", "ALT", "AST", "Albumin", "BUN", "Bilirubin", "Cholesterol", "Creatinine", "DiasABP",
    "FiO2", "GCS", "Glucose", "HCO3", "HCT", "HR", "K", "Lactate", "MAP", "MechVent", "Mg",
    "NIDiasABP", "NIMAP", "NISysABP", "Na", "PaCO2", "PaO2", "Platelets", "RespRate", "SaO2",
    "SysABP", "Temp", "TroponinI", "TroponinT", "Urine", "WBC", "Weight", "pH",
)
# fmt: on
MISSING = -1
ICU_TYPES = ("CoronaryCare", "CardiacSurgeryRecovery", "MedicalICU", "SurgicalICU")
_CATEGORIES = {"Gender": (MISSING, 0, 1), "ICUType": (MISSING, 1, 2, 3, 4)}

_HEADER = "Time,Parameter,Value"
_RECORD_FILE = re.compile(r"([0-9]{1,9})\.txt")
# The largest of the real files has about 25,000 bytes.
_LARGEST_FILE = 10_000_000
_SERIES_INDEX = {name: index for index, name in enumerate(SERIES)}
_MINUTES = {f"{m // 60:02d}:{m % 60:02d}": m for m in range(LAST_MINUTE + 1)}


class Records(NamedTuple):
    """R records as their files hold them, with P rows of series in all.

    ids: Numbers of the records [R] int64.
    sets: Index in `SETS` of each record's set [R] int64.
    descriptors: Age, gender, height and ICU type [R, 4] float32, NaN where there is no row.
    unnamed: Number of rows without a parameter's name in each record [R] int64.
    counts: Number of rows of series in each record [R] int64. The rows below are in this order.
    minute: Minutes since admission [P] int16.
    series: Index in `SERIES` [P] int8.
    value: The reading [P] float32.
    """

    ids: np.ndarray
    sets: np.ndarray
    descriptors: np.ndarray
    unnamed: np.ndarray
    counts: np.ndarray
    minute: np.ndarray
    series: np.ndarray
    value: np.ndarray


def find_set(folder: Path, letter: str) -> Any:
    """The path of the folder set-a, or else of the archive set-a.tar.gz, in a folder."""
    name = f"set-{letter}"
    if (folder / name).is_dir():
        return folder / name
    if (folder / f"{name}.tar.gz").is_file():
        return folder / f"{name}.tar.gz"
    raise FileNotFoundError(
        f"data_dir: {folder} holds neither the folder {name} nor the file {name}.tar.gz. Give the "
        "folder with set-a, set-b, set-c (folders or .tar.gz) and Outcomes-a.txt, Outcomes-b.txt, "
        "Outcomes-c.txt of the PhysioNet challenge 2012, or None to download them."
    )


def set_files(path: Path) -> Iterator[Any]:
    """Yields (name, number of the record, content) for the records of a set.

    An archive is read in memory and never unpacked, so that names in it cannot lead out of a
    folder. Names other than those of records still raise an error.
    """
    yield from _folder_files(path) if path.is_dir() else _archive_files(path)


def _folder_files(folder):
    for path in sorted(folder.glob("*.txt")):
        match = _RECORD_FILE.fullmatch(path.name)
        if not match:
            raise ValueError(f"{path}: expected records such as 132539.txt only; move it away.")
        if path.stat().st_size > _LARGEST_FILE:
            raise ValueError(
                f"{path}: larger than {_LARGEST_FILE} bytes, but no record is; move it away."
            )
        yield str(path), int(match[1]), path.read_bytes()


def _archive_files(path):
    folder = path.name.removesuffix(".tar.gz")
    advice = f"expected records such as {folder}/132539.txt only; get the original archive"
    try:
        with gzip.open(path) as file, tarfile.open(fileobj=file, mode="r|") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if member.isdir() and name in (".", "", folder):
                    continue
                match = _RECORD_FILE.fullmatch(name.removeprefix(f"{folder}/"))
                if not member.isreg() or not match or "/" not in name:
                    raise ValueError(f"{path}: it holds {member.name!r}; {advice}.")
                if member.size > _LARGEST_FILE:
                    raise ValueError(
                        f"{path}: {member.name!r} has {member.size} bytes, but no record is so "
                        f"large; {advice}."
                    )
                opened: Any = archive.extractfile(member)
                content = opened.read()
                yield f"{path}:{member.name}", int(match[1]), content
            # Read to the end, where the checksum is.
            while file.read(1 << 20):
                pass
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(
            f"{path}: cannot be read ({type(error).__name__}: {error}); get the original archive."
        ) from error


def digest_of_file(path: Path) -> Any:
    """The SHA-256 of a file in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of_records(path: Path) -> Any:
    """The SHA-256 of a set's records in the order of their numbers, in a folder or an archive."""
    sha = hashlib.sha256()
    for _, number, content in sorted(set_files(path), key=lambda file: file[1]):
        sha.update(f"{number} {len(content)}\n".encode())
        sha.update(content)
    return sha.hexdigest()


def fingerprint(path: Path) -> Any:
    """A text that changes if a set changes.

    For an archive it is the SHA-256. For a folder it is the SHA-256 of its files' names, sizes and
    times of modification: reading 12,000 files would take longer than everything else.
    """
    if not path.is_dir():
        return digest_of_file(path)
    sha = hashlib.sha256()
    with os.scandir(path) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            found = entry.stat()
            sha.update(f"{entry.name} {found.st_size} {found.st_mtime_ns}\n".encode())
    return sha.hexdigest()


def read_records(paths: Sequence[Any], progress: Progress) -> Any:
    """Reads the sets at `paths`, in the order of `SETS`, and shows its progress."""
    ids, sets, descriptors, unnamed, counts = [], [], [], [], []
    minute, series, value = [], [], []
    names: dict[str, int] = {}
    for index, path in enumerate(paths):
        for name, number, content in set_files(path):
            if number in names:
                raise ValueError(
                    f"{name}: the record {number} is also {names[number]}; remove one of the two."
                )
            names[number] = name
            found, count, rows = _parse(name, number, content)
            ids.append(number)
            sets.append(index)
            descriptors.append(found)
            unnamed.append(count)
            counts.append(len(rows[0]))
            minute.append(np.array(rows[0], np.int16))
            series.append(np.array(rows[1], np.int8))
            value.append(np.array(rows[2], np.float32))
            progress.advance()
    if not ids:
        raise ValueError(f"{', '.join(map(str, paths))}: found no records.")
    return Records(
        ids=np.array(ids, np.int64),
        sets=np.array(sets, np.int64),
        descriptors=np.array(descriptors, np.float32),
        unnamed=np.array(unnamed, np.int64),
        counts=np.array(counts, np.int64),
        minute=np.concatenate(minute),
        series=np.concatenate(series),
        value=np.concatenate(value),
    )


def _parse(name, number, content):
    """A record's descriptors, number of rows without a name, and (minutes, series, values)."""
    try:
        text = content.decode("ascii")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _malformed(name, line, content.split(b"\n")[line - 1], "plain ASCII") from None
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    if lines[0] != _HEADER:
        raise _malformed(name, 1, lines[0], f"the header {_HEADER}")
    descriptors, unnamed, has_number = [math.nan] * len(DESCRIPTORS), 0, False
    minutes, series, values = [], [], []
    for line, text in enumerate(lines[1:], start=2):
        fields = text.split(",")
        if len(fields) != 3:
            raise _malformed(name, line, text, "three fields, Time,Parameter,Value")
        minute = _MINUTES.get(fields[0])
        if minute is None:
            raise _malformed(name, line, text, "a time from 00:00 to 48:00 as HH:MM")
        try:
            value = float(fields[2])
        except ValueError:
            value = math.nan
        # float() would also read 1_000, nan and infinity.
        if not abs(value) < 1e30 or "_" in fields[2]:
            raise _malformed(name, line, text, "a finite number as the value")
        parameter = fields[1]
        index = _SERIES_INDEX.get(parameter)
        if index is not None:
            minutes.append(minute)
            series.append(index)
            values.append(value)
        elif parameter == "":
            unnamed += 1
        elif parameter == "RecordID":
            if value != number:
                raise _malformed(name, line, text, f"the RecordID {number}, as in the file's name")
            has_number = True
        elif parameter in DESCRIPTORS:
            place = DESCRIPTORS.index(parameter)
            if minute != 0 or not math.isnan(descriptors[place]):
                raise _malformed(name, line, text, f"{parameter} once, at 00:00")
            allowed = _CATEGORIES.get(parameter)
            if allowed and value not in allowed:
                raise _malformed(name, line, text, f"one of {', '.join(map(str, allowed))}")
            descriptors[place] = value
        else:
            raise _malformed(name, line, text, "a parameter of the challenge 2012")
    if not has_number:
        raise ValueError(f"{name}: has no row for RecordID; expected 00:00,RecordID,{number}.")
    return descriptors, unnamed, (minutes, series, values)


def _malformed(name, line, text, expected):
    return ValueError(f"{name}, line {line}: found {text!r:.200}; expected {expected}.")


def read_outcomes(path: Path) -> Any:
    """Reads an outcomes or split file: a dict from a record's number to its death (0 or 1)."""
    path = pathlib.Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no file {path}; expected a CSV file with the columns RecordID and "
            "In-hospital_death, like the outcomes and the split lists."
        )
    outcomes = {}
    with open(path, encoding="ascii", errors="replace", newline="") as file:
        reader = csv.DictReader(file)
        missing = {"RecordID", "In-hospital_death"} - set(reader.fieldnames or ())
        if missing:
            raise ValueError(
                f"{path}, line 1: found {','.join(reader.fieldnames or ())!r:.200}; expected the "
                "columns RecordID and In-hospital_death."
            )
        for row in reader:
            number, death = row["RecordID"], row["In-hospital_death"]
            text = ",".join(str(field) for field in row.values())
            if not re.fullmatch("[0-9]{1,9}", number or "") or death not in ("0", "1"):
                raise _malformed(path, reader.line_num, text, "a RecordID, and a death of 0 or 1")
            if int(number) in outcomes:
                raise _malformed(path, reader.line_num, text, "each RecordID once")
            outcomes[int(number)] = int(death)
    return outcomes


def check_outcomes(records: Any, outcomes: Any, paths: Sequence[Any]) -> Any:
    """The labels [R] of the records; `outcomes` and `paths` hold one entry for each set."""
    for index, (expected, path) in enumerate(zip(outcomes, paths, strict=True)):
        found = set(records.ids[records.sets == index].tolist())
        for what, lone in (
            ("records of the set without an outcome", found - set(expected)),
            ("outcomes without a record in the set", set(expected) - found),
        ):
            if lone:
                raise ValueError(
                    f"{path}: there are {len(lone)} {what}, the first {min(lone)}; get the "
                    "original files of this set."
                )
    return np.array(
        [outcomes[s][i] for s, i in zip(records.sets.tolist(), records.ids.tolist(), strict=True)],
        np.int64,
    )


def read_splits(folder: Path) -> Any:
    """Reads the split lists of a folder, in the order of `SPLITS`, as `read_outcomes` does."""
    paths = [folder / f"{name}_listfile.csv" for name in ("train", "val", "test")]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise FileNotFoundError(
            f"split_dir: {folder} does not hold {', '.join(missing)}. The lists "
            "train_listfile.csv, val_listfile.csv and test_listfile.csv come with the project "
            "medical_ts_datasets (its resources for PhysioNet 2012) and not with this package: put "
            "them into the folder splits beside the data, or give their folder."
        )
    return {name: read_outcomes(path) for name, path in zip(SPLITS, paths, strict=True)}


def split_indices(records: Any, labels: Array, splits: Any) -> Any:
    """The indices of the records of each part, in the order of the split lists."""
    place = {number: index for index, number in enumerate(records.ids.tolist())}
    indices: dict[str, Array] = {}
    listed: dict[int, str] = {}
    for name, deaths in splits.items():
        for number, death in deaths.items():
            if number not in place:
                raise ValueError(
                    f"The {name} list names the record {number}, which is in none of the sets "
                    f"({len(place)} records); get the original files, or the lists for these."
                )
            if number in listed:
                raise ValueError(
                    f"The record {number} is in the {listed[number]} and the {name} list; each "
                    "record belongs to one part."
                )
            if death != labels[place[number]]:
                raise ValueError(
                    f"The {name} list has the death {death} for the record {number}, but its "
                    f"outcome is {labels[place[number]]}; get the original files."
                )
            listed[number] = name
        indices[name] = np.array([place[number] for number in deaths], np.int64)
    if len(listed) < len(place):
        raise ValueError(
            f"{len(place) - len(listed)} of {len(place)} records are in no split list, the first "
            f"{min(set(place) - set(listed))}; each record belongs to one part."
        )
    return indices
