"""Priors of the greatest marginal likelihood, against a dense likelihood and known priors."""

import numpy as np
import pytest
from scipy import linalg, optimize, stats

from tfpn.fitting import fit_prior
from tfpn.fitting.likelihood import Likelihood
from tfpn.fitting.neighbourhoods import ENTRIES, POINTS, neighbourhoods
from tfpn.spacing import point_spacing

CORRELATIONS = {
    "rbf": lambda r: np.exp(-(r**2) / 2),
    "matern32": lambda r: (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
    "matern52": lambda r: (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r),
    "rational_quadratic": lambda r: 1 / (1 + r**2 / 2),
}


def draws(rng, length, signal, noise, *, kernel="rbf", dim=1, examples=30, points=30, channels=1):
    """Samples of a Gaussian process at random points, read with noise."""
    where = rng.uniform(size=(examples, points, dim))
    values = np.zeros((examples, points, channels))
    for e in range(examples):
        covariance = dense(where[e], length, signal, 1e-4 * signal, kernel)
        factor = np.linalg.cholesky(covariance)
        values[e] = factor @ rng.normal(size=(points, channels))
    return where, values + noise * rng.normal(size=values.shape)


def dense(points, length, signal, noise, kernel):
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
    return signal**2 * CORRELATIONS[kernel](distance / length) + noise**2 * np.eye(len(points))


def slow_likelihood(points, values, variance, length, signal, noise, kernel="rbf"):
    """By scipy's normal distribution, example by example and channel by channel."""
    total = 0.0
    for p, y, v in zip(points, values, variance, strict=True):
        for c in range(y.shape[-1]):
            seen = np.isfinite(v[:, c])
            if seen.any():
                covariance = dense(p[seen], length, signal, noise, kernel) + np.diag(v[seen, c])
                total -= stats.multivariate_normal(cov=covariance).logpdf(y[seen, c])
    return total


@pytest.mark.parametrize("kernel", CORRELATIONS)
@pytest.mark.parametrize("given", [False, True], ids=["without variances", "with variances"])
def test_equals_a_dense_likelihood_and_finite_differences(kernel, given):
    rng = np.random.default_rng(0)
    points, values = draws(rng, 0.3, 2.0, 0.3, examples=3, points=8, channels=3, dim=2)
    variance = given * rng.uniform(0.1, 0.5, size=(3, 8, 2))
    variance[1, 2:4] = variance[0, 5, 0] = np.inf
    groups = [0, 1, 1]
    values = np.where(np.isfinite(variance[..., groups]), values, 0.0)
    data = neighbourhoods(points, values, variance)
    likelihood = Likelihood(data, groups, kernel, floor=1e-6)
    parameters = np.log([0.2, 1.3, 0.1, 0.4])
    value, gradient = likelihood(parameters)
    expected = sum(
        slow_likelihood(
            points, values[..., [c]], variance[..., [g]], 0.2, 1.3,
            np.sqrt(np.exp(2 * parameters[2 + g]) + 1e-6), kernel,
        )
        for c, g in enumerate(groups)
    )  # fmt: skip
    # The named kernels are mixtures that are off by up to 2e-5 s^2, against noises of 0.01 s^2.
    tolerance = 1e-10 if kernel == "rbf" else 1e-2
    assert value == pytest.approx(expected, rel=1e-10 if kernel == "rbf" else 1e-3, abs=tolerance)
    step = 1e-5
    for k, unit in enumerate(step * np.eye(4)):
        slope = (likelihood(parameters + unit)[0] - likelihood(parameters - unit)[0]) / (2 * step)
        # Errors of step^2 times third derivatives, some thousands, and of rounding over the step.
        assert gradient[k] == pytest.approx(slope, rel=1e-5, abs=1e-5)


def best(points, values, variance, kernel="rbf", noisy=True):
    """Length scale, signal and noise by scipy's Nelder-Mead on the dense likelihood."""

    def total(parameters):
        noise = np.exp(parameters[2]) if noisy else 1e-3 * np.sqrt(np.mean(values**2))
        return slow_likelihood(points, values, variance, *np.exp(parameters[:2]), noise, kernel)

    start = np.log([0.3, 1.0, 0.2])[: 2 + noisy]
    found = optimize.minimize(
        total, start, method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-6, "maxiter": 400}
    )
    return np.exp(found.x)


@pytest.mark.parametrize("kernel", ["rbf", "matern52"])
def test_equals_an_independent_optimum(kernel):
    rng = np.random.default_rng(1)
    points, values = draws(rng, 0.3, 2.0, 0.3, kernel=kernel, examples=4, points=15)
    variance = np.zeros_like(values)
    variance[2, :3] = np.inf
    found = fit_prior(points, values, variance, kernel=kernel)
    expected = best(points, values, variance, kernel)
    found = [found.length_scale[0], found.signal_std[0], found.observation_noise[0]]
    # Where the optimisers stop, the floor of the noise (1e-6 of the values' mean square) and the
    # kernel's mixture.
    np.testing.assert_allclose(found, expected, rtol=5e-3)


def test_given_variances_count_and_no_noise_is_fitted_without_one():
    rng = np.random.default_rng(2)
    points, values = draws(rng, 0.3, 2.0, 0.0, examples=4, points=15)
    variance = rng.uniform(0.02, 0.3, size=values.shape)
    values = values + np.sqrt(variance) * rng.normal(size=values.shape)
    found = fit_prior(points, values, variance, fit_noise=False)
    assert found.observation_noise is None
    expected = best(points, values, variance, noisy=False)
    np.testing.assert_allclose([found.length_scale[0], found.signal_std[0]], expected, rtol=5e-3)


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("kernel", ["rbf", "matern32"])
def test_finds_the_prior_that_the_data_are_from(dim, kernel):
    """Within five standard errors, of the inverse of the likelihood's curvature at the truth."""
    rng = np.random.default_rng(dim)
    length, signal, noise = 0.15 * dim, 3.0, 0.4
    points, values = draws(rng, length, signal, noise, kernel=kernel, dim=dim)
    data = neighbourhoods(points, values, np.zeros_like(values))
    truth = np.log([length, signal, noise])
    likelihood = Likelihood(data, [0], kernel, floor=1e-6)
    curvature = np.array([
        (likelihood(truth + unit)[1] - likelihood(truth - unit)[1]) / 2e-3
        for unit in 1e-3 * np.eye(3)
    ])  # fmt: skip
    errors = np.sqrt(np.diag(linalg.inv(curvature)))
    assert errors.max() < 0.2  # the test says something
    fitted = fit_prior(points, values, np.zeros_like(values), kernel=kernel)
    found = np.log([fitted.length_scale[0], fitted.signal_std[0], fitted.observation_noise[0]])
    np.testing.assert_array_less(np.abs(found - truth), 5 * errors)
    assert not fitted.white.any()


@pytest.mark.parametrize(("length", "level"), [(1e-12, 1e-30), (1e12, 1e30), (1e12, 1e-30)])
def test_scales_with_points_and_values(length, level):
    rng = np.random.default_rng(3)
    points, values = draws(rng, 0.2, 1.0, 0.2, examples=8)
    variance = rng.uniform(0, 0.1, size=values.shape)
    one = fit_prior(points, values, variance)
    two = fit_prior(length * points, level * values, level**2 * variance)
    # To rounding, which the search's stopping rule (gradients of 1e-5 a reading) may see.
    np.testing.assert_allclose(two.length_scale, length * one.length_scale, rtol=1e-6)
    np.testing.assert_allclose(two.signal_std, level * one.signal_std, rtol=1e-6)
    np.testing.assert_allclose(two.observation_noise, level * one.observation_noise, rtol=1e-6)


def test_channels_with_priors_of_their_own():
    """Two signals, one never read, one read ten times, one always 0, noise and a constant."""
    rng = np.random.default_rng(4)
    points, fast = draws(rng, 0.05, 1.0, 0.1)
    slow = np.stack([
        np.linalg.cholesky(dense(p, 0.5, 20.0, 1e-2, "rbf")) @ rng.normal(size=30) for p in points
    ])[..., None]  # fmt: skip
    white, zero, constant = rng.normal(size=slow.shape), 0 * slow, 0 * slow + 5.0
    values = np.concatenate([fast, slow, fast, fast, zero, white, constant], axis=-1)
    variance = np.zeros_like(values)
    variance[..., 2] = np.inf
    variance[..., 3] = np.inf
    variance[:5, :2, 3] = 0.0
    values[..., 2] = np.nan
    done = []
    found = fit_prior(
        points, values, variance, priors=range(7), noises=range(7), progress=done.append
    )
    assert done == [1, 2, 3, 4, 5, 6, 7]
    # Standard errors are some 5 % of a length scale.
    assert found.length_scale[0] == pytest.approx(0.05, rel=0.25)
    assert found.length_scale[1] == pytest.approx(0.5, rel=0.25)
    assert found.signal_std[1] == pytest.approx(20.0, rel=0.5)
    assert found.white.tolist() == [False] * 5 + [True, False]
    for number in (2, 3, 4):
        assert np.isnan([found.length_scale[number], found.signal_std[number]]).all()
        assert np.isnan(found.observation_noise[number])
    spacing = point_spacing(points, variance[..., :1])
    assert found.length_scale[5] == pytest.approx(0.5 * spacing)
    assert found.signal_std[5] == pytest.approx(1.0, rel=0.1)
    # A constant is as smooth as an example lets see: the length scale's bound, and no noise.
    assert found.length_scale[6] == pytest.approx(2.0, rel=0.1)
    assert found.observation_noise[6] == pytest.approx(5e-3, rel=0.2)


def test_one_prior_with_a_noise_for_each_channel():
    rng = np.random.default_rng(5)
    points, values = draws(rng, 0.2, 2.0, 0.0, channels=3)
    values += np.array([0.1, 0.4, 1.0]) * rng.normal(size=values.shape)
    variance = np.zeros_like(values)
    variance[:, ::3, 1] = np.inf
    values[:, ::3, 1] = np.nan
    found = fit_prior(points, values, variance, noises=range(3))
    assert found.length_scale.shape == (1,)
    assert found.length_scale[0] == pytest.approx(0.2, rel=0.1)
    # 900 readings: 2.4 % each, and a few more for the least noise.
    np.testing.assert_allclose(found.observation_noise, [0.1, 0.4, 1.0], rtol=0.15)


def test_exact_copies_of_readings_are_no_sign_of_exactness():
    rng = np.random.default_rng(6)
    points, values = draws(rng, 0.2, 1.0, 0.3, examples=8)
    one = fit_prior(points, values, np.zeros_like(values))
    twice = [np.repeat(array, 2, axis=1) for array in (points, values, np.zeros_like(values))]
    two = fit_prior(*twice)
    # Other spacings give the search other starts.
    np.testing.assert_allclose(two.length_scale, one.length_scale, rtol=1e-3)
    np.testing.assert_allclose(two.observation_noise, one.observation_noise, rtol=1e-3)
    read_again = np.array(twice[1])
    read_again[:, 1::2] += 0.3 * rng.normal(size=values.shape)
    found = fit_prior(twice[0], read_again, twice[2])
    assert np.isfinite(found.length_scale).all()


def test_float32_and_shapes_without_readings():
    rng = np.random.default_rng(7)
    points, values = draws(rng, 0.2, 1.0, 0.3, examples=8)
    wide = fit_prior(points, values, np.zeros_like(values))
    narrow = fit_prior(*(a.astype("float32") for a in (points, values, np.zeros_like(values))))
    np.testing.assert_allclose(narrow.length_scale, wide.length_scale, rtol=1e-3)
    assert narrow.length_scale.dtype == np.float64
    for examples, size in ((0, 4), (3, 1), (2, 3)):
        shape = examples, size, 1
        found = fit_prior(np.zeros(shape), np.ones(shape), np.zeros(shape))
        assert np.isnan(found.length_scale).all()


def test_the_work_is_bounded():
    rng = np.random.default_rng(8)
    points = rng.uniform(size=(1000, 50, 2))
    data = neighbourhoods(points, points[..., :1], np.zeros((1000, 50, 1)))
    assert data.points.shape[0] * data.points.shape[1] ** 2 <= ENTRIES
    one = rng.uniform(size=(1, 5000, 2))
    data = neighbourhoods(one, one[..., :1], np.zeros((1, 5000, 1)))
    count, size = data.points.shape[:2]
    assert size == POINTS and count > 20 and count * size**2 <= ENTRIES
    # Each of them is dense: 64 of 5000 points lie within a disc of the radius 0.064.
    sides = np.ptp(data.points, axis=1)
    assert np.median(sides) < 0.2
