"""What should flows and later layers start at, given the first layer's fitted prior?

    python -m benchmarks.archive.starts.run

Small networks (16 channels, 2 blocks, 300 steps) are trained alike from several starts, and judged
by the third of the training part that they were not trained on, whole and with half and four fifths
of its readings dropped. No test part is read. The series are those that come inside the package
aeon, which this program needs besides (`pip install aeon`); the digits are `tfpn.datasets.digits`.
Writes `starts.csv` into the output folder, a row for each network and share as soon as it is known,
leaves out what is there, and prints the table of the folds that were trained from all starts.
"""

import argparse
import pathlib
import time

import numpy as np

from benchmarks.tables import append_rows, read_rows

FIELDS = (
    "set", "start", "fold", "dropped", "examples", "accuracy", "nll", "spacing", "length_scale",
    "adapt_seconds", "train_seconds",
)  # fmt: skip
# Of each series every so many-th reading is kept.
SERIES = {
    "GunPoint": 2,
    "ItalyPowerDemand": 1,
    "BasicMotions": 2,
    "JapaneseVowels": 1,
    "ArrowHead": 4,
    "OSULeaf": 6,
    "PickupGestureWiimoteZ": 4,
}
SETS = (*SERIES, "digits")
STARTS = {
    "spacing": "length scales, drifts and diffusions of the spacing, as without a fit",
    "fitted": "the first layer's prior fitted, its flows of the spacing",
    "length": "fitted, flows of the first layer of the fitted length scale",
    "half": "fitted, flows of the first layer of half of it, at most 3 spacings",
    "layers": "fitted, the later layers' priors fitted to their first features too",
    "half_layers": "both",
    "step": "fitted, flows of the first layer of the step of the queried times, as `adapt` has it",
    "units": "as spacing, but flows learnt in units of the points, as before",
}
FOLDS, DROPPED = (0, 1, 2), (0.0, 0.5, 0.8)
STEPS, QUERY, CHANNELS, BATCH = 300, 24, 16, 16
REPEATS = 8  # of which readings are dropped
LEAST_READINGS, MOST_EXAMPLES = 2, 600
# Half of the fitted length scale, but at most so many spacings.
SHARE, MOST_SPACINGS = 0.5, 3.0


def load(name):
    """The observations and labels of a set's training part."""
    import tfpn

    if name == "digits":
        part = tfpn.datasets.digits(keep=40).train
        return part.x, part.y
    from aeon.datasets import load_classification

    series, labels = load_classification(name, split="train")
    step = SERIES[name]
    values = [np.asarray(one, float).T[::step] for one in series]
    readings = np.concatenate(values)
    values = [(one - readings.mean(axis=0)) / readings.std(axis=0) for one in values]
    times = [np.arange(len(one), dtype=float)[:, None] for one in values]
    return tfpn.observations(times, values), np.unique(labels, return_inverse=True)[1]


def parts(name, fold):
    """Observations and labels of training and of validation."""
    from sklearn.model_selection import StratifiedKFold

    x, y = load(name)
    folds = StratifiedKFold(len(FOLDS), shuffle=True, random_state=0).split(y, y)
    rng = np.random.default_rng(fold)
    chosen = [rng.permutation(rows)[:MOST_EXAMPLES] for rows in list(folds)[fold]]
    return [({key: array[rows] for key, array in x.items()}, y[rows]) for rows in chosen]


def thinned(x, share, seed):
    """The observations with a share of each example's readings taken away."""
    rng = np.random.default_rng(seed)
    score = np.where(np.isfinite(x["variance"]), rng.uniform(size=x["variance"].shape), np.inf)
    rank = np.argsort(np.argsort(score, axis=1), axis=1)
    observed = np.isfinite(x["variance"]).sum(axis=1, keepdims=True)
    kept = np.maximum(np.round((1.0 - share) * observed), LEAST_READINGS)
    keep = rank < np.minimum(kept, observed)
    return {
        "points": x["points"],
        "values": np.where(keep, x["values"], 0.0).astype(x["values"].dtype),
        "variance": np.where(keep, 0.0, np.inf).astype(x["variance"].dtype),
    }


def build(name, x, y):
    import keras

    import tfpn

    classes, channels = int(y.max()) + 1, x["values"].shape[-1]
    options = {"channels": CHANNELS, "num_blocks": 2, "in_channels": channels}
    if name == "digits":
        model = tfpn.models.PNCNN(classes, pooling=(0.0, 1.0), **options)
    else:
        stay = 0.0, float(x["points"].max())
        model = tfpn.models.PNTimeSeries(classes, query=QUERY, pooling=stay, clock=True, **options)
    model.compile(
        keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(1e-2, STEPS)),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


def begin(model, x, start):
    """Adapts the model and moves it to a start; spacing and typical fitted length scale."""
    from tfpn.spacing import point_spacing

    model.adapt(x, fit_priors=start not in ("spacing", "units"), verbose=0)
    spacing = point_spacing(x["points"], x["variance"])
    first = model.pn_layers[0]
    length = float(np.median(np.exp(np.asarray(first.log_length_scale))))
    half = min(SHARE * length, MOST_SPACINGS * spacing)
    if start == "length":
        first.start_flows(length)
    elif start.startswith("half"):
        first.start_flows(half)
    elif start != "step":
        first.start_flows(spacing)
    if start == "units":
        for block in model.blocks:
            for layer, _ in block.convolutions:
                use_points_unit(layer)
    if start.endswith("layers"):
        fit_layers(model, x)
    return spacing, length


def use_points_unit(layer):
    """Has a layer learn the same flows in the points' unit."""
    unit = np.exp(np.asarray(layer.log_flow_unit))
    for weight in (layer.drift, layer.diffusion_factor):
        weight.assign(unit * np.asarray(weight))
    layer.log_flow_unit.assign(0.0)


def fit_layers(model, x, examples=64):
    """Fits the prior of each convolution after the first to the features that it will take."""
    import keras

    some = {key: array[:examples] for key, array in x.items()}
    for block in model.blocks[1:]:
        for layer, given in block.convolutions:
            before = keras.Model(model.inputs_dict, given)
            features = {key: np.asarray(t) for key, t in before(some).items()}
            layer.fit_prior(features)


def measure(model, x, y, share):
    """Accuracy and negative log likelihood without a share of the readings."""
    if share:
        found = [measure(model, thinned(x, share, seed), y, 0.0) for seed in range(REPEATS)]
        return np.mean(found, axis=0)
    logits = model.predict(x, batch_size=50, verbose=0).astype(float)
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_proba = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return np.mean(logits.argmax(1) == y), -np.mean(log_proba[np.arange(len(y)), y])


def run(name, starts, fold, path, done):
    """Trains one model from each start: the same one, whose steps are traced once."""
    import keras

    starts = [start for start in starts if (name, start, str(fold)) not in done]
    if not starts:
        return
    (x, y), (val_x, val_y) = parts(name, fold)
    keras.utils.set_random_seed(fold)
    model = build(name, x, y)
    weights = model.get_weights()
    model.optimizer.build(model.trainable_variables)
    state = [np.asarray(variable) for variable in model.optimizer.variables]
    for start in starts:
        model.set_weights(weights)
        for variable, value in zip(model.optimizer.variables, state, strict=True):
            variable.assign(value)
        began = time.perf_counter()
        spacing, length = begin(model, x, start)
        adapted = time.perf_counter()
        keras.utils.set_random_seed(fold)
        batch = min(BATCH, len(y))
        count = len(y) // batch * batch  # all batches of one size
        epochs = -(-STEPS * batch // count)
        rng = np.random.default_rng(fold)
        left = STEPS
        for _ in range(epochs):
            rows = rng.permutation(len(y))[:count][: left * batch]
            left -= len(rows) // batch
            model.fit({k: a[rows] for k, a in x.items()}, y[rows], batch_size=batch, verbose=0)
        trained = time.perf_counter()
        rows = []
        for share in DROPPED:
            accuracy, nll = measure(model, val_x, val_y, share)
            rows.append({
                "set": name, "start": start, "fold": fold, "dropped": share,
                "examples": len(val_y), "accuracy": round(accuracy, 4), "nll": round(nll, 4),
                "spacing": round(spacing, 4), "length_scale": round(length, 4),
                "adapt_seconds": round(adapted - began, 1),
                "train_seconds": round(trained - adapted, 1),
            })  # fmt: skip
        append_rows(path, FIELDS, rows)


def table(rows, starts):
    """Accuracy and negative log likelihood, over the folds that were trained from all starts."""
    print("| set | dropped | folds |" + "".join(f" {start} |" for start in starts))
    print("| --- | --- | --- |" + " --- |" * len(starts))
    for name in SETS:
        trained = {(r["start"], r["fold"]) for r in rows if r["set"] == name}
        folds = [k for k in map(str, FOLDS) if all((start, k) in trained for start in starts)]
        for share in DROPPED * bool(folds):
            cells = []
            for start in starts:
                own = [
                    r for r in rows
                    if (r["set"], r["start"], float(r["dropped"])) == (name, start, share)
                    and r["fold"] in folds
                ]  # fmt: skip
                weights = [int(r["examples"]) for r in own]
                found = (
                    np.average([float(r[key]) for r in own], weights=weights)
                    for key in ("accuracy", "nll")
                )
                cells.append(" / ".join(f"{number:.3f}" for number in found))
            print(f"| {name} | {share:.0%} | {len(folds)} | " + " | ".join(cells) + " |")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--starts", nargs="+", choices=STARTS, default=tuple(STARTS))
    parser.add_argument("--folds", nargs="+", type=int, choices=FOLDS, default=FOLDS)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "starts.csv"
    done = {(r["set"], r["start"], r["fold"]) for r in read_rows(path)}
    for fold in options.folds:
        for name in options.sets:
            run(name, options.starts, fold, path, done)
    table(read_rows(path), options.starts)


if __name__ == "__main__":
    main()
