"""What each part of the tuned recipe for PhysioNet 2012 does: the same training with one change.

    python benchmarks/physionet_configurations.py --data-dir data
    python benchmarks/physionet_configurations.py --data-dir data --only tuned --seeds 0 1 2

Trains each configuration of `CONFIGURATIONS` from each seed, keeps the run folders (an interrupted
run goes on), adds a row for each to a CSV file and prints it. The recipe was chosen by the
validation part; the test part's figures are written beside and chose nothing.
"""

import argparse
import csv
import json
from pathlib import Path

from tfpn import recipes, training

TUNED = "physionet2012-tuned"
SERIES = ("data.statics=series", "model.in_channels=46", "model.num_statics=0")
# Name: recipe and what is changed in it.
CONFIGURATIONS = {
    "tuned": (TUNED,),
    "paper": ("physionet2012",),
    "96 channels": (TUNED, "model.channels=96"),
    "24 channels": (TUNED, "model.channels=24"),
    "2 blocks": (TUNED, "model.num_blocks=2"),
    "statics and counts to the head": (TUNED, "model.context=head", "model.clock=false"),
    "statics and counts to the features": (TUNED, "model.context=features"),
    "statics as observed series": (TUNED, *SERIES),
    "no clock": (TUNED, "model.clock=false"),
    "no counts": (TUNED, "model.missingness=none"),
    "intensity for counts": (TUNED, "model.missingness=intensity"),
    "4 windows": (TUNED, "model.windows=4"),
    "one prior for all channels": (TUNED, "model.input_prior=shared"),
    "24 query points": (TUNED, "model.query=24"),
    "all times queried": (TUNED, "model.query=union"),
    "no uncertainty": (TUNED, "model.uncertainty=none"),
    "no class weights": (TUNED, "training.class_weight=[]"),
}
MEASURES = (
    *("validation_auroc", "validation_average_precision"),
    *("test_auroc", "test_average_precision", "test_nll", "test_ece"),
)
COLUMNS = ("configuration", "seed", *MEASURES, "parameters", "epochs", "seconds")


def run(name, seed, folder, data_dir):
    """Trains one configuration in its folder and returns its row."""
    recipe_name, *changes = CONFIGURATIONS[name]
    recipe = recipes.load(recipe_name)
    for change in (*changes, f"training.seed={seed}", f"data.data_dir={data_dir}"):
        recipes.override(recipe, change)
    result = training.train(recipe, folder, resume=True, verbose=2)
    row = {key: result[key] for key in (*MEASURES, "parameters", "epochs", "seconds")}
    row = {key: round(value, 4) for key, value in row.items()}
    return {"configuration": name, "seed": seed, **row}


def known(path):
    """The configurations and seeds that the CSV file has."""
    if not path.exists():
        return set()
    with open(path, newline="") as file:
        return {(row["configuration"], int(row["seed"])) for row in csv.DictReader(file)}


def main(arguments=None):
    """Trains what is missing and writes the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--only", nargs="+", choices=CONFIGURATIONS, default=list(CONFIGURATIONS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/physionet"))
    parser.add_argument(
        "--output", type=Path, default=Path("benchmarks/physionet/configurations.csv")
    )
    options = parser.parse_args(arguments)
    for name in options.only:
        for seed in options.seeds:
            if (name, seed) in known(options.output):
                continue
            folder = options.runs / f"{name.replace(' ', '-')}-{seed}"
            row = run(name, seed, folder, options.data_dir)
            new = not options.output.exists()
            with open(options.output, "a", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS)
                if new:
                    writer.writeheader()
                writer.writerow(row)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
