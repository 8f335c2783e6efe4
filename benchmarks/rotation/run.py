"""Test error against the angle by which digits are turned: PNCNN beside SteerablePNCNN.

SLIC-75 digits. Each network trains twice, on upright digits only, and with each example turned by
an angle of its own in each epoch, and is tested on the same test images turned by angles all around
about the image's centre. Both networks have the same depth and, to a few percent, the same number
of trainable parameters: the number of copies of the steerable network is given, the channels of the
PNCNN follow. The steerable network's features turn with the image and its pooled scalars do not, so
its logits must be the same at all angles but for rounding; their largest change is in the CSV.

    python -m benchmarks.rotation.run --data-dir DIR
    python -m benchmarks.rotation.run --data-dir DIR --models SteerablePNCNN --trainings upright
    python -m benchmarks.rotation.run --data-dir DIR --time-steps 20     # how long would all take?

DIR holds mnist.npz. The output folder receives

    recipe.toml    all options, and the versions of what computed
    log.csv        a row for each epoch of each network, as it ends
    rotation.csv   the rows of a network as soon as it is tested
    rotation.png   the curves

and the table is printed. An interrupted run goes on at the network that it was at: one (model,
training, seed) that `rotation.csv` has is not trained again, and the epochs of one that it has not
are dropped from `log.csv`.
"""

import argparse
import math
import pathlib
import platform
import time
import tomllib

from benchmarks.rotation.networks import MODELS, build, matched_channels, parameters
from benchmarks.rotation.report import draw, table
from benchmarks.tables import append_rows, read_rows

TRAININGS = ("upright", "turned")
BATCH = 50
LEARNING_RATE = 3e-3
SIZES = ("images", "test_images", "epochs", "blocks", "copies", "angles")
# Options that a later run into the same folder may add to.
NETWORKS = ("models", "trainings", "seeds")
FIELDS = (
    *("model", "training", "seed", "angle", "error", "nll", "logit_change", "largest_logit"),
    *("parameters", "train_seconds", *SIZES),
)
# The learning rate is that of the epoch's first step. The test error, of upright digits, chose
# nothing; the seconds hold the time that it took.
LOG_FIELDS = (
    *("model", "training", "seed", "epoch", "loss", "train_error", "learning_rate", "seconds"),
    "test_error",
)


def load(options):
    """The first training and test images: observations and labels of either part."""
    import tfpn

    data = tfpn.datasets.superpixel_mnist(
        data_dir=options.data_dir, cache_dir=options.cache_dir, validation_fraction=0
    )
    return {
        name: ({key: value[:count] for key, value in part.x.items()}, part.y[:count])
        for name, part, count in (
            ("train", data.train, options.images),
            ("test", data.test, options.test_images),
        )
    }


def turned(x, degrees, centre=(0.5, 0.5)):
    """Observations whose observed points are turned about a point; padding stays where it is."""
    import numpy as np

    angle = math.radians(degrees)
    matrix = np.array(
        [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]],
    )
    points = (x["points"] - np.asarray(centre)) @ matrix.T + np.asarray(centre)
    observed = np.isfinite(x["variance"]).any(axis=-1, keepdims=True)
    return {**x, "points": np.where(observed, points, x["points"]).astype(x["points"].dtype)}


def train(model, x, y, training, options, seed, steps=None, validation_data=None, log=None):
    """Adam at 3e-3 with cosine decay, batch 50; returns the clock of its steps.

    ``steps`` stops the first epoch early, for timing. ``log`` is called with each epoch's figures.
    """
    import keras

    from tfpn.training.batches import ShuffledBatches
    from tfpn.training.callbacks import EpochSeconds

    # Turned about the mean of an example's points: both networks commute with shifts, so that the
    # centre does not matter to them.
    rotation = math.pi if training == "turned" else 0.0
    batches = ShuffledBatches(x, y, BATCH, seed, rotation=rotation)
    rate = keras.optimizers.schedules.CosineDecay(LEARNING_RATE, options.epochs * len(batches))
    model.adapt(x)
    model.compile(
        keras.optimizers.Adam(rate),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    clock = Clock()
    rates = []

    def begin(epoch, _):
        batches.set_epoch(epoch)
        rates.append(float(model.optimizer.learning_rate))

    def end(epoch, logs):
        if log is not None:
            log(
                {
                    **{"epoch": epoch + 1, "loss": logs["loss"], "learning_rate": rates[-1]},
                    **{"train_error": 1 - logs["accuracy"], "seconds": logs["seconds"]},
                    **{"test_error": 1 - logs["val_accuracy"]},
                }
            )

    model.fit(
        batches,
        validation_data=validation_data,
        validation_batch_size=BATCH,
        shuffle=False,  # they come in their epoch's order
        epochs=options.epochs if steps is None else 1,
        steps_per_epoch=steps,
        callbacks=[
            EpochSeconds(),
            keras.callbacks.LambdaCallback(
                on_epoch_begin=begin, on_epoch_end=end, on_train_batch_end=clock
            ),
        ],
        verbose=2 if steps is None else 0,
    )
    return clock


class Clock:
    """A callback that keeps the time of each step."""

    def __init__(self):
        self.times = [time.perf_counter()]

    def __call__(self, *_, **__):
        self.times.append(time.perf_counter())

    @property
    def total(self):
        return self.times[-1] - self.times[0]

    def step(self):
        """Median seconds of a step, without the first ones, which trace the graph."""
        times = [b - a for a, b in zip(self.times, self.times[1:], strict=False)]
        return sorted(times[2:])[len(times[2:]) // 2]


def angles(options):
    """Degrees, evenly around, beginning with 0."""
    return [360.0 * index / options.angles for index in range(options.angles)]


def test(model, x, y, degrees):
    """Error, likelihood and change of the logits at each angle; the first of which is 0."""
    import numpy as np
    from scipy import special

    first = None
    for angle in degrees:
        logits = model.predict(turned(x, angle), batch_size=BATCH, verbose=0).astype(np.float64)
        first = logits if first is None else first
        log_probabilities = special.log_softmax(logits, axis=-1)
        yield {
            "angle": angle,
            "error": round(float(np.mean(logits.argmax(-1) != y)), 4),
            "nll": round(float(-np.mean(log_probabilities[np.arange(len(y)), y])), 4),
            "logit_change": f"{np.abs(logits - first).max():.2e}",
            "largest_logit": round(float(np.abs(first).max()), 2),
        }


def measure(name, training, seed, data, options):
    """Rows of the CSV for one network."""
    import keras

    keras.utils.set_random_seed(seed)
    model = build(name, options, seed)

    def log(figures):
        figures = {key: float(f"{value:.5g}") for key, value in figures.items()}
        figures["epoch"] = int(figures["epoch"])
        row = {"model": name, "training": training, "seed": seed, **figures}
        append_rows(options.output / "log.csv", LOG_FIELDS, [row])

    clock = train(
        model, *data["train"], training, options, seed, validation_data=data["test"], log=log
    )
    for row in test(model, *data["test"], angles(options)):
        yield {
            **{"model": name, "training": training, "seed": seed, **row},
            **{"parameters": parameters(model), "train_seconds": round(clock.total)},
            **{key: getattr(options, key) for key in SIZES},
        }


def estimate(data, options):
    """Prints how long a network of each kind and all of them would take, from a few steps."""
    total = 0.0
    x, y = data["test"]
    for name in options.models:
        model = build(name, options, 0)
        clock = train(model, *data["train"], "turned", options, 0, steps=options.time_steps)
        one = {key: value[:BATCH] for key, value in x.items()}
        model.predict(one, verbose=0)
        start = time.perf_counter()
        model.predict({key: value[: 4 * BATCH] for key, value in x.items()}, BATCH, verbose=0)
        per_image = (time.perf_counter() - start) / min(4 * BATCH, len(y))
        steps = options.epochs * -(-options.images // BATCH)
        seconds = steps * clock.step() + options.angles * len(y) * per_image
        total += seconds * len(options.trainings) * len(options.seeds)
        print(
            f"{name}: {parameters(model)} parameters, {1000 * clock.step():.0f} ms a step, "
            f"{1000 * per_image:.2f} ms a test image, {seconds / 60:.1f} minutes a network"
        )
    print(f"{len(options.models)} models in all: {total / 60:.0f} minutes")


def key_of(row):
    """Which network a row of a CSV is of."""
    return row["model"], row["training"], row["seed"]


def drop_unfinished(path, finished):
    """Leaves in the log the epochs of networks that were tested; the others train anew."""
    rows = [row for row in read_rows(path) if key_of(row) in finished]
    path.unlink(missing_ok=True)
    append_rows(path, LOG_FIELDS, rows)


def write_recipe(options):
    """What this run is, into recipe.toml; ends the program if the folder holds a run of another."""
    import keras
    import numpy
    import tensorflow

    import tfpn
    from tfpn import recipes

    path = options.output / "recipe.toml"
    before = tomllib.loads(path.read_text()) if path.exists() else {}
    sections = {
        "options": {key: getattr(options, key) for key in (*SIZES, *NETWORKS)},
        "training": {"channels": options.channels, "batch": BATCH, "learning_rate": LEARNING_RATE},
        "versions": {
            "python": platform.python_version(),
            **{one.__name__: one.__version__ for one in (tfpn, tensorflow, keras, numpy)},
        },
    }
    for section, values in sections.items():
        for key, value in values.items():
            old = before.get(section, {}).get(key, value)
            if key in NETWORKS:
                values[key] = [*old, *(one for one in value if one not in old)]
            elif old != value:
                raise SystemExit(
                    f"{path} is of a run with {key}={old}, this one has {key}={value}: give the "
                    "same, or another --output"
                )
    path.write_text(recipes.dumps(recipes.Recipe("rotation", sections, str(path))))


def parse(arguments=None):
    """The options; complains of numbers that cannot be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", required=True, help="folder of mnist.npz")
    parser.add_argument("--cache-dir", help="where superpixels are kept")
    parser.add_argument("--output", type=pathlib.Path, default="runs/rotation")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--trainings", nargs="+", choices=TRAININGS, default=TRAININGS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--images", type=int, default=3000, help="training images")
    parser.add_argument("--test-images", type=int, default=500)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--copies", type=int, default=12, help="of the steerable network's fields")
    parser.add_argument("--angles", type=int, default=24, help="number of test angles")
    parser.add_argument("--time-steps", type=int, help="only time so many training steps")
    options = parser.parse_args(arguments)
    for key in ("images", "test_images", "epochs", "blocks", "copies", "angles"):
        if getattr(options, key) < 1:
            parser.error(
                f"--{key.replace('_', '-')}: found {getattr(options, key)}; give 1 or more"
            )
    if options.time_steps is not None and options.time_steps < 5:
        parser.error(f"--time-steps: found {options.time_steps}; give 5 or more")
    return options


def main(arguments=None):
    """Trains what is missing in the CSV, draws, and prints the table."""
    options = parse(arguments)
    data = load(options)
    options.channels = matched_channels(
        parameters(build("SteerablePNCNN", options, 0)), options.blocks
    )
    print(f"PNCNN of {options.channels} channels, SteerablePNCNN of {options.copies} copies")
    if options.time_steps:
        return estimate(data, options)
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "rotation.csv"
    write_recipe(options)
    finished = {key_of(row) for row in read_rows(path)}
    drop_unfinished(options.output / "log.csv", finished)
    for seed in options.seeds:
        for name in options.models:
            for training in options.trainings:
                key = (name, training, str(seed))
                if key in finished:
                    continue
                rows = list(measure(name, training, seed, data, options))
                append_rows(path, FIELDS, rows)
                print(*key, [row["error"] for row in rows], flush=True)
    draw(read_rows(path), options.output / "rotation.png")
    print(table(read_rows(path)))


if __name__ == "__main__":
    main()
