"""Does better uncertainty classify better? The modes trained alike, with their cost.

Every mode trains by one recipe, from the same seeds, and is measured on the same test images twice:
by the softmax of its logits, and by the softmax averaged over the logits' distribution
(`PNCNN.predict_proba`), for which the pooling is over the box of the image.

    python -m benchmarks.uncertainty_modes.run digits                     # three seeds
    python -m benchmarks.uncertainty_modes.run small                      # joint too, few channels
    python -m benchmarks.uncertainty_modes.run slic-75 --data-dir DIR     # a short run

DIR holds mnist.npz. Writes `NAME.csv` into the output folder, a row for each network as soon as it
is known (those that are there already are not trained again), and prints the table.
"""

import argparse
import collections
import pathlib

from benchmarks.tables import append_rows, read_rows

MODES = ("none", "diagonal", "low_rank", "sampled", "sampled_4")
# What a mode changes, if it is not its name. A training step of "sampled" sees a single draw.
VARIANTS = {"sampled_4": ("model.uncertainty=sampled", "model.num_training_samples=4")}
# Recipe, what is changed in it, modes, seeds.
DIGITS = ("model.pooling=[0.0, 1.0]", "model.channels=16")
EXPERIMENTS = {
    "digits": ("digits", (*DIGITS, "data.views=8"), MODES, (0, 1, 2)),
    "small": (
        "digits",
        (
            *("model.pooling=[0.0, 1.0]", "model.channels=6", "model.num_blocks=2"),
            *("data.keep=20", "data.views=4"),
            *("training.epochs=4", "training.learning_rate=0.02"),
        ),
        (*MODES, "joint"),
        (0, 1, 2),
    ),
    "slic-75": (
        "superpixel-mnist",
        (
            *("model.pooling=[0.0, 1.0]", "model.channels=24", "model.num_blocks=3"),
            *("data.limit=10000", "training.epochs=2"),
            *("augmentation.elastic=0", "augmentation.thin=[]"),
        ),
        MODES,
        (0,),
    ),
}
MEASURES = ("error", "nll", "ece")
FIELDS = (
    *("mode", "seed", *MEASURES, *(f"averaged_{name}" for name in MEASURES)),
    *("test_examples", "parameters", "steps", "train_seconds"),
)


def measure(recipe_name, changes, mode, seed, folder):
    """Trains one network in a run folder, and returns its row."""
    from tfpn import evaluation, recipes, training

    recipe = recipes.load(recipe_name)
    chosen = VARIANTS.get(mode, (f"model.uncertainty={mode}",))
    for change in (*changes, *chosen, f"training.seed={seed}"):
        recipes.override(recipe, change)
    result = training.train(recipe, folder, resume=True, verbose=2)
    model, recipe = training.load_run(folder)
    data = recipes.load_data(recipe)
    batch = recipe.sections["training"]["batch_size"]
    logits = model.predict(data.test.x, batch_size=batch, verbose=0)
    plain = evaluation.classification_metrics(training.probabilities(logits), data.test.y)
    averaged = training.evaluate(model, data.test, batch_size=batch)
    return {
        **{"mode": mode, "seed": seed},
        **{name: round(plain[name], 5) for name in MEASURES},
        **{f"averaged_{name}": round(averaged[name], 5) for name in MEASURES},
        "test_examples": len(data.test.y),
        "parameters": result["parameters"],
        "steps": result["epochs"] * -(-len(data.train.y) // batch),
        "train_seconds": result["seconds"],
    }


def table(rows):
    """Mean and standard deviation over the seeds, as Markdown."""
    import numpy as np

    by_mode = collections.defaultdict(list)
    for row in rows:
        by_mode[row["mode"]].append(row)
    lines = [
        "| | error | NLL | ECE | averaged: error | NLL | ECE | ms a step |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for mode, found in by_mode.items():
        cells = [mode]
        for name in FIELDS[2:8]:
            values = np.array([float(row[name]) for row in found])
            scale, digits = (100, 2) if name.endswith("error") else (1, 3)
            text = f"{scale * values.mean():.{digits}f}"
            if len(values) > 1:
                text += f" ± {scale * values.std(ddof=1):.{digits}f}"
            cells.append(text + (" %" if scale == 100 else ""))
        cost = [1000 * float(row["train_seconds"]) / int(row["steps"]) for row in found]
        cells.append(f"{np.median(cost):.0f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments=None):
    """Trains what is missing in the CSV, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--data-dir", help="folder of mnist.npz, for slic-75")
    parser.add_argument("--cache-dir", help="where superpixels are kept, for slic-75")
    parser.add_argument("--modes", nargs="+", help="some of the experiment's modes")
    parser.add_argument("--output", type=pathlib.Path, default="runs/uncertainty_modes")
    options = parser.parse_args(arguments)
    recipe, changes, modes, seeds = EXPERIMENTS[options.experiment]
    if unknown := set(options.modes or ()) - set(modes):
        parser.error(f"--modes: found {', '.join(sorted(unknown))}; choose of {', '.join(modes)}")
    for key in ("data_dir", "cache_dir"):
        if getattr(options, key):
            changes += (f"data.{key}={getattr(options, key)}",)
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / f"{options.experiment}.csv"
    for mode in options.modes or modes:
        for seed in seeds:
            if any((row["mode"], row["seed"]) == (mode, str(seed)) for row in read_rows(path)):
                continue
            folder = options.output / f"{options.experiment}-{mode}-{seed}"
            row = measure(recipe, changes, mode, seed, folder)
            append_rows(path, FIELDS, [row])
            print(row, flush=True)
    print(table(read_rows(path)))


if __name__ == "__main__":
    main()
