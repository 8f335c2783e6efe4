"""Measuring a trained model."""

import numpy as np

from tfpn.training.errors import RunError


def evaluate(model, part, *, batch_size=50):
    """Measures a classifier on one part of a data set (see `train` for an example).

    Args:
        model: a compiled or uncompiled Keras model whose output is logits [examples, classes].
        part: has `.x` (the observations) and `.y` (integer labels [examples]).
        batch_size: examples a batch.

    Returns:
        A dict: accuracy and error (fractions), nll (mean negative log likelihood of the true
        class, nats), examples.

    Raises:
        RunError: a logit is NaN or infinite.
    """
    logits = model.predict(part.x, batch_size=batch_size, verbose=0)
    labels = np.asarray(part.y)
    log_probabilities = _log_softmax(logits)
    correct = int(np.sum(log_probabilities.argmax(-1) == labels))
    return {
        "accuracy": correct / len(labels),
        "error": (len(labels) - correct) / len(labels),
        "nll": float(-np.mean(log_probabilities[np.arange(len(labels)), labels])),
        "examples": len(labels),
    }


def probabilities(logits):
    """Class probabilities, the softmax of logits [..., classes], in float64.

    Raises:
        RunError: a logit is NaN or infinite.

    >>> probabilities([[0.0, 0.0]])
    array([[0.5, 0.5]])
    """
    return np.exp(_log_softmax(logits))


def _log_softmax(logits):
    logits = np.asarray(logits, dtype=np.float64)
    if not np.isfinite(logits).all():
        raise RunError("the model's logits are not finite; its weights are broken")
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
