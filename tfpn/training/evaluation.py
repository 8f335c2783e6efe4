"""Measures a trained classifier."""

from typing import Any

import numpy as np
import scipy.special

from tfpn import evaluation, recipes
from tfpn.training.batches import cut, lengths
from tfpn.training.errors import RunError
from tfpn.types import Array, ArrayLike, Model, Observations

# Number of batches to read at once.
_BATCHES = 64


def evaluate(
    model: Model, part: Any, *, batch_size: int = 50, bins: int = evaluation.BINS
) -> dict[str, float]:
    """Measures a classifier on one part of a data set (see `train` for an example).

    Args:
        model: a model with ``predict_proba(x, batch_size=...)``, such as `tfpn.models.PNCNN`,
            compiled or not. For any other Keras model use
            `tfpn.evaluation.classification_metrics` and, for logits, `probabilities`.
        part: an object with `.x` (the observations), `.y` (integer labels [examples]) and, under
            their names, the model's further inputs.
        batch_size: number of examples in a batch.
        bins: number of bins of the calibration errors.

    Returns:
        The dict of `tfpn.evaluation.classification_metrics`: accuracy, error, nll, brier, ece,
        adaptive_ece, examples, and for two classes auroc and average_precision.

    Raises:
        RunError: if a probability is NaN.
    """
    found = class_probabilities(model, recipes.model_inputs(model, part), batch_size=batch_size)
    return evaluation.classification_metrics(found, part.y, bins)


def class_probabilities(model: Model, x: Observations, *, batch_size: int = 50) -> Array:
    """The class probabilities that measure a classifier, [B, classes] in float64.

    They come from ``model.predict_proba``. If the logits have a distribution, such as with a box as
    pooling, they are averaged over it. Otherwise they are the softmax of the logits.

    Args:
        model: as in `evaluate`.
        x: the observations dict.
        batch_size: number of examples in a batch.

    Raises:
        RunError: if a probability is NaN.

    Example:

    >>> import tfpn
    >>> x = tfpn.observations([[[0.2], [0.7]]], [[1.0, 2.0]])
    >>> model = tfpn.models.PNCNN(3, spatial_dim=1, channels=4, num_blocks=1, pooling=(0.0, 1.0))
    >>> class_probabilities(model, x).shape
    (1, 3)
    """
    size = len(x["variance"])
    found: Any = None
    at_once = _BATCHES * batch_size
    for group, length in _groups(x["variance"]):
        for start in range(0, len(group), at_once):
            chosen = group[start : start + at_once]
            some = cut({key: np.asarray(array[chosen]) for key, array in x.items()}, length)
            part = np.asarray(model.predict_proba(some, batch_size=batch_size), dtype=np.float64)
            found = np.zeros((size, part.shape[-1])) if found is None else found
            found[chosen] = part
    _check_finite(found)
    return found / found.sum(-1, keepdims=True)


def _groups(variance):
    """At most three groups of examples of similar length, each with its largest length.

    TensorFlow traces the model for each group, so more would not pay. There is one group if
    grouping would leave out little padding.
    """
    found = lengths(variance)
    if found.mean() > 0.7 * variance.shape[1]:
        return [(np.arange(len(found)), variance.shape[1])]
    parts = np.split(np.argsort(found, kind="stable"), [len(found) // 2, len(found) * 9 // 10])
    return [(part, max(1, found[part].max())) for part in parts if len(part)]


def probabilities(logits: ArrayLike) -> Array:
    """Class probabilities: the softmax of logits [..., classes], in float64.

    Raises:
        RunError: if a logit is NaN or infinite.

    >>> probabilities([[0.0, 0.0]])
    array([[0.5, 0.5]])
    """
    logits = np.asarray(logits, dtype=np.float64)
    _check_finite(logits)
    return scipy.special.softmax(logits, axis=-1)


def _check_finite(output):
    if not np.isfinite(output).all():
        raise RunError("the model's logits are not finite: its weights are broken; train it anew")
