"""`SteerablePNCNN` and `PNCNN` on turned digits as all 28 x 28 points.

    python -m benchmarks.turned_mnist.points TURNED/pixels.npz --output RUN
    python -m benchmarks.turned_mnist.points TURNED/pixels.npz --model pncnn --output OTHER

It reads what `benchmarks.turned_mnist.images` has written. The first convolution reads all 784
points. All blocks of `SteerablePNCNN` look at 80 of them, spread out (farthest first) within a disc
around the image's centre, which holds the digits. Those of `PNCNN` look at a grid of 9 x 9 places.
All images of a batch have the same points, so the first convolution conditions once for the whole
batch. Each training batch is moved, stretched and sheared by one random map of its own, and for
`PNCNN` turned by any angle.

RUN gets log.csv and the state of the last epoch; the same command goes on after an interruption.
The end adds a row to results.csv. The errors are those of the last epoch; validation did not
choose it.
"""

import argparse
import csv
import pathlib
import time

import keras
import numpy as np

import tfpn
from benchmarks.tables import append_rows
from tfpn.evaluation import classification_metrics

FIELDS = (
    *("model", "data", "moved", "seed", "parameters", "epochs", "validation_error"),
    *("test_error", "test_nll", "epoch_seconds"),
)
BATCH, RATE = 50, 3e-3
MOVES = {"shift": 0.05, "scale": 0.12, "shear": 0.2}  # those of steerable.toml
QUERY, GRID = 80, 9
RADIUS = 10.5 / 27  # of the disc of the points that blocks look at, in units of the image's side


def ordered(number):
    """The points [784, 2] of an image, those to look at first, and their places in the image."""
    places = np.arange(784)
    points = np.stack([places % 28, places // 28], axis=-1) / 27
    outside = np.linalg.norm(points - 0.5, axis=-1) > RADIUS
    middle = np.argsort(np.linalg.norm(points - 0.5, axis=-1), kind="stable")
    x = tfpn.observations(
        points[None, middle],
        middle[None].astype(float),
        np.where(outside[middle], np.inf, 0.0)[None],
    )
    x = tfpn.farthest_first(x, number)
    seen = np.isfinite(x["variance"][0, :, 0])
    first = x["values"][0, seen, 0].astype(int)
    order = np.concatenate([first, places[outside]])
    return points[order].astype(np.float32), order


def steerable(seed):
    """As steerable.toml has it, with as many parameters as the CNN of escnn."""
    return tfpn.models.SteerablePNCNN(10, copies=26, num_query=QUERY, common_points=True, seed=seed)


def pncnn(seed):
    """As pncnn.toml has it, on a grid."""
    return tfpn.models.PNCNN(
        10, channels=39, query=GRID, pooling=(0.0, 1.0), common_points=True, seed=seed
    )


MODELS = {
    "steerable": (steerable, f"SteerablePNCNN at {QUERY} points", {}),
    "pncnn": (pncnn, f"PNCNN at {GRID} x {GRID} places", {"rotation": np.pi}),
}


class Images(keras.utils.PyDataset):
    """Batches of images [n, 28, 28] as observations; with ranges in ``move`` shuffled and moved."""

    def __init__(self, images, labels, *, move=None, seed=0, batch=BATCH):
        super().__init__()
        self.points, order = ordered(QUERY)
        self.values = images.reshape(len(images), -1)[:, order, None].astype(np.float32)
        self.labels, self.move, self.seed, self.batch = labels, move, seed, batch
        self.epoch = 0

    def __len__(self):
        return -(-len(self.labels) // self.batch)

    def __getitem__(self, index):
        order = np.arange(len(self.labels))
        if self.move:
            order = np.random.default_rng((self.seed, self.epoch)).permutation(order)
        chosen = order[index * self.batch : (index + 1) * self.batch]
        x = tfpn.observations(self.points[None], np.zeros([1, 784, 1], np.float32))
        if self.move:
            rng = np.random.default_rng((self.seed, self.epoch, index))
            x = tfpn.augmentation.jitter(x, rng, **self.move)
        x = {key: np.repeat(x[key], len(chosen), axis=0) for key in ("points", "variance")}
        return {**x, "values": self.values[chosen]}, self.labels[chosen]

    def on_epoch_end(self):
        self.epoch += 1


class Clock(keras.callbacks.Callback):
    """Adds the seconds of each epoch to its log."""

    def on_epoch_begin(self, epoch, logs=None):
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        logs["seconds"] = time.perf_counter() - self.start


class Number(keras.callbacks.Callback):
    """Tells the data which epoch it is, also after an interruption."""

    def __init__(self, data):
        super().__init__()
        self.data = data

    def on_epoch_begin(self, epoch, logs=None):
        self.data.epoch = epoch


def parse(arguments=None):
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", type=pathlib.Path, help="pixels.npz")
    parser.add_argument("--model", choices=list(MODELS), default="steerable")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=pathlib.Path, required=True, help="folder of the run")
    default = pathlib.Path(__file__).parent / "results.csv"
    parser.add_argument("--results", type=pathlib.Path, default=default)
    return parser.parse_args(arguments)


def main(arguments=None):
    """Trains, tests and adds the row."""
    options = parse(arguments)
    with np.load(options.images) as file:
        data = dict(file)

    def part(name, move=None):
        return Images(data[f"x_{name}"], data[f"y_{name}"], move=move, seed=options.seed)

    keras.utils.set_random_seed(options.seed)
    build, title, turns = MODELS[options.model]
    model = build(options.seed)
    train, validation = part("train", move={**MOVES, **turns}), part("validation")
    model.adapt(validation[0][0])
    rate = keras.optimizers.schedules.CosineDecay(RATE, options.epochs * len(train))
    model.compile(
        keras.optimizers.Adam(rate),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    options.output.mkdir(parents=True, exist_ok=True)
    log, state = options.output / "log.csv", str(options.output / "backup")
    model.fit(
        train,
        epochs=options.epochs,
        shuffle=False,
        validation_data=validation,
        verbose=2,
        callbacks=[
            keras.callbacks.BackupAndRestore(state, delete_checkpoint=False),
            Number(train),
            Clock(),
            keras.callbacks.CSVLogger(str(log), append=True),
        ],
    )
    found = {}
    for name in ("validation", "test"):
        some = part(name)
        found[name] = classification_metrics(model.predict_proba(some, verbose=0), some.labels)
    with log.open(newline="") as file:
        seconds = [float(row["seconds"]) for row in csv.DictReader(file)]
    row = {"model": title, "data": "pixels", "moved": 1}
    row |= {"seed": options.seed, "parameters": model.count_params(), "epochs": options.epochs}
    for name in found:
        row[f"{name}_error"] = round(1.0 - found[name]["accuracy"], 5)
    row |= {"test_nll": round(found["test"]["nll"], 5)}
    row |= {"epoch_seconds": round(float(np.mean(seconds)), 1)}
    append_rows(options.results, FIELDS, [row])
    print(row)


if __name__ == "__main__":
    main()
