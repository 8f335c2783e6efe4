"""The reference values in `oracles/` (see README.md there)."""

import json
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent / "oracles"


def cases(name):
    """The cases of one file, as parameters of a test."""
    document = json.loads((FOLDER / f"{name}.json").read_text())
    assert len(document["cases"]) == document["number_of_cases"]
    return [pytest.param(case, id=case["id"]) for case in document["cases"]]


def array(value):
    """Nested lists as float64: "inf" and "-inf" are infinite, null is NaN."""
    return np.array(value, dtype=object).astype(np.float64)


def assert_agrees(case, output, found, *, rtol=None, atol=0.0):
    """``found`` against ``case["outputs"][output]`` with the file's tolerance, or the given one.

    A given ``atol`` is relative to the largest magnitude in the reference.
    """
    expected = array(case["outputs"][output])
    if rtol is None:
        tolerance = case["tolerance"].get(output, case["tolerance"]["default"])
        rtol, atol = tolerance["rtol"], tolerance["atol"]
    else:
        atol *= np.max(np.abs(expected))
    found = np.asarray(found)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol, err_msg=output)
