"""Gaps and futures of PhysioNet 2012: a field model beside the last value, GPs and a GRU.

    python -m benchmarks.physionet_fields.run imputation --data-dir data
    python -m benchmarks.physionet_fields.run forecast --data-dir data --epochs 6

imputation: 10 % of a record's readings are hidden at random and predicted from the others, as in
BRITS, SAITS and CSDI. forecast: the readings of the second 24 hours are predicted from those of the
first, as in work on latent ODEs. Values are normalised, each channel by the mean and standard
deviation of its readings in the training part; errors are over all readings asked for.

It takes a sample of the records with at most --rows different times (by default 1,000 of 96), 60 %
of them from the training part, 10 % from the validation and 30 % from the test part, and of their
channels the --series most read ones. Prints, and adds to --output as CSV, for each method mean
squared and mean absolute error, negative log likelihood, continuous ranked probability score,
coverage of the central 95 % interval, and of forecasts the coverage and the mean width of the
interval by lead time in six parts of four hours.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from benchmarks.physionet_fields.baselines import GRU, ChannelGP, LastValue
from benchmarks.tables import append_rows
from tfpn import datasets, evaluation, tasks

DAY = 0.5  # of two
PARTS = 6  # of a forecast's 24 hours
FIELDS = ["task", "method", "mse", "mae", "nll", "crps", "coverage", "readings", "seconds"]
FIELDS += [f"{what}_{part}" for what in ("coverage", "width") for part in range(PARTS)]


def most_read(part, number):
    """The channels with the most readings, in order."""
    counts = np.isfinite(part.x["variance"]).sum(axis=(0, 1))
    return np.sort(np.argsort(-counts, kind="stable")[:number])


def sample(part, count, rows, series, seed):
    """Observations of some records and channels, their rows in front, [count, rows, ...]."""
    x = {key: part.x[key][..., series] for key in ("values", "variance")}
    x["points"] = part.x["points"]
    seen = np.isfinite(x["variance"]).any(-1)
    fit = np.flatnonzero((seen.sum(1) <= rows) & (seen.sum(1) > 4))
    chosen = np.sort(np.random.default_rng(seed).permutation(fit)[:count])
    order = np.argsort(~seen[chosen], axis=1, kind="stable")[:, :rows, None]
    return {key: np.take_along_axis(array[chosen], order, 1) for key, array in x.items()}


def asked(x, task, seed):
    """The model's input with a query, and targets [B, M, c], NaN where nothing is asked."""
    if task == "imputation":
        return tasks.hide(x, 0.1, by="reading", seed=seed)
    later = x["points"] >= DAY
    variance = np.where(later, np.inf, x["variance"]).astype(np.float32)
    targets = np.where(later & np.isfinite(x["variance"]), x["values"], np.nan)
    size = later[..., 0].sum(1).max()
    order = np.argsort(~later, axis=1, kind="stable")[:, :size]
    query = np.take_along_axis(x["points"], order, axis=1)
    given = {**x, "variance": variance, "query": np.maximum(query, DAY)}
    return given, np.take_along_axis(targets, order, axis=1).astype(np.float32)


class FieldModel:
    """`PNTimeSeries` with output="field", trained by what it is asked."""

    def __init__(self, options, epochs):
        self._options, self._epochs = options, epochs

    def fit(self, train, validation):
        """Priors by `adapt`; then the task, with other readings hidden in every epoch."""
        import keras

        import tfpn

        options, channels = self._options, train["values"].shape[-1]
        keras.utils.set_random_seed(options.seed)
        self.model = model = tfpn.models.PNTimeSeries(
            None,
            num_outputs=channels,
            output="field",
            in_channels=channels,
            kriging_kernel="matern32",
            channels=options.channels,
            num_blocks=1,
            num_basis=3,
            query=24,
            pooling=(0.0, 1.0),
            marginal_likelihood_weight=0.1,
            seed=options.seed,
        )
        model.adapt(train, verbose=0)
        held = asked(validation, options.task, 1)
        if self._epochs:
            steps = self._epochs * -(-len(train["points"]) // options.batch)
            rate = keras.optimizers.schedules.CosineDecay(options.rate, steps)
            model.compile(keras.optimizers.Adam(rate, clipnorm=1.0), tfpn.losses.GaussianNLL())
            for epoch in range(self._epochs):
                x, y = asked(train, options.task, 100 + epoch)
                model.fit(x, y, batch_size=options.batch, validation_data=held, verbose=2)

    def predict(self, given):
        """Means and standard deviations at the query."""
        x = {key: array for key, array in given.items() if key != "query"}
        found = tasks.interpolate(self.model, x, given["query"])
        return found.mean, found.std


def scores(task, given, targets, mean, std):
    """Figures of merit of all readings asked for, and by lead time."""
    known = np.isfinite(targets)
    found = evaluation.regression_metrics(targets, mean, std)
    row = {
        "mse": found["rmse"] ** 2,
        **{key: found[key] for key in ("mae", "nll", "crps")},
        "coverage": found["coverage_95"],
        "readings": found["targets"],
    }
    if task != "forecast":
        return row
    lead = np.broadcast_to((given["query"] - DAY) / (1.0 - DAY), targets.shape)
    part = np.minimum((lead * PARTS).astype(int), PARTS - 1)
    for number in range(PARTS):
        some = known & (part == number)
        inside = np.abs(targets - mean)[some] < 1.96 * std[some]
        row[f"coverage_{number}"] = float(inside.mean())
        row[f"width_{number}"] = float(np.mean(2 * 1.96 * std[some]))
    return row


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("task", choices=("imputation", "forecast"))
    parser.add_argument("--data-dir", help="the folder of the original files")
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=96, help="different times of a record at most")
    parser.add_argument("--series", type=int, default=37, help="the most read of the channels")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--rate", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--methods", nargs="+", help="names of methods; all by default")
    parser.add_argument("--output", type=Path, help="CSV file that gets a row for each method")
    options = parser.parse_args(arguments)
    data = datasets.physionet2012(options.data_dir, statics="apart", progress=False)
    series = most_read(data.train, options.series)
    shares = {"train": 0.6, "validation": 0.1, "test": 0.3}
    train, validation, test = (
        sample(
            getattr(data, name), round(share * options.records), options.rows, series, options.seed
        )
        for name, share in shares.items()
    )
    given, targets = asked(test, options.task, 2)
    methods = {
        "last value": LastValue(),
        "GP per channel": ChannelGP(),
        "tfpn field, not trained": FieldModel(options, 0),
        "tfpn field, trained": FieldModel(options, options.epochs),
        "GRU": GRU(options.seed),
    }
    for name in options.methods or methods:
        begin, method = time.perf_counter(), methods[name]
        if isinstance(method, FieldModel):
            method.fit(train, validation)
        else:
            method.fit(train, validation, lambda x, seed: asked(x, options.task, seed))
        row = scores(options.task, given, targets, *method.predict(given))
        seconds = round(time.perf_counter() - begin, 1)
        row = {"task": options.task, "method": name, **row, "seconds": seconds}
        print(
            *(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()),
            flush=True,
        )
        if options.output:
            append_rows(options.output, FIELDS, [row])


if __name__ == "__main__":
    main()
