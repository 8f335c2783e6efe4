"""A data set of files, which are read batch by batch."""

import pathlib

import numpy as np

from tfpn.contract import KEYS
from tfpn.datasets.base import Dataset, Part
from tfpn.types import PathLike

LABELS = "labels"
_DTYPES = {"points": "f", "values": "f", "variance": "f", LABELS: "iu"}


def folder(data_dir: PathLike) -> Dataset:
    """Your own examples in .npy files, for data larger than memory.

    The arrays stay on disk. Training and evaluation read one batch at a time. ``data_dir`` has the
    folders ``train``, ``test`` and, if you like, ``validation``. Each holds four files:

        points.npy      [B, N, d]   float32 or float64
        values.npy      [B, N, c]   the same dtype; anything where not observed
        variance.npy    [B, N, c]   the same dtype; 0 is exact, +inf is not observed
        labels.npy      [B]         integers from 0 on

    `numpy.lib.format.open_memmap` writes such a file piece by piece (see the guide on many points).

    Args:
        data_dir: Folder of the parts.

    Returns:
        A `Dataset` of arrays that are mapped from the files (`numpy.memmap`).

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if a file is not in NumPy's format, or if shapes or dtypes do not agree. The
            entries are checked when a batch is read.

    Example:
        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> import tfpn
        >>> here = pathlib.Path(tempfile.mkdtemp())
        >>> rng = np.random.default_rng(0)
        >>> for part in ("train", "test"):
        ...     (here / part).mkdir()
        ...     x = tfpn.observations(rng.uniform(size=(6, 50, 2)), rng.normal(size=(6, 50)))
        ...     for key, array in {**x, "labels": rng.integers(2, size=6)}.items():
        ...         np.save(here / part / f"{key}.npy", array)
        >>> tfpn.datasets.folder(here)
        Dataset('folder', train=Part(6 examples, N = 50, d = 2, c = 1), validation=None, \
test=Part(6 examples, N = 50, d = 2, c = 1))
    """
    root = pathlib.Path(data_dir)
    parts = {name: _part(root / name) for name in ("train", "test")}
    parts["validation"] = _part(root / "validation") if (root / "validation").exists() else None
    _check_alike(root, parts)
    sizes = [f"{len(part)} {name}" for name, part in parts.items() if part is not None]
    description = f"Examples of the folder {root}: {', '.join(sizes)}, read as they are needed."
    return Dataset(**parts, name="folder", description=description)


def _check_alike(root, parts):
    """Raises ValueError unless all parts have the same dimensions and channels."""
    for key in ("points", "values"):
        sizes = {name: part.x[key].shape[-1] for name, part in parts.items() if part is not None}
        if len(set(sizes.values())) > 1:
            raise ValueError(
                f"{root}: the last axis of {key}.npy differs between parts, {sizes}; give all "
                "the same."
            )


def _part(place):
    arrays = {}
    for key, kinds in _DTYPES.items():
        path = place / f"{key}.npy"
        if not path.exists():
            raise FileNotFoundError(
                f"{path} does not exist; a part has {', '.join(f'{name}.npy' for name in _DTYPES)}."
            )
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise ValueError(f"{path} cannot be read: {error}") from error
        wide = key == LABELS or array.dtype.itemsize in (4, 8)
        if array.dtype.kind not in kinds or not wide or not array.dtype.isnative:
            wanted = "integers" if key == LABELS else "float32 or float64"
            raise ValueError(
                f"{path}: found the dtype {array.dtype}; give {wanted} in this machine's order of "
                "bytes."
            )
        arrays[key] = array
    return Part({key: arrays[key] for key in KEYS}, arrays[LABELS])
