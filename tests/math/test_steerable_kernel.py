"""The fast route in circular harmonics: equal to the general one, and exact under rotations."""

import numpy as np
import pytest
import slow_steerable as slow
import tensorflow as tf
from oracle import array, assert_agrees, cases

from tfpn.math import coupled_kernel
from tfpn.math.steerable import steerable_kernel

# The references with equivariant generators, and their fields.
EQUIVARIANT = {
    "coupled-public-07": (0, 1),
    "coupled-public-08": (0, 1),
    "coupled-public-09": (0, 1, 2),
}
PRIOR = {"signal_std": 1.3, "length_scale": 0.3}


def one_flow(frequencies=(0, 1, 2), **options):
    return {name: value[0] for name, value in slow.generators(frequencies, 1, **options).items()}


def points(dtype="float64", count=30, size=1.0, seed=0):
    x = np.random.default_rng(seed).normal(size=(count, 2)) * size
    x[0] = 0.0
    return x.astype(dtype), np.zeros(2, dtype)


@pytest.mark.parametrize("case", [c for c in cases("coupled") if c.id in EQUIVARIANT])
@pytest.mark.parametrize("output", ["left", "both"])
def test_equals_the_references(case, output):
    inputs = case["inputs"]
    found = steerable_kernel(
        array(inputs["x"]),
        array(inputs["xp"]),
        frequencies=EQUIVARIANT[case["id"]],
        signal_std=np.sqrt(inputs["a"] / (2 * np.pi)) / inputs["lengthscale"],
        length_scale=inputs["lengthscale"],
        first_order=array(inputs["B"]),
        second_order=array(inputs["S"]),
        both_sides=output == "both",
    )
    assert_agrees(case, output, found)


@pytest.mark.parametrize("dtype, tolerance", [("float64", 2e-12), ("float32", 2e-6)])
@pytest.mark.parametrize("both_sides", [False, True])
@pytest.mark.parametrize("length", [0.05, 0.3, 0.6])
@pytest.mark.parametrize("frequencies", [(0,), (1,), (0, 2), (0, 1, 2), (1, 3)])
def test_equals_the_general_route(dtype, tolerance, both_sides, length, frequencies):
    flow = one_flow(frequencies, length=length)
    x1, x2 = points()
    expected = coupled_kernel(x1, x2, **PRIOR, **flow, both_sides=both_sides, num_nodes=128).numpy()
    found = steerable_kernel(
        *points(dtype), frequencies=frequencies, **PRIOR, **flow, both_sides=both_sides
    )
    assert found.dtype == dtype
    assert np.max(np.abs(found - expected)) < tolerance * np.max(np.abs(expected))


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-14), ("float32", 1e-6)])
@pytest.mark.parametrize("length", [0.3, 3.0, 30.0])
def test_rotates_exactly_whatever_the_tables_resolve(dtype, tolerance, length):
    """Also flows that reach a hundred length scales, far beyond what the tables hold."""
    flow = one_flow(length=length)
    x1, x2 = points()

    def kernel(x):
        return steerable_kernel(
            x.astype(dtype), x2.astype(dtype), frequencies=(0, 1, 2), **PRIOR, **flow
        ).numpy()

    expected = kernel(x1)
    rho, turn = (slow.representation(f) for f in (((0, 1), (1, 1), (2, 1)), ((1, 1),)))
    for angle in (0.3, 2.0, -1.234):
        found = kernel(x1 @ turn(angle).T)
        turned = rho(angle) @ expected @ rho(angle).T
        assert np.max(np.abs(found - turned)) < 10 * tolerance * np.max(np.abs(turned))


def test_flows_that_reach_far():
    """Twice what the tables hold in units of the length scale; diffusion damps what is cut off."""
    flow = one_flow(length=1.5)
    x1, x2 = points(size=1.5)
    expected = coupled_kernel(x1, x2, **PRIOR, **flow, num_nodes=400).numpy()
    for dtype, tolerance in (("float64", 1e-6), ("float32", 1e-3)):
        found = steerable_kernel(*points(dtype, size=1.5), frequencies=(0, 1, 2), **PRIOR, **flow)
        assert np.max(np.abs(found - expected)) < tolerance * np.max(np.abs(expected))


def test_gradient_by_the_points():
    flow = one_flow()
    x1 = tf.constant(points(count=6, size=0.4)[0])
    weights = np.random.default_rng(1).normal(size=(6, 5, 5))

    def total(route, **options):
        with tf.GradientTape() as tape:
            tape.watch(x1)
            out = tf.reduce_sum(weights * route(x1, np.zeros(2), **PRIOR, **flow, **options))
        return tape.gradient(out, x1).numpy()

    found = total(steerable_kernel, frequencies=(0, 1, 2))
    expected = total(coupled_kernel, num_nodes=128)
    assert np.all(np.isfinite(found))
    # At coincident points the harmonics' direction does not exist and its gradient is taken as 0.
    np.testing.assert_allclose(found[1:], expected[1:], rtol=0, atol=1e-9)


def test_errors_name_the_argument():
    flow = one_flow()
    with pytest.raises(ValueError, match="first_order has shape"):
        steerable_kernel(*points(), frequencies=(0, 1), **PRIOR, **flow)
    with pytest.raises(ValueError, match="points"):
        steerable_kernel(np.zeros(3), np.zeros(3), frequencies=(0, 1, 2), **PRIOR, **flow)
