"""Reads arrays and ragged lists for `tfpn.observations`, with advice if they do not agree."""

import numbers

import numpy as np


def form(name, example=False):
    """The axes of an argument, for messages."""
    axis = "d" if name == "points" else "c"
    return f"[N_i, {axis}]" if example else f"[B, N, {axis}]"


def numeric(name, data):
    """Reads an argument as an array of real numbers."""
    if isinstance(data, np.ma.MaskedArray):
        raise TypeError(
            f"{name}: found a masked array, which would lose its mask; "
            "give data.filled(numpy.nan) instead."
        )
    try:
        array = np.asarray(_plain(data))
    except ValueError as error:
        raise ValueError(
            f"{name}: cannot be read as one array of numbers ({error}); give "
            "an array, or a list with one array per example if their lengths differ."
        ) from error
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"{name}: found {type(data).__name__} of dtype {array.dtype}; give real numbers "
            "(NaN in values for what was not observed; of time stamps, the hours that "
            "tfpn.coordinates.hours_since gives)."
        )
    return array


def _plain(data):
    """Numbers of pandas's nullable and Arrow types as float64; anything else as it is."""
    if not (hasattr(data, "iloc") and hasattr(data, "to_numpy")):
        return data
    types = [data.dtype] if data.ndim == 1 else list(data.dtypes)
    if all(one.kind in "biuf" for one in types) and not all(isinstance(t, np.dtype) for t in types):
        return data.to_numpy(dtype=np.float64, na_value=np.nan)
    return data


# Advice for arrays of the wrong rank. The keys say whether they are the points, and the rank.
_ADVICE = {
    (
        True,
        1,
    ): " For times [T] of a single example give points[None, :, None]; if B examples share them, "
    "give numpy.tile(points[None, :, None], (B, 1, 1)).",
    # Times [B, N] or an example [N, d].
    (True, 2): " For times [B, N] give points[:, :, None], and for a single example [N, d] "
    "points[None].",
    (False, 1): " For a single example of one channel, [N], give {0}[None].",
}


def stack(name, data, width=None):
    """Reads an argument as one array [B, N, d or c], padded with 0, and the lengths [B].

    `width` is the length of the last axis if no example tells it.
    """
    if isinstance(data, (list, tuple)):
        return _stack_ragged(name, data, width)
    array = numeric(name, data)
    if array.ndim == 2 and name != "points":
        array = array[:, :, None]
    if array.ndim != 3:
        alternative = "" if name == "points" else " or, for one channel, [B, N]"
        advice = _ADVICE.get((name == "points", array.ndim), "").format(name)
        raise ValueError(
            f"{name}: found an array of rank {array.ndim} with the shape {list(array.shape)}; "
            f"give {form(name)}{alternative}, or a list with one array per example.{advice}"
        )
    _check_not_empty(name, len(array))
    if array.shape[2] == 0:
        raise ValueError(
            f"{name}: found the shape {list(array.shape)}; the last axis must not be empty."
        )
    counts = np.full(len(array), array.shape[1])
    if array.shape[1] == 0:
        array = np.zeros((len(array), 1, array.shape[2]), array.dtype)
    return array, counts


def _stack_ragged(name, data, width):
    _check_not_empty(name, len(data))
    examples = [_example(name, index, example) for index, example in enumerate(data)]
    # An empty list tells neither the width nor the dtype.
    told = [index for index, example in enumerate(examples) if example.ndim == 2]
    if told:
        width = examples[told[0]].shape[1]
    elif width is None:
        what = "the dimension d" if name == "points" else "the number of channels c"
        raise ValueError(
            f"{name}: every example is empty and none tells {what}; "
            f"give empty arrays of the shape {form(name, example=True).replace('N_i', '0')}."
        )
    for index in told:
        if examples[index].shape[1] != width:
            raise ValueError(
                f"{name}: example {index} has the shape {list(examples[index].shape)}, but "
                f"example {told[0]} has {list(examples[told[0]].shape)}; give the same last axis "
                f"in every example.{_transposed(name, examples[index], examples[told[0]])}"
            )
    counts = np.array([len(example) for example in examples])
    dtypes = [example.dtype for example in examples if len(example)]
    dtypes = dtypes or [examples[index].dtype for index in told] or [np.float32]
    array = np.zeros((len(examples), max(1, counts.max()), width), np.result_type(*dtypes))
    for index in told:
        array[index, : counts[index]] = examples[index]
    return array, counts


def _example(name, index, data):
    """Reads one example as [N_i, d or c], or as [0] if it does not tell d or c."""
    label = f"{name}: example {index}"
    example = numeric(label, data)
    if example.shape in ((0,), (0, 0)):
        return example.reshape(0)
    if example.ndim == 1 and name != "points":
        example = example[:, None]
    if example.ndim != 2:
        alternative = "" if name == "points" else " or, for one channel, [N_i]"
        advice = ""
        if example.ndim == 1:
            advice = (
                " For times [N_i] give times[:, None] for each example. Put a single example "
                "[N, d] into a list of its own."
            )
        elif example.ndim == 0:
            advice = (
                " A list of numbers, [N], is one example: give times as "
                "numpy.array(times)[None, :, None], and values of one channel as "
                "numpy.array(values)[None]."
            )
        raise ValueError(
            f"{label} has rank {example.ndim} and the shape {list(example.shape)}; "
            f"give {form(name, example=True)}{alternative}.{advice}"
        )
    if example.shape[1] == 0:
        raise ValueError(
            f"{label} has the shape {list(example.shape)}; the last axis must not be empty."
        )
    return example


def full_variance(variance, values, counts):
    """The argument `variance` as a new array [B, N, c]."""
    if variance is None:
        return np.zeros(values.shape)
    is_list = isinstance(variance, (list, tuple))
    # A list of numbers holds one per channel; any other list holds one array per example.
    if is_list and variance and all(isinstance(v, numbers.Real) for v in variance):
        is_list = False
    if not is_list:
        array = numeric("variance", variance)
        if array.ndim == 0:
            return np.full(values.shape, array)
        if array.ndim == 1:
            if len(array) != values.shape[-1]:
                raise ValueError(
                    f"variance: found {len(array)} numbers for {values.shape[-1]} channels; "
                    "give one per channel, a single number, or the same form as values."
                )
            return np.broadcast_to(array, values.shape).copy()
    array, variance_counts = stack("variance", variance, width=values.shape[-1])
    check_agreement("variance", array, variance_counts, values, counts, other="values")
    if array.shape[-1] != values.shape[-1]:
        raise ValueError(
            f"variance: found {array.shape[-1]} channels, but values has {values.shape[-1]}; "
            "give one variance per value, one per channel, or a single number."
        )
    return array


def _check_not_empty(name, num_examples):
    if num_examples == 0:
        raise ValueError(f"{name}: found no examples; give at least one.")


def check_agreement(name, array, counts, other_array, other_counts, other="points"):
    if len(array) != len(other_array):
        raise ValueError(
            f"{name}: found {len(array)} examples, but {other} has {len(other_array)}; "
            "give one entry per example in both."
        )
    different = np.flatnonzero(counts != other_counts)
    if different.size:
        index = different[0]
        raise ValueError(
            f"{name}: example {index} has {counts[index]} points, but {other} has "
            f"{other_counts[index]} there; give one entry per point in both."
            f"{swapped({name: array, other: other_array})}"
        )


def swapped(arrays):
    """Advice if arrays [B, N, d or c] would agree with their last two axes swapped."""
    (_, points, width), (_, other_points, other_width) = (a.shape for a in arrays.values())
    name, other = arrays
    if width == other_points:
        wrong = [name]
    elif other_width == points:
        wrong = [other]
    elif width == other_width > max(points, other_points):
        wrong = [name, other]
    else:
        return ""
    what = " and ".join("coordinates" if each == "points" else "channels" for each in wrong)
    calls = " and ".join(f"numpy.swapaxes({each}, 1, 2)" for each in wrong)
    return f" If the {what} come before the points, give {calls}."


def _transposed(name, example, other):
    """Advice if the examples of a list agree in their first axis, as series [c, N_i] do."""
    if len(example) != len(other):
        return ""
    what = "coordinates" if name == "points" else "channels"
    return f" If the {what} come before the points, give the transpose of each."
