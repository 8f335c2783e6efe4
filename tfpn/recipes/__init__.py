"""Recipes: TOML files that say which data, which model and which training make a result.

A recipe has a ``name`` and up to four sections. ``[data]`` holds the name of a loader of
`tfpn.datasets` and that loader's arguments, ``[model]`` the name of a class of `tfpn.models` and
its constructor's arguments, ``[training]`` the keys of `Training`, and the optional
``[augmentation]`` the ranges of `tfpn.augmentation.jitter`, as ``thin = [0.1, 1.0]`` the share of
readings that `tfpn.augmentation.thin` keeps, and as ``noise = 1.5`` the highest standard deviation
of `tfpn.augmentation.add_noise`. The arguments are read from the annotated signatures, so a recipe
can say everything that code can say and nothing else.
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
