"""Cleans the rows of PhysioNet 2012 before they become observations."""

from typing import Any, NamedTuple

import numpy as np

from tfpn.datasets._physionet_files import DESCRIPTORS, LAST_MINUTE, MISSING, SERIES

# Values within these bounds (inclusive) are kept, in the units of the challenge. The bounds are
# wide: they exclude typing errors, detached sensors and flushed lines, but not patients who are
# very ill.
PLAUSIBLE = {
    "Age": (0, 120),  # years
    "Height": (100, 250),  # cm
    "Weight": (20, 350),  # kg
    "ALP": (1, 10_000),  # IU/L
    "ALT": (1, 50_000),  # IU/L
    "AST": (1, 50_000),  # IU/L
    "Albumin": (0.5, 8),  # g/dL
    "BUN": (1, 300),  # mg/dL
    "Bilirubin": (0.05, 100),  # mg/dL
    "Cholesterol": (10, 1000),  # mg/dL
    "Creatinine": (0.05, 40),  # mg/dL
    "DiasABP": (10, 220),  # mmHg
    "FiO2": (0.2, 1),  # fraction
    "GCS": (3, 15),  # score
    "Glucose": (5, 2500),  # mg/dL
    "HCO3": (2, 60),  # mmol/L
    "HCT": (5, 75),  # %
    "HR": (10, 300),  # beats a minute
    "K": (1, 15),  # mEq/L
    "Lactate": (0.1, 40),  # mmol/L
    "MAP": (10, 250),  # mmHg
    "MechVent": (0, 1),  # 1 during ventilation
    "Mg": (0.2, 20),  # mmol/L
    "NIDiasABP": (10, 220),  # mmHg
    "NIMAP": (10, 250),  # mmHg
    "NISysABP": (20, 300),  # mmHg
    "Na": (90, 190),  # mEq/L
    "PaCO2": (5, 200),  # mmHg
    "PaO2": (10, 700),  # mmHg
    "Platelets": (1, 2500),  # cells/nL
    "RespRate": (1, 100),  # breaths a minute
    "SaO2": (20, 100),  # %
    "SysABP": (20, 300),  # mmHg
    "Temp": (25, 45),  # degrees Celsius
    "TroponinI": (0, 100),  # ug/L
    "TroponinT": (0, 100),  # ug/L
    "Urine": (0, 5000),  # mL
    "WBC": (0.05, 600),  # cells/nL
    "pH": (6.5, 8),
}


class Cleaned(NamedTuple):
    """R cleaned records with P readings, at most one for each record, minute and series.

    ids: Numbers of the records [R] int64.
    sets: Index in `SETS` of each record's set [R] int64.
    descriptors: Age, gender, height and ICU type [R, 4] float64, NaN where missing.
    has_series: Whether a record has a row of a series other than the weight at 00:00 [R] bool.
    before: Number of readings and of distinct times of a record before cleaning [R, 2] int64.
    counts: Number of readings of each record [R] int64. The readings below are in this order.
    minute: Minutes since admission [P] int16, ascending within a record.
    series: Index in `SERIES` [P] int8.
    value: The reading [P] float64.
    rules: The report's count of what each rule found, a dict of integers and dicts of integers.
    """

    ids: np.ndarray
    sets: np.ndarray
    descriptors: np.ndarray
    has_series: np.ndarray
    before: np.ndarray
    counts: np.ndarray
    minute: np.ndarray
    series: np.ndarray
    value: np.ndarray
    rules: dict


def clean(records: Any) -> Any:
    """Applies the rules that `physionet2012` lists to `Records` and returns `Cleaned`."""
    num_records = len(records.ids)
    record = np.repeat(np.arange(num_records), records.counts)
    minute, series = records.minute.astype(np.int64), records.series.astype(np.int64)
    value, descriptors = records.value.astype(np.float64), records.descriptors.astype(np.float64)
    times = np.unique(record * (LAST_MINUTE + 1) + minute) // (LAST_MINUTE + 1)
    before = [records.counts, np.bincount(times, minlength=num_records)]
    other = (series != SERIES.index("Weight")) | (minute > 0)
    has_series = np.bincount(record[other], minlength=num_records) > 0
    rules = {"rows without a parameter's name": int(records.unnamed.sum())}

    missing = value == MISSING
    rules["missing (-1)"] = _by_name(
        _counts(series[missing]), (descriptors == MISSING).sum(axis=0).tolist()
    )
    descriptors[descriptors == MISSING] = np.nan

    without_point = (series == SERIES.index("pH")) & (value >= 650) & (value <= 800)
    value[without_point] /= 100
    rules["pH without its decimal point"] = int(without_point.sum())

    low, high = np.array([PLAUSIBLE[name] for name in SERIES], np.float32).T
    # The values were stored in float32: compared there, a bound of 0.2 includes the reading 0.2.
    stored = value.astype(np.float32)
    implausible = ((stored < low[series]) | (stored > high[series])) & ~missing
    outside = []
    for column, name in enumerate(DESCRIPTORS):
        low, high = PLAUSIBLE.get(name, (-np.inf, np.inf))
        strange = (descriptors[:, column] < low) | (descriptors[:, column] > high)
        descriptors[strange, column] = np.nan
        outside.append(int(strange.sum()))
    rules["implausible"] = _by_name(_counts(series[implausible]), outside)

    keep = ~(missing | implausible)
    # One number for each record, minute and series, which sorts in this order.
    key = (record * (LAST_MINUTE + 1) + minute) * len(SERIES) + series
    _, again = np.unique(key, return_counts=True)
    rules["read more than once at one time, before cleaning"] = int((again > 1).sum())
    key, inverse, again = np.unique(key[keep], return_inverse=True, return_counts=True)
    rules["averaged over readings at one time"] = int((again > 1).sum())
    mean = np.bincount(inverse, weights=value[keep]) / again
    rest, series = np.divmod(key, len(SERIES))
    record, minute = np.divmod(rest, LAST_MINUTE + 1)
    return Cleaned(
        ids=records.ids,
        sets=records.sets,
        descriptors=descriptors,
        has_series=has_series,
        before=np.stack(before, axis=-1),
        counts=np.bincount(record, minlength=num_records),
        minute=minute.astype(np.int16),
        series=series.astype(np.int8),
        value=mean,
        rules=rules,
    )


def _counts(series):
    return np.bincount(series, minlength=len(SERIES)).tolist()


def _by_name(series, descriptors):
    """A dict from parameter names to counts above 0, the largest first."""
    counts = dict(zip(SERIES + DESCRIPTORS, series + descriptors, strict=True))
    return {
        name: counts[name]
        for name in sorted(counts, key=counts.__getitem__, reverse=True)
        if counts[name]
    }
