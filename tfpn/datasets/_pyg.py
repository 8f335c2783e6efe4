from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tfpn.contract import observations
from tfpn.datasets.base import Dataset, Part, pad


def from_pyg(
    train: Iterable[Any],
    test: Iterable[Any] | None = None,
    validation: Iterable[Any] | None = None,
    *,
    scale: float = 27.0,
    mean: float | Sequence[float] = 0.1307,
    std: float | Sequence[float] = 0.3081,
) -> Dataset:
    """Converts data sets of PyTorch Geometric, such as its MNISTSuperpixels.

    Give any sequence of objects with the attributes `pos`, `x` and `y`, as tensors or arrays. You
    do not need PyTorch. Points are `pos` / `scale`. Values are (`x` - `mean`) / `std`, and exact
    (variance 0). The defaults are for MNISTSuperpixels, whose `pos` is in pixels from 0 to 27 and
    whose `x` is grey from 0 to 1. For other data give the scale that brings `pos` into the unit
    square, and the mean and standard deviation of `x` over the training part. All parts get the
    same number of points by padding.

    Args:
        train: Sequence of examples with `pos` [N_i, d], `x` [N_i, c] or [N_i], and `y`, one
            integer.
        test: The same for the test part, or None for no such part.
        validation: The same for the validation part, or None for no such part.
        scale: Divisor of `pos`, above 0.
        mean: Number to subtract from `x`, or one per channel [c].
        std: Divisor of the result, above 0: a number or one per channel [c].

    Returns:
        A `Dataset` with observations in float32 (float64 if `pos` or `x` is) and labels in int64.

    Raises:
        TypeError: if an example lacks an attribute, or if one does not hold real numbers.
        ValueError: if a part is empty; if a label is not one integer; if `scale` or `std` is not
            above 0; or if the examples do not form observations (`tfpn.observations`).

    Example:
        >>> from types import SimpleNamespace
        >>> import numpy as np
        >>> import tfpn
        >>> graphs = [
        ...     SimpleNamespace(pos=np.array([[0, 27], [13.5, 0]]), x=np.array([[0.2], [1]]), y=3),
        ...     SimpleNamespace(pos=np.array([[27, 27]]), x=np.array([[0.5]]), y=8),
        ... ]
        >>> data = tfpn.datasets.from_pyg(graphs)
        >>> data.train.x["points"][0]
        array([[0. , 1. ],
               [0.5, 0. ]])
        >>> data.train.y
        array([3, 8])
    """
    scales, means, stds = (np.asarray(argument) for argument in (scale, mean, std))
    if scales.ndim or not scales > 0:
        raise ValueError(f"scale: found {scales.tolist()}; give one number above 0.")
    if not np.all(stds > 0):
        raise ValueError(f"std: found {stds.tolist()}; give numbers above 0.")
    parts = {"train": train, "test": test, "validation": validation}
    converted = {
        name: _convert(name, part, scales, means, stds)
        for name, part in parts.items()
        if part is not None or name == "train"
    }
    num_points = max(x["points"].shape[1] for x, _ in converted.values())
    padded = {name: Part(pad(x, num_points), y) for name, (x, y) in converted.items()}
    return Dataset(
        train=padded["train"],
        test=padded.get("test"),
        validation=padded.get("validation"),
        name="from_pyg",
        description=(
            f"Graphs of PyTorch Geometric; points are pos / {scale}, values are "
            f"(x - {mean}) / {std}, exact; padded to {num_points} points."
        ),
    )


def _convert(name, part, scale, mean, std):
    if not hasattr(part, "__iter__") and not hasattr(part, "__getitem__"):
        raise TypeError(f"{name}: found {type(part).__name__}; give a sequence of examples.")
    points, values, labels = [], [], []
    for index, example in enumerate(part):
        label = f"{name}: example {index}"
        pos, x, y = (_array(label, example, key) for key in ("pos", "x", "y"))
        if y.size != 1 or y.dtype.kind not in "iu":
            raise ValueError(f"{label} has the y {y.tolist()} ({y.dtype}); give one integer label.")
        if x.ndim == 1:
            x = x[:, None]
        if any(a.ndim and a.shape != x.shape[1:] for a in (mean, std)):
            raise ValueError(
                f"mean and std: found {mean.tolist()} and {std.tolist()}, but {label} has x "
                f"of the shape {list(x.shape)}; give one number, or one per channel."
            )
        pos, x = _float(pos), _float(x)
        points.append(pos / scale.astype(pos.dtype))
        values.append((x - mean.astype(x.dtype)) / std.astype(x.dtype))
        labels.append(int(y.item()))
    if not labels:
        raise ValueError(f"{name}: found no examples; give at least one.")
    try:
        return observations(points, values), np.array(labels, np.int64)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error} (points are pos / scale, values are from x)") from error


def _float(array):
    return array if array.dtype.kind == "f" else array.astype(np.float32)


def _array(label, example, key):
    data = getattr(example, key, None)
    if data is None:
        raise TypeError(
            f"{label} ({type(example).__name__}) has no {key}; give examples with pos, x and y."
        )
    if not hasattr(data, "__array__") and hasattr(data, "numpy"):
        data = data.numpy()
    array = np.asarray(data)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{label} has {key} of dtype {array.dtype}; give real numbers.")
    return array
