import dataclasses
import doctest
import subprocess
import sys

import numpy as np
import pytest

import tfpn
from tfpn.datasets import Dataset, Part, _digits, _mnist, _pyg, _superpixels, _table_parts, base


def observed(num_examples=2):
    return tfpn.observations(np.zeros((num_examples, 3, 2)), np.ones((num_examples, 3, 1)))


def test_part():
    part = Part(observed(), np.array([4, 5]))
    assert len(part) == 2
    assert repr(part) == "Part(2 examples, N = 3, d = 2, c = 1)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        part.y = np.array([1, 2])


@pytest.mark.parametrize(
    "x, y, error, match",
    [
        (observed(), [1, 2, 3], ValueError, r"y: found the shape \[3\]; .* 2 examples of x, \[2\]"),
        (observed(), [[1], [2]], ValueError, r"y: found the shape \[2, 1\]"),
        (observed(), [1.0, 2.0], TypeError, r"y: found the dtype float64; give integer labels"),
        ({"points": 1}, [1], ValueError, r"missing \['values', 'variance'\]"),
    ],
)
def test_part_errors(x, y, error, match):
    with pytest.raises(error, match=match):
        Part(x, np.array(y))


def test_dataset_without_some_parts():
    data = Dataset(Part(observed(), np.array([4, 5])), None, None, name="a", description="b")
    assert repr(data).startswith("Dataset('a', train=Part(2 examples")
    assert repr(data).endswith("validation=None, test=None)")


def test_pad():
    x = base.pad(observed(), 5)
    assert x["points"].shape == (2, 5, 2)
    np.testing.assert_array_equal(x["points"][:, 3:], 0)
    np.testing.assert_array_equal(x["values"][:, :, 0], [[1, 1, 1, 0, 0]] * 2)
    np.testing.assert_array_equal(x["variance"][:, :, 0], [[0, 0, 0, np.inf, np.inf]] * 2)


@pytest.mark.parametrize("module", [base, _digits, _mnist, _superpixels, _pyg, _table_parts])
def test_docstring_examples(module, mnist_folder):
    results = doctest.testmod(module, extraglobs={"folder": mnist_folder, "np": np})
    assert results.attempted > 0 and results.failed == 0


def test_import_is_light():
    code = (
        "import sys, tfpn.datasets\n"
        "heavy = {'tensorflow', 'keras', 'sklearn', 'skimage', 'scipy', 'joblib'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
