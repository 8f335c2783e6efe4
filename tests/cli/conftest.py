"""One short training run, shared by the tests of the command."""

import json
import types
from pathlib import Path

import numpy as np
import pytest
from cli_support import KEEP, SMALL, command


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A finished run: its folder, the command's outcome and the JSON line it ended with."""
    folder = tmp_path_factory.mktemp("runs") / "small"
    outcome = command("train", *SMALL, "--output", folder)
    assert outcome.status == 0, outcome.err
    result = json.loads(outcome.out.splitlines()[-1])
    return types.SimpleNamespace(folder=Path(folder), outcome=outcome, result=result)


@pytest.fixture(scope="session")
def digits_test_part():
    from tfpn import datasets

    return datasets.digits(keep=KEEP).test


@pytest.fixture
def npz(tmp_path, digits_test_part):
    """An .npz file with the first ten test examples, every array as the data set has it."""
    path = tmp_path / "observations.npz"
    np.savez(path, **{key: array[:10] for key, array in digits_test_part.x.items()})
    return path
