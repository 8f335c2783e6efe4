"""Several devices and several workers take the steps of one device."""

import contextlib
import functools
import json
import os
import socket
import sys
import time
import types

import keras
import numpy as np
import processes
import pytest
import tensorflow as tf

import tfpn
from tfpn import recipes, training
from tfpn.cli import main
from tfpn.training import read_log, run, strategies
from tfpn.training.callbacks import EpochSeconds
from tfpn.training.strategies import is_chief

# Two replicas get 3 and 2 examples of the first batch, and of the last one gets none.
EXAMPLES, BATCH = 6, 5
RECIPE = [
    "train",
    "digits",
    *("--epochs", "2", "--batch-size", str(BATCH), "--channels", "3"),
    *("--set", "model.num_blocks=1", "--set", "model.num_basis=2"),
    *("--set", "model.in_channels=2"),
    # Less to trace; `fit_both_ways` has variances and likelihoods.
    *("--set", "model.uncertainty=none", "--set", "model.marginal_likelihood_weight=0"),
]


@pytest.fixture
def start():
    """Starts a function in a process of its own; whatever still runs in the end is killed."""
    started = []

    def start(function, *arguments):
        started.append(processes.start(function, *arguments))
        return started[-1]

    yield start
    for process in started:
        processes.kill(process)


def some_data(size, seed):
    """Examples with different numbers of observed points, of which one channel may be missing."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(size, 6, 2))
    for example in values:
        example[rng.integers(3, 7) :] = np.nan
    return tfpn.observations(rng.uniform(size=(size, 6, 2)), values), rng.integers(3, size=size)


def fitted(strategy, **conditioning):
    """Log and weights of a small model fitted to `some_data` with gaps in its targets, in float64.

    One device takes its steps eagerly, which is quicker for so few.
    """
    x, y = some_data(EXAMPLES, 0)
    # 2 of 6 targets are missing on the one replica, and all on the other.
    y = np.stack([y, y - 1.0], axis=-1)
    y[0, 0] = y[2, 1] = y[3:5] = np.nan
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model = tfpn.models.PNCNN(
            num_classes=None, num_outputs=2, spatial_dim=2, in_channels=2, channels=3, num_blocks=1,
            num_basis=2, marginal_likelihood_weight=0.1, dtype="float64", **conditioning,
        )  # fmt: skip
        model.adapt(x, fit_priors=False)
        eager = strategy.num_replicas_in_sync == 1
        model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"], run_eagerly=eager)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)
    history = model.fit(data, epochs=2, verbose=0).history
    return history, model.get_weights()


# Six points in blocks of one with halos of one, which have fewer operations than all at once.
LOCAL = {"conditioning": "local", "block_size": 1, "neighbors": 1}


def fit_both_ways(output, **conditioning):
    """Writes the results of one device and of two to a file."""
    keras.config.set_floatx("float64")
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = training.make_strategy("mirrored")
    results = {"replicas": strategy.num_replicas_in_sync}
    for name, chosen in (("one", tf.distribute.get_strategy()), ("two", strategy)):
        history, weights = fitted(chosen, **conditioning)
        results[name] = {"history": history, "weights": [weight.tolist() for weight in weights]}
    output.write_text(json.dumps(results))


@pytest.mark.parametrize("conditioning", [{}, LOCAL], ids=["exact", "local"])
def test_two_devices_take_the_steps_of_one(conditioning, start, tmp_path):
    fit = functools.partial(fit_both_ways, **conditioning)
    processes.finish(start(fit, tmp_path / "results.json"))
    found = json.loads((tmp_path / "results.json").read_text())
    assert found["replicas"] == 2
    one, two = found["one"], found["two"]
    assert one["history"].keys() == two["history"].keys()
    for key, values in one["history"].items():
        # Keras adds up metrics in float32.
        np.testing.assert_allclose(two["history"][key], values, rtol=1e-6, err_msg=key)
    for expected, weights in zip(one["weights"], two["weights"], strict=True):
        np.testing.assert_allclose(weights, expected, rtol=0, atol=1e-12)


def cut_short(patch):
    """Replaces the recipe's data by a few examples, and leaves out the pictures."""
    parts = {"train": EXAMPLES, "validation": 3, "test": 4}
    data = {"description": "made up"}
    for seed, (name, size) in enumerate(parts.items()):
        x, y = some_data(size, seed)
        data[name] = types.SimpleNamespace(
            x={key: array.astype(np.float32) for key, array in x.items()}, y=y
        )
    patch.setattr(recipes, "load_data", lambda recipe: types.SimpleNamespace(**data))
    patch.setattr(run, "_draw", lambda *arguments: None)


def work(index, ports, folder, *options, stop=False):
    """A worker of two that train the recipe; with ``stop`` it hangs after the first epoch."""
    workers = [f"localhost:{port}" for port in ports]
    task = {"type": "worker", "index": index}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})
    with pytest.MonkeyPatch.context() as patch:
        cut_short(patch)
        if stop:
            begin = EpochSeconds.on_epoch_begin

            def hang(self, epoch, logs=None):
                time.sleep(processes.SECONDS * epoch)
                begin(self, epoch, logs)

            patch.setattr(EpochSeconds, "on_epoch_begin", hang)
        else:
            count_examples(patch, folder.parent / f"seen-{index}.json")
        sys.exit(main([*RECIPE, "--output", str(folder), "--strategy", "multi-worker", *options]))


def count_examples(patch, output):
    """Writes which elements of a tf.data pipeline a worker gets, a list for each batch."""
    make = training.make_strategy

    def made(name):
        strategy = make(name)
        options = tf.data.Options()
        policy = tf.data.experimental.AutoShardPolicy.DATA
        options.experimental_distribute.auto_shard_policy = policy
        dataset = tf.data.Dataset.range(EXAMPLES).batch(BATCH).with_options(options)
        seen = [
            strategy.experimental_local_results(part)[0].numpy().tolist()
            for part in strategy.experimental_distribute_dataset(dataset)
        ]
        output.write_text(json.dumps({"chief": is_chief(strategy), "seen": seen}))
        return strategy

    patch.setattr(training, "make_strategy", made)


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("localhost", 0))
        return [one.getsockname()[1] for one in sockets]


@pytest.fixture
def one_device(tmp_path_factory, eagerly):
    """The folder of a run on one device."""
    folder = tmp_path_factory.mktemp("one") / "run"
    with pytest.MonkeyPatch.context() as patch:
        cut_short(patch)
        assert main([*RECIPE, "--output", str(folder)]) == 0
    return folder


def test_workers_that_were_killed_end_like_one_device(start, tmp_path, one_device):
    folder, ports = tmp_path / "run", free_ports(2)
    workers = [
        start(functools.partial(work, stop=True), index, ports, folder) for index in range(2)
    ]
    deadline = time.monotonic() + processes.SECONDS
    while not (folder / "backup" / "epoch-00001.weights.h5").exists():
        assert all(worker.exitcode is None for worker in workers)
        assert time.monotonic() < deadline
        time.sleep(0.1)
    for worker in workers:
        processes.kill(worker)

    ports = free_ports(2)
    for worker in [start(work, index, ports, folder, "--resume") for index in range(2)]:
        processes.finish(worker)
    # The chief has written what one device writes, and the other worker nothing.
    assert sorted(p.name for p in folder.iterdir()) == sorted(p.name for p in one_device.iterdir())
    expected, found = read_log(one_device / "log.csv"), read_log(folder / "log.csv")
    assert found.keys() == expected.keys() and found["epoch"] == [0.0, 1.0]
    for key in expected.keys() - {"seconds"}:
        # float32, and Adam's first steps enlarge the rounding of small gradients.
        np.testing.assert_allclose(found[key], expected[key], rtol=1e-3, err_msg=key)
    result, one = (json.loads((p / "result.json").read_text()) for p in (folder, one_device))
    assert result["test_nll"] == pytest.approx(one["test_nll"], rel=1e-3)

    shares = [json.loads((tmp_path / f"seen-{index}.json").read_text()) for index in range(2)]
    assert [share["chief"] for share in shares] == [True, False]
    assert [[len(batch) for batch in share["seen"]] for share in shares] == [[3, 1], [2, 0]]
    assert sorted(sum((sum(share["seen"], []) for share in shares), [])) == list(range(EXAMPLES))


def leave(index, ports, output):
    """A worker of two. The first ends at its last message, before the other gets it."""
    task = {"type": "worker", "index": index}
    cluster = {"worker": [f"localhost:{port}" for port in ports]}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
    strategy = training.make_strategy("multi-worker")
    wait, waits = strategies.wait_for_all, []

    def ends(strategy):
        waits.append(index)
        if index == 0 and len(waits) == 2:
            os._exit(0)
        wait(strategy)

    with strategies.work_folder(strategy, output):
        strategies.wait_for_all = ends
        strategies.leave_together(strategy)
    output.write_text("left")
    os._exit(0)


def test_a_worker_that_has_left_does_not_fail_the_others(start, tmp_path):
    ports, output = free_ports(2), tmp_path / "output"
    for worker in [start(leave, index, ports, output) for index in range(2)]:
        processes.finish(worker)
    assert output.read_text() == "left"


@pytest.mark.parametrize("text", ["", "{}", '{"cluster": {"worker": ["a:1"]}, "task": 3}'])
def test_a_cluster_that_is_not_described_is_refused(text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(training.RunError, match="TF_CONFIG is"):
        training.make_strategy("multi-worker")


def test_unknown_strategies_are_refused():
    with pytest.raises(training.RunError, match="'both'.*mirrored, multi-worker"):
        training.make_strategy("both")
