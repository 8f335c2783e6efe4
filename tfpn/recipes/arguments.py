"""The arguments that a recipe may give: names, types and defaults, out of signatures."""

import dataclasses
import inspect
import os
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfpn.recipes.reading import RecipeError

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
# What TOML holds, by the name that messages give it. A whole number is a float as well.
_PLAIN = {"bool": bool, "int": int, "float": float, "str": str, "list": list, "table": dict}


@dataclasses.dataclass(frozen=True)
class Argument:
    """An argument's annotation and its default, None without one."""

    annotation: Any
    default: Any

    @property
    def plain(self) -> Any:
        """The default as TOML holds it, or None for one that TOML cannot hold."""
        return _plain(self.default)

    def read(self, value: Any, what: str) -> Any:
        """A value out of TOML, checked against the annotation; a whole number becomes a float.

        Raises:
            RecipeError: a value of another type; ``what`` begins the message.

        >>> Argument(float | None, 0.1).read(2, "model.feature_noise")
        2.0
        """
        kinds = _kinds(self.annotation)
        found = _kind(value)
        if found in kinds or (found == "int" and "float" in kinds):
            return float(value) if found not in kinds else value
        example = "" if self.plain is None else f", such as {self.plain!r}"
        raise RecipeError(
            f"{what}: found {value!r} ({type(value).__name__}); "
            f"give a value of type {' or '.join(kinds)}{example}"
        )


def arguments_of(function: Callable[..., Any]) -> dict[str, Argument]:
    """The named arguments of a function or of a class's constructor, but for ``name``."""
    constructor = function.__init__ if inspect.isclass(function) else function
    hints = typing.get_type_hints(constructor)
    return {
        p.name: Argument(hints[p.name], None if p.default is p.empty else p.default)
        for p in inspect.signature(function).parameters.values()
        if p.kind in _NAMED and p.name != "name"
    }


def _kinds(annotation: Any) -> list[str]:
    """The names in `_PLAIN` of what an annotation allows, as far as TOML can hold it."""
    origin = typing.get_origin(annotation)
    if annotation is Any:
        return list(_PLAIN)
    if origin in (types.UnionType, typing.Union):
        found = [kind for part in typing.get_args(annotation) for kind in _kinds(part)]
        return list(dict.fromkeys(found))
    if origin is typing.Literal:
        return list(dict.fromkeys(_kind(choice) for choice in typing.get_args(annotation)))
    wanted = origin or annotation
    if not inspect.isclass(wanted):
        return []
    if issubclass(wanted, os.PathLike) or wanted is str:
        return ["str"]
    if wanted in (Sequence, tuple, list):
        return ["list"]
    if wanted in (Mapping, dict):
        return ["table"]
    return [name for name, kind in _PLAIN.items() if wanted is kind]


def _kind(value: Any) -> str:
    """The name in `_PLAIN` of a value's own type, "" for dates, which nothing takes."""
    return next((name for name, kind in _PLAIN.items() if type(value) is kind), "")


def _plain(value: Any) -> Any:
    """A default as TOML holds it, or None for one that TOML cannot hold."""
    if isinstance(value, tuple | list):
        items = [_plain(item) for item in value]
        return None if None in items else items
    return value if isinstance(value, bool | int | float | str) else None
