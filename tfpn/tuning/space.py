"""Search spaces: the values of a recipe that vary, and their choices or ranges."""

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfpn import recipes

# The default search space. A list holds choices. A dict holds the arguments of Keras Tuner's `Int`
# or `Float`. The length scale is in units of the points' spacing, the noise in units of the signal.
SPACE = {
    "model.channels": [16, 32, 64, 128],
    "model.num_blocks": {"min_value": 1, "max_value": 4},
    "model.num_basis": [3, 5, 9, 13],
    "model.length_per_spacing": {"min_value": 0.5, "max_value": 3.0, "sampling": "log"},
    "model.observation_noise": {"min_value": 0.01, "max_value": 1.0, "sampling": "log"},
    "model.feature_noise": {"min_value": 0.01, "max_value": 1.0, "sampling": "log"},
    "model.marginal_likelihood_weight": {"min_value": 1e-5, "max_value": 1.0, "sampling": "log"},
    "model.uncertainty": ["diagonal", "none", "sampled", "low_rank"],
    "training.learning_rate": {"min_value": 3e-4, "max_value": 3e-2, "sampling": "log"},
}
RANGE = ("min_value", "max_value", "step", "sampling")
# [data] does not vary, so that the scores of all trials can be compared.
SECTIONS = ("model", "training", "augmentation")


def read_assignment(text: str) -> tuple[str, Any]:
    """Reads the key and the values of one ``--space`` of the command line.

    Raises:
        RecipeError: if the text is not ``section.key=`` and a TOML list or table.

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
    """Reads the search space from all ``--space`` options of the command line.

    ``recipe`` holds the values of its ``--set`` options.

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
    """Checks and returns the whole search space of a recipe.

    It is the default space `SPACE`, as far as the recipe's model has those arguments. Values that
    `tfpn.recipes.override` (``--set``) has set are left out: they do not vary.

    Args:
        recipe: a `tfpn.recipes.Recipe`.
        space: dict from "section.key" to a list of choices or a dict of `RANGE`. Its entries
            replace those of the default space or add to them. A list of one fixes the value.

    Returns:
        A dict of the same form.

    Raises:
        RecipeError: for an unknown key, or values that the recipe cannot take.

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
        "is_steerable": model["name"] == "SteerablePNCNN",
    }
    if "model.uncertainty" in found and any(needed.values()):
        # This import loads TensorFlow.
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
        raise recipes.RecipeError(
            "the search space is empty; leave out a --set, or give a value to vary"
        )
    return found


def with_values(
    recipe: recipes.Recipe, values: Mapping[str, Any], origin: str | None = None
) -> recipes.Recipe:
    """A copy of a recipe with new values by "section.key"; error messages name ``origin``."""
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
        recipe: the resolved recipe. Its values are the defaults if they lie in the space.
        space: from `search_space`.

    Returns:
        A dict from "section.key" to the value. Floats are rounded to six digits, as many as survive
        a transfer between a chief and its workers.
    """
    values = {}
    for name, given in space.items():
        section, key = name.split(".")
        value = _declare(hp, name, given, recipe.sections[section].get(key))
        values[name] = rounded(value)
    return values


def rounded(value: Any) -> Any:
    """Rounds a float to six digits; returns anything else unchanged."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _declare(hp, name, given, default):
    if isinstance(given, list):
        if any(map(_is_nested, given)):
            # Keras Tuner does not take tables or lists as choices, so it gets their text.
            texts = [value if isinstance(value, str) else recipes.toml(value) for value in given]
            default = texts[given.index(default)] if default in given else None
            return given[texts.index(hp.Choice(name, texts, default=default))]
        if len(given) == 1:
            return hp.Fixed(name, given[0])
        if isinstance(given[0], bool):
            return hp.Boolean(name, default=bool(default))
        default = default if default in given else None
        if isinstance(given[0], float):
            # Floats travel in single precision between a chief and its workers. A rounded choice
            # would not be one of the choices.
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
                "and max_value, and optionally step and sampling"
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
        # Names and tables may be mixed, such as for kernels.
        kinds = {str if _is_nested(value) else type(value) for value in values}
        different = len(set(map(repr, values))) == len(tried)
        if len(kinds) != 1 or not kinds <= {bool, int, float, str} or not different:
            raise recipes.RecipeError(
                f"{origin}: found {values!r}; give different numbers; or texts, lists and tables; "
                "or true and false"
            )
    for value in tried:
        resolved = recipes.resolve(with_values(recipe, {name: value}, f"{origin}, value {value!r}"))
        if (isinstance(value, str) or _is_nested(value)) and section == "model":
            # Only the model can check a text or a table.
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
    """The differences between two search spaces, one line of text for each value."""
    return [
        f"the search space of {name} was {old.get(name, 'not set')!r}, "
        f"is {new.get(name, 'not set')!r}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]
