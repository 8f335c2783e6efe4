"""Training runs: they turn a resolved recipe into a folder with model, log and result.

You can kill and resume a run. After each epoch one atomic rename writes the weights, the state of
the optimiser and the number of finished epochs together. The order of an epoch's examples and their
augmentation depend only on the seed and the epoch's number. So a resumed run repeats what the
uninterrupted run would have done.
"""

from tfpn.training.batches import CutBatches, ShuffledBatches
from tfpn.training.errors import RunError, TrainingDiverged, layer_message
from tfpn.training.evaluation import class_probabilities, evaluate, probabilities
from tfpn.training.fitting import compile_model, fit_model, make_batches
from tfpn.training.folder import (
    BACKUP,
    CURVES,
    FEATURE_MAPS,
    LOG,
    MODEL,
    RECIPE,
    RELIABILITY,
    RESULT,
    TABLE,
    is_other_table,
    load_run,
    run_path,
)
from tfpn.training.log import read_log
from tfpn.training.run import list_gpus, train
from tfpn.training.strategies import make_strategy
from tfpn.training.tasks import task_of

__all__ = [
    "BACKUP",
    "CURVES",
    "CutBatches",
    "FEATURE_MAPS",
    "LOG",
    "MODEL",
    "RECIPE",
    "RELIABILITY",
    "RESULT",
    "RunError",
    "TABLE",
    "ShuffledBatches",
    "TrainingDiverged",
    "class_probabilities",
    "compile_model",
    "evaluate",
    "fit_model",
    "is_other_table",
    "layer_message",
    "list_gpus",
    "load_run",
    "make_batches",
    "make_strategy",
    "probabilities",
    "read_log",
    "run_path",
    "task_of",
    "train",
]
