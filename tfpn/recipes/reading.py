"""Recipes as files: reads, overrides, writes and compares them."""

import dataclasses
import difflib
import json
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tfpn.gone import without_gone
from tfpn.types import PathLike

SECTIONS = ("data", "model", "training", "augmentation")


class RecipeError(ValueError):
    """A recipe cannot be used. The message names the file and the key, and what was found."""


@dataclasses.dataclass
class Recipe:
    """A recipe's name, its sections, and where each value came from.

    Attributes:
        name: the recipe's name, which also names a run's default folder.
        sections: dict of "data", "model", "training" and "augmentation", each a dict of plain TOML
            values.
        source: the file that the recipe came from, for error messages.
        overridden: dict from (section, key) to the command-line text that set the value.
    """

    name: str
    sections: dict[str, dict[str, Any]]
    source: str
    overridden: dict[tuple[str, str], str] = dataclasses.field(default_factory=dict)

    def origin(self, section: str, key: str) -> str:
        """The file or the command-line text that a value came from."""
        return self.overridden.get((section, key), self.source)


def models_folder() -> Path:
    """The folder of the reference models: ``models/`` of the checkout or of the installation."""
    package = Path(__file__).resolve().parents[1]
    # A wheel holds models/ inside the package; a checkout has it next to the package.
    for folder in (package / "_models", package.parent / "models"):
        if folder.is_dir():
            return folder
    raise RecipeError(f"no reference models found next to {package}; reinstall tfpn")


def names() -> list[str]:
    """The names of the recipes that come with tfpn, sorted.

    >>> "digits" in names()
    True
    """
    return sorted(path.parent.name for path in models_folder().glob("*/recipe.toml"))


def load(recipe: PathLike) -> Recipe:
    """Reads a recipe.

    Args:
        recipe: a name from `names()`, or the path of a TOML file.

    Returns:
        A `Recipe` with the values of the file. `resolve` checks them and adds the defaults.

    Raises:
        RecipeError: if there is no such recipe, if it is not TOML, if a section is unknown, or if
            it has no name.

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
        check_known(section, SECTIONS, f"{path}: unknown section")
        if not isinstance(values, dict):
            raise RecipeError(f"{path}: found {section} = {values!r}; write a section [{section}]")
    sections = {section: dict(content.get(section, {})) for section in SECTIONS}
    sections["model"] = without_gone(sections["model"])
    return Recipe(name, sections, str(path))


def override(recipe: Recipe, assignment: str, origin: str | None = None) -> None:
    """Sets one value of a recipe in place.

    Args:
        recipe: a `Recipe`.
        assignment: text such as ``training.epochs=3``. The value is TOML; other text is taken as a
            string.
        origin: the name of the assignment in error messages, by default ``--set`` and the text.

    Raises:
        RecipeError: if the text is not ``section.key=value``, or the section does not exist.

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
    check_known(section, SECTIONS, f"{origin}: unknown section")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    recipe.sections[section][key] = value
    recipe.overridden[section, key] = origin


def dumps(recipe: Recipe) -> str:
    """A recipe as TOML text.

    >>> text = dumps(load("digits"))
    >>> tomllib.loads(text)["name"]
    'digits'
    """
    lines = [f"name = {toml(recipe.name)}"]
    for section in recipe.sections:
        lines += ["", f"[{section}]"]
        lines += [f"{key} = {toml(value)}" for key, value in recipe.sections[section].items()]
    return "\n".join(lines) + "\n"


def differences(old: Recipe, new: Recipe) -> list[str]:
    """The differences between two recipes, one line of text for each value."""
    lines = [] if old.name == new.name else [f"name was {old.name!r}, is {new.name!r}"]
    for section in SECTIONS:
        before, after = old.sections[section], new.sections[section]
        for key in sorted({*before, *after}):
            if key not in before or key not in after or before[key] != after[key]:
                was, now = before.get(key, "not set"), after.get(key, "not set")
                lines.append(f"{section}.{key} was {was!r}, is {now!r}")
    return lines


def toml(value: Any) -> str:
    """A value as TOML text.

    >>> toml({"weights": [1.0, 3.0], "name": "x"})
    '{"weights" = [1.0, 3.0], "name" = "x"}'
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        pairs = (f"{toml(key)} = {toml(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    return json.dumps(value, ensure_ascii=False)


def check_known(name: str, known: Collection[str], what: str) -> None:
    """Raises RecipeError for an unknown name, and suggests the nearest known one."""
    if name not in known:
        raise RecipeError(
            f"{what} {name!r}{_suggest(name, known)}; known: {', '.join(sorted(known))}"
        )


def _suggest(name, known):
    close = difflib.get_close_matches(name, known, n=1)
    return f", did you mean {close[0]!r}?" if close else ""
