"""The end of a classifier or regressor: integral pooling and a linear head."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from tfpn.checks import check_count
from tfpn.layers import IntegralPooling
from tfpn.layers.integral_pooling import read_box, read_disc
from tfpn.types import DType, Layer, Pooling


def points_dtype(policy: DType) -> str:
    """Dtype of a model's inputs and outputs for a policy: there is no algebra in half precision."""
    return "float64" if policy.compute_dtype == "float64" else "float32"


def read_pooling(pooling: Pooling) -> Any:
    """ "space", a box as two lists or numbers, or a disc as a dict, which saving can write down."""
    if isinstance(pooling, str) and pooling == "space":
        return pooling
    try:
        if isinstance(pooling, Mapping):
            return read_disc(pooling)
        if not isinstance(pooling, str):
            return list(read_box(pooling))
    except ValueError:
        pass
    raise ValueError(
        "pooling must be 'space' or a box (low, high) with low < high, such as (0.0, 1.0), or a "
        "disc of the plane {'centre': (x, y), 'radius': r} with r > 0, "
        f"found {pooling!r}."
    )


def domain_unit(pooling: Any, dim: int) -> float | None:
    """The d-th root of the volume of a box or disc; None for the whole space."""
    if pooling == "space":
        return None
    if isinstance(pooling, dict):
        return np.sqrt(np.pi) * pooling["radius"]
    sides = np.subtract(*pooling[::-1]) * np.ones(dim)
    return np.prod(sides) ** (1.0 / dim)


def pooling_layer(pooling: Pooling, **arguments: Any) -> Any:
    """The `IntegralPooling` of a region from `read_pooling`; the arguments are the layer's."""
    domain: dict[str, Any] = {}
    if pooling != "space":
        domain = {"disc": pooling} if isinstance(pooling, dict) else {"box": pooling}
    # Features' variances are no measurement's: float32's least one does.
    return IntegralPooling(**domain, double_precision=False, **arguments)


def pooling_layers(pooling: Pooling, windows: int, **arguments: Any) -> list[Layer]:
    """The integrals over equal parts of the stay."""
    if windows == 1:
        return [pooling_layer(pooling, name="pooling", **arguments)]
    box: Any = pooling
    low, high = box
    unit = (high - low) / windows
    return [
        pooling_layer(
            [low + unit * part, low + unit * (part + 1)],
            unit=unit,
            name=f"pooling_{part + 1}",
            **arguments,
        )
        for part in range(windows)
    ]


def linear_head(units: int | None, dtype: DType) -> Any:
    """A linear map "head" of pooled means; None without units."""
    if units is None:
        return None
    return keras.layers.Dense(
        # In full precision under a mixed policy: these are the logits.
        check_count("num_classes or num_outputs", units),
        dtype=points_dtype(keras.dtype_policies.get(dtype)),
        name="head",
    )
