"""Death in hospital on five random splits of PhysioNet 2012, as the literature on Raindrop has it.

    python -m benchmarks.physionet_splits.run --data-dir data
    python -m benchmarks.physionet_splits.run --data-dir data --models boosting --splits 0 1

A split holds 80, 10 and 10 % of the records that have a series: 9,590, 1,199 and 1,199. **The
splits are ours**, drawn by `numpy.random.default_rng(split)`: those of Raindrop (Zhang et al.,
Graph-Guided Network for Irregularly Sampled Multivariate Time Series, 2022) are files that do not
come with the data. So no published figure stands in the same column.

Models: `boosting`, `logistic`, `gru` and `gru-binned` of `benchmarks.physionet_baselines.run`, and
`tfpn`, the recipe physionet2012-tuned as it is. The others choose settings or epochs by each
split's validation part. Writes a row for each model and split to a CSV file; what is there is not
done again, and an interrupted training of `tfpn` goes on.
"""

import argparse
import csv
import itertools
import json
import time
from pathlib import Path

import numpy as np

from benchmarks.physionet_baselines.run import GRIDS, RECURRENT, fit_gru, fit_table
from benchmarks.tables import append_rows, read_rows
from tfpn import datasets, evaluation, recipes, training

MEASURES = (
    *("validation_auroc", "validation_average_precision"),
    *("test_auroc", "test_average_precision", "test_nll"),
)
COLUMNS = ("model", "split", *MEASURES, "seconds")


def write_lists(data_dir, data, split, folder):
    """Writes a random split in the form of `tfpn.datasets.physionet2012`'s lists.

    Args:
        data_dir: holds lists of all records in its folder splits.
        data: the data set of those lists.
        split: the seed.
        folder: gets train_listfile.csv, val_listfile.csv and test_listfile.csv.
    """
    deaths = {}
    for path in sorted((data_dir / "splits").glob("*_listfile.csv")):
        with path.open(newline="") as lines:
            for row in csv.DictReader(lines):
                deaths[int(row["RecordID"])] = row["In-hospital_death"]
    parts = (data.train, data.validation, data.test)
    known = np.sort(np.concatenate([part.record_ids for part in parts]))
    drawn = np.random.default_rng(split).permutation(known)
    ends = np.round(np.array([0.8, 0.9]) * len(known)).astype(int)
    lists = dict(zip(("train", "val", "test"), np.split(drawn, ends), strict=True))
    # Every record has to be in a list, and the loader leaves out those without series.
    lists["train"] = [*lists["train"], *sorted(deaths.keys() - set(known.tolist()))]
    folder.mkdir(parents=True, exist_ok=True)
    for name, records in lists.items():
        rows = [f"{record},{deaths[int(record)]}" for record in records]
        text = "\n".join(["RecordID,In-hospital_death", *rows, ""])
        (folder / f"{name}_listfile.csv").write_text(text)


def measure(name, split, options):
    """Fits a model on a split; its figures."""
    lists = options.runs / f"split-{split}"
    if name == "tfpn":
        recipe = recipes.load("physionet2012-tuned")
        for key, value in (("data_dir", options.data_dir), ("split_dir", str(lists))):
            recipes.override(recipe, f"data.{key}={json.dumps(value)}")
        if options.epochs is not None:
            recipes.override(recipe, f"training.epochs={options.epochs}")
        return training.train(recipe, options.runs / f"tfpn-{split}", resume=True, verbose=2)
    data = datasets.physionet2012(options.data_dir, lists, statics="apart")
    parts = {key: getattr(data, key) for key in ("train", "validation", "test")}
    start = time.perf_counter()
    if name in RECURRENT:
        settings = argparse.Namespace(units=options.units, epochs=options.epochs or 30)
        found = fit_gru(name, parts, split, settings)[1]
    else:
        found = fit_table(name, parts, split)[1]
    row = {"seconds": time.perf_counter() - start}
    for part, probabilities in found.items():
        figures = evaluation.classification_metrics(probabilities, parts[part].y)
        row |= {f"{part}_{key}": value for key, value in figures.items()}
    return row


def main(arguments=None):
    """Fits what is missing and writes the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", required=True)
    names = ("tfpn", *GRIDS, *RECURRENT)
    parser.add_argument("--models", nargs="+", choices=names, default=list(names), metavar="MODEL")
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2, 3, 4], metavar="SPLIT")
    parser.add_argument("--epochs", type=int, help="other than the recipe's, and 30 for the GRUs")
    parser.add_argument("--units", type=int, default=64, help="of the GRUs")
    parser.add_argument("--runs", type=Path, default=Path("runs/physionet-splits"))
    default = Path(__file__).parent / "splits.csv"
    parser.add_argument("--output", type=Path, default=default)
    options = parser.parse_args(arguments)
    done = {(row["model"], int(row["split"])) for row in read_rows(options.output)}
    data = datasets.physionet2012(options.data_dir, statics="apart")
    for split in options.splits:
        write_lists(Path(options.data_dir), data, split, options.runs / f"split-{split}")
    del data
    for split, name in itertools.product(options.splits, options.models):
        if (name, split) not in done:
            found = measure(name, split, options)
            row = {key: round(found[key], 4) for key in (*MEASURES, "seconds")}
            row = {"model": name, "split": split, **row}
            append_rows(options.output, COLUMNS, [row])
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
