"""The integral of a GP against numerical quadrature and Monte Carlo of the GP."""

import numpy as np
import pytest
import scipy.integrate
from layer_harness import CASES, make_input

from tfpn.layers import IntegralPooling


def line_input(rng):
    points = np.sort(rng.uniform(size=(1, 7, 1)), axis=1)
    values = np.sin(5 * points)
    return {"points": points, "values": values, "variance": np.full(values.shape, 0.02)}


def posterior(layer, x, where):
    """Posterior mean and covariance of the one example and channel at points [M]."""
    signal_std = np.exp(float(layer.log_signal_std))
    length = np.exp(float(layer.log_length_scale))
    points = x["points"][0, :, 0]

    def kernel(a, b):
        return signal_std**2 * np.exp(-((a[:, None] - b) ** 2) / (2 * length**2))

    gram = kernel(points, points) + np.diag(x["variance"][0, :, 0])
    cross = kernel(where, points)
    mean = cross @ np.linalg.solve(gram, x["values"][0, :, 0])
    return mean, kernel(where, where) - cross @ np.linalg.solve(gram, cross.T)


@pytest.mark.parametrize("box", [None, (-0.2, 0.9)])
def test_mean_is_the_integral_of_the_posterior_mean(box):
    x = line_input(np.random.default_rng(0))
    layer = IntegralPooling(box=box, length_scale=0.2, signal_std=1.3, dtype="float64")
    output = layer(x)
    # Beyond 10 length scales of the points the posterior mean is below 1e-20.
    low, high = box or (-2.0, 3.0)
    expected, error = scipy.integrate.quad(
        lambda t: posterior(layer, x, np.array([t]))[0][0],
        low,
        high,
        epsabs=1e-11,
        epsrel=1e-11,  # of the integral; its default would stop at 1.5e-8
        limit=200,
        points=np.linspace(0.0, 0.9, 4),
    )
    assert error < 1e-9
    assert float(output["values"][0, 0]) == pytest.approx(expected, abs=1e-9)
    if box is None:
        assert np.isposinf(output["variance"][0, 0])


def test_variance_over_a_box_against_samples_of_the_gp():
    rng = np.random.default_rng(1)
    x = line_input(rng)
    layer = IntegralPooling(box=(-0.2, 0.9), length_scale=0.2, dtype="float64")
    output = layer(x)
    nodes, weights = np.polynomial.legendre.leggauss(40)  # exact to rounding at 5 length scales
    nodes, weights = 0.35 + 0.55 * nodes, 0.55 * weights
    mean, covariance = posterior(layer, x, nodes)
    root = np.linalg.cholesky(covariance + 1e-10 * np.eye(40))
    count = 100_000
    integrals = (mean + rng.normal(size=(count, 40)) @ root.T) @ weights
    error = integrals.std() / np.sqrt(count)
    assert abs(float(output["values"][0, 0]) - integrals.mean()) < 4 * error
    variance = float(output["variance"][0, 0])
    # The sample variance of normal variables has the relative standard error sqrt(2 / count).
    assert abs(variance - integrals.var()) < 4 * variance * np.sqrt(2 / count)


def test_without_observation_it_is_the_priors_integral():
    x = make_input()
    box = CASES["pool_box"].built(x)
    output = box(x)
    empty = {key: value[2:] for key, value in x.items()}
    assert (np.asarray(output["values"])[2] == 0).all()
    np.testing.assert_allclose(output["variance"][2:], box(empty)["variance"], rtol=1e-14)
    assert (np.asarray(output["variance"])[2] > np.asarray(output["variance"])[:2].max(0)).all()


@pytest.mark.parametrize(
    "box",
    [
        *((1.0, 0.0), (0.0, 0.0), (0.0, 1.0, 2.0), ([0.0, 1.0], [1.0, 1.0]), (np.nan, 1.0)),
        *(0.5, ("a", "b"), "ab", (0.0, np.inf), (-np.inf, 0.0), ([[0.0]], [[1.0]])),
        ([0.0, 0.0], [1.0, 1.0, 1.0]),
    ],
    ids=str,
)
def test_bad_box(box):
    with pytest.raises(ValueError, match=r"box must be \(low, high\) with low < high") as caught:
        IntegralPooling(box=box)
    assert f"found {box!r}" in str(caught.value)


def test_box_of_another_dimension():
    with pytest.raises(ValueError, match="IntegralPooling 'pool': box sides .* 2 numbers"):
        IntegralPooling(box=([0.0] * 3, [1.0] * 3), name="pool")(make_input())


@pytest.mark.parametrize("spacing", [0.0, -1.0, np.nan])
def test_bad_spacing(spacing):
    with pytest.raises(ValueError, match="spacing must be positive and finite"):
        IntegralPooling(spacing=spacing)


def test_set_spacing():
    layer = IntegralPooling(spacing=0.1, length_scale=0.3, dtype="float64")
    layer(make_input())
    layer.set_spacing(0.2)
    assert np.exp(layer.log_length_scale) == pytest.approx(0.6)
    with pytest.raises(ValueError, match="spacing must be positive and finite"):
        layer.set_spacing(0.0)
