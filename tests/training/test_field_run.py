"""Runs of field models: training does not leave a model that is worse than kriging."""

import importlib.util

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import tfpn
from tfpn.training import run
from tfpn.training.tasks import task_of


def series(folder):
    """A series as a data set, and a model for it."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"t": np.arange(40.0), "v": np.sin(np.arange(40) / 4)})
    frame["v"] += 0.1 * rng.normal(size=40)
    frame.to_csv(folder / "table.csv", index=False)
    data = tfpn.datasets.table(folder / "table.csv", ["v"], time="t")
    model = tfpn.models.PNCNN(
        None, num_outputs=1, output="field", spatial_dim=1, channels=2, num_blocks=1
    )
    return data, model


@pytest.mark.parametrize("better", [False, True])
def test_a_run_keeps_kriging_unless_training_helps(better, tmp_path, capsys):
    data, model = series(tmp_path)
    task = task_of(data)
    task.adapt(model, data, 0)
    kriging = model.get_weights()
    noise = model._field.kriging.log_observation_noise
    good = np.asarray(noise)
    if better:  # as if kriging had begun with too much noise
        noise.assign(good + 3.0)
        task._start = model.get_weights()
    noise.assign(good if better else good - 6.0)
    task.finish(model, data, 50)
    for weight, other in zip(model.get_weights(), kriging, strict=True):
        np.testing.assert_array_equal(weight, other)
    assert ("the model is the one before training" in capsys.readouterr().err) is not better


def test_a_run_without_matplotlib_writes_the_field(tmp_path, monkeypatch, capsys):
    data, model = series(tmp_path)
    task_of(data).adapt(model, data, 0)
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "matplotlib" else find(name, *rest),
    )
    run._draw(tmp_path, model, data, None)
    assert "install 'tfpn[plots]'" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"table.csv", "series.nc"}
    found = xr.load_dataset(tmp_path / "series.nc", engine="scipy")
    assert dict(found.sizes) == {"t": 400} and bool((found["v_std"] > 0.0).all())
