"""Checks of what `PNTimeSeriesClassifier` is given: statics, query points."""

import warnings
from typing import Any

import numpy as np

from tfpn.checks import check_count
from tfpn.models.time_series_inputs import FINITE, KNOWN
from tfpn.types import Observations, Pooling

# Times in a box at which blocks are evaluated by default.
_QUERY = 24


def check_statics(x: Observations, count: int) -> None:
    """Raises ValueError if statics are not what `PNTimeSeriesClassifier` takes."""
    statics, variance = (np.asarray(x[key]) for key in ("statics", "statics_variance"))
    expected = (len(x["points"]), count)
    for key, array in (("statics", statics), ("statics_variance", variance)):
        if array.shape != expected:
            raise ValueError(f"{key} has the shape {array.shape}; expected {expected}.")
    for key, array, wrong, wanted in (
        ("statics_variance", variance, (variance != 0) & (variance != np.inf), KNOWN),
        ("statics", statics, ~np.isfinite(statics) & (variance == 0), FINITE),
    ):
        if wrong.any():
            example, column = np.argwhere(wrong)[0]
            raise ValueError(
                f"{key} is {array[example, column]} for static {column} of example {example}: "
                f"{wanted}."
            )


def read_query(query: int | str | None, pooling: Pooling) -> Any:
    """ "union" or a number of points; None for the default."""
    if query is None:
        return "union" if pooling == "space" else _QUERY
    if isinstance(query, str):
        if query != "union":
            raise ValueError(f"query must be 'union' or a positive whole number, found {query!r}.")
        return query
    if pooling == "space":
        raise ValueError(
            f"query={query!r} asks for a grid over the box of the stay: give it as "
            "pooling=(start, end)."
        )
    return check_count("query", query)


def warn_of_points_outside(x: Observations, pooling: Any) -> None:
    """Warns if points at which something is observed lie outside the box ``pooling``."""
    if pooling == "space":
        return
    times = x["points"][np.isfinite(x["variance"]).any(-1)]
    outside = np.mean((times < pooling[0]) | (times > pooling[1]))
    if outside > 0.0:
        warnings.warn(
            f"{outside:.1%} of the points lie outside pooling={pooling}, over which the "
            f"features are integrated; they reach from {times.min():g} to "
            f"{times.max():g}: build the model with the box of the stay.",
            stacklevel=3,
        )
