"""The outputs of the commands: checks before the work begins, and tables."""

import csv
import io
import os
from pathlib import Path

from tfpn.cli.errors import CommandError
from tfpn.files import same_file


def check_outputs(outputs, inputs=()):
    """Refuses outputs that cannot be written, or that would replace an input or each other.

    Call it before the work begins.

    Args:
        outputs: pairs of an option and its file, or None.
        inputs: files that the command reads. Those that do not exist are ignored.
    """
    outputs = [(option, path) for option, path in outputs if path is not None]
    for index, (option, path) in enumerate(outputs):
        _check_place(option, Path(path))
        for other in inputs:
            if Path(other).exists() and same_file(path, other):
                raise CommandError(
                    f"{option}: found {path}, which is the input {other}; give another name"
                )
        for other, found in outputs[:index]:
            if same_file(path, found):
                raise CommandError(f"{other} and {option} name the same file, {path}; give two")


def _check_place(option, path):
    folder = path.parent
    if not folder.is_dir():
        raise CommandError(
            f"{option}: found {path}, but there is no folder {folder}; make it, or give another "
            "name"
        )
    if path.is_dir():
        raise CommandError(f"{option}: cannot write {path}, a folder; give the name of a file")
    folder = Path(os.path.realpath(path)).parent  # a link may lead to another folder
    if (not path.exists() or path.is_file()) and not os.access(folder, os.W_OK | os.X_OK):
        raise CommandError(
            f"{option}: cannot write into the folder {folder}; give a name in another"
        )


def bins_table(bins):
    """The bins of a calibration as CSV."""
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(["low", "high", "examples", "confidence", "accuracy"])
    columns = bins.edges[:-1], bins.edges[1:], bins.counts, bins.confidence, bins.accuracy
    for low, high, count, *means in zip(*columns, strict=True):
        # An empty bin has no means.
        shown = [f"{mean:.6g}" if count else "" for mean in means]
        writer.writerow([f"{low:.6g}", f"{high:.6g}", count, *shown])
    return file.getvalue()


def predictions_table(predicted, probabilities):
    """Classes and their probabilities as CSV."""
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    classes = range(probabilities.shape[-1])
    writer.writerow(["example", "predicted", *(f"probability_{c}" for c in classes)])
    for row, (label, probability) in enumerate(zip(predicted, probabilities, strict=True)):
        writer.writerow([row, label, *(f"{p:.6g}" for p in probability)])
    return file.getvalue()
