"""`tfpn.augmentation.add_noise`, in NumPy and in pipelines."""

import numpy as np
import pytest
from augmentation_ways import ways

import tfpn
from tfpn.augmentation import add_noise


def example(num_examples=500, dtype=np.float32):
    """Two channels read apart, with a variance of 0.1."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(num_examples, 30, 2))
    values[rng.uniform(size=values.shape) < 0.3] = np.nan
    x = tfpn.observations(rng.uniform(size=(num_examples, 30, 1)), values, 0.1)
    return {key: array.astype(dtype) for key, array in x.items()}


by_array, by_pipeline = ways(add_noise)
both = pytest.mark.parametrize("way", [by_array, by_pipeline])


@both
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_noise_has_the_variance_that_is_told(way, dtype):
    x = example(dtype=dtype)
    noisy = way(x, 2.0, probability=0.4)
    seen = np.isfinite(x["variance"])
    assert {key: array.dtype for key, array in noisy.items()} == dict.fromkeys(x, dtype)
    for key in ("values", "variance"):
        np.testing.assert_array_equal(noisy[key][~seen], x[key][~seen])
    told = np.where(seen, noisy["variance"], dtype(0.1)) - dtype(0.1)
    deviations = np.sqrt(told.max((1, 2)))
    noised = np.any(noisy["values"] != x["values"], axis=(1, 2))
    # Of 500 examples: 5 standard errors of the share, of the mean of uniform draws, and of the
    # spread of some 8,000 normal ones.
    assert abs(noised.mean() - 0.4) < 5 * np.sqrt(0.24 / 500)
    assert abs(deviations[noised].mean() - 1.0) < 5 * np.sqrt(1 / 3 / noised.sum())
    # Below 0.1 the variance's rounding is some of the deviation.
    clear = noised & (deviations > 0.1)
    change = (noisy["values"] - x["values"])[clear]
    standard = (change / deviations[clear, None, None])[seen[clear]]
    assert abs(standard.std() - 1.0) < 5 / np.sqrt(2 * standard.size)
    assert abs(standard.mean()) < 5 / np.sqrt(standard.size)
    # All readings of an example have the same noise; the variance's rounding is told's.
    same = np.where(seen, told, told.max((1, 2), keepdims=True))
    assert np.ptp(same, (1, 2)).max() < 1e-5
    assert told[~noised].max() == 0.0


@both
def test_integers_get_real_noise(way):
    x = {"points": np.zeros((200, 9, 1)), "values": np.ones((200, 9, 1), int)}
    x["variance"] = np.zeros((200, 9, 1), int)
    noisy = way(x, 1.5, probability=1)
    deviation = np.sqrt(noisy["variance"])
    standard = (noisy["values"] - 1.0) / deviation
    assert abs(standard.std() - 1.0) < 5 / np.sqrt(2 * 1800)


@both
def test_noise_whose_square_has_no_number_is_refused(way):
    with pytest.raises(ValueError, match="highest: found 1e.30, whose square float32 cannot hold"):
        way(example(4), 1e30)


@both
def test_one_example_and_other_entries_are_taken(way):
    one = {key: array[0] for key, array in example().items()}
    noisy = way({**one, "statics": np.ones(3)}, 1.0, probability=1)
    assert noisy["values"].shape == one["values"].shape
    np.testing.assert_array_equal(noisy["statics"], np.ones(3))
    assert np.any(noisy["values"] != one["values"])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"highest": -1.0}, ValueError, r"highest: found -1\.0; .* at least 0"),
        ({"highest": "much"}, TypeError, "highest: found 'much'; give a number"),
        ({"highest": 1.0, "probability": 2.0}, ValueError, r"probability: found 2\.0; .* 0 to 1"),
        ({"highest": 1.0, "rng": 0}, TypeError, "rng: found int for arrays"),
    ],
)
def test_wrong_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        add_noise(example(2), **arguments)
