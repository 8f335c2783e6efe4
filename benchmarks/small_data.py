"""Which size and training suit small sets of series, judged by held-out training series.

    python benchmarks/small_data.py                      # one factor at a time, four small sets
    python benchmarks/small_data.py --sets JapaneseVowels --change channels=32 steps=1000

Of the training part of each set of `shift.py` every third series is held out; a model with
uncertainty "diagonal" trains on the others, thinned, and is measured on those held out, whole and
with 50 and 80 % of their readings dropped (four draws of each). The test parts are not touched.
Each row changes one setting of `BASE`, or those of `--change` together. Writes a row for each fit
to a CSV file, what is there is not done again, and prints the table.
"""

import argparse
import collections
import dataclasses
import pathlib
import time

import numpy as np
import shift_data
import shift_tfpn
from tables import append_rows, read_rows

BASE = shift_tfpn.Settings()
CHANGES = {
    "channels": (32, 96),
    "blocks": (1, 3, 4),
    "query": (16, 48),
    "steps": (150, 300, 1000),
    "schedule": ("constant",),
    "batch": (16,),
    "rate": (3e-3, 3e-2),
    "weight": (1e-2, 1.0),
    "windows": (4,),
    "clock": (True,),
}
TESTS = {"whole": 1, "-50%": 4, "-80%": 4}  # and how often readings are drawn
FIELDS = (
    *("set", "change", "seed", "nll", "accuracy", *(f"nll {test}" for test in TESTS)),
    *("parameters", "fit_seconds"),
)


def split(data, offset=0):
    """The training part without every third series of each class, and these."""
    order = np.argsort(data.train.y, kind="stable")
    held = np.zeros(len(order), bool)
    held[order[offset::3]] = True
    return [
        shift_data.Part(
            {key: array[some] for key, array in data.train.x.items()}, data.train.y[some]
        )
        for some in (~held, held)
    ]


def measure(name, data, change, seed):
    """Fits one model, and returns its row."""
    from tfpn.evaluation import classification_metrics

    train, held = split(data, seed % 3)
    settings = dataclasses.replace(BASE, **change)
    start = time.process_time()
    model = shift_tfpn.fit("diagonal", False, data, train, seed, True, settings)
    seconds = time.process_time() - start
    found = collections.defaultdict(list)
    for test, draws in TESTS.items():
        for draw in range(draws):
            x = shift_data.scenario(test, held.x, 1000 + draw, data.together)
            metrics = classification_metrics(model.predict_proba(x, batch_size=100), held.y)
            for key in ("nll", "accuracy"):
                found[key, test].append(metrics[key])
    means = {
        key: np.mean([np.mean(found[key, test]) for test in TESTS]) for key in ("nll", "accuracy")
    }
    return {
        **{"set": name, "change": label(change), "seed": seed},
        **{key: round(float(value), 4) for key, value in means.items()},
        **{f"nll {test}": round(float(np.mean(found["nll", test])), 4) for test in TESTS},
        **{"parameters": model.count_params(), "fit_seconds": round(seconds, 1)},
    }


def label(change):
    """A change in words."""
    return " ".join(f"{key}={value}" for key, value in change.items()) or "base"


def table(rows):
    """NLL over the held-out tests and processor seconds of each change, means over seeds."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        values = [float(row[key]) for key in ("nll", "fit_seconds")]
        found[row["change"]][row["set"]].append(values)
    sets = [name for name in shift_data.SMALL if any(name in of for of in found.values())]
    lines = [f"| | {' | '.join(sets)} |", "| --- " * (1 + len(sets)) + "|"]
    for change, of in found.items():
        texts = []
        for name in sets:
            nll, seconds = np.mean(of[name], axis=0) if name in of else (np.nan, np.nan)
            texts.append(f"{nll:.3f} ({seconds:.0f} s)" if name in of else "")
        lines.append(f"| {change} | {' | '.join(texts)} |")
    return "\n".join(lines)


def read_change(texts):
    """A change from texts such as "steps=300"."""
    kinds = {field.name: type(getattr(BASE, field.name)) for field in dataclasses.fields(BASE)}
    pairs = (text.split("=") for text in texts)
    return {key: kinds[key](value) for key, value in pairs}


def main(arguments=None):
    """Measures what is missing, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=shift_data.SMALL, default=shift_data.SMALL)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], metavar="SEED")
    parser.add_argument("--change", nargs="+", metavar="NAME=VALUE", help="these settings together")
    folder = pathlib.Path(__file__).parent / "shift"
    parser.add_argument("--output", type=pathlib.Path, default=folder / "small_data.csv")
    options = parser.parse_args(arguments)
    changes = [{}] + [{key: value} for key, values in CHANGES.items() for value in values]
    if options.change:
        changes = [read_change(options.change)]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for name in options.sets:
        data = shift_data.load(name)
        for change in changes:
            for seed in options.seeds:
                done = [(r["set"], r["change"], r["seed"]) for r in read_rows(options.output)]
                if (name, label(change), str(seed)) not in done:
                    row = measure(name, data, change, seed)
                    append_rows(options.output, FIELDS, [row])
                    print(row, flush=True)
    print(table(read_rows(options.output)))


if __name__ == "__main__":
    main()
