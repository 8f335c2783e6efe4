"""A grid of points in a region, at which a network's blocks are evaluated."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfpn.checks import check_count
from tfpn.layers.base import GPLayer
from tfpn.types import Array, Observations

OBSERVED = "observed"


def read_grid(query: Any, pooling: Any) -> Any:
    """Checks `PNCNN`'s ``query``: "observed", or a number of points along each axis.

    Raises:
        ValueError: for anything else, or for a number without a box, disc or ball.
    """
    if isinstance(query, str) and query == OBSERVED:
        return query
    try:
        query = check_count("query", query)
    except ValueError as error:
        raise ValueError(
            f"query must be {OBSERVED!r} or a positive whole number of points along each axis, "
            f"found {query!r}."
        ) from error
    if pooling == "space":
        raise ValueError(
            f"query={query} is a grid of a region: give a box, disc or ball as pooling, such as "
            f"(0, 1), or query={OBSERVED!r}."
        )
    return query


def grid(pooling: Any, dim: int, count: int) -> tuple[Array, float]:
    """Middles of equal parts of a box or around a disc or ball, and the largest step between them.

    Args:
        pooling: a box, disc or ball from `read_pooling`.
        dim: d.
        count: number of parts along each axis.

    Returns:
        Points [M, d], and the step. A box has ``count^d`` points, a disc or ball those within it.

    Example:

    >>> points, step = grid([0.0, 1.0], 1, 2)
    >>> points.tolist(), step
    ([[0.25], [0.75]], 0.5)
    """
    if isinstance(pooling, dict):
        middle, half = np.asarray(pooling["centre"]), pooling["radius"]
        low, high = middle - half, middle + half
    else:
        low, high = (np.broadcast_to(np.asarray(side, float), [dim]) for side in pooling)
    parts = (np.arange(count) + 0.5) / count
    axes = [low[axis] + (high[axis] - low[axis]) * parts for axis in range(dim)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dim)
    if isinstance(pooling, dict):
        points = points[np.sum(np.square(points - middle), axis=-1) <= half**2]
    return points, float(np.max(high - low) / count)


class QueryGrid(GPLayer):
    """The same points [M, d] for every example, [B, M, d]."""

    def __init__(self, grid_points: Array, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._points = np.asarray(grid_points)

    def call(self, observations: Observations) -> Any:
        points = tf.constant(self._points, self.algebra_dtype)[None]
        return tf.tile(points, [tf.shape(observations["values"])[0], 1, 1])

    def compute_output_spec(self, observations: Observations) -> Any:
        batch = observations["values"].shape[0]
        return keras.KerasTensor((batch, *self._points.shape), dtype=self.algebra_dtype)
