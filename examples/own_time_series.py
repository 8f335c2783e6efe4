"""Learn from your own time series whose variables are read at different times, from CSV files.

    python examples/own_time_series.py --series series.csv --outcomes outcomes.csv

series.csv has a row for each reading, in any order:

    id,time,variable,value
    p17,0.5,heart_rate,88
    p17,1.2,temperature,37.9

outcomes.csv has the columns id and outcome, for each record a class of any name or a number to be
predicted (--task says which; by default more than ten different numbers are numbers); a record
without readings is allowed. Without files, readings of imaginary patients are made up. The folder
--output receives the model with about.json (variables, scales, classes), predictions.csv
(probabilities of the classes, and how sure the network is of its logits; or the predicted number
with its standard deviation, in the outcomes' unit) and fits.png (what it believes about each
variable of a few records between its readings).

    python examples/own_time_series.py --model runs/own_time_series --series new.csv --output new

predicts for records that have no outcome yet.
"""

import argparse
import csv
import json
import math
from pathlib import Path

import keras
import numpy as np
from matplotlib.figure import Figure

import tfpn
from tfpn import evaluation, training

MOST_SHOWN = 6  # variables in the picture
ABOUT = "about.json"  # what is to be known of a model beside its weights


def read_table(path, columns):
    """The rows of a CSV file with the given columns, as (line number, dict)."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            missing = [name for name in columns if name not in (reader.fieldnames or [])]
            if missing:
                raise SystemExit(
                    f"{path}: found the columns {reader.fieldnames}, {', '.join(missing)} missing; "
                    f"the first line must name {', '.join(columns)}"
                )
            rows = [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError) as error:
        raise SystemExit(f"cannot read {path}: {error}") from error
    if not rows:
        raise SystemExit(f"{path} has no rows")
    for line, row in rows:
        empty = [name for name in columns if not (row[name] or "").strip()]
        if empty:
            raise SystemExit(f"{path}, line {line}: {empty[0]} is empty; fill it or drop the row")
    return rows


def read_series(path, from_start=False):
    """Readings by record: {id: [(time, variable, value), ...]}."""
    records = {}
    for line, row in read_table(path, ("id", "time", "variable", "value")):
        numbers = []
        for name in ("time", "value"):
            try:
                numbers.append(float(row[name]))
            except ValueError:
                numbers.append(math.nan)
            if not math.isfinite(numbers[-1]):
                raise SystemExit(
                    f"{path}, line {line}: {name} is {row[name]!r}; give a number (hours since the "
                    "record's start for a date), and leave out readings that failed"
                )
        records.setdefault(row["id"].strip(), []).append(
            (numbers[0], row["variable"].strip(), numbers[1])
        )
    if from_start:
        for name, rows in records.items():
            start = min(time for time, _, _ in rows)
            records[name] = [(time - start, *rest) for time, *rest in rows]
    distinct = [np.unique([time for time, _, _ in rows]) for rows in records.values()]
    total = sum(map(len, distinct))
    lost = total - sum(len(np.unique(times.astype("float32"))) for times in distinct)
    if lost > 0.01 * total:
        raise SystemExit(
            f"{path}: {lost} of {total} times of one record are the same in float32, which has "
            "seven digits; give --from-start to count each record's times from its own first "
            "reading, or, if all share a clock, subtract an origin from the column time: "
            f"{distinct[0][0]:g}"
        )
    return records


def read_outcomes(path, records):
    """Outcome by record, in the file's order."""
    outcomes = {}
    for line, row in read_table(path, ("id", "outcome")):
        record = row["id"].strip()
        if record in outcomes:
            raise SystemExit(f"{path}, line {line}: a second outcome of {record!r}; keep one")
        outcomes[record] = row["outcome"].strip()
    lost = sorted(set(records) - set(outcomes))
    if lost:
        raise SystemExit(
            f"{path} has no outcome for {len(lost)} records of the series, such as {lost[0]!r}; "
            "add them, or keep these records for predictions with --model"
        )
    if len(set(outcomes.values())) < 2:
        raise SystemExit(f"{path}: all outcomes are {row['outcome']!r}; there is nothing to learn")
    return outcomes


def read_task(outcomes, wanted):
    """Whether to predict classes or numbers: what is wanted, or what the outcomes look like."""
    if wanted == "classification":
        return wanted
    numbers = {name: is_number(outcome) for name, outcome in outcomes.items()}
    if not all(numbers.values()):
        other = next(name for name, number in numbers.items() if not number)
        if wanted or any(numbers.values()):
            raise SystemExit(
                f"the outcome of {other!r} is {outcomes[other]!r}, which is no number: drop it, or "
                "give --task classification if outcomes are names"
            )
        return "classification"
    if wanted:
        return wanted
    count = len({float(outcome) for outcome in outcomes.values()})
    task = "regression" if count > 10 else "classification"
    other = "classification" if count > 10 else "regression"
    print(f"the outcomes are {count} different numbers: {task} (or give --task {other})")
    return task


def is_number(text):
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def make_up(records, task=None, seed=0):
    """Imaginary patients of 48 hours: the ill ones' lactate rises and their pulse is uneven.

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
    """Observations of the records with those ids; several readings of one time are averaged."""
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


def draw_fits(model, x, names, variables, scale, box):
    """The Gaussian process of each variable for a few records, in the variables' units."""
    shown = slice(MOST_SHOWN)
    variables, (mean, std) = variables[shown], (array[shown] for array in scale)
    query = np.linspace(*box, 200, dtype="float32")
    fit = model.input_process(x, query[None, :, None])
    middle = fit.mean().numpy()[:, shown] * std[:, None] + mean[:, None]
    band = 2 * fit.stddev().numpy()[:, shown] * std[:, None]
    figure = Figure(figsize=(4 * len(names), 2 * len(variables)), layout="constrained")
    axes = figure.subplots(len(variables), len(names), squeeze=False, sharex=True, sharey="row")
    for (row, column), panel in np.ndenumerate(axes):
        low, high = (middle + sign * band for sign in (-1, 1))
        panel.fill_between(query, low[column, row], high[column, row], alpha=0.3)
        panel.plot(query, middle[column, row])
        seen = np.isfinite(x["variance"][column, :, row])
        readings = x["values"][column, seen, row] * std[row] + mean[row]
        panel.plot(x["points"][column, seen, 0], readings, "k.")
        panel.set_title(names[column] if row == 0 else "")
        panel.set_ylabel(variables[row] if column == 0 else "")
    for panel in axes[-1]:
        panel.set_xlabel("time")
    figure.suptitle("fit and band of two standard deviations, without the noise of a reading")
    return figure


def build(outputs, variables, box):
    return tfpn.models.PNTimeSeriesClassifier(
        **outputs,
        in_channels=variables,
        channels=16,
        num_blocks=2,
        query=24,  # the network's layers look at 24 times
        missingness="counts",  # and its head at how often each variable was read
        pooling=box,
    )


def train(model, x, y, epochs, loss, metrics=(), **arguments):
    model.adapt(x)
    model.compile(keras.optimizers.Adam(1e-2), loss, metrics=list(metrics))
    batches = training.ShuffledBatches(x, y, 25, seed=0, by_length=True)
    model.fit(batches, shuffle=False, epochs=epochs, verbose=2, **arguments)


def learn_classes(x, outcomes, test, test_outcomes, box, epochs):
    """The model, what it reaches on the test records, and how to read what it gives."""
    classes = sorted({*outcomes, *test_outcomes})
    y = np.array([classes.index(outcome) for outcome in outcomes])
    if len(set(outcomes)) < len(classes):
        raise SystemExit(f"{len(y)} records are too few to train {len(classes)} classes")
    model = build({"num_classes": len(classes)}, x["values"].shape[-1], box)
    # Rare classes count as much as frequent ones.
    weights = {k: len(y) / (len(classes) * np.sum(y == k)) for k in range(len(classes))}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    train(model, x, y, epochs, loss, ["accuracy"], class_weight=weights)

    labels = np.array([classes.index(outcome) for outcome in test_outcomes])
    figures = evaluation.classification_metrics(model.predict_proba(test), labels)
    return model, figures, {"classes": classes}


def predict_classes(model, x, classes):
    """The header and the rows of the predictions."""
    probabilities = model.predict_proba(x)
    spread = model.predict_distribution(x).stddev().numpy()
    header = [f"{what}_{name}" for what in ("probability", "logit_std") for name in classes]
    rows = [
        [classes[row.argmax()], *row, *deviation]
        for row, deviation in zip(probabilities, spread, strict=True)
    ]
    return ["predicted", *header], rows


def learn_numbers(x, outcomes, test, test_outcomes, box, epochs):
    """As `learn_classes`, for numbers."""
    y, test_y = (np.array(numbers, "float64") for numbers in (outcomes, test_outcomes))
    # A fifth of the records is kept from training, to see how far off the predictions are.
    kept = math.ceil(0.2 * len(y))
    fitted, held_out = (
        {key: array[part] for key, array in x.items()} for part in (slice(kept, None), slice(kept))
    )
    middle, unit = y[kept:].mean(), y[kept:].std()
    if not unit > 0:
        raise SystemExit(f"all outcomes of the training records are {middle:g}: nothing to learn")
    scaled = (y - middle) / unit
    model = build({"num_classes": None, "num_outputs": 1}, x["values"].shape[-1], box)
    train(model, fitted, scaled[kept:].astype("float32"), epochs, "mse")
    model.calibrate(held_out, scaled[:kept])

    reading = {"middle": float(middle), "unit": float(unit)}
    mean, deviation = np.transpose(predict_numbers(model, test, **reading)[1])
    figures = {
        "examples": len(test_y),
        **evaluation.gaussian_metrics(test_y - mean, deviation),
        "rmse_of_the_mean": float(np.sqrt(np.mean((test_y - y.mean()) ** 2))),
    }
    return model, figures, reading


def predict_numbers(model, x, middle, unit):
    """As `predict_classes`, in the outcomes' unit."""
    predicted = model.predict_distribution(x)
    mean = predicted.mean().numpy()[:, 0] * unit + middle
    deviation = predicted.stddev().numpy()[:, 0] * unit
    return ["predicted", "std"], np.stack([mean, deviation], axis=-1).tolist()


def standardised(x, mean, std):
    """Observations of values of about 1, in float32."""
    values = np.where(np.isfinite(x["variance"]), (x["values"] - mean) / std, 0.0)
    # Not before: the squares of readings in small or large units are beyond float32.
    return {key: array.astype("float32") for key, array in {**x, "values": values}.items()}


def write_predictions(folder, model, about, x, ids, outcomes):
    """predictions.csv and fits.png, for records with or without outcomes."""
    predict = predict_classes if "classes" in about["reading"] else predict_numbers
    header, rows = predict(model, x, **about["reading"])
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "predictions.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "outcome", *header])
        for name, row in zip(ids, rows, strict=True):
            texts = [entry if isinstance(entry, str) else f"{entry:.6g}" for entry in row]
            writer.writerow([name, outcomes.get(name, ""), *texts])
    shown = {key: array[:3] for key, array in x.items()}
    scale = np.array(about["mean"]), np.array(about["std"])
    figure = draw_fits(model, shown, ids[:3], about["variables"], scale, about["box"])
    figure.savefig(folder / "fits.png", dpi=120)


def predict_new(options):
    """Predictions of a trained model for the records of a file."""
    trained = Path(options.model)
    try:
        about = json.loads((trained / ABOUT).read_text(encoding="utf-8"))
        model = keras.models.load_model(trained / "model.keras")
    except (OSError, ValueError) as error:
        raise SystemExit(
            f"--model {trained}: {error}; give the --output of a training run"
        ) from error
    records = read_series(options.series, about["from_start"])
    unknown = {variable for rows in records.values() for _, variable, _ in rows}
    unknown -= set(about["variables"])
    if unknown:
        raise SystemExit(
            f"{options.series} has readings of {sorted(unknown)[0]!r}, which the model does not "
            f"know; it knows {', '.join(about['variables'])}: drop the others' rows"
        )
    ids = sorted(records)
    x = standardised(arrays(records, ids, about["variables"]), about["mean"], about["std"])
    times = x["points"][np.isfinite(x["variance"]).any(-1)]
    start, end = about["box"]
    outside = np.mean((times < start) | (times > end))
    if outside:
        print(f"{outside:.1%} of the times lie outside {start:g} to {end:g}, where the model looks")
    write_predictions(Path(options.output), model, about, x, ids, {})
    print(f"wrote predictions.csv and fits.png to {options.output}")


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
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--records", type=int, default=300, help="to make up, without files")
    options = parser.parse_args(arguments)
    if options.model:
        if not options.series or options.outcomes:
            raise SystemExit("--model predicts: give --series besides, and no --outcomes")
        return predict_new(options)
    if (options.series is None) != (options.outcomes is None):
        raise SystemExit("give --series and --outcomes, or neither")
    if options.box and not -math.inf < options.box[0] < options.box[1] < math.inf:
        raise SystemExit(f"--box is {options.box}; give START before END")
    if options.series:
        records = read_series(options.series, options.from_start)
        outcomes = read_outcomes(options.outcomes, records)
    else:
        records, outcomes = make_up(options.records, options.task)

    # Records in random order: three quarters to train on, the rest to test.
    keras.utils.set_random_seed(0)
    ids = np.random.default_rng(0).permutation(list(outcomes)).tolist()
    cut = math.ceil(0.75 * len(ids))
    task = read_task(outcomes, options.task)
    if cut == len(ids):
        raise SystemExit(f"{len(ids)} records are too few to train and test")
    variables = sorted({variable for rows in records.values() for _, variable, _ in rows})
    x, test = (arrays(records, part, variables) for part in (ids[:cut], ids[cut:]))
    unread = ~np.isfinite(x["variance"]).any((0, 1))
    if unread.any():
        raise SystemExit(f"{variables[np.argmax(unread)]!r} is not read in the training records")
    mean, std = scales(x)
    x, test = (standardised(part, mean, std) for part in (x, test))
    times = x["points"][np.isfinite(x["variance"]).any(-1)]
    box = options.box or (float(times.min()), float(times.max()))

    lengths = [np.ptp([time for time, _, _ in rows]) for rows in records.values() if len(rows) > 1]
    if lengths and np.median(lengths) < 0.1 * (box[1] - box[0]):
        print(
            f"the stretch of time is {box[1] - box[0]:g} long, a typical record "
            f"{np.median(lengths):g}: if records share no clock, give --from-start"
        )

    learn = {"classification": learn_classes, "regression": learn_numbers}[task]
    known = [outcomes[name] for name in ids]
    model, figures, reading = learn(x, known[:cut], test, known[cut:], box, options.epochs)
    print({key: round(value, 3) for key, value in figures.items()})

    folder = Path(options.output)
    about = {
        "variables": variables,
        "mean": mean.tolist(),
        "std": std.tolist(),
        "box": list(box),
        "from_start": options.from_start,
        "reading": reading,
    }
    write_predictions(folder, model, about, test, ids[cut:], outcomes)
    model.save(folder / "model.keras")
    (folder / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    print(f"wrote model.keras, {ABOUT}, predictions.csv and fits.png to {folder}")
    return figures


if __name__ == "__main__":
    main()
