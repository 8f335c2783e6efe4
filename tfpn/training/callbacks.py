"""What happens during an epoch of a run: its time, and a stop before broken weights are kept."""

import math
import time

import keras

from tfpn.training.errors import TrainingDiverged


class EpochSeconds(keras.callbacks.Callback):
    """Adds the seconds an epoch took to its log, so that the sum survives an interruption."""

    def on_epoch_begin(self, epoch, logs=None):
        self._start = time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        logs["seconds"] = round(time.monotonic() - self._start, 3)


class StopOnNaN(keras.callbacks.TerminateOnNaN):
    """Keras's callback, raising before the broken weights can replace the last good backup."""

    def __init__(self):
        super().__init__(raise_error=True)

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_batch_end(self, batch, logs=None):
        try:
            super().on_batch_end(batch, logs)
        except RuntimeError as error:
            raise TrainingDiverged(
                f"the loss became {logs['loss']} in epoch {self._epoch + 1}, batch {batch + 1}; "
                "lower training.learning_rate or check the data"
            ) from error

    def on_epoch_end(self, epoch, logs=None):
        if not math.isfinite(logs.get("val_loss", 0.0)):
            raise TrainingDiverged(
                f"the validation loss became {logs['val_loss']} in epoch {epoch + 1}; "
                "lower training.learning_rate or check the data"
            )
