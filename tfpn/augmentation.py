"""Random changes of training examples that keep their labels."""

import math
import numbers
from typing import Any

import numpy as np

from tfpn.contract import check_observations
from tfpn.types import Array, Observations


def jitter(
    x: Observations,
    rng: np.random.Generator,
    *,
    rotation: float = 0.0,
    shift: float = 0.0,
    scale: float = 0.0,
    shear: float = 0.0,
) -> dict[str, Array]:
    """Moves the points of each example by a random affine map of its own.

    With m the mean of an example's observed points, a point p becomes A (p - m) + m + t, where

        A = [[cos a, -sin a], [sin a, cos a]] [[1, h], [0, 1]] diag(s_1, s_2)        (d = 2)
        A = diag(s_1, ..., s_d)                                                (any other d)

    and a, h, each coordinate of t and the logarithm of each s_i are drawn independently and
    uniformly from [-range, range], the range being `rotation`, `shear`, `shift` and `scale`.
    Values and variances stay as they are, and so does padding: a point at which no channel is
    observed is not moved.

    Args:
        x: Observations, a dict of arrays "points" [B, N, d], "values" [B, N, c] and "variance"
            [B, N, c]. They are not changed.
        rng: A `numpy.random.Generator`; what it gives next determines the result.
        rotation: Range of the angle a in radians; d = 2 only.
        shift: Range of each coordinate of t, in the units of the points.
        scale: Range of log s_i: 0.05 lets each axis shrink or grow by about 5 %.
        shear: Range of h; d = 2 only.

    Returns:
        Observations of the same shapes and dtypes: new points, and the values and variances of
        `x` themselves.

    Raises:
        TypeError, ValueError: if `x` are not observations (`tfpn.contract.check_observations`).
        TypeError: if a range is not a number.
        ValueError: if a range is negative, NaN or infinite, if `rotation` or `shear` is not 0 and d
            is not 2, or if moved points are too large for their dtype.

    Example:
        >>> import numpy as np
        >>> import tfpn
        >>> x = tfpn.observations([[[0.0, 0.0], [1.0, 0.0]]], [[3.0, 4.0]])
        >>> moved = tfpn.augmentation.jitter(x, np.random.default_rng(0), rotation=0.1)
        >>> bool(np.isclose(np.linalg.norm(moved["points"][0, 1] - moved["points"][0, 0]), 1))
        True
        >>> moved["points"].mean(axis=1)  # A rotation keeps the centre.
        array([[0.5, 0. ]])
    """
    ranges = {"rotation": rotation, "shift": shift, "scale": scale, "shear": shear}
    for name, value in ranges.items():
        check_range(name, value)
    x = check_observations(x)
    points = x["points"]
    num_examples, _, dim = points.shape
    for name in ("rotation", "shear"):
        if dim != 2 and ranges[name]:
            raise ValueError(
                f"{name}: found {ranges[name]} for points in {dim} dimensions; it is defined in "
                "2 dimensions only, leave it at 0."
            )

    observed = ~np.isposinf(x["variance"]).all(axis=-1, keepdims=True)
    count = np.maximum(observed.sum(axis=1, keepdims=True), 1)
    centre = np.where(observed, points, 0).sum(axis=1, keepdims=True, dtype=np.float64) / count

    # Everything is drawn whatever the ranges are, so that one range does not alter the others.
    angle, skew = rng.uniform(-1, 1, (2, num_examples)) * [[rotation], [shear]]
    factors = np.exp(scale * rng.uniform(-1, 1, (num_examples, 1, dim)))
    offset = shift * rng.uniform(-1, 1, (num_examples, 1, dim))
    moved = (points - centre) * factors
    if dim == 2:
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        first, second = moved[..., 0] + skew[:, None] * moved[..., 1], moved[..., 1]
        moved = np.stack([cos * first - sin * second, sin * first + cos * second], axis=-1)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = np.where(observed, (moved + centre + offset).astype(points.dtype), points)
    if not np.isfinite(moved).all():
        raise ValueError(
            f"the moved points are too large for {points.dtype}; give smaller ranges or points."
        )
    return {**x, "points": moved}


def check_range(name: str, value: Any) -> None:
    """Checks that a range of `jitter` is a finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}: found {value!r}; give a number.")
    if not 0 <= float(value) < math.inf:
        raise ValueError(f"{name}: found {value!r}; give a finite number of at least 0.")
