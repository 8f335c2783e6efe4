"""A search that is killed, and then finished by a chief and two workers."""

import csv
import json
import socket
import time
import types

import processes
import pytest
from keras_tuner.src.distribute import oracle_chief
from tuning_support import SPACE, search, small

from tfpn import training, tuning


def rows(folder):
    with open(folder / "results.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_killed_search_is_finished_by_a_chief_and_two_workers(tmp_path, monkeypatch):
    folder, meeting = tmp_path / "search", tmp_path / "meeting"
    meeting.mkdir()
    alone = processes.start(search, folder, {"MEETING": str(meeting)})
    deadline = time.monotonic() + processes.SECONDS
    while not (folder / "trials" / "trial_1" / "outcome.json").exists():
        assert alone.exitcode is None and time.monotonic() < deadline
        time.sleep(0.05)
    processes.kill(alone)
    done = (folder / "trials" / "trial_0" / "outcome.json").read_text()

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    address = {"KERASTUNER_ORACLE_IP": "127.0.0.1", "KERASTUNER_ORACLE_PORT": port}
    names = ("worker-1", "worker-2")
    environments = [
        {"MEETING": str(meeting), **address, "KERASTUNER_TUNER_ID": name} for name in names
    ]
    workers = [processes.start(search, folder, environment) for environment in environments]

    def sleep(seconds):
        """Not the 20 seconds between the chief's looks, and no waiting for dead workers."""
        time.sleep(min(seconds, 0.1))
        for worker in workers:
            assert worker.exitcode in (None, 0)
        assert time.monotonic() < deadline + processes.SECONDS

    monkeypatch.setattr(oracle_chief, "time", types.SimpleNamespace(sleep=sleep))
    for name, value in {**address, "KERASTUNER_TUNER_ID": "chief"}.items():
        monkeypatch.setenv(name, value)
    options = {"algorithm": "random", "max_trials": 5, "final": False, "space": SPACE}
    try:
        result = tuning.tune(small(), folder, resume=True, verbose=0, **options)
        for worker in workers:
            processes.finish(worker)
    finally:
        for worker in workers:
            processes.kill(worker)
    counts = [int((tmp_path / f"{name}.txt").read_text()) for name in names]

    assert sum(counts) == 4 and min(counts) >= 1, "both worked, on what was not finished"
    assert (folder / "trials" / "trial_0" / "outcome.json").read_text() == done
    assert json.loads((folder / "trials" / "trial_1" / "outcome.json").read_text())["attempts"] == 2
    assert (result["trials"], result["completed"], result["failed"]) == (5, 4, 1)
    found = rows(folder)
    assert [row["reason"] for row in found if row["status"] == "FAILED"] == ["a planted failure"]
    scores = [float(row["score"]) for row in found if row["score"]]
    assert len(set(scores)) == 4 and min(scores) == pytest.approx(result["best_score"])


def test_an_incomplete_address_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("KERASTUNER_ORACLE_IP", "127.0.0.1")
    monkeypatch.setenv("KERASTUNER_ORACLE_PORT", "8000")
    monkeypatch.delenv("KERASTUNER_TUNER_ID", raising=False)
    with pytest.raises(training.RunError, match="KERASTUNER_TUNER_ID is not"):
        tuning.tune(small(), tmp_path / "search")
