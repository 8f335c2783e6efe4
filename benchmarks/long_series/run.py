"""Classification of series of some 10,000 readings, by conditioning on neighbourhoods.

    python -m benchmarks.long_series.run
    python -m benchmarks.long_series.run --models tfpn+thinned minirocket --folds 0

A watch records its wearer's exercises, 50 times a second in 6 channels: 140 series of 5,700 to
15,700 readings (`benchmarks.shift.sets.watch`; the data come with the package seglearn, which
nothing but this program needs: install it with `--no-deps`). Subjects are split: a test part has
the series of every fifth one. Every model is trained on whole series and tested with all readings,
with 80 % and with 98 % of them dropped. Models: `tfpn` is `PNTimeSeries(conditioning="local")`, the
others those of `benchmarks.shift.run`; `+thinned` trains on thinned series.

Writes a row for each test to a CSV file, as soon as it is known; what is there is not done again.
Seconds are those of the processor, with OMP_NUM_THREADS=1 TF_NUM_INTRAOP_THREADS=1 of one core.
"""

import argparse
import itertools
import pathlib
import time

import numpy as np

from benchmarks.shift import baselines, models, sets
from benchmarks.tables import append_rows, read_rows

FIELDS = (
    *("model", "fold", "test", "accuracy", "nll", "ece", "examples"),
    *("readings", "fit_seconds", "predict_seconds"),
)
DROPPED = {"whole": 0.0, "-80%": 0.8, "-98%": 0.98}
BASELINES = ("minirocket", "forest")


def measure(model, fold, settings):
    """Trains a model; a row for each test."""
    from tfpn.evaluation import classification_metrics

    data = sets.watch(fold)
    name, _, thinned = model.partition("+")
    start = time.process_time()
    if name == "tfpn":
        network = models.fit("diagonal", True, data, data.train, fold, bool(thinned), settings)

        def predict(x):
            return np.asarray(network.predict_proba(x, batch_size=settings.batch))

    else:
        predict = baselines.MODELS[name](data, data.train, fold, bool(thinned))
    fitted = time.process_time() - start
    for number, (test, share) in enumerate(DROPPED.items()):
        x = data.test.x
        if share:
            x = sets.drop(x, share, np.random.default_rng((fold, number)))
        start = time.process_time()
        found = classification_metrics(predict(x), data.test.y)
        row = {"model": model, "fold": fold, "test": test, "examples": len(data.test.y)}
        row |= {key: round(found[key], 5) for key in ("accuracy", "nll", "ece")}
        row["readings"] = round(np.isfinite(x["variance"]).sum() / len(data.test.y))
        row["fit_seconds"] = round(fitted, 1)
        yield {**row, "predict_seconds": round(time.process_time() - start, 2)}


def main(arguments=None):
    """Adds what is missing to the CSV file."""
    names = [name + thinned for name in ("tfpn", *BASELINES) for thinned in ("", "+thinned")]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=names, choices=names, metavar="MODEL")
    parser.add_argument("--folds", nargs="+", type=int, default=[0, 1, 2, 3, 4], metavar="FOLD")
    parser.add_argument("--steps", type=int, default=500, help="of tfpn's training")
    parser.add_argument("--query", type=int, default=64, help="points that its blocks look at")
    default = pathlib.Path(__file__).parent / "results.csv"
    parser.add_argument("--output", type=pathlib.Path, default=default)
    options = parser.parse_args(arguments)
    settings = models.Settings(
        channels=16,
        query=options.query,
        steps=options.steps,
        batch=16,
        conditioning="local",
    )
    for fold, model in itertools.product(options.folds, options.models):
        done = {(row["model"], row["fold"]) for row in read_rows(options.output)}
        if (model, str(fold)) not in done:
            rows = list(measure(model, fold, settings))
            append_rows(options.output, FIELDS, rows)
            print(*rows, sep="\n", flush=True)


if __name__ == "__main__":
    main()
