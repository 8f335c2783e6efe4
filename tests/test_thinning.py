"""`tfpn.augmentation.thin`, in NumPy and in pipelines."""

import numpy as np
import pytest
import tensorflow as tf
from augmentation_ways import ways

import tfpn
from tfpn.augmentation import thin


def example(num_examples=400, dtype=np.float32):
    """Three channels read apart, of which the last point is padding."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(num_examples, 20, 3)) + 5
    values[rng.uniform(size=values.shape) < 0.3] = np.nan
    values[:, -1] = np.nan
    x = tfpn.observations(rng.uniform(size=(num_examples, 20, 1)), values, 0.1)
    return {key: array.astype(dtype) for key, array in x.items()}


def seen(x):
    return np.isfinite(x["variance"])


by_array, by_pipeline = ways(thin, (0.1, 1.0))
both = pytest.mark.parametrize("way", [by_array, by_pipeline])


@both
def test_integers_become_numbers_that_have_infinity(way):
    x = {
        "points": np.zeros((5, 8, 1)),
        "values": np.full((5, 8, 1), 3),
        "variance": np.ones((5, 8, 1), int),
    }
    thinned = way(x, (0.5, 0.5), whole=0)
    assert {thinned[key].dtype for key in ("values", "variance")} == {np.dtype("float64")}
    kept = thinned["variance"] == 1.0
    assert 0 < kept.sum() < 40 and np.isposinf(thinned["variance"][~kept]).all()
    np.testing.assert_array_equal(thinned["values"], np.where(kept, 3.0, 0.0))


@both
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_only_readings_go(way, dtype):
    x = example(dtype=dtype)
    x["statics"] = np.ones((400, 2))
    copy = {key: array.copy() for key, array in x.items()}
    thinned = way(x)
    for key in x:
        np.testing.assert_array_equal(x[key], copy[key])
        assert thinned[key].dtype == x[key].dtype and thinned[key].shape == x[key].shape
    for key in ("points", "statics"):
        np.testing.assert_array_equal(thinned[key], x[key])
    kept = seen(thinned)
    assert not (kept & ~seen(x)).any() and kept.sum() < seen(x).sum()
    for key, dropped in (("values", 0), ("variance", np.inf)):
        np.testing.assert_array_equal(thinned[key][kept], x[key][kept])
        assert (thinned[key][~kept] == dropped).all()


@both
def test_shares_are_drawn_from_the_range(way):
    x = example(2000)
    thinned = way(x, (0.2, 0.8))
    part = seen(thinned).sum((1, 2)) / seen(x).sum((1, 2))
    # One in eight is whole; binomial, 2000 examples: 0.125 within 4 standard deviations.
    whole = part == 1
    assert abs(whole.mean() - 0.125) < 4 * np.sqrt(0.125 * 0.875 / 2000)
    # Of the others the mean is 0.5, with the variance of the share (0.03) and that of the count
    # of some 40 readings (at most 0.25 / 40).
    assert abs(part[~whole].mean() - 0.5) < 4 * np.sqrt((0.03 + 0.00625) / 1750)
    assert abs(part[~whole].var() - 0.0365) < 0.004
    # Readings go independently: a channel's share differs from the example's.
    by_channel = seen(thinned).sum(1) / np.maximum(seen(x).sum(1), 1)
    assert (np.ptp(by_channel[~whole], axis=1) > 0).mean() > 0.95


@both
def test_something_is_left(way):
    x = example(300)
    x["variance"][0] = np.inf
    x["variance"][1, 1:] = np.inf  # one point
    x["variance"][1, 0] = (np.inf, 0.1, np.inf)
    thinned = way(x, (0.001, 0.001), whole=0.0, drop_channels=0.9)
    left = seen(thinned).sum((1, 2))
    assert left[0] == 0 and left[1] == 1
    assert left[1:].min() == 1 and left.mean() < 1.5
    # Which one is left is random.
    place = np.argmax(seen(thinned).reshape(300, -1), axis=1)
    assert len(np.unique(place)) > 40


@both
def test_channels_are_dropped(way):
    x = example(2000)
    thinned = way(x, (1.0, 1.0), whole=0.25, drop_channels=0.4)
    alive = seen(thinned).any(1)
    np.testing.assert_array_equal(seen(thinned), seen(x) & alive[:, None])
    # 0.75 (0.4 - the case that all three would go: 0.4^3 / 3 for each) are dead.
    expected = 0.75 * (0.4 - 0.4**3 / 3)
    assert abs((~alive).mean() - expected) < 4 * np.sqrt(expected / 6000)
    assert alive.any(1).all()


@both
def test_points_may_go_together(way):
    rng = np.random.default_rng(0)
    x = tfpn.observations(rng.uniform(size=(100, 10, 2)), rng.normal(size=(100, 10, 3)))
    kept = seen(way(x, (0.3, 0.6), whole=0.0, together=True))
    np.testing.assert_array_equal(kept.any(-1), kept.all(-1))
    assert 0.35 < kept.mean() < 0.55


@both
def test_the_generator_determines_the_result(way):
    x = example(50)
    first, again, other = (seen(way(x, seed=seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_one_example_at_a_time():
    x = example(3)
    one = {key: array[1] for key, array in x.items()}
    batch = {key: array[1:2] for key, array in x.items()}
    for key, array in by_array(one, seed=5).items():
        np.testing.assert_array_equal(array, by_array(batch, seed=5)[key][0])
    rng = tf.random.Generator.from_seed(0)
    examples = tf.data.Dataset.from_tensor_slices(x).map(lambda x: thin(x, rng=rng))
    assert examples.element_spec["variance"].shape == (20, 3)
    first, second = ([seen(one) for one in examples.as_numpy_iterator()] for _ in range(2))
    assert not np.array_equal(first, second)  # anew in every epoch


def test_without_a_generator():
    x = example(50)
    assert not np.array_equal(seen(thin(x)), seen(thin(x)))
    batches = tf.data.Dataset.from_tensors(x).map(thin)
    first, second = (seen(next(batches.as_numpy_iterator())) for _ in range(2))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"keep": 0.5}, ValueError, r"keep: found 0\.5; give two shares"),
        ({"keep": (0, 1)}, ValueError, r"keep: found \(0, 1\); give 0 < lowest"),
        ({"keep": (0.6, 0.5)}, ValueError, "lowest <= highest"),
        ({"keep": (0.5, 1.5)}, ValueError, "highest <= 1"),
        ({"keep": (np.nan, 1)}, ValueError, "keep: found nan"),
        ({"keep": ("a", 1)}, TypeError, "keep: found 'a'; give a number"),
        ({"whole": 1.1}, ValueError, "whole: found 1.1; give a probability"),
        ({"whole": -0.1}, ValueError, r"whole: found -0\.1"),
        ({"drop_channels": 1.0}, ValueError, r"drop_channels: found 1\.0; .* below 1"),
        (
            {"drop_channels": 0.1, "together": True},
            ValueError,
            "drop_channels: .* Leave drop_channels at 0",
        ),
        ({"rng": 3}, TypeError, "rng: found int for arrays; give a numpy.random.Generator"),
    ],
)
def test_errors(options, error, match):
    with pytest.raises(error, match=match):
        thin(example(2), **options)


def test_errors_of_tensors():
    x = {key: tf.constant(array) for key, array in example(2).items()}
    with pytest.raises(TypeError, match=r"rng: found Generator for tensors.*tf\.random\.Generator"):
        thin(x, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="axes; give points"):
        thin({**x, "points": x["points"][0]})
    with pytest.raises(ValueError, match="x: found no variance; give the dict"):
        thin({"points": x["points"], "values": x["values"]})
    with pytest.raises(ValueError, match="shapes"):
        thin({**example(2), "values": np.zeros((2, 4, 3))})
