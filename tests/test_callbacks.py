"""TrainingMonitor: its events and files hold the model's own numbers, and it disturbs nothing."""

import csv
import importlib.util
import pathlib
import runpy

import keras
import matplotlib.image
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import tfpn
from tfpn.callbacks import (
    LayerLikelihoods,
    TrainingMonitor,
    layer_likelihoods,
    learned_parameters,
)

LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
WEIGHT = 0.1  # of the marginal likelihood


def make(examples=7, points=6, dim=2, channels=1, seed=0):
    rng = np.random.default_rng(seed)
    shape = (examples, points, channels)
    values = rng.normal(size=shape)
    values[1::3, points // 2 :] = np.nan  # examples of unequal length
    x = tfpn.observations(rng.uniform(size=(examples, points, dim)), values, variance=0.04)
    return {key: array.astype("float32") for key, array in x.items()}


def read_table(path):
    """{epoch: {name: value}}."""
    table = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            table.setdefault(int(row["epoch"]), {})[row["name"]] = float(row["value"])
    return table


def read_events(folder):
    """{tag: [(step, array), ...]}."""
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    return {
        tag: [(event.step, tf.make_ndarray(event.tensor_proto)) for event in events.Tensors(tag)]
        for tag in events.Tags()["tensors"]
    }


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """A classifier after two epochs of uneven batches, its data and all that was written."""
    keras.utils.set_random_seed(0)
    folder = tmp_path_factory.mktemp("watched")
    x, y = make(), np.arange(7) % 2
    held_out = make(examples=5, seed=1), np.array([0, 1, 1, 0, 1])
    model = tfpn.models.PNCNN(
        2, channels=3, num_blocks=1, num_basis=2, marginal_likelihood_weight=WEIGHT
    )
    model.adapt(x)
    model.compile(keras.optimizers.SGD(0.1), LOSS, jit_compile=False)
    start, snapshots = model.get_weights(), []
    keep = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: snapshots.append(
            {weight.path: weight.numpy() for weight in model.weights}
        )
    )
    monitor = TrainingMonitor(
        *held_out, log_dir=folder / "events", folder=folder, examples=2, resolution=5, bins=4
    )
    history = model.fit(
        x, y, batch_size=4, epochs=2, shuffle=False, validation_data=held_out,
        validation_batch_size=3, callbacks=[LayerLikelihoods(), keep, monitor], verbose=0,
    ).history  # fmt: skip
    # What it found last is of the validation.
    parts = layer_likelihoods(model)
    # The same again, without the monitor and without tracing anew.
    end = model.get_weights()
    model.set_weights(start)
    plain = model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0).history
    alone = model.get_weights()
    model.set_weights(end)
    return {
        "model": model, "held_out": held_out, "folder": folder, "history": history,
        "plain": plain, "parts": parts,
        "snapshots": snapshots, "end": end, "alone": alone,
        "table": read_table(folder / "monitor.csv"), "events": read_events(folder / "events"),
    }  # fmt: skip


def test_learned_numbers_are_the_weights_after_each_epoch(watched):
    for epoch, snapshot in enumerate(watched["snapshots"]):
        row = watched["table"][epoch]
        for layer in ("conv_1", "pooling"):
            for name in ("length_scale", "signal_std", "observation_noise"):
                expected = np.exp(snapshot[f"{layer}/log_{name}"])
                # float32, written in full
                assert row[f"{layer}/{name}"] == pytest.approx(expected, rel=1e-6)
                step, shown = watched["events"][f"{layer}/{name}"][epoch]
                assert step == epoch and shown == pytest.approx(expected, rel=1e-6)
        unit = np.exp(snapshot["conv_1/log_flow_unit"])
        drift, factor = (unit * snapshot[f"conv_1/{n}"] for n in ("drift", "diffusion_factor"))
        diffusion = [f @ f.T for f in factor]
        for (k, i), expected in np.ndenumerate(drift):
            assert row[f"conv_1/drift[{k},{i}]"] == pytest.approx(expected, rel=1e-6)
        for k, i, j in np.ndindex(2, 2, 2):
            assert row[f"conv_1/diffusion[{k},{i},{j}]"] == pytest.approx(
                diffusion[k][i, j], rel=1e-5, abs=1e-9
            )
        for name, expected in (("drift", drift), ("diffusion", diffusion)):
            bins = watched["events"][f"conv_1/{name}"][epoch][1]  # left, right, count
            assert bins[:, 2].sum() == np.size(expected)
            assert bins[0, 0] == pytest.approx(np.min(expected), rel=1e-5)
            assert bins[-1, 1] == pytest.approx(np.max(expected), rel=1e-5)
    first, last = (watched["table"][epoch]["conv_1/length_scale"] for epoch in (0, 1))
    assert abs(first - last) > 1e-4  # they did train


def test_logs_name_the_parts_of_the_loss(watched):
    history = watched["history"]
    for key, values in history.items():
        for epoch, value in enumerate(values):
            assert watched["table"][epoch][f"training/{key}"] == pytest.approx(value, rel=1e-6)
            shown = watched["events"][f"training/{key}"][epoch][1]
            assert shown == pytest.approx(value, rel=1e-6)
    for prefix in ("", "val_"):  # batches of 4 and 3, and of 3 and 2
        parts = [np.array(history[f"{prefix}{name}_nll"]) for name in ("conv_1", "pooling")]
        total = np.array(history[f"{prefix}task_loss"]) + WEIGHT * sum(parts)
        # float32; the task's part is a difference
        np.testing.assert_allclose(history[f"{prefix}loss"], total, rtol=1e-5)
        np.testing.assert_allclose(history[f"{prefix}marginal_nll"], sum(parts), rtol=1e-5)
    assert watched["plain"].keys() == {"loss", "task_loss", "marginal_nll"}
    np.testing.assert_allclose(watched["plain"]["marginal_nll"], history["marginal_nll"], rtol=1e-5)
    last = {f"val_{name}": value for name, value in watched["parts"].items()}
    assert last == {name: history[name][-1] for name in last} and len(last) == 2


def test_validation_parts_by_hand(watched):
    x, y = watched["held_out"]
    model, history = watched["model"], watched["history"]
    logits = np.asarray(model(x), np.float64)
    likelihood = logits[np.arange(5), y] - np.log(np.exp(logits).sum(-1))
    assert history["val_task_loss"][-1] == pytest.approx(-likelihood.mean(), rel=1e-5)
    snapshot = watched["snapshots"][-1]
    std, length, noise = (
        np.exp(np.float64(snapshot[f"conv_1/log_{name}"]))
        for name in ("signal_std", "length_scale", "observation_noise")
    )
    terms, entries = [], []
    for points, values, variance in zip(x["points"], x["values"], x["variance"], strict=True):
        seen = np.isfinite(variance[:, 0])
        distance = np.linalg.norm(points[seen][:, None] - points[seen], axis=-1)
        matrix = std**2 * np.exp(-(distance**2) / (2 * length**2))
        matrix += np.diag(variance[seen, 0] + noise**2)
        terms.append(-scipy.stats.multivariate_normal(cov=matrix).logpdf(values[seen, 0]))
        entries.append(seen.sum())
    # The mean over the entries of each batch, and over the batches by their examples.
    batches = [np.sum(terms[:3]) / np.sum(entries[:3]), np.sum(terms[3:]) / np.sum(entries[3:])]
    expected = (3 * batches[0] + 2 * batches[1]) / 5
    assert history["val_conv_1_nll"][-1] == pytest.approx(expected, rel=1e-4)


def test_calibration_is_that_of_the_model(watched):
    (x, y), row = watched["held_out"], watched["table"][1]
    probabilities = watched["model"].predict_proba(x)
    confidence, right = probabilities.max(-1), probabilities.argmax(-1) == y
    bins = np.ceil(4 * confidence).astype(int)
    gaps = [
        np.sum(bins == b) * abs(right[bins == b].mean() - confidence[bins == b].mean())
        for b in set(bins)
    ]
    assert row["calibration/ece"] == pytest.approx(sum(gaps) / 5, rel=1e-5)
    assert row["calibration/accuracy"] == pytest.approx(right.mean())
    assert watched["events"]["calibration/ece"][1][1] == pytest.approx(sum(gaps) / 5, rel=1e-5)
    assert not {"calibration/error", "calibration/examples"} & row.keys()


def test_pictures_in_both_places(watched):
    for name in ("feature_maps", "reliability"):
        for epoch in (0, 1):
            picture = matplotlib.image.imread(watched["folder"] / f"{name}_{epoch:04d}.png")
            width, height, encoded = watched["events"][name][epoch][1]
            shown = tf.io.decode_png(encoded).numpy()
            assert shown.shape == (int(height), int(width), 4)
            assert picture.shape[0] / picture.shape[1] == pytest.approx(
                int(height) / int(width), rel=0.01
            )
            assert shown.std() > 5 and picture.std() > 0.02  # something is drawn
    first, last = (watched["events"]["feature_maps"][epoch][1][2] for epoch in (0, 1))
    assert first != last


def test_it_does_not_disturb_the_training(watched):
    for found, expected in zip(watched["end"], watched["alone"], strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_table_goes_on_where_training_is_resumed(watched, tmp_path):
    monitor = TrainingMonitor(watched["held_out"][0], folder=tmp_path, examples=0, every=2)
    monitor.set_model(watched["model"])
    for epochs in ((0, 1, 2, 3), (2, 3, 5)):  # from the start, then resumed from epoch 2
        monitor.on_train_begin()
        for epoch in epochs:
            monitor.on_epoch_end(epoch, {"loss": epochs[0]})
        monitor.on_train_end()
    table = read_table(tmp_path / "monitor.csv")
    assert {epoch: row["training/loss"] for epoch, row in table.items()} == {1: 0.0, 3: 2.0, 5: 2.0}
    assert [path.name for path in tmp_path.iterdir()] == ["monitor.csv"]
    (tmp_path / "monitor.csv").write_text("epoch,loss\n0,1.0\n")
    monitor.on_train_begin()
    with pytest.raises(ValueError, match="not a monitor's table"):
        monitor.on_epoch_end(1)


def record(model, x, y, folder):
    """The table's numbers of one epoch, without a training, and the names of the pictures."""
    monitor = TrainingMonitor(x, y, folder=folder, examples=1, resolution=2)
    monitor.set_model(model)
    monitor.on_train_begin()
    monitor.on_epoch_end(0)
    pictures = {path.name for path in folder.glob("*.png")}
    return read_table(folder / "monitor.csv")[0], pictures


def test_time_series_regression(tmp_path):
    x = make(examples=4, dim=1, channels=2)
    x["variance"][0] = np.inf  # no reading
    model = tfpn.models.PNTimeSeries(
        None, num_outputs=1, in_channels=2, channels=2, num_blocks=1, num_basis=1, query=3
    )
    model.adapt(x)
    y = np.array([0.3, np.nan, -0.5, 1.0])
    row, pictures = record(model, x, y, tmp_path)
    assert pictures == {"feature_maps_0000.png", "qq_plot_0000.png"}
    prior = np.exp(model.get_layer("conv_1").log_length_scale.numpy())
    assert [row["conv_1/length_scale[0]"], row["conv_1/length_scale[1]"]] == pytest.approx(prior)
    predicted = model.predict_distribution(x)
    residuals = (y - predicted.mean().numpy()[:, 0])[[0, 2, 3]]
    z = residuals / predicted.stddev().numpy()[[0, 2, 3], 0]
    assert row["calibration/spread"] == pytest.approx(np.sqrt(np.mean(z**2)), rel=1e-5)
    assert row["calibration/coverage_95"] == pytest.approx(np.mean(np.abs(z) < 1.959964))
    assert row["calibration/rmse"] == pytest.approx(np.sqrt(np.mean(residuals**2)), rel=1e-5)


def test_steerable_fields(tmp_path):
    x = make(examples=2)
    x["query"] = x["points"][:, :2]
    model = tfpn.models.SteerablePNCNN(
        None, out_fields={1: 1}, frequencies=(0, 1), copies=1, num_blocks=1, num_basis=1
    )
    row, pictures = record(model, x, None, tmp_path)
    assert pictures == {"feature_maps_0000.png"}
    assert learned_parameters(model)["readout/zeroth_order"].shape == (1, 3, 3)
    with pytest.raises(TypeError, match="a model of tfpn.models, found Sequential"):
        learned_parameters(keras.Sequential())
    # A quarter turn takes d/dx to d/dy and (vx, vy) to (-vy, vx).
    along_x, along_y = (
        np.array([[row[f"readout/first_order[0,{k},{i},{j}]"] for j in range(3)] for i in range(3)])
        for k in range(2)
    )
    turn = np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]])
    np.testing.assert_allclose(along_y, turn @ along_x @ turn.T, atol=1e-6)
    assert np.abs(along_x).max() > 1e-3


def test_example(tmp_path, capsys):
    path = pathlib.Path(__file__).parents[1] / "examples" / "watch_training.py"
    example = runpy.run_path(str(path))
    options = ["--epochs", "1", "--digits", "50", "--channels", "3", "--blocks", "1"]
    options += ["--output", str(tmp_path)]
    model, history = example["main"](options)
    assert {"feature_maps_0000.png", "reliability_0000.png"} <= {p.name for p in tmp_path.iterdir()}
    table = read_table(tmp_path / "monitor.csv")[0]
    assert table["training/task_loss"] == pytest.approx(history["task_loss"][0], rel=1e-6)
    length = np.exp(model.get_layer("conv_1").log_length_scale.numpy())
    assert read_events(tmp_path / "events")["conv_1/length_scale"] == [
        (0, pytest.approx(length, rel=1e-6))
    ]
    shown = f"conv_1/length_scale [{round(table['conv_1/length_scale'], 3)}]"
    assert shown in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"folder": None}, "Give log_dir"),
        ({"x": [1, 2]}, "x must be the model's input dict .* found list"),
        ({"y": np.zeros(3, int)}, r"y has the shape \(3,\), but x holds 2 examples"),
        ({"every": 0}, "every must be .* found 0"),
        ({"examples": -1}, "examples must be .* found -1"),
        ({"x": {**make(2), "variance": np.full((2, 6, 1), np.inf)}}, "x has no example with a r"),
        ({"x": make(2, dim=3)}, "x has points of 3 dimensions.*examples=0"),
        ({"bins": 0}, "bins must be .* found 0"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_bad_arguments(arguments, message, tmp_path):
    arguments = {"x": make(2), "y": np.zeros(2, int), "folder": tmp_path, **arguments}
    with pytest.raises((TypeError, ValueError), match=message):
        TrainingMonitor(**arguments)


def test_models_without_calibration(tmp_path):
    monitor = TrainingMonitor(make(2), np.zeros(2), folder=tmp_path)
    for model, message in (
        (tfpn.models.PNCNN(None, num_outputs=1, channels=2, num_blocks=1), "predicts no variance"),
        (tfpn.models.PNCNN(1, channels=2, num_blocks=1), "num_classes=1 and no class prob"),
    ):
        monitor.set_model(model)
        with pytest.raises(ValueError, match=f"{message}.*y=None"):
            monitor.on_train_begin()


def test_without_tensorboard(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install tensorboard, or give folder"):
        TrainingMonitor(make(2), log_dir=tmp_path)
