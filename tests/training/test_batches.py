"""The order of an epoch's examples and their augmentation, on which resuming a run relies."""

import numpy as np

from tfpn import observations
from tfpn.training import ShuffledBatches


def test_order_depends_on_seed_and_epoch_only():
    labels = np.arange(20)

    def order(seed, epochs):
        batches = ShuffledBatches({"values": labels}, labels, 6, seed)
        for epoch in epochs:
            batches.set_epoch(epoch)
        return [int(label) for batch in range(len(batches)) for label in batches[batch][1]]

    assert order(0, [5]) == order(0, [0, 1, 2, 5])
    assert sorted(order(0, [5])) == list(labels)
    assert order(0, [5]) != order(0, [6]) and order(0, [5]) != order(1, [5])


def test_augmentation_depends_on_seed_and_epoch_only():
    rng = np.random.default_rng(0)
    x = observations(rng.uniform(size=(20, 5, 2)), rng.normal(size=(20, 5)))
    labels = np.arange(20)

    def points(seed, epochs, **ranges):
        batches = ShuffledBatches(x, labels, 20, seed, **ranges)
        for epoch in epochs:
            batches.set_epoch(epoch)
        batch, y = batches[0]
        return batch["points"][np.argsort(y)]

    moved = points(0, [5], shift=0.1)
    np.testing.assert_array_equal(points(0, [0, 1, 2, 5], shift=0.1), moved)
    np.testing.assert_array_equal(points(0, [5]), x["points"])
    for other in (x["points"], points(0, [6], shift=0.1), points(1, [5], shift=0.1)):
        assert (np.abs(moved - other) > 0).all()


def test_inputs_beside_the_observations_are_not_augmented():
    rng = np.random.default_rng(0)
    x = observations(rng.uniform(size=(20, 5, 1)), rng.normal(size=(20, 5)))
    statics = {"statics": rng.normal(size=(20, 2)), "statics_variance": np.zeros((20, 2))}
    batches = ShuffledBatches({**x, **statics}, np.arange(20), 20, seed=0, shift=0.1)
    batch, y = batches[0]
    assert (batch["points"] != x["points"][y]).all()
    np.testing.assert_array_equal(batch["statics"], statics["statics"][y])
