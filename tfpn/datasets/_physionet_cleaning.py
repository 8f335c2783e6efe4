"""What is done to the rows of PhysioNet 2012 before they become observations."""

from typing import NamedTuple

import numpy as np

from tfpn.datasets._physionet_files import DESCRIPTORS, LAST_MINUTE, MISSING, SERIES

# The values that are kept, bounds included, in the units of the challenge. The bounds are wide:
# they are there for slips of entry, detached sensors and lines being flushed, and not for
# patients who are very ill.
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
    "MechVent": (0, 1),  # 1 where ventilated
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
    """Readings that are left, P of them, at most one a record, minute and series.

    record: The index of the record [P], ascending.
    minute: Minutes since admission [P], ascending within a record.
    series: The index in `SERIES` [P].
    value: The reading [P] float64.
    descriptors: Age, gender, height and ICU type of every record [R, 4] float64, NaN where missing.
    """

    record: np.ndarray
    minute: np.ndarray
    series: np.ndarray
    value: np.ndarray
    descriptors: np.ndarray


def has_series(records):
    """Whether a record [R] has a row of a series other than the weight at 00:00."""
    record = np.repeat(np.arange(len(records.ids)), records.counts)
    other = (records.series != SERIES.index("Weight")) | (records.minute > 0)
    return np.bincount(record[other], minlength=len(records.ids)) > 0


def clean(records):
    """Applies the rules that `physionet2012` lists.

    Returns:
        `Cleaned`, and the report's counts in a dict.
    """
    record = np.repeat(np.arange(len(records.ids)), records.counts)
    minute, series = records.minute.astype(np.int64), records.series.astype(np.int64)
    value, descriptors = records.value.astype(np.float64), records.descriptors.astype(np.float64)
    report = {"rows without a parameter's name": int(records.unnamed.sum())}

    missing = value == MISSING
    report["missing (-1)"] = _by_name(
        _counts(series[missing]), (descriptors == MISSING).sum(axis=0).tolist()
    )
    descriptors[descriptors == MISSING] = np.nan

    without_point = (series == SERIES.index("pH")) & (value >= 650) & (value <= 800)
    value[without_point] /= 100
    report["pH without its decimal point"] = int(without_point.sum())

    low, high = np.array([PLAUSIBLE[name] for name in SERIES], np.float32).T
    # In float32, as the values were stored: a bound of 0.2 includes the reading 0.2.
    stored = value.astype(np.float32)
    implausible = ((stored < low[series]) | (stored > high[series])) & ~missing
    outside = []
    for column, name in enumerate(DESCRIPTORS):
        low, high = PLAUSIBLE.get(name, (-np.inf, np.inf))
        strange = (descriptors[:, column] < low) | (descriptors[:, column] > high)
        descriptors[strange, column] = np.nan
        outside.append(int(strange.sum()))
    report["implausible"] = _by_name(_counts(series[implausible]), outside)

    keep = ~(missing | implausible)
    # A number for each record, minute and series, which sorts in this order.
    key = (record * (LAST_MINUTE + 1) + minute) * len(SERIES) + series
    _, again = np.unique(key, return_counts=True)
    report["read more than once at one time, before cleaning"] = int((again > 1).sum())
    key, inverse, again = np.unique(key[keep], return_inverse=True, return_counts=True)
    report["averaged over readings at one time"] = int((again > 1).sum())
    mean = np.bincount(inverse, weights=value[keep]) / again
    rest, series = np.divmod(key, len(SERIES))
    record, minute = np.divmod(rest, LAST_MINUTE + 1)
    return Cleaned(record, minute, series, mean, descriptors), report


def sizes(record, minute, num_records):
    """How many readings and how many distinct times each record has, [R] and [R]."""
    times = np.unique(record * (LAST_MINUTE + 1) + minute) // (LAST_MINUTE + 1)
    return np.bincount(record, minlength=num_records), np.bincount(times, minlength=num_records)


def _counts(series):
    return np.bincount(series, minlength=len(SERIES)).tolist()


def _by_name(series, descriptors):
    """Counts above 0 by the names of parameters, the largest first."""
    counts = dict(zip(SERIES + DESCRIPTORS, series + descriptors, strict=True))
    return {
        name: counts[name] for name in sorted(counts, key=counts.get, reverse=True) if counts[name]
    }
