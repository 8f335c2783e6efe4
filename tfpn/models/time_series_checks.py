"""Checks of the arguments and inputs of `PNTimeSeries`."""

import warnings
from typing import Any

import numpy as np

from tfpn.checks import check_choice, check_count
from tfpn.math.posterior import PRIORS
from tfpn.math.uncertainty import UNCERTAINTY
from tfpn.models.time_series_inputs import FINITE, KNOWN
from tfpn.types import Config, Observations, Pooling

MISSINGNESS = ("none", "counts", "intensity")
CONTEXT = ("head", "features", "both")

# The choices of the model's arguments other than registered names.
_CHOICES = {
    "input_prior": PRIORS,
    "missingness": MISSINGNESS,
    "context": CONTEXT,
}


def check_choices(config: Config) -> None:
    """Raises ValueError if an argument of `PNTimeSeries` is not one of its choices."""
    for name, choices in _CHOICES.items():
        check_choice(name, config[name], choices)


# The default number of times in a box at which blocks are evaluated.
_QUERY = 24


def check_statics(x: Observations, count: int) -> None:
    """Raises ValueError unless statics have the form that `PNTimeSeries` takes."""
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
    """Reads "union" or a number of points; None gives the default."""
    if query is None:
        return "union" if pooling == "space" else _QUERY
    if isinstance(query, str):
        if query != "union":
            raise ValueError(f"query must be 'union' or a positive whole number, found {query!r}.")
        return query
    if pooling == "space":
        raise ValueError(
            f"query={query!r} asks for a grid over the range of the times: give it as "
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
            f"{outside:.1%} of the points lie outside pooling={pooling}, the box over which "
            f"features are integrated; the points reach from {times.min():g} to "
            f"{times.max():g}: give pooling=(start, end) that holds them, or count the times of "
            "each example from its own start.",
            stacklevel=3,
        )


def check_windows(config: Config) -> None:
    """Raises ValueError unless windows and clock fit the pooling and the uncertainty."""
    windows, clock, uncertainty = (config[key] for key in ("windows", "clock", "uncertainty"))
    pooling = config["pooling"]
    if pooling == "space" and (windows > 1 or clock):
        raise ValueError(
            f"windows={windows} or clock={clock} needs the range of the times: give it as "
            "pooling=(start, end)."
        )
    if windows > 1 and not UNCERTAINTY[uncertainty].may_split:
        raise ValueError(
            f"windows={windows} takes the errors of windows as independent, and "
            f"uncertainty={uncertainty!r} does not: give windows=1 or uncertainty='low_rank'."
        )
