"""The fast route in circular harmonics: equal to the general one, and exact under rotations."""

import numpy as np
import pytest
import slow_steerable as slow
import tensorflow as tf
from oracle import array, assert_agrees, cases

from tfpn.math import coupled_kernel
from tfpn.math.steerable import steerable_kernel
from tfpn.math.steerable.plane import PlaneFlows as Flows

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


def test_float32_in_any_unit():
    flow = one_flow(length=0.3)
    x1, x2 = points()
    expected = steerable_kernel(x1, x2, frequencies=(0, 1, 2), **PRIOR, **flow).numpy()
    for unit in (1e-19, 1e19):
        scaled = {**flow, "first_order": flow["first_order"] * unit}
        scaled["second_order"] = flow["second_order"] * unit**2
        prior = {**PRIOR, "length_scale": PRIOR["length_scale"] * unit}
        found = steerable_kernel(
            np.float32(x1 * unit), np.float32(x2), frequencies=(0, 1, 2), **prior, **scaled
        )
        assert np.max(np.abs(found - expected)) < 2e-6 * np.max(np.abs(expected))


def test_flows_that_reach_far():
    """Twice what the tables hold in units of the length scale; diffusion damps what is cut off."""
    flow = one_flow(length=1.5)
    x1, x2 = points(size=1.5)
    expected = coupled_kernel(x1, x2, **PRIOR, **flow, num_nodes=400).numpy()
    for dtype, tolerance in (("float64", 1e-6), ("float32", 1e-3)):
        found = steerable_kernel(*points(dtype, size=1.5), frequencies=(0, 1, 2), **PRIOR, **flow)
        assert np.max(np.abs(found - expected)) < tolerance * np.max(np.abs(expected))


@pytest.mark.parametrize("damped", [False, True])
def test_flows_that_reach_30_to_50_length_scales(damped):
    """Waves that nothing damps need the tables to be as sharp there as near by."""
    flow = one_flow(length=1.0)
    flow["first_order"] = flow["first_order"] * (3.0 if damped else 14.0)
    if not damped:
        flow["second_order"] = np.zeros_like(flow["second_order"])
    x1, x2 = points(count=12, size=3.0)
    generator = [tf.constant(flow[f"{n}_order"])[None] for n in ("zeroth", "first", "second")]
    flows = Flows(*generator, (0, 1, 2), PRIOR["signal_std"], PRIOR["length_scale"], tf.float32)
    assert 30.0 < flows.reach < 50.0
    expected = coupled_kernel(x1, x2, **PRIOR, **flow, num_nodes=320).numpy()
    for dtype, tolerance in (("float64", 2e-12), ("float32", 2e-6)):
        found = steerable_kernel(
            x1.astype(dtype), x2.astype(dtype), frequencies=(0, 1, 2), **PRIOR, **flow
        )
        assert np.max(np.abs(found - expected)) < tolerance * np.max(np.abs(expected))


def test_series_of_every_length_compile_with_their_gradients():
    """One function of the generator, compiled once: its values decide on the series."""
    flow = one_flow((0, 1), length=0.3)
    # About as far as the flow carries.
    near = np.array([[0.0, 0.0], [0.1, 0.14], [-0.17, 0.02], [0.0, -0.15]])
    x2 = tf.zeros(2, tf.float64)
    first_order = flow.pop("first_order")
    rng = np.random.default_rng(1)
    weights, direction = rng.normal(size=(4, 3, 3)), rng.normal(size=first_order.shape)

    def total(x, b):
        with tf.GradientTape() as tape:
            tape.watch([x, b])
            kernel = steerable_kernel(x, x2, frequencies=(0, 1), first_order=b, **PRIOR, **flow)
            out = tf.reduce_sum(weights * kernel)
        return out, *tape.gradient(out, [x, b])

    compiled = tf.function(total, jit_compile=True)
    lengths = set()
    for stretch in (1.0, 20.0, 60.0):
        x1, b = tf.constant(near * stretch), tf.constant(first_order * stretch)
        generator = [t[None] for t in (flow["zeroth_order"], b, flow["second_order"])]
        lengths.add(int(Flows(*generator, (0, 1), *PRIOR.values(), tf.float64).level))
        eager = total(x1, b)
        for found, expected in zip(compiled(x1, b), eager, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        step = 1e-6
        ends = [compiled(x1, b + sign * step * direction)[0] for sign in (1.0, -1.0)]
        slope = np.sum(direction * eager[2])
        assert abs(slope) > 0.01
        np.testing.assert_allclose((ends[0] - ends[1]) / (2 * step), slope, rtol=1e-5, atol=1e-6)
    assert lengths == {0, 1, 2}


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
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_errors_name_the_argument():
    flow = one_flow()
    with pytest.raises(ValueError, match="first_order has shape"):
        steerable_kernel(*points(), frequencies=(0, 1), **PRIOR, **flow)
    with pytest.raises(ValueError, match="points"):
        steerable_kernel(np.zeros(4), np.zeros(4), frequencies=(0, 1, 2), **PRIOR, **flow)
    with pytest.raises(ValueError, match="frequencies must be whole numbers .* found 5"):
        steerable_kernel(*points(), frequencies=5, **PRIOR, **flow)
    for bad in (np.nan, np.inf):
        for given in ([bad, 0.0], [0.0, 0.0]), ([0.0, 0.0], [bad, 0.0]):
            with pytest.raises(tf.errors.InvalidArgumentError, match="points' offset, .* finite"):
                steerable_kernel(*map(np.array, given), frequencies=(0, 1, 2), **PRIOR, **flow)
