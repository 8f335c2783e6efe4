"""Does a rougher kernel classify better? RBF and Matern 3/2 trained alike, three seeds each.

    python -m benchmarks.kernels.run digits
    python -m benchmarks.kernels.run vowels --data FILE

FILE is `japanesevowels.npz`: 270 training and 370 test series of 12 channels and 7 to 29 readings,
by 9 speakers, with the arrays x_train [readings, 12], len_train [series], y_train and the same of
the test part. Nothing is chosen by the test part: the recipe is fixed. Writes `NAME.csv` into the
output folder, a row for each network as soon as it is known, and prints the table.
"""

import argparse
import pathlib
import time

from benchmarks.tables import append_rows, read_rows

KERNELS = ("rbf", "matern32")
SEEDS = (0, 1, 2)
FIELDS = ("kernel", "seed", "accuracy", "nll", "train_seconds")
DIGITS = ("model.channels=16", "data.views=8")


def digits(kernel, seed, options):
    """A short run of the recipe `digits`."""
    from tfpn import recipes, training

    recipe = recipes.load("digits")
    for change in (*DIGITS, f"model.kernel={kernel}", f"training.seed={seed}"):
        recipes.override(recipe, change)
    folder = options.output / f"digits-{kernel}-{seed}"
    result = training.train(recipe, folder, resume=True, verbose=2)
    model, recipe = training.load_run(folder)
    test = recipes.load_data(recipe).test
    found = training.evaluate(model, test, batch_size=100)
    return found["accuracy"], found["nll"], result["seconds"]


def vowels(kernel, seed, options):
    """300 steps of a small network of time series."""
    import keras
    import numpy as np

    import tfpn

    with np.load(options.data, allow_pickle=False) as file:
        parts = {name: _part(file, name) for name in ("train", "test")}
    keras.utils.set_random_seed(seed)
    model = tfpn.models.PNTimeSeries(
        9, in_channels=12, channels=16, num_blocks=2, query=24, pooling=(0, 29), kernel=kernel
    )
    x, y = parts["train"]
    model.adapt(x)
    model.compile(
        keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(1e-2, 300)),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    start = time.perf_counter()
    model.fit(x, y, batch_size=27, epochs=30, verbose=0)
    seconds = time.perf_counter() - start
    x, y = parts["test"]
    found = tfpn.evaluation.classification_metrics(model.predict_proba(x), y)
    return 1.0 - found["error"], found["nll"], seconds


def _part(file, name):
    """Observations and labels; readings scaled by the training part's mean and deviation."""
    import numpy as np

    import tfpn

    mean, std = file["x_train"].mean(0), file["x_train"].std(0)
    ends = np.cumsum(file[f"len_{name}"])[:-1]
    series = np.split((file[f"x_{name}"] - mean) / std, ends)
    times = [np.arange(len(one), dtype="float32")[:, None] + 0.5 for one in series]
    labels = file[f"y_{name}"].astype(int)
    return tfpn.observations(times, series), labels - labels.min()


EXPERIMENTS = {"digits": digits, "vowels": vowels}


def table(rows):
    """Mean and standard deviation over the seeds, as Markdown."""
    import numpy as np

    lines = ["| | accuracy | NLL | seconds |", "| --- | --- | --- | --- |"]
    for kernel in KERNELS:
        found = [row for row in rows if row["kernel"] == kernel]
        if not found:
            continue
        accuracy, nll, seconds = (
            np.array([float(row[key]) for row in found]) for key in FIELDS[2:]
        )
        lines.append(
            f"| {kernel} | {100 * accuracy.mean():.2f} ± {100 * _std(accuracy):.2f} % | "
            f"{nll.mean():.3f} ± {_std(nll):.3f} | {np.median(seconds):.0f} |"
        )
    return "\n".join(lines)


def _std(values):
    return values.std(ddof=1) if len(values) > 1 else 0.0


def main(arguments=None):
    """Trains what is missing in the CSV, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--data", help="japanesevowels.npz, for vowels")
    parser.add_argument("--output", type=pathlib.Path, default="runs/kernels")
    options = parser.parse_args(arguments)
    if options.experiment == "vowels" and not options.data:
        parser.error("--data: give the path of japanesevowels.npz")
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / f"{options.experiment}.csv"
    for seed in SEEDS:
        for kernel in KERNELS:
            if any((r["kernel"], r["seed"]) == (kernel, str(seed)) for r in read_rows(path)):
                continue
            accuracy, nll, seconds = EXPERIMENTS[options.experiment](kernel, seed, options)
            row = dict(
                zip(
                    FIELDS,
                    (kernel, seed, round(accuracy, 5), round(nll, 5), round(seconds, 1)),
                    strict=True,
                )
            )
            append_rows(path, FIELDS, [row])
            print(row, flush=True)
    print(table(read_rows(path)))


if __name__ == "__main__":
    main()
