import dataclasses
import hashlib
import json
import os
import pathlib

import numpy as np

from tfpn.datasets import _physionet_files as files
from tfpn.datasets._physionet_cleaning import clean, has_series, sizes
from tfpn.datasets._physionet_download import download
from tfpn.datasets.base import Dataset, Part, import_extra, read_cache

# Part of the cache's key: raise it when what is read or how it is stored changes.
_FORMAT = 1

STATICS = ("Age", "Height", "AdmissionWeight", "Female", "Male", *files.ICU_TYPES)
# Ones and zeros, which stay so.
_INDICATORS = ("MechVent", "Female", "Male", *files.ICU_TYPES)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Stays(Part):
    """A part of `physionet2012`: a `Part` with the numbers and the statics of its records.

    Args:
        x: Observations, as in `Part`.
        y: Labels, as in `Part`.
        record_ids: The records' numbers [B] int64.
        statics: Static variables [B, 9] float32, normalised, 0 where missing; their names are in
            `static_channels` of the data set.
        statics_variance: 0 where a static variable is known and ``+inf`` where it is missing
            [B, 9] float32.
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
        channels: The name of each channel of `.x`.
        static_channels: The name of each column of `.statics`.
        scales: By the name of a channel the (mean, standard deviation) that it was normalised by,
            in the units of the challenge: value = normalised * standard deviation + mean.
        report: Counts of what was found in the files and of what each cleaning rule did.
    """

    channels: tuple
    static_channels: tuple
    scales: dict
    report: dict


def physionet2012(data_dir=None, split_dir=None, cache_dir=None, statics="series", progress=True):
    """PhysioNet 2012: death in hospital from the first 48 hours in intensive care.

    The 12,000 records of the sets a, b and c of the PhysioNet / Computing in Cardiology Challenge
    2012, in the parts that the literature on irregular time series compares on: three lists of
    7,680, 1,920 and 2,400 records, less the 12 without any series, which leaves 7,671, 1,917 and
    2,400. A record has 37 series (laboratory values, vital signs, ventilation, urine, weight), each
    read at times of its own.

    The points are the distinct times at which a record has a reading, as a fraction of 48 hours
    (minutes / 2880, from 0 to 1), ascending. A channel that was not read at a time has the variance
    ``+inf`` there, one that was read is exact (variance 0). Values are normalised, each channel by
    the mean and standard deviation of its readings in the training part; MechVent (1 where
    ventilated, never read otherwise) and the one-hot statics stay 1 and 0.

    The nine statics are age, height, weight on admission, and gender (2) and the type of the
    intensive care unit (4) one-hot. As series they are constant, observed exactly at every time of
    the record, after the 37 channels. A static that is missing (5,726 of 12,000 heights) is not
    observed.

    The files are cleaned by these rules, in this order; `.report` counts what each one found:

    1. Rows without a parameter's name (all in set c) are left out.
    2. -1 means missing.
    3. A pH from 650 to 800 lacks its decimal point and is divided by 100.
    4. Values that no patient has are left out: those outside wide bounds for each parameter
       (`PLAUSIBLE` in the module `_physionet_cleaning`), such as a pH of 0, temperatures below
       25 degrees Celsius, blood pressures and heart rates of 0, weights under 20 kg or heights
       above 250 cm.
    5. Several readings of one parameter at one time are averaged.

    Reading the files takes a minute or less. What they hold is kept in a file in `cache_dir`, named
    by the version of the format and a digest of the three sets. From there all takes some seconds:
    outcomes and split lists are read, and the cleaning is done, each time. A file that cannot be
    used is an error and not built anew, as with `superpixel_mnist`.

    The split lists are those of the project medical_ts_datasets; they come without a licence and so
    not with this package.

    Args:
        data_dir: The folder that holds, for each of the sets, the folder set-a or the archive
            set-a.tar.gz (the folder is read where both are there), and Outcomes-a.txt, and so on
            for b and c. None to download them from physionet.org (20 MB, licence ODC-BY 1.0) into
            the folder physionet2012 in `cache_dir`; outcomes and records must then have the
            SHA-256 of those that this function was tested with. The download itself has been
            tested without a network only.
        split_dir: The folder that holds train_listfile.csv, val_listfile.csv and test_listfile.csv,
            each with the columns RecordID and In-hospital_death; None for the folder splits in
            `data_dir`, or in physionet2012 in `cache_dir` where `data_dir` is None.
        cache_dir: The folder to keep what was read in; None for the environment variable TFPN_CACHE
            or, where it is not set, ~/.cache/tfpn.
        statics: "series" for statics as constant channels of `.x`, or "apart" for statics in
            `.statics` of each part only, to be given to a model's head.
        progress: Whether to show a progress bar while downloading and reading.

    Returns:
        A `Dataset` whose parts list their records in the order of the split lists. In each part
        `.x` has d = 1, c = 46 (37 where statics are apart) and the N of the longest record of all
        parts (215), in float32, and `.y` is 1 for a death in hospital and 0
        otherwise (int64). Besides, each part has `.record_ids` [B], `.statics` [B, 9] (normalised,
        0 where missing) and `.statics_variance` [B, 9] (0, or ``+inf`` where missing), and the data
        set has `.channels`, `.static_channels`, `.scales` and `.report`. All parts together take
        1 GB.

    Raises:
        FileNotFoundError: if a set, an outcomes file or a split list is not there.
        ImportError: if tqdm is not installed.
        RuntimeError: if a file could not be downloaded, or is not the one that was expected.
        ValueError: if `statics` is unknown; if a line of a file is malformed (with the file and the
            number of the line); if an archive is damaged or holds anything but records; if
            records, outcomes and split lists do not agree; or if the cache cannot be used.

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
    tqdm = import_extra("tqdm", "tqdm").tqdm
    cache = pathlib.Path(
        cache_dir or os.environ.get("TFPN_CACHE") or pathlib.Path.home() / ".cache" / "tfpn"
    )
    folder = cache / "physionet2012" if data_dir is None else pathlib.Path(data_dir)
    splits = files.read_splits(folder / "splits" if split_dir is None else pathlib.Path(split_dir))
    if data_dir is None:
        download(folder, tqdm, progress)

    paths = [files.find_set(folder, letter) for letter in files.SETS]
    outcome_paths = [folder / f"Outcomes-{letter}.txt" for letter in files.SETS]
    outcomes = [files.read_outcomes(path) for path in outcome_paths]
    records = _load(paths, cache, tqdm, sum(map(len, outcomes)), progress)
    labels = files.check_outcomes(records, outcomes, outcome_paths)
    parts = files.split_indices(records, labels, splits)
    return _assemble(records, labels, parts, statics)


def _assemble(records, labels, parts, statics):
    """The data set of records, their labels [R] and the indices of each part."""
    report = _describe(records, labels)
    kept = has_series(records)
    report["records without any series"] = int((~kept).sum())
    parts = {name: index[kept[index]] for name, index in parts.items()}
    for name, index in parts.items():
        report[f"{name} records"] = len(index)
        if not len(index):
            raise ValueError(f"The {name} list has no record with a series; get the whole list.")
    cleaned, counts = clean(records)
    report.update(counts)
    count, times = sizes(cleaned.record, cleaned.minute, len(labels))
    count, times = count[kept], times[kept]
    report["readings a record, after cleaning (mean, largest)"] = _mean_and_max(count)
    report["times a record, after cleaning (mean, largest)"] = _mean_and_max(times)
    report["records left without a reading by cleaning"] = int((count == 0).sum())

    static_values = _statics(cleaned)
    train = np.zeros(len(labels), bool)
    train[parts["train"]] = True
    in_train = train[cleaned.record]
    scales = {
        name: _scale(name, cleaned.value[in_train & (cleaned.series == channel)])
        for channel, name in enumerate(files.SERIES)
    }
    for column, name in enumerate(STATICS):
        values = static_values[train, column]
        scales[name] = _scale(name, values[~np.isnan(values)])

    mean, std = np.array([scales[name] for name in files.SERIES]).T
    cleaned = cleaned._replace(value=(cleaned.value - mean[cleaned.series]) / std[cleaned.series])
    mean, std = np.array([scales[name] for name in STATICS]).T
    static_values = (static_values - mean) / std

    num_points = max(1, int(times.max()))
    arguments = (records, labels, cleaned, static_values, num_points, statics)
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


def _describe(records, labels):
    """The report on the records as they are, before cleaning."""
    record = np.repeat(np.arange(len(labels)), records.counts)
    count, times = sizes(record, records.minute.astype(np.int64), len(labels))
    return {
        "records": len(labels),
        "deaths": int(labels.sum()),
        "deaths by set": {
            letter: int(labels[records.sets == index].sum())
            for index, letter in enumerate(files.SETS)
        },
        "readings a record, before cleaning (mean, largest)": _mean_and_max(count),
        "times a record, before cleaning (mean, largest)": _mean_and_max(times),
    }


def _mean_and_max(counts):
    return round(float(counts.mean()), 2), int(counts.max())


def _text(found):
    if isinstance(found, dict):
        return ", ".join(f"{name} {count}" for name, count in found.items()) or "0"
    return " and ".join(map(str, found)) if isinstance(found, tuple) else str(found)


def _statics(cleaned):
    """The static variables [R, 9] float64, NaN where missing."""
    age, gender, height, icu_type = cleaned.descriptors.T
    weight = np.full(len(age), np.nan)
    first = (cleaned.series == files.SERIES.index("Weight")) & (cleaned.minute == 0)
    weight[cleaned.record[first]] = cleaned.value[first]
    one_hot = [
        np.where(np.isnan(kind), np.nan, kind == value)
        for kind, values in ((gender, (0, 1)), (icu_type, (1, 2, 3, 4)))
        for value in values
    ]
    return np.stack([age, height, weight, *one_hot], axis=-1)


def _scale(name, values):
    """Mean and standard deviation of a channel's readings in the training part."""
    if name in _INDICATORS or not len(values):
        return 0.0, 1.0
    # A channel that never changes has nothing to be divided by.
    return float(values.mean()), float(values.std()) or 1.0


def _part(index, records, labels, cleaned, static_values, num_points, statics):
    row = np.full(len(labels), -1)
    row[index] = np.arange(len(index))
    here = row[cleaned.record] >= 0
    example, minute = row[cleaned.record[here]], cleaned.minute[here]

    # Each distinct time of a record has a slot, counted from the record's first one.
    length = files.LAST_MINUTE + 1
    times, slot = np.unique(example * length + minute, return_inverse=True)
    time_example, time_minute = np.divmod(times, length)
    place = np.arange(len(times)) - np.searchsorted(time_example, time_example)

    channels = len(files.SERIES) + (len(STATICS) if statics == "series" else 0)
    points = np.zeros((len(index), num_points, 1), np.float32)
    values = np.zeros((len(index), num_points, channels), np.float32)
    variance = np.full(values.shape, np.inf, np.float32)
    points[time_example, place, 0] = time_minute / files.LAST_MINUTE
    series = cleaned.series[here]
    values[example, place[slot], series] = cleaned.value[here]
    variance[example, place[slot], series] = 0

    known = static_values[index]
    known_variance = np.where(np.isnan(known), np.inf, 0).astype(np.float32)
    known = np.nan_to_num(known).astype(np.float32)
    if statics == "series":
        values[time_example, place, len(files.SERIES) :] = known[time_example]
        variance[time_example, place, len(files.SERIES) :] = known_variance[time_example]
    return Stays(
        x={"points": points, "values": values, "variance": variance},
        y=labels[index],
        record_ids=records.ids[index],
        statics=known,
        statics_variance=known_variance,
    )


def _load(paths, cache, tqdm, total, progress):
    """The records of the three sets, from the cache if it has them."""
    key = {"format": _FORMAT, "sets": [_digest(path) for path in paths]}
    name = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12]
    path = cache / f"physionet2012-format-{_FORMAT}-{name}.npz"
    if path.exists():
        return _read_cache(path, key)
    with tqdm(total=total, desc="PhysioNet 2012", unit="record", disable=not progress) as bar:
        records = files.read_records(paths, bar)
    _write_cache(path, key, records)
    return records


def _digest(path):
    return files.digest_of_records(path) if path.is_dir() else files.digest_of_file(path)


def _write_cache(path, key, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    # Under another name first, so that an interrupted run leaves no half a file behind.
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            np.savez_compressed(file, key=json.dumps(key), **records._asdict())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _read_cache(path, key):
    advice = "Delete it, and it will be built anew."
    records = files.Records(**read_cache(path, key, files.Records._fields))
    num_records, num_rows = len(records.ids), int(records.counts.sum())
    for name, array in records._asdict().items():
        length = num_rows if name in ("minute", "series", "value") else num_records
        if len(array) != length:
            raise ValueError(
                f"The cache {path} holds {len(array)} entries of {name}, expected {length}. "
                f"{advice}"
            )
    return records
