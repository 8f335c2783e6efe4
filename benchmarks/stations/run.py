"""Monthly readings at left-out weather stations, or in left-out months: a field model and others.

    python -m benchmarks.stations.run co_monthly_met.npz
    python -m benchmarks.stations.run co_monthly_met.npz --splits 1 --variables tmax --months 24
    python -m benchmarks.stations.run co_monthly_met.npz --ask months --epochs 0

The file holds lonlat [S, 2] in degrees, elev [S] in metres, years [Y], and tmax and ppt
[Y, 12, S], NaN for missing (`COmonthlyMet` of the R package fields).

A part of the stations is never shown to any method. Each month is a field: from the readings of
the other stations a method predicts those of the left-out ones. What is learnt (priors, weights,
trees) comes from earlier months of the stations that are shown. Precipitation is taken as its
square root, by all methods, and scored so. Elevation is the third coordinate of all that take one.

With --ask months a part of the months of 1986 to 1997 is shown to no method at any station. Each
station's series is a field of three coordinates, a place on the circle of the seasons and the time:
from a station's other months a method predicts those. "In the plane" is on that circle then, and
time takes the place of elevation. What is learnt comes from series of 1966 to 1983.

Prints, for each variable and method, the mean over the splits of root mean square error, negative
log likelihood, continuous ranked probability score and coverage of the central 95 % interval, and
the seconds that learning and predicting take. --output writes a row for each split as CSV.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from scipy import stats

from benchmarks.stations.baselines import BASELINES
from benchmarks.tables import append_rows

TRAIN, VALIDATION, TEST = (1966, 1984), (1984, 1986), (1986, 1998)  # years from, to before
FEWEST = 30  # readings of a month
FIELDS = ["variable", "split", "method", "rmse", "nll", "crps", "coverage", "readings", "seconds"]


def read(path, variable):
    """Places [S, 3], values [months, S] and the year of each month."""
    with np.load(path, allow_pickle=False) as file:
        lonlat, elevation = file["lonlat"].astype(float), file["elev"].astype(float)
        values = file[variable].astype(float).reshape(-1, len(lonlat))
        years = np.repeat(file["years"], 12)
    centre = lonlat.mean(axis=0)
    kilometres = 111.19 * np.array([np.cos(np.radians(centre[1])), 1.0])
    places = np.column_stack([(lonlat - centre) * kilometres / 100.0, elevation / 1000.0])
    known = np.isfinite(places).all(axis=1)
    values = np.sqrt(values) if variable == "ppt" else values
    return places[known], values[:, known], years


def months_of(places, values, stations):
    """Pairs of places and readings of the stations that reported."""
    found = []
    for row in values:
        some = stations[np.isfinite(row[stations])]
        found.append((places[some], row[some]))
    return found


def scores(truth, mean, deviation):
    """Root mean square error, negative log likelihood, score and coverage of normal predictions."""
    z = (truth - mean) / deviation
    crps = deviation * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - np.pi**-0.5)
    return {
        "rmse": np.sqrt(np.mean(np.square(truth - mean))),
        "nll": -np.mean(stats.norm.logpdf(z) - np.log(deviation)),
        "crps": np.mean(crps),
        "coverage": np.mean(np.abs(z) < stats.norm.ppf(0.975)),
        "readings": len(truth),
    }


class FieldModel:
    """`tfpn.models.PNCNN` with output="field"."""

    def __init__(self, options, trained=True, own_prior=None):
        self._options, self._trained, self._own_prior = options, trained, own_prior

    def _observations(self, months):
        import tfpn

        x = tfpn.observations(*zip(*months, strict=True))
        return {key: array.astype("float32") for key, array in x.items()}

    def fit(self, months, validation):
        """Priors by `adapt`, weights by hiding stations; the epoch that does best is kept."""
        import keras

        import tfpn

        options = self._options
        keras.utils.set_random_seed(options.seed)
        self._model = tfpn.models.PNCNN(
            None,
            num_outputs=1,
            output="field",
            ard=(0, 0, 1),
            # A plane over places; a series' level, whose seasons are coordinates.
            trend="linear" if options.ask == "stations" else "constant",
            amplitude="example",
            kriging_kernel="matern32",
            spatial_dim=3,
            channels=options.channels,
            num_blocks=options.blocks,
            num_basis=5,
            seed=options.seed,
        )
        x = self._observations(months)
        if not self._trained:
            self._model.adapt(x)
            return
        tfpn.tasks.train(
            self._model,
            x,
            epochs=options.epochs,
            share=(0.1, 0.5),
            batch_size=8,
            learning_rate=options.rate,
            validation=self._observations(validation),
            seed=options.seed,
            verbose=2,
        )

    def predict(self, months, queries):
        """All months at once, queries padded to one length."""
        import tfpn

        size = max(map(len, queries))
        query = np.stack([np.resize(places, (size, 3)) for places in queries])
        x = self._observations(months)
        found = tfpn.tasks.interpolate(self._model, x, query, own_prior=self._own_prior)
        return [
            (found.mean[k, : len(places), 0], found.std[k, : len(places), 0])
            for k, places in enumerate(queries)
        ]


def left_out_stations(places, values, years, split, options):
    """Fields to learn from, to choose by and to predict from, and what is asked of the latter."""
    order = np.random.default_rng(split).permutation(len(places))
    count = round(options.hidden * len(places))
    hidden, shown = np.sort(order[:count]), np.sort(order[count:])

    def part(span, number):
        chosen = np.flatnonzero((span[0] <= years) & (years < span[1]))
        chosen = chosen[np.isfinite(values[chosen][:, shown]).sum(axis=1) >= FEWEST]
        return chosen[np.linspace(0, len(chosen) - 1, min(number, len(chosen))).astype(int)]

    test = part(TEST, options.months)
    train, validation = part(TRAIN, options.training_months), part(VALIDATION, 24)
    fields = [months_of(places, values[rows], shown) for rows in (train, validation, test)]
    return *fields, months_of(places, values[test], hidden)


def left_out_months(values, years, split, options):
    """The same of stations' series, of which some months are asked for."""
    rng = np.random.default_rng(split)
    angle = 2.0 * np.pi * (np.arange(len(years)) % 12) / 12.0
    when = (np.arange(len(years)) / 12.0 + years[0] - TEST[0]) / 10.0
    places = np.column_stack([np.cos(angle), np.sin(angle), when])

    def series(rows, number):
        many = np.flatnonzero(np.isfinite(values[rows]).sum(axis=0) >= 2 * FEWEST)
        return months_of(places, values.T[rng.permutation(many)[:number]], rows)

    spans = {name: np.flatnonzero((name[0] <= years) & (years < name[1])) for name in (TRAIN, TEST)}
    hidden = rng.uniform(size=len(spans[TEST])) < options.hidden
    learnt = series(spans[TRAIN], options.series)
    shown, asked = spans[TEST][~hidden], spans[TEST][hidden]
    kept = np.flatnonzero(np.isfinite(values[shown]).sum(axis=0) >= 2 * FEWEST)
    kept = rng.permutation(kept)[: options.series]
    tested = [months_of(places, values.T[kept], rows) for rows in (shown, asked)]
    return learnt[::2], learnt[1::2], *tested


def compare(places, values, years, split, options):
    """Scores by method for one random split."""
    if options.ask == "months":
        *fields, asked = left_out_months(values, years, split, options)
    else:
        *fields, asked = left_out_stations(places, values, years, split, options)
    months = dict(zip(("train", "validation", "test"), fields, strict=True))
    kept = [k for k, (_, readings) in enumerate(asked) if len(readings)]
    asked = [asked[k] for k in kept]
    given = [months["test"][k] for k in kept]
    truth = np.concatenate([readings for _, readings in asked])
    queries = [places for places, _ in asked]
    for name, kind in BASELINES.items():
        begin, method = time.perf_counter(), kind()
        method.fit(months["train"][:: max(1, len(months["train"]) // 40)])
        found = [method.predict(*pair) for pair in zip(given, queries, strict=True)]
        yield name, scores(truth, *map(np.concatenate, zip(*found, strict=True))), begin
    for name, trained, own in (
        ("tfpn field, untrained", False, None),
        ("tfpn field, untrained, own priors", False, options.own_prior),
        ("tfpn field, trained", True, None),
    ):
        if trained and not options.epochs:
            continue
        begin, model = time.perf_counter(), FieldModel(options, trained, own)
        model.fit(months["train"], months["validation"])
        found = model.predict(given, queries)
        yield name, scores(truth, *map(np.concatenate, zip(*found, strict=True))), begin


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("path", type=Path, help="co_monthly_met.npz")
    parser.add_argument("--variables", nargs="+", default=["tmax", "ppt"])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--ask", choices=("stations", "months"), default="stations")
    parser.add_argument("--hidden", type=float, default=0.3, help="part that is left out")
    parser.add_argument("--series", type=int, default=60, help="stations, of --ask months")
    parser.add_argument("--months", type=int, default=144, help="test months")
    parser.add_argument("--training-months", type=int, default=216)
    parser.add_argument("--epochs", type=int, default=15, help="0: the prior alone")
    parser.add_argument("--own-prior", type=float, default=0.5, help="spread of own priors")
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="CSV file that gets a row for each result")
    options = parser.parse_args(arguments)
    rows = []
    for variable in options.variables:
        places, values, years = read(options.path, variable)
        for split in range(options.splits):
            for name, found, begin in compare(places, values, years, split, options):
                seconds = time.perf_counter() - begin
                row = {"variable": variable, "split": split, "method": name, **found}
                rows.append({**row, "seconds": round(seconds, 1)})
                print(*(f"{key}={_short(value)}" for key, value in rows[-1].items()), flush=True)
                if options.output:
                    append_rows(options.output, FIELDS, rows[-1:])
    report(rows)


def report(rows):
    """The table: means over the splits."""
    print(f"\n{'':36}{'RMSE':>8}{'NLL':>8}{'CRPS':>8}{'95 %':>9}{'s':>8}")
    for variable, name in dict.fromkeys((row["variable"], row["method"]) for row in rows):
        some = [row for row in rows if (row["variable"], row["method"]) == (variable, name)]
        rmse, nll, crps, coverage, seconds = (
            np.mean([row[key] for row in some])
            for key in ("rmse", "nll", "crps", "coverage", "seconds")
        )
        title = f"{variable}: {name}"[:36]
        print(f"{title:36}{rmse:8.3f}{nll:8.3f}{crps:8.3f}{coverage:9.1%}{seconds:8.0f}")


def _short(value):
    return f"{value:.4g}" if isinstance(value, float) else value


if __name__ == "__main__":
    main()
