"""Keras's predict of arrays in batches, with its progress on standard error."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfpn.progress import Progress
from tfpn.types import Model, Observations, Verbose


def predict_shown(
    network: Model,
    data: Any,
    verbose: Verbose,
    unit: str = "batches",
    callbacks: Sequence[Any] | None = None,
    steps: int | None = None,
) -> Any:
    """``network.predict(data)``, which says how far it is where it takes long.

    Args:
        network: a Keras model.
        data: what its predict takes.
        verbose: as in `tfpn.progress.Progress`.
        unit: what the batches are called.
        callbacks, steps: as Keras's.
    """
    total = None
    if isinstance(data, tf.data.Dataset):
        total = max(0, int(data.cardinality()))  # below 0 where it is not known
    elif isinstance(data, keras.utils.PyDataset):
        total = data.num_batches
    with Progress("predict", total, unit, verbose) as progress:
        count = keras.callbacks.LambdaCallback(
            on_predict_batch_end=lambda batch, logs: progress.update(batch + 1)
        )
        callbacks = [*(callbacks or ()), count]
        return network.predict(data, verbose=0, callbacks=callbacks, steps=steps)


def run_shown(network: Model, x: Any, batch_size: int, verbose: Verbose) -> Any:
    """`predict_shown` of arrays, or of a data set with batches of its own."""
    if isinstance(x, dict):
        x = in_batches(network, x, batch_size)
    return predict_shown(network, x, verbose)


def in_batches(network: Model, x: Observations, batch_size: int) -> Any:
    """Arrays as batches in the inputs' dtype, which Keras would cast to its own float type.

    The network's predict is traced for all numbers of examples and points: Keras traces a
    smaller last batch anew.
    """
    inputs = {given.name: given for given in network.inputs}
    x = {key: np.asarray(x[key], given.dtype) for key, given in inputs.items()}
    batches = tf.data.Dataset.from_tensor_slices(x).batch(batch_size)
    eagerly = network.run_eagerly or tf.config.functions_run_eagerly()
    replicas = network.distribute_strategy.num_replicas_in_sync
    if not eagerly and replicas == network.steps_per_execution == 1:
        network.make_predict_function()
        specs = {key: tf.TensorSpec(given.shape, given.dtype) for key, given in inputs.items()}
        network.predict_function.get_concrete_function([specs])
    return batches
