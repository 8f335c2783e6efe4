"""Search for hyperparameters with Keras Tuner.

`PNCNNHyperModel` is a Keras Tuner hypermodel: a recipe is the base and a search space says which of
its values vary. Any tuner of Keras Tuner takes it. `tune`, which the command ``tfpn tune`` calls,
runs a whole search: trials that fail are recorded and the search goes on, a killed search resumes,
and the best trial's recipe is trained on training and validation data together.

Needs ``pip install 'tfpn[tuning]'``.
"""

import importlib.util

# Keras Tuner imports tensorboard in every trial and does not require it.
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
