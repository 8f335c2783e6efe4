import numbers
import os
import pathlib

import numpy as np

from tfpn.contract import observations
from tfpn.datasets._mnist import MEAN, SIDE, STD, digest, load_mnist, make_dataset
from tfpn.datasets.base import (
    Dataset,
    Part,
    check_fraction,
    check_integer,
    import_extra,
    read_cache,
    write_cache,
)
from tfpn.progress import Progress
from tfpn.types import PathLike, Verbose

# Part of the cache's key. Raise it if you change what is computed or how it is stored.
_FORMAT = 1
_CHUNK = 250


def superpixel_mnist(
    data_dir: PathLike | None = None,
    cache_dir: PathLike | None = None,
    num_segments: int = 75,
    compactness: float = 0.25,
    validation_fraction: float = 0.1,
    seed: int = 0,
    limit: int | None = None,
    num_workers: int | None = None,
    progress: bool = True,
) -> Dataset:
    """SLIC-75: each image of MNIST as at most 75 superpixels.

    The superpixels come from `skimage.segmentation.slic` on the grey image (0 to 1). `n_segments`
    starts at `num_segments` and falls by 1 until SLIC returns at most `num_segments`. A point is a
    superpixel's centroid (column, row) / 27 in the unit square. Its value is
    (mean grey - 0.1307) / 0.3081, and exact (variance 0). Images with fewer superpixels are padded
    to `num_segments` points (variance ``+inf``). With scikit-image 0.26 the 60,000 training images
    have 67.0 superpixels on average and at least 37.

    Superpixels depend on the segmentation, its version and its settings. So compare figures on
    SLIC-75 only with figures on SLIC-75, not with those on other superpixels of MNIST.

    All 70,000 images take one to two minutes on two cores. The function keeps the superpixels in a
    file in `cache_dir`. Its name holds `num_segments`, `compactness`, the version of scikit-image,
    the version of the format and a digest of the images and labels. So other images, or another
    `limit`, get another file. `validation_fraction` and `seed` are applied after reading it. A file
    that cannot be used raises an error and is not built anew: you should notice a damaged disk, or
    a program that writes to the same place.

    Args:
        data_dir: Folder of `mnist.npz`, which holds the keys x_train [n, 28, 28] uint8,
            y_train [n], x_test and y_test. None takes `keras.datasets.mnist`, which downloads it.
        cache_dir: Folder for the superpixels. None takes the environment variable TFPN_CACHE or, if
            it is not set, ~/.cache/tfpn.
        num_segments: Largest number of superpixels of an image, 1 to 784.
        compactness: Weight of nearness against likeness in SLIC, above 0.
        validation_fraction: Share of the training images in the validation part: the last ones of
            a shuffle by `seed`. 0 for no such part.
        seed: Integer of at least 0.
        limit: Number of training images (before the validation part is split off) and of test
            images to take, from the first on. None takes all.
        num_workers: Number of processes that build the superpixels; None for one per core.
        progress: Whether to show the progress of building, if it takes long.

    Returns:
        A `Dataset`. In each part `.x` has N = `num_segments`, d = 2, c = 1 in float32, and `.y` is
        the digit 0 to 9 (int64).

    Raises:
        ImportError: if scikit-image or joblib is not installed.
        FileNotFoundError: if `data_dir` holds no `mnist.npz`.
        RuntimeError: if the download of MNIST fails.
        TypeError: if an argument is not a number of the right kind.
        ValueError: if an argument is out of range, if the file does not hold MNIST's arrays, or if
            the cache cannot be used.

    Example:
        With `folder` holding `mnist.npz`:

        >>> import tfpn
        >>> data = tfpn.datasets.superpixel_mnist(
        ...     data_dir=folder, cache_dir=folder, limit=20, num_workers=1, progress=False
        ... )
        >>> data.name, data.train.x["points"].shape, len(data.validation), len(data.test)
        ('SLIC-75', (18, 75, 2), 2, 20)
    """
    check_integer("num_segments", num_segments, 1, SIDE**2)
    if isinstance(compactness, bool) or not isinstance(compactness, numbers.Real):
        raise TypeError(f"compactness: found {compactness!r}; give a number.")
    if not 0 < compactness < np.inf:
        raise ValueError(f"compactness: found {compactness}; give a finite number above 0.")
    check_fraction("validation_fraction", validation_fraction)
    check_integer("seed", seed, 0)
    if num_workers is not None:
        check_integer("num_workers", num_workers, 1)
    version = ".".join(import_extra("skimage", "scikit-image").__version__.split(".")[:2])
    images = load_mnist(data_dir, limit)

    key = {
        "num_segments": int(num_segments),
        "compactness": float(compactness),
        "scikit-image": version,
        "format": _FORMAT,
        "images": digest(images),
    }
    path = _cache_path(cache_dir, key)
    if path.exists():
        superpixels = _read_cache(path, key, images)
    else:
        superpixels = {
            name: _build(images[name], num_segments, compactness, num_workers, progress, name)
            for name in ("x_train", "x_test")
        }
        write_cache(path, key, superpixels)

    def part(x, y):
        values = (x[..., 2:] - np.float32(MEAN)) / np.float32(STD)
        return Part(observations(x[..., :2] / np.float32(SIDE - 1), values), y)

    return make_dataset(
        {**images, **superpixels},
        part,
        validation_fraction,
        seed,
        name=f"SLIC-{num_segments}",
        how=(
            f"at most {num_segments} SLIC superpixels of each image of MNIST (scikit-image "
            f"{version}, n_segments lowered from {num_segments}, compactness {compactness:g}); "
            f"points are centroids (column, row) / 27, values are (mean grey - {MEAN}) / {STD} "
            "with grey from 0 to 1, exact"
        ),
    )


def _segment(image, num_segments, compactness):
    """Superpixels of one image [28, 28] uint8: columns, rows and mean greys [S, 3]."""
    from skimage.segmentation import slic

    grey = image / 255
    # slic may return more than n_segments.
    for n_segments in range(num_segments, 0, -1):
        labels = slic(
            grey,
            n_segments=n_segments,
            compactness=compactness,
            channel_axis=None,
            start_label=0,
        ).ravel()
        sizes = np.bincount(labels)
        sizes = sizes[sizes > 0]
        if len(sizes) <= num_segments:
            break
    _, labels = np.unique(labels, return_inverse=True)
    rows, columns = np.indices(grey.shape)
    sums = [np.bincount(labels, weights=a.ravel()) for a in (columns, rows, grey)]
    return np.stack(sums, axis=-1) / sizes[:, None]


def _segment_all(images, num_segments, compactness):
    """Superpixels of many images [n, num_segments, 3] float32, padded with NaN."""
    superpixels = np.full((len(images), num_segments, 3), np.nan, np.float32)
    for index, image in enumerate(images):
        found = _segment(image, num_segments, compactness)
        superpixels[index, : len(found)] = found
    return superpixels


def _build(images, num_segments, compactness, num_workers, progress, label):
    joblib = import_extra("joblib", "joblib")
    import_extra("skimage.segmentation", "scikit-image")
    chunks = [images[start : start + _CHUNK] for start in range(0, len(images), _CHUNK)]
    parallel = joblib.Parallel(
        n_jobs=-1 if num_workers is None else num_workers, return_as="generator"
    )
    superpixels = []
    verbose: Verbose = "auto" if progress else 0
    with Progress(f"superpixels of {label}", len(images), "images", verbose) as shown:
        for part in parallel(
            joblib.delayed(_segment_all)(chunk, num_segments, compactness) for chunk in chunks
        ):
            superpixels.append(part)
            shown.advance(len(part))
    return np.concatenate(superpixels)


def _cache_path(cache_dir, key):
    if cache_dir is None:
        cache_dir = os.environ.get("TFPN_CACHE") or pathlib.Path.home() / ".cache" / "tfpn"
    name = (
        f"slic-{key['num_segments']}-compactness-{key['compactness']:g}-"
        f"skimage-{key['scikit-image']}-format-{key['format']}-{key['images']}.npz"
    )
    return pathlib.Path(cache_dir) / name


def _read_cache(path, key, images):
    advice = "Delete it, and it will be built anew."
    superpixels = read_cache(path, key, ("x_train", "x_test"))
    for name, array in superpixels.items():
        expected = (len(images[name]), key["num_segments"], 3)
        if array.dtype != np.float32 or array.shape != expected:
            raise ValueError(
                f"The cache {path} holds {name} as {array.dtype} {list(array.shape)}, expected "
                f"float32 {list(expected)}. {advice}"
            )
    return superpixels
