"""Searches for hyperparameters with Keras Tuner.

`PNCNNHyperModel` is a hypermodel for any tuner of Keras Tuner. It starts from a recipe, and a
search space says which values vary. `tune` runs a whole search, like the command ``tfpn tune``. It
records failed trials and goes on. You can resume a killed search. In the end it trains the best
trial's recipe on training and validation data together.

Install it with ``pip install 'tfpn[tuning]'``.
"""

import importlib.util

# Keras Tuner imports tensorboard in every trial, but does not require it.
for _name in ("keras_tuner", "tensorboard"):
    if importlib.util.find_spec(_name) is None:
        raise ImportError(
            f"tfpn.tuning needs {_name}, which is not installed. Install it with: "
            "pip install 'tfpn[tuning]'"
        )

from tfpn.tuning.hypermodel import PNCNNHyperModel  # noqa: E402
from tfpn.tuning.search import tune  # noqa: E402
from tfpn.tuning.space import SPACE  # noqa: E402

__all__ = ["SPACE", "PNCNNHyperModel", "tune"]
