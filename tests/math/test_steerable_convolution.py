"""Convolutions of fields: against dense matrices, under rotations, and against the scalar layer."""

import numpy as np
import pytest
import slow_steerable as slow
import tensorflow as tf

from tfpn.math import convolve
from tfpn.math.steerable import count_channels, steerable_convolve

PRIOR = {"signal_std": 1.2, "length_scale": 0.3}
TYPES = {
    "alike": (((0, 2), (1, 2), (2, 2)), ((0, 3), (1, 3), (2, 3))),
    "scalars in": (((0, 2),), ((0, 1), (1, 2), (2, 1))),
    "scalars out": (((0, 1), (1, 2), (2, 1)), ((0, 2),)),
    "uneven": (((0, 3), (2, 1)), ((1, 2), (2, 1))),
    "vectors": (((1, 2),), ((1, 1),)),
}
every_type = pytest.mark.parametrize("types", TYPES.values(), ids=TYPES.keys())


def problem(types, count=2, frequencies=(0, 1, 2), seed=0, examples=2, size=7):
    """Observations, query points and all arguments of a convolution."""
    rng = np.random.default_rng(seed)
    fields_in, fields_out = types
    copies = max(n for _, n in fields_in)
    channels = count_channels(fields_in)
    points = rng.uniform(size=(examples, size, 2))
    values = rng.normal(size=(examples, size, channels))
    blocks = rng.uniform(0.02, 0.2, size=(examples, size, channels))
    variance = slow.block_mean(blocks, fields_in)
    query = rng.uniform(size=(examples, 5, 2))
    query[:, 0] = points[:, 0]
    weights = {
        m: rng.normal(size=(count, copies, n) if m == 0 else (2, count, copies, n))
        for m, n in fields_out
    }
    scalars = dict(fields_out).get(0)
    return (points, values, variance, query), {
        "fields_in": fields_in,
        "fields_out": fields_out,
        "frequencies": frequencies,
        "weights": weights,
        "bias": None if scalars is None else rng.normal(size=scalars),
        **slow.generators(frequencies, count, seed),
        **PRIOR,
    }


def dense(given, arguments, noise):
    """The slow version's mean and block variance."""
    points, values, variance, query = given
    if noise == "shared":
        variance = np.broadcast_to(variance.mean(-1, keepdims=True), variance.shape)
    flows = {name: arguments[name] for name in ("zeroth_order", "first_order", "second_order")}
    names = ("fields_in", "fields_out", "frequencies", "weights", "bias", *PRIOR)
    found = [
        slow.convolve(*example, flows=flows, **{name: arguments[name] for name in names})
        for example in zip(points, values, variance, query, strict=True)
    ]
    mean = np.stack([m for m, _ in found])
    return mean, np.stack([slow.block_variance(c, arguments["fields_out"]) for _, c in found])


@every_type
@pytest.mark.parametrize("noise", ["shared", "channel"])
def test_equals_dense_matrices(types, noise):
    given, arguments = problem(types)
    mean, variance, _ = steerable_convolve(*given, **arguments, noise=noise)
    expected_mean, expected_variance = dense(given, arguments, noise)
    # Two quadratures of error 1e-13 each, and condition numbers below 1e3.
    np.testing.assert_allclose(mean, expected_mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(variance, expected_variance, rtol=0, atol=1e-10)


@every_type
def test_mean_alone(types):
    given, arguments = problem(types)
    for noise in ("shared", "channel"):
        expected, _, expected_nll = steerable_convolve(*given, **arguments, noise=noise)
        mean, variance, nll = steerable_convolve(
            *given, **arguments, noise=noise, with_variance=False
        )
        assert variance is None
        np.testing.assert_allclose(mean, expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(nll, expected_nll, rtol=1e-12)


def rotated(array, matrix):
    return array @ matrix.T


@every_type
@pytest.mark.parametrize(
    "noise, dtype, tolerance", [("shared", "float32", 1e-5), ("channel", "float64", 1e-12)]
)
def test_rotates_with_its_input(types, noise, dtype, tolerance):
    (points, values, variance, query), arguments = problem(types)
    arguments = {
        name: value.astype(dtype) if isinstance(value, np.ndarray) else value
        for name, value in arguments.items()
    }
    rho_in, rho_out = (slow.representation(fields) for fields in types)

    def result(points, values, query):
        given = (x.astype(dtype) for x in (points, values, variance, query))
        return steerable_convolve(*given, **arguments, noise=noise)

    mean, new_variance, nll = result(points, values, query)
    for angle in (0.1, 1.7, -2.9):
        turn = slow.representation(((1, 1),))(angle)
        found = result(rotated(points, turn), rotated(values, rho_in(angle)), rotated(query, turn))
        expected = rotated(mean.numpy(), rho_out(angle)), new_variance, nll_blocks(nll, types[0])
        found = found[0], found[1], nll_blocks(found[2], types[0])
        for a, b in zip(found, expected, strict=True):
            assert np.max(np.abs(a - b)) < tolerance * np.max(np.abs(b))


def nll_blocks(nll, fields):
    """The sum over a block is invariant."""
    return slow.block_mean(np.asarray(nll), fields)


def test_what_does_not_couple_channels_is_the_scalar_convolution():
    """B = 0 and S = sigma^2 / 2 in every channel: heat diffusion."""
    given, arguments = problem((((0, 3),), ((0, 4),)), count=2)
    widths = np.array([0.1, 0.25])
    heat = 0.5 * np.einsum("k,ij,ab->kijab", widths**2, np.eye(2), np.eye(5))
    arguments |= {
        "first_order": np.zeros((2, 2, 5, 5)), "second_order": heat, "zeroth_order": None
    }  # fmt: skip
    for noise in ("shared", "channel"):
        found = steerable_convolve(*given, **arguments, noise=noise)
        expected = convolve(
            *given, weights=arguments["weights"][0], bias=arguments["bias"], noise=noise,
            drift=np.zeros((2, 2)), diffusion=widths[:, None, None] ** 2 * np.eye(2), **PRIOR,
        )  # fmt: skip
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


def test_free_generators_rotate_too():
    given, arguments = problem(TYPES["alike"])
    arguments |= slow.generators((0, 1, 2), 2, seed=5, length=0.1, constraint="free")
    mean, variance, _ = steerable_convolve(*given, **arguments)
    expected_mean, expected_variance = dense(given, arguments, "shared")
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(variance, expected_variance, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("noise", ["shared", "channel"])
def test_gradients_equal_finite_differences(noise):
    given, arguments = problem(TYPES["uneven"], examples=1, size=4)
    names = ["first_order", "second_order", "zeroth_order", *PRIOR]
    fixed = {name: value for name, value in arguments.items() if name not in (*names, "weights")}
    frequencies = list(arguments["weights"])
    rng = np.random.default_rng(8)
    upstream = rng.normal(size=(2, 1, 5, 6))

    def total(*values):
        given, rest = values[:4], values[4:]
        weights = dict(zip(frequencies, rest[: len(frequencies)], strict=True))
        rest = dict(zip(names, rest[len(frequencies) :], strict=True))
        mean, variance, nll = steerable_convolve(
            *given, **fixed, **rest, weights=weights, noise=noise
        )
        found = tf.reduce_sum(upstream[0] * mean) + tf.reduce_sum(upstream[1] * variance)
        return found + 0.1 * tf.reduce_sum(nll)

    values = [*given, *arguments["weights"].values(), *(arguments[n] for n in names)]
    values = [tf.constant(v, tf.float64) for v in values]
    with tf.GradientTape() as tape:
        tape.watch(values)
        out = total(*values)
    gradients = tape.gradient(out, values)
    for at, (value, gradient) in enumerate(zip(values, gradients, strict=True)):
        direction = rng.normal(size=value.shape)
        step = 1e-5

        def moved(t, at=at, direction=direction, value=value):
            return total(*values[:at], value + t * direction, *values[at + 1 :])

        expected = (moved(step) - moved(-step)) / (2 * step)
        found = np.sum(gradient * direction)
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6, err_msg=str(at))


def test_unobserved_points_count_for_nothing():
    (points, values, variance, query), arguments = problem(TYPES["alike"])
    variance[:, 3] = np.inf
    expected = steerable_convolve(
        np.delete(points, 3, 1), np.delete(values, 3, 1), np.delete(variance, 3, 1), query,
        **arguments,
    )  # fmt: skip
    values[:, 3], points[:, 3] = np.nan, np.nan
    found = steerable_convolve(points, values, variance, query, **arguments)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


def test_sporadic_scalars():
    given, arguments = problem(TYPES["scalars in"])
    given[2][0, 1, 0] = given[2][0, 4, 1] = given[2][1, :, 0] = np.inf
    mean, variance, _ = steerable_convolve(*given, **arguments, noise="channel")
    expected_mean, expected_variance = dense(given, arguments, "channel")
    np.testing.assert_allclose(mean, expected_mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(variance, expected_variance, rtol=0, atol=1e-10)


def test_compiles_with_gradients():
    """With scalars and vectors alone: compiling takes long, and higher frequencies are like 1."""
    types = ((0, 2), (1, 2)), ((0, 3), (1, 3))
    given, arguments = problem(types, frequencies=(0, 1))

    def total(b):
        with tf.GradientTape() as tape:
            tape.watch(b)
            mean, variance, nll = steerable_convolve(*given, **{**arguments, "first_order": b})
            out = sum(tf.reduce_sum(tf.sin(t)) for t in (mean, variance, nll))
        return mean, variance, nll, tape.gradient(out, b)

    b = tf.constant(arguments["first_order"])
    compiled = tf.function(total, jit_compile=True, autograph=False)
    for found, expected in zip(compiled(b), total(b), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_errors_name_the_argument():
    given, arguments = problem(TYPES["alike"])
    points, values, variance, query = given
    for changes, message in (
        ({"weights": {**arguments["weights"], 1: np.zeros((1, 1, 1))}}, r"weights\[1\] has shape"),
        ({"frequencies": (0, 1)}, "first_order has shape"),
        ({"fields_in": ((0, 2),)}, "values has shape"),
    ):
        with pytest.raises(ValueError, match=message):
            steerable_convolve(*given, **{**arguments, **changes})
    with pytest.raises(ValueError, match="the plane"):
        steerable_convolve(points[..., :1], values, variance, query[..., :1], **arguments)
    variance[0, 0, 3] = np.inf  # half of a vector
    with pytest.raises(tf.errors.InvalidArgumentError, match="some channels of a block only"):
        steerable_convolve(*given, **arguments)
