"""Are the bands of a time-series model's fits right, and does its regression know what it lacks?

    python -m benchmarks.time_series_bands.run
    python -m benchmarks.time_series_bands.run --data-dir data

Fits: a fifth of the readings is left out of records that the model was not trained on, and
predicted by the Gaussian processes that the first convolution fits to the rest
(`PNTimeSeries.input_process`), its noise added. A residual divided by its standard
deviation should have the root mean square 1 and exceed 2 in 5 % of all cases.

Regression: errors and predicted standard deviations where readings are left out of the records.

With --data-dir the fits of a reference model on the first records of PhysioNet 2012's validation
part; without it, fits and regression of a network trained on 225 of the records that
`examples/own_time_series.py` makes up, for 300 others. With --head normal the network predicts
means and variances and trains by their likelihood. Prints a line of JSON for each row, and adds the
rows to bands.csv and regression.csv in --output.
"""

import argparse
import collections
import itertools
import json
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
from matplotlib.figure import Figure

import tfpn
from benchmarks.physionet_parts import first
from benchmarks.tables import append_rows, read_rows
from tfpn import recipes, training
from tfpn.training.batches import cut, lengths

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import own_time_series

# By the places of lactate, pulse and temperature.
LACKING = {"all": [], "without the pulse": [1], "without lactate": [0], "none at all": [0, 1, 2]}
# Of the marginal likelihood in the loss; the first one is the models' default.
WEIGHTS = (0.1, 5e-5, 1.0)
RECORDS, TRAINING = 1200, 225  # made up, a quarter of them to test on; and used for training
BATCH = 20  # records of one padded length
COVERAGE = ("left_out", "outside_2_std", "root_mean_square", "median_of_squares")
SETTINGS = ("uncertainty", "head", "thinned", "epochs", "seed")
BANDS = ("model", *SETTINGS, "weight", *COVERAGE)
REGRESSION = (*SETTINGS, "readings", "root_mean_square_error", "root_mean_variance", "mean_std")


def residuals(model, x, share=0.2, seed=0):
    """Residuals of left-out readings divided by their standard deviations, a list by channel."""
    seen = np.isfinite(x["variance"])
    left_out = seen & (np.random.default_rng(seed).uniform(size=seen.shape) < share)
    kept = {**x, "variance": np.where(left_out, np.inf, x["variance"]).astype("float32")}
    noise = np.exp(2.0 * np.asarray(model.get_layer("conv_1").log_observation_noise))
    result = [[] for _ in range(seen.shape[-1])]
    for start in range(0, len(seen), BATCH):
        rows = slice(start, start + BATCH)
        longest = max(1, lengths(x["variance"][rows]).max())
        some = cut({key: array[rows] for key, array in kept.items()}, longest)
        fit = model.input_process(some, some["points"])
        deviation = np.sqrt(fit.variance() + noise[:, None])
        ratio = np.swapaxes((some["values"].swapaxes(1, 2) - fit.mean()) / deviation, 1, 2)
        for channel, ratios in enumerate(result):
            ratios += ratio[..., channel][left_out[rows, :longest, channel]].tolist()
    return result


def coverage(by_channel):
    """What there is to say of residuals divided by their standard deviations."""
    ratio = np.concatenate(by_channel)
    return {
        "left_out": len(ratio),
        "outside_2_std": round(float(np.mean(np.abs(ratio) > 2.0)), 4),
        "root_mean_square": round(float(np.sqrt(np.mean(np.square(ratio)))), 3),
        "median_of_squares": round(float(np.median(np.square(ratio))), 3),
    }


def made_up():
    """Standardised observations and outcomes of made-up records: for training and for testing."""
    parts = own_time_series.prepare(*own_time_series.make_up(RECORDS, "regression"))[:2]
    found = []
    for part, limit in zip(parts, (TRAINING, None), strict=True):
        x = {key: array[:limit] for key, array in part.x.items()}
        found.append((x, np.array([float(outcome) for outcome in part.outcomes[:limit]])))
    return found


def fitted(x, y, weight, options, seed=0):
    """A network of days in hospital, calibrated on a fifth; y has been standardised."""
    keras.utils.set_random_seed(seed)
    model = tfpn.models.PNTimeSeries(
        num_classes=None, num_outputs=1, in_channels=x["values"].shape[-1], channels=16,
        num_blocks=2, query=24, missingness="counts", pooling=(0, 48),
        marginal_likelihood_weight=weight, uncertainty=options.uncertainty,
        output=options.head,
    )  # fmt: skip
    kept = len(y) // 5
    held = {key: array[:kept] for key, array in x.items()}
    held_y, thinning = y[:kept], {}
    if options.thinned:
        thinning = {"thin": own_time_series.KEEP, "drop_channels": own_time_series.DROPPED}
        held, held_y = own_time_series.in_parts(held, held_y)
    rest = {key: array[kept:] for key, array in x.items()}
    model.adapt(rest)
    labels = y[kept:].astype("float32")
    batches = training.ShuffledBatches(rest, labels, 25, seed, by_length=True, **thinning)
    rate: Any = 1e-2
    if options.cosine:
        rate = keras.optimizers.schedules.CosineDecay(rate, options.epochs * len(batches))
    loss = tfpn.losses.GaussianNLL() if options.head == "normal" else "mse"
    model.compile(keras.optimizers.Adam(rate), loss)
    anew = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, _: batches.set_epoch(epoch))
    callbacks = [anew] if thinning else []
    model.fit(batches, shuffle=False, epochs=options.epochs, callbacks=callbacks, verbose=0)
    model.calibrate(held, held_y)
    return model


def without(x, channels):
    """The observations with nothing read of some channels."""
    variance = x["variance"].copy()
    variance[..., channels] = np.inf
    return {**x, "variance": variance}


def report_made_up(options):
    """Coverage by the weight of the marginal likelihood, and the errors at the first weight."""
    (x, y), (test, test_y) = made_up()
    middle, unit = y.mean(), y.std()
    for weight, seed in itertools.product(options.weights, options.seeds):
        model = fitted(x, (y - middle) / unit, weight, options, seed)
        settings = {key: getattr(options, key) for key in SETTINGS[:-1]} | {"seed": seed}
        found = coverage(residuals(model, test))
        save(options, "bands", {"model": "made up", **settings, "weight": weight, **found})
        if weight != options.weights[0]:
            continue
        for name, channels in LACKING.items():
            predicted = model.predict_distribution(without(test, channels))
            deviation = predicted.stddev().numpy() * unit
            error = predicted.mean().numpy()[:, 0] * unit + middle - test_y
            row = {
                "readings": name,
                "root_mean_square_error": round(float(np.sqrt(np.mean(np.square(error)))), 3),
                # A mean square of errors is a mean of variances where the deviations are right.
                "root_mean_variance": round(float(np.sqrt(np.mean(np.square(deviation)))), 3),
                "mean_std": round(float(np.mean(deviation)), 3),
            }
            save(options, "regression", {**settings, **row})


def save(options, table, row):
    """Prints a row and adds it to a table."""
    print(json.dumps(row), flush=True)
    fields = {"bands": BANDS, "regression": REGRESSION}[table]
    append_rows(options.output / f"{table}.csv", fields, [row])


def draw(rows, path):
    """Predicted standard deviations over errors, a line for each model, as means over seeds."""
    figure = Figure(figsize=(5, 4), layout="constrained")
    axis = figure.subplots()
    models = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        parts = "parts" if row["thinned"] == "True" else "whole records"
        name = f"{row['uncertainty']}, {row['head']}, {parts}, {row['epochs']} epochs"
        point = float(row["root_mean_square_error"]), float(row["root_mean_variance"])
        models[name][row["readings"]].append(point)
    for (name, found), marker in zip(models.items(), itertools.cycle("osD^v")):
        points = np.array([np.mean(by_seed, axis=0) for by_seed in found.values()])
        axis.plot(*points.T, marker, label=name)
    line = np.array([0.0, axis.get_xlim()[1]])
    axis.plot(line, line, "k-")
    axis.fill_between(line, 0.8 * line, 1.2 * line, alpha=0.15, label="within 20 %")
    axis.set(xlabel="error (days)", ylabel="predicted standard deviation (days)")
    axis.legend(fontsize=7)
    figure.savefig(path, dpi=120)


def report_physionet(options):
    """Coverage of a reference model's fits."""
    model, recipe = training.load_run(options.model)
    recipes.override(recipe, f"data.data_dir={json.dumps(options.data_dir)}")
    part = first(recipes.load_data(recipe).validation, options.records)
    found = coverage(residuals(model, recipes.model_inputs(model, part)))
    save(options, "bands", {"model": Path(options.model).name, **found})


def main(arguments=None):
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="as for tfpn.datasets.physionet2012")
    parser.add_argument("--model", default="models/physionet2012-tuned", metavar="FOLDER")
    parser.add_argument("--records", type=int, default=300, help="of the validation part")
    parser.add_argument("--weights", type=float, nargs="+", default=WEIGHTS)
    parser.add_argument("--uncertainty", default="diagonal", help="of the made-up records' network")
    parser.add_argument("--head", default="pooled", choices=("pooled", "normal"), help="its output")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], metavar="SEED")
    parser.add_argument("--cosine", action="store_true", help="let its learning rate decay to 0")
    parser.add_argument("--thinned", action="store_true", help="train and calibrate it on parts")
    parser.add_argument("--epochs", type=int, default=12, help="on the made-up records")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent, metavar="FOLDER")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    if options.data_dir:
        report_physionet(options)
    else:
        report_made_up(options)
        draw(read_rows(options.output / "regression.csv"), options.output / "regression.png")


if __name__ == "__main__":
    main()
