"""The backup of a run's last finished epoch."""

from pathlib import Path

import keras

from tfpn.training.errors import RunError, first_line
from tfpn.types import Logs, Model, PathLike


class Backup(keras.callbacks.Callback):
    """Writes weights and optimiser state after each epoch.

    `keras.callbacks.BackupAndRestore` keeps the epoch's number in a second file. A kill between the
    two writes would train an epoch twice. Here the file's name holds the number.
    """

    def __init__(self, folder: PathLike) -> None:
        super().__init__()
        self.folder = Path(folder)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self.folder.mkdir(exist_ok=True)
        final = self.folder / f"epoch-{epoch + 1:05d}.weights.h5"
        self.model.save_weights(final)
        for path in backup_files(self.folder):
            if path != final:
                path.unlink()


def backup_files(folder: PathLike) -> list[Path]:
    """The backups in a folder, oldest first: one, or two if a kill came before the old one went."""
    return sorted(Path(folder).glob("epoch-*.weights.h5"))


def restore(model: Model, folder: PathLike) -> int:
    """Loads the last backup, if there is one, and returns the number of finished epochs."""
    backups = backup_files(folder)
    if not backups:
        return 0
    # The optimiser's variables have to exist before the file can fill them.
    model.optimizer.build(model.trainable_variables)
    try:
        model.load_weights(backups[-1])
    except Exception as error:  # A damaged file fails in HDF5 or anywhere in Keras.
        raise RunError(
            f"{backups[-1]} is damaged or not a backup of this model ({first_line(error)}); "
            "train anew with --overwrite"
        ) from error
    return int(backups[-1].name.split("-")[1].split(".")[0])
