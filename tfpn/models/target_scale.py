"""Offsets and scales of regression targets, and checks of targets before `fit`.

A network's raw outputs are of order 1, but targets may be temperatures in kelvin or incomes in
cents. So a model's outputs are ``offset + scale * raw``. Its loss subtracts the offset from targets
and outputs and divides both by the scale.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfpn.types import Array, ArrayLike, Layer, Model, Tensor

# Deviations and means of targets beyond this factor from 1 make training slow or impossible.
_FAR = 10.0


class TargetScale(keras.layers.Layer):
    """Outputs in the targets' unit: ``offset + scale * raw``, with weights that `adapt` sets.

    Args:
        blocks: for each output the number of the field that it is a component of. A field of one
            component has its own offset and scale. A rotation turns the components of any other
            field into each other, so they share one scale, and their offset is 0.

    The scale of a field of one component can be negative. Its sign makes the first target that
    clearly differs from the mean positive. So targets of the other sign train the same network.
    """

    # Whether outputs are means and variances, [..., 2].
    has_moments = False

    def __init__(self, blocks: Sequence[Any], **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        numbers = np.asarray(list(blocks))
        self._blocks = [np.flatnonzero(numbers == number) for number in np.unique(numbers)]
        self._size = len(blocks)

    def build(self, outputs_shape: Tensor) -> None:
        def weight(name):
            kind = "zeros" if name == "offset" else "ones"
            return self.add_weight(
                name=name, shape=(self._size,), initializer=kind, trainable=False, autocast=False
            )

        self.offset, self.scale = weight("offset"), weight("scale")

    def call(self, outputs: Any) -> Any:
        return self.offset + self.scale * outputs

    def load_own_variables(self, store: Any) -> None:
        """Keras's; the targets of models stored without this layer have the scale 1."""
        if len(store):
            super().load_own_variables(store)

    @property
    def is_fitted(self) -> bool:
        """Whether outputs differ from the raw ones."""
        return bool(np.any(self.offset.numpy() != 0.0) or np.any(self.scale.numpy() != 1.0))

    def standardised(self, y: Any, outputs: Any) -> Any:
        """Targets and outputs in units of the scale; as they are where their shapes disagree."""
        if len(getattr(y, "shape", ())) > 2 and y.shape[-2:] == (self._size, 1) and self._size > 1:
            y = y[..., 0]  # as Keras takes an axis of length 1 at the end
        if not (hasattr(y, "shape") and self._fits(y.shape)):
            return y, outputs
        offset, scale = (tf.cast(weight, outputs.dtype) for weight in (self.offset, self.scale))
        return (tf.cast(y, outputs.dtype) - offset) / scale, (outputs - offset) / scale

    def _fits(self, shape):
        # One output's targets may come without the last axis.
        return self._size == 1 or (len(shape) > 1 and shape[-1] == self._size)

    def statistics(self, targets: ArrayLike) -> tuple[Array, Array]:
        """Offsets and scales [outputs] of targets [..., outputs] in float64; NaN is left out."""
        rows = np.asarray(targets, np.float64).reshape(-1, self._size)
        offset, scale = np.zeros(self._size), np.ones(self._size)
        for block in self._blocks:
            found = rows[:, block][np.isfinite(rows[:, block])]
            if not found.size:
                continue
            largest = np.abs(found).max() or 1.0  # so that no square overflows
            mean = np.mean(found / largest) * largest if len(block) == 1 else 0.0
            spread = np.sqrt(np.mean(np.square((found - mean) / largest))) * largest
            offset[block] = mean
            if spread > 1e-12 * largest:  # otherwise all are the same up to the mean's rounding
                relative = (found - mean) / spread
                clear = relative[np.abs(relative) > 0.1][0]
                scale[block] = np.copysign(spread, clear) if len(block) == 1 else spread
        return offset, scale

    def adapt(self, targets: ArrayLike) -> None:
        """Sets offsets and scales to the targets' means and deviations (see `statistics`).

        Args:
            targets: numbers [..., outputs], or [...] for one output; NaN where nothing was
                measured.

        Raises:
            TypeError: if they are not numbers.
            ValueError: for another shape, infinite targets, an output without any, or a scale that
                the weights' dtype does not hold.

        Warns:
            UserWarning: if the dtype cannot tell the targets apart.
        """
        try:
            targets = np.asarray(targets, np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"targets must be an array of numbers: {error}.") from error
        if not targets.ndim or not targets.size or not self._fits(targets.shape):
            raise ValueError(
                f"targets has the shape {targets.shape}; the model has {self._size} output(s), "
                f"so give [..., {self._size}]."
            )
        if np.any(np.isinf(targets)):
            raise ValueError("targets holds infinity; give NaN for what was not measured.")
        rows = targets.reshape(-1, self._size)
        empty = np.flatnonzero(~np.isfinite(rows).any(0))
        if len(empty):
            raise ValueError(
                f"targets holds only NaN for the output(s) {empty.tolist()} (counted from 0): "
                "give at least one number for each."
            )
        offset, scale = self.statistics(rows)
        limits, size = np.finfo(self.scale.dtype), np.abs(scale)
        low, high = float(limits.tiny), 1e-3 * float(limits.max)
        beyond = np.abs(offset) > high
        if self.has_moments:  # variances hold the scale's square
            low, high = 1e3 * np.sqrt(low), np.sqrt(high)
        beyond |= (size < low) | (size > high)
        if np.any(beyond):
            raise ValueError(
                f"targets have the means {offset} and the deviations {size}, which "
                f"{self.scale.dtype} does not hold: give them in another unit."
            )
        if np.any(limits.eps * np.abs(offset) > 1e-3 * size):
            warnings.warn(
                f"targets have the means {offset} and the deviations {size}; "
                f"{self.scale.dtype} keeps less than three digits of what varies: subtract a "
                "constant from them, or use dtype='float64'.",
                stacklevel=4,
            )
        self.offset.assign(offset)
        self.scale.assign(scale)


def first_targets(batches: Any, layer: Layer, count: int = 256) -> Any:
    """Targets of the first ``count`` examples of a data set, [..., outputs], or None without any.

    Args:
        batches: a `tf.data.Dataset` or another iterable of tuples (x, targets, ...); elements
            without targets, or with targets of another shape, such as for a loss of the user's
            own, give None.
        layer: the `TargetScale`.
        count: number of examples.
    """
    rows, examples = [], 0
    for element in batches:
        if not isinstance(element, (tuple, list)) or len(element) < 2:
            return None
        y = element[1]
        if not (hasattr(y, "shape") and len(y.shape) and layer._fits(y.shape)):
            return None
        rows.append(np.asarray(y, np.float64).reshape(-1, layer._size))
        examples += y.shape[0]
        if examples >= count:
            break
    return np.concatenate(rows) if rows else None


def warn_before_fit(
    model: Model, layer: Layer, x: Any, y: Any, validation_split: float, validation_data: Any
) -> None:
    """Warns of targets far from unit scale, and of classes that only held-back data have.

    Args:
        model: the model.
        layer: its `TargetScale`, or None for a classifier.
        x, y, validation_split, validation_data: the arguments of its `fit`.
    """
    if layer is not None:
        _warn_of_scale(layer, x, y)
    elif model.get_config().get("num_classes"):
        _warn_of_lacking(y, validation_split, validation_data)


def _warn_of_scale(layer, x, y):
    if layer.is_fitted:
        return
    if y is None and isinstance(x, (tf.data.Dataset, keras.utils.PyDataset)):
        some = x.take(1) if isinstance(x, tf.data.Dataset) else (x[0] for _ in range(1))
        y = first_targets(some, layer, 1)
    try:
        y = np.asarray(y, np.float64)
    except (TypeError, ValueError):  # the check of the targets reports the error
        return
    if not y.ndim or not layer._fits(y.shape):
        return
    offset, scale = layer.statistics(y)
    scale = np.abs(scale)
    if np.any((scale > _FAR) | (scale < 1.0 / _FAR) | (np.abs(offset) > _FAR)):
        warnings.warn(
            f"the targets have the means {offset} and the deviations {scale}, but the model's "
            "outputs start at the scale 1, and training may not reach the targets from there: call "
            "adapt(x, targets) before fit, which gives the outputs the targets' means and "
            "deviations.",
            stacklevel=4,
        )


def _warn_of_lacking(y, split, validation_data):
    """Warns if the held-back part has a class that no training example has."""
    y = _labels(y)
    if y is None:
        return
    if validation_data is not None:
        pair = isinstance(validation_data, (tuple, list)) and len(validation_data) > 1
        held = _labels(validation_data[1]) if pair else None
        where = "validation_data has"
    else:
        start = int(np.floor(len(y) * (1.0 - split))) if split else len(y)
        y, held = y[:start], y[start:]
        where = f"validation_split={split} takes the last {len(held)} examples, which have"
    lacking = [] if held is None else np.setdiff1d(held, y).tolist()
    if lacking:
        warnings.warn(
            f"{where} the class(es) {lacking}, which no training example has: shuffle the "
            "examples before fit, x and y in one order, or split them class by class.",
            stacklevel=4,
        )


def _labels(y):
    """Class numbers of labels [B], [B, 1] or one of K [B, K]; None for anything else."""
    if not hasattr(y, "shape") or not len(y.shape):
        return None
    y = np.asarray(y)
    if y.dtype.kind not in "biuf":
        return None
    if y.ndim == 2 and y.shape[1] > 1:
        return y.argmax(-1)
    return y.ravel() if y.size == len(y) else None
