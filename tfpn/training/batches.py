"""The batches of an epoch."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from tfpn import augmentation
from tfpn.contract import KEYS, check_observations
from tfpn.datasets.base import on_disk
from tfpn.tasks import HiddenReadings
from tfpn.types import Array

# Examples are sorted by length among so many batches: enough for batches of similar length, and few
# enough that an example hardly ever meets the same others twice.
_SORTED_BATCHES = 10
# Number of examples to read at once.
_EXAMPLES = 256
# A model starts from at most so many numbers of a data set on disk.
_START = 2**24


class ShuffledBatches(keras.utils.PyDataset):
    """Batches of a data set. Seed and epoch alone determine their order and augmentation.

    Each epoch applies the augmentation anew: first `tfpn.augmentation.jitter`, then `thin`, then
    `add_noise`. By default there is none.

    Args:
        x: dict of arrays with the examples on the first axis.
        y: labels, [examples].
        batch_size: number of examples in a batch. The last batch of an epoch may be smaller.
        seed: non-negative integer.
        by_length: whether batches hold examples of similar length and are cut to the longest one,
            which leaves out most of the padding. Examples are sorted within ten random batches at a
            time. The length goes up to the last observed point; for a thinned example it is the
            number of points left. Results are the same up to rounding, but a step's number of
            points varies.
        weights: sample weights, [examples], which make each batch a triple.
        thin: ``keep`` of `tfpn.augmentation.thin`.
        whole, drop_channels, together: as in `tfpn.augmentation.thin`.
        noise: ``highest`` of `tfpn.augmentation.add_noise`.
        **ranges: as in `tfpn.augmentation.jitter`.

    Arrays on disk (`numpy.memmap`) are read and checked batch by batch. ``by_length`` reads them
    into memory.

    >>> batches = ShuffledBatches({"values": np.arange(5.0)}, np.arange(5), 2, seed=0)
    >>> batches.set_epoch(3)
    >>> sorted(int(label) for batch in range(len(batches)) for label in batches[batch][1])
    [0, 1, 2, 3, 4]
    """

    def __init__(
        self,
        x: Mapping[str, Any],
        y: Any,
        batch_size: int,
        seed: int,
        by_length: bool = False,
        *,
        weights: Any = None,
        thin: Sequence[float] | None = None,
        whole: float = 0.125,
        drop_channels: float = 0.0,
        together: bool = False,
        noise: float = 0.0,
        **ranges: Any,
    ) -> None:
        super().__init__()
        self.x, self.y, self.batch_size, self.seed, self.ranges = x, y, batch_size, seed, ranges
        self._moves = any(
            value for name, value in ranges.items() if name not in ("elastic_length", "common")
        )
        if by_length and ranges.get("common"):
            raise ValueError(
                "common=True moves the examples of a batch alike, and by_length=True augments all "
                "before it makes batches: give one of the two."
            )
        self.weights = weights
        self._thinning: dict[str, Any] = {
            "whole": whole,
            "drop_channels": drop_channels,
            "together": together,
        }
        self._keep = tuple(thin or ())
        augmentation.check_range("noise", noise)
        self._noise = noise
        self._by_length = by_length
        self.set_epoch(0)
        if len(self):
            self[0]  # so that bad ranges are refused here

    def set_epoch(self, epoch: int) -> None:
        """Orders and augments the examples for an epoch, counted from 0."""
        self._epoch = epoch
        rng = np.random.default_rng((self.seed, epoch))
        order = rng.permutation(len(self.y))
        self._batches = [
            order[start : start + self.batch_size]
            for start in range(0, len(order), self.batch_size)
        ]
        if self._by_length:
            # All are augmented at once, because their lengths afterwards determine the batches.
            self._x = self._changed(self.x, rng)
            if self._keep:
                self._x = _compact(self._x)
            self._lengths = lengths(self._x["variance"])
            self._batches = _of_like_length(self._batches, self._lengths, rng)

    def __len__(self):
        return math.ceil(len(self.y) / self.batch_size)

    def __getitem__(self, batch):
        chosen = self._batches[batch]
        if self._by_length:
            x = {key: array[chosen] for key, array in self._x.items()}
            x = cut(x, _length(self._batches, batch, self._lengths))
        else:
            rng = np.random.default_rng((self.seed, self._epoch, batch))
            x = self._changed(_rows(self.x, chosen), rng)
        others = () if self.weights is None else (self.weights[chosen],)
        return x, self.y[chosen], *others

    def _changed(self, x, rng):
        """Augments some examples."""
        if self._moves:
            observations = {key: x[key] for key in KEYS}
            x = {**x, **augmentation.jitter(observations, rng, **self.ranges)}
        if self._keep:
            x = augmentation.thin(x, self._keep, rng, **self._thinning)
        if self._noise:
            x = augmentation.add_noise(x, self._noise, rng)
        return x


class HiddenBatches(HiddenReadings):
    """`tfpn.tasks.HiddenReadings` for runs: the epoch's number determines the hidden readings.

    Args:
        x, by, batch_size, repeats, seed: as in `tfpn.tasks.HiddenReadings`.
    """

    def set_epoch(self, epoch: int) -> None:
        """Chooses the hidden readings and the order for an epoch, counted from 0."""
        self._epoch = epoch
        self._shuffle()


class CutBatches(keras.utils.PyDataset):
    """All examples for evaluation, sorted by length, in batches cut to their longest example.

    Args:
        x, y, batch_size: as in `ShuffledBatches`.

    >>> x = {"variance": np.array([[[0.0], [0.0]], [[0.0], [np.inf]]])}
    >>> batches = CutBatches(x, np.array([1, 0]), 1)
    >>> [(x["variance"].shape, y.tolist()) for x, y in (batches[0], batches[1])]
    [((1, 1, 1), [0]), ((1, 2, 1), [1])]
    >>> batches.order
    array([1, 0])
    """

    def __init__(self, x: Mapping[str, Any], y: Any, batch_size: int) -> None:
        super().__init__()
        self.x, self.y, self.batch_size = x, y, batch_size
        self._lengths = lengths(x["variance"])
        self.order = np.argsort(self._lengths, kind="stable")
        self._batches = np.split(self.order, range(batch_size, len(self.order), batch_size))

    def __len__(self):
        return len(self._batches)

    def __getitem__(self, batch):
        chosen = self._batches[batch]
        x = cut(_rows(self.x, chosen), _length(self._batches, batch, self._lengths))
        return x, self.y[chosen]


def lengths(variance: Array) -> Array:
    """Number of points up to the last observed one, [B, N, c] -> [B].

    >>> lengths(np.array([[[np.inf], [0.1], [np.inf]], [[np.inf], [np.inf], [np.inf]]])).tolist()
    [2, 0]
    """
    found = []
    for start in range(0, len(variance), _EXAMPLES):  # as an array on disk may be large
        seen = np.isfinite(variance[start : start + _EXAMPLES]).any(-1)
        last = seen.shape[1] - np.argmax(seen[:, ::-1], axis=-1)
        found.append(np.where(seen.any(-1), last, 0))
    return np.concatenate(found)


def cut(x: dict[str, Array], length: int) -> dict[str, Array]:
    """Observations of the first ``length`` points, padded if there are fewer."""
    missing = ((0, 0), (0, max(0, length - x["variance"].shape[1])), (0, 0))
    fills = {"points": 0.0, "values": 0.0, "variance": np.inf}
    return {
        key: np.pad(array[:, :length], missing, constant_values=fills[key])
        if key in fills
        else array
        for key, array in x.items()
    }


def some_of(x: Mapping[str, Any]) -> dict[str, Array]:
    """Observations for a model's start: all, or an evenly spaced sample of those on disk.

    >>> some_of({"values": np.zeros((3, 2, 1))})["values"].shape
    (3, 2, 1)
    """
    if not on_disk(x):
        return dict(x)
    examples, points, channels = x["values"].shape
    number = max(1, min(examples, _START // (points * channels)))
    return _rows(x, np.linspace(0, examples - 1, number).astype(int))


def _rows(x, chosen):
    """Some examples; those on disk are read here, and checked."""
    found = {key: np.asarray(array[chosen]) for key, array in x.items()}
    if on_disk(x):
        try:
            check_observations({key: found[key] for key in KEYS})
        except ValueError as error:
            rows = np.asarray(chosen).tolist()
            raise ValueError(f"of the batch of the examples {rows}: {error}") from error
    return found


def _compact(x):
    """Moves unobserved points to the end; the others keep their order."""
    order = np.argsort(~np.isfinite(x["variance"]).any(-1), axis=1, kind="stable")[..., None]
    return {**x, **{key: np.take_along_axis(x[key], order, axis=1) for key in KEYS}}


def _length(batches, batch, lengths):
    """The number of points of a batch."""
    length, following = (
        max(1, lengths[batches[index]].max()) for index in (batch, min(1, len(batches) - 1))
    )
    # If the first two batches had equally many points, Keras would take the number as fixed.
    return length + (batch == 0 and len(batches) > 1 and length == following)


def _of_like_length(batches, lengths, rng):
    """The same examples in batches of similar length, in random order."""
    result = []
    for start in range(0, len(batches), _SORTED_BATCHES):
        some = batches[start : start + _SORTED_BATCHES]
        examples = np.concatenate(some)
        examples = examples[np.argsort(lengths[examples], kind="stable")]
        result += np.split(examples, np.cumsum([len(batch) for batch in some])[:-1])
    return [result[index] for index in rng.permutation(len(result))]
