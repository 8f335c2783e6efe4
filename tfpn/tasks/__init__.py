"""Predicts values from irregular data: fills gaps, maps fields, forecasts series.

All functions take a model with ``output="field"``, such as ``tfpn.models.PNCNN(None,
num_outputs=1, output="field")``. `train` needs no targets: it hides some of the readings, and the
model learns to predict them. `windows` cuts long series into histories and futures, which you give
to `fit`.
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
