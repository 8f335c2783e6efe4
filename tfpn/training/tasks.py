"""The tasks of a run. They differ in batches, loss, figures and pictures.

`task_of` returns the task of a data set. To add a task, write a class here.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfpn import evaluation, recipes
from tfpn.training import field_outputs
from tfpn.training.batches import HiddenBatches, lengths, some_of
from tfpn.training.errors import RunError
from tfpn.training.evaluation import class_probabilities
from tfpn.training.fitting import compile_model, make_batches
from tfpn.training.folder import FEATURE_MAPS, MAP, QQ, RELIABILITY, SERIES
from tfpn.types import Array, Model

# With few examples, they are repeated to about so many batches in an epoch.
_STEPS = 10


class _Task:
    """The base class of tasks.

    Attributes:
        name: the ``task`` of a data set.
        needs_test: whether a run without a test part is an error.
        shown: figures in the result, as test_... and validation_....
        chosen: the figures by which a search may choose.
    """

    name: str
    needs_test: bool
    shown: tuple[str, ...]
    chosen: tuple[str, ...]

    def batches(self, recipe: Any, model: Model, data: Any) -> Any:
        """Makes the training batches."""
        return make_batches(recipe, recipes.model_inputs(model, data.train), data.train.y)

    def adapt(self, model: Model, data: Any, verbose: Any) -> None:
        """Starts the model from the data."""
        raise NotImplementedError

    def compile(self, model: Model, training: Mapping[str, Any], steps: int) -> None:
        """Compiles the model."""
        raise NotImplementedError

    def held_out(self, model: Model, part: Any) -> tuple[Any, Any] | None:
        """Inputs and targets of a part, or None if there is no part."""
        return part and (recipes.model_inputs(model, part), part.y)

    def finish(self, model: Model, data: Any, batch_size: int) -> None:
        """Completes the model after the last epoch."""

    def predictions(self, model: Model, part: Any, batch_size: int) -> Any:
        """Predictions of a part, for `figures` and `draw`."""
        raise NotImplementedError

    def figures(self, found: Any, part: Any, bins: int = evaluation.BINS) -> dict[str, float]:
        """Measures the predictions of a part."""
        raise NotImplementedError

    def main_picture(self, data: Any, found: Any) -> str:
        """The name of the picture that ``tfpn figures --output`` writes under another name.

        Raises:
            RunError: if there is no such picture.
        """
        raise NotImplementedError

    def draw(
        self, folder: Path, model: Model, data: Any, found: Any, main: Path | None = None
    ) -> list[Path]:
        """Writes a run's pictures other than the learning curves, and what `write` writes.

        Args:
            folder: where the pictures go.
            model: the run's model.
            data: the data set.
            found: `predictions` of the test part, or None.
            main: the file of the main picture. The default is its name in ``folder``.

        Returns:
            The paths of the files.
        """
        raise NotImplementedError

    def write(self, folder: Path, model: Model, data: Any) -> None:
        """Writes a run's results that need no matplotlib."""


class Classification(_Task):
    """Classification, by logits and labels."""

    name = "classification"
    needs_test = True
    shown = ("error", "accuracy", "nll", "brier", "ece", "auroc", "average_precision")
    chosen = ("accuracy", "auroc", "average_precision")

    def adapt(self, model, data, verbose):
        model.adapt(some_of(data.train.x), verbose=verbose)

    def compile(self, model, training, steps):
        compile_model(model, training, steps)

    def predictions(self, model, part, batch_size):
        return class_probabilities(model, recipes.model_inputs(model, part), batch_size=batch_size)

    def figures(self, found, part, bins=evaluation.BINS):
        return evaluation.classification_metrics(found, part.y, bins)

    def main_picture(self, data, found):
        return FEATURE_MAPS

    def draw(self, folder, model, data, found, main=None):
        from tfpn import figures

        drawn = {folder / RELIABILITY: figures.reliability_diagram(found, data.test.y)}
        seen = np.flatnonzero(lengths(data.test.x["variance"]))
        inputs = recipes.model_inputs(model, data.test)
        examples = {key: np.asarray(array[seen[:4]]) for key, array in inputs.items()}
        if len(seen) and examples["points"].shape[-1] <= 2:
            drawn[main or folder / FEATURE_MAPS] = figures.feature_maps(model, examples)
        for path, picture in drawn.items():
            figures.save(picture, path)
        return list(drawn)


class _Numbers(_Task):
    """Tasks whose targets are numbers, NaN where there is none."""

    needs_test = False
    shown = ("rmse", "mae", "nll", "crps", "coverage_95")
    chosen = shown

    def adapt(self, model, data, verbose):
        model.adapt(data.train.x, data.train.y, verbose=verbose)

    def compile(self, model, training, steps):
        from tfpn.losses import GaussianNLL

        rate = training["learning_rate"]
        if training["schedule"] == "cosine":
            rate = keras.optimizers.schedules.CosineDecay(rate, max(1, training["epochs"] * steps))
        loss = GaussianNLL() if model.has_moments else keras.losses.MeanSquaredError()
        model.compile(keras.optimizers.Adam(rate, clipnorm=1.0), loss, metrics=["mae"])

    def figures(self, found, part, bins=evaluation.BINS):
        def of(*channels):
            some = (array if array is None else array[..., channels] for array in found)
            return evaluation.regression_metrics(part.y[..., channels], *some)

        whole = of(*range(part.y.shape[-1]))
        if part.y.shape[-1] == 1:
            return whole
        # Several numbers may have different units.
        each = {
            name: of(channel)
            for channel, name in enumerate(part.names)
            if np.isfinite(part.y[..., channel]).any()
        }
        return {**whole, "by_target": each}

    def main_picture(self, data, found):
        if found is None or found[1] is None:
            raise RunError(
                "the run has no test part or no standard deviations, so there is no Q-Q plot: give "
                "[data] a test_fraction and the model a box as pooling, or leave out --output"
            )
        return QQ

    def draw(self, folder, model, data, found, main=None):
        from tfpn import figures

        if found is None or found[1] is None:
            return []
        measured = np.isfinite(data.test.y)
        residuals = (data.test.y - found[0])[measured]
        path = main or folder / QQ
        figures.save(figures.qq_plot(residuals, found[1][measured]), path)
        return [path]


class Regression(_Numbers):
    """Regression: numbers of each example."""

    name = "regression"

    def finish(self, model, data, batch_size):
        """Calibrates on the validation part, if the model predicts a variance."""
        if data.validation is not None and model.finite_variance:
            model.calibrate(data.validation.x, data.validation.y, batch_size=batch_size)

    def predictions(self, model, part, batch_size):
        return regression(model, part.x, batch_size)


class Field(_Numbers):
    """Fields: readings at places that have none."""

    name = "field"
    _start: Any = None  # the weights before training

    def batches(self, recipe, model, data):
        training = recipe.sections["training"]
        size = training["batch_size"]
        repeats = -(-_STEPS * size // len(data.train)) if len(data.train) < _STEPS * size else 1
        by = "reading" if recipe.sections["model"].get("input_noise") == "channel" else "point"
        repeats = min(repeats, _STEPS)
        return HiddenBatches(
            data.train.x, by=by, batch_size=size, repeats=repeats, seed=training["seed"]
        )

    def adapt(self, model, data, verbose):
        model.adapt(data.train.x, verbose=verbose)
        self._start = model.get_weights()

    def finish(self, model, data, batch_size):
        """Goes back to kriging if training has made the validation part less likely."""
        trained = model.get_weights()
        if data.validation is None or all(map(np.array_equal, trained, self._start)):
            return
        nll = []
        for weights in (self._start, trained):
            model.set_weights(weights)
            found = self.predictions(model, data.validation, batch_size)
            nll.append(self.figures(found, data.validation)["nll"])
        if not nll[1] <= nll[0]:
            model.set_weights(self._start)
            print(
                f"training brought the NLL of the validation part from {nll[0]:.4g} to "
                f"{nll[1]:.4g}: the model is the one before training",
                file=sys.stderr,
            )

    def held_out(self, model, part):
        return part and ({**part.x, "query": part.query}, part.y)

    def predictions(self, model, part, batch_size):
        from tfpn.tasks import interpolate

        found = interpolate(model, part.x, part.query, batch_size=batch_size)
        return found.mean, found.std

    def main_picture(self, data, found):
        grid = field_outputs.grid_of(data)
        if grid is None:
            raise RunError(
                f"the data have covariates or more than two coordinates, so there is no map: leave "
                f"out --output, or predict at a table of places with "
                f"{field_outputs.how_to_draw(data, 'RUN')}"
            )
        return MAP if len(grid) == 2 else SERIES

    def draw(self, folder, model, data, found, main=None):
        drawn = super().draw(folder, model, data, found)
        field, path = self._written(folder, model, data, main)
        if field is None:
            return drawn
        field_outputs.picture(field, data, path)
        return [*drawn, path, path.with_suffix(".nc")]

    def write(self, folder, model, data):
        self._written(folder, model, data)

    def _written(self, folder, model, data, main=None):
        """Writes the field on a grid as NetCDF; returns it with the path of its picture."""
        grid = field_outputs.grid_of(data)
        if grid is None:
            print(
                "no map: the data have covariates or more than two coordinates. Predict at a table "
                f"of places with {field_outputs.how_to_draw(data, folder)}",
                file=sys.stderr,
            )
            return None, None
        field = field_outputs.predict_grid(model, data, grid)
        path = main or folder / self.main_picture(data, None)
        field_outputs.write_netcdf(path.with_suffix(".nc"), field)
        return field, path


def regression(model: Model, x: Any, batch_size: int = 50) -> tuple[Array, Array | None]:
    """Means and standard deviations [B, outputs] of a regression model; None without variance."""
    if not model.finite_variance:
        return np.asarray(model.predict(x, batch_size=batch_size, verbose=0)), None
    found = model.predict_distribution(x, batch_size=batch_size)
    return np.asarray(found.mean()), np.asarray(found.stddev())


_TASKS: dict[str, Any] = {task.name: task for task in (Classification, Regression, Field)}


def task_of(data: Any) -> Any:
    """The task of a data set; the default is classification."""
    return _TASKS[getattr(data, "task", Classification.name)]()
