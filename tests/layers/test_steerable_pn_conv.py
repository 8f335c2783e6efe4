"""SteerablePNConv: its flows, queries, priors and units."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from field_layers import CASES, FIELDS, SCALARS, assert_rotates, built, make, make_input, rotated
from layer_harness import KEYS, assert_same, gradients

from tfpn import layers


def test_exact_white_noise_in_float32_commutes_with_rotations():
    """The hardest signal: without double precision inside, the error is 6e-5."""
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    points, values = rng.uniform(-0.5, 0.5, size=(2, 75, 2)), rng.normal(size=(2, 75, 2))
    x = {"points": points, "values": values, "variance": np.zeros_like(values)}
    x = {key: value.astype("float32") for key, value in x.items()}
    layer, angles = make("conv_scalars_in", "float32", spacing=0.1), (0.0, 0.4, 1.9, -2.6)
    turned = [rotated(x, SCALARS, angle) for angle in angles]
    # All in one call: most of its time is Python's.
    found = layer({key: np.concatenate([part[key] for part in turned]) for key in KEYS})
    parts = {key: np.split(np.asarray(found[key], np.float64), len(angles)) for key in KEYS}
    first = {key: parts[key][0] for key in KEYS}
    for at, angle in enumerate(angles):
        expected = rotated(first, FIELDS, angle)
        for key in ("values", "variance"):
            error = np.max(np.abs(parts[key][at] - expected[key])) / np.max(np.abs(expected[key]))
            assert error < 1e-5, (key, angle)


def test_far_flows_in_float32_equal_those_in_float64():
    fine, coarse = (make("conv", dtype) for dtype in ("float64", "float32"))
    x = make_input(FIELDS, "float32")
    for layer in (fine, coarse):
        layer(x)
        reach, limit = layer.flow_reach()
        assert reach < 18.0
    fine.generator_weights["symmetric"].assign(fine.generator_weights["symmetric"] * 16.0)
    for weight, source in zip(coarse.weights, fine.weights, strict=True):
        weight.assign(source)
    for layer in (fine, coarse):
        reach, limit = layer.flow_reach()
        assert 30.0 < reach < limit
    found, expected = coarse(x), fine(x)
    for key in KEYS:
        a, b = (np.asarray(output[key], float) for output in (found, expected))
        seen = np.isfinite(b)
        assert np.max(np.abs(a[seen] - b[seen])) < 1e-4 * np.max(np.abs(b[seen]))


@pytest.mark.parametrize("size, dtype", [(1e3, "float32"), (1e15, "float32"), (1e15, "float64")])
@pytest.mark.parametrize("names", [("factors",), None])
def test_generators_of_any_size_neither_amplify_nor_fail(size, dtype, names):
    """Transport, diffusion or all of a generator enlarged, as by training at too high a rate."""
    layer, x = make("conv", dtype), make_input(FIELDS, dtype)
    before = {key: np.asarray(value) for key, value in layer(x).items()}
    for name, weight in layer.generator_weights.items():
        if names is None or name in names:
            weight.assign(weight * size)
    after = {key: np.asarray(value) for key, value in layer(x).items()}
    for key in ("values", "variance"):
        seen = np.isfinite(before[key])
        assert np.all(np.isfinite(after[key][seen]))
    # Posterior fields come to no more than some prior standard deviations of 1; W sums them up.
    bound = sum(float(np.sum(np.abs(weight))) for weight in layer.kernels.values())
    assert np.max(np.abs(after["values"])) < 3.0 * bound
    assert np.max(after["variance"][seen]) < bound**2
    slopes = gradients(layer, x)
    assert all(np.all(np.isfinite(slope)) for slope in slopes)


@pytest.mark.parametrize("name", ["conv", "conv_scalars_in", "conv_channel"])
def test_query_points(name):
    x = make_input(CASES[name][2])
    layer = built(name)
    here, there = layer(x), layer(x, x["points"][:, :2] + 0.1)
    assert there["values"].shape[:2] == (3, 2)
    assert np.all(np.isfinite(there["variance"]))
    same = layer(x, x["points"])
    np.testing.assert_allclose(same["values"][0], here["values"][0], rtol=1e-12, atol=1e-12)
    prior = np.asarray(there["variance"][2])  # an example without any observation
    np.testing.assert_allclose(prior[0], prior[1], rtol=1e-12)


def test_sporadic_scalars():
    x = make_input(SCALARS)
    x["variance"][0, 1, 0] = x["variance"][0, 2, 1] = np.inf
    layer = built("conv_scalars_in", noise="channel")
    output = layer(x)
    assert np.all(np.isfinite(output["variance"][0]))
    assert_rotates(layer, x, SCALARS, FIELDS, 1e-11)
    with pytest.raises(tf.errors.InvalidArgumentError, match="noise='channel'"):
        built("conv_scalars_in")(x)


def test_generators_that_do_not_couple_are_the_plain_convolution():
    """Two heat flows on scalars: PNConv without drift."""
    x = make_input(SCALARS)
    steerable = layers.SteerablePNConv(
        {0: 3}, constraint="free", frequencies=(0, 1), spacing=0.3, dtype="float64"
    )
    plain = layers.PNConv(3, num_basis=2, spacing=0.3, dtype="float64")
    steerable(x), plain(x)
    basis = steerable._family._bases["second_order"]  # S = sum of coefficients times these
    widths = np.array([0.1, 0.3])
    heat = 0.5 * np.einsum("k,ij,ab->kijab", widths**2, np.eye(2), np.eye(3))
    flat = basis.reshape(len(basis), -1).T
    coefficients = np.linalg.lstsq(flat, heat.reshape(2, -1).T, rcond=None)[0].T
    weights = steerable.generator_weights
    weights["second_order"].assign(coefficients)
    for name in ("zeroth_order", "first_order"):
        weights[name].assign(np.zeros(weights[name].shape))
    plain.drift.assign(np.zeros((2, 2)))
    plain.diffusion_factor.assign(widths[:, None, None] * np.eye(2))
    plain.kernel.assign(steerable.kernels[0])
    assert_same(steerable(x), plain(x), rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("size", [1.0, 1e2, 1e4])
def test_dissipative_generators_never_amplify(size):
    """The output's prior variance without mixing is at most the input's, whatever the weights."""
    layer = built("conv", num_basis=1)
    rng = np.random.default_rng(0)
    for weight in layer.generator_weights.values():
        weight.assign(size * rng.normal(size=weight.shape))
    for m, kernel in layer.kernels.items():
        one = np.zeros(kernel.shape)
        one[(0,) * (1 if m == 0 else 2) + (0, 0)] = 1.0
        kernel.assign(one)
    x = make_input(FIELDS)
    output = layer(x)
    prior = np.asarray(output["variance"])[2]
    variance = np.asarray(layer(x, x["points"])["variance"])[2]
    assert np.all(prior == np.inf)
    limit = np.exp(2.0 * float(layer.log_signal_std.numpy()))
    assert np.all(variance <= limit * (1 + 1e-9))


def test_adapt_measures_the_spacing():
    x = make_input(SCALARS)
    one, two = (make("conv_scalars_in") for _ in range(2))
    one.adapt(x)
    two.adapt({**x, "points": 10.0 * x["points"]})
    np.testing.assert_allclose(
        np.asarray(two.log_length_scale) - np.asarray(one.log_length_scale), np.log(10.0)
    )
    for key, power in (("values", 1.0), ("variance", 1.0)):
        for m, kernel in two.kernels.items():
            kernel.assign(one.kernels[m])
        a = np.asarray(one(x)[key])[0]
        b = np.asarray(two({**x, "points": 10.0 * x["points"]})[key])[0]
        np.testing.assert_allclose(a, b * power, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", [layers.SteerablePNConv, layers.PNConv])
def test_float32_takes_points_in_any_unit_that_it_can_square(kind):
    keras.utils.set_random_seed(0)
    x = make_input(SCALARS, "float32")
    plain, expected = kind(2, spacing=0.3, seed=3), {}
    plain.build({key: value.shape for key, value in x.items()})
    for unit in (1.0, 1e-14, 1e15):
        layer = kind(2, spacing=0.3 * unit, seed=3)
        scaled = {**x, "points": x["points"] * np.float32(unit)}
        layer.build({key: value.shape for key, value in x.items()})
        for weight, other in zip(layer.weights, plain.weights, strict=True):
            if "kernel" in weight.name:
                weight.assign(other)
        with tf.GradientTape() as tape:
            out = layer(scaled)
            finite = tf.math.is_finite(out["variance"])
            total = tf.reduce_sum(tf.square(out["values"]))
            total += tf.reduce_sum(tf.where(finite, out["variance"], 0.0))
        found = {
            "values": out["values"].numpy(),
            "variance": np.where(finite, out["variance"], 0.0),
            "by the length scale": tape.gradient(total, layer.log_length_scale.value).numpy(),
        }
        expected = expected or found
        for key, value in found.items():
            # Rounding of the scaled points, through conditioning. The derivative of a sum by the
            # logarithm of the length scale is of the sum's size, where its terms do not cancel.
            largest = max(np.max(np.abs(expected[key])), total if "length" in key else 0.0)
            np.testing.assert_allclose(value, expected[key], atol=1e-5 * largest, err_msg=key)
    for unit in (1e-19, 1e19):
        with pytest.raises(ValueError, match="length_scale must be from 1e-15 to 1e.15 in float32"):
            kind(2, spacing=unit)
        with pytest.raises(ValueError, match="spacing must be from .* found 1e.*dtype='float64'"):
            plain.set_spacing(unit)


def test_marginal_likelihood_is_added_and_shown():
    layer = make("conv", marginal_likelihood_weight=0.5)
    x = make_input(FIELDS)
    layer(x)
    shown = layer.nll_tracker.result()
    np.testing.assert_allclose(layer.losses[0], 0.5 * shown, rtol=1e-6)
