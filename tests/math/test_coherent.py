"""Coherent uncertainty: low rank and joint against each other, `convolve` and plain algebra."""

import numpy as np
import pytest
import tensorflow as tf
from coherent_problems import BATCH, DIM, FILTERS, OPERATORS, POINTS, problem
from tolerance import differences

import tfpn
from tfpn.math import (
    convolve_joint,
    convolve_low_rank,
    convolve_process,
    rectified_joint_covariance,
)
from tfpn.math.activations.rectified import rectified_slope
from tfpn.math.arguments import read_observed
from tfpn.math.uncertainty import Joint, LowRank
from tfpn.math.uncertainty.joint import marginal_variance


def integrate_low_rank(points, values, variance, factors, *, box=None, **prior):
    region = {} if box is None else {"box": box}
    return LowRank().integrate(read_observed(points, values, variance, **prior), region, factors)


def integrate_joint(points, values, variance, covariance, *, box=None, **prior):
    region = {} if box is None else {"box": box}
    observed = read_observed(points, values, variance, **prior)
    mean, _, covariance, nll = Joint().integrate(observed, region, covariance)
    return mean, covariance, nll


def _outer(factors):
    """sum_j J_j J_j^T, [B, N, c, N, c]."""
    return np.einsum("rbna,rbmc->bnamc", factors, factors)


def _least_eigenvalue(covariance):
    size = int(np.prod(covariance.shape[1:3]))
    return np.linalg.eigvalsh(np.reshape(covariance, [-1, size, size])).min()


@pytest.mark.parametrize("channels", [1, 3])
def test_first_layer_has_the_moments_of_convolve(channels):
    (points, values, variance), parameters = problem(channels)
    mean, expected, nll = tfpn.math.convolve(points, values, variance, points, **parameters)
    joint_mean, covariance, joint_nll = convolve_joint(
        points, values, variance, None, points, **parameters
    )
    low_mean, low_variance, factors, low_nll = convolve_low_rank(
        points, values, variance, None, points, **parameters
    )
    assert factors.shape == (8, BATCH, POINTS, FILTERS)
    for found in (joint_mean, low_mean):
        np.testing.assert_allclose(found, mean, rtol=1e-10, atol=1e-12)
    for found in (joint_nll, low_nll):
        np.testing.assert_allclose(found, nll, rtol=1e-12)
    for found in (marginal_variance(covariance), low_variance):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("channels", [1, 3])
def test_first_factors_converge_to_the_joint_covariance(channels):
    (points, values, variance), parameters = problem(channels)
    _, covariance, _ = convolve_joint(points, values, variance, None, points, **parameters)
    covariance = covariance.numpy()
    scale = np.abs(covariance).max()
    assert _least_eigenvalue(covariance) > -1e-12 * scale
    errors = []
    for rank in (2, 8, 32, OPERATORS * POINTS * channels):
        factors = convolve_low_rank(
            points, values, variance, None, points, **parameters, rank=rank
        )[2]
        remainder = covariance - _outer(factors)
        # What the factors leave is a covariance: they never claim more than there is. The vectors
        # of different input channels are chosen by size, which costs nothing of this.
        assert _least_eigenvalue(remainder) > -1e-9 * scale
        errors.append(np.abs(remainder).max() / scale)
    assert all(a > b for a, b in zip(errors[:-1], errors[1:], strict=True)), errors
    assert errors[-1] < 1e-6


@pytest.mark.parametrize("dtype,tolerance", [("float32", 2e-4), ("float64", 1e-6)])
@pytest.mark.parametrize("rank", [8, 16, 32])
def test_factors_of_a_dense_exact_series_stay_finite(dtype, tolerance, rank):
    # Hardly anything is left of the prior here, so rounding of the prior's size decides.
    x = np.linspace(0, 1, 80)[None, :, None].astype(dtype)
    drift = np.array([[0.0], [0.1], [-0.1]], dtype)
    _, variance, factors, _ = convolve_low_rank(
        x,
        np.sin(6 * x),
        np.zeros_like(x),
        None,
        x,
        rank=rank,
        weights=np.ones((3, 1, 4), dtype),
        drift=drift,
        diffusion=np.full((3, 1, 1), 0.0025, dtype),
        signal_std=np.ones((), dtype),
        length_scale=np.full((), 0.1, dtype),
    )
    assert np.isfinite(factors).all()
    excess = np.sum(np.square(factors), axis=0) - np.asarray(variance)
    assert excess.max() < tolerance


@pytest.mark.parametrize("observation_variance", [0.0, 0.3])
def test_factors_without_remainder_are_a_joint_covariance(observation_variance):
    (points, values, _), parameters = problem(3)
    parameters["observation_variance"] = observation_variance
    factors = 0.2 * np.random.default_rng(1).normal(size=(4, *values.shape))
    variance = np.sum(np.square(factors), axis=0)
    covariance = np.einsum("rbna,rbmc->bnamc", factors, factors)
    mean, expected, _ = convolve_joint(points, values, variance, covariance, points, **parameters)
    found, found_variance, _, _ = convolve_low_rank(
        points, values, variance, factors, points, **parameters
    )
    np.testing.assert_allclose(found, mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found_variance, marginal_variance(expected), rtol=1e-8, atol=1e-9)
    pooled = {
        key: parameters[key] for key in ("signal_std", "length_scale", "observation_variance")
    }
    pooled["box"] = (0.0, 1.0)
    mean, expected, _ = integrate_joint(points, values, variance, covariance, **pooled)
    found, found_variance, _, _ = integrate_low_rank(points, values, variance, factors, **pooled)
    np.testing.assert_allclose(found, mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(
        found_variance, np.diagonal(expected, axis1=1, axis2=2), rtol=1e-8, atol=1e-9
    )


def test_leading_factors_are_the_best_ones():
    """Against the eigenvectors of a full decomposition of the functionals' covariance."""
    (points, values, variance), parameters = problem(1)
    parameters["weights"] = np.eye(OPERATORS)[:, None]  # the outputs are the functionals
    _, covariance, _ = convolve_joint(points, values, variance, None, points, **parameters)
    size = POINTS * OPERATORS
    eigenvalues = np.linalg.eigvalsh(np.reshape(covariance, [BATCH, size, size]))[:, ::-1]
    factors = convolve_low_rank(points, values, variance, None, points, **parameters, rank=4)[2]
    found = np.einsum("rbna,rbna->br", factors, factors)
    # Example 0 has no padding. Three rounds of iteration find the sum to a part in a thousand.
    np.testing.assert_allclose(found[0].sum(), eigenvalues[0, :4].sum(), rtol=1e-3)


def test_later_layer_low_rank_input():
    """Where the input's covariance has the factors' rank, low rank and joint are the same."""
    (points, values, _), parameters = problem(3)
    rng = np.random.default_rng(1)
    factors = 0.3 * rng.normal(size=(2, BATCH, POINTS, 3))
    factors[:, 1, -3:] = 0.0
    covariance = _outer(factors)
    variance = np.einsum("rbna,rbna->bna", factors, factors)
    variance[1, -3:] = np.inf
    # Smooth values: with nearly exact ones the posterior's weights are large.
    values = np.sin(3.0 * points[..., :1]) * np.ones(3)
    mean, expected, _ = convolve_joint(points, values, variance, covariance, points, **parameters)
    low_mean, low_variance, low_factors, _ = convolve_low_rank(
        points, values, variance, factors, points, **parameters
    )
    # The remainder is the rounding of a difference, floored at 1e-12 as the jitter is.
    np.testing.assert_allclose(low_mean, mean, rtol=1e-5, atol=1e-7)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(low_variance, marginal_variance(expected), atol=1e-6 * scale)
    # Nothing is left but the GP's own variance, which is the same for both.
    remainder = expected - _outer(low_factors)
    assert _least_eigenvalue(remainder) > -1e-6 * scale


def test_joint_layer_against_samples():
    """Law of total covariance: the mean's covariance over draws of the values, and the GP's own."""
    (points, values, _), parameters = problem(2)
    rng = np.random.default_rng(2)
    root = 0.3 * rng.normal(size=(BATCH, POINTS * 2, POINTS * 2)) / np.sqrt(POINTS)
    covariance = np.reshape(root @ np.swapaxes(root, 1, 2), [BATCH, POINTS, 2, POINTS, 2])
    values = np.nan_to_num(values)
    exact = np.zeros_like(values)
    _, own, _ = convolve_joint(points, values, exact, None, points, **parameters)
    variance = np.einsum("bnana->bna", covariance)
    _, total, _ = convolve_joint(points, values, variance, covariance, points, **parameters)
    # The mean is linear in the values: its matrix, column by column, gives T C T^T.
    size = POINTS * 2
    basis = np.reshape(np.eye(size), [size, POINTS, 2])
    columns = [
        tfpn.math.convolve_mean(points, np.tile(each, [BATCH, 1, 1]), exact, points, **parameters)[
            0
        ]
        .numpy()
        .reshape(BATCH, -1)
        for each in basis
    ]
    linear = np.stack(columns, axis=-1)
    flat = np.reshape(covariance, [BATCH, size, size])
    expected = linear @ flat @ np.swapaxes(linear, 1, 2)
    found = np.reshape(total - own, expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max())


def test_rectified_joint_covariance_against_samples():
    rng = np.random.default_rng(3)
    root = rng.normal(size=(6, 6))
    covariance = root @ root.T / 6
    mean = rng.normal(size=6)
    new_mean, found = rectified_joint_covariance(
        mean.reshape(1, 3, 2), covariance.reshape(1, 3, 2, 3, 2)
    )
    draws = np.maximum(rng.multivariate_normal(mean, covariance, size=400_000), 0.0)
    found = np.reshape(found, [6, 6])
    # Six standard errors of a sample covariance.
    spread = np.sqrt(np.outer(np.diag(found), np.diag(found)))
    np.testing.assert_array_less(np.abs(np.cov(draws.T) - found), 6 * 3 * spread / np.sqrt(4e5))
    np.testing.assert_allclose(np.reshape(new_mean, -1), draws.mean(0), atol=0.02)
    assert np.linalg.eigvalsh(found).min() > 0.0


def test_rectified_factors_never_exceed_the_variance():
    rng = np.random.default_rng(4)
    mean = tf.constant(rng.normal(size=1000) * 10.0 ** rng.uniform(-3, 1, 1000))
    variance = tf.constant(10.0 ** rng.uniform(-6, 2, 1000))
    _, rectified = tfpn.math.rectified_moments(mean, variance)
    slope = rectified_slope(mean, variance)
    assert np.all(tf.square(slope) * variance <= rectified * (1 + 1e-12))


def test_slope_is_the_derivative_of_the_mean():
    mean = tf.constant([-3.0, -0.5, 0.0, 2.0], tf.float64)
    variance = tf.constant([0.5, 1.0, 2.0, 0.1], tf.float64)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([mean, variance])
        rectified, _ = tfpn.math.rectified_moments(mean, variance)
        slope = rectified_slope(mean, variance)
    np.testing.assert_allclose(slope, tape.gradient(rectified, mean), rtol=1e-13)
    step = 1e-6
    for variable, gradient in (
        (0, tape.gradient(slope, mean)),
        (1, tape.gradient(slope, variance)),
    ):
        arguments = [mean, variance]
        up, down = list(arguments), list(arguments)
        up[variable], down[variable] = arguments[variable] + step, arguments[variable] - step
        numeric = (rectified_slope(*up) - rectified_slope(*down)) / (2 * step)
        # A probability of at most 1, of 8 units in the last place.
        limit = differences(1.0, step, condition=8, order=2, scale=0.1)
        np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=limit)


@pytest.mark.parametrize("box", [None, (0.0, 1.0)])
def test_pooling_of_low_rank_input(box):
    (points, _, _), _ = problem(3)
    rng = np.random.default_rng(5)
    factors = 0.3 * rng.normal(size=(2, BATCH, POINTS, 3))
    values = rng.normal(size=(BATCH, POINTS, 3))
    covariance = _outer(factors)
    variance = np.einsum("rbna,rbna->bna", factors, factors)
    prior = {"signal_std": 1.0, "length_scale": 0.1, "box": box}
    mean, expected, _ = integrate_joint(points, values, variance, covariance, **prior)
    low_mean, low_variance, low_factors, _ = integrate_low_rank(
        points, values, variance, factors, **prior
    )
    np.testing.assert_allclose(low_mean, mean, rtol=1e-8)
    np.testing.assert_allclose(low_variance, tf.linalg.diag_part(expected), rtol=1e-8)
    outer = np.einsum("rba,rbc->bac", low_factors, low_factors)
    off = 1.0 - np.eye(3)
    np.testing.assert_allclose(outer * off, np.where(off, expected, 0.0), atol=1e-10)


@pytest.mark.parametrize("noise", ["shared", "channel"])
def test_process_has_the_variance_of_convolve(noise):
    (points, values, variance), parameters = problem(2)
    query = np.random.default_rng(10).uniform(size=(BATCH, 7, DIM))
    mean, expected, _ = tfpn.math.convolve(
        points, values, variance, query, **parameters, noise=noise
    )
    found_mean, covariance = convolve_process(
        points, values, variance, query, **parameters, noise=noise
    )
    np.testing.assert_allclose(found_mean, mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(tf.einsum("bamm->bma", covariance), expected, rtol=1e-8, atol=1e-10)
    assert np.linalg.eigvalsh(covariance).min() > -1e-10


@pytest.mark.parametrize("kind", ["factors", "covariance"])
def test_process_of_coherent_input(kind):
    (points, values, _), parameters = problem(2)
    values = np.nan_to_num(values)
    factors = 0.3 * np.random.default_rng(11).normal(size=(2, BATCH, POINTS, 2))
    covariance = _outer(factors)
    variance = np.einsum("rbna,rbna->bna", factors, factors) + 0.05
    covariance += 0.05 * np.eye(POINTS * 2).reshape(POINTS, 2, POINTS, 2)
    given = factors if kind == "factors" else covariance
    layer = convolve_low_rank if kind == "factors" else convolve_joint
    mean, second, *_ = layer(points, values, variance, given, points, **parameters)
    expected = second if kind == "factors" else marginal_variance(second)
    found_mean, process = convolve_process(
        points, values, variance, points, **parameters, **{kind: given}
    )
    np.testing.assert_allclose(found_mean, mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(
        tf.einsum("bamm->bma", process), expected, rtol=1e-6, atol=1e-8 * np.max(expected)
    )


def test_permutation_and_padding():
    (points, values, variance), parameters = problem(1, dtype="float32")
    order = np.random.default_rng(12).permutation(POINTS)
    weight = np.isfinite(variance).astype("float32")

    def factors(points, values, variance, weight):
        result = convolve_low_rank(
            points, values, variance, None, points, **parameters, query_weight=weight, rank=4
        )[2]
        return _outer(result * weight)

    plain = factors(points, values, variance, weight)
    scale = np.abs(plain).max()
    moved = factors(points[:, order], values[:, order], variance[:, order], weight[:, order])
    # float32, three rounds of iteration: 1e-4 of the largest covariance.
    np.testing.assert_allclose(moved, plain[:, order][:, :, :, order], atol=1e-4 * scale)
    longer = [np.concatenate([t, t[:, :3]], axis=1) for t in (points, values, variance, weight)]
    longer[2][:, POINTS:], longer[3][:, POINTS:] = np.inf, 0.0
    padded = factors(*longer)
    np.testing.assert_allclose(padded[:, :POINTS, :, :POINTS], plain, atol=1e-4 * scale)
    assert not np.any(padded[:, POINTS:])
