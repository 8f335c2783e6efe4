"""The stochastic diagonal estimator against the covariance matrix written out."""

import numpy as np
import pytest
import tensorflow as tf
from test_sporadic import BATCH, CHANNELS, POINTS, QUERIES, assert_all_close, example, gradients

import tfpn
from tfpn.math import blocks, convolve
from tfpn.math.kernels import Kernel, rbf_kernel
from tfpn.math.posterior import floored_variance
from tfpn.math.stochastic import probe_vectors

NOISE, PROBES = ["shared", "channel"], ["rademacher", "gaussian"]
SEED = np.array([7, 11])


def given_for(noise, **options):
    given = example(**options)
    if noise == "shared":
        padding = np.isinf(given["variance"]).all(-1)
        given["variance"] = np.where(np.isinf(given["variance"]), 0.3, given["variance"])
        given["variance"][padding] = np.inf
    return given


def covariance(points, values, variance, query, *, weights, drift, diffusion, signal_std,
               length_scale, observation_variance, noise, **_):  # fmt: skip
    """B, the posterior covariance of all outputs at all queries, [B, M, c_out, M, c_out]."""
    prior = {"signal_std": signal_std, "length_scale": length_scale}
    observed = tf.transpose(variance, [0, 2, 1]) + observation_variance[:, None]
    if noise == "shared":
        observed = tf.reduce_mean(observed, axis=1, keepdims=True) * tf.ones_like(observed)
    noisy = floored_variance(observed, signal_std)
    gram = tf.repeat(rbf_kernel(points, points, **prior)[:, None], CHANNELS, axis=1)
    whitener, _ = tfpn.math.whiten(gram, noisy)
    cross = Kernel(**prior).flowed(drift, diffusion)(query, points)
    cross = tf.reshape(cross, [BATCH, 1, 1, QUERIES * 2, POINTS])
    cross = tf.repeat(cross, CHANNELS, axis=1)
    columns = tf.transpose(values, [0, 2, 1])[..., None]
    _, explained = tfpn.math.condition(cross, gram, noisy, columns, whitener)
    explained = tf.reshape(explained, [BATCH, CHANNELS, QUERIES, 2, QUERIES, 2])
    d = points.shape[-1]
    before = Kernel(**prior).flowed(
        tf.reshape(drift[:, None] - drift[None], [4, d]),
        tf.reshape(diffusion[:, None] + diffusion[None], [4, d, d]),
    )(query, query)
    before = tf.reshape(before, [BATCH, QUERIES, 2, 2, QUERIES])
    before = tf.transpose(before, [0, 1, 2, 4, 3])[:, None]
    return tf.einsum("bcminj,ica,jcd->bmand", before - explained, weights, weights)


def written_out(*args, num_probes, probes, seed, **given):
    """`convolve` with the estimator's formula, B at hand."""
    full = covariance(*args, **given)
    z = probe_vectors(probes, [BATCH, QUERIES, num_probes, 3], seed, full.dtype)
    estimate = tf.einsum("bmpa,bmand,bnpd->bma", z, full, z) / num_probes
    mean, _, nll = convolve(*args, **given)
    return mean, estimate, nll


@pytest.mark.parametrize("probes", PROBES)
@pytest.mark.parametrize("noise", NOISE)
def test_equals_the_formula_with_the_covariance_at_hand(noise, probes, monkeypatch, d=2):
    """Results and gradients, whatever the blocks."""
    given = given_for(noise, d=d)
    options = {"noise": noise, "num_probes": 3, "probes": probes, "seed": SEED}
    expected = gradients(written_out, given, **options)
    for bound in (blocks.BLOCK_BYTES, 1, 2 * QUERIES * 3 * 2 * CHANNELS * 8):
        monkeypatch.setattr(blocks, "BLOCK_BYTES", bound)
        found = gradients(convolve, given, variance_estimator="stochastic", **options)
        # The same sums in another order: rounding times the condition number 200.
        assert_all_close(found, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("probes", PROBES)
@pytest.mark.parametrize("noise", NOISE)
def test_unbiased(noise, probes):
    """Within 5 standard errors of 20,000 probes, the error's spread as the theory says."""
    given, groups, num_probes = given_for(noise), 20, 1000
    exact = convolve(**given, noise=noise)[1].numpy()
    constants = {key: tf.constant(value) for key, value in given.items()}

    @tf.function
    def estimate(seed):
        return convolve(
            **constants, noise=noise, variance_estimator="stochastic", num_probes=num_probes,
            probes=probes, seed=seed,
        )[1]  # fmt: skip

    estimates = np.array([estimate(tf.constant([seed, 5])) for seed in range(groups)])
    full = covariance(**constants, noise=noise).numpy().reshape(BATCH, QUERIES * 3, QUERIES * 3)
    diagonal = np.einsum("bmm->bm", full)
    np.testing.assert_allclose(diagonal.reshape(exact.shape), exact, rtol=1e-11)
    # Var z (B z) = sum of B^2 off the diagonal, and twice that on it for Gaussian probes.
    single = (full**2).sum(-1) + (1.0 if probes == "gaussian" else -1.0) * diagonal**2
    error = np.sqrt(single / num_probes).reshape(exact.shape)
    found = (estimates.mean(0) - exact) / (error / np.sqrt(groups))
    assert np.abs(found).max() < 5
    # All entries together: 45 estimates by 20 groups of the spread, within 5 of its own errors.
    spread = np.mean(((estimates - exact) / error) ** 2)
    assert abs(spread - 1) < 5 * np.sqrt(2 / groups / BATCH)


def test_few_gaussian_probes_may_go_negative_and_rademacher_ones_are_closer():
    given = given_for("channel")
    exact = convolve(**given, noise="channel")[1].numpy()
    error, lowest = {}, {}
    for probes in PROBES:
        repeated = {
            key: np.repeat(value, 60, 0)
            if key in ("points", "values", "variance", "query")
            else value
            for key, value in given.items()
        }
        found = convolve(
            **repeated, noise="channel", variance_estimator="stochastic", num_probes=5,
            probes=probes, seed=1,
        )[1]  # fmt: skip
        found = found.numpy().reshape(BATCH, 60, QUERIES, 3) - exact[:, None]
        error[probes] = np.sqrt(np.mean(found**2))
        lowest[probes] = (found + exact[:, None]).min()
    assert error["rademacher"] < 0.8 * error["gaussian"]
    assert lowest["gaussian"] < 0  # raw: clipping would make it biased


def test_seeds_reproduce_and_differ():
    given = given_for("channel")
    options = {"noise": "channel", "variance_estimator": "stochastic", "num_probes": 4}
    first, same, other = (convolve(**given, **options, seed=s)[1] for s in (3, 3, 4))
    np.testing.assert_array_equal(first, same)
    assert np.abs(first - other).max() > 1e-3
    # Of independent probes for each example.
    given = {k: np.repeat(v[:1], BATCH, 0) if v.ndim == 3 and len(v) == BATCH else v
             for k, v in given.items()}  # fmt: skip
    found = convolve(**given, **options, seed=3)[1]
    assert np.abs(found[0] - found[1]).max() > 1e-3


def test_modes_agree_in_float32():
    """The same numbers of the probes with unknown shapes, and, without gradients, under XLA."""
    noise = "channel"  # which contains what shared noise does
    given = given_for(noise, dtype="float32")
    keys = list(given)

    def step(*tensors):
        tensors = dict(zip(keys, tensors, strict=True))
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            results = convolve(
                **tensors, noise=noise, variance_estimator="stochastic", num_probes=2, seed=SEED
            )
            total = sum(tf.reduce_sum(tf.sin(result)) for result in results)
        return results, tape.gradient(total, tensors)

    signature = [
        tf.TensorSpec([None, None, v.shape[-1]] if k in keys[:4] else v.shape, v.dtype)
        for k, v in given.items()
    ]
    arguments = [tf.constant(value) for value in given.values()]
    expected = step(*arguments)
    unknown = tf.function(step, input_signature=signature, autograph=False)
    compiled = tf.function(lambda *tensors: step(*tensors)[0], jit_compile=True, autograph=False)
    # Rounding 6e-8 times the condition number 200, and some sums.
    assert_all_close(unknown(*arguments), expected, rtol=1e-4, atol=3e-5)
    assert_all_close(compiled(*arguments), expected[0], rtol=1e-4, atol=3e-5)


@pytest.mark.parametrize("noise", NOISE)
def test_never_the_whole_covariance(noise, monkeypatch):
    """No array of (M K)^2 or c M K N numbers an example, in either pass."""
    given = {k: tf.constant(v) for k, v in given_for(noise).items()}
    queries = 40
    given["query"] = tf.random.stateless_normal([BATCH, queries, 1], SEED, dtype=tf.float64)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1)

    def step(**given):
        with tf.GradientTape() as tape:
            tape.watch(given)
            results = convolve(
                **given, noise=noise, variance_estimator="stochastic", num_probes=2, seed=SEED
            )
            total = tf.add_n([tf.reduce_sum(result) for result in results])
        return tape.gradient(total, given)

    graph = tf.function(step).get_concrete_function(
        **{k: tf.TensorSpec(v.shape, v.dtype) for k, v in given.items()}
    )
    shapes = {
        tuple(output.shape)
        for each in (graph.graph, *(f.graph for f in graph.graph._functions.values() if f.graph))
        for operation in each.get_operations()
        for output in operation.outputs
        if output.shape.is_fully_defined()
    }
    largest = max(int(np.prod(shape)) for shape in shapes)
    assert len(shapes) > 50
    assert (
        largest < (2 * queries) ** 2 * BATCH and largest < CHANNELS * queries * 2 * POINTS * BATCH
    )


@pytest.mark.parametrize(
    "wrong, match",
    [
        ({"variance_estimator": "guess"}, "variance_estimator must be one of .*'guess'"),
        ({"probes": "uniform"}, "probes must be one of .*'uniform'"),
        ({"num_probes": 0}, "num_probes must be a positive whole number, found 0"),
        ({"num_probes": 2.5}, "num_probes must be a positive whole number, found 2.5"),
        ({"seed": None}, "needs a seed"),
    ],
)
def test_bad_arguments(wrong, match):
    options = {"variance_estimator": "stochastic", "seed": 1, **wrong}
    with pytest.raises(ValueError, match=match):
        convolve(**given_for("channel"), noise="channel", **options)
