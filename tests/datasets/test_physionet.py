import doctest
import os
import pickle
import re
import shutil

import numpy as np
import pytest
from physionet_records import RECORDS, random_records, write

from tfpn import progress
from tfpn.datasets import Dataset, Part, _physionet, _physionet_cleaning, physionet2012
from tfpn.datasets._physionet_files import SERIES

# The folder with the original sets, outcomes and the folder splits.
REAL = "TFPN_PHYSIONET2012"


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path)


def load(folder, **arguments):
    return physionet2012(folder, **{"cache_dir": folder / "cache", "progress": False, **arguments})


def readings(part, channels, scales, index):
    """What an example holds, back in the units of the challenge: {(minute, channel): value}."""
    found = {}
    for n, point in enumerate(part.x["points"][index, :, 0]):
        for c, name in enumerate(channels):
            value, variance = (part.x[key][index, n, c] for key in ("values", "variance"))
            if variance == np.inf:
                assert value == 0
                continue
            assert variance == 0
            mean, std = scales[name]
            found[round(float(point) * 2880), name] = pytest.approx(value * std + mean, abs=1e-4)
    return found


def test_what_each_record_holds(folder):
    data = load(folder, statics="apart")
    assert isinstance(data, Dataset) and isinstance(data.train, Part)
    assert data.channels == SERIES and len(SERIES) == 37
    assert [list(part.record_ids) for part in (data.train, data.validation, data.test)] == [
        [2001, 1001],
        [3001],
        [3002, 1002],
    ]
    assert [list(part.y) for part in (data.train, data.validation, data.test)] == [
        [0, 0],
        [1],
        [0, 1],
    ]
    # fmt: off
    expected = {
        1001: {(0, "Weight"): 80, (0, "HR"): 70, (10, "HR"): 85, (10, "pH"): 7.35,
               (120, "MechVent"): 1, (2880, "HR"): 60},
        1002: {(7, "HR"): 100, (7, "pH"): 7.2, (720, "Temp"): 37, (720, "Weight"): 70},
        2001: {(300, "Temp"): 36, (360, "FiO2"): 0.21},
        3001: {(0, "Weight"): 90, (1, "HR"): 75},
        3002: {},
    }
    # fmt: on
    for part in (data.train, data.validation, data.test):
        assert part.x["points"].shape == (len(part), 4, 1)
        assert {array.dtype for array in part.x.values()} == {np.dtype(np.float32)}
        assert part.y.dtype == part.record_ids.dtype == np.int64
        for index, number in enumerate(part.record_ids):
            assert readings(part, data.channels, data.scales, index) == expected[number]


def test_report(folder):
    data = load(folder)
    assert data.report == {
        "records": 6,
        "deaths": 2,
        "deaths by set": {"a": 1, "b": 0, "c": 1},
        "readings a record, before cleaning (mean, largest)": (4.17, 8),
        "times a record, before cleaning (mean, largest)": (2.83, 5),
        "records without any series": 1,
        "train records": 2,
        "validation records": 1,
        "test records": 2,
        "rows without a parameter's name": 2,
        "missing (-1)": {"Weight": 2, "HR": 1, "NIDiasABP": 1, "Height": 1, "Gender": 1},
        "pH without its decimal point": 1,
        "implausible": {"Weight": 2, "HR": 1, "Temp": 1, "WBC": 1, "Height": 1},
        "read more than once at one time, before cleaning": 2,
        "averaged over readings at one time": 1,
        "readings a record, after cleaning (mean, largest)": (2.8, 6),
        "times a record, after cleaning (mean, largest)": (2.0, 4),
        "records left without a reading by cleaning": 1,
    }
    assert "missing (-1): Weight 2, HR 1, NIDiasABP 1, Gender 1, Height 1;" in data.description


def test_training_statistics_only(folder):
    data = load(folder)
    # Training: records 1001 and 2001 (2002 holds no series). Averaged readings count once.
    heart_rates = [70, 85, 60]
    assert data.scales["HR"] == pytest.approx((np.mean(heart_rates), np.std(heart_rates)))
    assert data.scales["Age"] == pytest.approx((62, 8))
    assert data.scales["Weight"] == data.scales["AdmissionWeight"] == (80, 1)  # one reading
    assert data.scales["Height"] == data.scales["WBC"] == (0, 1)  # none
    assert data.scales["MechVent"] == data.scales["Female"] == (0, 1)  # indicators
    assert set(data.scales) == set(data.channels)


def test_statics_as_series(folder):
    apart, data = load(folder, statics="apart"), load(folder)
    assert data.channels == SERIES + data.static_channels
    for name in ("train", "validation", "test"):
        part, other = getattr(data, name), getattr(apart, name)
        np.testing.assert_array_equal(part.statics, other.statics)
        np.testing.assert_array_equal(part.x["points"], other.x["points"])
        is_point = (other.x["variance"] == 0).any(-1, keepdims=True)
        for key, statics in (("values", part.statics), ("variance", part.statics_variance)):
            np.testing.assert_array_equal(part.x[key][..., :37], other.x[key])
            unobserved = np.inf if key == "variance" else 0
            expected = np.where(is_point, statics[:, None], unobserved)
            np.testing.assert_array_equal(part.x[key][..., 37:], expected)
    statics = dict(zip(data.static_channels, data.train.statics.T, strict=True))
    missing = dict(zip(data.static_channels, data.train.statics_variance.T, strict=True))
    np.testing.assert_allclose(statics["Age"], [1, -1])
    np.testing.assert_array_equal(missing["Height"], [np.inf, np.inf])  # 462 cm and -1
    np.testing.assert_array_equal(missing["AdmissionWeight"], [np.inf, 0])
    np.testing.assert_array_equal(missing["Male"], [np.inf, 0])
    np.testing.assert_array_equal(statics["Female"], [0, 1])
    np.testing.assert_array_equal(statics["CardiacSurgeryRecovery"], [1, 0])
    np.testing.assert_array_equal(statics["SurgicalICU"], [0, 1])


def test_against_loops(tmp_path):
    records, tables = random_records(np.random.default_rng(0), 30)
    deaths = {number: number % 2 for number in tables}
    numbers = list(tables)
    parts = {"train": numbers[:20], "val": numbers[20:24], "test": numbers[24:]}
    write(tmp_path, records, deaths, parts)
    data = load(tmp_path, statics="apart")
    for part, name in ((data.train, "train"), (data.validation, "val"), (data.test, "test")):
        assert list(part.record_ids) == parts[name]
        for index, number in enumerate(parts[name]):
            expected = {key: float(np.mean(values)) for key, values in tables[number].items()}
            assert readings(part, data.channels, data.scales, index) == expected
            times = sorted({minute for minute, _ in expected})
            found = part.x["points"][index, : len(times), 0]
            np.testing.assert_allclose(found, np.array(times) / 2880, rtol=1e-6)
    pooled = [np.mean(v) for n in parts["train"] for k, v in tables[n].items() if k[1] == "HR"]
    assert data.scales["HR"] == pytest.approx((np.mean(pooled), np.std(pooled)), rel=1e-5)


def test_order_of_rows_does_not_matter(folder, tmp_path_factory):
    data = load(folder)
    other = tmp_path_factory.mktemp("shuffled")
    rng = np.random.default_rng(0)
    shuffled = {}
    for key, rows in RECORDS.items():
        rows = rows.replace("\n", "|").split("|")
        shuffled[key] = "|".join(rng.permutation(rows))
    again = load(write(other, shuffled))
    assert again.report == data.report
    for part in ("train", "validation", "test"):
        for key, array in getattr(data, part).x.items():
            np.testing.assert_allclose(getattr(again, part).x[key], array, rtol=1e-6)


def test_bounds():
    assert set(SERIES) <= set(_physionet_cleaning.PLAUSIBLE)
    assert all(low < high for low, high in _physionet_cleaning.PLAUSIBLE.values())


def test_cache_is_used_and_belongs_to_its_files(monkeypatch, folder):
    first = load(folder)
    assert len(list((folder / "cache").iterdir())) == 1
    calls = []
    for module, name in ((_physionet.files, "read_records"), (_physionet, "clean")):
        function = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, f=function: calls.append(1) or f(*a))
    # Neither are the records of a folder read only to see whether they have changed.
    monkeypatch.setattr(_physionet.files, "set_files", None)
    again = load(folder)
    assert not calls and again.report == first.report and again.scales == first.scales
    for part in ("train", "validation", "test"):
        for key, array in getattr(first, part).x.items():
            np.testing.assert_array_equal(getattr(again, part).x[key], array)
    monkeypatch.undo()
    path = folder / "set-c" / "3001.txt"
    path.write_text(path.read_text() + "02:00,HR,77\n")
    assert load(folder).validation.x["variance"][0, :, SERIES.index("HR")].tolist().count(0) == 2
    assert len(list((folder / "cache").iterdir())) == 2


class Intruder:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


@pytest.mark.parametrize(
    "damage, match",
    [
        (lambda path, arrays: path.write_bytes(b"nothing"), "cannot be read"),
        (lambda path, arrays: path.write_bytes(pickle.dumps(Intruder())), "cannot be read"),
        (
            lambda path, arrays: np.savez(path, **{**arrays, "ids": np.array([Intruder()])}),
            "cannot be read .*allow_pickle=False",
        ),
        (lambda path, arrays: np.savez(path, key=arrays["key"]), "cannot be read .*KeyError"),
        (lambda path, arrays: np.savez(path, **{**arrays, "key": "{}"}), r"was built for \{\}"),
        (
            lambda path, arrays: np.savez(path, **{**arrays, "value": arrays["value"][1:]}),
            "entries of value, expected 15",
        ),
    ],
)
def test_cache_errors(folder, damage, match):
    load(folder)
    (path,) = (folder / "cache").iterdir()
    with np.load(path) as file:
        arrays = dict(file)
    damage(path, arrays)
    with pytest.raises(ValueError, match=f"{match}.*Delete it"):
        load(folder)


def test_environment_variable_names_the_cache(monkeypatch, folder):
    monkeypatch.setenv("TFPN_CACHE", str(folder / "elsewhere"))
    load(folder, cache_dir=None)
    assert list((folder / "elsewhere").glob("physionet2012-*.npz"))


def test_progress(folder, capsys, monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0.0)
    load(folder, progress=True)
    assert "PhysioNet 2012: 6 records in 0:0" in capsys.readouterr().err
    shutil.rmtree(folder / "cache")
    load(folder)
    assert not capsys.readouterr().err


def test_split_dir(folder):
    shutil.move(folder / "splits", folder / "lists")
    with pytest.raises(
        FileNotFoundError, match=r"split_dir: .*splits does not hold train_listfile"
    ):
        load(folder)
    assert len(load(folder, split_dir=folder / "lists").train) == 2


def test_unknown_statics(folder):
    with pytest.raises(ValueError, match="statics: found 'head'; give 'series' or 'apart'"):
        load(folder, statics="head")


def test_docstring_examples(folder):
    results = doctest.testmod(_physionet, extraglobs={"folder": folder})
    assert results.attempted > 0 and results.failed == 0


@pytest.mark.skipif(REAL not in os.environ, reason=f"needs {REAL}, the folder of the real files")
def test_real_files(tmp_path):
    data = physionet2012(os.environ[REAL], cache_dir=os.environ.get("TFPN_CACHE") or tmp_path)
    report = data.report
    assert (report["records"], report["deaths"]) == (12000, 1707)
    assert report["deaths by set"] == {"a": 554, "b": 568, "c": 585}
    parts = (data.train, data.validation, data.test)
    assert [len(part) for part in parts] == [7671, 1917, 2400]
    assert len(np.unique(np.concatenate([part.record_ids for part in parts]))) == 11988
    assert report["readings a record, before cleaning (mean, largest)"] == (435.28, 1497)
    assert report["times a record, before cleaning (mean, largest)"] == (74.86, 215)
    assert report["read more than once at one time, before cleaning"] == 11702
    assert report["rows without a parameter's name"] == 2403
    assert report["missing (-1)"]["Height"] == 5726
    assert report["missing (-1)"]["Weight"] == 1001
    assert re.search(r"implausible: DiasABP \d+", data.description)
    x = data.train.x
    for channel, name in enumerate(data.channels):
        seen = x["values"][..., channel][x["variance"][..., channel] == 0].astype(np.float64)
        if channel < len(SERIES) and name != "MechVent":
            assert abs(seen.mean()) < 1e-5 and abs(seen.std() - 1) < 1e-5, name
