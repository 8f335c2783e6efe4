"""The end of a classifier or regressor: integral pooling and a linear head."""

import keras
import numpy as np

from tfpn.layers import IntegralPooling
from tfpn.layers.base import check_count
from tfpn.layers.integral_pooling import read_box, read_disc


def points_dtype(policy):
    """Dtype of a model's inputs and outputs for a policy: there is no algebra in half precision."""
    return "float64" if policy.compute_dtype == "float64" else "float32"


def read_pooling(pooling):
    """ "space", a box as two lists or numbers, or a disc as a dict, which saving can write down."""
    if isinstance(pooling, str) and pooling == "space":
        return pooling
    try:
        if isinstance(pooling, dict):
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


def domain_unit(pooling, dim):
    """The d-th root of the volume of a box or disc; None for the whole space."""
    if pooling == "space":
        return None
    if isinstance(pooling, dict):
        return np.sqrt(np.pi) * pooling["radius"]
    sides = np.subtract(*pooling[::-1]) * np.ones(dim)
    return np.prod(sides) ** (1.0 / dim)


def pool_and_head(features, pooling, units, *, dtype, **arguments):
    """Integral pooling of the last block's features, and a linear head on the means.

    Args:
        features: symbolic observations.
        pooling: from `read_pooling`.
        units: number of outputs, or None for no head.
        dtype: name of the layers' policy.
        arguments: of `IntegralPooling`.

    Returns:
        The pooled dict, and the model's output.
    """
    pooled = integrate_features(features, pooling, dtype=dtype, name="pooling", **arguments)
    return pooled, pooled if units is None else linear_head(pooled, units, dtype)


def integrate_features(features, pooling, **arguments):
    """The pooled dict; ``pooling`` from `read_pooling`, the arguments those of the layer."""
    domain = {}
    if pooling != "space":
        domain = {"disc": pooling} if isinstance(pooling, dict) else {"box": pooling}
    # Features' variances are no measurement's: float32's least one does.
    return IntegralPooling(**domain, double_precision=False, **arguments)(features)


def linear_head(pooled, units, dtype):
    """A linear map "head" of the pooled means."""
    head = keras.layers.Dense(
        # In full precision under a mixed policy: these are the logits.
        check_count("num_classes or num_outputs", units),
        dtype=points_dtype(keras.dtype_policies.get(dtype)),
        name="head",
    )
    return head(pooled["values"])
