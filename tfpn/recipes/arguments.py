"""The arguments that a recipe may give: names, types and defaults, from signatures."""

import dataclasses
import inspect
import os
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfpn.recipes.reading import RecipeError

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
# The types that TOML holds, by their names in messages. A whole number is a float, too.
_PLAIN = {"bool": bool, "int": int, "float": float, "str": str, "list": list, "table": dict}


@dataclasses.dataclass(frozen=True)
class Argument:
    """An argument's annotation and its default (None if it has none)."""

    annotation: Any
    default: Any

    @property
    def plain(self) -> Any:
        """The default as TOML holds it, or None if TOML cannot hold it."""
        return _plain(self.default)

    def read(self, value: Any, what: str) -> Any:
        """Checks a value from TOML against the annotation; turns whole numbers into floats.

        Raises:
            RecipeError: if the value has another type. The message begins with ``what``.

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
    """The named arguments of a function or of a class's constructor, without ``name``."""
    constructor = function.__init__ if inspect.isclass(function) else function
    hints = typing.get_type_hints(constructor)
    return {
        p.name: Argument(hints[p.name], None if p.default is p.empty else p.default)
        for p in inspect.signature(function).parameters.values()
        if p.kind in _NAMED and p.name != "name"
    }


def _kinds(annotation: Any) -> list[str]:
    """The names in `_PLAIN` of the types that an annotation allows and TOML can hold."""
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
    """The name in `_PLAIN` of a value's type; "" for dates, which no argument takes."""
    return next((name for name, kind in _PLAIN.items() if type(value) is kind), "")


def _plain(value: Any) -> Any:
    """A default as TOML holds it, or None if TOML cannot hold it."""
    if isinstance(value, tuple | list):
        items = [_plain(item) for item in value]
        return None if None in items else items
    return value if isinstance(value, bool | int | float | str) else None
