"""The data sets, and what is done to them: fewer readings, noise, dead channels."""

import dataclasses
from typing import Any

import numpy as np

from tfpn import augmentation, observations

SMALL = ("GunPoint", "ItalyPowerDemand", "BasicMotions", "JapaneseVowels")
LONG = ("PhysioNet2012", "SLIC-75")
# Test scenarios of models trained on everything, and the parts kept of both training and test.
ON_WHOLE = ("whole", "-50%", "-80%", "noise 0.3", "noise 1", "dead third")
ON_PART = {"half": ("-50%", 0.5), "fifth": ("-80%", 0.2)}
KEEP = (0.1, 1.0)
DROP_CHANNELS = 0.1
COPIES = 8  # of a training series: one whole, the others thinned


@dataclasses.dataclass(frozen=True)
class Part:
    """Observations and class numbers [B]."""

    x: dict[str, Any]
    y: Any


@dataclasses.dataclass(frozen=True)
class Set:
    """A data set.

    Attributes:
        train, test: `Part`s; each channel has the mean 0 and the deviation 1 in the training part.
        num_classes: how many there are.
        grid: times for those that need regular series, None where points are not times.
        together: whether channels are measured together at a point.
    """

    train: Part
    test: Part
    num_classes: int
    grid: Any
    together: bool = False


def load(name, data_dir=None, limit=None):
    """A data set by its name.

    Args:
        name: one of `SMALL`, which come with the package aeon, or of `LONG`.
        data_dir: of `LONG`: the folder of mnist.npz or of PhysioNet's files.
        limit: of `LONG`: examples of the training and of the test part at most.
    """
    if name in SMALL:
        return _from_aeon(name)
    from tfpn import datasets

    if name == "SLIC-75":
        data = datasets.superpixel_mnist(data_dir, limit=limit)
        grid, classes, together = None, 10, True
    else:
        data = datasets.physionet2012(data_dir)
        grid, classes, together = (np.arange(48) + 0.5) / 48, 2, False
    parts = [
        Part({key: array[:limit] for key, array in part.x.items()}, part.y[:limit])
        for part in (data.train, data.test)
    ]
    return Set(*parts, classes, grid, together)


def _from_aeon(name):
    from aeon.datasets import load_classification

    return regular(*(load_classification(name, split=split) for split in ("train", "test")))


def watch(fold, folds=5):
    """Exercises of the shoulder by a watch's acceleration and turning, 50 times a second.

    The data set comes with the package seglearn: 140 series of 6 channels and 947 to 2,618 times,
    20 subjects and 7 exercises. A fold's test part has every fifth subject.
    """
    from seglearn.datasets import load_watch

    data = load_watch()
    subjects = np.unique(data["subject"])
    tested = np.isin(data["subject"], subjects[fold::folds])
    series = [np.asarray(x, np.float64).T for x in data["X"]]
    labels = np.asarray(data["y"])
    parts = [
        ([x for x, one in zip(series, some, strict=True) if one], labels[some])
        for some in (~tested, tested)
    ]
    return regular(*parts)


def regular(*parts):
    """A `Set` of series [c, T_i] and labels, for training and for testing; the longest has 1."""
    longest = max(series.shape[-1] for x, _ in parts for series in x)
    together = np.concatenate(list(parts[0][0]), axis=-1)
    mean, deviation = together.mean(-1), together.std(-1)
    labels = np.unique(parts[0][1])
    found = []
    for x, y in parts:
        values = [((series.T - mean) / deviation).astype(np.float32) for series in x]
        times = [((np.arange(len(v)) + 0.5) / longest)[:, None].astype(np.float32) for v in values]
        found.append(Part(observations(times, values, 0.0), np.searchsorted(labels, y)))
    return Set(*found, len(labels), (np.arange(longest) + 0.5) / longest)


def drop(x, share, rng, together=False):
    """Takes each reading away with the probability ``share``; one of an example stays."""
    return augmentation.thin(x, (1 - share, 1 - share), rng, whole=0.0, together=together)


def add_noise(x, deviation, rng):
    """Adds noise of a standard deviation to every reading, and its variance to what is told."""
    noise = deviation * rng.normal(size=x["values"].shape)
    seen = np.isfinite(x["variance"])
    dtype = x["values"].dtype
    return {
        **x,
        "values": np.where(seen, x["values"] + noise, 0.0).astype(dtype),
        "variance": (x["variance"] + deviation**2).astype(dtype),
    }


def kill_channels(x, rng):
    """Takes all readings of a third of the channels away, other ones in each example."""
    examples, _, channels = x["values"].shape
    if channels < 3:
        raise ValueError(f"a third of {channels} channels cannot be dead; three are needed.")
    order = np.argsort(rng.random((examples, channels)), axis=-1)
    dead = (order < channels // 3)[:, None]
    return {
        **x,
        "values": np.where(dead, 0, x["values"]),
        "variance": np.where(dead, np.inf, x["variance"]).astype(x["variance"].dtype),
    }


def scenario(name, x, seed, together=False):
    """Observations as a test scenario has them; the same for every model."""
    number = ON_WHOLE.index(name)
    rng = np.random.default_rng((seed, number))
    if name == "whole":
        return x
    if name.startswith("-"):
        return drop(x, float(name[1:-1]) / 100, rng, together)
    if name.startswith("noise"):
        return add_noise(x, float(name.split()[1]), rng)
    return kill_channels(x, rng)


def scenarios(trained, channels, together=False):
    """Names of the test scenarios of models trained on "whole", "half" or "fifth"."""
    if trained != "whole":
        return (ON_PART[trained][0],)
    return ON_WHOLE[: -1 if channels < 3 or together else None]


def training_part(data, trained, seed):
    """The training part, with a part of its readings where that is asked for."""
    if trained == "whole":
        return data.train
    rng = np.random.default_rng((seed, 100, list(ON_PART).index(trained)))
    x = drop(data.train.x, 1 - ON_PART[trained][1], rng, data.together)
    return Part(x, data.train.y)


def thinning(together):
    """Arguments of `tfpn.augmentation.thin` for training."""
    return {"together": together, "drop_channels": 0.0 if together else DROP_CHANNELS}


def thinned_copies(part, seed, together=False):
    """Each series once whole and seven times thinned, and the number of the series [B]."""
    rng = np.random.default_rng((seed, 200))
    options = {**thinning(together), "whole": 0.0}
    copies = [part.x, *(augmentation.thin(part.x, KEEP, rng, **options) for _ in range(COPIES - 1))]
    x = {key: np.concatenate([copy[key] for copy in copies]) for key in part.x}
    return Part(x, np.tile(part.y, COPIES)), np.tile(np.arange(len(part.y)), COPIES)


def interpolated(x, grid):
    """Series on regular times by linear interpolation, [B, c, T].

    Before a channel's first reading and after its last one the value stays; a channel without any
    is 0, its mean.
    """
    examples, _, channels = x["values"].shape
    result = np.zeros((examples, channels, len(grid)), np.float32)
    seen, times = np.isfinite(x["variance"]), x["points"][..., 0]
    for example, channel in zip(*np.nonzero(seen.any(1)), strict=True):
        some = seen[example, :, channel]
        order = np.argsort(times[example, some], kind="stable")
        result[example, channel] = np.interp(
            grid, times[example, some][order], x["values"][example, some, channel][order]
        )
    return result
