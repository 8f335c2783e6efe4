"""Keras metrics for what the models put out."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable(package="tfpn")
class BinaryAUC(keras.metrics.AUC):
    """Keras's area under a curve for models with two logits and labels 0 and 1.

    It is that of class 1 by its probability, the softmax of the logits.

    Args:
        curve: "ROC" or "PR" (precision and recall).
        **kwargs: as in `keras.metrics.AUC`, whose `num_thresholds` says how finely the curve is
            resolved; `tfpn.evaluation.classification_metrics` takes every example for one.

    Example:

    >>> metric = BinaryAUC()
    >>> metric.update_state([0, 1, 1], [[1.0, 0.0], [0.0, 2.0], [2.0, 0.0]])
    >>> float(metric.result())
    0.5
    """

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds labels [B] or [B, 1] and logits [B, 2]."""
        y_true = tf.reshape(y_true, [-1])
        return super().update_state(y_true, tf.nn.softmax(y_pred)[:, 1], sample_weight)
