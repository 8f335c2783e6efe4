import hashlib
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tfpn.contract import observations
from tfpn.datasets._digits import random_pixels
from tfpn.datasets.base import Dataset, Part, check_fraction, check_integer
from tfpn.types import Array, PathLike

SIDE = 28
# Mean and standard deviation of the training pixels, on the scale 0 to 1.
MEAN, STD = 0.1307, 0.3081

_KEYS = ("x_train", "y_train", "x_test", "y_test")


def mnist_grid(
    resolution: int = 28,
    keep: int | None = None,
    data_dir: PathLike | None = None,
    validation_fraction: float = 0.1,
    seed: int = 0,
    limit: int | None = None,
) -> Dataset:
    """MNIST on a square lattice of a chosen resolution.

    The function takes the image as constant on each of its pixels, and averages it exactly over the
    cells of the lattice. If the resolution divides 28, this is the mean of a block of pixels.

    Points are the centres of the cells, row by row. In pixel units, in which the original pixels
    have the centres 0 to 27, cell j of r has its centre at 28 (j + 1/2) / r - 1/2, for columns and
    for rows. Points are (column, row) / 27. So a place in the image has the same coordinates at
    every resolution. Values are (average - 0.1307) / 0.3081, with averages from 0 to 1, at every
    resolution. They are exact (variance 0).

    Args:
        resolution: Number of cells along each side, 1 to 56. Above 28 a pixel has several cells.
        keep: Number of cells that each image keeps, at random. None keeps all of them.
        data_dir: Folder of `mnist.npz`, which holds the keys x_train [n, 28, 28] uint8,
            y_train [n], x_test and y_test. None takes `keras.datasets.mnist`, which downloads it.
        validation_fraction: Share of the training images in the validation part: the last ones of
            a shuffle by `seed`. 0 for no such part.
        seed: Integer of at least 0, for the validation part and the cells that are kept.
        limit: Number of training images (before the validation part is split off) and of test
            images to take, from the first on. None takes all.

    Returns:
        A `Dataset`. In each part `.x` has N = `resolution`^2 or `keep`, d = 2, c = 1 in float32,
        and `.y` is the digit 0 to 9 (int64). All 70,000 images at resolution 28 take 0.9 GB.

    Raises:
        FileNotFoundError: if `data_dir` holds no `mnist.npz`.
        RuntimeError: if the download of MNIST fails.
        TypeError: if an argument is not a number of the right kind.
        ValueError: if an argument is out of range, or if the file does not hold MNIST's arrays.

    Example:
        With `folder` holding `mnist.npz`:

        >>> import tfpn
        >>> data = tfpn.datasets.mnist_grid(resolution=14, data_dir=folder, limit=20)
        >>> data.train.x["points"].shape, len(data.validation), len(data.test)
        ((18, 196, 2), 2, 20)
    """
    check_integer("resolution", resolution, 1, 2 * SIDE)
    if keep is not None:
        check_integer("keep", keep, 1, resolution**2)
    check_fraction("validation_fraction", validation_fraction)
    check_integer("seed", seed, 0)
    images = load_mnist(data_dir, limit)

    centers = (SIDE * (np.arange(resolution) + 0.5) / resolution - 0.5) / (SIDE - 1)
    columns, rows = np.meshgrid(centers, centers)
    lattice = np.stack([columns.ravel(), rows.ravel()], axis=-1).astype(np.float32)
    average = _cell_averages(resolution)
    generators = iter(np.random.default_rng((seed, 1)).spawn(3))  # one for each part

    def part(x, y):
        values = (average @ (x / np.float32(255)) @ average.T - np.float32(MEAN)) / np.float32(STD)
        values = values.reshape(len(x), -1, 1)
        if keep is None:
            points = np.broadcast_to(lattice, (len(x), *lattice.shape))
        else:
            kept = random_pixels(next(generators), (len(x), len(lattice)), keep)
            points, values = lattice[kept], np.take_along_axis(values, kept[..., None], axis=1)
        return Part(observations(points, values), y)

    return make_dataset(
        images,
        part,
        validation_fraction,
        seed,
        name=f"MNIST {resolution} x {resolution}",
        how=(
            f"MNIST on a lattice of {resolution} x {resolution} cells (area averages)"
            f"{'' if keep is None else f', a random {keep} of them for each image'}; points are "
            f"the cells' centres (column, row) / 27, values are (grey - {MEAN}) / {STD} with grey "
            "from 0 to 1, exact"
        ),
    )


def _cell_averages(resolution):
    """The matrix of averages over cells, [resolution, 28]: the share of each pixel in each cell."""
    edges = np.arange(resolution + 1) * SIDE / resolution
    pixels = np.arange(SIDE)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    return (overlap.clip(0) * resolution / SIDE).astype(np.float32)


def load_mnist(data_dir: PathLike | None, limit: int | None) -> Any:
    """Checks the arrays of MNIST; returns a dict of the first `limit` of each, labels in int64."""
    if limit is not None:
        check_integer("limit", limit, 1)
    if data_dir is None:
        arrays, source = _download(), "keras.datasets.mnist"
    else:
        path = pathlib.Path(data_dir) / "mnist.npz"
        arrays, source = _read(path), str(path)
    for part in ("train", "test"):
        x, y = arrays[f"x_{part}"], arrays[f"y_{part}"]
        if x.dtype != np.uint8 or x.ndim != 3 or x.shape[1:] != (SIDE, SIDE) or not len(x):
            raise ValueError(
                f"{source}: x_{part} is {x.dtype} {list(x.shape)}; expected uint8 [n, 28, 28] "
                "with n >= 1. Replace the file by MNIST's mnist.npz."
            )
        if y.dtype.kind not in "iu" or y.shape != (len(x),) or y.min() < 0 or y.max() > 9:
            raise ValueError(
                f"{source}: y_{part} is {y.dtype} {list(y.shape)}; expected {len(x)} integers "
                "from 0 to 9. Replace the file by MNIST's mnist.npz."
            )
        arrays[f"x_{part}"], arrays[f"y_{part}"] = x[:limit], y[:limit].astype(np.int64)
    return arrays


def _read(path):
    expected = f"an .npz file with the arrays {', '.join(_KEYS)}, x_train [60000, 28, 28] uint8"
    if not path.is_file():
        raise FileNotFoundError(
            f"data_dir: there is no file {os.fspath(path)}; expected {expected}. Give the folder "
            "that holds it, or None to download it."
        )
    try:
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in _KEYS}
    # The error of a broken archive depends on where it is broken.
    except Exception as error:
        raise ValueError(
            f"{path}: cannot be read ({type(error).__name__}: {error}); expected {expected}."
        ) from error


def _download():
    import keras

    try:
        (x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
    # keras.utils.get_file raises a bare Exception if the network fails.
    except Exception as error:
        raise RuntimeError(
            f"MNIST could not be downloaded ({error}). Without a network, get mnist.npz elsewhere "
            "and give the folder that holds it as data_dir."
        ) from error
    return dict(zip(_KEYS, (x_train, y_train, x_test, y_test), strict=True))


def digest(images: Mapping[str, Array]) -> str:
    """A name for the images and labels: the first digits of their SHA-256."""
    sha = hashlib.sha256()
    for key in _KEYS:
        sha.update(repr((key, images[key].shape)).encode())
        sha.update(np.ascontiguousarray(images[key]).data)
    return sha.hexdigest()[:12]


def make_dataset(
    images: Mapping[str, Array],
    part: Callable[..., Any],
    validation_fraction: float,
    seed: int,
    *,
    name: str,
    how: str,
) -> Dataset:
    """Builds the data set and splits off its validation part.

    `part(x, y)` turns images and labels into a `Part`.
    """
    x, y = images["x_train"], images["y_train"]
    num_train = len(x) - round(validation_fraction * len(x))
    if num_train == 0:
        raise ValueError(
            f"validation_fraction: found {validation_fraction}, which leaves none of {len(x)} "
            "images to train on; give a smaller fraction."
        )
    order = np.random.default_rng(seed).permutation(len(x))
    train, validation = np.sort(order[:num_train]), np.sort(order[num_train:])
    # The test part comes first, so that its draws do not depend on the other parts.
    test = part(images["x_test"], images["y_test"])
    return Dataset(
        train=part(x[train], y[train]),
        validation=part(x[validation], y[validation]) if len(validation) else None,
        test=test,
        name=name,
        description=(
            f"{how}; {len(train)} training, {len(validation)} validation (seed {seed}) and "
            f"{len(images['x_test'])} test images."
        ),
    )
