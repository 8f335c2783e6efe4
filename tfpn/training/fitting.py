"""The steps that turn a resolved recipe and arrays into a trained model."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfpn import recipes
from tfpn.datasets.base import on_disk
from tfpn.metrics import BinaryAUC
from tfpn.training.batches import CutBatches, ShuffledBatches
from tfpn.training.callbacks import EpochSeconds, StopOnNaN
from tfpn.training.errors import TrainingDiverged, layer_message
from tfpn.types import ArrayLike, Model, Observations, Verbose


def make_batches(recipe: recipes.Recipe, x: Observations, y: ArrayLike) -> ShuffledBatches:
    """The training batches of a resolved recipe.

    Args:
        recipe: the resolved `tfpn.recipes.Recipe`; the function reads its [training] and
            [augmentation].
        x: dict of the model's inputs, the examples on the first axis.
        y: labels, [examples].

    Returns:
        A `ShuffledBatches`.

    Raises:
        RecipeError: if the augmentation does not suit the points or the model.
    """
    training, ranges = recipe.sections["training"], recipe.sections["augmentation"]
    options = {key: training[key] for key in ("batch_size", "seed", "by_length")}
    # Models with shared input noise need all channels of a point or none.
    together = recipe.sections["model"].get("input_noise", "shared") == "shared"
    try:
        return ShuffledBatches(x, y, **options, **ranges, together=together)
    except ValueError as error:
        raise recipes.RecipeError(f"[augmentation] {error}") from error


def compile_model(
    model: Model,
    training: Mapping[str, Any],
    steps: int | None = None,
    *,
    first_step: int = 0,
    metrics: Sequence[Any] = (),
) -> None:
    """Compiles a classifier by a recipe's [training].

    Args:
        model: a classifier whose outputs are logits.
        training: the section of a resolved recipe.
        steps: number of batches in an epoch, for the schedule; None for a constant rate.
        first_step: the schedule's step at which the optimiser starts.
        metrics: further metrics.
    """
    rate = training["learning_rate"]
    if steps is not None and training["schedule"] == "cosine":
        rate = keras.optimizers.schedules.CosineDecay(rate, training["epochs"] * steps)
        if first_step:
            rate = _Continued(rate, first_step)
    model.compile(
        optimizer=keras.optimizers.Adam(rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy", *_ranking_metrics(model), *metrics],
    )


class _Continued(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule that starts at a later step."""

    def __init__(self, schedule, first_step):
        self.schedule, self.first_step = schedule, first_step

    def __call__(self, step):
        return self.schedule(step + self.first_step)

    def get_config(self):
        schedule = keras.optimizers.schedules.serialize(self.schedule)
        return {"schedule": schedule, "first_step": self.first_step}


def fit_model(
    model: Model,
    batches: Any,
    held_out: Any,
    training: Mapping[str, Any],
    *,
    callbacks: Sequence[Any] = (),
    epochs: int | None = None,
    initial_epoch: int = 0,
    verbose: Verbose = "auto",
) -> Any:
    """Trains a compiled model.

    Args:
        model: from `compile_model`.
        batches: from `make_batches`.
        held_out: inputs and labels to measure after each epoch, or None.
        training: the section of a resolved recipe.
        callbacks: Keras callbacks. Their log also has the seconds of the epoch.
        epochs: the epoch to stop after. The default is the recipe's.
        initial_epoch: number of epochs already trained.
        verbose: as in `keras.Model.fit`.

    Returns:
        The `keras.callbacks.History`.

    Raises:
        TrainingDiverged: if the loss becomes NaN or infinite.
    """
    validation = {}
    if held_out is not None and (training["by_length"] or on_disk(held_out[0])):
        validation = {
            "validation_data": CutBatches(held_out[0], held_out[1], training["batch_size"])
        }
    elif held_out is not None:
        validation = {
            "validation_data": held_out,
            "validation_batch_size": training["batch_size"],
        }
    try:
        return model.fit(
            batches,
            shuffle=False,  # The batches already have their epoch's order.
            epochs=training["epochs"] if epochs is None else epochs,
            initial_epoch=initial_epoch,
            **validation,
            class_weight=dict(enumerate(training["class_weight"])) or None,
            callbacks=[
                keras.callbacks.LambdaCallback(
                    on_epoch_begin=lambda epoch, logs: batches.set_epoch(epoch)
                ),
                EpochSeconds(),
                StopOnNaN(),
                *callbacks,
            ],
            verbose=verbose,
        )
    except tf.errors.InvalidArgumentError as error:
        reason = layer_message(error)
        if reason is None or not any(sign in reason for sign in ("not finite", "or NaN")):
            raise
        raise TrainingDiverged(
            f"{reason}; lower training.learning_rate or check the data"
        ) from error


def _ranking_metrics(model):
    if model.output.shape[-1] != 2:
        return []
    curves = (("auroc", "ROC"), ("average_precision", "PR"))
    return [BinaryAUC(curve=curve, name=name) for name, curve in curves]
