"""Values back from irregular data: gaps filled, fields mapped, series forecast.

All take a model with ``output="field"``, such as ``tfpn.models.PNCNN(None, num_outputs=1,
output="field")``. `train` needs no targets: it hides some of the readings and learns to predict
them. `windows` cuts long series into histories and futures, for which `fit` takes targets.
"""

from tfpn.tasks.filling import Values, impute, interpolate
from tfpn.tasks.forecasting import forecast, season, windows
from tfpn.tasks.hiding import HiddenReadings, hide, train

__all__ = [
    "HiddenReadings",
    "Values",
    "forecast",
    "hide",
    "impute",
    "interpolate",
    "season",
    "train",
    "windows",
]
