"""Search spaces: which values of a recipe vary, and over what."""

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfpn import recipes

# The default search space. A list holds choices, a dict the arguments of Keras Tuner's `Int` or
# `Float`. The length scale is in units of the points' spacing, the noise in units of the signal.
SPACE = {
    "model.channels": [16, 32, 64, 128],
    "model.num_blocks": {"min_value": 1, "max_value": 4},
    "model.num_basis": [3, 5, 9, 13],
    "model.length_per_spacing": {"min_value": 0.5, "max_value": 3.0, "sampling": "log"},
    "model.observation_noise": {"min_value": 0.01, "max_value": 1.0, "sampling": "log"},
    "model.feature_noise": {"min_value": 0.01, "max_value": 1.0, "sampling": "log"},
    "model.marginal_likelihood_weight": {"min_value": 1e-5, "max_value": 0.1, "sampling": "log"},
    "model.uncertainty": ["diagonal", "none", "sampled", "low_rank"],
    "training.learning_rate": {"min_value": 3e-4, "max_value": 3e-2, "sampling": "log"},
}
RANGE = ("min_value", "max_value", "step", "sampling")
# The data stay the same, so that all trials answer the same question.
SECTIONS = ("model", "training", "augmentation")


def read_assignment(text: str) -> tuple[str, Any]:
    """The key and the values of one ``--space`` of the command line.

    Raises:
        RecipeError: the text is not ``section.key=`` and a TOML list or table.

    >>> read_assignment("model.channels=[16, 32]")
    ('model.channels', [16, 32])
    >>> read_assignment("training.learning_rate={min_value = 1e-3, max_value = 0.1}")
    ('training.learning_rate', {'min_value': 0.001, 'max_value': 0.1})
    """
    key, _, values = text.partition("=")
    try:
        values = tomllib.loads(f"values = {values}")["values"]
    except tomllib.TOMLDecodeError:
        pass
    if not isinstance(values, list | dict):
        raise recipes.RecipeError(
            f"--space {text}: write section.key=[choices], for example model.channels=[16, 32], or "
            "section.key={min_value = ..., max_value = ..., sampling = 'log'}; --set fixes a value"
        )
    return key.strip(), values


def read_assignments(texts: Sequence[str], recipe: recipes.Recipe) -> dict[str, Any]:
    """The search space of all ``--space`` of the command line, beside the recipe of its ``--set``.

    Raises:
        RecipeError: as `read_assignment`, or for a key that is given twice or was set.

    >>> recipe = recipes.load("digits")
    >>> read_assignments(["model.channels=[16, 32]", "model.num_blocks=[1, 2]"], recipe)
    {'model.channels': [16, 32], 'model.num_blocks': [1, 2]}
    """
    space = {}
    for text in texts:
        key, values = read_assignment(text)
        if key in space:
            raise recipes.RecipeError(f"--space {text}: {key} is given twice; give it once")
        if tuple(key.split(".")) in recipe.overridden:
            raise recipes.RecipeError(f"--space {text}: {key} was set; set it or vary it, not both")
        space[key] = values
    return space


def search_space(recipe: recipes.Recipe, space: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The whole search space of a recipe, checked.

    The default space `SPACE`, as far as the recipe's model has those arguments, without the values
    that were set by `tfpn.recipes.override` (by ``--set``), which stay as they were set.

    Args:
        recipe: a `tfpn.recipes.Recipe`.
        space: dict from "section.key" to a list of choices or a dict of `RANGE`, which replace
            those of the default space or add to it. A list of one fixes the value.

    Returns:
        A dict of the same form.

    Raises:
        RecipeError: an unknown key, or values that the recipe cannot take.

    >>> recipe = recipes.load("digits")
    >>> recipes.override(recipe, "model.uncertainty=none")
    >>> space = search_space(recipe, {"model.channels": [8, 16]})
    >>> space["model.channels"], "model.uncertainty" in space
    ([8, 16], False)
    """
    sections = recipes.resolve(recipe).sections
    found = {}
    for name, values in SPACE.items():
        section, key = name.split(".")
        if key in sections[section] and (section, key) not in recipe.overridden:
            found[name] = values
    model = sections["model"]
    needed = {
        "takes_channel_noise": model.get("input_noise") == "channel",
        "takes_neighbourhoods": model.get("conditioning") == "local",
    }
    if "model.uncertainty" in found and any(needed.values()):
        # Imported here, as it loads TensorFlow.
        from tfpn.math.uncertainty import UNCERTAINTY

        found["model.uncertainty"] = [
            mode
            for mode in map(str, found["model.uncertainty"])
            if all(
                getattr(UNCERTAINTY[mode], flag) for flag, is_needed in needed.items() if is_needed
            )
        ]
    for name, values in (space or {}).items():
        found[name] = _checked(recipe, name, values)
    if not found:
        raise recipes.RecipeError("the search space is empty; leave a value free or give one")
    return found


def with_values(
    recipe: recipes.Recipe, values: Mapping[str, Any], origin: str | None = None
) -> recipes.Recipe:
    """A copy of a recipe with values by "section.key"; ``origin`` is for error messages."""
    sections = {section: dict(content) for section, content in recipe.sections.items()}
    overridden = dict(recipe.overridden)
    for name, value in values.items():
        section, key = name.split(".")
        sections[section][key] = value
        if origin:
            overridden[section, key] = origin
    return dataclasses.replace(recipe, sections=sections, overridden=overridden)


def declare(hp: Any, recipe: recipes.Recipe, space: Mapping[str, Any]) -> dict[str, Any]:
    """Draws the values of a search space.

    Args:
        hp: a `keras_tuner.HyperParameters`.
        recipe: the resolved recipe, whose values are the defaults where they are in the space.
        space: from `search_space`.

    Returns:
        A dict from "section.key" to the value. Floats are rounded to six digits, which is what they
        have after a transfer between a chief and its workers.
    """
    values = {}
    for name, given in space.items():
        section, key = name.split(".")
        value = _declare(hp, name, given, recipe.sections[section].get(key))
        values[name] = rounded(value)
    return values


def rounded(value: Any) -> Any:
    """A float with six digits; anything else as it is."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _declare(hp, name, given, default):
    if isinstance(given, list):
        if any(map(_is_nested, given)):
            # Keras Tuner takes no tables or lists as choices: it gets their text.
            texts = [value if isinstance(value, str) else recipes.toml(value) for value in given]
            default = texts[given.index(default)] if default in given else None
            return given[texts.index(hp.Choice(name, texts, default=default))]
        if len(given) == 1:
            return hp.Fixed(name, given[0])
        if isinstance(given[0], bool):
            return hp.Boolean(name, default=bool(default))
        default = default if default in given else None
        if isinstance(given[0], float):
            # Between a chief and its workers floats travel in single precision; a choice that came
            # back changed would be none of the choices.
            given = [float(np.float32(value)) for value in given]
            default = default and float(np.float32(default))
        return hp.Choice(name, given, default=default)
    low, high = given["min_value"], given["max_value"]
    inside = isinstance(default, int | float) and low <= default <= high
    make = hp.Int if isinstance(low, int) and isinstance(high, int) else hp.Float
    return make(name, **given, default=default if inside else None)


def _checked(recipe, name, values):
    origin = f"search space {name}"
    section, dot, key = name.partition(".")
    if section not in SECTIONS or not key or key == "name":
        raise recipes.RecipeError(
            f"{origin}: found {name!r}; give section.key with a key of {', '.join(SECTIONS)}, "
            "such as model.channels"
        )
    if isinstance(values, dict):
        unknown = sorted(set(values) - set(RANGE))
        missing = [bound for bound in RANGE[:2] if bound not in values]
        if unknown or missing:
            raise recipes.RecipeError(
                f"{origin}: found a range with {', '.join(values) or 'nothing'}; give min_value "
                "and max_value, and step and sampling if you like"
            )
        step = values.get("step")
        if step is not None and (_is_bool(step) or not isinstance(step, int | float) or step <= 0):
            raise recipes.RecipeError(f"{origin}: found the step {step!r}; give a positive number")
        tried = [values["min_value"], values["max_value"]]
    else:
        tried = values = list(values)
        if any(isinstance(v, float) for v in values) and not any(map(_is_bool, values)):
            tried = values = [
                rounded(float(v)) if isinstance(v, int | float) else v for v in values
            ]
        # Names and tables go together, as those of kernels do.
        kinds = {str if _is_nested(value) else type(value) for value in values}
        different = len(set(map(repr, values))) == len(tried)
        if len(kinds) != 1 or not kinds <= {bool, int, float, str} or not different:
            raise recipes.RecipeError(
                f"{origin}: found {values!r}; give different numbers, or texts, lists and tables, "
                "or true and false"
            )
    for value in tried:
        resolved = recipes.resolve(with_values(recipe, {name: value}, f"{origin}, value {value!r}"))
        if (isinstance(value, str) or _is_nested(value)) and section == "model":
            # What a text or a table may be, only the model knows.
            try:
                recipes.build_model(resolved)
            except recipes.RecipeError as error:
                raise recipes.RecipeError(f"{origin}, value {value!r}: {error}") from error
    return values


def _is_bool(value):
    return isinstance(value, bool)


def _is_nested(value):
    return isinstance(value, dict | list)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two search spaces, one line of text a value."""
    return [
        f"the search space of {name} was {old.get(name, 'not set')!r}, "
        f"is {new.get(name, 'not set')!r}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]
