"""Calibration of classifiers: a temperature that divides all logits, and offsets of the classes."""

from typing import Any

import keras
import numpy as np

from tfpn.models.targets import read_targets
from tfpn.types import Array, ArrayLike, Model, Observations, Verbose


class Temperature(keras.layers.Layer):
    """``logits / temperature + offsets``, with weights that `calibrate` sets; 1 and 0 at first."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)

    def build(self, logits_shape: Any) -> None:
        options = {"trainable": False, "autocast": False}
        self.temperature = self.add_weight(
            name="temperature", shape=(), initializer="ones", **options
        )
        self.offsets = self.add_weight(
            name="offsets", shape=(logits_shape[-1],), initializer="zeros", **options
        )

    def call(self, logits: Any) -> Any:
        return logits / self.temperature + self.offsets

    def load_own_variables(self, store: Any) -> None:
        """Keras's; models stored without this layer have the temperature 1."""
        if len(store):
            super().load_own_variables(store)

    @property
    def numbers(self) -> tuple[float, Array]:
        """Temperature and offsets [K] in float64."""
        return float(self.temperature.numpy()), np.asarray(self.offsets, np.float64)

    def calibrated(self, probabilities: Array) -> Array:
        """Turns probabilities of the logits before this layer into those after it, [B, K]."""
        temperature, offsets = self.numbers
        if temperature == 1.0 and not offsets.any():
            return probabilities
        # The largest is 1, so that no power of all classes is 0.
        relative = probabilities / probabilities.max(-1, keepdims=True)
        powers = relative ** (1.0 / temperature) * np.exp(offsets - offsets.max())
        return (powers / powers.sum(-1, keepdims=True)).astype(probabilities.dtype)


def calibrate_classifier(
    model: Model, x: Observations, y: ArrayLike, batch_size: int, offsets: bool, verbose: Verbose
) -> None:
    """Sets the temperature of a classifier of the models (see `Predictive.calibrate`)."""
    labels = _labels(y, len(x["points"]), model.output.shape[-1])
    layer = model._temperature
    found = model.predict_proba(x, batch_size=batch_size, verbose=verbose)
    probabilities = np.asarray(found, np.float64)
    # An earlier calibration does not count.
    temperature, before = layer.numbers
    logs = np.log(np.maximum(probabilities, np.finfo(np.float32).tiny))
    found, after = fit_temperature(temperature * (logs - before), labels, offsets)
    layer.temperature.assign(found)
    layer.offsets.assign(after)


def fit_temperature(logits: Array, labels: Array, offsets: bool = False) -> tuple[float, Array]:
    """T and b of largest posterior density for labels ~ softmax(logits / T + b).

    log T and each class's b have standard normal priors. These weigh as much as about one example.
    They keep T finite if every label is the most probable one.

    Args:
        logits: [B, K], logits or logarithms of probabilities.
        labels: class numbers [B].
        offsets: whether to fit b; otherwise it is 0.

    Returns:
        T and b [K].

    Example:

    The logits are sure, but half of the labels are wrong. So T is large.

    >>> logits = np.array([[9.0, 0.0]] * 100)
    >>> fit_temperature(logits, np.arange(100) % 2)[0] > 20
    True
    """
    from scipy import optimize, special

    rows, classes = np.arange(len(labels)), logits.shape[1]

    def loss(numbers):
        tempered = logits * np.exp(-numbers[0])
        scores = special.log_softmax(tempered + numbers[1:], axis=-1)
        residuals = np.exp(scores)
        residuals[rows, labels] -= 1.0
        gradient = np.concatenate([[-np.sum(residuals * tempered)], residuals.sum(0)])
        value = 0.5 * np.sum(np.square(numbers)) - np.sum(scores[rows, labels])
        return value, gradient + numbers

    # e^-7 is 1 in 1,100. The search starts from a coarse grid: the prior may add a second maximum.
    grid = np.linspace(-7.0, 7.0, 57)
    none = np.zeros(classes)
    start = grid[np.argmin([loss(np.append(log, none))[0] for log in grid])]
    bounds = [(start - 0.5, start + 0.5), *([(-20.0, 20.0) if offsets else (0.0, 0.0)] * classes)]
    options = {"ftol": 1e-14, "gtol": 1e-8}
    found = optimize.minimize(
        loss, np.append(start, none), jac=True, bounds=bounds, method="L-BFGS-B", options=options
    )
    if offsets:  # offsets may move the temperature further
        bounds[0] = (-7.0, 7.0)
        found = optimize.minimize(
            loss, found.x, jac=True, bounds=bounds, method="L-BFGS-B", options=options
        )
    return float(np.exp(found.x[0])), found.x[1:]


def _labels(y, examples, classes):
    try:
        labels = np.asarray(read_targets(np.asarray(y)), np.float64)
    except TypeError as error:
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
