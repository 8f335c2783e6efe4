import numpy as np

from tfpn.contract import observations
from tfpn.datasets.base import Dataset, Part, check_fraction, check_integer, import_extra

# Images whose pixels are drawn at once.
_IMAGES = 4096
_SIDE = 8
_CLASSES = 10


def digits(
    keep: int = 40,
    views: int = 1,
    validation_fraction: float = 0.1,
    test_fraction: float = 0.2,
    seed: int = 0,
) -> Dataset:
    """Handwritten digits of 8 x 8 pixels, each seen at a random subset of its pixels.

    The 1,797 images come with scikit-learn, so there is no download. Each image keeps its own
    random set of pixels. Points are the pixels' (column, row) / 7 in the unit square, row by row.
    Values are (intensity - mean) / standard deviation, with mean and standard deviation of the kept
    pixels of the training part. They are exact (variance 0). The parts are stratified by class.

    With `views` above 1 the training part holds each of its images that many times, each time at
    another random set of pixels. Each example still has `keep` pixels, but the views together show
    more of an image. So training uses more pixels of each image. Validation and test hold each
    image once. They do not depend on the number of views, nor do the mean and the standard
    deviation, which come from the first view.

    Args:
        keep: Number of the 64 pixels that each example keeps, 1 to 64.
        views: Number of examples from each training image, at least 1.
        validation_fraction: Share of all images in the validation part; 0 for no such part.
        test_fraction: Share of all images in the test part; 0 for no such part.
        seed: Integer of at least 0 that determines the kept pixels and the parts.

    Returns:
        A `Dataset`. In each part `.x` has N = `keep`, d = 2, c = 1 in float32, and `.y` is the
        digit 0 to 9 (int64). The training part lists the first view of all images, then the second
        views, and so on.

    Raises:
        ImportError: if scikit-learn is not installed.
        TypeError: if an argument is not a number of the right kind.
        ValueError: if an argument is out of range, or if a part would have fewer than the 10 images
            that a stratified part needs.

    Example:
        >>> import tfpn
        >>> data = tfpn.datasets.digits(keep=20)
        >>> data.train.x["points"].shape, data.train.x["values"].shape
        ((1258, 20, 2), (1258, 20, 1))
        >>> len(data.train), len(data.validation), len(data.test)
        (1258, 180, 359)
        >>> len(tfpn.datasets.digits(keep=20, views=3).train)
        3774
    """
    check_integer("keep", keep, 1, _SIDE**2)
    check_integer("views", views, 1)
    check_fraction("validation_fraction", validation_fraction)
    check_fraction("test_fraction", test_fraction)
    check_integer("seed", seed, 0, 2**32 - 1)
    sklearn_datasets = import_extra("sklearn.datasets", "scikit-learn")
    images, labels = sklearn_datasets.load_digits(return_X_y=True)
    parts = _split(labels, validation_fraction, test_fraction, seed)

    rng = np.random.default_rng(seed)
    kept = random_pixels(rng, images.shape, keep)
    seen = np.take_along_axis(images, kept, axis=1)[parts["train"]]
    mean, std = seen.mean(), seen.std()

    def part(index, kept):
        if not len(index):
            return None
        points = np.stack([kept % _SIDE, kept // _SIDE], axis=-1) / (_SIDE - 1)
        values = (np.take_along_axis(images[index], kept, axis=1) - mean) / std
        x = observations(points.astype(np.float32), values.astype(np.float32))
        return Part(x, labels[index].astype(np.int64))

    # The other views are drawn after the first, so that nothing else depends on their number.
    train = parts["train"]
    shape = (len(train), images.shape[1])
    further = [random_pixels(rng, shape, keep) for _ in range(views - 1)]

    return Dataset(
        train=part(np.tile(train, views), np.concatenate([kept[train], *further])),
        validation=part(parts["validation"], kept[parts["validation"]]),
        test=part(parts["test"], kept[parts["test"]]),
        name="digits",
        description=(
            f"scikit-learn's {len(images)} digits of 8 x 8 pixels, a random {keep} of the 64 "
            f"pixels of each (seed {seed}), {views} such views of each training image; points are "
            f"(column, row) / 7, values are (intensity - {mean:.4f}) / {std:.4f}, exact; "
            "stratified parts."
        ),
    )


def random_pixels(rng, shape, keep):
    """Sorted indices [images, keep] of random pixels, for images of the shape [images, pixels]."""
    # The first `keep` of a random order, sorted back into the order of the image's rows.
    found = []
    for start in range(0, shape[0], _IMAGES):
        some = rng.random((min(_IMAGES, shape[0] - start), shape[1]))
        found.append(np.sort(some.argsort(axis=1)[:, :keep], axis=1))
    return np.concatenate(found)


def _split(labels, validation_fraction, test_fraction, seed):
    """Sorted indices of the three stratified parts."""
    split = import_extra("sklearn.model_selection", "scikit-learn").train_test_split
    rest = np.arange(len(labels))
    parts = {"validation": rest[:0], "test": rest[:0]}
    sizes = {
        "test": round(test_fraction * len(labels)),
        "validation": round(validation_fraction * len(labels)),
    }
    if len(labels) - sum(sizes.values()) < _CLASSES:
        raise ValueError(
            f"validation_fraction and test_fraction: found {validation_fraction} and "
            f"{test_fraction}, which leave fewer than {_CLASSES} of {len(labels)} images to train "
            "on; give smaller fractions."
        )
    for name, size in sizes.items():
        if not size:
            continue
        if size < _CLASSES:
            raise ValueError(
                f"{name}_fraction: found a fraction of {size} images; a stratified part needs at "
                f"least {_CLASSES} of the {len(labels)}. Give a larger fraction, or 0 for none."
            )
        rest, taken = split(rest, test_size=size, stratify=labels[rest], random_state=seed)
        parts[name] = np.sort(taken)
    return {"train": np.sort(rest), **parts}
