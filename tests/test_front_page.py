"""The table of results on the front page says what the benchmarks' files say."""

import csv
import re
import statistics
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
OURS = "diagonal+priors+thinned"
OUR_NETWORKS = ("diagonal", "sampled", "none")  # and with "+..." what was changed


def results():
    """The cells "tfpn" and "other" of each row by its first words, as lists of numbers."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").split("## Results")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    number = re.compile(r"\d+(?:\.\d+)?")
    return {row[0]: [number.findall(cell) for cell in row[2:4]] for row in rows[2:]}


RESULTS = results()


def row(start):
    (found,) = (numbers for task, numbers in RESULTS.items() if task.startswith(start))
    return found


def read(path):
    with open(BENCHMARKS / path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def agree(shown, *values):
    """Whether numbers are the values, rounded to the digits shown."""
    digits = [len(text.partition(".")[2]) for text in shown]
    rounded = [f"{value:.{count}f}" for value, count in zip(values, digits, strict=True)]
    assert shown == rounded


@pytest.mark.parametrize(
    "start, variable", [("Map: maximum temperature", "tmax"), ("Map: root of the prec", "ppt")]
)
def test_stations(start, variable):
    methods = ("tfpn field, untrained, own priors", "GP, ARD Matern, tuned each month")
    rows = [r for r in read("stations/left_out_stations.csv") if r["variable"] == variable]
    for shown, method in zip(row(start), methods, strict=True):
        picked = [r for r in rows if r["method"] == method]
        agree(shown, *(statistics.mean(float(r[key]) for r in picked) for key in ("rmse", "nll")))


@pytest.mark.parametrize(
    "start, task, other",
    [("Forecast:", "forecast", "GP per channel"), ("Fill:", "imputation", "GRU")],
)
def test_vital_signs(start, task, other):
    rows = [r for r in read("physionet_fields/fields.csv") if r["task"] == task]
    for shown, name in zip(row(start), ("tfpn field, trained", other), strict=True):
        (picked,) = (r for r in rows if r["method"] == name)
        agree(shown, float(picked["mse"]), float(picked["nll"]))
    foreign = [r for r in rows if not r["method"].startswith("tfpn")]
    assert min(foreign, key=lambda r: float(r["nll"]))["method"] == other


def test_death_in_hospital():
    runs = read("physionet_configurations/configurations.csv")
    tuned = [100 * float(r["test_auroc"]) for r in runs if r["configuration"] == "tuned"]
    others = [100 * float(r["test_auroc"]) for r in read("physionet_baselines/baselines.csv")]
    shown = row("Classify: death in hospital")
    ensembles = read("physionet_configurations/ensembles.csv")
    (ensemble,) = (r for r in ensembles if r["configuration"] == "tuned")
    averaged = 100 * float(ensemble["test_auroc"])
    agree(shown[0], statistics.mean(tuned), statistics.stdev(tuned), averaged)
    agree(shown[1], max(others))


def shift():
    """Means over the seeds of accuracy and NLL, by set, part, test and model."""
    rows = {}
    for r in read("shift/results.csv"):
        cell = rows.setdefault((r["set"], r["trained"], r["test"]), {})
        cell.setdefault(r["model"], []).append((float(r["accuracy"]), float(r["nll"])))
    return {
        cell: {
            model: tuple(map(statistics.mean, zip(*seeds, strict=True)))
            for model, seeds in models.items()
        }
        for cell, models in rows.items()
    }


SHIFT = shift()


def best_other(cell):
    others = {m: v for m, v in SHIFT[cell].items() if m.split("+")[0] not in OUR_NETWORKS}
    return min(others.values(), key=lambda found: found[1])


@pytest.mark.parametrize(
    "start, name, test",
    [
        ("Classify: ItalyPowerDemand", "ItalyPowerDemand", "whole"),
        ("the same with 80 %", "ItalyPowerDemand", "-80%"),
        ("the same with noise", "ItalyPowerDemand", "noise 1"),
        ("Classify: GunPoint", "GunPoint", "whole"),
        ("Classify: JapaneseVowels", "JapaneseVowels", "dead third"),
    ],
)
def test_shift(start, name, test):
    cell = (name, "whole", test)
    for shown, found in zip(row(start), (SHIFT[cell][OURS], best_other(cell)), strict=True):
        agree(shown, 100 * found[0], found[1])


def test_cells_won():
    cells = [cell for cell in SHIFT if OURS in SHIFT[cell]]
    won = sum(SHIFT[cell][OURS][1] < best_other(cell)[1] for cell in cells)
    assert row("Classify: all 30 cells") == [[str(won)], [str(len(cells) - won)]]
    assert len(cells) == 30


@pytest.mark.parametrize(
    ("start", "tested"), [("Images: MNIST, trained", "28"), ("the same, tested at 10 x 10", "10")]
)
def test_another_resolution(start, tested):
    cells = {
        (r["mode"], r["query"]): 100 * float(r["error"])
        for r in read("resolution/resolution.csv")
        if (r["train_resolution"], r["test_resolution"]) == ("14", tested)
    }
    shown = row(start)
    agree(shown[0], cells["diagonal", "10"])
    agree(shown[1], cells["cnn", "observed"])


def test_turned_digits():
    runs = ("SteerablePNCNN at 80 points", "1"), ("escnn C16", "0")  # escnn's better one
    for shown, run in zip(row("Images: MNIST turned"), runs, strict=True):
        (found,) = (
            r
            for r in read("turned_mnist/results.csv")
            if (r["model"], r["moved"], r["data"]) == (*run, "pixels")
        )
        agree(shown[-2:], 100 * float(found["test_error"]), float(found["test_nll"]))


def test_long_series():
    for shown, model in zip(
        row("Classify: watch"), ("tfpn+thinned", "minirocket+thinned"), strict=True
    ):
        (found,) = (
            r
            for r in read("long_series/results.csv")
            if (r["model"], r["fold"], r["test"]) == (model, "0", "whole")
        )
        agree(shown, 100 * float(found["accuracy"]), float(found["nll"]))


def clouds(model, points, steps, kept, trained="turned"):
    """Accuracy and NLL in random poses. Of 2,048 points, those that trained on whole clouds."""
    (found,) = (
        r
        for r in read("point_clouds/results.csv")
        if (r["model"], r["points"], r["steps"], r["kept"]) == (model, points, steps, kept)
        and (r["trained"], r["tested"]) == (trained, "turned")
        and (r["least"] == "1.0") == (points == "2048")
    )
    return 100 * float(found["accuracy"]), float(found["nll"])


@pytest.mark.parametrize(
    ("start", "kept"),
    [
        ("Classify: ten shapes by 128", "1.0"),
        ("the same with half of the points", "0.5"),
        ("the same with nine tenths", "0.1"),
    ],
)
def test_few_points_in_space(start, kept):
    ours, other = row(start)
    agree(ours, *clouds("steerable", "128", "620", kept, trained="upright"))
    others = [
        clouds(model, "128", steps, kept)
        for model, steps in [("pncnn", "620"), ("pointnet", "620"), ("pointnet", "6200")]
    ]
    agree(other, *min(others, key=lambda found: found[1]))


@pytest.mark.parametrize(
    ("start", "kept"),
    [("Classify: ten shapes by 1,024", "1.0"), ("the same with half of these", "0.5")],
)
def test_many_points_in_space_looked_at_in_part(start, kept):
    ours, other = row(start)
    agree(ours, *clouds("steerable", "1024", "620", kept, trained="upright"))
    agree(other, *clouds("pointnet", "1024", "620", kept))


def test_many_points_in_space():
    ours, other = row("Classify: ten shapes by 2,048")
    agree(ours, *clouds("pncnn", "2048", "310", "1.0"))
    agree(other, *clouds("pointnet", "2048", "930", "1.0"))


def test_physionet_beside_the_paper():
    text = (ROOT / "README.md").read_text(encoding="utf-8").split("## Beside the paper")[1]
    (line,) = (line for line in text.splitlines() if line.startswith("| PhysioNet 2012, AUROC"))
    ours, others = (re.findall(r"\d+\.\d+", cell) for cell in line.split(" | ")[2:4])
    tuned = [
        r
        for r in read("physionet_configurations/configurations.csv")
        if r["configuration"] == "tuned"
    ]
    baselines = read("physionet_baselines/baselines.csv")
    models = [[r for r in baselines if r["model"] == name] for name in ("boosting", "gru-binned")]
    keys = "test_auroc", "test_average_precision"
    agree(ours, *(100 * statistics.mean(float(r[key]) for r in tuned) for key in keys))
    agree(
        others,
        *(100 * statistics.mean(float(r[key]) for r in rows) for rows in models for key in keys),
    )
