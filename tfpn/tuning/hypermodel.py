"""The hypermodel, which turns hyperparameters into a trained model."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import keras_tuner
import tensorflow as tf

from tfpn import recipes, training
from tfpn.training.errors import first_line
from tfpn.tuning import space as spaces
from tfpn.types import ArrayLike, Model, Observations, PathLike, Verbose

OUT_OF_MEMORY = (tf.errors.ResourceExhaustedError, MemoryError)


class PNCNNHyperModel(keras_tuner.HyperModel):
    """Keras Tuner hypermodel of `tfpn.models.PNCNN`, and of other models by their recipe.

    The recipe fixes all values outside of the search space. By default the space holds the
    channels, the blocks, the basis operators, the initial length scale and noise, the weight of the
    marginal likelihood, the uncertainty mode and the learning rate (`tfpn.tuning.SPACE`).

    ``build`` returns the compiled model. ``fit`` trains it like ``tfpn train``: it takes the length
    scales from the data (`adapt`), and the batches, augmentation, schedule and class weights from
    the recipe.

    Args:
        recipe: a `tfpn.recipes.Recipe`, a name or the path of a TOML file. None takes the defaults
            of PNCNN and of training, and the data that you give to ``search``.
        space: dict from "section.key" to a list of choices, or to a dict of the arguments
            min_value, max_value, step and sampling of Keras Tuner's `Int` and `Float`. It replaces
            or extends the default space. A list of one fixes a value.
        **model: arguments of the model. They do not vary unless ``space`` names them.

    Raises:
        RecipeError: for an unknown key, or values that the recipe cannot take.

    Example:

    >>> import keras_tuner, tempfile
    >>> hypermodel = PNCNNHyperModel(num_classes=3, num_blocks=1, space={"model.channels": [8, 16]})
    >>> tuner = keras_tuner.RandomSearch(
    ...     hypermodel, keras_tuner.Objective("val_nll", "min"), directory=tempfile.mkdtemp()
    ... )  # and then tuner.search(x, y, validation_data=(x_validation, y_validation))
    >>> hp = tuner.oracle.get_space()
    >>> hp.values["model.channels"] = 16
    >>> hypermodel.build(hp).get_layer("conv_1").filters
    16
    """

    def __init__(
        self,
        recipe: recipes.Recipe | PathLike | None = None,
        *,
        space: Mapping[str, Any] | None = None,
        **model: Any,
    ) -> None:
        super().__init__()
        if recipe is None:
            sections = {"model": {"name": "PNCNN"}, "training": {}, "augmentation": {}}
            recipe = recipes.Recipe("pncnn", sections, "PNCNNHyperModel()")
        elif not isinstance(recipe, recipes.Recipe):
            recipe = recipes.load(recipe)
        given = {
            f"model.{key}": list(value) if isinstance(value, tuple) else value
            for key, value in model.items()
        }
        recipe = spaces.with_values(recipe, given, "PNCNNHyperModel(...)")
        self.space = spaces.search_space(recipe, space)
        self.base = recipes.resolve(recipe)
        try:
            self.declare_hyperparameters(keras_tuner.HyperParameters())
        except (ValueError, TypeError) as error:  # Keras Tuner names the hyperparameter.
            raise recipes.RecipeError(f"search space: {error}") from error

    def declare_hyperparameters(self, hp: Any) -> None:
        """Registers the search space with Keras Tuner."""
        spaces.declare(hp, self.base, self.space)

    def recipe(self, hp: Any) -> recipes.Recipe:
        """The resolved `tfpn.recipes.Recipe` of a set of hyperparameters."""
        values = spaces.declare(hp, self.base, self.space)
        return recipes.resolve(spaces.with_values(self.base, values))

    def build(self, hp: Any) -> Model:
        """Builds the compiled model of a set of hyperparameters, with weights from the seed.

        Raises:
            RecipeError: if the model refuses a combination of values.
        """
        recipe = self.recipe(hp)
        keras.utils.set_random_seed(recipe.sections["training"]["seed"])
        model = recipes.build_model(recipe)
        training.compile_model(model, recipe.sections["training"], metrics=_metrics())
        return model

    def fit(
        self,
        hp: Any,
        model: Model,
        x: Observations,
        y: ArrayLike,
        *,
        validation_data: Any,
        callbacks: Sequence[Any] = (),
        epochs: int | None = None,
        initial_epoch: int = 0,
        verbose: Verbose = "auto",
    ) -> dict[str, float]:
        """Trains a model from `build`.

        Args:
            hp: the hyperparameters.
            model: the model.
            x: dict of the model's inputs as arrays.
            y: integer labels [examples].
            validation_data: pair of the inputs and the labels to measure on.
            callbacks: Keras callbacks.
            epochs: the epoch to stop after. The default is the recipe's. The schedule of the
                learning rate always runs over the recipe's epochs.
            initial_epoch: number of epochs already trained.
            verbose: as in `keras.Model.fit`.

        Returns:
            A dict of the last epoch's figures on the validation data: val_loss, val_nll (the task's
            loss alone, in nats), val_accuracy and, for two classes, val_auroc and
            val_average_precision. It does not take the best epoch: the final training on all data
            holds nothing out to find that epoch.

        Raises:
            keras_tuner.errors.FailedTrialError: if the loss becomes NaN or infinite, or the memory
                does not suffice. Keras Tuner then goes on with the next trial.
            keras_tuner.errors.FatalTypeError: if ``x`` is not a dict of arrays.
        """
        if not isinstance(x, dict):
            raise keras_tuner.errors.FatalTypeError(
                f"x: found {type(x).__name__}; give the dict of arrays that tfpn.observations makes"
            )
        recipe = self.recipe(hp)
        batches = training.make_batches(recipe, x, y)
        settings = recipe.sections["training"]
        if initial_epoch == 0:
            model.adapt(x, verbose=verbose)
        first_step = initial_epoch * len(batches)
        training.compile_model(
            model, settings, len(batches), first_step=first_step, metrics=_metrics()
        )
        try:
            history = training.fit_model(
                model,
                batches,
                validation_data,
                settings,
                callbacks=callbacks,
                epochs=epochs,
                initial_epoch=initial_epoch,
                verbose=verbose,
            ).history
        except training.TrainingDiverged as error:
            raise keras_tuner.errors.FailedTrialError(str(error)) from error
        except OUT_OF_MEMORY as error:
            raise keras_tuner.errors.FailedTrialError(
                f"out of memory: {first_line(error)}"
            ) from error
        shown = ("loss", "nll", "accuracy", "auroc", "average_precision")
        return {f"val_{key}": history[f"val_{key}"][-1] for key in shown if f"val_{key}" in history}


def _metrics():
    return [keras.metrics.SparseCategoricalCrossentropy(from_logits=True, name="nll")]
