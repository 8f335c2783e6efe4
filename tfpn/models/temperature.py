"""Calibration of classifiers: one temperature that divides all logits."""

from typing import Any

import keras
import numpy as np

from tfpn.types import Array, ArrayLike, Model, Observations

# Logarithms of the temperatures that are looked at: e^-7 is 1 in 1,100.
_RANGE = (-7.0, 7.0)


class Temperature(keras.layers.Layer):
    """``logits / temperature``, with a weight that `calibrate` sets; 1 at first."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)

    def build(self, logits_shape: Any) -> None:
        self.temperature = self.add_weight(
            name="temperature", shape=(), initializer="ones", trainable=False, autocast=False
        )

    def call(self, logits: Any) -> Any:
        return logits / self.temperature

    def load_own_variables(self, store: Any) -> None:
        """Keras's; models stored without this layer have the temperature 1."""
        if len(store):
            super().load_own_variables(store)


def calibrate_classifier(model: Model, x: Observations, y: ArrayLike, batch_size: int) -> None:
    """Sets the temperature of a classifier of the models (see `Predictive.calibrate`)."""
    classes = model.output.shape[-1]
    labels = _labels(y, len(x["points"]), classes)
    layer = model._temperature
    before = float(layer.temperature.numpy())
    probabilities = np.asarray(model.predict_proba(x, batch_size=batch_size), np.float64)
    # As if nothing had been calibrated before: the logarithms are divided by the temperature.
    logs = before * np.log(np.maximum(probabilities, np.finfo(np.float32).tiny))
    layer.temperature.assign(fit_temperature(logs, labels))


def fit_temperature(logits: Array, labels: Array) -> float:
    """The temperature T of largest posterior density for labels ~ softmax(logits / T).

    log T has a standard normal prior. It weighs as much as one example or so, and keeps T finite
    where every label is the most probable one.

    Args:
        logits: [B, K]; logarithms of probabilities will do.
        labels: class numbers [B].

    Example:

    Half of the labels are wrong, of which the logits are sure: T is large.

    >>> logits = np.array([[9.0, 0.0]] * 100)
    >>> fit_temperature(logits, np.arange(100) % 2) > 50
    True
    """
    from scipy import optimize, special

    def loss(log):
        scores = special.log_softmax(logits * np.exp(-log), axis=-1)
        return 0.5 * log**2 - np.sum(scores[np.arange(len(labels)), labels])

    # The likelihood alone has one maximum; a coarse look first, as the prior might add another.
    grid = np.linspace(*_RANGE, 57)
    best = grid[np.argmin([loss(log) for log in grid])]
    found = optimize.minimize_scalar(
        loss, bounds=(best - 0.25, best + 0.25), method="bounded", options={"xatol": 1e-6}
    )
    return float(np.exp(found.x))


def _labels(y, examples, classes):
    try:
        labels = np.asarray(y, np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"y must be an array of class numbers: {error}.") from error
    if labels.shape == (examples, 1):
        labels = labels[:, 0]
    if labels.shape != (examples,):
        raise ValueError(
            f"y has the shape {np.shape(y)}; give a class number for each of the {examples} "
            "examples of x."
        )
    wrong = ~((labels >= 0) & (labels < classes) & (labels == np.round(labels)))
    if wrong.any():
        index = int(np.argmax(wrong))
        raise ValueError(
            f"y is {labels[index]:g} for example {index}; give class numbers from 0 to "
            f"{classes - 1}."
        )
    return labels.astype(int)
