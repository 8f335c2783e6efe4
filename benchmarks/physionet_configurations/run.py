"""What each part of the tuned recipe for PhysioNet 2012 does: the same training with one change.

    python -m benchmarks.physionet_configurations.run --data-dir data
    python -m benchmarks.physionet_configurations.run --data-dir data --only tuned --seeds 0 1 2 \
        --ensemble
    python -m benchmarks.physionet_configurations.run --data-dir data --records 1000 500 \\
        --epochs 2 --only "one prior for all channels" "stochastic variances"

Trains each configuration of `CONFIGURATIONS` from each seed, keeps the run folders (an interrupted
run goes on), adds a row for each to a CSV file and prints it. The recipe was chosen by the
validation part; the test part's figures are written beside and chose nothing.

With --ensemble the seeds' probabilities are averaged, too, on the validation and on the test part,
by the models of the run folders; the rows go to ensembles.csv.

With --records the first records of the training and of the validation part only, for what would
take too long with all: nothing is measured on the test part, the rows go to a file of their own and
have the seconds of a step, too.
"""

import argparse
import collections
import json
from pathlib import Path

import keras
import numpy as np

from benchmarks.physionet_parts import first
from benchmarks.physionet_step.run import Clock
from benchmarks.tables import append_rows, read_rows
from tfpn import evaluation, recipes, training
from tfpn.training import fitting

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
    # 20 probes, which need one prior: to be compared with the row above. A step takes three times
    # as long.
    "stochastic variances": (
        *(TUNED, "model.input_prior=shared"),
        *("model.variance_estimator=stochastic", "model.seed=0"),
    ),
    "48 query points": (TUNED, "model.query=48"),
    "weight 0.1": (TUNED, "model.marginal_likelihood_weight=0.1"),
    "learning rate 1.5e-3": (TUNED, "training.learning_rate=1.5e-3"),
    "thinned": (TUNED, "augmentation.thin=[0.3, 1.0]"),
    "all times queried": (TUNED, "model.query=union"),
    "no uncertainty": (TUNED, "model.uncertainty=none"),
    "no class weights": (TUNED, "training.class_weight=[]"),
}
MEASURES = (
    *("validation_auroc", "validation_average_precision"),
    *("test_auroc", "test_average_precision", "test_nll", "test_ece"),
)
COLUMNS = ("configuration", "seed", *MEASURES, "parameters", "epochs", "seconds")
ENSEMBLE_COLUMNS = ("configuration", "seeds", *MEASURES)
FIRST_COLUMNS = (
    *("configuration", "seed", "train_records", "validation_records", "epochs"),
    *("validation_auroc", "validation_average_precision"),
    *("step_seconds", "step_processor_seconds"),
)


def recipe_of(name, options):
    """The recipe of a configuration, to be trained with the options' data and epochs."""
    recipe_name, *changes = CONFIGURATIONS[name]
    recipe = recipes.load(recipe_name)
    for change in (*changes, f"data.data_dir={json.dumps(options.data_dir)}"):
        recipes.override(recipe, change)
    if options.epochs is not None:
        recipes.override(recipe, f"training.epochs={options.epochs}")
    return recipe


def run(recipe, folder):
    """Trains a recipe in its folder and returns its figures."""
    result = training.train(recipe, folder, resume=True, verbose=2)
    return {key: result[key] for key in (*MEASURES, "parameters", "epochs", "seconds")}


def ensemble(folders):
    """Figures of the mean of the probabilities of the folders' models."""
    found = collections.defaultdict(list)
    for folder in folders:
        model, recipe = training.load_run(folder)
        data = recipes.load_data(recipe)
        for name in ("validation", "test"):
            part = getattr(data, name)
            found[name].append(model.predict_proba(recipes.model_inputs(model, part)))
    row = {}
    for name, members in found.items():
        figures = evaluation.classification_metrics(np.mean(members, axis=0), getattr(data, name).y)
        row |= {f"{name}_{key}": value for key, value in figures.items()}
    return {key: row[key] for key in MEASURES}


def run_first(recipe, num_train, num_validation):
    """Trains a recipe on the first records of the training part and returns its figures."""
    recipe = recipes.resolve(recipe)
    settings = recipe.sections["training"]
    keras.utils.set_random_seed(settings["seed"])
    data = recipes.load_data(recipe)
    train, validation = first(data.train, num_train), first(data.validation, num_validation)
    model = recipes.build_model(recipe)
    batches = fitting.make_batches(recipe, recipes.model_inputs(model, train), train.y)
    model.adapt(train.x)
    fitting.compile_model(model, settings, len(batches))
    clock = Clock()
    fitting.fit_model(model, batches, None, settings, callbacks=[clock], verbose=2)
    found = training.evaluate(model, validation, batch_size=settings["batch_size"])
    # The first step of all is spent on tracing.
    seconds, processor = np.mean(clock.times[1:], axis=0)
    return {
        "train_records": len(train),
        "validation_records": len(validation),
        "epochs": settings["epochs"],
        "validation_auroc": found["auroc"],
        "validation_average_precision": found["average_precision"],
        "step_seconds": seconds,
        "step_processor_seconds": processor,
    }


def known(path):
    """The configurations and seeds that the CSV file has."""
    return {(row["configuration"], int(row["seed"])) for row in read_rows(path)}


def main(arguments=None):
    """Trains what is missing and writes the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--only", nargs="+", choices=CONFIGURATIONS, default=list(CONFIGURATIONS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--epochs", type=int, help="other than the recipe's")
    parser.add_argument(
        "--ensemble", action="store_true", help="average the seeds' probabilities, too"
    )
    parser.add_argument(
        "--records", type=int, nargs=2, metavar=("TRAIN", "VALIDATION"),
        help="the first ones of each part only",
    )  # fmt: skip
    parser.add_argument("--runs", type=Path, default=Path("runs/physionet"))
    parser.add_argument(
        "--output", type=Path,
        help="configurations.csv beside the program, or first_records.csv with --records",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.ensemble and options.records:
        parser.error("--ensemble: found --records, too; leave out one of the two.")
    name = "first_records.csv" if options.records else "configurations.csv"
    output = options.output or Path(__file__).parent / name
    columns = FIRST_COLUMNS if options.records else COLUMNS
    for name in options.only:
        folders = [options.runs / f"{name.replace(' ', '-')}-{seed}" for seed in options.seeds]
        for seed, folder in zip(options.seeds, folders, strict=True):
            if (name, seed) in known(output):
                continue
            recipe = recipe_of(name, options)
            recipes.override(recipe, f"training.seed={seed}")
            if options.records:
                row = run_first(recipe, *options.records)
            else:
                row = run(recipe, folder)
            row = {key: round(value, 4) for key, value in row.items()}
            row = {"configuration": name, "seed": seed, **row}
            append_rows(output, columns, [row])
            print(json.dumps(row), flush=True)
        if options.ensemble:
            row = {key: round(value, 4) for key, value in ensemble(folders).items()}
            seeds = " ".join(map(str, options.seeds))
            row = {"configuration": name, "seeds": seeds, **row}
            append_rows(output.with_name("ensembles.csv"), ENSEMBLE_COLUMNS, [row])
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
