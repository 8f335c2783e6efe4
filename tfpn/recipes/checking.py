"""Checks a recipe's keys and values, and fills in its defaults."""

import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfpn import augmentation
from tfpn.recipes.arguments import Argument, arguments_of
from tfpn.recipes.reading import SECTIONS, Recipe, RecipeError, check_known


@dataclasses.dataclass(frozen=True)
class Training:
    """The keys of [training], with their types and defaults."""

    epochs: int = 30
    batch_size: int = 50
    learning_rate: float = 3e-3
    schedule: str = "cosine"
    seed: int = 0
    # One weight for each class, which multiplies the loss of its examples; [] for none.
    class_weight: Sequence[float] = ()
    # Number of epochs without improvement of `monitor` after which to stop; 0 for never. A run that
    # may stop keeps the weights of the best epoch.
    patience: int = 0
    monitor: str = "val_loss"
    # Whether batches hold examples of similar length and are cut to the longest one.
    by_length: bool = False


# The choices of `monitor`, and whether a larger value is better ("max").
MONITORS = {
    "val_loss": False,
    "val_task_loss": False,
    "val_accuracy": True,
    "val_auroc": True,
    "val_average_precision": True,
}
SCHEDULES = ("cosine", "constant")


def resolve(recipe: Recipe) -> Recipe:
    """Checks every key and value of a recipe and fills in the defaults.

    Args:
        recipe: a `Recipe`.

    Returns:
        A new `Recipe` with every value that TOML can hold. A recipe without the section "data", for
        data from elsewhere, stays without it.

    Raises:
        RecipeError: for an unknown data set, model or key, a wrong type, or a value out of range.
    """
    sections = {"training": _filled(recipe, "training", arguments_of(Training))}
    _check_training(recipe, sections["training"])
    sections["augmentation"] = _filled(recipe, "augmentation", _augmentation())
    _check_augmentation(recipe, sections["augmentation"])
    for section, lookup in (("data", loader), ("model", model_class)):
        if section not in recipe.sections:
            continue
        function = lookup(recipe)
        sections[section] = {
            "name": recipe.sections[section]["name"],
            **_filled(recipe, section, arguments_of(function)),
        }
    given = recipe.sections.get("model", {})
    if sections.get("data", {}).get("name") == "table":
        sections["model"] |= _of_table(recipe, sections["data"], given)
        if _is_field(sections["data"]) and "epochs" not in recipe.sections["training"]:
            sections["training"]["epochs"] = 0  # kriging needs no training
    if "num_outputs" in sections["model"] and "num_classes" not in given:
        del sections["model"]["num_classes"]  # TOML cannot say None
    _check_counts(recipe, sections["model"])
    ordered = {section: sections[section] for section in SECTIONS if section in sections}
    return Recipe(recipe.name, ordered, recipe.source, recipe.overridden)


def loader(recipe: Recipe) -> Callable[..., Any]:
    """The loader of `tfpn.datasets` that a recipe's [data] names."""
    from tfpn import datasets

    known = [n for n in datasets.__all__ if inspect.isfunction(getattr(datasets, n))]
    return getattr(datasets, _named(recipe, "data", known))


def model_class(recipe: Recipe) -> type[Any]:
    """The class of `tfpn.models` that a recipe's [model] names."""
    import keras

    from tfpn import models

    def is_model(value):
        return inspect.isclass(value) and issubclass(value, keras.Model)

    known = [n for n in models.__all__ if is_model(getattr(models, n))]
    return getattr(models, _named(recipe, "model", known))


def _filled(recipe: Recipe, section: str, known: Mapping[str, Argument]) -> dict[str, Any]:
    found = {key: argument.plain for key, argument in known.items()}
    filled = {key: value for key, value in found.items() if value is not None}
    for key, value in recipe.sections[section].items():
        if key == "name" and section in ("data", "model"):
            continue
        origin = recipe.origin(section, key)
        check_known(key, known, f"{origin}: unknown key in [{section}]:")
        filled[key] = known[key].read(value, f"{origin}: {section}.{key}")
    return filled


def _augmentation():
    """The keys of [augmentation]: those of `jitter`, and of `thin` what the model leaves open.

    ``thin`` is the ``keep`` of `thin`, and ``noise`` is the ``highest`` of `add_noise`. By default
    no reading is dropped and no noise added.
    """
    functions = augmentation.jitter, augmentation.thin, augmentation.add_noise
    moves, thins, noise = (arguments_of(function) for function in functions)
    ranges = {key: argument for key, argument in moves.items() if key not in ("x", "rng")}
    share = dataclasses.replace(thins["keep"], default=())
    highest = dataclasses.replace(noise["highest"], default=0.0)
    kept = {key: thins[key] for key in ("whole", "drop_channels")}
    return {**ranges, "thin": share, **kept, "noise": highest}


def _check_augmentation(recipe, found):
    if found["drop_channels"] and not found["thin"]:
        origin = recipe.origin("augmentation", "drop_channels")
        raise RecipeError(
            f"{origin}: augmentation.drop_channels needs thin; give thin = [1.0, 1.0] to drop "
            "channels alone"
        )
    if found["common"] and recipe.sections["training"].get("by_length"):
        raise RecipeError(
            f"{recipe.origin('augmentation', 'common')}: augmentation.common: found True with "
            "training.by_length = true, which augments all examples at once; give one of the two"
        )
    for key, value in found.items():
        try:
            if key == "thin" and value:
                augmentation.check_thinning(value)
            elif key in ("whole", "drop_channels"):
                augmentation.check_thinning((1.0, 1.0), **{key: value})
            elif key not in ("thin", "common"):
                augmentation.check_range(key, value)
        except (TypeError, ValueError) as error:
            # The key is named otherwise than the function's argument.
            text = str(error).replace("keep:", "thin:", 1)
            raise RecipeError(
                f"{recipe.origin('augmentation', key)}: augmentation.{text}"
            ) from error


def _check_training(recipe, training):
    def refuse(key, wanted):
        origin = recipe.origin("training", key)
        raise RecipeError(f"{origin}: training.{key}: found {training[key]!r}; give {wanted}")

    data = recipe.sections.get("data", {})
    if training["epochs"] == 0 and data.get("name") == "table":
        if not _is_field(data):
            refuse("epochs", "at least 1: only a field can do without training")
    elif training["epochs"] < 1:
        refuse("epochs", "an integer of at least 1")
    if training["batch_size"] < 1:
        refuse("batch_size", "an integer of at least 1")
    if not (training["learning_rate"] > 0 and math.isfinite(training["learning_rate"])):
        refuse("learning_rate", "a positive number")
    if training["schedule"] not in SCHEDULES:
        refuse("schedule", f"one of {', '.join(SCHEDULES)}")
    if training["patience"] < 0:
        refuse("patience", "a number of epochs, or 0 to train all of them")
    if training["monitor"] not in tuple(MONITORS):  # a list, which has no hash, may be given
        refuse("monitor", f"one of {', '.join(MONITORS)}")
    weights = training["class_weight"]
    if not all(isinstance(w, int | float) and 0 < w < math.inf for w in weights):
        refuse("class_weight", "a positive number for each class, or []")
    if not 0 <= training["seed"] < 2**32:
        refuse("seed", "an integer from 0 to 2**32 - 1")


def _is_field(table):
    return not (table.get("targets") or table.get("labels"))


def _of_table(recipe, data, given):
    """The model's arguments that follow from a table's.

    Makes the table's path absolute, and names the classes.
    """
    from tfpn.datasets._table import labels_in, suggested

    for key in ("file", "values"):
        if key not in data:
            raise RecipeError(f"{recipe.source}: [data] table needs {key}; set data.{key}")
    if "data_dir" not in data:
        path = Path(data["file"])
        beside = Path(recipe.source).parent / path
        said_here = ("data", "file") in recipe.overridden
        data["file"] = str((path if said_here or not beside.exists() else beside).resolve())
    if data.get("labels") and not data["classes"]:
        try:
            data["classes"] = labels_in(data)
        except (OSError, ImportError, ValueError) as error:
            raise RecipeError(f"[data] table: {error}") from error
    known = arguments_of(model_class(recipe))
    found = suggested(data)
    return {key: value for key, value in found.items() if key in known and key not in given}


def _check_counts(recipe, values):
    """Refuses a [model] number below 1 if the default is an integer: these are all counts.

    If the default is 0, which stands for none, 0 is allowed.
    """
    for key, argument in arguments_of(model_class(recipe)).items():
        default = argument.default
        if key in values and type(default) is int and values[key] < (least := min(1, default)):
            raise RecipeError(
                f"{recipe.origin('model', key)}: model.{key}: found {values[key]}; "
                f"give an integer of at least {least}"
            )


def _named(recipe, section, known):
    name = recipe.sections[section].get("name")
    if not isinstance(name, str):
        raise RecipeError(
            f"{recipe.source}: found {section}.name = {name!r}; "
            f"set it to one of {', '.join(sorted(known))}"
        )
    check_known(name, known, f"{recipe.origin(section, 'name')}: unknown {section}.name")
    return name
