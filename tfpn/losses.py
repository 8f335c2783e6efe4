"""Losses for predicted means and variances, of fields or of any normal prediction.

A prediction holds two numbers for each target, a mean and a variance: [..., 2]. A target of NaN was
not measured. The functions here give 0 for it. Models with ``output="field"`` take the mean over
the measured targets.
"""

import math
from typing import Any

import keras
import tensorflow as tf

from tfpn.checks import floating
from tfpn.types import Tensor

# A smaller variance counts as this one: otherwise the likelihood has no bound.
_LEAST_VARIANCE = 1e-10


def gaussian_nll(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """``1/2 [log(2 pi v) + (y - m)^2 / v]``, the negative log likelihood of a normal prediction.

    Args:
        y_true: targets [...] or [..., 1]; NaN where not measured.
        y_pred: means and variances, [..., 2].

    Returns:
        [...], 0 where a target is NaN.

    Raises:
        ValueError: if the last axis of ``y_pred`` does not have the length 2, or if the targets
            have another shape.

    Example:

    >>> from tfpn.losses import gaussian_nll
    >>> gaussian_nll([0.0, float("nan")], [[0.0, 1.0], [5.0, 1.0]]).numpy().round(4).tolist()
    [0.9189000129699707, 0.0]
    """
    y, mean, variance, measured = _parts(y_true, y_pred)
    variance = tf.maximum(variance, _LEAST_VARIANCE)
    loss = tf.math.log(2.0 * math.pi * variance) + tf.square(y - mean) / variance
    return tf.where(measured, 0.5 * loss, 0.0)


def crps(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """Continuous ranked probability score of a normal prediction, in the targets' unit.

    With ``z = (y - m) / s`` it is ``s [z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)]``. This is the
    integral of the squared difference between the predicted distribution function and the step at
    y. For s -> 0 it becomes the absolute error. Outliers affect it less than the likelihood.

    Args:
        y_true, y_pred: as in `gaussian_nll`.

    Returns:
        [...], 0 where a target is NaN.

    Raises:
        ValueError: as `gaussian_nll`.

    References:
        Gneiting and Raftery, Strictly proper scoring rules, prediction, and estimation, JASA 2007.

    Example:

    >>> from tfpn.losses import crps
    >>> round(float(crps([1.0], [[1.0, 1.0]])[0]), 4)
    0.2337
    """
    y, mean, variance, measured = _parts(y_true, y_pred)
    deviation = tf.sqrt(tf.maximum(variance, _LEAST_VARIANCE))
    z = (y - mean) / deviation
    density = tf.exp(-0.5 * tf.square(z)) / math.sqrt(2.0 * math.pi)
    loss = z * tf.math.erf(z / math.sqrt(2.0)) + 2.0 * density - 1.0 / math.sqrt(math.pi)
    return tf.where(measured, deviation * loss, 0.0)


def squared_error(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """``(y - m)^2``, from the means alone; arguments and result as in `gaussian_nll`.

    Example:

    >>> from tfpn.losses import squared_error
    >>> squared_error([3.0], [[1.0, 0.5]]).numpy().tolist()
    [4.0]
    """
    y, mean, _, measured = _parts(y_true, y_pred)
    return tf.where(measured, tf.square(y - mean), 0.0)


def _parts(y_true, y_pred):
    """Targets (0 for NaN), means, variances, and whether a target was measured, each [...]."""
    y_pred = floating(y_pred, "y_pred") if not tf.is_tensor(y_pred) else y_pred
    if not y_pred.shape.rank or y_pred.shape[-1] != 2:
        raise ValueError(
            f"y_pred has the shape {tuple(y_pred.shape)}; give means and variances, [..., 2], "
            "such as a model with output='normal' or output='field' predicts."
        )
    mean, variance = y_pred[..., 0], y_pred[..., 1]
    y = tf.cast(tf.convert_to_tensor(y_true), y_pred.dtype)
    if y.shape.rank == y_pred.shape.rank and y.shape[-1] in (None, 1):
        y = tf.squeeze(y, -1)
    if not y.shape.is_compatible_with(mean.shape):  # in place of broadcasting
        raise ValueError(
            f"y_true has the shape {tuple(y.shape)} and y_pred {tuple(y_pred.shape)}; give one "
            f"target for each mean and variance, {tuple(mean.shape)}."
        )
    measured = ~tf.math.is_nan(y)
    return tf.where(measured, y, tf.stop_gradient(mean)), mean, variance, measured


class _Moments(keras.losses.Loss):
    """The base of losses that a function of means and variances defines."""

    fn: Any = None

    def __init__(self, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name=name or self.fn.__name__, **kwargs)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return self.fn(y_true, y_pred)


@keras.saving.register_keras_serializable(package="tfpn")
class GaussianNLL(_Moments):
    """`gaussian_nll` as a Keras loss.

    Example:

    >>> import tfpn
    >>> round(float(tfpn.losses.GaussianNLL()([1.0], [[0.0, 1.0]])), 4)
    1.4189
    """

    fn = staticmethod(gaussian_nll)


@keras.saving.register_keras_serializable(package="tfpn")
class CRPS(_Moments):
    """`crps` as a Keras loss.

    Example:

    >>> import tfpn
    >>> round(float(tfpn.losses.CRPS()([1.0], [[1.0, 1.0]])), 4)
    0.2337
    """

    fn = staticmethod(crps)


@keras.saving.register_keras_serializable(package="tfpn")
class SquaredError(_Moments):
    """`squared_error` as a Keras loss.

    Example:

    >>> import tfpn
    >>> float(tfpn.losses.SquaredError()([3.0], [[1.0, 1.0]]))
    4.0
    """

    fn = staticmethod(squared_error)


FUNCTIONS = (gaussian_nll, crps, squared_error)
