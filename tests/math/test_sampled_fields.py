"""Draws of steerable convolutions against their exact moments, and turned with their input."""

import dataclasses

import numpy as np
import pytest
import slow_steerable
import tensorflow as tf
from sampled_problems import SMALL, Turned, assert_moments, convolved, many_draws

from tfpn.math.arguments import read_observed
from tfpn.math.steerable import steerable_convolve
from tfpn.math.steerable.convolution import shared_in_blocks
from tfpn.math.steerable.operator import SteerableOperator
from tfpn.math.uncertainty import Sampled

DRAWS = 2_500  # in every comparison
IN, OUT, FREQUENCIES = ((0, 2), (1, 1)), ((0, 1), (2, 1)), (0, 1, 2)
LENGTH, STD = 0.3, 1.2


def problem(noise="shared", kernel="rbf", seed=0):
    """An `Observed`, a `SteerableOperator`, and the arguments of `steerable_convolve`."""
    rng = np.random.default_rng(seed)
    points, values = rng.uniform(size=(1, 6, 2)), rng.normal(size=(1, 6, 4))
    variance = np.repeat(rng.uniform(0.01, 0.3, size=(1, 6, 1)), 4, axis=-1)
    variance[:, 5] = np.inf
    if noise == "channel":
        variance[..., :2] = rng.uniform(0.01, 0.3, size=(1, 6, 2))
        variance[0, 1, 0] = np.inf
        variance[0, 2, 2:] = np.inf
    flows = slow_steerable.generators(FREQUENCIES, 2, length=0.2)
    mixing = {0: rng.normal(size=(2, 2, 1)), 2: rng.normal(size=(2, 2, 2, 1))}
    prior = {"signal_std": STD, "length_scale": LENGTH, "kernel": kernel, "noise": noise}
    prior["observation_variance"] = 0.02
    query = np.concatenate([points[:, :2], points[:, :1] + 0.15], axis=1)
    arguments = {"fields_in": IN, "fields_out": OUT, "frequencies": FREQUENCIES}
    arguments |= {"weights": mixing, "bias": np.array([0.3])}
    exact = steerable_convolve(points, values, variance, query, **arguments, **flows, **prior)
    observed = read_observed(points, values, variance, **prior)
    in_blocks = shared_in_blocks(observed.variance, IN)
    generator = tuple(tf.constant(flows[f"{n}_order"]) for n in ("zeroth", "first", "second"))
    inside = tf.nest.map_structure(tf.constant, arguments.pop("weights"))
    operator = SteerableOperator(
        tf.constant(query), inside, generator, tf.constant(arguments.pop("bias")),
        *arguments.values(),
    )  # fmt: skip
    return dataclasses.replace(observed, variance=in_blocks), operator, exact, (flows, mixing)


@pytest.mark.parametrize("noise", ["shared", "channel"])
def test_draws_have_the_moments_of_the_dense_convolution(eagerly, noise):
    """Mean and the whole covariance of a point's channels; noise apart tells blocks apart."""
    observed, operator, _, (flows, mixing) = problem(noise)
    draws = many_draws(SMALL, convolved(observed, operator), DRAWS // SMALL.samples)[0]
    mean, covariance = slow_steerable.convolve(
        observed.points[0].numpy(), observed.values[0].numpy(),
        observed.variance[0].numpy() + 0.02, operator.query[0].numpy(), fields_in=IN,
        fields_out=OUT, frequencies=FREQUENCIES, weights=mixing, flows=flows, signal_std=STD,
        length_scale=LENGTH, bias=operator.bias.numpy(),
    )  # fmt: skip
    for point in range(3):
        assert_moments(draws[:, point], mean[point], covariance[point])


def test_draws_of_a_kernel_of_several_terms(eagerly):
    observed, operator, (mean, variance, nll), _ = problem(kernel="matern32")
    way = dataclasses.replace(SMALL, waves=48)
    draws = many_draws(way, convolved(observed, operator), DRAWS // way.samples)[0]
    np.testing.assert_allclose(
        way.convolve(observed, operator, None, tf.zeros([1, 3, 1], tf.float64))[3], nll, rtol=1e-9
    )
    for point in range(3):
        one, spread = draws[:, point], variance[0, point].numpy()
        error = 5.0 * np.sqrt(np.var(one, axis=0) / DRAWS)
        np.testing.assert_array_less(np.abs(one.mean(0) - mean[0, point]), error)
        # The variance is the mean over a block's two components, at worst of one error.
        found = np.var(one, axis=0)
        found[1:] = found[1:].mean()
        np.testing.assert_array_less(np.abs(found / spread - 1.0), 5.0 * np.sqrt(2.0 / DRAWS))


def test_draws_as_readings_obey_the_law_of_total_covariance(eagerly):
    """A later layer takes each draw for exact readings, with the layer's own noise."""
    observed, operator, _, (flows, mixing) = problem()
    rng = np.random.default_rng(1)
    factor = 0.3 * rng.normal(size=(4, 4))
    spread = np.repeat(np.diag(factor @ factor.T)[None], 6, axis=0)
    spread[5] = np.inf
    values, count, found = observed.values[0].numpy(), 500, []
    arguments = {
        "fields_in": IN, "fields_out": OUT, "frequencies": FREQUENCIES, "weights": mixing,
        "flows": flows, "signal_std": STD, "length_scale": LENGTH, "bias": operator.bias.numpy(),
    }  # fmt: skip
    places = observed.points[0].numpy(), operator.query[0].numpy()
    noise = np.where(np.isinf(spread), np.inf, 0.02)
    for repeat in range(DRAWS // count):
        normal = np.random.default_rng(repeat).normal(size=(count, 6, 4))
        beside = values + normal @ factor.T
        beside[:, 5] = 0.0
        beside = tf.constant(beside[None])
        of_draws = np.where(np.isinf(spread), np.inf, np.var(beside[0], axis=0))
        given = dataclasses.replace(
            observed, variance=shared_in_blocks(tf.constant(of_draws[None]), IN)
        )
        found.append(many_draws(SMALL, convolved(given, operator, beside), 1, repeat)[0])
    draws = np.concatenate(found)
    mean, covariance = slow_steerable.convolve(places[0], values, noise, places[1], **arguments)
    # What the readings' covariance adds, by the response to each reading.
    arguments["bias"] = None
    jacobian = np.zeros((3, 3, 5, 4))
    for i in range(5):
        for c in range(4):
            one = np.zeros((6, 4))
            one[i, c] = 1.0
            jacobian[:, :, i, c] = slow_steerable.convolve(
                places[0], one, noise, places[1], **arguments
            )[0]
    moved = jacobian @ factor
    covariance += np.einsum("maic,mbic->mab", moved, moved)
    for point in range(3):
        assert_moments(draws[:, point], mean[point], covariance[point])


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("noise", ["shared", "channel"])
def test_turning_points_and_draws_turns_the_result(eagerly, noise, fresh):
    observed, operator, _, _ = problem(noise)
    way = Sampled(samples=3, waves=16, seed=tf.constant([5, 7]), fresh=fresh)
    missing = tf.zeros([1, 3, 1], tf.float64)
    expected = way.convolve(observed, operator, None, missing)[2].numpy()
    for angle in (0.4, 1.9, -2.6):
        turn, rho, rho_out = (
            slow_steerable.representation(fields)(angle) for fields in (((1, 1),), IN, OUT)
        )
        turned = Turned(samples=3, waves=16, seed=tf.constant([5, 7]), fresh=fresh)
        object.__setattr__(turned, "turn", turn)
        object.__setattr__(turned, "rho", rho)
        given = dataclasses.replace(
            observed, points=observed.points @ turn.T, values=observed.values @ rho.T
        )
        there = dataclasses.replace(operator, query=operator.query @ turn.T)
        found = turned.convolve(given, there, None, missing)[2].numpy()
        # Some hundred roundings, in systems of condition 1e3.
        np.testing.assert_allclose(found, expected @ rho_out.T, rtol=0.0, atol=1e-11)
        assert (
            np.abs(way.convolve(given, there, None, missing)[2] - expected @ rho_out.T).max() > 0.1
        )
