"""Checks of what `PNTimeSeriesClassifier` is given: targets, statics, query points."""

import numpy as np

from tfpn.layers.base import check_count
from tfpn.models.time_series_inputs import FINITE, KNOWN


def check_targets(y):
    """Raises ValueError for lists, texts, objects and NaN, which Keras refuses without a name."""
    if isinstance(y, (list, tuple)):
        raise ValueError(
            f"y is a {type(y).__name__}; give an array of labels or targets: numpy.asarray(y)."
        )
    y = np.asarray(y)
    if y.dtype.kind in "US" or y.dtype.kind == "O" and any(isinstance(o, str) for o in y.flat):
        raise ValueError(
            "y holds texts; labels are whole numbers 0 to K - 1: give those of "
            "numpy.unique(y, return_inverse=True)."
        )
    if y.dtype.kind == "O" and y.ndim:  # None and a dict have no axes
        raise ValueError(
            "y has the dtype object; give an array of numbers, y.astype(int) for labels, after "
            "leaving out examples without one."
        )
    if y.dtype.kind != "f":
        return
    wrong = np.unique(np.argwhere(np.isnan(y))[:, 0])
    if len(wrong):
        raise ValueError(
            f"y is NaN for {len(wrong)} of {len(y)} examples, the first of them {wrong[0]}: leave "
            "out examples without a label or target (or hand them over in a tf.data.Dataset, with "
            "a loss of your own that passes over them)."
        )


def check_statics(x, count):
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


def read_query(query, pooling):
    """ "union" or a number of points."""
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
