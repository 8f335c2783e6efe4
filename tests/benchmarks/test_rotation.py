import csv
import tomllib

import keras
import numpy as np
import pytest

import tfpn
from benchmarks.rotation import run as rotation
from benchmarks.tables import read_rows

pytestmark = pytest.mark.usefixtures("all_eagerly")  # one step does not pay for tracing

TINY = ("--images", "12", "--test-images", "6", "--epochs", "1", "--blocks", "1", "--copies", "3")


@pytest.fixture
def few_digits(monkeypatch):
    """Random superpixels in place of the data set."""

    def load(**_):
        rng = np.random.default_rng(0)
        points = [rng.uniform(size=(20, 2)) for _ in range(12)]
        x = tfpn.observations(points, [rng.normal(size=20) for _ in range(12)])
        x["variance"][:, -3:] = np.inf
        part = tfpn.datasets.Part(
            {k: v.astype("float32") for k, v in x.items()}, np.arange(12) % 10
        )
        return tfpn.datasets.Dataset(part, None, part, name="random", description="random")

    monkeypatch.setattr(tfpn.datasets, "superpixel_mnist", load)


def test_turning_is_about_the_centre_and_leaves_padding():
    x = tfpn.observations([[[0.5, 0.5], [1.0, 0.5], [0.3, 0.3]]], [[1.0, 2.0, np.nan]])
    found = rotation.turned(x, 90.0)["points"][0]
    np.testing.assert_allclose(found, [[0.5, 0.5], [0.5, 1.0], [0.3, 0.3]], atol=1e-6)


def test_channels_are_matched():
    wanted = rotation.parameters(tfpn.models.PNCNN(10, channels=7, num_blocks=1))
    assert rotation.matched_channels(wanted + 10, blocks=1) == 7


def test_logits_of_the_steerable_network_alone_stay_as_they_are(few_digits):
    options = rotation.parse(["--data-dir", ".", *TINY])
    options.channels = 3
    data = rotation.load(options)
    change = {}
    keras.utils.set_random_seed(0)
    for name in rotation.MODELS:
        model = rotation.build(name, options, seed=0)
        model.adapt(data["train"][0])
        upright, turned = rotation.test(model, *data["test"], [0.0, 100.0])
        assert float(upright["logit_change"]) == 0.0
        change[name] = float(turned["logit_change"]) / turned["largest_logit"]
    # White noise that is read exactly, the hardest case for float32: 2e-6 to 8e-6 over five seeds.
    assert change["SteerablePNCNN"] < 1e-5 < 1e-2 < change["PNCNN"]


def test_the_program_writes_a_table_and_a_figure_and_trains_once(
    few_digits, tmp_path, capsys, monkeypatch
):
    def small(name, options, seed):
        return tfpn.models.PNCNN(10, channels=2, num_basis=2, num_blocks=1)

    monkeypatch.setattr(rotation, "build", small)
    arguments = ["--data-dir", ".", "--output", str(tmp_path), "--angles", "3", *TINY]
    arguments += ["--trainings", "turned", "--seeds", "0"]
    rotation.main(arguments)
    with (tmp_path / "log.csv").open(newline="") as file:
        log = list(csv.DictReader(file))
    assert [(row["model"], row["epoch"]) for row in log] == [(one, "1") for one in rotation.MODELS]
    assert all(float(row["learning_rate"]) == 3e-3 for row in log)
    # With one epoch, the error after it is that of the test at the upright angle.
    upright = [row for row in read_rows(tmp_path / "rotation.csv") if row["angle"] == "0.0"]
    for ended, tested in zip(log, upright, strict=True):
        assert float(ended["test_error"]) == pytest.approx(float(tested["error"]), abs=1e-4)
    recipe = tomllib.loads((tmp_path / "recipe.toml").read_text())
    assert recipe["options"]["trainings"] == ["turned"]
    assert recipe["versions"]["tfpn"] == tfpn.__version__

    before = {file: (tmp_path / file).read_text() for file in ("rotation.csv", "log.csv")}
    # As a network leaves the log that is interrupted.
    with (tmp_path / "log.csv").open("a") as file:
        file.write("PNCNN,upright,0,1,9,9,9,9,9\n")
    rotation.main(arguments)
    assert {file: (tmp_path / file).read_text() for file in before} == before
    with (tmp_path / "rotation.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["model"], row["angle"]) for row in rows] == [
        (model, angle) for model in rotation.MODELS for angle in ("0.0", "120.0", "240.0")
    ]
    assert (tmp_path / "rotation.png").stat().st_size > 1000
    assert "| SteerablePNCNN | turned |" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="epochs=1"):
        rotation.main([*arguments, "--epochs", "2"])


def test_the_table_has_mean_and_spread_over_seeds():
    rows = [
        {
            **{"model": "PNCNN", "training": "upright", "seed": seed, "angle": angle},
            **{"error": error, "parameters": "5", "logit_change": "1e0", "largest_logit": "9"},
        }
        for seed, errors in ((0, (0.1, 0.5)), (1, (0.2, 0.6)))
        for angle, error in zip((0.0, 180.0), errors, strict=True)
    ]
    line = rotation.table(rows).splitlines()[-1]
    assert line == "| PNCNN | upright | 5 | 15.0 ± 7.1 | 35.0 ± 7.1 | 55.0 ± 7.1 | 1.0e+00 of 9 |"


def test_bad_numbers_name_the_option(capsys):
    with pytest.raises(SystemExit):
        rotation.parse(["--data-dir", ".", "--angles", "0"])
    assert "--angles: found 0" in capsys.readouterr().err
