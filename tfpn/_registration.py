"""Tells Keras where tfpn's classes are, without loading Keras.

Keras finds a class by its registered name in a table. It imports a module that a file names only if
the module belongs to Keras. So the names have to be in this table, which exists once Keras has been
imported. Keras calls nobody when that happens. And ``import tfpn`` must not import Keras, because
that takes seconds. So a hook in Python's import fills the table with stand-ins for the classes as
soon as anything else imports Keras.
"""

import importlib.util
import sys
from typing import Any

# Registered names are "tfpn>" and the class's name.
MODULES = {
    "tfpn.layers": (
        *("ChannelMix", "GPNormalization", "GatedReLU", "IntegralPooling", "PNConv"),
        *(
            "ProbActivation",
            "ProbReLU",
            "SteerableMix",
            "SteerableNormalization",
            "SteerablePNConv",
        ),
    ),
    "tfpn.losses": ("CRPS", "GaussianNLL", "SquaredError"),
    "tfpn.metrics": ("BinaryAUC",),
    # PNTimeSeriesClassifier is the first name of PNTimeSeries.
    "tfpn.models": ("PNCNN", "PNTimeSeries", "PNTimeSeriesClassifier", "SteerablePNCNN"),
}


class _OnFirstUse:
    """Stands in for a class until Keras builds an object from its configuration."""

    def __init__(self, module, name):
        self._module, self._name = module, name

    def from_config(self, config):
        return getattr(importlib.import_module(self._module), self._name).from_config(config)


class _AfterKeras:
    """An import hook: it finds Keras as Python does, and registers the classes after its import."""

    def find_spec(self, name, path=None, target=None):
        if name != "keras":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def exec_module(module):
                execute(module)
                _register(module)

            loader.exec_module = exec_module
        return spec


def _register(keras):
    known = keras.saving.get_custom_objects()
    for module, names in MODULES.items():
        for name in names:
            # The class replaces its stand-in when it is imported.
            known.setdefault(f"tfpn>{name}", _OnFirstUse(module, name))


def register():
    """Registers the classes now, or as soon as Keras is imported."""
    if "keras" in sys.modules:
        _register(sys.modules["keras"])
    else:
        sys.meta_path.insert(0, _AfterKeras())
