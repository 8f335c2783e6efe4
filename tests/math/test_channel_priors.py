"""Channels whose priors have signal standard deviations and length scales of their own."""

import numpy as np
import pytest
import slow_gp
import tensorflow as tf
from test_sporadic import CHANNELS, assert_all_close, block_bytes, example, gradients

import tfpn
from tfpn.math import blocks, convolve, convolve_mean, convolve_process

SCALES = {
    "signal_std": np.array([1.2, 0.7, 0.9, 1.5]),
    "length_scale": np.array([0.9, 0.4, 1.3, 2.0]),
}


def channel(given, c):
    """The observations and parameters of one channel alone."""
    alone = {key: given[key][..., c : c + 1] for key in ("values", "variance")}
    return {
        **given,
        **alone,
        "weights": given["weights"][:, c : c + 1],
        "observation_variance": given["observation_variance"][c : c + 1],
        **{key: scale[c] for key, scale in SCALES.items()},
    }


@pytest.mark.parametrize("d", [1, 2])
def test_equals_the_sum_over_channels_by_loops(d):
    given = example(d=d)
    found = convolve(**{**given, **SCALES}, noise="channel")
    parts = [slow_gp.convolve(**channel(given, c), noise="channel") for c in range(CHANNELS)]
    mean, variance, nll = zip(*parts, strict=True)
    for one, other in zip(found, (sum(mean), sum(variance), np.concatenate(nll, -1)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)
    mean, nll = convolve_mean(**{**given, **SCALES}, noise="channel")
    np.testing.assert_allclose(mean, found[0], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(nll, found[2], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("trains", ["kernel", "all"])
def test_equal_priors_give_the_result_and_gradients_of_one_prior(trains):
    given = example(d=2)
    options = {"noise": "channel", "marginal_likelihood_trains": trains}
    expected = gradients(convolve, given, **options)
    same = {key: np.full(CHANNELS, given[key]) for key in SCALES}
    found = gradients(convolve, {**given, **same}, **options)
    for key in SCALES:
        found[1][key] = tf.reduce_sum(found[1][key])
    assert_all_close(found, expected, rtol=1e-11, atol=1e-12)


def test_gradients_of_each_scale_by_differences():
    given = example()
    rng = np.random.default_rng(1)
    weights = [rng.normal(size=shape) for shape in ((3, 5, 3), (3, 5, 3), (3, CHANNELS))]

    def total(**scales):
        results = convolve(**{**given, **scales}, noise="channel")
        return tf.add_n([tf.reduce_sum(w * r) for w, r in zip(weights, results, strict=True)])

    scales = {key: tf.constant(scale) for key, scale in SCALES.items()}
    with tf.GradientTape() as tape:
        tape.watch(scales)
        result = total(**scales)
    for key, gradient in tape.gradient(result, scales).items():
        expected = slow_gp.differences(lambda t, key=key: total(**{**SCALES, key: t}), SCALES[key])
        # Fourth-order differences with the step 1e-3.
        np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "dtype, rtol, jit",
    [("float64", 1e-11, False), ("float64", 1e-11, True), ("float32", 2e-4, False)],
)
def test_blocks_and_compilation_change_nothing(dtype, rtol, jit, monkeypatch):
    given = {**example(dtype=dtype), **{key: t.astype(dtype) for key, t in SCALES.items()}}
    whole = gradients(convolve, given, noise="channel")
    monkeypatch.setattr(blocks, "BLOCK_BYTES", block_bytes(5, dtype))

    @tf.function(jit_compile=jit, autograph=False)
    def compiled(given):
        return convolve(**given, noise="channel")

    def function(**constants):
        constants.pop("noise")
        return compiled(constants)

    found = gradients(function, given, noise="channel")
    assert_all_close(found, whole, rtol=rtol, atol=rtol)


def test_the_process_has_the_mean_and_variance_of_the_convolution():
    given = {**example(), **SCALES, "bias": np.array([0.3, -0.2, 1.0])}
    mean, covariance = convolve_process(**given, noise="channel")
    expected = convolve(**given, noise="channel")
    np.testing.assert_allclose(mean, expected[0], rtol=1e-11, atol=1e-12)
    diagonal = np.einsum("bamm->bma", covariance)
    np.testing.assert_allclose(diagonal, expected[1], rtol=1e-11, atol=1e-12)


def test_what_needs_one_prior_says_so():
    given = {**example(), **SCALES}
    with pytest.raises(ValueError, match="needs noise='channel', found 'shared'"):
        convolve(**given, noise="shared")
    with pytest.raises(ValueError, match="stochastic' takes one prior for all channels"):
        convolve(**given, noise="channel", variance_estimator="stochastic", seed=0)
    short = {**given, "length_scale": np.ones(CHANNELS - 1)}
    with pytest.raises(ValueError, match=r"length_scale has shape \(3,\), expected a scalar or"):
        convolve(**short, noise="channel")
    keys = ("points", "values", "variance", "signal_std", "length_scale")
    with pytest.raises(ValueError, match="integrate takes one prior for all channels"):
        tfpn.math.integrate(*(given[k] for k in keys[:3]), **SCALES, noise="channel")
