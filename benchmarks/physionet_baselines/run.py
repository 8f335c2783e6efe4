"""What simpler models make of PhysioNet 2012: same parts, same cleaning, same figures.

    python -m benchmarks.physionet_baselines.run --data-dir data
    python -m benchmarks.physionet_baselines.run --data-dir data --models gru gru-binned \\
        --seeds 0 1 2

- `logistic`, `boosting`: logistic regression and gradient boosting (scikit-learn's
  HistGradientBoostingClassifier) on summaries of each series: number of readings, mean, standard
  deviation, least, largest, first and last reading, time of the last one, slope; and the statics.
- `gru`: a recurrent network in the manner of GRU-D (Che et al., Recurrent Neural Networks for
  Multivariate Time Series with Missing Values, 2018), written from the paper: an unread value
  decays from the last reading to 0, the mean of what is normalised, and the state between the
  times, both at learnt rates. It reads each record at the record's own times.
- `gru-binned`: the same network on the means of each hour.

Settings are chosen by the validation part's AUROC, for the first two among those of `GRIDS`, for
the GRUs the epoch, of which the file has the number that was trained. Writes a row for each model
and seed to a CSV file, and prints it as JSON.
"""

import argparse
import itertools
import json
import time
from pathlib import Path

import numpy as np

from benchmarks.physionet_parts import binned, first
from benchmarks.tables import append_rows, read_rows
from tfpn import datasets, evaluation

COLUMNS = (
    "model", "seed", "settings", "validation_auroc", "validation_average_precision", "test_auroc",
    "test_average_precision", "test_nll", "seconds",
)  # fmt: skip
GRIDS = {
    "logistic": {"C": [0.001, 0.003, 0.01, 0.03, 0.1]},
    "boosting": {"learning_rate": [0.03, 0.06], "max_leaf_nodes": [8, 16], "max_iter": [200, 400]},
}

RECURRENT = ("gru", "gru-binned")
HOURS = 48  # of a stay


def summaries(part):
    """Summaries of each series and the statics, NaN where there is none, [B, 9 c + S]."""
    times, values = part.x["points"].astype(np.float64), part.x["values"].astype(np.float64)
    seen = np.isfinite(part.x["variance"])
    count = seen.sum(1)
    some = np.maximum(count, 1)

    def mean(quantity):
        return np.where(seen, quantity, 0.0).sum(1) / some

    average, when = mean(values), mean(np.broadcast_to(times, values.shape))
    offset, delay = values - average[:, None], times - when[:, None]
    spread = mean(np.square(offset))
    covariance, duration = mean(offset * delay), mean(np.square(delay))
    slope = np.divide(covariance, duration, out=np.zeros_like(duration), where=duration > 0)
    first = np.argmax(seen, axis=1)[:, None]
    last = seen.shape[1] - 1 - np.argmax(seen[:, ::-1], axis=1)[:, None]
    of_readings = [
        average,
        np.sqrt(spread),
        np.where(seen, values, np.inf).min(1),
        np.where(seen, values, -np.inf).max(1),
        np.take_along_axis(values, first, axis=1)[:, 0],
        np.take_along_axis(values, last, axis=1)[:, 0],
        np.take_along_axis(np.broadcast_to(times, values.shape), last, axis=1)[:, 0],
        slope,
    ]
    features = [np.log1p(count), *(np.where(count > 0, array, np.nan) for array in of_readings)]
    known = np.isfinite(part.statics_variance)
    return np.concatenate([*features, np.where(known, part.statics, np.nan)], axis=-1)


def fit_table(name, parts, seed):
    """The best of a grid on the summaries: its settings, and probabilities by part."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    tables = {key: summaries(part) for key, part in parts.items()}
    grid = GRIDS[name]
    best = None
    for values in itertools.product(*grid.values()):
        settings = dict(zip(grid, values, strict=True))
        if name == "logistic":
            # A series that was never read: its means, and an indicator.
            model = make_pipeline(
                SimpleImputer(add_indicator=True),
                StandardScaler(),
                LogisticRegression(max_iter=2000, **settings),
            )
        else:
            model = HistGradientBoostingClassifier(
                random_state=seed, l2_regularization=1.0, min_samples_leaf=40, max_features=0.3,
                **settings,
            )  # fmt: skip
        model.fit(tables["train"], parts["train"].y)
        found = {key: model.predict_proba(tables[key]) for key in ("validation", "test")}
        score = evaluation.classification_metrics(found["validation"], parts["validation"].y)
        if best is None or score["auroc"] > best[0]:
            best = score["auroc"], settings, found
    return best[1:]


def sequences(part):
    """What the recurrent network takes: values, last readings, masks, time gaps, statics."""
    seen = np.isfinite(part.x["variance"])
    values, times = part.x["values"], part.x["points"][..., 0]
    last = np.zeros_like(values)
    gaps = np.zeros_like(values)
    since = np.zeros_like(values[:, 0])
    latest = np.zeros_like(values[:, 0])
    for step in range(values.shape[1]):
        if step:
            since += (times[:, step] - times[:, step - 1])[:, None]
            # A gap runs from the last reading, or from admission.
            since *= ~seen[:, step - 1]
            since += np.where(seen[:, step - 1], (times[:, step] - times[:, step - 1])[:, None], 0)
        else:
            since += times[:, :1]
        gaps[:, step], last[:, step] = since, latest
        latest = np.where(seen[:, step], values[:, step], latest)
    gaps[~seen.any(-1)] = 0.0
    known = np.isfinite(part.statics_variance)
    return {
        "variance": part.x["variance"],  # for the lengths
        "points": part.x["points"],
        "values": np.concatenate([values, last, seen, gaps], axis=-1).astype(np.float32),
        "statics": np.concatenate([part.statics, known], axis=-1).astype(np.float32),
    }


def recurrent_network(channels, statics, units, dropout):
    """GRU with decay; the input is that of `sequences`."""
    import keras
    import tensorflow as tf

    class DecayCell(keras.layers.Layer):
        state_size = units

        def build(self, shape):
            self.cell = keras.layers.GRUCell(units)
            self.cell.build((None, 2 * channels))
            self.input_rate = self.add_weight(shape=(channels,), initializer="zeros")
            self.state_rate = keras.layers.Dense(units)
            self.state_rate.build((None, channels))

        def call(self, inputs, states):
            values, last, seen, gaps = tf.split(inputs, 4, axis=-1)
            # Rates in units of the 48 hours: exp(0) = 1 a stay at the start.
            decay = tf.exp(-tf.exp(self.input_rate) * gaps)
            values = seen * values + (1.0 - seen) * decay * last
            state = states[0] * tf.exp(-tf.nn.relu(self.state_rate(gaps)))
            return self.cell(tf.concat([values, seen], -1), [state])

    inputs = {
        "points": keras.Input((None, 1), name="points"),
        "values": keras.Input((None, 4 * channels), name="values"),
        "variance": keras.Input((None, channels), name="variance"),
        "statics": keras.Input((statics,), name="statics"),
    }
    observed = keras.ops.any(keras.ops.isfinite(inputs["variance"]), axis=-1)
    state = keras.layers.RNN(DecayCell())(inputs["values"], mask=observed)
    state = keras.layers.Dropout(dropout)(keras.ops.concatenate([state, inputs["statics"]], -1))
    return keras.Model(inputs, keras.layers.Dense(2)(state))


def fit_gru(name, parts, seed, options):
    """A recurrent network at its best epoch: settings, and probabilities by part."""
    import keras
    import scipy.special

    from tfpn.metrics import BinaryAUC
    from tfpn.training import CutBatches, ShuffledBatches

    keras.utils.set_random_seed(seed)
    if name == "gru-binned":
        parts = {key: binned(part, HOURS) for key, part in parts.items()}
    given = {key: sequences(part) for key, part in parts.items()}
    train = ShuffledBatches(given["train"], parts["train"].y, 50, seed, by_length=True)
    held_out = {key: CutBatches(given[key], parts[key].y, 200) for key in ("validation", "test")}
    channels = parts["train"].x["values"].shape[-1]
    model = recurrent_network(channels, given["train"]["statics"].shape[-1], options.units, 0.3)
    model.compile(
        keras.optimizers.Adam(1e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[BinaryAUC(name="auroc")],
    )
    stopping = keras.callbacks.EarlyStopping(
        "val_auroc", mode="max", patience=4, restore_best_weights=True
    )
    order = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, _: train.set_epoch(epoch))
    history = model.fit(
        train, shuffle=False, epochs=options.epochs, validation_data=held_out["validation"],
        callbacks=[order, stopping], verbose=2,
    )  # fmt: skip
    found = {}
    for key, batches in held_out.items():
        found[key] = np.zeros((len(parts[key]), 2))
        found[key][batches.order] = scipy.special.softmax(model.predict(batches, verbose=0), -1)
    return {"units": options.units, "epochs": len(history.history["loss"])}, found


def main(arguments=None):
    """Fits the models and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="as for tfpn.datasets.physionet2012")
    parser.add_argument(
        "--models", nargs="+", choices=(*GRIDS, *RECURRENT), default=list(GRIDS), metavar="MODEL"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], metavar="SEED")
    parser.add_argument("--epochs", type=int, default=30, help="of the GRUs, at most")
    parser.add_argument("--units", type=int, default=64, help="of the GRUs")
    parser.add_argument("--examples", type=int, help="take the first ones of each part only")
    parser.add_argument("--output", help="the CSV file; its rows of other models stay")
    options = parser.parse_args(arguments)
    output = Path(options.output or Path(__file__).parent / "baselines.csv")

    data = datasets.physionet2012(options.data_dir, statics="apart")
    parts = {key: getattr(data, key) for key in ("train", "validation", "test")}
    if options.examples:
        parts = {key: first(part, options.examples) for key, part in parts.items()}
    rows = []
    for name, seed in itertools.product(options.models, options.seeds):
        start = time.perf_counter()
        if name in RECURRENT:
            settings, found = fit_gru(name, parts, seed, options)
        else:
            settings, found = fit_table(name, parts, seed)
        figures = {
            key: evaluation.classification_metrics(found[key], parts[key].y) for key in found
        }
        row = {"model": name, "seed": seed, "settings": json.dumps(settings)}
        for key, metric in itertools.product(figures, ("auroc", "average_precision", "nll")):
            if f"{key}_{metric}" in COLUMNS:
                row[f"{key}_{metric}"] = round(figures[key][metric], 4)
        row["seconds"] = round(time.perf_counter() - start, 1)
        print(json.dumps(row), flush=True)
        rows.append(row)
        write(output, rows)


def write(path, rows):
    """Writes the rows in place of those of the same model and seed."""
    done = {(row["model"], str(row["seed"])) for row in rows}
    kept = [row for row in read_rows(path) if (row["model"], row["seed"]) not in done]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    append_rows(path, COLUMNS, [*kept, *rows])


if __name__ == "__main__":
    main()
