"""MNIST with every image turned: 12,000 for training and 50,000 for the test, as MNIST-rot has.

    python -m benchmarks.turned_mnist.images --data-dir DIR --output TURNED

DIR holds mnist.npz. A permutation of its 70,000 images (seed 0) gives 12,000 for training, the last
2,000 of them for validation, and 50,000 others for the test. Each turns by an angle of its own,
uniform over the circle, with cubic interpolation. The draw and the interpolation are ours, so
these are not the images of MNIST-rot, whose files do not come with the data.

TURNED gets three files. mnist.npz has the images in the form of MNIST's own file, for
`tfpn.datasets`. pixels.npz and superpixels.npz have the images of its training, validation and test
part for other packages, standardised. In superpixels.npz they are as SLIC-75 shows them: each pixel
has the grey of the superpixel whose centroid is nearest.

The folder TURNED/points has all pixels as points for `tfpn.datasets.folder`, some 800 MB. The first
80 of them are spread out (farthest first) within a disc around the centre, which holds the digits.
The others follow row by row.
"""

import argparse
import pathlib

import numpy as np

TRAINING, VALIDATION, TEST = 12_000, 2_000, 50_000
SEED = 0
FIRST = 80  # points that steerable_pixels.toml looks at
RADIUS = 10.5 / 27  # of their disc, in units of the image's side


def turn(images, angles):
    """Images [n, 28, 28] uint8 turned about their centres by degrees [n]."""
    from skimage.transform import rotate

    turned = [
        rotate(image, angle, order=3, preserve_range=True).clip(0, 255)
        for image, angle in zip(images, angles, strict=True)
    ]
    return np.rint(turned).astype(np.uint8)


def split(images, labels, seed=SEED, training=TRAINING, test=TEST):
    """Turned images of a random split, in the form of MNIST's file."""
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(images))[: training + test]
    turned = turn(images[chosen], rng.uniform(0, 360, len(chosen)))
    labels = labels[chosen]
    return {
        **{"x_train": turned[:training], "y_train": labels[:training]},
        **{"x_test": turned[training:], "y_test": labels[training:]},
    }


def rendered(part):
    """Images of superpixels [n, 28, 28], standardised: each pixel has the nearest one's value."""
    from scipy.spatial import cKDTree

    pixels = np.stack(np.meshgrid(np.arange(28), np.arange(28)), axis=-1).reshape(-1, 2) / 27
    found = np.empty((len(part), 28, 28), np.float32)
    for image, points, values, variance in zip(
        found, part.x["points"], part.x["values"], part.x["variance"], strict=True
    ):
        seen = np.isfinite(variance[:, 0])
        image.flat[:] = values[seen, 0][cKDTree(points[seen]).query(pixels)[1]]
    return found


def as_images(part):
    """Images of a lattice of 28 x 28 points, [n, 28, 28]."""
    return part.x["values"].reshape(-1, 28, 28)


def write(path, data, images):
    """Writes the images of each part, and its labels."""
    parts = {"train": data.train, "validation": data.validation, "test": data.test}
    arrays = {f"x_{name}": images(part) for name, part in parts.items()}
    np.savez_compressed(path, **arrays, **{f"y_{name}": part.y for name, part in parts.items()})


def spread_out(number=FIRST, radius=RADIUS):
    """The order of an image's 784 pixels: ``number`` that are spread out in a disc come first."""
    import tfpn

    places = np.arange(784)
    points = np.stack([places % 28, places // 28], axis=-1) / 27
    distance = np.linalg.norm(points - 0.5, axis=-1)
    nearest = np.argsort(distance, kind="stable")
    inside = nearest[distance[nearest] <= radius]
    x = tfpn.observations(points[None, inside], inside[None, :, None].astype(float))
    x = tfpn.farthest_first(x, number)
    first = x["values"].ravel().astype(int)
    return np.concatenate([first, np.setdiff1d(places, first)])


def write_points(path, data):
    """Writes the pixels of each part as points, those of `spread_out` first."""
    order = spread_out()
    for name in ("train", "validation", "test"):
        part = getattr(data, name)
        (path / name).mkdir(parents=True, exist_ok=True)
        for key, array in part.x.items():
            np.save(path / name / f"{key}.npy", array[:, order])
        np.save(path / name / "labels.npy", part.y)


def main(arguments=None):
    """Writes all files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=pathlib.Path, required=True, help="of mnist.npz")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="folder of the files")
    options = parser.parse_args(arguments)

    from tfpn import datasets

    with np.load(options.data_dir / "mnist.npz") as file:
        images = np.concatenate([file["x_train"], file["x_test"]])
        labels = np.concatenate([file["y_train"], file["y_test"]])
    options.output.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(options.output / "mnist.npz", **split(images, labels))
    fraction = VALIDATION / TRAINING
    data = datasets.mnist_grid(data_dir=options.output, validation_fraction=fraction)
    write(options.output / "pixels.npz", data, as_images)
    write_points(options.output / "points", data)
    data = datasets.superpixel_mnist(options.output, options.output, validation_fraction=fraction)
    write(options.output / "superpixels.npz", data, rendered)


if __name__ == "__main__":
    main()
