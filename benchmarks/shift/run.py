"""What classifiers make of fewer readings, noise and dead channels than they were trained on.

    python -m benchmarks.shift.run                  # four small sets, all models
    python -m benchmarks.shift.run --models minirocket gru+thinned --sets GunPoint --seeds 0
    python -m benchmarks.shift.run --sets PhysioNet2012 SLIC-75 --data-dir DIR \\
        --models diagonal none
    python -m benchmarks.shift.run --report         # table and figure of the CSV alone

Every model is trained on everything ("whole") and tested on the same test series with all
readings, with 50 and 80 % of them dropped, with noise of 0.3 and 1 standard deviations added (its
variance is told), and with a third of the channels dead; and trained and tested with 50 and 80 %
dropped ("half", "fifth"). Models:

- `none`, `diagonal`, `sampled`: `PNTimeSeries` with that uncertainty, one configuration
  for all sets (`models.py`); `+priors` lets `adapt` fit the first convolution's priors.
- `minirocket`, `hydra`: features of the package aeon (HYDRA's need PyTorch) of linearly
  interpolated series, and logistic regression whose penalty is chosen by cross-validation.
- `forest`: a random forest on summaries of each channel. `gru`: a recurrent network with masks.

`+thinned` trains on thinned series: tfpn and the GRU on parts drawn anew in each epoch, the others
on each series once whole and seven times thinned, by the same function with the same arguments.

Small sets come inside of the package aeon, which nothing but this program needs; install it (and
PyTorch for HYDRA) with `--no-deps` or into an environment of its own, so that it changes no other
version. Writes a row for each test to a CSV file, as soon as it is known; what is there is not done
again. Seconds are those of the processor, with OMP_NUM_THREADS=1 TF_NUM_INTRAOP_THREADS=1 of one
core.
"""

import argparse
import itertools
import pathlib
import time

from benchmarks.shift import baselines, models, report, sets
from benchmarks.tables import append_rows, read_rows

FIELDS = (
    *("set", "model", "seed", "trained", "test"),
    *("accuracy", "nll", "ece", "examples", "fit_seconds"),
)
TFPN = tuple(
    uncertainty + priors + thinned
    for uncertainty in models.UNCERTAINTIES
    for priors in ("", "+priors")
    for thinned in ("", "+thinned")
)
BASELINES = tuple(name + thinned for name in baselines.MODELS for thinned in ("", "+thinned"))
TRAINED = ("whole", *sets.ON_PART)


def measure(data, name, model, seed, trained, missing, settings=None):
    """Trains a model and returns a row for each of the test scenarios."""
    from tfpn.evaluation import classification_metrics

    base, _, thinned = model.partition("+thinned")
    train = baselines.MODELS.get(base) or models.trainer(base, settings)
    part = sets.training_part(data, trained, seed)
    start = time.process_time()
    predict = train(data, part, seed, model.endswith("+thinned"))
    seconds = time.process_time() - start
    rows = []
    for test in missing:
        x = sets.scenario(test, data.test.x, seed, data.together)
        found = classification_metrics(predict(x), data.test.y)
        row = {"set": name, "model": model, "seed": seed, "trained": trained, "test": test}
        row |= {key: round(found[key], 5) for key in ("accuracy", "nll", "ece")}
        rows.append({**row, "examples": len(data.test.y), "fit_seconds": round(seconds, 1)})
    return rows


def run(options):
    """Adds what is missing to the CSV file."""
    for name in options.sets:
        data = sets.load(name, options.data_dir, options.limit)
        channels = data.train.x["values"].shape[-1]
        for model, seed, trained in itertools.product(
            options.models, options.seeds, options.trained
        ):
            done = {tuple(row[key] for key in FIELDS[:5]) for row in read_rows(options.output)}
            missing = [
                test
                for test in sets.scenarios(trained, channels, data.together)
                if (options.scenarios is None or test in options.scenarios)
                and (name, model, str(seed), trained, test) not in done
            ]
            if missing:
                settings = models.Settings(channels=options.channels)
                rows = measure(data, name, model, seed, trained, missing, settings)
                append_rows(options.output, FIELDS, rows)
                for row in rows:
                    print(row, flush=True)


def main(arguments=None):
    """Measures what is missing, and writes the table and the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=[*BASELINES, *TFPN], metavar="MODEL")
    parser.add_argument(
        "--sets", nargs="+", default=list(sets.SMALL), metavar="SET",
        choices=(*sets.SMALL, *sets.LONG),
    )  # fmt: skip
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], metavar="SEED")
    parser.add_argument("--trained", nargs="+", choices=TRAINED, default=TRAINED, metavar="PART")
    parser.add_argument(
        "--scenarios", nargs="+", choices=sets.ON_WHOLE, metavar="TEST", help="all by default"
    )
    parser.add_argument("--data-dir", help="of PhysioNet2012 and SLIC-75")
    parser.add_argument("--limit", type=int, help="examples of each part of these at most")
    parser.add_argument(
        "--channels", type=int, default=models.Settings.channels,
        help="of tfpn's models; give another number with an --output of its own",
    )  # fmt: skip
    parser.add_argument("--report", action="store_true", help="measure nothing")
    folder = pathlib.Path(__file__).parent
    parser.add_argument("--output", type=pathlib.Path, default=folder / "results.csv")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.models if name not in (*BASELINES, *TFPN)]:
        parser.error(f"--models: found {unknown[0]!r}; known: {', '.join((*BASELINES, *TFPN))}")
    if not options.report:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        run(options)
    report.write(read_rows(options.output), options.output.parent)


if __name__ == "__main__":
    main()
