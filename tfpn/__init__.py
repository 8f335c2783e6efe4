"""Keras layers whose feature maps are Gaussian processes.

The parts are imported on first use, so that ``import tfpn`` is quick and does not load TensorFlow.
"""

import importlib
from typing import TYPE_CHECKING, Any

from tfpn._registration import register as _register
from tfpn._version import __version__

if TYPE_CHECKING:  # type checkers do not follow `__getattr__`
    from tfpn import (
        augmentation,
        callbacks,
        coordinates,
        datasets,
        debug,
        distributions,
        evaluation,
        exporting,
        figures,
        grids,
        layers,
        losses,
        math,
        metrics,
        models,
        recipes,
        symmetry,
        tasks,
        training,
        tuning,
        wrappers,
    )
    from tfpn.contract import observations
    from tfpn.ordering import farthest_first
    from tfpn.symmetry import check_equivariance

__all__ = [
    "__version__",
    "augmentation",
    "callbacks",
    "check_equivariance",
    "coordinates",
    "datasets",
    "debug",
    "distributions",
    "evaluation",
    "exporting",
    "farthest_first",
    "figures",
    "grids",
    "layers",
    "losses",
    "math",
    "metrics",
    "models",
    "observations",
    "recipes",
    "symmetry",
    "tasks",
    "training",
    "tuning",
    "wrappers",
]

_FUNCTIONS = {
    "check_equivariance": "tfpn.symmetry",
    "farthest_first": "tfpn.ordering",
    "observations": "tfpn.contract",
}
_SUBMODULES = tuple(name for name in __all__ if name not in (*_FUNCTIONS, "__version__"))


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"tfpn.{name}")
    if name in _FUNCTIONS:
        value = getattr(importlib.import_module(_FUNCTIONS[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'tfpn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_register()
