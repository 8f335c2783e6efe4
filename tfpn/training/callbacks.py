"""Callbacks of a run: they time epochs, stop early, and stop before broken weights are kept."""

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfpn import recipes
from tfpn.training.errors import RunError, TrainingDiverged, first_line
from tfpn.types import Logs, Model, PathLike


class EpochSeconds(keras.callbacks.Callback):
    """Adds the seconds that an epoch took to its log, so that the sum survives an interruption."""

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self._start = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs["seconds"] = round(time.monotonic() - self._start, 3)


class StopOnNaN(keras.callbacks.TerminateOnNaN):
    """Keras's callback, but it raises before broken weights can replace the last good backup."""

    def __init__(self) -> None:
        super().__init__(raise_error=True)

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self._epoch = epoch

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        try:
            super().on_batch_end(batch, logs)
        except RuntimeError as error:
            raise TrainingDiverged(
                f"the loss became {logs['loss']} in epoch {self._epoch + 1}, batch {batch + 1}; "
                "lower training.learning_rate or check the data"
            ) from error

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if not math.isfinite(logs.get("val_loss", 0.0)):
            raise TrainingDiverged(
                f"the validation loss became {logs['val_loss']} in epoch {epoch + 1}; "
                "lower training.learning_rate or check the data"
            )


class EarlyStopping(keras.callbacks.EarlyStopping):
    """Keras's callback, with a memory that survives an interruption.

    A file keeps the weights of the best epoch. The log tells the values of earlier epochs.

    Args:
        folder: folder of the file.
        monitor: key of the log, one of `recipes.MONITORS`.
        patience: number of epochs without improvement after which to stop.
        history: values of ``monitor`` in the finished epochs.
    """

    def __init__(
        self, folder: PathLike, monitor: str, patience: int, history: Sequence[float] = ()
    ) -> None:
        mode = "max" if recipes.MONITORS[monitor] else "min"
        super().__init__(monitor, patience=patience, mode=mode)
        self.folder, self.history = Path(folder), list(history)

    @property
    def path(self) -> Path:
        """The path of the best epoch's weights."""
        return self.folder / "best.weights.h5"

    @property
    def ended(self) -> bool:
        """Whether the finished epochs have used up the patience."""
        values = np.asarray(self.history) * (-1.0 if self.mode == "max" else 1.0)
        return len(values) > 0 and len(values) - 1 - int(np.argmin(values)) >= self.patience

    def on_train_begin(self, logs: Logs | None = None) -> None:
        super().on_train_begin(logs)
        if self.history:
            pick = np.argmax if self.mode == "max" else np.argmin
            self.best_epoch = int(pick(self.history))
            self.best = self.history[self.best_epoch]
            self.wait = len(self.history) - 1 - self.best_epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        super().on_epoch_end(epoch, logs)
        if self.best_epoch == epoch:
            self.folder.mkdir(exist_ok=True)
            self.model.save_weights(self.path)

    def restore(self, model: Model) -> None:
        """Loads the best epoch's weights into the model."""
        try:
            model.load_weights(self.path)
        except Exception as error:  # A damaged file fails in HDF5 or anywhere in Keras.
            raise RunError(
                f"{self.path} is missing, damaged or not of this model ({first_line(error)}); "
                "train anew with --overwrite"
            ) from error
