"""Recipes: TOML files that say which data, which model and which training make a result.

A recipe has a ``name`` and up to four sections. ``[data]`` holds the name of a loader of
`tfpn.datasets` and that loader's arguments, ``[model]`` the name of a class of `tfpn.models` and
its constructor's arguments, ``[training]`` the keys of `TRAINING`, and the optional
``[augmentation]`` the ranges of `tfpn.augmentation.jitter`. The arguments are read from the
signatures, so a recipe can say everything that code can say and nothing else.
"""

import dataclasses
import difflib
import inspect
import json
import math
import tomllib
from pathlib import Path

from tfpn import augmentation
from tfpn.contract import KEYS

TRAINING = {
    "epochs": 30,
    "batch_size": 50,
    "learning_rate": 3e-3,
    "schedule": "cosine",
    "seed": 0,
    # One weight for each class, which multiplies the loss of its examples; [] for none.
    "class_weight": [],
    # Epochs without improvement of `monitor` after which to stop, 0 for never. With a number the
    # run keeps the weights of the best epoch.
    "patience": 0,
    "monitor": "val_loss",
    # Whether batches hold examples of like length and are cut to the longest of them.
    "by_length": False,
}
# What `monitor` may name, and whether more of it is better.
MONITORS = {
    "val_loss": False,
    "val_accuracy": True,
    "val_auroc": True,
    "val_average_precision": True,
}
SCHEDULES = ("cosine", "constant")
SECTIONS = ("data", "model", "training", "augmentation")


class RecipeError(ValueError):
    """A recipe that cannot be used; the message names the file, the key and what was found."""


@dataclasses.dataclass
class Recipe:
    """A recipe's name, its sections, and where each value came from.

    Attributes:
        name: what the recipe is called; a run's default folder is named after it.
        sections: dict of "data", "model", "training" and "augmentation", each a dict of plain TOML
            values.
        source: the file the recipe was read from, for error messages.
        overridden: dict from (section, key) to the command-line text that set that value.
    """

    name: str
    sections: dict
    source: str
    overridden: dict = dataclasses.field(default_factory=dict)

    def origin(self, section, key):
        """The file or the command-line text that a value came from."""
        return self.overridden.get((section, key), self.source)


def models_folder():
    """The folder of the reference models: ``models/`` of the checkout or of the installation."""
    package = Path(__file__).resolve().parent
    # A wheel carries models/ inside the package; a checkout has it next to the package.
    for folder in (package / "_models", package.parent / "models"):
        if folder.is_dir():
            return folder
    raise RecipeError(f"no reference models found next to {package}; reinstall tfpn")


def names():
    """The names of the recipes that come with tfpn, sorted.

    >>> "digits" in names()
    True
    """
    return sorted(path.parent.name for path in models_folder().glob("*/recipe.toml"))


def load(recipe):
    """Reads a recipe.

    Args:
        recipe: a name out of `names()`, or the path of a TOML file.

    Returns:
        A `Recipe` as written in the file; see `resolve` for the checks and the defaults.

    Raises:
        RecipeError: no such recipe, not TOML, a section that does not exist, or no name.

    >>> load("digits").sections["data"]["name"]
    'digits'
    """
    path = Path(recipe)
    if path.suffix != ".toml":
        if str(recipe) not in names():
            raise RecipeError(
                f"no recipe named {str(recipe)!r}{_suggest(str(recipe), names())}; give one of "
                f"{', '.join(names())} or the path of a .toml file"
            )
        path = models_folder() / recipe / "recipe.toml"
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecipeError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path} is not TOML: {error}") from error
    name = content.pop("name", None)
    if not isinstance(name, str) or not name:
        raise RecipeError(f'{path}: found name = {name!r}; set name = "..." on the first line')
    for section, values in content.items():
        _check_known(section, SECTIONS, f"{path}: unknown section")
        if not isinstance(values, dict):
            raise RecipeError(f"{path}: found {section} = {values!r}; write a section [{section}]")
    return Recipe(name, {s: dict(content.get(s, {})) for s in SECTIONS}, str(path))


def override(recipe, assignment, origin=None):
    """Sets one value of a recipe in place.

    Args:
        recipe: a `Recipe`.
        assignment: text such as ``training.epochs=3``; the value is TOML, and text that is not
            TOML is taken as a string.
        origin: what error messages call the assignment; ``--set`` and the text by default.

    Raises:
        RecipeError: the text is not ``section.key=value``, or the section does not exist.

    >>> recipe = load("digits")
    >>> override(recipe, "training.epochs=3")
    >>> recipe.sections["training"]["epochs"]
    3
    """
    origin = origin or f"--set {assignment}"
    target, equals, text = assignment.partition("=")
    section, dot, key = target.strip().partition(".")
    if not equals or not dot or not key:
        raise RecipeError(f"{origin}: write section.key=value, for example training.epochs=3")
    _check_known(section, SECTIONS, f"{origin}: unknown section")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    recipe.sections[section][key] = value
    recipe.overridden[section, key] = origin


def resolve(recipe):
    """Checks every key and value of a recipe and fills in the defaults.

    Args:
        recipe: a `Recipe`.

    Returns:
        A new `Recipe` in which every value that TOML can hold is written out. A recipe without the
        section "data", for data from elsewhere, stays without.

    Raises:
        RecipeError: an unknown data set, model or key, a wrong type, or a value out of range.
    """
    sections = {"training": _filled(recipe, "training", TRAINING)}
    _check_training(recipe, sections["training"])
    ranges = {k: v for k, v in _arguments(augmentation.jitter).items() if k not in ("x", "rng")}
    sections["augmentation"] = _filled(recipe, "augmentation", ranges)
    for key, value in sections["augmentation"].items():
        try:
            augmentation.check_range(key, value)
        except ValueError as error:
            origin = recipe.origin("augmentation", key)
            raise RecipeError(f"{origin}: augmentation.{error}") from error
    for section, lookup in (("data", loader), ("model", model_class)):
        if section not in recipe.sections:
            continue
        function = lookup(recipe)
        sections[section] = {
            "name": recipe.sections[section]["name"],
            **_filled(recipe, section, _arguments(function)),
        }
    _check_counts(recipe, sections["model"])
    ordered = {section: sections[section] for section in SECTIONS if section in sections}
    return Recipe(recipe.name, ordered, recipe.source, recipe.overridden)


def loader(recipe):
    """The loader of `tfpn.datasets` that a recipe's [data] names."""
    from tfpn import datasets

    known = [n for n in datasets.__all__ if inspect.isfunction(getattr(datasets, n))]
    return getattr(datasets, _named(recipe, "data", known))


def model_class(recipe):
    """The class of `tfpn.models` that a recipe's [model] names."""
    import keras

    from tfpn import models

    def is_model(value):
        return inspect.isclass(value) and issubclass(value, keras.Model)

    known = [n for n in models.__all__ if is_model(getattr(models, n))]
    return getattr(models, _named(recipe, "model", known))


def load_data(recipe):
    """Loads the data set of a resolved recipe.

    Raises:
        RecipeError: a file is missing, a package is missing, or the loader refuses an argument.
    """
    return _call(recipe, "data", loader(recipe))


def build_model(recipe):
    """Builds the (uncompiled) model of a resolved recipe.

    Raises:
        RecipeError: the model refuses an argument.
    """
    return _call(recipe, "model", model_class(recipe))


def check_data(recipe, model, data):
    """Checks that a classifier takes the observations and labels of a data set.

    Args:
        recipe: the resolved `Recipe` of both.
        model: the model, as `build_model` makes it.
        data: the data set, as `load_data` loads it.

    Raises:
        RecipeError: the model's dimension, channels or number of classes do not suit the data.
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
            refuse(key, found, f"{what.format(wanted)}; give {wanted}")
    for key in model.input:
        if key not in KEYS and not hasattr(parts[0], key):
            raise RecipeError(
                f"[data] {name} has no {key}, which the model takes beside the observations; give "
                "the loader's argument that keeps them, or a model without them"
            )
    found = {key: model.input[key].shape[-1] for key in ("statics",) if key in model.input}
    for key, size in found.items():
        wanted = getattr(parts[0], key).shape[-1]
        if size != wanted:
            refuse(f"num_{key}", size, f"{wanted} {key}; give {wanted}")
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
            f"is of two classes, and the model has {classes}; give val_loss or val_accuracy"
        )
    if highest >= classes:
        wanted = f"labels from {lowest} to {highest}; give at least {highest + 1}"
        refuse("num_classes", classes, wanted)


def model_inputs(model, part):
    """What a model takes of a part of a data set, by name.

    The observations, and where the model has further inputs, the part's arrays of those names, as
    the statics of `tfpn.datasets.physionet2012`.

    >>> import tfpn
    >>> part = tfpn.datasets.digits(keep=5).test
    >>> sorted(model_inputs(tfpn.models.PNCNN(channels=2, num_blocks=1), part))
    ['points', 'values', 'variance']
    """
    return {key: part.x[key] if key in part.x else getattr(part, key) for key in model.input}


def dumps(recipe):
    """A recipe as TOML text.

    >>> text = dumps(load("digits"))
    >>> tomllib.loads(text)["name"]
    'digits'
    """
    lines = [f"name = {_toml(recipe.name)}"]
    for section in recipe.sections:
        lines += ["", f"[{section}]"]
        lines += [f"{key} = {_toml(value)}" for key, value in recipe.sections[section].items()]
    return "\n".join(lines) + "\n"


def differences(old, new):
    """What differs between two recipes, one line of text a value."""
    lines = [] if old.name == new.name else [f"name was {old.name!r}, is {new.name!r}"]
    for section in SECTIONS:
        before, after = old.sections[section], new.sections[section]
        for key in sorted({*before, *after}):
            if key not in before or key not in after or before[key] != after[key]:
                was, now = before.get(key, "not set"), after.get(key, "not set")
                lines.append(f"{section}.{key} was {was!r}, is {now!r}")
    return lines


def _toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _plain(value):
    """A default as TOML holds it, or None for one that TOML cannot hold."""
    if isinstance(value, tuple | list):
        items = [_plain(item) for item in value]
        return None if None in items else items
    return value if isinstance(value, bool | int | float | str) else None


def _arguments(function):
    """Names and defaults of the arguments of a function or of a class's constructor."""
    parameters = inspect.signature(function).parameters.values()
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {
        p.name: None if p.default is inspect.Parameter.empty else p.default
        for p in parameters
        if p.kind in named and p.name != "name"
    }


def _filled(recipe, section, defaults):
    filled = {key: _plain(value) for key, value in defaults.items() if _plain(value) is not None}
    for key, value in recipe.sections[section].items():
        if key == "name" and section in ("data", "model"):
            continue
        origin = recipe.origin(section, key)
        _check_known(key, defaults, f"{origin}: unknown key in [{section}]:")
        filled[key] = _typed(value, defaults[key], f"{origin}: {section}.{key}")
    return filled


def _typed(value, default, what):
    """`value`, checked against the type of the default; a default of None takes anything."""
    # Arguments with a name for a default may take numbers instead, as in pooling = [0.0, 1.0].
    numbers = str | list | int
    expected = {bool: bool, int: int, float: int | float, str: numbers, tuple: list, list: list}
    kind = expected.get(type(default))
    if kind and (not isinstance(value, kind) or isinstance(value, bool) != (kind is bool)):
        raise RecipeError(
            f"{what}: found {value!r} ({type(value).__name__}); "
            f"give a value of type {type(default).__name__}, such as {default!r}"
        )
    return float(value) if isinstance(default, float) else value


def _check_training(recipe, training):
    def refuse(key, wanted):
        origin = recipe.origin("training", key)
        raise RecipeError(f"{origin}: training.{key}: found {training[key]!r}; give {wanted}")

    for key in ("epochs", "batch_size"):
        if training[key] < 1:
            refuse(key, "an integer of at least 1")
    if not (training["learning_rate"] > 0 and math.isfinite(training["learning_rate"])):
        refuse("learning_rate", "a positive number")
    if training["schedule"] not in SCHEDULES:
        refuse("schedule", f"one of {', '.join(SCHEDULES)}")
    if training["patience"] < 0:
        refuse("patience", "a number of epochs, or 0 to train all of them")
    if training["monitor"] not in tuple(MONITORS):  # a list has no hash
        refuse("monitor", f"one of {', '.join(MONITORS)}")
    weights = training["class_weight"]
    if not all(isinstance(w, int | float) and 0 < w < math.inf for w in weights):
        refuse("class_weight", "a positive number for each class, or []")
    if not 0 <= training["seed"] < 2**32:
        refuse("seed", "an integer from 0 to 2**32 - 1")


def _check_counts(recipe, values):
    """Refuses a [model] number below 1 where the default is an integer: these are all counts.

    A default of 0 stands for none.
    """
    for key, default in _arguments(model_class(recipe)).items():
        if type(default) is int and values[key] < (least := min(1, default)):
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
    _check_known(name, known, f"{recipe.origin(section, 'name')}: unknown {section}.name")
    return name


def _call(recipe, section, function):
    arguments = {k: v for k, v in recipe.sections[section].items() if k != "name"}
    name = recipe.sections[section]["name"]
    try:
        return function(**arguments)
    except (OSError, ImportError, ValueError, TypeError, RuntimeError) as error:
        raise RecipeError(f"[{section}] {name}: {error}") from error


def _check_known(name, known, what):
    if name not in known:
        raise RecipeError(
            f"{what} {name!r}{_suggest(name, known)}; known: {', '.join(sorted(known))}"
        )


def _suggest(name, known):
    close = difflib.get_close_matches(name, known, n=1)
    return f", did you mean {close[0]!r}?" if close else ""
