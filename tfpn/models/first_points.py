"""The first observed points of each example, at which a network's blocks may be evaluated."""

import math
import warnings
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfpn.checks import check_count
from tfpn.layers.base import GPLayer
from tfpn.math.missing import missing_mask, penalty
from tfpn.models.blocks import Block
from tfpn.types import Array, Config, Observations, Tensor

# `adapt` looks at so many examples. It warns if the first points of most spread over less than this
# part of the spread of all; ten random ones spread over 0.6 to 1.3 of it.
_EXAMPLES, _LEAST_SPREAD = 256, 0.35


def first_observed(data: Observations, number: int) -> tuple[Array, Array]:
    """Points and variances of each example's first observed points.

    Args:
        data: the observations dict of arrays.
        number: how many points; examples with fewer are filled up with unobserved ones.

    Returns:
        Points [B, min(number, N), d] and variances [B, min(number, N), c].

    Example:

    >>> points = np.arange(3.0).reshape(1, 3, 1)
    >>> variance = np.array([[[np.inf], [0.0], [0.0]]])
    >>> first_observed({"points": points, "variance": variance}, 2)[0].ravel().tolist()
    [1.0, 2.0]
    """
    unseen = ~np.isfinite(data["variance"]).any(axis=-1)
    order = np.argsort(unseen, axis=1, kind="stable")[:, :number, None]
    points, variance = (
        np.take_along_axis(np.asarray(data[key]), order, axis=1) for key in ("points", "variance")
    )
    return points, variance


def warn_of_order(data: Observations, number: int, stacklevel: int) -> None:
    """Warns if the first observed points fill a part of the region only, as rows of an image do.

    The spread of points is their standard deviation along each of the axes of inertia of all.
    """
    points, variance = (np.asarray(data[key])[:_EXAMPLES] for key in ("points", "variance"))
    seen = np.isfinite(variance).any(axis=-1, keepdims=True)
    points = np.where(seen, points, 0.0).astype(np.float64)
    points /= np.abs(points).max(initial=np.finfo(float).tiny)  # squares stay finite
    some = {"points": points, "variance": variance}
    every = _spread(points, variance)
    first = _spread(*first_observed(some, number), every[1])
    seen = every[0] > 1e-6 * every[0].max(axis=-1, keepdims=True)
    parts = np.where(seen, first[0] / np.where(seen, every[0], 1.0), np.inf).min(axis=-1)
    parts = parts[np.isfinite(parts)]
    if len(parts) and np.median(parts) < _LEAST_SPREAD:
        warnings.warn(
            f"the first {number} points of an example, at which num_query={number} evaluates the "
            "blocks, lie in a small part of the region of all its points: put points first that "
            f"are spread out, by tfpn.farthest_first(x, {number}), in training and prediction.",
            stacklevel=stacklevel + 1,
        )


def _spread(points, variance, axes=None):
    """Standard deviations of observed points along axes [B, d], and these axes [B, d, d]."""
    seen = np.isfinite(variance).any(axis=-1)[..., None]
    count = np.maximum(seen.sum(axis=1, keepdims=True), 1)
    centred = np.where(seen, points - points.sum(axis=1, keepdims=True) / count, 0.0)
    covariance = np.swapaxes(centred, 1, 2) @ centred / count
    if axes is None:
        axes = np.linalg.eigh(covariance)[1]
    squares = np.einsum("bij,bik,bkj->bj", axes, covariance, axes)
    return np.sqrt(np.maximum(squares, 0.0)), axes


class FirstPoints(GPLayer):
    """Each example's first ``number`` observed points [B, M, d], 0 in place of missing ones."""

    def __init__(self, number: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.number = check_count("number", number)

    def call(self, observations: Observations) -> Tensor:
        points, _, variance = self._unpack(observations)
        unseen = _unseen(variance)
        order = tf.argsort(unseen[..., 0], axis=1, stable=True)[:, : self.number]
        points, unseen = (tf.gather(tensor, order, batch_dims=1) for tensor in (points, unseen))
        return tf.where(unseen == 0.0, points, 0.0)

    def compute_output_spec(self, observations: Observations) -> Any:
        batch, count, dim = observations["points"].shape
        count = None if count is None else min(count, self.number)
        return keras.KerasTensor((batch, count, dim), self.algebra_dtype)

    def get_config(self) -> Config:
        return {**super().get_config(), "number": self.number}


class UnobservedPlaces(GPLayer):
    """Features at the points of `FirstPoints`, unobserved at those that examples do not have.

    These are the last ones: an example with n observed points has the first n.
    """

    def call(self, features: Observations, observations: Observations) -> dict[str, Tensor]:
        seen = 1.0 - _unseen(self._cast(observations["variance"]))
        count = tf.reduce_sum(seen, axis=1, keepdims=True)  # [B, 1, 1]
        places = tf.cast(tf.range(tf.shape(features["variance"])[1]), count.dtype)
        infinite = tf.where(places[:, None] < count, tf.zeros([], count.dtype), math.inf)
        return {**features, "variance": features["variance"] + infinite}

    def compute_output_spec(self, features: Observations, observations: Observations) -> Any:
        return self._spec_like(features, features["values"].shape[-1])


def _unseen(variance):
    """1 at points without an observed channel, 0 at others, [B, N, 1]."""
    return missing_mask(tf.reduce_min(penalty(variance), axis=-1, keepdims=True))


class FirstPointsBlock(Block):
    """The first block of a network that looks at the first points of each example.

    Args:
        convolution, following: as in `Block`.
        number: number of points.
        dtype: of the layers.
    """

    def __init__(self, convolution: Any, following: Any, number: int, dtype: Any) -> None:
        super().__init__(convolution, following)
        self._places = FirstPoints(number, dtype=dtype, name="first_points")
        self._mark = UnobservedPlaces(dtype=dtype, name="unobserved_places")

    def convolve(self, given: Any, query: Tensor | None = None) -> Any:
        if query is not None:
            return self.convolution(given, query)
        return self._mark(self.convolution(given, self._places(given)), given)
