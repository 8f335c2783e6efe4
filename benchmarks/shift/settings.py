"""Learning rate, width and depth of the configuration of `run.py`, one changed at a time.

    python -m benchmarks.shift.settings --sets ItalyPowerDemand --seeds 0 1

Trains "diagonal" with fitted priors on thinned series. Prints accuracy and negative log likelihood
on all readings and on half of them, and adds a row to the CSV file for each seed.
"""

import argparse
import pathlib
import time

import numpy as np

from benchmarks.shift import models, sets
from benchmarks.tables import append_rows

FIELDS = ("set", "setting", "value", "seed", "test", "accuracy", "nll", "fit_seconds")
SETTINGS = {"rate": (1e-3, 3e-3, 1e-2, 3e-2), "channels": (8, 16, 32, 64), "blocks": (1, 2, 3)}
TESTS = ("whole", "-50%")


def measure(data, name, setting, value, seed):
    """Rows of one training."""
    from tfpn.evaluation import classification_metrics

    start = time.process_time()
    part = sets.training_part(data, "whole", seed)
    changed = models.Settings(**{setting: value})
    model = models.fit("diagonal", True, data, part, seed, True, changed)
    seconds = round(time.process_time() - start, 1)
    rows = []
    for test in TESTS:
        x = sets.scenario(test, data.test.x, seed, data.together)
        probabilities = np.asarray(model.predict_proba(x, batch_size=100, verbose=0))
        found = classification_metrics(probabilities, data.test.y)
        row = {"set": name, "setting": setting, "value": value, "seed": seed, "test": test}
        row |= {key: round(found[key], 5) for key in ("accuracy", "nll")}
        rows.append({**row, "fit_seconds": seconds})
    return rows


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", default=["ItalyPowerDemand"], choices=sets.SMALL)
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    default = pathlib.Path(__file__).parent / "settings.csv"
    parser.add_argument("--output", type=pathlib.Path, default=default)
    options = parser.parse_args(arguments)
    for name in options.sets:
        data = sets.load(name, None, None)
        for setting in options.settings:
            for value in SETTINGS[setting]:
                for seed in options.seeds:
                    rows = measure(data, name, setting, value, seed)
                    append_rows(options.output, FIELDS, rows)
                    print(*rows, flush=True)


if __name__ == "__main__":
    main()
