"""The log of a run, with a row of figures for each epoch."""

import csv
import io
from pathlib import Path
from typing import Any

from tfpn.files import write
from tfpn.layer_likelihoods import RecordsLikelihoods
from tfpn.training.errors import RunError
from tfpn.types import Logs, PathLike


class EpochLog(RecordsLikelihoods):
    """Adds a row to the log after each epoch, with the marginal likelihood of each layer.

    The file on disk is whole at any time.

    Args:
        path: the file.
        append: whether the training goes on: the file's rows stay, and have the same columns.
    """

    def __init__(self, path: PathLike, append: bool = False) -> None:
        super().__init__()
        self.path, self.append = Path(path), append

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._text = self.path.read_text(encoding="utf-8") if self.append else ""

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        logs = self.with_likelihoods(logs)
        header = next(csv.reader(self._text.splitlines()), ["epoch", *sorted(logs)])
        file = io.StringIO(newline="")
        # An older log may have a column without a value: it gets NA.
        writer = csv.DictWriter(file, header, restval="NA", extrasaction="ignore")
        if not self._text:
            writer.writeheader()
        writer.writerow({"epoch": epoch, **logs})
        self._text += file.getvalue()
        write(self.path, self._text)


def read_log(path: PathLike) -> dict[str, Any]:
    """Reads a run's log.csv.

    Args:
        path: a file that `EpochLog` or `keras.callbacks.CSVLogger` wrote.

    Returns:
        A dict from column name to a list of floats, one for each epoch.

    Raises:
        RunError: if the file is missing, is not such a log, or holds no epoch.
    """
    try:
        with open(path, newline="", encoding="utf-8") as file:
            columns = _columns(file)
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, TypeError, csv.Error) as error:
        raise RunError(f"{path} is not the log of a run; delete it or put the log back") from error
    if not columns:
        raise RunError(f"{path} holds no finished epoch")
    return columns


def trim_log(path: Path, epochs: int) -> None:
    """Keeps the rows of the log's first ``epochs`` epochs, those that the backup holds."""
    cure = "put the run's own log back, or train anew with --overwrite"
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = lines[:1] + [
            line for line in lines[1:] if line.endswith("\n") and int(line.split(",")[0]) < epochs
        ]
        columns = _columns(kept)
        whole = columns["epoch"] == list(range(epochs)) and "seconds" in columns
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}; {cure}") from error
    except (ValueError, TypeError, KeyError, IndexError, csv.Error) as error:
        raise RunError(f"{path} is not the log of a run; {cure}") from error
    if not whole:
        raise RunError(f"{path} does not hold the {epochs} epochs of the backup; {cure}")
    write(path, "".join(kept))


def _columns(lines):
    """A dict from column name to floats, from the lines of a log."""
    rows = list(csv.DictReader(lines))
    # NA stands for the figures of a missing validation part.
    known = [key for key, value in rows[0].items() if value != "NA"] if rows else []
    return {key: [float(row[key]) for row in rows] for key in known}
