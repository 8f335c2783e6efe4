import csv

import numpy as np
import pytest

from benchmarks.calibration import run as calibration
from benchmarks.calibration import truth


def options(*arguments):
    return calibration.parse(["--quick", *arguments])


@pytest.mark.parametrize("dim", [1, 2])
def test_sampled_functions_have_the_rbf_covariance(dim):
    rng = np.random.default_rng(0)
    functions = truth.sample_functions(rng, 4000 // 10 ** (dim - 1), dim, 0.3, margin=0.0)
    points = np.zeros((len(functions.values), 2, dim)) + 0.2
    points[:, 1, 0] += 0.3
    products = np.prod(truth.values_at(functions, points)[..., 0], axis=1)
    error = products.std() / np.sqrt(len(products))
    assert abs(products.mean() - np.exp(-0.5)) < 4 * error


def test_a_flow_of_a_lattice_is_the_flow_in_closed_form():
    rng = np.random.default_rng(1)
    functions = truth.sample_functions(rng, 2, 2, 0.3, margin=0.6)
    axis = np.arange(-0.6, 1.6, 0.03)
    zero = np.zeros(2)
    lattice = truth.Field(functions.flow_on(axis, zero, zero), axis)
    points = rng.uniform(size=(2, 5, 2))
    flow = np.array([0.1, -0.05]), np.array([0.01, 0.006])
    np.testing.assert_allclose(
        lattice.flow_at(points, *flow), functions.flow_at(points, *flow), atol=1e-4
    )


def test_exact_features_are_the_networks_own_on_a_dense_lattice():
    network = calibration.Network(
        2, dim=1, channels=4, blocks=2, basis=3, spacing=0.1, dtype="float64"
    )
    rng = np.random.default_rng(2)
    functions = truth.sample_functions(rng, 2, 1, 0.1, truth.margin_of(network.blocks))
    dense = np.tile(np.arange(-1.0, 2.0, 0.01)[None, :, None], (2, 1, 1))
    x = {"points": dense, "values": truth.values_at(functions, dense)}
    x["variance"] = np.zeros_like(x["values"])
    # A short length scale, as a lattice this dense needs; the flows do not depend on it.
    for convolution, _ in network.layers:
        convolution.log_length_scale.assign(np.log(0.015))
    found = calibration.predict(network, calibration.Variant("none"), x)
    inside = slice(100, 201)
    expected = truth.exact_features(network.blocks, functions, dense[:, inside], step=0.0025)
    for (mean, _), features in zip(found, expected, strict=True):
        np.testing.assert_allclose(mean[:, inside], features, atol=2e-3)


def test_exact_features_converge_in_the_step():
    network = calibration.Network(
        3, dim=1, channels=4, blocks=3, basis=3, spacing=0.1, dtype="float32"
    )
    rng = np.random.default_rng(3)
    functions = truth.sample_functions(rng, 2, 1, 0.1, truth.margin_of(network.blocks))
    points = rng.uniform(size=(2, 20, 1))
    coarse, middle, fine = (
        truth.exact_features(network.blocks, functions, points, step)[-1]
        for step in (0.0125, 0.00625, 0.003125)
    )
    assert np.abs(middle - fine).max() < 2e-3
    assert np.sqrt(np.mean((middle - fine) ** 2)) < 0.5 * np.sqrt(np.mean((coarse - middle) ** 2))


@pytest.mark.parametrize("mode", ["diagonal", "low_rank", "joint", "draws"])
def test_a_linear_layer_is_calibrated(mode):
    """Flows and their mixing, without rectifier: the residuals are exactly Gaussian."""
    given = options("--functions", "60", "--points", "12")
    given.functions = 60
    sample = calibration.draw_sample(given, 12, seed=4)
    variant = calibration.Variant(mode, rank=256 if mode == "draws" else 4)
    convolution = sample.network.in_mode(variant)[0][0]
    y = convolution({key: value.astype("float32") for key, value in sample.x.items()})
    block = sample.network.blocks[0]
    flows = [sample.functions.flow_at(sample.x["points"], *flow) for flow in block.flows]
    exact = sum(flow @ weights for flow, weights in zip(flows, block.weights, strict=True))
    deviations = np.sqrt(y["variance"])
    row = calibration.summary((exact + block.bias - y["values"])[None], deviations[None])
    assert row["standard_error"] < 0.1
    assert abs(row["spread"] - 1.0) < 3 * row["standard_error"]
    wrong = calibration.summary((exact + block.bias - y["values"])[None], 0.6 * deviations[None])
    assert abs(wrong["spread"] - 1.0) > 3 * wrong["standard_error"]


def test_posterior_functions_have_the_posteriors_mean_and_variance():
    rng = np.random.default_rng(5)
    functions = truth.sample_functions(rng, 1, 1, 0.2, margin=0.1)
    points = rng.uniform(size=(1, 6, 1))
    observed = truth.values_at(functions, points) + 0.3 * rng.standard_normal((1, 6, 1))
    samples = truth.posterior_functions(rng, functions, points, observed, 0.3, count=4000)
    found = truth.values_at(samples, np.full((4000, 1, 1), 0.5))[:, 0, 0]

    def kernel(a, b):
        return np.exp(-((a[:, None] - b) ** 2) / (2 * 0.2**2))

    x = points[0, :, 0]
    solved = np.linalg.solve(kernel(x, x) + 0.09 * np.eye(6), kernel(x, np.array([0.5])))[:, 0]
    mean = solved @ observed[0, :, 0]
    variance = 1.0 - solved @ kernel(x, np.array([0.5]))[:, 0]
    assert abs(found.mean() - mean) < 4 * np.sqrt(variance / 4000)
    assert found.var() == pytest.approx(variance, rel=4 * np.sqrt(2 / 4000))


def test_the_program_writes_a_table_and_a_figure_and_computes_rows_once(tmp_path, capsys):
    arguments = ["--quick", "--only", "diagonal", "--output", str(tmp_path)]
    calibration.main(arguments)
    calibration.main(arguments)
    with (tmp_path / "modes-1d-quick.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["layer"] for row in rows] == ["1", "2", "3"]
    assert all(0.2 < float(row["spread"]) < 5 for row in rows)
    assert (tmp_path / "modes-1d-quick.png").stat().st_size > 1000
    assert "| 10 | diagonal |" in capsys.readouterr().out


def test_a_variant_changes_the_later_layers_only():
    given = options()
    sample = calibration.draw_sample(given, 10, seed=6)
    plain = calibration.predict(sample.network, calibration.Variant("low_rank", 4), sample.x)
    for changes in ({"drawn": 4}, {"length": 0.7}, {"nugget": 0.1}, {"centred": True}):
        variant = calibration.Variant("low_rank", 4, **changes)
        changed = calibration.predict(sample.network, variant, sample.x)
        np.testing.assert_array_equal(changed[0][0], plain[0][0])
        assert np.abs(changed[2][1] - plain[2][1]).max() > 1e-3, changes
