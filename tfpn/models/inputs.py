"""A model's symbolic inputs, and checks of the data that it starts from."""

import warnings
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from tfpn.types import Array, DType, Tensor

# `adapt` warns of a channel whose mean is so many standard deviations from 0, because the fitted
# noise then shows the mean. The second number is the relative deviation of a constant in float32.
_FAR = 10.0
_ROUNDING = 1e-7
# Largest ratio of root mean squares for one prior: fitted noise is at least 1e-3 of the largest.
_UNLIKE = 1e2
# Points are merged if a dtype moves most by this part of their spacing, and tells no more than that
# part of a coordinate's values apart.
_MOVED = 0.1
_APART = 0.9


def are_merged(places: Array, spacing: float, dtype: Any) -> bool:
    """Whether a dtype makes one of several values of a coordinate, at the points' spacing.

    Args:
        places: observed points [n, d].
        spacing: their `tfpn.spacing.point_spacing`.
        dtype: the model's.

    >>> near = np.linspace(0.0, 9.5, 20)[:, None]
    >>> are_merged(1e7 + near, 0.5, "float32"), are_merged(near, 0.5, "float32")
    (True, False)
    """
    places = np.asarray(places, np.float64)
    rounded = places.astype(dtype)
    moved = np.median(np.abs(rounded - places), axis=0)
    return any(
        shift > _MOVED * spacing and len(np.unique(found)) < _APART * len(np.unique(column))
        for column, found, shift in zip(places.T, rounded.T, moved, strict=True)
    )


def network_inputs(dim: int, channels: int, dtype: DType, query: bool = False) -> dict[str, Any]:
    """Symbolic inputs by name: points, values, variance and, with ``query``, query points."""
    sizes = {"points": dim, "values": channels, "variance": channels}
    if query:
        sizes["query"] = dim
    return {key: keras.Input((None, size), dtype=dtype, name=key) for key, size in sizes.items()}


def check_shared(variance: Tensor) -> None:
    """Raises ValueError if a point is observed in some channels only."""
    observed = np.isfinite(variance)
    if np.any(observed.any(-1) != observed.all(-1)):
        raise ValueError(
            "some points are observed in some channels only, which input_noise='shared' cannot "
            "represent: build the model with input_noise='channel'."
        )


def warn_of_unequal(variance: Array) -> None:
    """Warns if the channels of some points differ in variance by more than a tenth."""
    known = variance[np.isfinite(variance).all(-1)]
    low, high = known.min(-1), known.max(-1)
    if np.any(low < 0.9 * high):
        warnings.warn(
            "the channels of some points have different variances, and input_noise='shared' takes "
            "their mean: build the model with input_noise='channel' to keep them apart.",
            stacklevel=3,
        )


def warn_of_offsets(values: Array, variance: Array, channels: Sequence[int]) -> None:
    """Warns of channels whose mean is further from 0 than `_FAR` of their standard deviations."""
    far = []
    for channel in channels:
        readings = values[..., channel][np.isfinite(variance[..., channel])].astype(np.float64)
        if readings.size < 2:
            continue
        # The unit is the largest reading, whose square may overflow.
        largest = np.abs(readings).max() or 1.0
        mean, deviation = (readings / largest).mean(), (readings / largest).std()
        # A constant has only the deviation of its rounding.
        if _ROUNDING * abs(mean) < deviation < abs(mean) / _FAR:
            far.append(f"{channel} ({largest * mean:.3g}, {largest * deviation:.3g})")
    if far:
        warnings.warn(
            "values: these channels have means far from 0 (mean, standard deviation): "
            f"{', '.join(far)}. The priors have the mean 0, so a large mean hides what varies: "
            "subtract a constant from each channel, the same in training and prediction.",
            stacklevel=3,
        )


def warn_of_sizes(values: Array, variance: Array) -> None:
    """Warns if the largest of the channels with one prior is `_UNLIKE` times the smallest."""
    sizes = {}
    for channel in range(values.shape[-1]):
        readings = values[..., channel][np.isfinite(variance[..., channel])].astype(np.float64)
        largest = np.abs(readings).max(initial=0.0)
        if largest:
            sizes[channel] = largest * np.sqrt(np.mean(np.square(readings / largest)))
    if not sizes:
        return
    low, high = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
    if sizes[high] > _UNLIKE * sizes[low]:
        warnings.warn(
            f"values: the root mean square is {sizes[high]:.3g} in channel {high} and "
            f"{sizes[low]:.3g} in channel {low}. One prior serves both, so the small one looks "
            "like noise: scale each channel to a spread of about 1, the same in training and "
            "prediction.",
            stacklevel=3,
        )


def warn_of_squares(spread: Array, dtype: str) -> None:
    """Warns of channels whose variance the dtype cannot hold, which outputs and losses need."""
    kind = np.finfo(dtype)
    bad = [k for k, s in enumerate(spread) if not 1e6 * kind.tiny < s**2 < 1e-6 * kind.max]
    if bad:
        warnings.warn(
            f"values: the standard deviation of channel {bad[0]} is {spread[bad[0]]:.3g}, whose "
            f"square {dtype} cannot hold with its digits. predict_field is right, but predict, fit "
            "and losses need the variance: give the values in another unit.",
            stacklevel=4,
        )


def first_examples(dataset: Any, count: int = 256) -> dict[str, Array]:
    """The first ``count`` examples of a batched data set as one dict."""
    batches, examples = [], 0
    for element in dataset:
        batch = element[0] if isinstance(element, (tuple, list)) else element
        if len(batch["points"].shape) != 3:
            raise ValueError(
                f"adapt needs a batched data set; its points have shape {batch['points'].shape}, "
                "expected [B, N, d]: call .batch() on it."
            )
        batches.append({key: np.asarray(value) for key, value in batch.items()})
        examples += len(batches[-1]["points"])
        if examples >= count:
            break
    if not batches:
        raise ValueError(
            "adapt: the data set has no examples; check its source, and that no filter, take or "
            "skip leaves nothing."
        )
    size = max(batch["points"].shape[1] for batch in batches)

    def padded(array, fill):
        return np.pad(array, [(0, 0), (0, size - array.shape[1]), (0, 0)], constant_values=fill)

    fills = {"points": 0.0, "values": 0.0, "variance": np.inf}
    return {
        key: np.concatenate([padded(batch[key], fill) for batch in batches])
        for key, fill in fills.items()
    }
