"""The form of a data set, and the checks that the data sets share."""

import dataclasses
import importlib
import io
import json
import numbers
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfpn.contract import check_form, check_observations
from tfpn.files import write
from tfpn.types import Array, Observations, PathLike


def on_disk(x: Mapping[str, Any]) -> bool:
    """Whether an array of observations is mapped from a file, as by `tfpn.datasets.folder`."""
    return any(isinstance(array, np.memmap) for array in x.values())


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """One part of a data set: examples and their labels.

    Args:
        x: Observations, a dict of NumPy arrays "points" [B, N, d], "values" [B, N, c] and
            "variance" [B, N, c].
        y: Labels, an integer array [B].

    `len(part)` is the number of examples B.

    Raises:
        TypeError, ValueError: if `x` are not observations (`tfpn.contract.check_observations`), or
            if `y` is not an integer array with one entry per example.

    Example:
        >>> import tfpn
        >>> x = tfpn.observations(points=[[[0.0], [1.0]]], values=[[3.0, 4.0]])
        >>> part = tfpn.datasets.Part(x, np.array([7]))
        >>> part
        Part(1 examples, N = 2, d = 1, c = 1)
        >>> len(part)
        1
    """

    x: dict
    y: np.ndarray

    def __post_init__(self):
        # Arrays on disk are checked batch by batch, when they are read.
        check = check_form if on_disk(self.x) else check_observations
        num_examples = len(check(self.x)["points"])
        y = np.asarray(self.y)
        if y.dtype.kind not in "iu":
            raise TypeError(f"y: found the dtype {y.dtype}; give integer labels.")
        if y.shape != (num_examples,):
            raise ValueError(
                f"y: found the shape {list(y.shape)}; give one label for each of the "
                f"{num_examples} examples of x, [{num_examples}]."
            )

    def __len__(self):
        return len(self.y)

    def __repr__(self):
        _, n, d = self.x["points"].shape
        return f"Part({len(self)} examples, N = {n}, d = {d}, c = {self.x['values'].shape[-1]})"


@dataclasses.dataclass(frozen=True, eq=False)
class TargetPart:
    """One part of a data set of numbers: examples and their targets.

    Args:
        x: Observations, as in `Part`.
        y: Targets in floating point, NaN where nothing was measured: [B, K] for the examples, or
            [B, M, c] at the query points.
        query: Query points [B, M, d], or None.
        names: Names of the targets along the last axis, or ().

    Raises:
        TypeError, ValueError: if `x` are not observations, or if `y` and `query` do not fit them.

    Example:
        >>> import tfpn
        >>> x = tfpn.observations(points=[[[0.0], [1.0]]], values=[[3.0, 4.0]])
        >>> tfpn.datasets.TargetPart(x, np.array([[3.5]]), query=np.array([[[0.5]]])[:, 0])
        Traceback (most recent call last):
        ...
        ValueError: query: found the shape [1, 1]; give [1, M, 1].
        >>> len(tfpn.datasets.TargetPart(x, np.array([[3.5]])))
        1
    """

    x: dict
    y: np.ndarray
    query: np.ndarray | None = None
    names: Sequence[str] = ()

    def __post_init__(self):
        points = check_observations(self.x)["points"]
        y = np.asarray(self.y)
        if y.dtype.kind != "f":
            raise TypeError(f"y: found the dtype {y.dtype}; give targets in floating point.")
        if self.query is not None:
            found, dim = np.shape(self.query), points.shape[-1]
            if len(found) != 3 or found[::2] != (len(points), dim):
                raise ValueError(
                    f"query: found the shape {list(found)}; give [{len(points)}, M, {dim}]."
                )
        expected = points.shape[:1] if self.query is None else self.query.shape[:2]
        if y.ndim != len(expected) + 1 or y.shape[:-1] != expected:
            raise ValueError(
                f"y: found the shape {list(y.shape)}; give {list(expected)} "
                "and a last axis of targets."
            )

    def __len__(self):
        return len(self.y)

    def __repr__(self):
        _, n, d = self.x["points"].shape
        return f"TargetPart({len(self)} examples, N = {n}, d = {d}, targets {self.y.shape[1:]})"


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """A data set with its parts, ready for `model.fit(data.train.x, data.train.y)`.

    Args:
        train: The `Part` to train on.
        validation: The `Part` to choose by, or None if there is none.
        test: The `Part` to report on, or None if there is none.
        name: Short name.
        description: How the data set was made.

    Example:
        >>> import tfpn
        >>> data = tfpn.datasets.digits(keep=20)
        >>> data
        Dataset('digits', train=Part(1258 examples, N = 20, d = 2, c = 1), \
validation=Part(180 examples, N = 20, d = 2, c = 1), test=Part(359 examples, N = 20, d = 2, c = 1))
    """

    train: Any
    validation: Any
    test: Any
    name: str
    description: str

    #: The task: "classification", "regression" or "field".
    task = "classification"

    def __repr__(self):
        return (
            f"Dataset({self.name!r}, train={self.train}, validation={self.validation}, "
            f"test={self.test})"
        )


def import_extra(module: str, distribution: str) -> Any:
    """Imports a module that comes with the extra `datasets`."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"This data set needs {distribution} ({error}). "
            "Install it with: pip install 'tfpn[datasets]'"
        ) from error


def check_integer(name: str, value: Any, low: int, high: int | None = None) -> None:
    """Checks that an argument is an integer in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name}: found {value!r}; give an integer.")
    if int(value) < low or (high is not None and int(value) > high):
        bounds = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise ValueError(f"{name}: found {value}; give an integer {bounds}.")


def check_fraction(name: str, value: Any) -> None:
    """Checks that an argument is a number in [0, 1)."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}: found {value!r}; give a number.")
    if not 0 <= float(value) < 1:
        raise ValueError(
            f"{name}: found {value}; give a fraction of at least 0 (none) and below 1."
        )


def pad(x: Observations, num_points: int) -> dict[str, Array]:
    """Pads observations at the end to `num_points` points."""
    missing = ((0, 0), (0, num_points - x["points"].shape[1]), (0, 0))
    return {
        key: np.pad(array, missing, constant_values=np.inf if key == "variance" else 0)
        for key, array in x.items()
    }


def write_cache(path: Path, key: Any, arrays: Mapping[str, Any]) -> None:
    """Writes an npz cache for `read_cache`, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = io.BytesIO()
    np.savez_compressed(file, **{"key": json.dumps(key), **arrays})
    write(path, file.getbuffer())


def read_cache(path: PathLike, key: Any, names: Sequence[str]) -> Any:
    """The arrays of an npz cache by name; raises ValueError unless it is whole and for ``key``."""
    advice = "Delete it, and it will be built anew."
    try:
        with np.load(path, allow_pickle=False) as file:
            found = json.loads(str(file["key"]))
            arrays = {name: file[name] for name in names}
    # The error of a broken archive depends on where it is broken.
    except Exception as error:
        raise ValueError(
            f"The cache {path} cannot be read ({type(error).__name__}: {error}). {advice}"
        ) from error
    if found != key:
        raise ValueError(f"The cache {path} was built for {found}, expected {key}. {advice}")
    return arrays
