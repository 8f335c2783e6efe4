import dataclasses
import hashlib
import json
import os
import pathlib
from typing import Literal, NamedTuple

import numpy as np

from tfpn.datasets import _physionet_files as files
from tfpn.datasets._physionet_cleaning import Cleaned, clean
from tfpn.datasets._physionet_download import download
from tfpn.datasets.base import Dataset, Part, read_cache, write_cache
from tfpn.progress import Progress
from tfpn.types import PathLike, Verbose

# Part of the cache's key. Raise it if you change what is read or stored, or how it is cleaned.
_FORMAT = 2

STATICS = ("Age", "Height", "AdmissionWeight", "Female", "Male", *files.ICU_TYPES)
# Channels of ones and zeros, which are not normalised.
_INDICATORS = ("MechVent", "Female", "Male", *files.ICU_TYPES)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Stays(Part):
    """A part of `physionet2012`: a `Part` with the numbers and the statics of its records.

    Args:
        x: Observations, as in `Part`.
        y: Labels, as in `Part`.
        record_ids: Numbers of the records, int64 [B].
        statics: Normalised static variables, float32 [B, 9], 0 where missing. The data set's
            `static_channels` holds their names.
        statics_variance: 0 where a static variable is known, ``+inf`` where it is missing; float32
            [B, 9].
    """

    record_ids: np.ndarray
    statics: np.ndarray
    statics_variance: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class StaysDataset(Dataset):
    """The data set that `physionet2012` returns: a `Dataset` with names, scales and counts.

    Args:
        train, validation, test: `Stays`.
        name, description: As in `Dataset`.
        channels: Names of the channels of `.x`.
        static_channels: Names of the columns of `.statics`.
        scales: Dict from a channel's name to the (mean, standard deviation) that normalised it, in
            the units of the challenge: value = normalised * standard deviation + mean.
        report: Counts of what the files hold and of what each cleaning rule did.
    """

    channels: tuple
    static_channels: tuple
    scales: dict
    report: dict


def physionet2012(
    data_dir: PathLike | None = None,
    split_dir: PathLike | None = None,
    cache_dir: PathLike | None = None,
    statics: Literal["series", "apart"] = "series",
    progress: bool = True,
) -> Dataset:
    """PhysioNet 2012: death in hospital from the first 48 hours in intensive care.

    The data are the 12,000 records of the sets a, b and c of the PhysioNet / Computing in
    Cardiology Challenge 2012. The parts are those that the literature on irregular time series
    uses: three lists of 7,680, 1,920 and 2,400 records. Without the 12 records that have no series,
    7,671, 1,917 and 2,400 are left. A record has 37 series (laboratory values, vital signs,
    ventilation, urine, weight), each with its own times.

    The points are the distinct times at which a record has a reading, ascending, as a fraction of
    48 hours (minutes / 2880, from 0 to 1). A channel that was not read at a time has the variance
    ``+inf`` there. A channel that was read is exact (variance 0). The mean and standard deviation
    of a channel's readings in the training part normalise its values. MechVent (1 during
    ventilation, never read otherwise) and the one-hot statics stay 1 and 0.

    The nine statics are age, height, weight on admission, gender (2, one-hot) and the type of the
    intensive care unit (4, one-hot). As series they follow the 37 channels and are constant, with
    an exact reading at every time of the record. A missing static (5,726 of 12,000 heights) is not
    observed.

    The function cleans the files by these rules, in this order. `.report` counts what each one
    found:

    1. Rows without a parameter's name (all in set c) are left out.
    2. -1 means missing.
    3. A pH from 650 to 800 lacks its decimal point and is divided by 100.
    4. Values that no patient has are left out. Wide bounds for each parameter (`PLAUSIBLE` in the
       module `_physionet_cleaning`) exclude a pH of 0, temperatures below 25 degrees Celsius, blood
       pressures and heart rates of 0, weights under 20 kg, heights above 250 cm and the like.
    5. Several readings of one parameter at one time are averaged.

    Reading the files takes a minute or less. The function keeps the cleaned records in a file in
    `cache_dir`. Its name holds the version of the format and a fingerprint of the three sets: the
    SHA-256 of an archive, or the names, sizes and times of modification of a folder's files. With
    this file all takes some seconds. Outcomes and split lists are read each time. A file that
    cannot be used raises an error and is not built anew, as with `superpixel_mnist`.

    The split lists are those of the project medical_ts_datasets. They have no licence, so they do
    not come with this package.

    Args:
        data_dir: Folder that holds set-a (a folder) or set-a.tar.gz, and Outcomes-a.txt, and the
            same for b and c. If both a folder and an archive are there, the folder is read. None
            downloads the files from physionet.org (20 MB, licence ODC-BY 1.0) into the folder
            physionet2012 in `cache_dir`. Outcomes and records must then have the SHA-256 of those
            that this function was tested with. The download itself was tested only without a
            network.
        split_dir: Folder that holds train_listfile.csv, val_listfile.csv and test_listfile.csv,
            each with the columns RecordID and In-hospital_death. None takes the folder splits in
            `data_dir` or, without `data_dir`, in physionet2012 in `cache_dir`.
        cache_dir: Folder for the cleaned records. None takes the environment variable TFPN_CACHE
            or, if it is not set, ~/.cache/tfpn.
        statics: "series" for statics as constant channels of `.x`, or "apart" for statics only in
            each part's `.statics`, which you give to a model's head.
        progress: Whether to show the progress of downloading and reading, if it takes long.

    Returns:
        A `StaysDataset` whose parts list their records in the order of the split lists. In each
        part `.x` is float32 with d = 1, c = 46 (37 with statics apart) and the N of the longest
        record of all parts (215). `.y` is 1 for a death in hospital and 0 otherwise (int64). Each
        part also has `.record_ids` [B], `.statics` [B, 9] (normalised, 0 where missing) and
        `.statics_variance` [B, 9] (0, or ``+inf`` where missing). The data set also has
        `.channels`, `.static_channels`, `.scales` and `.report`. All parts together take 1 GB.

    Raises:
        FileNotFoundError: if a set, an outcomes file or a split list is missing.
        RuntimeError: if a download fails, or a downloaded file is not the expected one.
        ValueError: if `statics` is unknown; if a line of a file is malformed (the message names the
            file and the line); if an archive is damaged or holds anything but records; if records,
            outcomes and split lists do not agree; or if the cache cannot be used.

    Example:
        With `folder` holding the sets, the outcomes and the folder splits:

        >>> import tfpn
        >>> data = tfpn.datasets.physionet2012(folder, cache_dir=folder, progress=False)
        >>> data.train.x["points"].shape[2], data.train.x["values"].shape[2]
        (1, 46)
        >>> data.channels[-9:-4]
        ('Age', 'Height', 'AdmissionWeight', 'Female', 'Male')
        >>> data.report["records without any series"]
        1
    """
    if statics not in ("series", "apart"):
        raise ValueError(f"statics: found {statics!r}; give 'series' or 'apart'.")
    cache = pathlib.Path(
        cache_dir or os.environ.get("TFPN_CACHE") or pathlib.Path.home() / ".cache" / "tfpn"
    )
    folder = cache / "physionet2012" if data_dir is None else pathlib.Path(data_dir)
    splits = files.read_splits(folder / "splits" if split_dir is None else pathlib.Path(split_dir))
    if data_dir is None:
        download(folder, progress)

    paths = [files.find_set(folder, letter) for letter in files.SETS]
    outcome_paths = [folder / f"Outcomes-{letter}.txt" for letter in files.SETS]
    outcomes = [files.read_outcomes(path) for path in outcome_paths]
    records = _load(paths, cache, sum(map(len, outcomes)), progress)
    labels = files.check_outcomes(records, outcomes, outcome_paths)
    parts = files.split_indices(records, labels, splits)
    return _assemble(records, labels, parts, statics)


def _assemble(records, labels, parts, statics):
    """The data set of `Cleaned` records, their labels [R] and the indices of each part."""
    parts = {name: index[records.has_series[index]] for name, index in parts.items()}
    for name, index in parts.items():
        if not len(index):
            raise ValueError(f"The {name} list has no record with a series; get the whole list.")
    readings = _place(records)
    report = _report(records, labels, parts, readings.times)

    static_values = _statics(records, readings.record)
    train = np.zeros(len(labels), bool)
    train[parts["train"]] = True
    scales = _series_scales(records, train[readings.record])
    for column, name in enumerate(STATICS):
        values = static_values[train, column]
        scales[name] = _scale(name, values[~np.isnan(values)])

    mean, std = np.array([scales[name] for name in files.SERIES]).T
    value = ((records.value - mean[records.series]) / std[records.series]).astype(np.float32)
    mean, std = np.array([scales[name] for name in STATICS]).T
    static_values = (static_values - mean) / std

    arguments = (records, labels, readings, value, static_values, statics)
    return StaysDataset(
        **{name: _part(index, *arguments) for name, index in parts.items()},
        name="PhysioNet 2012",
        description=(
            f"{len(labels)} records of intensive care in "
            f"{', '.join(f'{len(index)} {name}' for name, index in parts.items())} records; points "
            "are minutes / 2880, values are normalised by the training records, exact, label 1 is "
            f"death in hospital; statics {'as series' if statics == 'series' else 'apart'}. "
            + "; ".join(f"{what}: {_text(found)}" for what, found in report.items())
            + "."
        ),
        channels=files.SERIES + STATICS if statics == "series" else files.SERIES,
        static_channels=STATICS,
        scales=scales,
        report=report,
    )


class _Readings(NamedTuple):
    """The record and time of each of the P readings of `Cleaned`, and the T distinct times.

    record: Index of each reading's record [P].
    slot: Index of each reading's time among the T times [P].
    time_record: Index of each time's record [T].
    time_minute: Minute of each time [T].
    place: Number of each time within its record, from 0 [T].
    times: Number of distinct times of each record [R].
    """

    record: np.ndarray
    slot: np.ndarray
    time_record: np.ndarray
    time_minute: np.ndarray
    place: np.ndarray
    times: np.ndarray


def _place(records):
    record = np.repeat(np.arange(len(records.ids)), records.counts)
    minute = records.minute
    # Readings are sorted by record and minute.
    first = np.ones(len(record), bool)
    first[1:] = (record[1:] != record[:-1]) | (minute[1:] != minute[:-1])
    time_record = record[first]
    times = np.bincount(time_record, minlength=len(records.ids))
    return _Readings(
        record=record,
        slot=np.cumsum(first) - 1,
        time_record=time_record,
        time_minute=minute[first],
        place=np.arange(len(time_record)) - (np.cumsum(times) - times)[time_record],
        times=times,
    )


def _report(records, labels, parts, times):
    """The report of `physionet2012`; `times` [R] counts each record's times after cleaning."""
    kept = records.has_series
    count_before, times_before = records.before.T
    return {
        "records": len(labels),
        "deaths": int(labels.sum()),
        "deaths by set": {
            letter: int(labels[records.sets == index].sum())
            for index, letter in enumerate(files.SETS)
        },
        "readings a record, before cleaning (mean, largest)": _mean_and_max(count_before),
        "times a record, before cleaning (mean, largest)": _mean_and_max(times_before),
        "records without any series": int((~kept).sum()),
        **{f"{name} records": len(index) for name, index in parts.items()},
        **records.rules,
        "readings a record, after cleaning (mean, largest)": _mean_and_max(records.counts[kept]),
        "times a record, after cleaning (mean, largest)": _mean_and_max(times[kept]),
        "records left without a reading by cleaning": int((records.counts[kept] == 0).sum()),
    }


def _mean_and_max(counts):
    return round(float(counts.mean()), 2), int(counts.max())


def _text(found):
    if isinstance(found, dict):
        return ", ".join(f"{name} {count}" for name, count in found.items()) or "0"
    return " and ".join(map(str, found)) if isinstance(found, tuple) else str(found)


def _statics(records, record):
    """The static variables [R, 9] float64, NaN where missing."""
    age, gender, height, icu_type = records.descriptors.T
    weight = np.full(len(age), np.nan)
    first = (records.series == files.SERIES.index("Weight")) & (records.minute == 0)
    weight[record[first]] = records.value[first]
    one_hot = [
        np.where(np.isnan(kind), np.nan, kind == value)
        for kind, values in ((gender, (0, 1)), (icu_type, (1, 2, 3, 4)))
        for value in values
    ]
    return np.stack([age, height, weight, *one_hot], axis=-1)


def _series_scales(records, chosen):
    """The scales of the series, from the readings that the mask `chosen` [P] selects."""
    series, value = records.series[chosen], records.value[chosen]
    order = np.argsort(series, kind="stable")
    ends = np.cumsum(np.bincount(series, minlength=len(files.SERIES)))
    groups = np.split(value[order], ends[:-1])
    return {name: _scale(name, group) for name, group in zip(files.SERIES, groups, strict=True)}


def _scale(name, values):
    """Mean and standard deviation of a channel's readings in the training part."""
    if name in _INDICATORS or not len(values):
        return 0.0, 1.0
    # A channel that never changes is not divided.
    return float(values.mean()), float(values.std()) or 1.0


def _part(index, records, labels, readings, value, static_values, statics):
    row = np.full(len(labels), -1)
    row[index] = np.arange(len(index))
    here = row[readings.time_record] >= 0
    time_example, time_place = row[readings.time_record[here]], readings.place[here]

    # The longest record of all parts sets the length, so that the parts have one shape.
    num_points = max(1, int(readings.times[records.has_series].max()))
    channels = len(files.SERIES) + (len(STATICS) if statics == "series" else 0)
    points = np.zeros((len(index), num_points, 1), np.float32)
    values = np.zeros((len(index), num_points, channels), np.float32)
    variance = np.full(values.shape, np.inf, np.float32)
    points[time_example, time_place, 0] = readings.time_minute[here] / files.LAST_MINUTE
    # The place of each reading in the flat arrays: the start of its time, plus its series.
    start = np.full(len(here), -1)
    start[here] = (time_example * num_points + time_place) * channels
    start = start[readings.slot]
    chosen = start >= 0
    target = start[chosen] + records.series[chosen]
    values.reshape(-1)[target] = value[chosen]
    variance.reshape(-1)[target] = 0

    known = static_values[index]
    known_variance = np.where(np.isnan(known), np.inf, 0).astype(np.float32)
    known = np.nan_to_num(known).astype(np.float32)
    if statics == "series":
        values[time_example, time_place, len(files.SERIES) :] = known[time_example]
        variance[time_example, time_place, len(files.SERIES) :] = known_variance[time_example]
    return Stays(
        x={"points": points, "values": values, "variance": variance},
        y=labels[index],
        record_ids=records.ids[index],
        statics=known,
        statics_variance=known_variance,
    )


def _load(paths, cache, total, progress):
    """The cleaned records of the three sets, from the cache if it holds them."""
    key = {"format": _FORMAT, "sets": [files.fingerprint(path) for path in paths]}
    name = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12]
    path = cache / f"physionet2012-format-{_FORMAT}-{name}.npz"
    if path.exists():
        return _read_cache(path, key)
    verbose: Verbose = "auto" if progress else 0
    with Progress("PhysioNet 2012", total, "records", verbose) as shown:
        records = files.read_records(paths, shown)
    records = clean(records)
    write_cache(path, key, {**records._asdict(), "rules": json.dumps(records.rules)})
    return records


def _read_cache(path, key):
    advice = "Delete it, and it will be built anew."
    arrays = read_cache(path, key, Cleaned._fields)
    rules = json.loads(str(arrays.pop("rules")))
    num_records, num_readings = len(arrays["ids"]), int(arrays["counts"].sum())
    for name, array in arrays.items():
        length = num_readings if name in ("minute", "series", "value") else num_records
        if len(array) != length:
            raise ValueError(
                f"The cache {path} holds {len(array)} entries of {name}, expected {length}. "
                f"{advice}"
            )
    return Cleaned(**arrays, rules=rules)
