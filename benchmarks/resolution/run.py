"""Zero-shot change of resolution: trained on MNIST at one lattice, tested at others.

The paper's figure of that name.

A PNCNN takes a lattice of any resolution as it is. Its blocks look at the pixels that it gets, or
with --query at a fixed lattice of so many points along a side: then only its first convolution
meets another resolution. The ordinary CNN gets images interpolated to the resolution that it was
trained at ("cnn"), or as they are ("cnn_raw", the paper's way: the same network, whose filters then
span another part of the image). All networks have the same width and depth and see the same images
equally often.

    python -m benchmarks.resolution.run --data-dir DIR
    python -m benchmarks.resolution.run --data-dir DIR --images 60000 \\
        --train-resolutions 6 8 10 12 16
    python -m benchmarks.resolution.run --data-dir DIR --modes diagonal --query 14 \\
        --train-resolutions 28 56 --test-resolutions 14 20 28 40 56 --seeds 0 1 2

DIR holds mnist.npz. Writes `resolution.csv`, a row for each network and test resolution as soon as
it is known, and `resolution.png` into the output folder. A network that the CSV has already is not
trained again.
"""

import argparse
import collections
import itertools
import pathlib
import time

from benchmarks.tables import append_rows, read_rows

MODES = ("diagonal", "none", "sampled", "low_rank", "cnn")
OBSERVED = "observed"
TITLES = {"cnn": "CNN, interpolated", "cnn_raw": "CNN, as they are"}
FIELDS = (
    *("mode", "query", "train_resolution", "test_resolution", "seed", "images", "channels"),
    *("blocks", "epochs", "error", "nll", "train_seconds"),
)
KEY = ("mode", "query", "train_resolution", "seed")  # of a network


def lattice_images(part, resolution):
    """The values of a lattice data set as images [B, resolution, resolution, 1]."""
    return part.x["values"].reshape(-1, resolution, resolution, 1)


def lattice(text):
    """A number of points along a side, or "observed"."""
    return text if text == OBSERVED else int(text)


def conditioning(resolution, options, uncertainty):
    """Local from --local-from pixels along a side on, where the mode has it."""
    return "local" if resolution >= options.local_from and uncertainty != "low_rank" else "exact"


def pncnn(resolution, options, uncertainty):
    """A PNCNN that conditions as images of a resolution need it."""
    import tfpn

    return tfpn.models.PNCNN(
        10,
        channels=options.channels,
        num_blocks=options.blocks,
        num_basis=9,
        uncertainty=uncertainty,
        rank=options.rank,
        conditioning=conditioning(resolution, options, uncertainty),
        neighbors=neighbors(resolution, options),
        query=options.query,
        common_points=uncertainty in ("diagonal", "none"),
        pooling="space" if options.query == OBSERVED else (0, 1),
    )


def neighbors(resolution, options):
    """Halos that cover a step and a half of the lattice of --query; None for the default."""
    if options.query == OBSERVED or resolution <= 28:
        return None
    reach = 1.5 * resolution / options.query
    return round((80**0.5 + 2 * reach) ** 2) - 80


def train_pncnn(data, resolution, options, uncertainty):
    """A trained PNCNN; it is evaluated on observations."""
    import keras

    model = pncnn(resolution, options, uncertainty)
    model.adapt(data.train.x)
    fit(model, data.train.x, data.train.y, options, keras)
    return model


def at_resolution(model, resolution, options, uncertainty):
    """The network, with the conditioning that images of another resolution need."""
    other = pncnn(resolution, options, uncertainty)
    other.set_weights(model.get_weights())
    return other


def train_cnn(images, labels, options):
    """A trained CNN of the same width and depth: 3 x 3 convolutions, no pooling but the last."""
    import keras

    model = keras.Sequential([keras.Input((None, None, 1))])
    for _ in range(options.blocks):
        model.add(keras.layers.Conv2D(options.channels, 3, padding="same", activation="relu"))
        model.add(keras.layers.Conv2D(options.channels, 1))
        model.add(keras.layers.BatchNormalization(momentum=0.95))
    model.add(keras.layers.GlobalAveragePooling2D())
    model.add(keras.layers.Dense(10))
    fit(model, images, labels, options, keras)
    return model


def fit(model, x, y, options, keras):
    """Adam at 3e-3 with cosine decay, batch 50, as the paper trains."""
    steps = options.epochs * -(-len(y) // 50)
    model.compile(
        keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(3e-3, steps)),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(x, y, batch_size=50, epochs=options.epochs, verbose=2)


def measure(mode, resolution, seed, options):
    """Rows of the CSV for one network: trained at one resolution, tested at all."""
    import keras
    import numpy as np
    import tensorflow as tf

    import tfpn

    def load(resolution):
        return tfpn.datasets.mnist_grid(
            resolution, data_dir=options.data_dir, validation_fraction=0, limit=options.images
        )

    keras.utils.set_random_seed(seed)
    data = load(resolution)
    start = time.perf_counter()
    if mode == "cnn":
        model = train_cnn(lattice_images(data.train, resolution), data.train.y, options)
    else:
        model = train_pncnn(data, resolution, options, mode)
    seconds = time.perf_counter() - start
    for test_resolution in options.test_resolutions:
        test = load(test_resolution).test
        y = test.y[: options.test_images]
        if mode == "cnn":
            images = lattice_images(test, test_resolution)[: len(y)]
            inputs = {"cnn": tf.image.resize(images, [resolution] * 2), "cnn_raw": images}
        else:
            inputs = {mode: {key: value[: len(y)] for key, value in test.x.items()}}
            model = at_resolution(model, test_resolution, options, mode)
        for name, x in inputs.items():
            logits = model.predict(x, batch_size=50, verbose=0)
            nll = keras.losses.sparse_categorical_crossentropy(y, logits, from_logits=True)
            yield {
                **{"mode": name, "query": options.query, "seed": seed},
                **{"train_resolution": resolution, "test_resolution": test_resolution},
                **{key: getattr(options, key) for key in ("images", "channels", "blocks")},
                "epochs": options.epochs,
                "error": round(float(np.mean(np.argmax(logits, axis=-1) != y)), 4),
                "nll": round(float(np.mean(nll)), 4),
                "train_seconds": round(seconds),
            }


def draw(rows, path):
    """Test error over test resolution, the mean of the seeds: a panel for each kind of network."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    errors = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        sizes = int(row["train_resolution"]), int(row["test_resolution"])
        errors[row["mode"], row["query"]][sizes].append(100 * float(row["error"]))
    kinds = sorted(errors, key=lambda kind: ((*MODES, "cnn_raw").index(kind[0]), kind[1]))
    size = (3 * len(kinds), 3)
    figure, axes = plt.subplots(
        1, len(kinds), figsize=size, sharey=True, squeeze=False, layout="constrained"
    )
    resolutions = sorted({trained for found in errors.values() for trained, _ in found})
    for axis, kind in zip(axes[0], kinds, strict=True):
        for number, trained in enumerate(resolutions):
            line = sorted((at, np.mean(e)) for (t, at), e in errors[kind].items() if t == trained)
            if line:
                label = f"trained at {trained}"
                axis.plot(*zip(*line, strict=True), f"C{number}o-", label=label)
        query = "" if kind[1] == OBSERVED else f", lattice of {kind[1]}"
        axis.set(title=TITLES.get(kind[0], kind[0]) + query, xlabel="test resolution")
        axis.set_yscale("log")
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")
    axes[0, 0].set_ylabel("test error in %")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(arguments=None):
    """Trains what is missing in the CSV, and draws."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", required=True, help="folder of mnist.npz")
    parser.add_argument("--output", type=pathlib.Path, default="runs/resolution")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--train-resolutions", type=int, nargs="+", default=[6, 10, 14])
    parser.add_argument(
        "--test-resolutions", type=int, nargs="+", default=[6, 7, 8, 9, 10, 12, 14, 16, 20, 28]
    )
    parser.add_argument("--images", type=int, default=3000, help="training images")
    parser.add_argument("--test-images", type=int, default=1500)
    parser.add_argument("--channels", type=int, default=24)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument(
        "--local-from", type=int, default=18,
        help="pixels along a side from which networks condition on neighbourhoods",
    )  # fmt: skip
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument(
        "--query", type=lattice, default=OBSERVED,
        help="points along a side of the lattice that PNCNN's blocks look at (default: the pixels)",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "resolution.csv"
    for seed, mode, resolution in itertools.product(
        options.seeds, options.modes, options.train_resolutions
    ):
        if mode == "cnn" and options.query != OBSERVED:
            continue
        key = (mode, str(options.query), str(resolution), str(seed))
        if any(tuple(row[name] for name in KEY) == key for row in read_rows(path)):
            continue
        rows = list(measure(mode, resolution, seed, options))
        append_rows(path, FIELDS, rows)
        found = [(row["test_resolution"], row["error"]) for row in rows]
        print(mode, resolution, seed, found, flush=True)
    draw(read_rows(path), options.output / "resolution.png")


if __name__ == "__main__":
    main()
