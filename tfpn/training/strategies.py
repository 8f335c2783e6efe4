"""Training on several devices or machines with `tf.distribute`.

Every replica gets a part of each batch. Sums over the batch run over all replicas, including the
layers' normalisation and the marginal likelihoods. So a run takes the same steps as on one device,
up to rounding. The recipe's batch_size is that of all replicas together.
"""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfpn.training.errors import RunError
from tfpn.training.folder import BACKUP, LOG, RECIPE, TABLE
from tfpn.types import PathLike

NAMES = ("mirrored", "multi-worker")


def make_strategy(name: str) -> Any:
    """Makes a `tf.distribute` strategy by its name.

    Args:
        name: "mirrored" for all GPUs of this machine (or all logical CPUs if it has no GPU);
            "multi-worker" for all workers of the cluster that the environment variable TF_CONFIG
            describes. Make a multi-worker strategy before TensorFlow computes anything.

    Returns:
        A `tf.distribute.Strategy`.

    Raises:
        RunError: for another name, or if TF_CONFIG is missing or names no workers.

    >>> make_strategy("mirrored").num_replicas_in_sync
    1
    """
    if name == "mirrored":
        return tf.distribute.MirroredStrategy()
    if name != "multi-worker":
        raise RunError(f"strategy: found {name!r}; give one of {', '.join(NAMES)}")
    _check_cluster(os.environ.get("TF_CONFIG", ""))
    return tf.distribute.MultiWorkerMirroredStrategy()


def _check_cluster(text):
    """Raises RunError unless the text of TF_CONFIG names the workers and this one's index."""
    try:
        config = json.loads(text)
        task = config["task"]
        config["cluster"][task["type"]][int(task["index"])]
        complete = task["type"] in ("chief", "worker")
    except (ValueError, KeyError, IndexError, TypeError):
        complete = False
    if not complete:
        raise RunError(
            f"the environment variable TF_CONFIG is {text!r}; set it on every machine to "
            '{"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "worker", "index": 0}}, '
            "with the machine's own index"
        )


def is_chief(strategy: Any) -> bool:
    """Whether this process writes the run: the first worker, or the only process.

    >>> is_chief(tf.distribute.get_strategy())
    True
    """
    resolver = strategy.cluster_resolver
    if resolver is None or not resolver.task_type:
        return True
    first = "chief" if "chief" in resolver.cluster_spec().jobs else "worker"
    return (resolver.task_type, resolver.task_id) == (first, 0)


@contextlib.contextmanager
def work_folder(strategy: Any, folder: PathLike) -> Iterator[Any]:
    """The folder that this process writes: the run folder, or a temporary copy of the run's state.

    All workers write, because the content may be a sum over them. Workers other than the chief
    delete their copies in the end.
    """
    try:
        if is_chief(strategy):
            wait_for_all(strategy)  # until the others have copied the folder
            yield folder
        else:
            with _copied(folder) as copy:
                wait_for_all(strategy)
                yield copy
    except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
        raise RunError(
            "lost the connection to another worker, which may have been killed or have failed "
            "(see its messages); start all workers again with --resume"
        ) from error


@contextlib.contextmanager
def _copied(folder):
    """A temporary copy of the files that a resumed run needs."""
    with tempfile.TemporaryDirectory() as copy:
        for name in (RECIPE, TABLE, LOG):
            if (folder / name).is_file():
                shutil.copy(folder / name, copy)
        if (folder / BACKUP).is_dir():
            shutil.copytree(folder / BACKUP, Path(copy) / BACKUP)
        yield Path(copy)


def check_agreement(strategy: Any, epochs: int) -> None:
    """Raises RunError unless all workers have the same number of finished epochs."""
    if strategy.cluster_resolver is None:  # There is only one process.
        return
    mine = strategy.experimental_distribute_values_from_function(lambda _: tf.constant([epochs]))
    found = strategy.gather(mine, axis=0).numpy()
    if len(set(found.tolist())) > 1:
        raise RunError(
            f"the workers found backups of different numbers of epochs ({found.tolist()}); put "
            "the run folder at a place that all machines see"
        )


def wait_for_all(strategy: Any) -> None:
    """Waits until all workers have called it."""
    check_agreement(strategy, 0)


def leave_together(strategy: Any) -> None:
    """Waits until all workers have called it, and does not fail because one of them has left.

    A worker may end before its last message has reached the others. So all wait twice. Whoever
    reaches the second wait knows that the others are done, and that a lost connection is one of
    them leaving.
    """
    wait_for_all(strategy)
    with contextlib.suppress(tf.errors.OpError):
        wait_for_all(strategy)
