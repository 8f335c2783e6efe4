import dataclasses
import json

import keras
import numpy as np
import pytest
import scipy.stats
from physionet_records import random_records, write

from benchmarks.physionet_baselines import run as physionet_baselines
from benchmarks.physionet_configurations import run as physionet_configurations
from benchmarks.physionet_parts import binned, first
from benchmarks.tables import append_rows, read_rows
from tfpn import datasets, recipes

pytestmark = pytest.mark.usefixtures("all_eagerly")  # few steps do not pay for tracing


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Random records in the form of the original files; every other one is a death."""
    folder = tmp_path_factory.mktemp("records")
    records, tables = random_records(np.random.default_rng(0), 150)
    numbers = list(tables)
    parts = {"train": numbers[:100], "val": numbers[100:125], "test": numbers[125:]}
    return write(folder, records, {number: number % 2 for number in numbers}, parts)


@pytest.fixture(scope="module")
def part(folder):
    data = datasets.physionet2012(
        folder, statics="apart", cache_dir=folder / "cache", progress=False
    )
    return data.train


@pytest.fixture(autouse=True)
def cache(folder, monkeypatch):
    monkeypatch.setenv("TFPN_CACHE", str(folder / "cache"))


def readings(part, record, channel):
    """Times and values of one channel of one record."""
    seen = np.isfinite(part.x["variance"][record, :, channel])
    times, values = part.x["points"][record, :, 0], part.x["values"][record, :, channel]
    return times[seen].astype(np.float64), values[seen].astype(np.float64)


def test_first(part):
    found = first(part, 3)
    assert len(found) == 3 and type(found) is type(part)
    for name in ("y", "record_ids", "statics", "statics_variance"):
        np.testing.assert_array_equal(getattr(found, name), getattr(part, name)[:3])
    for key, array in part.x.items():
        np.testing.assert_array_equal(found.x[key], array[:3])


def test_bins_against_a_loop(part):
    found = binned(part, 96)
    assert found.x["values"].shape == (len(part), 96, 37)
    np.testing.assert_allclose(found.x["points"][0, [0, 95], 0], [0.25 / 48, 47.75 / 48])
    for record in range(len(part)):
        for channel in range(37):
            times, values = readings(part, record, channel)
            bins = np.floor(times * 96)
            seen = np.isfinite(found.x["variance"][record, :, channel])
            assert set(np.flatnonzero(seen)) == set(bins)
            for number in np.unique(bins):
                got = found.x["values"][record, int(number), channel]
                assert got == pytest.approx(values[bins == number].mean(), abs=1e-5)
    # The end of the stay belongs to the last bin.
    x = {key: array[:1] for key, array in part.x.items()}
    x.update(points=np.ones_like(x["points"]), variance=np.zeros_like(x["variance"]))
    end = dataclasses.replace(first(part, 1), x=x)
    assert np.isfinite(binned(end, 4).x["variance"]).any(-1).tolist() == [[False] * 3 + [True]]


def test_summaries_against_a_loop(part):
    table = physionet_baselines.summaries(part)
    assert table.shape == (len(part), 9 * 37 + part.statics.shape[1])
    by_kind = table[:, : 9 * 37].reshape(len(part), 9, 37)
    for record in range(len(part)):
        for channel in range(37):
            times, values = readings(part, record, channel)
            found = by_kind[record, :, channel]
            assert found[0] == pytest.approx(np.log1p(len(values)))
            if not len(values):
                assert np.isnan(found[1:]).all()
                continue
            slope = scipy.stats.linregress(times, values).slope if len(values) > 1 else 0.0
            expected = [
                *(values.mean(), values.std(), values.min(), values.max()),
                *(values[0], values[-1], times[-1], slope),
            ]
            np.testing.assert_allclose(found[1:], expected, rtol=1e-5, atol=1e-5)


def test_sequences_against_a_loop(part):
    values, last, seen, gaps = np.split(physionet_baselines.sequences(part)["values"], 4, axis=-1)
    for record in range(len(part)):
        rows = np.isfinite(part.x["variance"][record]).any(-1)
        times = part.x["points"][record, :, 0]
        for channel in range(37):
            read, latest = 0.0, 0.0  # admission, and the mean of what is normalised
            for row in np.flatnonzero(rows):
                assert gaps[record, row, channel] == pytest.approx(times[row] - read, abs=1e-6)
                assert last[record, row, channel] == latest
                if np.isfinite(part.x["variance"][record, row, channel]):
                    assert seen[record, row, channel] == 1
                    read, latest = times[row], part.x["values"][record, row, channel]
                    assert values[record, row, channel] == latest
                else:
                    assert seen[record, row, channel] == 0
        assert not gaps[record][~rows].any()


def random_sequences(rng, seen, gaps):
    values, last = rng.normal(size=(2, *seen.shape))
    x = {
        "points": np.cumsum(np.ones((*seen.shape[:2], 1)), axis=1),
        "values": np.concatenate([values, last, seen, gaps], -1),
        "variance": np.where(seen.any(-1, keepdims=True), 0.0, np.inf) + 0 * seen,
        "statics": rng.normal(size=(len(seen), 2)),
    }
    return {key: array.astype(np.float32) for key, array in x.items()}


def test_without_gaps_the_network_is_keras_gru():
    network = physionet_baselines.recurrent_network(3, 2, units=4, dropout=0.3)
    x = random_sequences(np.random.default_rng(0), np.ones((5, 6, 3)), np.zeros((5, 6, 3)))
    cell = next(layer for layer in network.layers if isinstance(layer, keras.layers.RNN)).cell
    gru, dense = keras.layers.GRU(4), network.layers[-1]
    values = np.concatenate([x["values"][..., :3], np.ones((5, 6, 3), np.float32)], -1)
    gru.build(values.shape)
    gru.set_weights(cell.cell.get_weights())
    expected = dense(np.concatenate([gru(values), x["statics"]], -1))
    np.testing.assert_allclose(network(x), expected, atol=1e-6)


def test_decay_against_a_loop():
    rng = np.random.default_rng(1)
    seen = (rng.uniform(size=(4, 7, 3)) < 0.5).astype(float)
    seen[:, -2:] = 0.0  # padding
    x = random_sequences(rng, seen, rng.uniform(0, 2, size=seen.shape))
    network = physionet_baselines.recurrent_network(3, 2, units=4, dropout=0.3)
    cell = next(layer for layer in network.layers if isinstance(layer, keras.layers.RNN)).cell
    rate = rng.normal(size=3)
    cell.input_rate.assign(rate)
    kernel, bias = cell.state_rate.get_weights()
    values, last, _, gaps = np.split(x["values"], 4, axis=-1)
    state = np.zeros((4, 4), np.float32)
    for step in range(7):
        some = seen[:, step].any(-1)
        decay = np.exp(-np.exp(rate) * gaps[:, step])
        now = np.where(seen[:, step], values[:, step], decay * last[:, step])
        decayed = state * np.exp(-np.maximum(gaps[:, step] @ kernel + bias, 0.0))
        inputs = np.concatenate([now, seen[:, step]], -1).astype(np.float32)
        new = cell.cell(inputs, [decayed.astype(np.float32)])[0]
        state = np.where(some[:, None], new, state)
    expected = network.layers[-1](np.concatenate([state, x["statics"]], -1))
    np.testing.assert_allclose(network(x), expected, atol=1e-5)


def test_baselines_write_a_row_each(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(physionet_baselines, "GRIDS", {"logistic": {"C": [1e-6, 0.1]}})
    output = tmp_path / "baselines.csv"
    arguments = ["--data-dir", str(folder), "--output", str(output), "--epochs", "1"]
    for models in (["logistic"], ["gru", "gru-binned"], ["logistic"]):
        physionet_baselines.main([*arguments, "--units", "2", "--models", *models])
    rows = read_rows(output)
    assert [row["model"] for row in rows] == ["gru", "gru-binned", "logistic"]
    assert json.loads(rows[1]["settings"]) == {"units": 2, "epochs": 1}
    for row in rows:
        assert 0 <= float(row["test_auroc"]) <= 1 and np.isfinite(float(row["test_nll"]))


@pytest.mark.parametrize("name", physionet_configurations.CONFIGURATIONS)
def test_configurations_are_recipes_with_what_they_change(name):
    options = type("Options", (), {"data_dir": "somewhere", "epochs": None})
    recipe_name, *changes = physionet_configurations.CONFIGURATIONS[name]
    found = recipes.resolve(physionet_configurations.recipe_of(name, options)).sections
    original = recipes.resolve(recipes.load(recipe_name)).sections
    different = {
        f"{section}.{key}"
        for section, values in found.items()
        for key, value in values.items()
        if original[section].get(key) != value
    }
    assert different == {"data.data_dir", *(change.split("=")[0] for change in changes)}


def test_configurations_train_what_the_file_lacks(folder, tmp_path, monkeypatch):
    small = ("model.channels=2", "model.num_blocks=1", "model.num_basis=2", "model.query=3")
    small += ("model.uncertainty=none", "model.marginal_likelihood_weight=0")  # less to trace
    known = {"known": ("a recipe that does not exist",), "small": ("physionet2012-tuned", *small)}
    monkeypatch.setattr(physionet_configurations, "CONFIGURATIONS", known)
    output, runs = tmp_path / "rows.csv", tmp_path / "runs"
    append_rows(
        output, physionet_configurations.COLUMNS, [{"configuration": "known", "seed": 0}]
    )  # fmt: skip
    arguments = ["--data-dir", str(folder), "--epochs", "1", "--runs", str(runs)]
    physionet_configurations.main([*arguments, "--output", str(output)])
    known_row, row = read_rows(output)
    assert known_row["configuration"] == "known"
    assert (row["configuration"], row["epochs"]) == ("small", "1")
    result = json.loads((runs / "small-0" / "result.json").read_text())
    assert float(row["test_auroc"]) == pytest.approx(result["test_auroc"], abs=1e-4)

    part = tmp_path / "part.csv"
    few = ["--records", "60", "20", "--only", "small", "--output", str(part)]
    physionet_configurations.main([*arguments, *few])
    (row,) = read_rows(part)
    assert (row["train_records"], row["validation_records"]) == ("60", "20")
    assert 0 <= float(row["validation_auroc"]) <= 1 and float(row["step_seconds"]) > 0
