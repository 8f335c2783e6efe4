"""Fields in space: kernels and convolutions against brute force, and exact under rotations."""

import dataclasses

import numpy as np
import pytest
import slow_steerable as slow
import tensorflow as tf
from oracle import array, assert_agrees, cases
from sampled_problems import SMALL, Turned, convolved, many_draws

from equivariance import SO3
from tfpn.math import convolve, coupled_kernel
from tfpn.math.arguments import read_observed
from tfpn.math.steerable import count_channels, steerable_convolve, steerable_kernel
from tfpn.math.steerable.operator import SteerableOperator
from tfpn.math.uncertainty import Sampled
from tfpn.math.waves import _rotations

PRIOR = {"signal_std": 1.2, "length_scale": 0.3}
TYPES = {
    "alike": (((0, 2), (1, 2)), ((0, 1), (1, 3))),
    "scalars in": (((0, 2),), ((0, 1), (1, 2))),
    "scalars out": (((0, 1), (1, 2)), ((0, 2),)),
    "spin 2": (((0, 1), (2, 2)), ((1, 1), (2, 1))),
}


def spins_of(types):
    return tuple(sorted({spin for fields in types for spin, _ in fields} | {0, 1}))


def rotations(count, seed=0):
    rng = np.random.default_rng(seed)
    return [np.asarray(SO3.random_element(rng).matrix, float) for _ in range(count)]


def one_flow(spins, seed=0, **options):
    found = slow.generators(spins, 1, seed, dim=3, **options)
    return {name: value[0] for name, value in found.items()}


@pytest.mark.parametrize("case", cases("coupled_space"))
@pytest.mark.parametrize("output", ["left", "both"])
def test_equals_the_references(case, output):
    inputs = case["inputs"]
    length = inputs["lengthscale"]
    given = {
        "signal_std": np.sqrt(inputs["a"] * (2 * np.pi * length**2) ** -1.5),
        "length_scale": length,
        "first_order": array(inputs["B"]),
        "second_order": array(inputs["S"]),
        "both_sides": output == "both",
        "frequencies": tuple(inputs["spins"]),
    }
    x, xp = array(inputs["x"]), array(inputs["xp"])
    assert_agrees(case, output, steerable_kernel(x, xp, **given))
    low = steerable_kernel(np.float32(x), np.float32(xp), **given)
    assert low.dtype == tf.float32
    assert_agrees(case, output, low, rtol=0.0, atol=2e-6)


def test_scalar_heat_diffusion_is_the_closed_form_of_the_references():
    (case,) = (c.values[0] for c in cases("coupled_space") if c.id == "scalar")
    inputs = case["inputs"]
    spread = inputs["lengthscale"] ** 2 + 2 * 0.05
    squared = np.sum((array(inputs["x"]) - array(inputs["xp"])) ** 2, -1)
    expected = inputs["a"] * (2 * np.pi * spread) ** -1.5 * np.exp(-squared / (2 * spread))
    np.testing.assert_allclose(array(case["outputs"]["left"])[:, 0, 0], expected, rtol=1e-12)


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-13), ("float32", 1e-5)])
@pytest.mark.parametrize("length", [0.3, 30.0])
def test_kernels_rotate_exactly_whatever_the_tables_resolve(dtype, tolerance, length):
    """Also flows that reach a hundred length scales, far beyond what the tables hold."""
    spins = (0, 1, 2)
    flow = one_flow(spins, length=length)
    x = np.random.default_rng(0).normal(size=(20, 3))
    x[0] = 0.0

    def kernel(x):
        zero = np.zeros(3, dtype)
        return steerable_kernel(x.astype(dtype), zero, frequencies=spins, **PRIOR, **flow).numpy()

    expected, rho = kernel(x), slow.representation([(spin, 1) for spin in spins], dim=3)
    for turn in rotations(3):
        turned = rho(turn) @ expected @ rho(turn).T
        assert np.max(np.abs(kernel(x @ turn.T) - turned)) < tolerance * np.max(np.abs(turned))


@pytest.mark.parametrize("both_sides", [False, True])
def test_slopes_by_the_points_equal_those_of_the_general_route(both_sides):
    """At every distance, down to 0, and in both dtypes."""
    spins = (0, 1)
    flow = one_flow(spins)
    direction = np.array([0.48, -0.6, 0.64])
    x = np.array([0.0, 1e-30, 1e-12, 1e-6, 1e-3, 0.05, 0.3])[:, None] * direction
    weights = np.random.default_rng(0).normal(size=(len(x), 4, 4))

    def slopes(route, x, **options):
        x = tf.constant(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            kernel = route(x, tf.zeros_like(x), **PRIOR, **flow, both_sides=both_sides, **options)
            total = tf.reduce_sum(tf.cast(weights, kernel.dtype) * kernel)
        return tape.gradient(total, x).numpy()

    expected = slopes(coupled_kernel, x)
    assert np.max(np.abs(expected[0])) > 0.1  # linear at 0, not flat
    size = np.max(np.sum(np.abs(weights), axis=(1, 2))) * 1.2**2 / 0.3
    for dtype, tolerance in (("float64", 1e-11), ("float32", 1e-5)):
        found = slopes(steerable_kernel, x.astype(dtype), frequencies=spins)
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * size)


def problem(types, count=2, seed=0, examples=1, size=6):
    """Observations, query points and all arguments of a convolution."""
    rng = np.random.default_rng(seed)
    fields_in, fields_out = types
    copies = max(n for _, n in fields_in)
    points = rng.uniform(size=(examples, size, 3)) * 0.4
    values = rng.normal(size=(examples, size, count_channels(fields_in, 3)))
    variance = slow.block_mean(rng.uniform(0.02, 0.2, size=values.shape), fields_in, 3)
    query = np.concatenate([points[:, :1], rng.uniform(size=(examples, 3, 3)) * 0.4], axis=1)
    return (points, values, variance, query), {
        "fields_in": fields_in,
        "fields_out": fields_out,
        "frequencies": spins_of(types),
        "weights": {spin: rng.normal(size=(count, copies, n)) for spin, n in fields_out},
        "bias": rng.normal(size=dict(fields_out)[0]) if 0 in dict(fields_out) else None,
        **slow.generators(spins_of(types), count, seed, length=0.15, dim=3),
        **PRIOR,
    }


def dense(given, arguments, noise):
    """The slow version's mean and block variance."""
    points, values, variance, query = given
    if noise == "shared":
        variance = np.broadcast_to(variance.mean(-1, keepdims=True), variance.shape)
    names = ("fields_in", "fields_out", "frequencies", "weights", "bias", *PRIOR)
    mean, covariance = slow.convolve(
        points[0], values[0], variance[0], query[0], nodes=32, cutoff=8.0,
        flows={name: arguments[name] for name in ("zeroth_order", "first_order", "second_order")},
        **{name: arguments[name] for name in names},
    )  # fmt: skip
    return mean[None], slow.block_variance(covariance, arguments["fields_out"], 3)[None]


@pytest.mark.parametrize(
    "name, noise", [("alike", "shared"), ("alike", "channel"), ("scalars in", "channel")]
)
def test_convolution_equals_dense_matrices(name, noise):
    given, arguments = problem(TYPES[name])
    mean, variance, _ = steerable_convolve(*given, **arguments, noise=noise)
    expected_mean, expected_variance = dense(given, arguments, noise)
    # The lattice cuts off exp(-32) of the spectrum, 1e-13 times its volume, and its images are 12
    # length scales away; condition numbers are below 1e3.
    np.testing.assert_allclose(mean, expected_mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(variance, expected_variance, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "name, noise, dtype, tolerance",
    [
        *((name, "shared", "float64", 1e-10) for name in TYPES),
        ("alike", "channel", "float32", 1e-5),
        ("spin 2", "channel", "float64", 1e-10),
    ],
)
def test_convolution_rotates_with_its_input(name, noise, dtype, tolerance):
    """Mean, variance and likelihood; a batch of an example and of turned ones."""
    types = TYPES[name]
    (points, values, variance, query), arguments = problem(types, size=8)
    arguments = {
        name: value.astype(dtype) if isinstance(value, np.ndarray) else value
        for name, value in arguments.items()
    }
    rho_in, rho_out = (slow.representation(fields, dim=3) for fields in types)
    turns = [np.eye(3), *rotations(10)]

    def turned(array, matrices):
        return np.concatenate([array @ matrix.T for matrix in matrices]).astype(dtype)

    given = (
        turned(points, turns),
        turned(values, [rho_in(turn) for turn in turns]),
        np.repeat(variance, len(turns), axis=0).astype(dtype),
        turned(query, turns),
    )
    mean, new_variance, nll = (
        t.numpy() for t in steerable_convolve(*given, **arguments, noise=noise)
    )
    expected = turned(mean[:1], [rho_out(turn) for turn in turns])
    nll = slow.block_mean(nll, types[0], 3)
    for found, same in ((mean, expected), (new_variance, new_variance[:1]), (nll, nll[:1])):
        assert np.max(np.abs(found - same)) < tolerance * np.max(np.abs(same))


def test_mean_alone():
    given, arguments = problem(TYPES["alike"])
    expected, _, expected_nll = steerable_convolve(*given, **arguments)
    mean, variance, nll = steerable_convolve(*given, **arguments, with_variance=False)
    assert variance is None
    np.testing.assert_allclose(mean, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(nll, expected_nll, rtol=1e-12)


def test_what_does_not_couple_channels_is_the_scalar_convolution():
    """B = 0 and S = sigma^2 / 2 in every channel: heat diffusion."""
    given, arguments = problem((((0, 3),), ((0, 4),)))
    widths = np.array([0.1, 0.25])
    heat = 0.5 * np.einsum("k,ij,ab->kijab", widths**2, np.eye(3), np.eye(4))
    arguments |= {
        "first_order": np.zeros((2, 3, 4, 4)), "second_order": heat, "zeroth_order": None
    }  # fmt: skip
    found = steerable_convolve(*given, **arguments)
    expected = convolve(
        *given, weights=arguments["weights"][0], bias=arguments["bias"], drift=np.zeros((2, 3)),
        diffusion=widths[:, None, None] ** 2 * np.eye(3), **PRIOR,
    )  # fmt: skip
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


def test_gradients_equal_finite_differences():
    """By what is observed and asked for, by the weights, and by the flows and the prior."""
    given, arguments = problem(TYPES["alike"], size=4)
    names = ["first_order", "second_order", "zeroth_order", *PRIOR]
    fixed = {name: v for name, v in arguments.items() if name not in (*names, "weights")}
    spins = list(arguments["weights"])
    rng = np.random.default_rng(8)
    upstream = rng.normal(size=(2, 1, 4, 10))

    def total(*values):
        given, rest = values[:4], values[4:]
        weights = dict(zip(spins, rest[: len(spins)], strict=True))
        rest = dict(zip(names, rest[len(spins) :], strict=True))
        mean, variance, nll = steerable_convolve(*given, **fixed, **rest, weights=weights)
        found = tf.reduce_sum(upstream[0] * mean) + tf.reduce_sum(upstream[1] * variance)
        return found + 0.1 * tf.reduce_sum(nll)

    values = [*given, *arguments["weights"].values(), *(arguments[n] for n in names)]
    values = [tf.constant(v, tf.float64) for v in values]
    with tf.GradientTape() as tape:
        tape.watch(values)
        out = total(*values)
    gradients = tape.gradient(out, values)
    step = 1e-5
    for part in (range(4), range(4, 6), range(6, len(values))):
        directions = [rng.normal(size=v.shape) * (at in part) for at, v in enumerate(values)]
        after, before = (
            total(*(v + t * d for v, d in zip(values, directions, strict=True)))
            for t in (step, -step)
        )
        found = sum(np.sum(g * d) for g, d in zip(gradients, directions, strict=True))
        np.testing.assert_allclose(found, (after - before) / (2 * step), rtol=2e-6)


def test_kernels_compile_with_their_gradients():
    spins = (0, 1)
    flow = one_flow(spins)
    x = tf.constant(np.random.default_rng(0).normal(size=(4, 3)) * 0.3)

    def total(x, b):
        with tf.GradientTape() as tape:
            tape.watch([x, b])
            given = {**flow, "first_order": b}
            kernel = steerable_kernel(x, tf.zeros_like(x), frequencies=spins, **PRIOR, **given)
            out = tf.reduce_sum(tf.sin(kernel))
        return out, *tape.gradient(out, [x, b])

    b = tf.constant(flow["first_order"])
    compiled = tf.function(total, jit_compile=True, autograph=False)
    for found, expected in zip(compiled(x, b), total(x, b), strict=True):
        assert np.any(expected != 0.0)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_turning_points_and_draws_turns_the_result(eagerly):
    (points, values, variance, query), arguments = problem(TYPES["alike"])
    fields_in, fields_out = (arguments[key] for key in ("fields_in", "fields_out"))
    observed = read_observed(points, values, variance, **PRIOR, noise="channel")
    weights = tf.nest.map_structure(tf.constant, arguments["weights"])
    generator = tuple(tf.constant(arguments[f"{n}_order"]) for n in ("zeroth", "first", "second"))
    operator = SteerableOperator(
        tf.constant(query), weights, generator, tf.constant(arguments["bias"]), fields_in,
        fields_out, arguments["frequencies"],
    )  # fmt: skip
    options = {"samples": 3, "waves": 16, "seed": tf.constant([5, 7]), "fresh": True}
    missing = tf.zeros([1, query.shape[1], 1], tf.float64)
    plain = Sampled(**options)
    expected = plain.convolve(observed, operator, None, missing)[2].numpy()
    for turn in rotations(2):
        rho, rho_out = (slow.representation(f, dim=3)(turn) for f in (fields_in, fields_out))
        turned = Turned(**options)
        object.__setattr__(turned, "turn", turn)
        object.__setattr__(turned, "rho", rho)
        given = dataclasses.replace(
            observed, points=observed.points @ turn.T, values=observed.values @ rho.T
        )
        there = dataclasses.replace(operator, query=operator.query @ turn.T)
        found = turned.convolve(given, there, None, missing)[2].numpy()
        np.testing.assert_allclose(found, expected @ rho_out.T, rtol=0.0, atol=1e-11)
        other = plain.convolve(given, there, None, missing)[2].numpy()
        assert np.abs(other - expected @ rho_out.T).max() > 0.1


def test_draws_have_the_moments_of_the_convolution(eagerly):
    """Means of 4,000 draws and their variances by block, at 5 standard errors."""
    (points, values, variance, query), arguments = problem(TYPES["alike"])
    exact_mean, exact_variance, _ = steerable_convolve(
        *(points, values, variance, query), **arguments
    )
    observed = read_observed(points, values, variance, **PRIOR)
    names = ("fields_in", "fields_out", "frequencies")
    operator = SteerableOperator(
        tf.constant(query), tf.nest.map_structure(tf.constant, arguments["weights"]),
        tuple(tf.constant(arguments[f"{n}_order"]) for n in ("zeroth", "first", "second")),
        tf.constant(arguments["bias"]), *(arguments[name] for name in names),
    )  # fmt: skip
    count = 4_000
    draws = many_draws(SMALL, convolved(observed, operator), count // SMALL.samples)[0]
    mean, spread = exact_mean[0].numpy(), exact_variance[0].numpy()
    found = np.var(draws, axis=0)
    error = 5.0 * np.sqrt(found / count)
    np.testing.assert_array_less(np.abs(draws.mean(0) - mean), error)
    found = slow.block_mean(found, arguments["fields_out"], 3)
    np.testing.assert_array_less(np.abs(found / spread - 1.0), 5.0 * np.sqrt(2.0 / count))


def test_waves_in_space_are_turned_uniformly():
    """First and second moments of the rotations' entries: 0, and 1/3 of the entry's own."""
    count = 20_000
    matrices = _rotations(tf.constant(np.random.default_rng(0).uniform(size=(count, 3)))).numpy()
    np.testing.assert_allclose(
        matrices @ matrices.transpose(0, 2, 1),
        np.broadcast_to(np.eye(3), (count, 3, 3)),
        atol=1e-14,
    )
    np.testing.assert_allclose(np.linalg.det(matrices), 1.0, atol=1e-14)
    flat = matrices.reshape(count, 9)
    error = 5.0 / np.sqrt(count)
    np.testing.assert_allclose(flat.mean(0), np.zeros(9), atol=error)
    np.testing.assert_allclose(flat.T @ flat / count, np.eye(9) / 3.0, atol=error)


def test_errors_name_the_argument():
    given, arguments = problem(TYPES["alike"])
    for changes, message in (
        ({"weights": {**arguments["weights"], 1: np.zeros((2, 2, 2, 3))}}, r"weights\[1\]"),
        ({"frequencies": (0, 1, 2)}, "first_order has shape"),
        ({"fields_in": ((0, 2),)}, "values has shape"),
    ):
        with pytest.raises(ValueError, match=message):
            steerable_convolve(*given, **{**arguments, **changes})
    given[2][0, 0, 3] = np.inf  # a part of a vector
    with pytest.raises(tf.errors.InvalidArgumentError, match="some channels of a block only"):
        steerable_convolve(*given, **arguments)
