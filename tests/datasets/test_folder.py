"""Data sets in files that are read as they are needed."""

import numpy as np
import pytest

import tfpn
from tfpn import datasets, evaluation, recipes, training
from tfpn.training.batches import ShuffledBatches, some_of

SIZES = {"train": 24, "validation": 9, "test": 10}


def arrays(examples, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=examples)
    points = rng.uniform(size=(examples, 12, 2)).astype("float32")
    values = (np.where(labels, 1.0, -1.0)[:, None] * points[..., 0]).astype("float32")
    x = tfpn.observations(points, values, 0.01)
    x["variance"][::3, 4:] = np.inf
    return {**x, "labels": labels}


def write(folder):
    for seed, (name, examples) in enumerate(SIZES.items()):
        (folder / name).mkdir(parents=True)
        for key, array in arrays(examples, seed).items():
            np.save(folder / name / f"{key}.npy", array)


def small(folder):
    return recipes.Recipe(
        "own",
        {
            "data": {"name": "folder", "data_dir": str(folder)},
            "model": {
                "name": "PNCNN", "num_classes": 2, "channels": 2, "num_blocks": 1, "num_basis": 2,
                "uncertainty": "none",
            },
            "training": {"epochs": 1, "batch_size": 8},
            "augmentation": {"rotation": 0.1, "thin": [0.5, 1.0]},
        },
        "a test",
    )  # fmt: skip


def test_parts_are_mapped_and_not_read(tmp_path):
    write(tmp_path)
    data = datasets.folder(tmp_path)
    assert {name: len(getattr(data, name)) for name in SIZES} == SIZES
    for part in (data.train, data.validation, data.test):
        assert all(isinstance(array, np.memmap) for array in part.x.values())
    (tmp_path / "validation" / "labels.npy").unlink()
    with pytest.raises(FileNotFoundError, match="labels.npy does not exist"):
        datasets.folder(tmp_path)


def test_batches_are_those_of_the_same_arrays_in_memory(tmp_path):
    write(tmp_path)
    disk, memory = datasets.folder(tmp_path).train, arrays(SIZES["train"], 0)
    labels = memory.pop("labels")
    options = {"seed": 0, "rotation": 0.1, "thin": (0.5, 1.0), "noise": 1.0}
    found, expected = (
        ShuffledBatches(x, y, 10, **options) for x, y in ((disk.x, disk.y), (memory, labels))
    )
    for epoch in (0, 3):
        for batches in (found, expected):
            batches.set_epoch(epoch)
        for index in range(3):
            (x, y), (same, of) = found[index], expected[index]
            np.testing.assert_array_equal(y, of)
            for key in same:
                assert not isinstance(x[key], np.memmap)
                np.testing.assert_array_equal(x[key], same[key])


def test_a_run_reads_them(tmp_path, eagerly):
    write(tmp_path / "data")
    found = training.train(small(tmp_path / "data"), tmp_path / "run", verbose=0)
    model, _ = training.load_run(tmp_path / "run")
    for seed, name in ((1, "validation"), (2, "test")):
        x = arrays(SIZES[name], seed)
        labels = x.pop("labels")
        expected = evaluation.classification_metrics(model.predict_proba(x), labels)
        assert found[f"{name}_accuracy"] == expected["accuracy"]
        if name == "test":
            assert found["test_nll"] == pytest.approx(expected["nll"], rel=1e-5)


def test_only_the_rows_of_a_batch_are_read(tmp_path):
    """The rest of the file is not a number, which would be refused."""
    write(tmp_path)
    part = datasets.folder(tmp_path).train
    first = int(ShuffledBatches(part.x, part.y, 1, seed=0)._batches[0][0])
    broken = np.load(tmp_path / "train" / "values.npy")
    rest = [row for row in range(24) if row != first]
    broken[rest] = np.nan
    np.save(tmp_path / "train" / "values.npy", broken)
    part = datasets.folder(tmp_path).train
    batches = ShuffledBatches(part.x, part.y, 1, seed=0)
    assert np.isfinite(batches[0][0]["values"]).all()
    with pytest.raises(ValueError, match=r"of the examples \[\d+\]: values: example 0, point"):
        batches[1]


def test_the_start_takes_some_examples(tmp_path, monkeypatch):
    write(tmp_path)
    part = datasets.folder(tmp_path).train
    assert len(some_of(part.x)["values"]) == 24
    monkeypatch.setattr("tfpn.training.batches._START", 36)
    some = some_of(part.x)
    np.testing.assert_array_equal(some["points"], part.x["points"][[0, 11, 23]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: {"values": a["values"].astype(int)}, "found the dtype int64; give float32"),
        (lambda a: {"labels": a["labels"] + 0.5}, "found the dtype float64; give integers"),
        (lambda a: {"values": a["values"].astype("float16")}, "found the dtype float16; give"),
        (lambda a: {"values": a["values"].astype(">f4")}, "found the dtype >f4; give float32"),
        (
            lambda a: {"points": np.concatenate([a["points"]] * 2, axis=-1)},
            r"the last axis of points\.npy differs between parts",
        ),
        (lambda a: {"points": a["points"][:, :5]}, "the same B, N and c"),
        (lambda a: {"labels": a["labels"][:5]}, "give one label for each of the 24 examples"),
    ],
)
def test_bad_files_are_named(tmp_path, change, message):
    write(tmp_path)
    for key, array in change(arrays(24, 0)).items():
        np.save(tmp_path / "train" / f"{key}.npy", array)
    with pytest.raises((ValueError, TypeError), match=message):
        datasets.folder(tmp_path)


def test_a_file_of_another_format_is_named(tmp_path):
    write(tmp_path)
    for content in ("not an array", ""):
        (tmp_path / "test" / "values.npy").write_text(content)
        with pytest.raises(ValueError, match=r"values\.npy cannot be read"):
            datasets.folder(tmp_path)
