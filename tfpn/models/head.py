"""The end of a classifier or regressor: integral pooling and a linear head."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfpn.checks import check_count
from tfpn.layers import IntegralPooling
from tfpn.layers.integral_pooling import BALLS, read_ball, read_box
from tfpn.math.kernels.balls import ball_volume
from tfpn.math.uncertainty import UNCERTAINTY
from tfpn.models.normal_head import NormalHead
from tfpn.types import Config, DType, Layer, Pooling, Tensor

# The names of regions with a centre, by its number of coordinates.
_BALLS = {size: name for name, size in BALLS.items()}


def points_dtype(policy: DType) -> str:
    """The dtype of a model's inputs and outputs for a policy; it is never half precision."""
    return "float64" if policy.compute_dtype == "float64" else "float32"


def read_pooling(pooling: Pooling) -> Any:
    """Reads "space", a box as two lists or numbers, or a disc or ball as a dict, for saving."""
    if isinstance(pooling, str) and pooling == "space":
        return pooling
    try:
        if isinstance(pooling, Mapping):
            name = _BALLS.get(len(pooling["centre"]), "disc")
            return read_ball(name, pooling)
        if not isinstance(pooling, str):
            return list(read_box(pooling))
    except (KeyError, TypeError, ValueError):
        pass
    raise ValueError(
        "pooling must be 'space' or a box (low, high) with low < high, such as (0.0, 1.0), or a "
        "disc of the plane {'centre': (x, y), 'radius': r} or a ball in space "
        "{'centre': (x, y, z), 'radius': r} with r > 0, "
        f"found {pooling!r}."
    )


def domain_unit(pooling: Any, dim: int) -> float | None:
    """The d-th root of the volume of a box, disc or ball; None for the whole space."""
    if pooling == "space":
        return None
    if isinstance(pooling, dict):
        return ball_volume(1.0, dim) ** (1.0 / dim) * pooling["radius"]
    sides = np.subtract(*pooling[::-1]) * np.ones(dim)
    return np.prod(sides) ** (1.0 / dim)


def pooling_layer(pooling: Pooling, **arguments: Any) -> Any:
    """The `IntegralPooling` of a region from `read_pooling`; the arguments are the layer's."""
    domain: dict[str, Any] = {}
    if isinstance(pooling, dict):
        domain = {_BALLS[len(pooling["centre"])]: pooling}
    elif pooling != "space":
        domain = {"box": pooling}
    # Features' variances are not those of measurements, so the least variance of float32 suffices.
    return IntegralPooling(**domain, double_precision=False, **arguments)


def pooling_layers(pooling: Pooling, windows: int, *, stream: int, **arguments: Any) -> list[Layer]:
    """The integrals over equal parts of the stay, with draws of the streams from ``stream`` on."""
    if windows == 1:
        return [pooling_layer(pooling, name="pooling", stream=stream, **arguments)]
    box: Any = pooling
    low, high = box
    unit = (high - low) / windows
    return [
        pooling_layer(
            [low + unit * part, low + unit * (part + 1)],
            unit=unit,
            stream=stream + part,
            name=f"pooling_{part + 1}",
            **arguments,
        )
        for part in range(windows)
    ]


class OverDraws(keras.layers.Layer):
    """Turns the outputs of every draw [B, S, outputs] into those of their mixture [B, outputs].

    Args:
        num_classes: number of logits. They become those of the draws' mean probabilities: the log
            of the mean softmax, or for a single class the logit of the mean sigmoid. None gives the
            mean of the outputs.
    """

    def __init__(self, num_classes: int | None = None, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.num_classes = num_classes

    def call(self, outputs: Tensor) -> Tensor:
        if self.num_classes is None:
            return tf.reduce_mean(outputs, axis=1)
        if self.num_classes == 1:
            yes, no = (tf.reduce_logsumexp(tf.math.log_sigmoid(t), 1) for t in (outputs, -outputs))
            return yes - no
        count = tf.cast(tf.shape(outputs)[1], outputs.dtype)
        logs = tf.nn.log_softmax(outputs, axis=-1)
        return tf.reduce_logsumexp(logs, axis=1) - tf.math.log(count)

    def compute_output_spec(self, outputs: Tensor) -> Any:
        batch, _, size = outputs.shape
        return keras.KerasTensor((batch, size), dtype=outputs.dtype)

    def get_config(self) -> Config:
        return {**super().get_config(), "num_classes": self.num_classes}


def pooled_outputs(
    pooled: Any,
    *,
    num_classes: int | None,
    num_outputs: int | None,
    output: str,
    pooling: Any,
    uncertainty: str,
    dtype: DType,
) -> tuple[Layer | None, Any, Any]:
    """The layer "head", a linear map of pooled features, and the symbolic outputs that it gives.

    Args:
        pooled: the symbolic dict of pooled features.
        num_classes, num_outputs, output, uncertainty: as in the models.
        pooling: from `read_pooling`.
        dtype: policy of the model.

    Returns:
        The head, None if there are neither classes nor outputs; the outputs; and the numbers of the
        outputs whose variance may be calibrated, or None if they have no finite one.
    """
    units = num_classes if num_outputs is None else num_outputs
    if units is None:
        return None, pooled, None
    units = check_count("num_classes or num_outputs", units)
    way = UNCERTAINTY[uncertainty]()
    # In full precision under a mixed policy: these are the logits.
    layer: dict[str, Any] = {"dtype": points_dtype(keras.dtype_policies.get(dtype)), "name": "head"}
    bounded = pooling != "space" or way.keeps_over_space
    calibrated = range(units) if num_outputs is not None and bounded else None
    features = pooled[way.key] if way.draws else pooled["values"]
    if output == "normal":
        normal = NormalHead(units, **layer)
        spread = pooled["variance"] if bounded and not way.draws else None
        return normal, normal(features, spread), range(units)
    head = keras.layers.Dense(units, **layer)
    outputs = head(features)
    if way.draws:
        outputs = OverDraws(num_classes, dtype=head.dtype_policy, name="over_draws")(outputs)
    return head, outputs, calibrated
