"""Keras metrics for the outputs of the models."""

import math
from typing import Any

import keras
import tensorflow as tf

from tfpn.types import ArrayLike, Tensor


@keras.saving.register_keras_serializable(package="tfpn")
class BinaryAUC(keras.metrics.AUC):
    """Keras's area under a curve for models with two logits and labels 0 and 1.

    The curve ranks examples by the probability of class 1, or by any function that grows with it.
    This metric takes a function of the logits' difference that keeps very sure predictions apart.
    Thresholds that are evenly spaced in the probability would merge them.

    Args:
        num_thresholds: number of thresholds, which sets the resolution of the curve.
            `tfpn.evaluation.classification_metrics` takes one threshold for each example.
        curve: "ROC" or "PR" (precision and recall).
        **kwargs: as in `keras.metrics.AUC`.

    Example:

    >>> metric = BinaryAUC()
    >>> metric.update_state([0, 1, 1], [[1.0, 0.0], [0.0, 2.0], [2.0, 0.0]])
    >>> float(metric.result())
    0.5
    """

    def __init__(self, num_thresholds: int = 1000, curve: str = "ROC", **kwargs: Any) -> None:
        super().__init__(num_thresholds, curve, **kwargs)

    def update_state(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: ArrayLike | None = None
    ) -> Any:
        """Adds a batch: labels [B] or [B, 1] and logits [B, 2]."""
        y_true, y_pred = tf.reshape(y_true, [-1]), tf.convert_to_tensor(y_pred)
        score = 0.5 + tf.math.atan(0.5 * (y_pred[:, 1] - y_pred[:, 0])) / math.pi
        return super().update_state(y_true, score, sample_weight)
