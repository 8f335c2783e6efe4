"""Classification of clouds of points in space, upright and in random poses.

    python -m benchmarks.point_clouds.run
    python -m benchmarks.point_clouds.run --models pncnn pointnet --points 2048 --query 6 \\
        --steps 310 --poses turned/turned

Ten classes of shapes of the package PyVista (`shapes.py`), which nothing but this program needs:
install it and VTK with `--no-deps`. A pair of poses says how clouds stand in training and in the
test: upright/upright, upright/turned, turned/turned. "turned" training draws a new pose of each
cloud in every epoch. Tests take all points, and a half and a tenth of them, drawn at random.

Writes a row for each test to a CSV file, as soon as it is known; what is there is not done again.
Models are chosen by nothing but their settings here; the test part is seen once.
"""

import argparse
import itertools
import pathlib
import time

import keras
import numpy as np
import scipy.special

from benchmarks.point_clouds.models import MODELS, Batches, given
from benchmarks.point_clouds.shapes import clouds
from benchmarks.tables import append_rows, read_rows

FIELDS = (
    *("model", "points", "channels", "query", "trained", "least", "tested", "kept", "seed"),
    *("accuracy", "nll", "ece", "parameters", "examples", "steps", "fit_seconds"),
)
KEY = ("model", "points", "query", "trained", "least", "seed", "steps")
POSES = ("upright/upright", "upright/turned", "turned/turned")
KEPT = (1.0, 0.5, 0.1)
TRAINING, TESTING = 1000, 500
RATE = 3e-3


def trained(name, part, turn, options):
    """A model that was trained on the part, and the processor's seconds."""
    keras.utils.set_random_seed(options.seed)
    start = time.process_time()
    model = MODELS[name](part, options)
    batches = Batches(name, part, options.batch, options.seed, turn=turn, keep=options.keep)
    epochs = max(1, round(options.steps / len(batches)))
    rate = keras.optimizers.schedules.CosineDecay(RATE, epochs * len(batches))
    model.compile(
        keras.optimizers.Adam(rate),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(batches, epochs=epochs, shuffle=False, verbose=2)
    return model, time.process_time() - start


def measure(name, turn, tests, options):
    """Trains one model and returns a row for each test."""
    from tfpn.evaluation import classification_metrics

    part = clouds(TRAINING, options.points, (options.seed, 0))
    model, seconds = trained(name, part, turn, options)
    rows = []
    for pose, kept in itertools.product(tests, KEPT):
        tested = clouds(TESTING, options.points, (options.seed, 1))
        if pose == "turned":
            tested = tested.turned(np.random.default_rng((options.seed, 2)))
        tested = tested.thinned(kept, np.random.default_rng((options.seed, 3)))
        logits = model.predict(given(name, tested), batch_size=options.batch, verbose=0)
        found = classification_metrics(scipy.special.softmax(logits, axis=-1), tested.y)
        row = {
            "model": name,
            "points": options.points,
            "channels": "" if name == "pointnet" else options.channels,
            "query": options.query if name != "pointnet" else "",
            "trained": "turned" if turn else "upright",
            "least": options.keep[0],
            "tested": pose,
            "kept": kept,
            "seed": options.seed,
            "parameters": model.count_params(),
            "examples": TESTING,
            "steps": options.steps,
            "fit_seconds": round(seconds, 1),
        }
        rows.append(row | {key: round(found[key], 5) for key in ("accuracy", "nll", "ece")})
        print(rows[-1], flush=True)
    return rows


def main(arguments=None):
    """Adds what is missing to the CSV file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--poses", nargs="+", default=list(POSES), choices=POSES)
    parser.add_argument("--points", type=int, default=1024)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument(
        "--query",
        type=int,
        help="points at which blocks look: along each axis, of SteerablePNCNN in all",
    )
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument(
        "--keep", type=float, nargs=2, default=(1.0, 1.0), metavar=("LOW", "HIGH"),
        help="part of its points that each cloud keeps in training, anew in every epoch",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0)
    default = pathlib.Path(__file__).parent / "results.csv"
    parser.add_argument("--output", type=pathlib.Path, default=default)
    options = parser.parse_args(arguments)
    for name, turn in itertools.product(options.models, (False, True)):
        start = "turned" if turn else "upright"
        tests = [pose.split("/")[1] for pose in options.poses if pose.startswith(start)]
        query = options.query if name != "pointnet" and options.query else ""
        found = (name, options.points, query, start, options.keep[0], options.seed, options.steps)
        key = tuple(map(str, found))
        done = {tuple(row[k] for k in KEY) for row in read_rows(options.output)}
        if tests and key not in done:
            append_rows(options.output, FIELDS, measure(name, turn, tests, options))


if __name__ == "__main__":
    main()
