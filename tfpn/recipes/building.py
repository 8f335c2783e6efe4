"""Loads the data set of a recipe, builds its model, and checks that they fit each other."""

from typing import Any

import numpy as np

from tfpn.contract import KEYS
from tfpn.recipes.arguments import arguments_of
from tfpn.recipes.checking import loader, model_class
from tfpn.recipes.reading import Recipe, RecipeError
from tfpn.types import Array, Model

# The keys of [augmentation] that move points.
_MOVES = ("rotation", "shift", "scale", "shear")


def load_data(recipe: Recipe) -> Any:
    """Loads the data set of a resolved recipe.

    Raises:
        RecipeError: if a file or a package is missing, or the loader refuses an argument.
    """
    return _call(recipe, "data", loader(recipe))


def build_model(recipe: Recipe) -> Model:
    """Builds the (uncompiled) model of a resolved recipe.

    Raises:
        RecipeError: if the model refuses an argument.
    """
    values = recipe.sections["model"]
    regression = {"num_classes": None} if "num_outputs" in values else {}
    return _call(recipe, "model", model_class(recipe), regression)


def check_data(recipe: Recipe, model: Model, data: Any) -> None:
    """Checks that a model takes the observations and targets of a data set.

    Args:
        recipe: the resolved `Recipe` of both.
        model: the model, from `build_model`.
        data: the data set, from `load_data`.

    Raises:
        RecipeError: if the model's dimension, channels, classes or outputs do not fit the data; or
            if the recipe asks for something that its task does not have.
    """
    parts = [part for part in (data.train, data.validation, data.test) if part is not None]
    name = recipe.sections["data"]["name"]

    def refuse(key, found, wanted):
        raise RecipeError(
            f"{recipe.origin('model', key)}: model.{key}: found {found}, but the data set {name} "
            f"has {wanted}"
        )

    for key, array, what in (
        ("spatial_dim", "points", "points in {} dimensions"),
        ("in_channels", "values", "values in {} channels"),
    ):
        found, wanted = model.input[array].shape[-1], parts[0].x[array].shape[-1]
        if found != wanted:
            fixed = key not in arguments_of(model_class(recipe))
            advice = "take the model PNCNN" if fixed else f"give {wanted}"
            refuse(key, found, f"{what.format(wanted)}; {advice}")
    for key in model.input:
        if key not in KEYS and not hasattr(parts[0], key):
            raise RecipeError(
                f"[data] {name} has no {key}, but the model takes them beside the observations; "
                "give the loader's argument that keeps them, or a model without them"
            )
    found = {key: model.input[key].shape[-1] for key in ("statics",) if key in model.input}
    for key, size in found.items():
        wanted = getattr(parts[0], key).shape[-1]
        if size != wanted:
            refuse(f"num_{key}", size, f"{wanted} {key}; give {wanted}")
    if getattr(data, "task", "classification") != "classification":
        _check_targets(recipe, model, data, refuse)
        return
    names = getattr(data, "classes", ())
    if names and model.output.shape[-1] != len(names):
        refuse("num_classes", model.output.shape[-1], f"{len(names)} classes; give {len(names)}")
    labels = [int(label) for part in parts for label in (part.y.min(), part.y.max())]
    lowest, highest, classes = min(labels), max(labels), model.output.shape[-1]
    if lowest < 0:
        raise RecipeError(f"[data] {name}: found the label {lowest}; count the classes from 0")
    weights = recipe.sections["training"]["class_weight"]
    if weights and len(weights) != classes:
        raise RecipeError(
            f"{recipe.origin('training', 'class_weight')}: training.class_weight: found "
            f"{len(weights)} numbers for {classes} classes; give one for each, or []"
        )
    monitor = recipe.sections["training"]["monitor"]
    if classes != 2 and monitor in ("val_auroc", "val_average_precision"):
        raise RecipeError(
            f"{recipe.origin('training', 'monitor')}: training.monitor: found {monitor!r}, which "
            f"needs two classes, but the model has {classes}; give val_loss or val_accuracy"
        )
    if highest >= classes:
        wanted = f"labels from {lowest} to {highest}; give at least {highest + 1}"
        refuse("num_classes", classes, wanted)


def _check_targets(recipe, model, data, refuse):
    """Checks that a model of numbers predicts the targets of a data set."""
    wanted, found = data.train.y.shape[-1], recipe.sections["model"].get("num_outputs", 0)
    if found != wanted:
        refuse("num_outputs", found, f"{wanted} targets; give {wanted}")
    if ("query" in model.input) != (data.task == "field"):
        needed = "field" if data.task == "field" else "pooled"
        refuse(
            "output",
            recipe.sections["model"].get("output"),
            f'the task {data.task}; give "{needed}"',
        )
    training = recipe.sections["training"]
    for key, usual in (("monitor", "val_loss"), ("class_weight", []), ("by_length", False)):
        if list(np.atleast_1d(training[key])) != list(np.atleast_1d(usual)):
            raise RecipeError(
                f"{recipe.origin('training', key)}: training.{key}: found {training[key]!r}, which "
                "works for classifiers only; leave it out"
            )
    ranges = recipe.sections["augmentation"]
    changed = ranges["thin"], ranges["noise"], *(ranges[key] for key in _MOVES)
    if data.task == "field" and any(changed):
        raise RecipeError("[augmentation] works for classifiers and regression only; leave it out")


def model_inputs(model: Model, part: Any) -> dict[str, Array]:
    """A model's inputs from a part of a data set, by name.

    These are the observations and, if the model has further inputs, the part's arrays of those
    names, such as the statics of `tfpn.datasets.physionet2012`.

    >>> import tfpn
    >>> part = tfpn.datasets.digits(keep=5).test
    >>> sorted(model_inputs(tfpn.models.PNCNN(channels=2, num_blocks=1), part))
    ['points', 'values', 'variance']
    """
    return {key: part.x[key] if key in part.x else getattr(part, key) for key in model.input}


def _call(recipe, section, function, more=()):
    arguments = {k: v for k, v in recipe.sections[section].items() if k != "name"}
    arguments = {**dict(more), **arguments}
    name = recipe.sections[section]["name"]
    try:
        return function(**arguments)
    except (OSError, ImportError, ValueError, TypeError, RuntimeError) as error:
        raise RecipeError(f"[{section}] {name}: {error}") from error
