"""What trained models of the same data make of fewer readings and of noise.

    python -m benchmarks.shift.stored models/superpixel-mnist RUN --data-dir DIR

Reads the folders of runs of `tfpn train`, takes the test part of the first one's recipe, and does
to it what `run.py` does to its sets. Prints a row for each model and test, and adds the rows to
stored.csv in --output.
"""

import argparse
import json
import pathlib

from benchmarks.shift import sets
from benchmarks.tables import append_rows

FIELDS = ("model", "test", "accuracy", "nll", "ece", "examples")


def measure(model, x, y, tests, together, seed=0):
    """Accuracy, negative log likelihood and calibration error of each test."""
    from tfpn.evaluation import classification_metrics
    from tfpn.training import class_probabilities

    for test in tests:
        probabilities = class_probabilities(model, sets.scenario(test, x, seed, together))
        found = classification_metrics(probabilities, y)
        row = {key: round(found[key], 5) for key in ("accuracy", "nll", "ece")}
        yield {"test": test, **row, "examples": len(y)}


def main(arguments=None):
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=pathlib.Path, metavar="RUN", help="folders")
    parser.add_argument("--data-dir", required=True, help="as for the recipe's data set")
    parser.add_argument("--limit", type=int, help="test examples at most")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)

    from tfpn import recipes, training

    part = None
    for folder in options.runs:
        model, recipe = training.load_run(folder)
        if part is None:
            recipes.override(recipe, f"data.data_dir={json.dumps(options.data_dir)}")
            part = recipes.load_data(recipe).test
        x = recipes.model_inputs(model, part)
        x = {key: array[: options.limit] for key, array in x.items()}
        together = model.get_config()["input_noise"] == "shared"
        tests = sets.scenarios("whole", x["values"].shape[-1], together)
        for row in measure(model, x, part.y[: options.limit], tests, together):
            row = {"model": folder.name, **row}
            print(row, flush=True)
            append_rows(options.output / "stored.csv", FIELDS, [row])


if __name__ == "__main__":
    main()
