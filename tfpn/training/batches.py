"""The batches of an epoch."""

import math

import keras
import numpy as np

from tfpn import augmentation


class ShuffledBatches(keras.utils.PyDataset):
    """Batches of a data set, in an order and jittered as the seed and the epoch alone determine.

    Args:
        x: dict of arrays with the examples on the first axis.
        y: labels, [examples].
        batch_size: examples a batch; the last batch of an epoch may be smaller.
        seed: non-negative integer.
        **ranges: of `tfpn.augmentation.jitter`, which is applied anew in each epoch; by default
            the examples stay as they are.

    >>> batches = ShuffledBatches({"values": np.arange(5.0)}, np.arange(5), 2, seed=0)
    >>> batches.set_epoch(3)
    >>> sorted(int(label) for batch in range(len(batches)) for label in batches[batch][1])
    [0, 1, 2, 3, 4]
    """

    def __init__(self, x, y, batch_size, seed, **ranges):
        super().__init__()
        self.x, self.y, self.batch_size, self.seed, self.ranges = x, y, batch_size, seed, ranges
        self.set_epoch(0)

    def set_epoch(self, epoch):
        """Orders and jitters the examples for the given epoch, counted from 0."""
        rng = np.random.default_rng((self.seed, epoch))
        self._order = rng.permutation(len(self.y))
        self._x = self.x
        if any(self.ranges.values()):
            self._x = augmentation.jitter(self.x, rng, **self.ranges)

    def __len__(self):
        return math.ceil(len(self.y) / self.batch_size)

    def __getitem__(self, batch):
        chosen = self._order[batch * self.batch_size : (batch + 1) * self.batch_size]
        return {key: array[chosen] for key, array in self._x.items()}, self.y[chosen]
