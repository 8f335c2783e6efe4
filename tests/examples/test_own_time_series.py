"""The example for one's own time series: from CSV files to predictions, and what it refuses."""

import csv
import json
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import own_time_series as example
import time_series_fits
import time_series_tables


@pytest.fixture
def files(tmp_path):
    """Readings and outcomes of 24 records, the last without readings, one time read twice."""
    series, outcomes = example.make_up(24)
    del series["p023"]
    series["p000"].append((series["p000"][0][0], "pulse", 100.0))
    rows = [(name, *reading) for name, readings in series.items() for reading in readings]
    paths = tmp_path / "series.csv", tmp_path / "outcomes.csv"
    for path, header, table in zip(
        paths,
        (("id", "time", "variable", "value"), ("id", "outcome")),
        (rows, outcomes.items()),
        strict=True,
    ):
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows([header, *table])
    return paths


def run(files, *options):
    series, outcomes = map(str, files)
    return example.main(["--series", series, "--outcomes", outcomes, *options])


def test_files_to_predictions(files, tmp_path, capsys):
    """With a stretch far longer than the records, which is spoken of."""
    figures = run(files, "--epochs", "1", "--output", str(tmp_path / "out"), "--box", "0", "4800")
    assert figures["examples"] == 6
    printed = capsys.readouterr().out
    assert "looks at 0 to 4800, and a typical record is 4" in printed
    assert "give --from-start; for a shorter stretch of time, give --box" in printed
    assert "readings (" not in printed  # none is outside
    with open(tmp_path / "out" / "predictions.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    for row in rows:
        chances = [float(row[f"probability_{name}"]) for name in ("ill", "well")]
        assert sum(chances) == pytest.approx(1.0, abs=1e-3)
        assert row["predicted"] == ("ill", "well")[int(np.argmax(chances))]
        assert float(row["logit_std_ill"]) > 0
    assert (tmp_path / "out" / "fits.png").read_bytes().startswith(b"\x89PNG")
    assert (
        keras.models.load_model(tmp_path / "out" / "model.keras").get_config()["in_channels"] == 3
    )


def test_numbers_are_predicted_in_their_own_unit(files, tmp_path, capsys):
    numbers = {f"p{n:03d}": 5000 + 10 * n for n in range(24)}
    with open(files[1], "w", newline="") as file:
        csv.writer(file).writerows([("id", "outcome"), *numbers.items()])
    figures = run(files, "--epochs", "1", "--output", str(tmp_path / "out"))
    assert "24 different numbers: regression (or give --task class" in capsys.readouterr().out
    with open(tmp_path / "out" / "predictions.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    outcome, predicted, std = (
        np.array([float(row[key]) for row in rows]) for key in ("outcome", "predicted", "std")
    )
    assert [numbers[row["id"]] for row in rows] == outcome.tolist() and len(rows) == 6
    # After one step it is as wrong as the outcomes spread, by 70, and says so.
    assert np.all(np.abs(predicted - 5115) < 300)
    assert np.all((std > 7) & (std < 700))
    rmse = np.sqrt(np.mean((outcome - predicted) ** 2))
    assert figures["rmse"] == pytest.approx(rmse, rel=1e-4)  # six digits are written


@pytest.mark.parametrize(
    "outcomes, wanted, task",
    [
        (["ill", "well"], None, "classification"),
        (["0", "1", "1"], None, "classification"),
        (["0", "1", "1"], "regression", "regression"),
        ([f"{n}.5" for n in range(11)], None, "regression"),
        ([f"{n}.5" for n in range(11)], "classification", "classification"),
        (["1", "ill"], "classification", "classification"),
        (["1", "ill"], None, "the outcome of 'p1' is 'ill', not a number: drop it"),
        (["1", "nan"], "regression", "the outcome of 'p1' is 'nan', not a number: drop it"),
    ],
)
def test_the_task_is_read_from_the_outcomes(outcomes, wanted, task):
    outcomes = {f"p{n}": outcome for n, outcome in enumerate(outcomes)}
    if task.endswith("ion"):
        assert time_series_tables.read_task(outcomes, wanted) == task
    else:
        with pytest.raises(SystemExit, match=task):
            time_series_tables.read_task(outcomes, wanted)


def test_units_of_readings_do_not_matter(files, tmp_path):
    """Where float32 has no squares of the readings, either."""
    first = run(files, "--epochs", "1", "--output", str(tmp_path / "one"))
    rows = list(csv.reader(files[0].open(newline="")))
    with files[0].open("w", newline="") as file:
        csv.writer(file).writerows(
            [rows[0], *([*row[:3], float(row[3]) * 1e25] for row in rows[1:])]
        )
    second = run(files, "--epochs", "1", "--output", str(tmp_path / "other"))
    assert second["nll"] == pytest.approx(first["nll"], rel=1e-3)  # three digits are printed


def test_readings_of_one_time_are_averaged():
    records = {"a": [(2.0, "x", 1.0), (1.0, "y", 5.0), (2.0, "x", 3.0)]}
    x = example.arrays(records, ["a", "b"], ["x", "y"])
    np.testing.assert_array_equal(x["points"][0, :, 0], [1.0, 2.0])
    np.testing.assert_array_equal(x["values"][0], [[0.0, 5.0], [2.0, 0.0]])
    np.testing.assert_array_equal(np.isfinite(x["variance"][0]), [[False, True], [True, False]])
    assert np.all(np.isinf(x["variance"][1]))


@pytest.mark.parametrize(
    "which, old, new, message",
    [
        (0, "id,time", "id,hour", r"series.csv: found the columns .*, without time"),
        (0, "p001,", "p001,late", r"series.csv, line \d+: time is 'late.*give a number"),
        (
            0,
            "p001,",
            "p001,2024-05-01T",
            r"time is '2024.*with pandas, .*dt.total_seconds\(\) / 3600",
        ),
        (0, "pulse,", "pulse,nan", r"line 2: value is 'nan.*leave out readings that failed"),
        (0, ",pulse,", ",,", r"series.csv, line 2: variable is empty"),
        (1, "p003,", "p002,", r"outcomes.csv, line 5: a second outcome of 'p002'"),
        (
            1,
            "p003,",
            "q003,",
            r"no outcome for 1 records of the series, such as 'p003'.*with --model",
        ),
        (1, "well", "ill", r"all outcomes are 'ill'"),
    ],
)
def test_malformed_files_are_named(files, which, old, new, message):
    text = files[which].read_text()
    count = -1 if old == "well" else 1
    files[which].write_text(text.replace(old, new, count))
    with pytest.raises(SystemExit, match=message):
        run(files)


def test_files_that_are_not_there(files, tmp_path):
    with pytest.raises(SystemExit, match="cannot read .*none.csv"):
        run((tmp_path / "none.csv", files[1]))
    with pytest.raises(SystemExit, match="give --series and --outcomes, or neither"):
        example.main(["--series", "x"])
    files[1].write_text("id,outcome\n")
    with pytest.raises(SystemExit, match="outcomes.csv has no rows"):
        run(files)


def many_variables(tmp_path):
    """Epoch seconds on different days, seven variables."""
    rng = np.random.default_rng(0)
    rows = [
        (f"m{record}", 1.7e9 + 86400.0 * record + 60.0 * minute, f"v{variable}", rng.normal())
        for record in range(16)
        for variable in range(7)
        for minute in rng.integers(600, size=4)
    ]
    outcomes = [(f"m{record}", "ab"[record % 2]) for record in range(16)]
    paths = tmp_path / "series.csv", tmp_path / "outcomes.csv"
    headers = ("id", "time", "variable", "value"), ("id", "outcome")
    for path, header, table in zip(paths, headers, (rows, outcomes), strict=True):
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows([header, *table])
    return paths


def test_many_variables_and_records_without_a_common_clock(tmp_path, capsys):
    files = many_variables(tmp_path)
    advice = "same in float32.*; --from-start counts each .* or subtract .* such as 17000"
    with pytest.raises(SystemExit, match=advice):
        run(files)
    options = "--epochs", "1", "--output", str(tmp_path / "out")
    run(files, *options, "--from-start")
    assert (tmp_path / "out" / "fits.png").read_bytes().startswith(b"\x89PNG")
    model = keras.models.load_model(tmp_path / "out" / "model.keras")
    assert model.get_config()["in_channels"] == 7
    start, end = model.get_config()["pooling"]
    assert start == 0.0 and end < 36000.0
    about = json.loads((tmp_path / "out" / "about.json").read_text())
    assert about["from_start"] and about["task"] == "classification"
    assert about["box"] == [start, end] and about["classes"] == ["a", "b"]
    assert "give --from-start" not in capsys.readouterr().out


def test_times_that_are_spoken_of(capsys):
    # Of two variables read at one time, a record has no length that says anything.
    once = {f"r{n}": [(5.0, "x", 1.0), (5.0, "y", 1.0)] for n in range(9)}
    records = {**once, "long": [(0.0, "x", 1.0), (60.0, "x", 1.0)]}
    time_series_tables.report_times(records, (0.0, 100.0), False)
    assert capsys.readouterr().out == ""
    time_series_tables.report_times(records, (0.0, 700.0), True)
    printed = capsys.readouterr().out
    assert "a typical record is 60 long" in printed and "--box" in printed
    assert "--from-start" not in printed  # which has been given
    time_series_tables.report_outside(records, (0.0, 50.0))
    assert "1 of 20 readings (5.0%) lie outside 0 to 50" in capsys.readouterr().out
    # Counted as the model does, which takes float32.
    end = float(np.float32(0.7))  # less than 0.7
    time_series_tables.report_outside({"a": [(0.7, "x", 1.0)]}, (0.0, end))
    assert capsys.readouterr().out == ""


def test_records_too_long_for_float32(tmp_path, files):
    rows = [("p000", 1e9 + second, "pulse", 1.0) for second in range(99)]
    with open(files[0], "a", newline="") as file:
        csv.writer(file).writerows(rows)
    with pytest.raises(SystemExit, match="in float32.*; leave out readings long after"):
        run(files, "--from-start")
    write = (tmp_path / "about.json").write_text
    write(json.dumps({"from_start": False}))
    keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]).save(tmp_path / "model.keras")
    new = ["--model", str(tmp_path), "--series", str(files[0]), "--output", str(tmp_path / "new")]
    with pytest.raises(SystemExit, match="in float32.*; count times as in the series of the train"):
        example.main(new)


@pytest.mark.parametrize("box", [("5", "0"), ("1", "1"), ("0", "inf"), ("nan", "1")])
def test_a_box_without_length(files, box):
    with pytest.raises(SystemExit, match="--box is .*give START before END, both finite"):
        run(files, "--box", *box)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_predicts_for_records_without_outcome(files, tmp_path, capsys, task):
    if task == "regression":
        numbers = {f"p{n:03d}": 5000 + 10 * n for n in range(24)}
        with open(files[1], "w", newline="") as file:
            csv.writer(file).writerows([("id", "outcome"), *numbers.items()])
    trained, new = tmp_path / "trained", tmp_path / "new"
    run(files, "--epochs", "1", "--output", str(trained), "--task", task, "--from-start")
    arguments = ["--model", str(trained), "--output", str(new), "--series"]
    example.main([*arguments, str(files[0])])
    with open(new / "predictions.csv", newline="") as file:
        found = {row["id"]: row for row in csv.DictReader(file)}
    assert len(found) == 23  # one has no readings
    with open(trained / "predictions.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows
    for row in rows:
        if row["id"] not in found:
            continue
        assert found[row["id"]].pop("outcome") == "" and row.pop("outcome")
        for key, text in row.items():
            wanted = text if key == "id" or text.isalpha() else pytest.approx(float(text), rel=1e-4)
            got = found[row["id"]][key]
            assert (got if isinstance(wanted, str) else float(got)) == wanted
    assert (new / "fits.png").read_bytes().startswith(b"\x89PNG")

    later = tmp_path / "later.csv"
    later.write_text("id,time,variable,value\nq,0,pulse,80\nq,1000,pulse,90\n")
    capsys.readouterr()
    example.main([*arguments, str(later)])
    printed = capsys.readouterr().out
    assert "1 of 2 readings (50.0%) lie outside 0 to" in printed
    assert "has no readings of lactate, temperature" in printed
    later.write_text("id,time,variable,value\nq,0,height,180\nq,0,age,70\nq,1,pulse,80\n")
    with pytest.raises(
        SystemExit, match="readings of 'age', 'height'; the model knows lactate, pulse, t"
    ):
        example.main([*arguments, str(later)])
    for option in (["--task", task], ["--box", "0", "1"], ["--from-start"]):
        with pytest.raises(SystemExit, match=f"as it was trained: leave out {option[0]}"):
            example.main([*arguments, str(later), *option])
    before = (trained / "predictions.csv").read_bytes()
    with pytest.raises(SystemExit, match="--output is .*give another folder"):
        example.main(["--model", str(trained), "--series", str(files[0]), "--output", str(trained)])
    assert (trained / "predictions.csv").read_bytes() == before
    with pytest.raises(SystemExit, match="--model .*give the --output of a training run"):
        example.main(["--model", str(tmp_path / "no"), "--series", str(later)])
    with pytest.raises(SystemExit, match="--model predicts: give --series"):
        example.main(["--model", str(trained)])


def test_a_program_of_ones_own_predicts_changed_records():
    records, outcomes = example.make_up(24, "regression")
    part, test, about = example.prepare(records, outcomes)
    assert len(part.ids) == 18 and len(test.ids) == 6
    assert test.outcomes == [outcomes[name] for name in test.ids]
    keras.utils.set_random_seed(0)
    model = example.fit_numbers(part, about["box"], epochs=1)
    weights = model.get_weights()
    mean, deviation = example.predict_numbers(model, test.x)
    found = example.measure_numbers(model, part, test)["rmse"]
    wrong = mean - np.array(test.outcomes, "float64")
    assert found == pytest.approx(np.sqrt(np.mean(wrong**2)), rel=1e-4)  # float32

    # Without most of its readings a record is predicted otherwise, in the same unit.
    changed = {**records, test.ids[0]: records[test.ids[0]][:2]}
    other, other_deviation = example.predict_numbers(
        model, example.inputs(changed, test.ids, about)
    )
    assert abs(other[0] - mean[0]) > 1e-3
    np.testing.assert_allclose(other[1:], mean[1:], rtol=1e-3)  # padded otherwise
    days = np.array(list(outcomes.values()), "float64")
    assert np.all(np.abs(other - days.mean()) < 5 * days.std())
    assert np.all((other_deviation > 0.1 * days.std()) & (deviation > 0.1 * days.std()))
    for before, after in zip(weights, model.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)


def test_a_class_that_only_test_records_have():
    records, outcomes = example.make_up(24)
    last = example.prepare(records, outcomes)[1].ids[-1]
    part, _, about = example.prepare(records, outcomes | {last: "other"})
    classes = ["ill", "other", "well"]
    with pytest.raises(
        SystemExit, match="too few to train 3 classes: none is 'other'; add records"
    ):
        example.fit_classes(part, classes, about["box"], 1)


def test_a_variable_that_only_test_records_have():
    records, outcomes = example.make_up(24)
    name = example.prepare(records, outcomes)[1].ids[0]
    with pytest.raises(SystemExit, match="'height' is not read in the training records; drop"):
        example.prepare({**records, name: [(0.0, "height", 180.0)]}, outcomes)


def test_seven_variables_are_drawn_as_six():
    records = {"a": [(float(n), f"v{n}", 10.0 * n) for n in range(7)]}
    names = [f"v{n}" for n in range(7)]
    about = {"variables": names, "mean": np.zeros(7), "std": np.arange(1.0, 8.0)}
    x = example.inputs(records, ["a"], about)
    model = example.build({"num_classes": 2}, 7, (0.0, 6.0))
    model.adapt(x)
    scale = about["mean"], about["std"]
    figure = time_series_fits.draw(model, x, ["a"], names, scale, (0.0, 6.0))
    assert [panel.get_ylabel() for panel in figure.axes] == names[:6]
    assert figure.axes[-1].get_xlabel() == "time"
    assert "two standard deviations, without the noise" in figure.get_suptitle()
    assert "6 of 7 variables" in figure.get_suptitle()
    fit = model.input_process(x, np.array([[[5.0]]], "float32"))
    curve = figure.axes[5].lines[0]
    drawn = np.interp(5.0, curve.get_xdata(), curve.get_ydata())
    assert drawn == pytest.approx(float(fit.mean()[0, 5, 0]) * 6.0, rel=0.02, abs=0.02)
    assert figure.axes[5].lines[1].get_ydata() == pytest.approx([50.0], rel=1e-5)


def test_an_input_in_the_output_folder_is_not_replaced(files, tmp_path):
    path = files[0].rename(tmp_path / "predictions.csv")
    before = path.read_bytes()
    with pytest.raises(SystemExit, match="--output .* would replace .*predictions.csv"):
        run((path, files[1]), "--output", str(tmp_path))
    assert path.read_bytes() == before
