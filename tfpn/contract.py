"""The form that a layer's input, a layer's output and a data set's examples share.

Observations are a plain dict of three arrays:

    points    [B, N, d]   where
    values    [B, N, c]   what was measured
    variance  [B, N, c]   measurement noise variance; 0 = exact, +inf = not observed

A variance of ``+inf`` is the only way to say "missing": no mask travels beside the dict. A point at
which no channel is observed is padding.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tfpn.degrees import warn_of_degrees
from tfpn.ragged import check_agreement, form, full_variance, numeric, stack, swapped
from tfpn.types import Array, ArrayLike

KEYS = ("points", "values", "variance")

# float32 holds every integer up to this one, and not the next.
_LARGEST_EXACT_INTEGER = 2**24
# Number of points to check at once, so that checks of large arrays take little memory.
_ENTRIES = 2**20


def observations(
    points: ArrayLike, values: ArrayLike, variance: ArrayLike | None = None
) -> dict[str, Array]:
    """Turns arrays or ragged lists into the observations dict, and checks them.

    Give NaN in `values` (or a variance of ``+inf``) for what was not measured. It comes out with
    the value 0 and the variance ``+inf``. Give examples of unequal length as lists. They come out
    padded at the end with the point 0, the value 0 and the variance ``+inf``. B is the number of
    examples, N the number of points, d the dimension of the domain and c the number of channels.

    An example may have no points. Give it the shape [0, d] or [0, c], or an empty list if another
    example tells d or c. N is the length of the longest example, and at least 1.

    Args:
        points: Where the values were measured. An array [B, N, d], or a list of B arrays [N_i, d].
            An array is anything that `numpy.asarray` reads. Coordinates must be finite, except at a
            point without any observed channel: it becomes 0 if one of its coordinates is NaN or
            infinite, and stays as it is otherwise.
        values: What was measured. An array [B, N, c], or [B, N] for one channel, or a list of B
            arrays [N_i, c], or [N_i] for one channel. NaN means not observed.
        variance: The variance of the measurement noise. None (every observed value is exact), a
            number, one number per channel [c], or the same form as `values`. 0 means exact and
            ``+inf`` not observed. Layers raise smaller variances to a least one: 2e-13 times the
            example's number of observed points, at least 1e-12, times the square of the prior's
            ``signal_std`` (see `tfpn.math.convolve`).

    Returns:
        A dict of new NumPy arrays: "points" [B, N, d], "values" [B, N, c] and "variance"
        [B, N, c], all float64 if `points` or `values` are float64 (as lists of Python floats are),
        otherwise all float32.

    Raises:
        TypeError: if an argument does not hold real numbers (strings, objects, dates, complex
            numbers) or is a masked array.
        ValueError: if the rank of an argument is wrong; if there are no examples; if the numbers
            of examples, points or channels do not agree; if a coordinate of an observed point is
            NaN or infinite; if an observed value is infinite; if a variance is negative, or NaN
            where a value is observed; or if integer coordinates are too large for float32.

    Warns:
        UserWarning: if points in two dimensions look like longitudes and latitudes in degrees on
            both sides of the date line.

    Example:
        Two examples with two channels; the second one has a single point, and its second channel
        was not measured.

        >>> import numpy as np
        >>> import tfpn
        >>> x = tfpn.observations(
        ...     points=[np.array([[0.1], [0.4]]), np.array([[0.3]])],
        ...     values=[np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0, np.nan]])],
        ...     variance=0.01,
        ... )
        >>> x["points"].shape, x["values"].shape
        ((2, 2, 1), (2, 2, 2))
        >>> x["values"][1]
        array([[5., 0.],
               [0., 0.]])
        >>> x["variance"][1]
        array([[0.01,  inf],
               [ inf,  inf]])
    """
    points, point_counts = stack("points", points)
    values, value_counts = stack("values", values)
    check_agreement("values", values, value_counts, points, point_counts)

    is_double = any(a.dtype.kind == "f" and a.dtype.itemsize >= 8 for a in (points, values))
    dtype = np.float64 if is_double else np.float32
    if not is_double and points.dtype.kind in "iu":
        _check_integer_points(points)

    variance = full_variance(variance, values, value_counts)
    points, values = points.astype(dtype), values.astype(dtype)
    # A finite variance that overflows float32 is a precision of 0: not observed.
    with np.errstate(over="ignore"):
        variance = variance.astype(dtype)

    padding = np.arange(points.shape[1]) >= point_counts[:, None]
    variance[padding] = np.inf
    # A negative variance stays, to be reported below.
    variance[np.isnan(values) & ~(variance < 0)] = np.inf
    values[np.isposinf(variance)] = 0
    unobserved = np.isposinf(variance).all(axis=-1)
    points[unobserved & ~np.isfinite(points).all(axis=-1)] = 0

    _check_entries(0, points, values, variance)
    warn_of_degrees(points, variance)
    return {"points": points, "values": values, "variance": variance}


def check_observations(
    x: Mapping[str, ArrayLike], *, spatial_dim: int | None = None, channels: int | None = None
) -> dict[str, Array]:
    """Checks that a dict has the form that `tfpn.observations` returns.

    Values stored where the variance is ``+inf`` are not looked at: they may be anything.

    Args:
        x: A dict with exactly the keys "points" [B, N, d], "values" [B, N, c] and "variance"
            [B, N, c], with arrays of real numbers, B >= 1 and N >= 1.
        spatial_dim: The d to be found, or None for any.
        channels: The c to be found, or None for any.

    Returns:
        A dict of the three as NumPy arrays, with entries and dtypes unchanged.

    Raises:
        TypeError: if `x` is not a dict, or if an entry does not hold real numbers.
        ValueError: if a key is missing or unknown; if a shape is wrong; if a coordinate is NaN or
            infinite (padding included); if a variance is negative or NaN; or if an observed value
            is NaN or infinite.

    Example:
        >>> import tfpn
        >>> from tfpn.contract import check_observations
        >>> x = tfpn.observations(points=[[[0.0], [1.0]]], values=[[3.0, 4.0]])
        >>> sorted(check_observations(x, spatial_dim=1, channels=1))
        ['points', 'values', 'variance']
    """
    arrays = check_form(x, spatial_dim=spatial_dim, channels=channels)
    examples, points = arrays["values"].shape[:2]
    size = max(1, _ENTRIES // points)
    for start in range(0, examples, size):
        _check_entries(start, *(arrays[key][start : start + size] for key in KEYS))
    return arrays


def check_form(
    x: Mapping[str, ArrayLike], *, spatial_dim: int | None = None, channels: int | None = None
) -> dict[str, Array]:
    """The part of `check_observations` that reads no entries: keys, kinds of numbers and shapes.

    Args:
        x, spatial_dim, channels: As in `check_observations`.

    Returns:
        A dict of the three as NumPy arrays.

    Raises:
        TypeError, ValueError: as in `check_observations`, except those about entries.
    """
    if not isinstance(x, Mapping):
        raise TypeError(
            f"Observations are a dict with the keys {', '.join(KEYS)}; found "
            f"{type(x).__name__}. Use tfpn.observations to make one."
        )
    missing = [key for key in KEYS if key not in x]
    unknown = [key for key in x if key not in KEYS]
    if missing or unknown:
        found = ", ".join(
            f"{what} {keys}" for what, keys in (("missing", missing), ("unknown", unknown)) if keys
        )
        raise ValueError(
            f"Observations have exactly the keys {', '.join(KEYS)}; {found}. "
            "Use tfpn.observations to make them."
        )
    arrays = {key: numeric(key, x[key]) for key in KEYS}
    for key, array in arrays.items():
        if array.ndim != 3 or 0 in array.shape:
            raise ValueError(
                f"{key}: found the shape {list(array.shape)}; give three axes "
                f"{form(key)} of length at least 1 (tfpn.observations makes them)."
            )
    points, values, variance = (arrays[key] for key in KEYS)
    if values.shape[:2] != points.shape[:2] or variance.shape != values.shape:
        arrays = {"points": points, "values": values}
        advice = "" if values.shape[1] == points.shape[1] else swapped(arrays)
        raise ValueError(
            f"points, values and variance have the shapes {list(points.shape)}, "
            f"{list(values.shape)} and {list(variance.shape)}; give [B, N, d], [B, N, c] and "
            f"[B, N, c] with the same B, N and c.{advice}"
        )
    for key, name, expected, argument in (
        ("points", "spatial dimensions", spatial_dim, "spatial_dim"),
        ("values", "channels", channels, "in_channels"),
    ):
        found = arrays[key].shape[-1]
        if expected is not None and found != expected:
            raise ValueError(
                f"{key}: found {found} {name}, expected {expected}; give {key} of the shape "
                f"[B, N, {expected}], or build the model with {argument}={found}."
            )
    return arrays


def check_query(
    query: ArrayLike, *, examples: int, spatial_dim: int, dtype: Any = np.float64
) -> Array:
    """Checks the points at which fields are asked for; returns them as an array [B, M, d].

    Args:
        query: An array [B, M, d] of real numbers, with any M, or [1, M, d] for the same points in
            all examples.
        examples: B.
        spatial_dim: The d to be found.
        dtype: The dtype in which the points are to be used.

    Raises:
        TypeError: if it does not hold real numbers.
        ValueError: if the shape is wrong, or if a coordinate is NaN, infinite, or so large that its
            square is infinite in ``dtype``.

    Example:
        >>> from tfpn.contract import check_query
        >>> check_query([[[0.0, 1.0]]], examples=1, spatial_dim=2).shape
        (1, 1, 2)
    """
    array = query_array(query)
    if array.ndim != 3 or array.shape[0] not in (1, examples) or array.shape[-1] != spatial_dim:
        raise ValueError(
            f"query: found the shape {list(array.shape)}; give [{examples}, M, {spatial_dim}], "
            f"as many points for every example of the other arrays, or [1, M, {spatial_dim}] for "
            "the same points in all examples."
        )
    where = _first(~np.isfinite(array).all(axis=-1))
    if where is not None:
        raise ValueError(
            f"query: example {where[0]}, point {where[1]} has the coordinates "
            f"{array[where].tolist()}; coordinates are finite. Where an example asks for fewer "
            "points than others, repeat one of them and leave its result out."
        )
    # Kernels square distances.
    largest = 0.1 * math.sqrt(np.finfo(dtype).max)
    where = _first((np.abs(array.astype(np.float64)) > largest).any(axis=-1))
    if where is not None:
        raise ValueError(
            f"query: example {where[0]}, point {where[1]} has the coordinates "
            f"{array[where].tolist()}, whose squares {np.dtype(dtype).name} cannot hold: give "
            "points in the unit of the observations."
        )
    return array if len(array) == examples else np.repeat(array, examples, axis=0)


def query_array(query: ArrayLike) -> Array:
    """Reads query points as an array; a ragged list raises ValueError."""
    sizes = {np.shape(example) for example in query} if isinstance(query, (list, tuple)) else ()
    if len(sizes) > 1:
        raise ValueError(
            f"query: its examples have the shapes {sorted(map(list, sizes))}; give as many points "
            "for each. Where an example asks for fewer points than others, repeat one of them and "
            "leave its result out."
        )
    return numeric("query", query)


def _check_integer_points(points):
    large = _first((points > _LARGEST_EXACT_INTEGER) | (points < -_LARGEST_EXACT_INTEGER))
    if large is not None:
        raise ValueError(
            f"points: example {large[0]}, point {large[1]} has the integer coordinate "
            f"{points[large]}, which float32 rounds; give float64 points, or subtract an origin."
        )


def _check_entries(first, points, values, variance):
    """Checks the entries of arrays of agreeing shapes; ``first`` is the first example's number."""

    def check(name, array, wrong, advice):
        where = _first(wrong)
        if where is not None:
            example, point, channel = where
            raise ValueError(
                f"{name}: example {first + example}, point {point}, channel {channel} is "
                f"{array[where]}; {advice}"
            )

    check(
        "variance",
        variance,
        variance < 0,
        "a variance is not negative. Give 0 for an exact value and inf for one not observed.",
    )
    check(
        "variance",
        variance,
        np.isnan(variance),
        "an observed value needs a variance. Give 0 for an exact value and inf for one not "
        "observed.",
    )
    observed = np.isfinite(variance)
    check(
        "values",
        values,
        observed & np.isnan(values),
        "an observed value is finite. Give the variance inf there, or use tfpn.observations, "
        "which does it.",
    )
    check(
        "values",
        values,
        observed & np.isinf(values),
        "an observed value is finite. Give NaN if it was not observed.",
    )
    where = _first(~np.isfinite(points).all(axis=-1))
    if where is not None:
        raise ValueError(
            f"points: example {first + where[0]}, point {where[1]} has the coordinates "
            f"{points[where].tolist()}; coordinates are finite. Remove the point, or turn it into "
            "padding by giving tfpn.observations NaN for all of its values."
        )


def _first(wrong):
    """Index of the first True, or None."""
    if not wrong.any():
        return None
    return tuple(int(i) for i in np.unravel_index(np.argmax(wrong), wrong.shape))
