"""Keras layers whose feature maps are Gaussian processes.

The parts are imported on first use, so that ``import tfpn`` is quick and does not load TensorFlow.
"""

import importlib

from tfpn._registration import register as _register
from tfpn._version import __version__

_SUBMODULES = (
    *("augmentation", "callbacks", "datasets", "debug", "distributions", "evaluation"),
    *("exporting", "figures", "layers", "math", "metrics", "models", "recipes", "symmetry"),
    *("training", "tuning", "wrappers"),
)
_FUNCTIONS = {"check_equivariance": "tfpn.symmetry", "observations": "tfpn.contract"}

__all__ = ["__version__", *_SUBMODULES, *_FUNCTIONS]


def __getattr__(name):
    if name in _SUBMODULES:
        return importlib.import_module(f"tfpn.{name}")
    if name in _FUNCTIONS:
        value = getattr(importlib.import_module(_FUNCTIONS[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'tfpn' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})


_register()
