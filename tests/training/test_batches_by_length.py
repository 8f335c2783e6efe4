"""Batches of examples of like length: the same examples, less padding, resumable."""

import keras
import numpy as np
import pytest

import tfpn
from tfpn.training import CutBatches, ShuffledBatches

COUNT, SIZE = 103, 40


@pytest.fixture(scope="module")
def data():
    """Records of exponential length, the number of each in its first value; one is empty."""
    rng = np.random.default_rng(0)
    lengths = np.minimum(1 + rng.exponential(8, size=COUNT).astype(int), SIZE)
    lengths[5], lengths[7] = 0, SIZE
    times = [np.sort(rng.uniform(size=(n, 1)), axis=0) for n in lengths]
    values = [np.full((n, 1), float(i)) for i, n in enumerate(lengths)]
    x = tfpn.observations(times, values)
    return {**x, "statics": np.arange(COUNT)[:, None] * 2.0}, np.arange(COUNT), lengths


def check_batches(batches, data):
    """Every example once, whole, in batches no longer than they need to be."""
    x, y, lengths = data
    found = [batches[index] for index in range(len(batches))]
    labels = np.concatenate([label for _, label in found])
    assert sorted(labels) == list(y)
    for index, (given, label) in enumerate(found):
        size = given["points"].shape[1]
        assert size - max(1, lengths[label].max()) in ((0, 1) if index == 0 else (0,))
        np.testing.assert_array_equal(given["statics"], x["statics"][label])
        for key in ("points", "values", "variance"):
            kept = min(size, SIZE)
            np.testing.assert_array_equal(given[key][:, :kept], x[key][label][:, :kept])
        assert np.all(np.isinf(given["variance"][:, lengths[label].max() :]))
    return found


def test_batches_are_whole_and_short(data):
    x, y, lengths = data
    batches = ShuffledBatches(x, y, 10, seed=0, by_length=True)
    points = sum(
        g["points"].shape[:2][0] * g["points"].shape[1] for g, _ in check_batches(batches, data)
    )
    # What the observed points alone would take, half as much again, beside all the padding.
    assert points < 1.5 * lengths.sum() < 0.5 * COUNT * SIZE
    check_batches(CutBatches(x, y, 10), data)


def test_order_depends_on_seed_and_epoch_only(data):
    x, y, _ = data

    def order(seed, epochs):
        batches = ShuffledBatches(x, y, 10, seed, by_length=True)
        for epoch in epochs:
            batches.set_epoch(epoch)
        return [batches[index][1].tolist() for index in range(len(batches))]

    assert order(0, [4]) == order(0, [0, 1, 4])
    assert order(0, [4]) != order(0, [5]) and order(0, [4]) != order(1, [4])


def test_refuses_a_common_map(data):
    x, y, _ = data
    with pytest.raises(ValueError, match="common=True moves .* by_length=True"):
        ShuffledBatches(x, y, 10, seed=0, by_length=True, shift=0.1, common=True)


def test_keras_takes_lengths_that_vary(data):
    """Even if the first two batches agree, from which Keras reads the shapes."""
    x, y, _ = data
    same = {key: array[[3, 3, 3, 7]] for key, array in x.items()}
    for batches in (ShuffledBatches, CutBatches):
        options = {"seed": 0, "by_length": True} if batches is ShuffledBatches else {}
        given = batches(same, np.arange(4), 1, **options)
        sizes = [given[index][0]["points"].shape[1] for index in range(4)]
        assert sizes[0] != sizes[1]
    inputs = {key: keras.Input((None, 1), name=key) for key in ("points", "values", "variance")}
    statics = keras.Input((1,), name="statics")
    total = keras.ops.sum(inputs["values"], axis=1) + 0.0 * statics
    model = keras.Model({**inputs, "statics": statics}, keras.layers.Dense(1)(total))
    model.compile("sgd", "mse")
    model.fit(CutBatches(x, y, 10), epochs=1, verbose=0)


def test_thinned_examples_are_cut_to_the_points_that_are_left():
    rng = np.random.default_rng(0)
    x = tfpn.observations(rng.uniform(size=(40, 30, 1)), rng.normal(size=(40, 30, 2)))
    y, options = np.arange(40), {"thin": (0.05, 0.3), "whole": 0.0}
    batches = ShuffledBatches(x, y, 10, seed=0, by_length=True, **options)
    batches.set_epoch(2)
    kept = 0
    for index in range(len(batches)):
        given, labels = batches[index]
        for row, label in enumerate(labels):
            seen = np.isfinite(given["variance"][row])
            kept += seen.sum()
            points = given["points"][row, seen.any(-1), 0]
            # The same readings in the same order, in fewer points.
            places = [int(np.flatnonzero(x["points"][label, :, 0] == point)[0]) for point in points]
            assert places == sorted(places)
            expected = x["values"][label, places]
            np.testing.assert_array_equal(
                given["values"][row, seen.any(-1)], np.where(seen[seen.any(-1)], expected, 0)
            )
    assert 0.1 < kept / (40 * 30 * 2) < 0.25  # 0.175 is expected
    lengths = [batches[index][0]["points"].shape[1] for index in range(4)]
    assert max(lengths) < 25 and min(lengths) < 12
