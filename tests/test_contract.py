import doctest
import math
import subprocess
import sys
import warnings

import numpy as np
import pytest
from contract_examples import assert_same, formed, ragged_example

import tfpn
from tfpn import contract
from tfpn.contract import check_observations, observations


def reference(points, values, variance):
    """The contract entry by entry, on lists of examples with all three given in full."""
    d, c = points[0].shape[1], values[0].shape[1]
    longest = max(1, max(len(p) for p in points))
    out = {
        "points": np.zeros((len(points), longest, d)),
        "values": np.zeros((len(points), longest, c)),
        "variance": np.full((len(points), longest, c), np.inf),
    }
    for b in range(len(points)):
        for n in range(len(points[b])):
            seen = False
            for k in range(c):
                value, noise = values[b][n, k], variance[b][n, k]
                if not math.isnan(value) and noise != math.inf:
                    out["values"][b, n, k] = value
                    out["variance"][b, n, k] = noise
                    seen = True
            if seen or all(math.isfinite(coordinate) for coordinate in points[b][n]):
                out["points"][b, n] = points[b][n]
    return out


@pytest.mark.parametrize("seed", range(5))
def test_ragged_against_reference(seed):
    example = ragged_example(seed)
    assert_same(observations(*example), reference(*example))


@pytest.mark.parametrize("seed", range(3))
def test_arrays_against_reference(seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(4, 6, 1))
    values = rng.normal(size=(4, 6, 2))
    variance = rng.uniform(0, 1, size=(4, 6, 2))
    values[rng.random(values.shape) < 0.3] = np.nan
    assert_same(
        observations(points, values, variance),
        reference(list(points), list(values), list(variance)),
    )


def test_list_and_array_forms_agree():
    rng = np.random.default_rng(0)
    points, values = rng.normal(size=(3, 4, 2)), rng.normal(size=(3, 4, 1))
    expected = observations(points, values)
    assert_same(observations(points.tolist(), values.tolist()), expected)
    assert_same(observations(tuple(points), values[..., 0]), expected)
    assert_same(observations(points, list(values[..., 0])), expected)


@pytest.mark.parametrize(
    "variance, expected",
    [
        (None, [[0.0, 0.0], [0.0, np.inf]]),
        (0.5, [[0.5, 0.5], [0.5, np.inf]]),
        (np.float32(0.5), [[0.5, 0.5], [0.5, np.inf]]),
        ([0.5, 2], [[0.5, 2.0], [0.5, np.inf]]),
        (np.array([0.5, np.inf]), [[0.5, np.inf], [0.5, np.inf]]),
        ([[[1, 2], [3, 4]]], [[1.0, 2.0], [3.0, np.inf]]),
        (np.array([[[1, 2], [np.inf, np.nan]]]), [[1.0, 2.0], [np.inf, np.inf]]),
    ],
)
def test_forms_of_variance(variance, expected):
    x = observations([[[0.0], [1.0]]], [[[1.0, 2.0], [3.0, np.nan]]], variance)
    np.testing.assert_array_equal(x["variance"][0], expected)
    values = np.array([[1.0, 2.0], [3.0, 0.0]])
    np.testing.assert_array_equal(x["values"][0], np.where(np.isinf(expected), 0, values))


def test_variance_in_the_one_channel_forms():
    points = [[[0.0], [1.0]], [[2.0]]]
    x = observations(points, [[1.0, 2.0], [3.0]], [[0.1, 0.2], [0.3]])
    np.testing.assert_array_equal(x["variance"], [[[0.1], [0.2]], [[0.3], [np.inf]]])
    np.testing.assert_array_equal(x["values"], [[[1.0], [2.0]], [[3.0], [0.0]]])
    dense = observations(np.zeros((1, 2, 1)), np.ones((1, 2)), np.full((1, 2), 0.5))
    np.testing.assert_array_equal(dense["variance"], [[[0.5], [0.5]]])


def test_infinite_values_that_are_not_observed_are_never_read():
    x = observations([[[0.0], [1.0]]], [[np.inf, 2.0]], [[np.inf, 0.0]])
    np.testing.assert_array_equal(x["values"][0, :, 0], [0, 2])


@pytest.mark.parametrize("empty", [[], np.zeros((0, 2)), np.zeros(0), np.zeros((0, 0))])
def test_example_without_points(empty):
    points = [empty, np.ones((2, 2))]
    values = [[] if len(np.shape(empty)) < 2 else np.zeros((0, 3)), np.ones((2, 3))]
    x = observations(points, values)
    np.testing.assert_array_equal(x["points"][0], np.zeros((2, 2)))
    np.testing.assert_array_equal(x["values"][0], np.zeros((2, 3)))
    np.testing.assert_array_equal(x["variance"][0], np.full((2, 3), np.inf))
    np.testing.assert_array_equal(x["variance"][1], np.zeros((2, 3)))


def test_batch_without_any_point_has_one_point_of_padding():
    for points, values in (
        ([np.zeros((0, 2))], [np.zeros((0, 3))]),
        (np.zeros((1, 0, 2)), np.zeros((1, 0, 3))),
    ):
        x = observations(points, values, [[]])
        assert {key: array.shape for key, array in x.items()} == {
            "points": (1, 1, 2),
            "values": (1, 1, 3),
            "variance": (1, 1, 3),
        }
        assert np.isposinf(x["variance"]).all()


@pytest.mark.parametrize(
    "points, values, expected",
    [
        (np.float32, np.float32, np.float32),
        (np.float64, np.float32, np.float64),
        (np.float32, np.float64, np.float64),
        (np.float16, np.float32, np.float32),
        (np.int64, np.int64, np.float32),
        (np.int64, np.float64, np.float64),
        (np.float32, bool, np.float32),
    ],
)
def test_dtype(points, values, expected):
    x = observations(np.ones((2, 3, 1), points), np.ones((2, 3, 1), values), 0.5)
    assert {array.dtype for array in x.values()} == {np.dtype(expected)}


def test_empty_list_does_not_change_the_dtype():
    x = observations([[], np.ones((2, 1), np.float32)], [[], np.ones(2, np.float32)])
    assert x["points"].dtype == x["values"].dtype == np.float32


def test_variance_does_not_change_the_dtype():
    ones = np.ones((1, 1, 1), np.float32)
    x = observations(ones, ones, np.full((1, 1, 1), 1e200))
    # Beyond float32: a precision of 0.
    assert x["variance"].dtype == np.float32 and np.isposinf(x["variance"]).all()
    assert x["values"][0, 0, 0] == 0


def test_arguments_are_neither_changed_nor_shared():
    points, values, variance = np.ones((2, 3, 1)), np.ones((2, 3, 1)), np.ones((2, 3, 1))
    points[0, 0], values[0, 0] = np.nan, np.nan
    copies = points.copy(), values.copy(), variance.copy()
    x = observations(points, values, variance)
    for array in x.values():
        array[:] = 7
    for argument, copy in zip((points, values, variance), copies, strict=True):
        np.testing.assert_array_equal(argument, copy)


def test_array_likes():
    class Frame:
        def __init__(self, data):
            self.data = data

        def __array__(self, dtype=None, copy=None):
            return np.asarray(self.data, dtype=dtype)

    points, values = np.ones((2, 3, 1)), np.ones((2, 3, 2))
    expected = observations(points, values)
    assert_same(observations(Frame(points), Frame(values)), expected)
    assert_same(observations([Frame(p) for p in points], [Frame(v) for v in values]), expected)


def test_large_integer_points_are_accepted_where_they_are_exact():
    x = observations(np.full((1, 1, 1), 2**24), np.ones((1, 1, 1), np.float32))
    assert x["points"][0, 0, 0] == 2**24
    x = observations(np.full((1, 1, 1), 2**24 + 1), np.ones((1, 1, 1)))
    assert x["points"][0, 0, 0] == 2**24 + 1


def test_check_accepts_what_observations_makes():
    x = formed()
    x["values"][np.isposinf(x["variance"])] = np.nan
    checked = check_observations(x, spatial_dim=2, channels=3)
    assert_same(checked, x)
    assert all(checked[key].dtype == x[key].dtype for key in x)


def test_public_name_and_docstring_examples():
    assert tfpn.observations is observations
    results = doctest.testmod(contract)
    assert results.attempted > 0 and results.failed == 0


def test_tensorflow_is_not_imported():
    code = "import sys, tfpn; tfpn.observations; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


class TestDegrees:
    """Longitudes and latitudes on both sides of the date line are warned of, other points not."""

    GLOBE = np.array([[[179.5, -17.0], [-179.0, -18.0], [10.0, 50.0]]])

    EAST = np.array([[[2.0, 60.0], [355.0, -20.0], [181.0, -18.0]]])

    NORTH = np.array([[[2.0, 60.0], [355.0, 20.5], [181.0, 18.0]]])
    WITHIN = np.array([[[148.0, 10.0], [-148.0, 20.0], [100.0, -5.0]]])
    HOURS = np.array([[[0.0], [17.5], [400.0]]])
    DAYS = np.array([[[3.0], [200.0], [359.0]]])

    @pytest.mark.parametrize(
        "points",
        [
            GLOBE,
            GLOBE[..., ::-1],
            EAST,
            NORTH,
            -1.0 * NORTH * [-1.0, 1.0],
            WITHIN,
            np.concatenate([GLOBE, HOURS], -1),
            np.concatenate([NORTH[..., ::-1], DAYS], -1),
            np.concatenate([HOURS, GLOBE], -1),
            np.concatenate([HOURS, EAST[..., ::-1]], -1),
        ],
    )
    def test_around_the_globe(self, points):
        with pytest.warns(UserWarning, match="points look like degrees: coordinate") as found:
            tfpn.observations(points, np.zeros(points.shape[:2]))
        assert len(found) == 1

    def test_shown_once(self):
        # Before: TensorFlow's modules change the filters, which makes Python forget what it showed.
        model = tfpn.models.PNCNN(2, channels=1, num_blocks=1, num_basis=1)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("default")
            for _ in range(2):
                x = tfpn.observations(self.GLOBE, np.zeros((1, 3)))
                model.adapt(x)
        assert len([w for w in found if "degrees" in str(w.message)]) == 1

    @pytest.mark.parametrize(
        "points",
        [
            np.random.default_rng(0).normal(size=(3, 50, 2)),
            np.stack(np.meshgrid(np.arange(28.0), np.arange(28.0)), -1).reshape(1, -1, 2),
            np.stack(np.meshgrid(np.arange(361.0), np.arange(90.0)), -1).reshape(1, -1, 2),
            np.random.default_rng(0).uniform(-1000, 1000, size=(3, 50, 2)),
            np.random.default_rng(0).uniform([-10, 35], [40, 70], size=(3, 50, 2)),  # Europe
            np.concatenate([GLOBE, GLOBE[..., :1]], -1),  # two of three are as wide
            np.stack(np.meshgrid(np.arange(360.0), np.arange(80.0)), -1).reshape(1, -1, 2) + 0.5,
            # A cloud of points in metres around the instrument, up to 5 high.
            np.random.default_rng(0).uniform([-150, -150, 0], [150, 150, 5], size=(3, 500, 3)),
            np.random.default_rng(0).uniform(-1, 1, size=(3, 500, 3)) * 50,
            np.random.default_rng(0).uniform([-10, 35, 0], [40, 70, 360], size=(3, 50, 3)),
            np.concatenate([HOURS, EAST, GLOBE], -1),  # more than three coordinates
        ],
    )
    def test_no_false_alarm(self, points):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tfpn.observations(points, np.zeros(points.shape[:2]))

    def test_padding_does_not_count(self):
        values = np.array([[np.nan, 1.0, 2.0]])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tfpn.observations(self.GLOBE, values)
