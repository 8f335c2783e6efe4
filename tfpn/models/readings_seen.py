"""Counts the readings of examples in training, and warns of examples with far fewer or more."""

import warnings
from typing import Any

import numpy as np
import tensorflow as tf

from tfpn.models.halo_reach import warn_of_halos
from tfpn.types import Array, Mixin, Tensor

# The quantile of the examples. A few sparse examples do not teach a network what to make of many.
_QUANTILE = 0.1
# Batches may be of equal length, so one batch does not show what its neighbours hold.
_LAST = 4096
# The warning comes if half of the examples have fewer readings than this part of the quantile.
_FAR_FEWER = 2.0 / 3.0


class ReadingsSeen(Mixin):
    """Mix-in for the models: warns if you predict for examples unlike those in training.

    It warns once of far sparser examples. Of denser ones it warns if the first layer conditions
    locally, and its flows then reach beyond the halos.

    A reading is an observed entry. The model keeps what 90 % of the examples in `adapt` have or
    exceed, and the numbers of readings of the last 4,096 training examples. These are lower if
    training thins the series (`tfpn.augmentation.thin`).
    """

    def _prepare_readings(self):
        """Makes the state. Call it in the constructor."""
        # This is not a Keras weight: a clone by `keras.models.clone_model` has only its layers'.
        self._readings = tf.Variable(
            np.full(1 + _LAST, np.inf),  # of `adapt`, and of training, the latest first
            trainable=False,
            dtype=tf.float32,
            name="readings",
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )
        self._told_of_readings = False
        self._most_points = 0  # in examples whose halos were checked

    def _adapt_readings(self, variance: Array) -> None:
        """Records the readings that `adapt` sees, from their variance [B, N, c]."""
        self._most_points = 0
        self._told_of_readings = False
        number = np.isfinite(variance).sum((1, 2))
        least = np.quantile(number, _QUANTILE, method="lower")
        self._readings.assign(np.append(least, np.full(_LAST, np.inf)))

    def _train_readings(self, variance: Tensor) -> None:
        """Records the readings of a training batch, from their variance [B, N, c]."""
        number = tf.math.count_nonzero(tf.math.is_finite(variance), axis=[1, 2], dtype=tf.float32)
        adapted, trained = tf.split(tf.convert_to_tensor(self._readings), [1, _LAST])
        self._readings.assign(tf.concat([adapted, tf.concat([number, trained], 0)[:_LAST]], 0))

    def _least_readings(self) -> float:
        """What 90 % of the examples have, in `adapt` or in training; inf if none were seen."""
        adapted, *trained = self._readings.numpy()
        known = np.extract(np.isfinite(trained), trained)
        least = np.quantile(known, _QUANTILE, method="lower") if known.size else np.inf
        return float(min(adapted, least))

    def _warn_of_readings(self, x: Any, stacklevel: int) -> None:
        """Warns if examples have far fewer readings than the model has seen, or far more points."""
        if not isinstance(x, dict):
            return
        self._warn_of_few_readings(x, stacklevel + 1)
        if self._field is None:  # models of fields scale the points
            self._warn_of_narrow_halos(x, stacklevel + 1)

    def _warn_of_narrow_halos(self, x: Any, stacklevel: int) -> None:
        """Warns if the first layer reaches beyond its halos; again only of more points."""
        points = np.asarray(x["points"])
        if points.shape[1] > self._most_points:
            self._most_points = points.shape[1]
            layer = self.pn_layers[0]
            warn_of_halos(layer, points, np.asarray(x["variance"]), stacklevel + 1)

    def _warn_of_few_readings(self, x: Any, stacklevel: int) -> None:
        """Warns once if examples have far fewer readings than the model has seen."""
        if self._told_of_readings:
            return
        seen = self._least_readings()
        number = np.median(np.isfinite(np.asarray(x["variance"])).sum((1, 2)))
        if not (np.isfinite(seen) and number < _FAR_FEWER * seen):
            return
        self._told_of_readings = True
        warnings.warn(
            f"half of these examples have {number:.0f} readings or fewer, but nine in ten of "
            f"those in training had {seen:.0f} or more: on far sparser data a model may be wrong "
            "and sure of it. Train it on thinned series (tfpn.augmentation.thin).",
            stacklevel=stacklevel + 1,
        )

    def save_own_variables(self, store: Any) -> None:
        """Keras's, and the numbers of readings."""
        super().save_own_variables(store)
        store["readings"] = self._readings.numpy()

    def load_own_variables(self, store: Any) -> None:
        """Keras's; a file without the numbers of readings leaves them unchanged."""
        weights = self._trainable_variables + self._non_trainable_variables
        stored = set(store.keys()) - {"readings"}
        if stored != {f"{place}" for place in range(len(weights))}:
            raise ValueError(
                f"{self.name} has {len(weights)} weights beside its layers', but the file has "
                f"{len(stored)}."
            )
        for place, weight in enumerate(weights):
            weight.assign(store[f"{place}"])
        if len(stored) < len(store.keys()):
            readings = np.asarray(store["readings"])  # older files hold two
            missing = np.full(1 + _LAST - len(readings), np.inf)
            self._readings.assign(np.append(readings, missing))
