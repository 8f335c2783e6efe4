"""The functions of the example of weather stations, on synthetic temperatures."""

import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
import station_months as data
import station_temperatures as example

YEARS = np.arange(1960, 1992)
SLOPE = np.array([0.5, -0.3])  # of the made anomalies, in degrees per 100 km


def made(rng, stations=40, noise=0.0, missing=0.1):
    """lonlat, years and temperatures [Y, 12, S]: a plane that changes its sign each year."""
    lonlat = np.array([-106.0, 39.0]) + rng.uniform(-2, 2, size=(stations, 2))
    plane = data.project(lonlat) @ SLOPE
    sign = np.where(YEARS % 2 == 0, 1.0, -1.0)
    seasons = 10 * np.sin(np.arange(12)[:, None])
    temperature = 8.0 + seasons + sign[:, None, None] * plane + np.zeros((len(YEARS), 12, stations))
    temperature += noise * rng.normal(size=temperature.shape)
    temperature[rng.uniform(size=temperature.shape) < missing] = np.nan
    return lonlat, YEARS, temperature


@pytest.fixture(scope="module")
def months():
    return data.to_months(*made(np.random.default_rng(0), missing=0.0))


def test_the_map_is_in_units_of_100_km():
    points = data.project(np.array([[-106.0, 38.5], [-106.0, 39.5], [-105.0, 39.0]]))
    assert np.linalg.norm(points[1] - points[0]) == pytest.approx(1.1119, rel=1e-3)
    east = points[2] - 0.5 * (points[0] + points[1])
    np.testing.assert_allclose(east, [1.1119 * np.cos(np.radians(39.0)), 0.0], rtol=1e-3, atol=1e-9)


def test_anomalies_are_departures_from_the_training_years(months):
    training = months.between(data.TRAIN)
    np.testing.assert_allclose(training.values.mean(axis=0), 0.0, atol=1e-12)
    degrees = training.values * training.scale[:, None]
    sign = np.where(training.year % 2 == 0, 1.0, -1.0)
    np.testing.assert_allclose(degrees, sign[:, None] * (months.points @ SLOPE), atol=1e-9)


def test_stations_without_means_are_left_out():
    lonlat, years, temperature = made(np.random.default_rng(1), missing=0.0)
    temperature[5:, 3, 7] = np.nan
    assert data.to_months(lonlat, years, temperature).values.shape == (12 * len(YEARS), 39)
    with pytest.raises(ValueError, match="temperature: 10 stations"):
        data.to_months(lonlat[:10], years, made(np.random.default_rng(1), 10, missing=0.0)[2])


def test_slopes_of_a_plane_are_exact_and_turn_with_the_map(months):
    points, value = months.points, 3.0 + months.points @ SLOPE
    found = data.slope_weights(points, points) @ value
    assert np.isfinite(found).any()
    np.testing.assert_allclose(found[np.isfinite(found[:, 0])] - SLOPE, 0.0, atol=1e-12)
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    noisy = value + np.random.default_rng(2).normal(size=len(points))
    upright = data.slope_weights(points, points) @ noisy
    turned = data.slope_weights(points @ turn.T, points @ turn.T) @ noisy
    np.testing.assert_allclose(turned, upright @ turn.T, atol=1e-12)


def test_hidden_stations_are_in_no_training_task(months):
    known, hidden = data.split_stations(len(months.points))
    assert sorted([*known, *hidden]) == list(range(len(months.points)))
    tasks = data.training_tasks(months, known, 2, np.random.default_rng(3))
    assert len(tasks) == 2 * len(months.values)
    for task in tasks:
        assert not set(task.seen) & set(task.asked)
        assert not {*task.seen, *task.asked} & set(hidden)


def test_arrays_hold_what_was_reported():
    months = data.to_months(*made(np.random.default_rng(4), stations=60))
    known, hidden = data.split_stations(len(months.points))
    tasks = data.hidden_tasks(months, known, hidden)[:3]
    x, targets = example.arrays(months, tasks)
    for row, task in enumerate(tasks):
        assert np.isfinite(x["variance"][row]).sum() == len(task.seen) < len(known)
        values = x["values"][row, : len(task.seen), 0] + task.level
        np.testing.assert_allclose(values, months.values[task.month, task.seen], rtol=1e-5)
        truth = targets[row, : len(task.asked), 0] + task.level
        np.testing.assert_allclose(truth, months.values[task.month, task.asked], rtol=1e-5)
        assert np.isnan(targets[row, len(task.asked) :]).all()


def test_missing_targets_do_not_count():
    truth = np.array([[[1.0, np.nan, 2.0], [np.nan] * 3]], "float32")
    found = example.observed_error(truth, np.zeros((1, 2, 3), "float32"))
    np.testing.assert_allclose(found, [[5.0 / 3.0, 0.0]], rtol=1e-6)


def test_kriging_is_calibrated_and_beats_the_simple_baselines():
    rng = np.random.default_rng(5)
    months = data.to_months(*made(rng, stations=80, noise=0.1))
    known, hidden = data.split_stations(len(months.points))
    some = rng.permutation(data.training_tasks(months.between(data.TRAIN), known, 1, rng))[:5]
    process = example.kriging(months, some)
    test = months.between(data.TEST)
    tasks = data.hidden_tasks(test, known, hidden)[:20]
    plain = [example.baselines(test, task, process) for task in tasks]
    errors = {
        name: example.scores(test, tasks, [task[name] for task in plain]) for name in plain[0]
    }
    for part in range(2):
        rmse = [found[part]["rmse"] for found in errors.values()]
        assert rmse[2] < rmse[1] < rmse[0]
    assert errors["kriging"][0]["spread"] == pytest.approx(1.0, abs=0.2)


@pytest.fixture(scope="module")
def network():
    import tfpn

    return tfpn.models.SteerablePNCNN(
        None, out_fields=example.FIELDS, copies=1, frequencies=(0, 1), num_blocks=1, seed=0
    )


def test_answers_turn_with_the_map(months, network, tmp_path):
    known, hidden = data.split_stations(len(months.points))
    test = months.between((1990, 1991))
    tasks = data.hidden_tasks(test, known, hidden)[:2]
    x, targets = example.arrays(test, tasks)
    network.adapt(x)
    upright = network.predict(x, verbose=0)
    quarter = network.predict(example.turned(x, np.pi / 2), verbose=0)
    expected = np.stack([upright[..., 0], -upright[..., 2], upright[..., 1]], axis=-1)
    np.testing.assert_allclose(quarter, expected, atol=1e-4)

    network.calibrate(x, targets)
    predictions = example.network_predictions(network, x, tasks)
    for part in example.scores(test, tasks, predictions):
        assert part["spread"] == pytest.approx(1.0, abs=0.1)
    example.draw(test, tasks[0], network, 1.0, tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 10000


def test_missing_data_are_named(tmp_path, capsys):
    with pytest.raises(SystemExit):
        example.parse(["--data-dir", str(tmp_path)])
    assert "--data-dir: there is no file" in capsys.readouterr().err
    np.savez(tmp_path / "co_monthly_met.npz", lonlat=np.zeros((2, 2)), years=[1990])
    with pytest.raises(ValueError, match="lacks the arrays tmax, tmin"):
        data.read_months(tmp_path / "co_monthly_met.npz")
