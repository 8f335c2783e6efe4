"""Recipes: TOML files with the data, the model and the training of a result.

A recipe has a ``name`` and up to four sections:

- ``[data]``: the name of a loader of `tfpn.datasets`, and its arguments.
- ``[model]``: the name of a class of `tfpn.models`, and its constructor's arguments.
- ``[training]``: the keys of `Training`.
- ``[augmentation]`` (optional): the ranges of `tfpn.augmentation.jitter`; ``thin``, the share of
  readings that `tfpn.augmentation.thin` keeps, such as ``[0.1, 1.0]``; and ``noise``, the highest
  standard deviation of `tfpn.augmentation.add_noise`, such as ``1.5``.

The arguments come from the annotated signatures. So a recipe can say what code can say, as far as
TOML can hold it.
"""

from tfpn.recipes.building import build_model, check_data, load_data, model_inputs
from tfpn.recipes.checking import (
    MONITORS,
    SCHEDULES,
    Training,
    loader,
    model_class,
    resolve,
)
from tfpn.recipes.reading import (
    SECTIONS,
    Recipe,
    RecipeError,
    differences,
    dumps,
    load,
    models_folder,
    names,
    override,
    toml,
)

__all__ = [
    "MONITORS",
    "SCHEDULES",
    "SECTIONS",
    "Recipe",
    "RecipeError",
    "Training",
    "build_model",
    "check_data",
    "differences",
    "dumps",
    "load",
    "load_data",
    "loader",
    "model_class",
    "model_inputs",
    "models_folder",
    "names",
    "override",
    "resolve",
    "toml",
]
