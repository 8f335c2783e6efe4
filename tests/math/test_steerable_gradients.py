"""Gradients by points and query of the kernels of fields, where points coincide and near it.

Every reference is a smooth function: central differences, whose points never coincide, and the
Fourier lattice of `tfpn.math.coupled_kernel`, which knows no polar coordinates.
"""

import numpy as np
import pytest
import slow_gp
import slow_steerable as slow
import tensorflow as tf

from tfpn.math import coupled_kernel
from tfpn.math.steerable import steerable_convolve, steerable_kernel

PRIOR = {"signal_std": 1.3, "length_scale": 0.3}
# Orders 0 to 6; (0, 2) and (1, 3) have even ones alone.
FREQUENCIES = [(0, 1), (0, 2), (0, 1, 2), (1, 3)]
# Far below the length scale, where rounding in a series would be divided by the distance.
DISTANCES = (0.0, 1e-30, 1e-12, 1e-9, 1e-6, 1e-4, 1e-2, 0.2)
# Of the tables, relative to the largest value: see `steerable_kernel`. A derivative multiplies what
# is cut off and rounded by at most the cutoff of the radii (8.4 and 6.3), in units of 1 / l.
TABLES = {"float64": 10 * 1e-12, "float32": 10 * 1e-6}


def one_flow(frequencies, **options):
    return {name: value[0] for name, value in slow.generators(frequencies, 1, **options).items()}


def near_zero():
    """Offsets of every distance in three directions, [P, 2]."""
    angles = np.array([0.3, 2.0, -1.1])
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    return (np.array(DISTANCES)[:, None, None] * directions).reshape(-1, 2)


def slopes(route, x, weights, **arguments):
    """Of random combinations of each pair's channels, by x1 and by x2: [2, P, 2]."""
    given = [tf.convert_to_tensor(x), tf.zeros_like(x)]
    with tf.GradientTape() as tape:
        tape.watch(given)
        kernel = route(*given, **PRIOR, **arguments)
        total = tf.reduce_sum(tf.cast(weights, kernel.dtype) * kernel)
    return tf.stack(tape.gradient(total, given))


def problem_near_zero(frequencies):
    """A flow, offsets, weights of the channels' pairs, and the size of what the weights add up."""
    flow, x = one_flow(frequencies), near_zero()
    size = flow["zeroth_order"].shape[-1]
    weights = np.random.default_rng(0).normal(size=(len(x), size, size))
    largest = np.max(np.sum(np.abs(weights), axis=(1, 2)))
    return flow, x, weights, largest * PRIOR["signal_std"] ** 2 / PRIOR["length_scale"]


@pytest.mark.parametrize("both_sides", [False, True])
@pytest.mark.parametrize("frequencies", FREQUENCIES)
def test_slopes_equal_those_of_the_general_route(frequencies, both_sides):
    """For every order, at every distance, in both dtypes; and they are continuous at 0."""
    flow, x, weights, size = problem_near_zero(frequencies)
    options = {**flow, "both_sides": both_sides}
    expected = slopes(coupled_kernel, x, weights, **options, num_nodes=96)
    odd = any((m - n) % 2 for m in frequencies for n in frequencies)
    assert (np.max(np.abs(expected[:, 0])) > 0.1) == odd  # linear at 0, not flat
    for dtype, tolerance in TABLES.items():
        found = slopes(
            steerable_kernel, x.astype(dtype), weights, frequencies=frequencies, **options
        )
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * size)


def test_slopes_of_the_general_route_by_differences():
    flow = one_flow((0, 1, 2))
    x, weights = np.zeros((1, 2)), np.random.default_rng(0).normal(size=(1, 5, 5))

    def total(x):
        return np.sum(weights * coupled_kernel(x, np.zeros((1, 2)), **PRIOR, **flow))

    found = slopes(coupled_kernel, x, weights, **flow)[0]
    # Of fourth order with step 1e-3: (step / l)^4 = 1e-10, and rounding 1e-13 / step.
    size = np.sum(np.abs(weights)) / PRIOR["length_scale"]
    np.testing.assert_allclose(found, slow_gp.differences(total, x), rtol=0, atol=1e-9 * size)


def test_slopes_in_a_compiled_function():
    flow, where, weights, size = problem_near_zero((0, 1))

    def function(x):
        return slopes(steerable_kernel, x, weights, frequencies=(0, 1), **flow)

    compiled = tf.function(function, jit_compile=True, autograph=False)
    for dtype, tolerance in TABLES.items():
        x = tf.constant(where, dtype)
        np.testing.assert_allclose(compiled(x), function(x), rtol=0, atol=tolerance * size)


TYPES = {
    "scalars": (((0, 1),), ((0, 1),)),
    "to vectors": (((0, 1),), ((1, 1), (2, 1))),
    "of every order": (((0, 1), (1, 1), (2, 1)), ((0, 1), (1, 1), (2, 1))),
}


def problem(types):
    """Observations of which two coincide and two nearly do, and query points on and near them."""
    fields_in, fields_out = types
    frequencies = (0, 1, 2)
    rng = np.random.default_rng(3)
    channels = sum(1 if m == 0 else 2 for m, _ in fields_in)
    points = rng.uniform(size=(1, 6, 2))
    points[0, 1] = points[0, 0]
    points[0, 3] = points[0, 2] + [1e-9, -2e-9]
    query = np.concatenate([points[:, :3], points[:, :1] + 1e-7, [[[0.4, 0.7]]]], axis=1)
    weights = {m: rng.normal(size=(1, 1, 1) if m == 0 else (2, 1, 1, 1)) for m, _ in fields_out}
    options = {
        "fields_in": fields_in, "fields_out": fields_out, "frequencies": frequencies,
        "weights": weights, **slow.generators(frequencies, 1), **PRIOR,
    }  # fmt: skip
    values, variance = rng.normal(size=(1, 6, channels)), np.full((1, 6, channels), 0.1)
    return points, values, variance, query, options


def total(points, values, variance, query, options, noise):
    mean, spread, _ = steerable_convolve(points, values, variance, query, **options, noise=noise)
    rng = np.random.default_rng(4)
    up = [tf.constant(rng.normal(size=mean.shape), mean.dtype) for _ in range(2)]
    return tf.reduce_sum(up[0] * mean) + tf.reduce_sum(up[1] * spread)


@pytest.mark.parametrize(
    "types, noise",
    [("scalars", "shared"), ("to vectors", "channel"), ("of every order", "shared")],
)
def test_convolution_by_points_and_query(types, noise):
    """Central differences in float64, of each alone and of both as one tensor."""
    points, values, variance, query, options = problem(TYPES[types])

    def function(points, query, dtype="float64"):
        rest = (tf.constant(a, dtype) for a in (values, variance))
        return total(points, *rest, query, options, noise)

    routes = {
        "query": (query, lambda x: function(tf.constant(points, x.dtype), x, x.dtype)),
        "points": (points, lambda x: function(x, tf.constant(query, x.dtype), x.dtype)),
        "both": (points, lambda x: function(x, x, x.dtype)),
    }
    step = 1e-4
    for name, (where, route) in routes.items():
        direction = np.random.default_rng(5).normal(size=where.shape)
        ends = [float(route(tf.constant(where + t * step * direction))) for t in (-2, -1, 1, 2)]
        expected = (8 * (ends[2] - ends[1]) - (ends[3] - ends[0])) / (12 * step)
        # Differences of fourth order: step^4 times a fifth derivative of some 100 / l^5 (1e-11
        # here), and rounding of the values by their condition number of 100 (1e-13), divided by
        # the step. In float32: the points' own rounding, 1e-7 / l, and the tables' 1e-6.
        for dtype, tolerance in (("float64", 1e-8), ("float32", 3e-4)):
            with tf.GradientTape() as tape:
                x = tf.constant(where, dtype)
                tape.watch(x)
                out = route(x)
            gradient = tape.gradient(out, x).numpy().astype(float)
            assert np.all(np.isfinite(gradient))
            size = np.sum(np.abs(gradient * direction))
            assert abs(np.sum(gradient * direction) - expected) < tolerance * size, (name, dtype)
