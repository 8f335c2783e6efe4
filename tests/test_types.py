"""The types of the public API: complete, importable at run time, and those of the code."""

import ast
import importlib
import inspect
import pkgutil
import typing
from pathlib import Path

import pytest

import tfpn
from tfpn import types
from tfpn.layers import GatedReLU
from tfpn.layers.steerable_relu import GATES
from tfpn.math.posterior import TRAINS
from tfpn.math.steerable.generators import CONSTRAINTS
from tfpn.math.stochastic import ESTIMATORS, PROBES
from tfpn.models import PNTimeSeries
from tfpn.models.time_series_checks import CONTEXT, MISSINGNESS

MODULES = [
    *(
        "augmentation",
        "callbacks",
        "contract",
        "coordinates",
        "datasets",
        "debug",
        "distributions",
        "evaluation",
    ),
    *(
        "exporting",
        "figures",
        "grids",
        "layers",
        "losses",
        "math",
        "math.activations",
        "math.kernels",
    ),
    *("math.posterior", "math.uncertainty", "metrics", "models", "recipes", "symmetry"),
    *("tasks", "training", "tuning", "wrappers"),
]


def public(module):
    """Functions and classes of a module: of its ``__all__``, or all that it defines."""
    names = getattr(module, "__all__", [name for name in vars(module) if name[0] != "_"])
    for name in names:
        value = getattr(module, name)
        if getattr(value, "__module__", "").startswith("tfpn"):
            if hasattr(module, "__all__") or value.__module__ == module.__name__:
                yield name, value


def is_own(function):
    return Path(tfpn.__file__).parent in Path(function.__code__.co_filename).parents


def members(name, value):
    """A public name's functions: itself, or the public ones of its class and its bases."""
    if inspect.isfunction(value):
        yield name, value
    if not inspect.isclass(value):
        return
    for kind in value.__mro__:
        for attribute, member in vars(kind).items() if "tfpn" in kind.__module__ else ():
            member = getattr(member, "fget", getattr(member, "func", member))
            member = inspect.unwrap(getattr(member, "__func__", member))
            is_public = attribute == "__init__" or attribute[0] != "_"
            # Not what dataclasses, Keras and TensorFlow Probability write into a class.
            if inspect.isfunction(member) and is_public and is_own(member):
                yield f"{kind.__name__}.{attribute}", member


@pytest.mark.parametrize("module", MODULES)
def test_public_names_are_annotated(module):
    """Arguments and results, but for ``self``; a type checker reads them in ``make test``."""
    module = importlib.import_module(f"tfpn.{module}")
    missing, seen = [], 0
    for name, function in (x for entry in public(module) for x in members(*entry)):
        signature = inspect.signature(function)
        parameters = [
            p for n, p in enumerate(signature.parameters.values()) if n or "." not in name
        ]
        empty = [p.name for p in parameters if p.annotation is p.empty]
        if signature.return_annotation is signature.empty:
            empty.append("return")
        missing += [f"{name}: {x}" for x in empty]
        seen += 1
    assert missing == [] and seen


def test_every_public_module_is_looked_at():
    found = {module.name for module in pkgutil.iter_modules(tfpn.__path__)}
    assert {name.partition(".")[0] for name in MODULES} <= found
    assert {*tfpn._SUBMODULES} <= {*MODULES}
    assert (Path(tfpn.__file__).parent / "py.typed").exists()


def test_type_checkers_see_what_is_imported_on_first_use():
    """To them ``tfpn.models`` would be `Any` if only `__getattr__` gave it."""
    (block,) = (
        node for node in ast.parse(inspect.getsource(tfpn)).body if isinstance(node, ast.If)
    )
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    found = {alias.name for statement in block.body for alias in statement.names}
    assert found == {*tfpn.__all__} - {"__version__"}


@pytest.mark.parametrize(
    ("choices", "known"),
    [
        (types.Trains, TRAINS),
        (types.VarianceEstimator, ESTIMATORS),
        (types.Probes, PROBES),
        (types.Constraint, CONSTRAINTS),
        ((GatedReLU, "gates"), GATES),
        ((PNTimeSeries, "context"), CONTEXT),
        ((PNTimeSeries, "missingness"), MISSINGNESS),
    ],
)
def test_choices_are_those_of_the_code(choices, known):
    if isinstance(choices, tuple):
        choices = typing.get_type_hints(choices[0].__init__)[choices[1]]
    assert sorted(typing.get_args(choices)) == sorted(known)
