"""Kernels under coupled flows: against high-precision references and closed forms."""

import numpy as np
import pytest
import tensorflow as tf
from oracle import array, assert_agrees, cases

from tfpn.math import coupled_kernel, diffused_kernel


def signal_std(inputs):
    """s of the references' amplitude a = s^2 (2 pi l^2)^(d/2)."""
    return np.sqrt(inputs["a"] * (2 * np.pi * inputs["lengthscale"] ** 2) ** (-0.5 * inputs["d"]))


def arguments(inputs):
    return {
        "signal_std": signal_std(inputs),
        "length_scale": inputs["lengthscale"],
        "first_order": array(inputs["B"]),
        "second_order": array(inputs["S"]),
    }


@pytest.mark.parametrize("case", cases("coupled"))
@pytest.mark.parametrize("output", ["left", "both"])
def test_equals_the_references(case, output):
    x, xp = array(case["inputs"]["x"]), array(case["inputs"]["xp"])
    found = coupled_kernel(x, xp, **arguments(case["inputs"]), both_sides=output == "both")
    assert_agrees(case, output, found)


def random_generator(dim, channels, seed=0, size=0.2):
    """B symmetric, S = Q^T Q / 2 in every direction, C antisymmetric: a dissipative generator."""
    rng = np.random.default_rng(seed)
    b = rng.normal(size=(dim, channels, channels)) * size
    q = rng.normal(size=(dim, channels, channels)) * size
    s = np.einsum("iab,jac->ijbc", q, q) / 2
    c = rng.normal(size=(channels, channels))
    return {
        "first_order": (b + b.swapaxes(1, 2)) / 2,
        "second_order": (s + s.transpose(1, 0, 2, 3)) / 2,
        "zeroth_order": c - c.T,
    }


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_one_channel_is_the_scalar_diffusion(dim):
    rng = np.random.default_rng(dim)
    x1, x2 = rng.normal(size=(2, 4, dim)) * 0.3
    drift, factor = rng.normal(size=dim) * 0.2, rng.normal(size=(dim, dim)) * 0.2
    diffusion = factor @ factor.T
    prior = {"signal_std": 1.3, "length_scale": 0.4}
    flow = {"first_order": drift[:, None, None], "second_order": 0.5 * diffusion[..., None, None]}
    for sides in (1, 2):
        expected = diffused_kernel(
            x1, x2, **prior, drift=drift * (2 - sides), diffusion=sides * diffusion
        )
        found = coupled_kernel(x1, x2, **prior, **flow, both_sides=sides == 2)
        np.testing.assert_allclose(found[..., 0, 0], expected, rtol=1e-11, atol=1e-12)


def test_symmetric_matrices_that_commute_split_into_scalar_diffusions():
    rotation = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))[0]
    drifts = np.array([[0.3, 0.0], [-0.2, 0.1], [0.0, 0.4]])
    spreads = np.array([0.05, 0.0, 0.1])
    b = np.einsum("ak,ki,bk->iab", rotation, drifts, rotation)
    s = np.einsum("ij,ak,k,bk->ijab", np.eye(2), rotation, spreads / 2, rotation)
    x = np.array([0.2, -0.5])
    prior = {"signal_std": 1.0, "length_scale": 0.5}
    found = coupled_kernel(x, np.zeros(2), **prior, first_order=b, second_order=s)
    scalar = diffused_kernel(
        x, np.zeros(2), **prior, drift=drifts, diffusion=spreads[:, None, None] * np.eye(2)
    )
    expected = rotation @ np.diag(scalar) @ rotation.T
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


def test_a_rotation_of_channels_alone():
    c = np.array([[0.0, -0.7], [0.7, 0.0]])
    flow = {"first_order": np.zeros((2, 2, 2)), "second_order": np.zeros((2, 2, 2, 2))}
    prior = {"signal_std": 1.0, "length_scale": 0.3}
    x = np.array([0.1, 0.2])
    found = coupled_kernel(x, np.zeros(2), **prior, **flow, zeroth_order=c)
    rotation = np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]])
    np.testing.assert_allclose(found, np.exp(-0.05 / 0.18) * rotation, rtol=1e-11, atol=1e-12)


def test_reach_of_many_length_scales():
    """Two nodes' numbers agree where the default lattice has to stretch."""
    flow = random_generator(2, 2, size=0.2)
    prior = {"signal_std": 1.0, "length_scale": 0.2}
    x = np.array([[2.0, -1.0], [0.0, 0.5]])
    coarse, fine = (coupled_kernel(x, np.zeros(2), **prior, **flow, num_nodes=n) for n in (64, 200))
    np.testing.assert_allclose(coarse, fine, rtol=0, atol=1e-6)


def test_both_sides_are_a_covariance():
    x = np.random.default_rng(6).normal(size=(5, 2)) * 0.3
    flow = random_generator(2, 3)
    k = coupled_kernel(
        x[:, None], x[None], signal_std=1.0, length_scale=0.4, **flow, both_sides=True
    ).numpy()
    k = k.transpose(0, 2, 1, 3).reshape(15, 15)
    np.testing.assert_allclose(k, k.T, rtol=0, atol=1e-13)
    assert np.linalg.eigvalsh(k).min() > -1e-12


@pytest.mark.parametrize("both_sides", [False, True])
def test_gradients_equal_finite_differences(both_sides):
    flow = random_generator(2, 2)
    names = ["first_order", "second_order", "zeroth_order"]
    weights = np.random.default_rng(7).normal(size=(2, 2))

    def total(x1, x2, s, length, *generator):
        k = coupled_kernel(
            x1, x2, signal_std=s, length_scale=length, **dict(zip(names, generator, strict=True)),
            both_sides=both_sides,
        )  # fmt: skip
        return tf.reduce_sum(weights * k)

    values = [np.array([0.1, 0.3]), np.array([-0.2, 0.1]), 1.2, 0.4, *(flow[n] for n in names)]
    values = [tf.constant(v, tf.float64) for v in values]
    theoretical, numerical = tf.test.compute_gradient(total, values, delta=1e-4)
    for found, expected in zip(theoretical, numerical, strict=True):
        # Central differences: 1e-6 of truncation.
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_compiles_with_its_gradients_and_keeps_the_dtype():
    flow = random_generator(2, 3)
    rng = np.random.default_rng(8)
    weights = rng.normal(size=(4, 3, 3))
    x = rng.normal(size=(4, 2)) * 0.3
    given = [tf.constant(value, tf.float64) for value in (x, 1.3, 0.4, *flow.values())]

    def kernel(x, s, length, *generator):
        return coupled_kernel(
            x, tf.zeros(2, x.dtype), signal_std=s, length_scale=length,
            **dict(zip(flow, generator, strict=True)),
        )  # fmt: skip

    def with_gradients(*given):
        with tf.GradientTape() as tape:
            tape.watch(given)
            found = kernel(*given)
            total = tf.reduce_sum(weights * found)
        low = kernel(*(tf.cast(tensor, tf.float32) for tensor in given[:3]), *given[3:])
        return low, found, *tape.gradient(total, given)

    compiled = tf.function(with_gradients, jit_compile=True, autograph=False)(*given)
    low, *eager = with_gradients(*given)
    assert compiled[0].dtype == tf.float32
    np.testing.assert_allclose(compiled[0], low, rtol=0, atol=1e-6)
    for found, expected in zip(compiled[1:], eager, strict=True):
        assert np.any(expected != 0.0)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_float32_in_any_unit():
    flow = random_generator(2, 3)
    x = np.random.default_rng(8).normal(size=(4, 2)) * 0.3
    expected = coupled_kernel(x, np.zeros(2), signal_std=1.0, length_scale=0.4, **flow)
    for unit in (1.0, 1e-19, 1e19):
        scaled = {**flow, "first_order": flow["first_order"] * unit}
        scaled["second_order"] = flow["second_order"] * unit**2
        found = coupled_kernel(
            np.float32(x * unit), np.zeros(2), signal_std=1.0, length_scale=0.4 * unit, **scaled
        )
        assert found.dtype == tf.float32
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_shapes_broadcast():
    flow = random_generator(2, 3)
    prior = {"signal_std": 1.0, "length_scale": 0.4}
    x1, x2 = np.zeros((4, 1, 2)), np.zeros((5, 2))
    assert coupled_kernel(x1, x2, **prior, **flow).shape == (4, 5, 3, 3)


def test_errors_name_the_argument():
    flow = random_generator(2, 3)
    prior = {"signal_std": 1.0, "length_scale": 0.4}
    x = np.zeros(2)
    with pytest.raises(ValueError, match="x2"):
        coupled_kernel(x, np.zeros(3), **prior, **flow)
    with pytest.raises(ValueError, match="d = 1, 2 or 3"):
        coupled_kernel(np.zeros(4), np.zeros(4), **prior, **flow)
    with pytest.raises(ValueError, match="second_order has shape"):
        coupled_kernel(x, x, **prior, **{**flow, "second_order": np.zeros((2, 2, 3, 2))})
    with pytest.raises(ValueError, match="zeroth_order has shape"):
        coupled_kernel(x, x, **prior, **{**flow, "zeroth_order": np.zeros((2, 2))})
    for number in (31, "64"):
        with pytest.raises(ValueError, match=f"num_nodes .* found {number!r}"):
            coupled_kernel(x, x, **prior, **flow, num_nodes=number)


@pytest.mark.parametrize("bad", ["far", "amplifying", "nan"])
def test_a_spectrum_that_is_cut_off_is_an_error(bad):
    flow, x = random_generator(2, 2), np.zeros(2)
    if bad == "far":
        x = np.array([100.0, 0.0])
    elif bad == "amplifying":
        flow["second_order"] = -10.0 * np.einsum("ij,ab->ijab", np.eye(2), np.eye(2))
    else:
        flow["first_order"] = flow["first_order"] * np.nan
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="first_order" if bad == "nan" else "cuts off"
    ):
        coupled_kernel(x, np.zeros(2), signal_std=1.0, length_scale=0.4, **flow)


@pytest.mark.parametrize(
    "changes", [{"x1": [np.inf]}, {"x1": [np.nan]}, {"length_scale": 0.0}, {"length_scale": -1.0}]
)
def test_what_is_not_finite_is_an_error(changes):
    given = {"x1": [0.0], "x2": [0.0], "signal_std": 1.0, "length_scale": 0.3, **changes}
    points = [np.array(given.pop(key)) for key in ("x1", "x2")]
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be finite"):
        coupled_kernel(*points, **given, first_order=[[[0.1]]], second_order=[[[[0.0]]]])
