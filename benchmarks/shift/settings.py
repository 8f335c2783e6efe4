"""Settings of `run.py`'s configuration, changed one at a time and judged by held-out series.

    python -m benchmarks.shift.settings
    python -m benchmarks.shift.settings --settings default weight --sets GunPoint --splits 0

Trains "diagonal" with fitted priors on 70 % of the training part, thinned, and predicts the other
30 %, in all tests of models that were trained on everything. No test part is read. Prints
accuracy and negative log likelihood, and adds a row to the CSV file for each test.
"""

import argparse
import itertools
import pathlib
import time

import numpy as np

from benchmarks.shift import models, sets
from benchmarks.tables import append_rows, read_rows

FIELDS = ("set", "setting", "value", "split", "seed", "test", "accuracy", "nll", "fit_seconds")
SETTINGS = {
    "default": ("default",),
    "rate": (1e-3, 3e-3, 3e-2),
    "channels": (8, 16, 64),
    "blocks": (1, 3),
    "weight": (5e-5, 1e-2, 1.0),
}
HELD_OUT = 0.3


def divided(part, split):
    """A `Part` to train on and a held-out one, with all classes in both."""
    from sklearn.model_selection import train_test_split

    chosen = train_test_split(
        np.arange(len(part.y)), test_size=HELD_OUT, stratify=part.y, random_state=split
    )
    return [
        sets.Part({key: array[rows] for key, array in part.x.items()}, part.y[rows])
        for rows in chosen
    ]


def measure(data, name, setting, value, split, seed):
    """Rows of one training."""
    from tfpn.evaluation import classification_metrics

    train, held_out = divided(data.train, split)
    start = time.process_time()
    changed = models.Settings(**({} if setting == "default" else {setting: value}))
    model = models.fit("diagonal", True, data, train, seed, True, changed)
    seconds = round(time.process_time() - start, 1)
    rows = []
    for test in sets.scenarios("whole", train.x["values"].shape[-1], data.together):
        x = sets.scenario(test, held_out.x, split, data.together)
        probabilities = np.asarray(model.predict_proba(x, batch_size=100, verbose=0))
        found = classification_metrics(probabilities, held_out.y)
        row = {"set": name, "setting": setting, "value": value, "split": split, "seed": seed}
        row |= {"test": test, **{key: round(found[key], 5) for key in ("accuracy", "nll")}}
        rows.append({**row, "fit_seconds": seconds})
    return rows


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", default=["ItalyPowerDemand"], choices=sets.SMALL)
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    default = pathlib.Path(__file__).parent / "settings.csv"
    parser.add_argument("--output", type=pathlib.Path, default=default)
    options = parser.parse_args(arguments)
    key = ("set", "setting", "value", "split", "seed")
    done = {tuple(row[field] for field in key) for row in read_rows(options.output)}
    for name, setting in itertools.product(options.sets, options.settings):
        data = sets.load(name, None, None)
        for run in itertools.product(SETTINGS[setting], options.splits, options.seeds):
            if (name, setting, *map(str, run)) in done:
                continue
            rows = measure(data, name, setting, *run)
            append_rows(options.output, FIELDS, rows)
            print(*rows, sep="\n", flush=True)


if __name__ == "__main__":
    main()
