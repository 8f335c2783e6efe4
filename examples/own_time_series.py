"""Learn from your own time series whose variables are read at different times, from CSV files.

    python examples/own_time_series.py --series series.csv --outcomes outcomes.csv

series.csv has a row for each reading, in any order:

    id,time,variable,value
    p17,0.5,heart_rate,88
    p17,1.2,temperature,37.9

outcomes.csv has the columns id and outcome. An outcome is the name of a class, or a number to
predict. --task says which; by default more than ten different numbers are numbers. A record need
not have readings. Without files, the script makes up readings of imaginary patients.

The folder --output receives

- the model with about.json (variables, scales, classes);
- predictions.csv for the test records: probabilities of the classes and standard deviations of the
  logits, or predicted numbers with their standard deviations in the outcomes' unit;
- fits.png: each variable of a few records between its readings, as the model sees it.

To predict for records that have no outcome yet, run

    python examples/own_time_series.py --model runs/own_time_series --series new.csv --output new

In your own program call `prepare`, and `fit_numbers` or `fit_classes`. Then call `inputs` and
`predict_numbers` (or `predict_classes`) for any records.
"""

import argparse
import csv
import io
import json
import math
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import time_series_fits
import time_series_tables as tables

import tfpn
from tfpn import augmentation, evaluation, files, training

ABOUT = "about.json"  # variables, scales and classes of a model
EPOCHS = {"classification": 12, "regression": 60}
# A model of numbers trains and is calibrated on parts of the records, so that it knows what a
# record lacks: a tenth of the readings to all, and 0.3 of the variables not read at all.
KEEP, DROPPED = (0.1, 1.0), 0.3
COPIES = 4  # of a record, to calibrate on


class Part(NamedTuple):
    """Records to train on, or to test with."""

    ids: list
    x: dict
    outcomes: list


def make_up(records, task=None, seed=0):
    """Makes up 48 hours of patients: if they are ill, lactate rises and the pulse is uneven.

    The outcome is whether they are ill, or for regression how many days they stay.
    """
    rng = np.random.default_rng(seed)
    series, outcomes = {}, {}
    for index in range(records):
        ill = rng.uniform() < 0.4
        name = f"p{index:03d}"
        rise = ill + rng.normal()
        days = max(0.5, 6 + 3 * rise + rng.normal())
        outcomes[name] = f"{days:.1f}" if task == "regression" else ("ill" if ill else "well")
        rows = []
        for variable, count in (("pulse", 20), ("temperature", 8), ("lactate", 3)):
            times = rng.uniform(0, 48, size=1 + rng.poisson(count))
            phase = rng.uniform(0, 2 * np.pi)
            signal = {
                "pulse": 85 + (6 + 2 * ill) * np.sin(times / 4 + phase),
                "temperature": 37 + 0.4 * np.sin(times / 8 + phase),
                "lactate": 1.5 + rng.normal() * 0.3 + rise * times / 48,
            }[variable]
            noise = {"pulse": 2.0, "temperature": 0.1, "lactate": 0.2}[variable]
            signal = signal + noise * rng.normal(size=times.shape)
            rows += zip(times.round(2), [variable] * len(times), signal.round(2), strict=True)
        series[name] = rows
    return series, outcomes


def arrays(records, ids, variables):
    """Observations of the records with these ids; several readings at one time are averaged."""
    times, values = [], []
    for name in ids:
        rows = records.get(name, [])
        distinct, place = np.unique([time for time, _, _ in rows], return_inverse=True)
        total, count = np.zeros((2, len(distinct), len(variables)))
        for index, (_, variable, value) in zip(place, rows, strict=True):
            total[index, variables.index(variable)] += value
            count[index, variables.index(variable)] += 1
        with np.errstate(invalid="ignore"):
            values.append(total / count)  # NaN: not read
        times.append(distinct[:, None])
    return tfpn.observations(times, values)


def scales(x):
    """Mean and standard deviation of each variable's readings."""
    seen = np.isfinite(x["variance"])
    mean = np.array([x["values"][..., c][seen[..., c]].mean() for c in range(seen.shape[-1])])
    std = np.array([x["values"][..., c][seen[..., c]].std() for c in range(seen.shape[-1])])
    return mean, np.where(std > 0, std, 1.0)


def inputs(records, ids, about):
    """The model's input: observations of these records, scaled to values of about 1, in float32."""
    x = arrays(records, ids, about["variables"])
    values = (x["values"] - about["mean"]) / about["std"]
    values = np.where(np.isfinite(x["variance"]), values, 0.0)
    # The conversion comes last: float32 cannot hold squares of readings in small or large units.
    return {key: array.astype("float32") for key, array in {**x, "values": values}.items()}


def prepare(records, outcomes, box=None):
    """Splits the records: three quarters to train on, the rest to test, and a dict for `inputs`.

    The dict holds the variables, their scales and the box, which is the stretch of time to look at.
    The default box runs from the first to the last reading of the training records.
    """
    ids = np.random.default_rng(0).permutation(list(outcomes)).tolist()
    cut = math.ceil(0.75 * len(ids))
    if cut == len(ids):
        raise SystemExit(f"{len(ids)} records are too few to train and test; add some")
    variables = sorted({variable for rows in records.values() for _, variable, _ in rows})
    x = arrays(records, ids[:cut], variables)
    seen = np.isfinite(x["variance"])
    unread = ~seen.any((0, 1))
    if unread.any():
        raise SystemExit(
            f"{variables[np.argmax(unread)]!r} is not read in the training records; drop its rows, "
            "or add records with it"
        )
    mean, std = (array.tolist() for array in scales(x))
    times = x["points"][seen.any(-1)].astype("float32")
    box = list(box or (float(times.min()), float(times.max())))
    about = {"variables": variables, "mean": mean, "std": std, "box": box}
    train, test = (
        Part(part, inputs(records, part, about), [outcomes[name] for name in part])
        for part in (ids[:cut], ids[cut:])
    )
    return train, test, about


def in_parts(x, y):
    """Copies of the records, each with another part of its readings, and their outcomes."""
    generators = map(np.random.default_rng, range(COPIES))
    copies = [augmentation.thin(x, KEEP, rng, drop_channels=DROPPED) for rng in generators]
    return {key: np.concatenate([copy[key] for copy in copies]) for key in x}, np.tile(y, COPIES)


def build(outputs, variables, box):
    return tfpn.models.PNTimeSeries(
        **outputs,
        in_channels=variables,
        channels=16,
        num_blocks=2,
        query=24,  # the network's layers look at 24 times
        missingness="counts",  # the head knows how often each variable was read
        pooling=box,
    )


def train(model, x, y, epochs, loss, metrics=(), targets=None, parts=False, **arguments):
    model.adapt(x, targets)  # also takes the numbers' mean and spread, so outputs have their unit
    thinning = {"thin": KEEP, "drop_channels": DROPPED} if parts else {}
    batches = training.ShuffledBatches(x, y, 25, seed=0, by_length=True, **thinning)
    rate = keras.optimizers.schedules.CosineDecay(1e-2, epochs * len(batches))
    model.compile(keras.optimizers.Adam(rate), loss, metrics=list(metrics))
    anew = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, _: batches.set_epoch(epoch))
    model.fit(batches, shuffle=False, epochs=epochs, verbose=2, callbacks=[anew], **arguments)


def fit_classes(part, classes, box, epochs):
    """Builds and trains a classifier."""
    lacking = sorted(set(classes) - set(part.outcomes))
    if lacking:
        raise SystemExit(
            f"{len(part.ids)} records are too few to train {len(classes)} classes: none is "
            f"{lacking[0]!r}; add records, or give --task regression for numbers"
        )
    y = np.array([classes.index(outcome) for outcome in part.outcomes])
    model = build({"num_classes": len(classes)}, part.x["values"].shape[-1], box)
    # Rare classes count as much as frequent ones.
    weights = {k: len(y) / (len(classes) * np.sum(y == k)) for k in range(len(classes))}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    train(model, part.x, y, epochs, loss, ["accuracy"], class_weight=weights)
    return model


def predict_classes(model, x):
    """Probabilities of the classes, and standard deviations of their logits."""
    return model.predict_proba(x), model.predict_distribution(x).stddev().numpy()


def fit_numbers(part, box, epochs):
    """Builds, trains and calibrates a regressor."""
    y = np.array(part.outcomes, "float64")
    # A fifth of the records is held out, to measure the errors of the predictions.
    kept = math.ceil(0.2 * len(y))
    fitted, held_out = (
        {key: array[some] for key, array in part.x.items()}
        for some in (slice(kept, None), slice(kept))
    )
    if not y[kept:].std() > 0:
        raise SystemExit(f"all outcomes of the training records are {y[-1]:g}: nothing to learn")
    outputs = {"num_classes": None, "num_outputs": 1, "output": "normal"}  # means and variances
    model = build(outputs, part.x["values"].shape[-1], box)
    labels, loss = y[kept:].astype("float32"), tfpn.losses.GaussianNLL()
    train(model, fitted, labels, epochs, loss, targets=y[kept:], parts=True)
    model.calibrate(*in_parts(held_out, y[:kept]))
    return model


def predict_numbers(model, x):
    """The predicted numbers and their standard deviations, in the outcomes' unit."""
    predicted = model.predict_distribution(x)
    mean, deviation = predicted.mean().numpy(), predicted.stddev().numpy()
    return mean[:, 0], deviation[:, 0]


def measure_classes(model, test, classes):
    """Measures the model on the test records."""
    labels = np.array([classes.index(outcome) for outcome in test.outcomes])
    return evaluation.classification_metrics(predict_classes(model, test.x)[0], labels)


def measure_numbers(model, part, test):
    """Measures the model on the test records, beside the mean of the training records."""
    y, known = (np.array(some.outcomes, "float64") for some in (test, part))
    mean, deviation = predict_numbers(model, test.x)
    return {
        "examples": len(y),
        **evaluation.gaussian_metrics(y - mean, deviation),
        "rmse_of_the_mean": float(np.sqrt(np.mean((y - known.mean()) ** 2))),
    }


def predictions(model, x, about):
    """The header and the rows of predictions.csv, without ids and outcomes."""
    if about["task"] == "regression":
        columns = predict_numbers(model, x)
        return ["predicted", "std"], np.stack(columns, axis=-1).tolist()
    classes = about["classes"]
    header = [f"{what}_{name}" for what in ("probability", "logit_std") for name in classes]
    rows = [
        [classes[row.argmax()], *row, *deviation]
        for row, deviation in zip(*predict_classes(model, x), strict=True)
    ]
    return ["predicted", *header], rows


def write_predictions(folder, model, about, x, ids, outcomes):
    """Writes predictions.csv and fits.png for records with or without outcomes."""
    header, rows = predictions(model, x, about)
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(["id", "outcome", *header])
    for name, outcome, row in zip(ids, outcomes, rows, strict=True):
        texts = [entry if isinstance(entry, str) else f"{entry:.6g}" for entry in row]
        writer.writerow([name, outcome, *texts])
    files.write(folder / "predictions.csv", file.getvalue())
    shown = {key: array[:3] for key, array in x.items()}
    scale = np.array(about["mean"]), np.array(about["std"])
    figure = time_series_fits.draw(model, shown, ids[:3], about["variables"], scale, about["box"])
    tfpn.figures.save(figure, folder / "fits.png")


def predict_new(options):
    """Predicts with a trained model for the records of a file."""
    if not options.series or options.outcomes:
        raise SystemExit("--model predicts: give --series besides, and no --outcomes")
    for name in ("task", "box", "from_start"):
        if getattr(options, name):
            option = "--" + name.replace("_", "-")
            raise SystemExit(f"--model predicts as it was trained: leave out {option}")
    trained = Path(options.model)
    if Path(options.output).resolve() == trained.resolve():
        raise SystemExit(
            f"--output is {options.output}, which has the predictions of the training's test "
            "records; give another folder"
        )
    try:
        about = json.loads((trained / ABOUT).read_text(encoding="utf-8"))
        model = keras.models.load_model(trained / "model.keras")
    except (OSError, ValueError) as error:
        message = f"--model {trained}: {error}; give the --output of a training run"
        raise SystemExit(message) from error
    records = tables.read_series(options.series, about["from_start"])
    tables.check_times(options.series, records, "count times as in the series of the training")
    known = set(about["variables"])
    found = {variable for rows in records.values() for _, variable, _ in rows}
    if found - known:
        raise SystemExit(
            f"{options.series} has readings of {', '.join(map(repr, sorted(found - known)))}; the "
            f"model knows {', '.join(sorted(known))}: drop the others' rows, or train with them"
        )
    if known - found:
        print(f"{options.series} has no readings of {', '.join(sorted(known - found))}")
    tables.report_outside(records, about["box"])
    ids = sorted(records)
    folder = tables.make_folder(options.output, [options.series, options.outcomes])
    write_predictions(folder, model, about, inputs(records, ids, about), ids, [""] * len(ids))
    print(f"wrote predictions.csv and fits.png to {folder}")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--series", metavar="CSV", help="columns id, time, variable, value")
    parser.add_argument("--outcomes", metavar="CSV", help="columns id, outcome")
    parser.add_argument(
        "--model", metavar="FOLDER", help="predict with the model of this --output of a training"
    )
    parser.add_argument("--task", choices=("classification", "regression"))
    parser.add_argument(
        "--box", type=float, nargs=2, metavar=("START", "END"),
        help="the stretch of time to look at, by default from the first reading to the last",
    )  # fmt: skip
    parser.add_argument(
        "--from-start", action="store_true",
        help="count each record's times from its first reading, where records share no clock",
    )  # fmt: skip
    parser.add_argument("--output", default="runs/own_time_series", metavar="FOLDER")
    parser.add_argument("--epochs", type=int, help="12 for classes and 60 for numbers by default")
    parser.add_argument("--records", type=int, default=300, help="to make up, without files")
    options = parser.parse_args(arguments)
    if options.model:
        return predict_new(options)
    if (options.series is None) != (options.outcomes is None):
        raise SystemExit("give --series and --outcomes, or neither")
    if options.box and not -math.inf < options.box[0] < options.box[1] < math.inf:
        start, end = options.box
        raise SystemExit(f"--box is {start:g} {end:g}; give START before END, both finite")
    if options.series:
        records = tables.read_series(options.series, options.from_start)
        origin = min(row[0] for rows in records.values() for row in rows)
        advice = (
            "--from-start counts each record's times from its own first reading; or subtract an "
            f"origin from the column time if all share a clock, such as {origin:.0f}"
        )
        if options.from_start:
            advice = "leave out readings long after a record's first one, or round the times"
        tables.check_times(options.series, records, advice)
        outcomes = tables.read_outcomes(options.outcomes, records)
    else:
        records, outcomes = make_up(options.records, options.task)
    task = tables.read_task(outcomes, options.task)
    epochs = EPOCHS[task] if options.epochs is None else options.epochs
    part, test, about = prepare(records, outcomes, options.box)
    about |= {"task": task, "from_start": options.from_start}
    tables.report_times(records, about["box"], options.from_start)
    tables.report_outside(records, about["box"])
    folder = tables.make_folder(options.output, [options.series, options.outcomes])

    keras.utils.set_random_seed(0)
    if task == "classification":
        classes = sorted(set(outcomes.values()))
        model = fit_classes(part, classes, about["box"], epochs)
        about |= {"classes": classes}
        figures = measure_classes(model, test, classes)
    else:
        model = fit_numbers(part, about["box"], epochs)
        figures = measure_numbers(model, part, test)
    print({key: round(value, 3) for key, value in figures.items()})

    model.save(folder / "model.keras")
    files.write(folder / ABOUT, json.dumps(about, indent=2) + "\n")
    write_predictions(folder, model, about, test.x, test.ids, test.outcomes)
    print(f"wrote model.keras, {ABOUT}, predictions.csv and fits.png to {folder}")
    return figures


if __name__ == "__main__":
    try:
        main()
    except OSError as error:  # such as a full disk
        raise SystemExit(f"error: {error}") from error
