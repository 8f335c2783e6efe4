"""Channels seen at different points: blocks against all at once, and what is not seen."""

import numpy as np
import pytest
import slow_gp
import tensorflow as tf

import tfpn
from tfpn.math import blocks, convolve, convolve_mean, integrate
from tfpn.math.arguments import read_observed
from tfpn.math.kernels import Kernel, rbf_kernel
from tfpn.math.posterior import floored_variance

BATCH, CHANNELS, POINTS, QUERIES = 3, 4, 9, 5
PAIRS = BATCH * CHANNELS


def example(d=1, dtype="float64", seed=0):
    """Channels seen at few points, at all, and at none; padding points and an empty example.

    Signal variance 1.4, noise 0.1 and up: K + S has a condition number below 200.
    """
    rng = np.random.default_rng(seed)
    variance = rng.uniform(0.1, 0.4, size=(BATCH, POINTS, CHANNELS))
    variance[rng.uniform(size=variance.shape) < 0.6] = np.inf
    variance[0, :, 0] = 0.2
    variance[1, :, 1] = np.inf
    variance[1, 6:] = np.inf
    variance[2] = np.inf
    root = rng.normal(size=(2, d, d)) * 0.3
    given = {
        "points": rng.normal(size=(BATCH, POINTS, d)),
        "values": np.where(np.isinf(variance), 0.0, rng.normal(size=variance.shape)),
        "variance": variance,
        "query": rng.normal(size=(BATCH, QUERIES, d)),
        "weights": rng.normal(size=(2, CHANNELS, 3)) * 0.5,
        "drift": rng.normal(size=(2, d)) * 0.4,
        "diffusion": root @ root.transpose(0, 2, 1),
        "signal_std": np.array(1.2),
        "length_scale": np.array(0.9),
        "observation_variance": rng.uniform(0.02, 0.06, size=CHANNELS),
    }
    return {key: value.astype(dtype) for key, value in given.items()}


def gradients(function, given, **options):
    """Results, and the gradients of a fixed linear function of them by everything given."""
    constants = {key: tf.constant(value) for key, value in given.items()}
    with tf.GradientTape() as tape:
        tape.watch(constants)
        results = [r for r in function(**constants, **options) if np.all(np.isfinite(r))]
        rng = np.random.default_rng(1)
        total = tf.add_n(
            [tf.reduce_sum(tf.constant(rng.normal(size=r.shape), r.dtype) * r) for r in results]
        )
    return results, tape.gradient(total, constants, unconnected_gradients="zero")


def assert_all_close(found, expected, rtol, atol):
    """Results and gradients; ``atol`` in units of the largest magnitude of each."""
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        assert np.all(np.isfinite(one))
        scale = np.max(np.abs(other), initial=0.0)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol * scale)


def all_at_once(points, values, variance, query, *, weights, drift, diffusion, signal_std,
                length_scale, observation_variance, noise, marginal_likelihood_trains):  # fmt: skip
    """`convolve` with arrays [B, c, M K, N] and [B, c, N, N], by the functions of one GP each."""
    prior = {"signal_std": signal_std, "length_scale": length_scale}
    observed = tf.transpose(variance, [0, 2, 1])
    noisy = floored_variance(observed + observation_variance[:, None], signal_std)
    columns = tf.transpose(values, [0, 2, 1])[..., None]

    def each(tensor):
        return tf.repeat(tensor[:, None], CHANNELS, axis=1)

    covariance = each(rbf_kernel(points, points, **prior))
    whitener, log_det = tfpn.math.whiten(covariance, noisy)
    cross = Kernel(**prior).flowed(drift, diffusion)(query, points)
    mean, explained = tfpn.math.condition(each(cross), covariance, noisy, columns, whitener)
    if marginal_likelihood_trains == "kernel":
        fixed = tf.stop_gradient(points)
        covariance, columns = each(rbf_kernel(fixed, fixed, **prior)), tf.stop_gradient(columns)
        noisy = floored_variance(
            tf.stop_gradient(observed) + observation_variance[:, None], signal_std
        )
    nll = tfpn.math.negative_log_marginal_likelihood(covariance, noisy, columns, whitener, log_det)
    left = tfpn.math.diffused_kernel(
        tf.zeros_like(drift)[:, None], tf.zeros_like(drift)[None], **prior,
        drift=drift[:, None] - drift[None], diffusion=diffusion[:, None] + diffusion[None],
    ) - explained  # fmt: skip
    return (
        tf.einsum("bcmkx,kca->bma", mean, weights),
        tf.einsum("bcmij,ica,jca->bma", left, weights, weights),
        nll[..., 0],
    )


def block_bytes(pairs, dtype="float64"):
    """A bound that just lets ``pairs`` pairs into a block of `example`'s `convolve`."""
    return pairs * max(POINTS * POINTS, 2 * QUERIES * POINTS) * np.dtype(dtype).itemsize


@pytest.mark.parametrize("trains", ["kernel", "all"])
@pytest.mark.parametrize("pairs", [1, 5, PAIRS, 1000])
def test_blocks_equal_all_at_once(pairs, trains, monkeypatch):
    given = example(d=2)
    options = {"noise": "channel", "marginal_likelihood_trains": trains}
    expected = gradients(all_at_once, given, **options)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", block_bytes(pairs))
    found = gradients(convolve, given, **options)
    # The same sums in another order: rounding times the condition number.
    assert_all_close(found, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("mode", ["eager", "unknown shapes", "compiled"])
def test_blocks_equal_one_block_in_float32(mode, monkeypatch):
    given = example(dtype="float32")
    keys = list(given)

    def step(*tensors):
        tensors = dict(zip(keys, tensors, strict=True))
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            results = convolve(**tensors, noise="channel")
            total = sum(tf.reduce_sum(tf.sin(result)) for result in results)
        return results, tape.gradient(total, tensors)

    expected = step(*map(tf.constant, given.values()))
    monkeypatch.setattr(blocks, "BLOCK_BYTES", block_bytes(5, "float32"))
    signature = [
        tf.TensorSpec([None, None, v.shape[-1]] if k in keys[:4] else v.shape, v.dtype)
        for k, v in given.items()
    ]
    call = {
        "eager": step,
        "unknown shapes": tf.function(step, input_signature=signature, autograph=False),
        "compiled": tf.function(step, jit_compile=True, autograph=False),
    }[mode]
    found = call(*map(tf.constant, given.values()))
    # Rounding 6e-8 times the condition number 200, and some sums.
    assert_all_close(found, expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("function", [convolve_mean, integrate])
@pytest.mark.parametrize("box", [None, (-1.0, 1.0)], ids=["space", "box"])
def test_means_and_pooling_in_blocks(function, box, monkeypatch):
    given, options = example(d=2), {"noise": "channel"}
    if function is integrate:
        options["box"] = box
        given = {
            key: value
            for key, value in given.items()
            if key not in ("query", "weights", "drift", "diffusion")
        }
    expected = gradients(function, given, **options)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 5 * POINTS * POINTS * 8)
    found = gradients(function, given, **options)
    assert_all_close(found, expected, rtol=1e-11, atol=1e-12)


def test_against_loops():
    given = example(d=2)
    expected = slow_gp.convolve(**given, noise="channel")
    assert_all_close(convolve(**given, noise="channel"), expected, rtol=1e-11, atol=1e-12)


def test_largest_array_stays_within_the_bound(monkeypatch):
    """No array in either pass is larger than a block's, or than inputs and results."""
    given = {k: tf.constant(v) for k, v in example().items()}
    monkeypatch.setattr(blocks, "BLOCK_BYTES", block_bytes(2))
    sizes = []

    def step(**given):
        with tf.GradientTape() as tape:
            tape.watch(given)
            results = convolve(**given, noise="channel")
            total = tf.add_n([tf.reduce_sum(result) for result in results])
        return tape.gradient(total, given)

    graph = tf.function(step).get_concrete_function(
        **{k: tf.TensorSpec(v.shape, v.dtype) for k, v in given.items()}
    )
    functions = [graph.graph, *(f.graph for f in graph.graph._functions.values() if f.graph)]
    for each in functions:
        for operation in each.get_operations():
            for output in operation.outputs:
                if output.shape.is_fully_defined():
                    sizes.append(output.shape.num_elements())
    whole = PAIRS * QUERIES * 2 * POINTS  # [B, c, M K, N]
    assert len(functions) > 2 and len(sizes) > 200
    assert max(sizes) < whole


@pytest.mark.parametrize("stored", [np.nan, np.inf, 1e30])
def test_unseen_values_by_nan_and_by_infinite_variance(stored):
    """`tfpn.observations` turns NaN into +inf: the same as +inf given, whatever is stored."""
    given = example()
    seen = np.isfinite(given["variance"])
    values = np.where(seen, given["values"], np.nan)
    by_nan = tfpn.observations(given["points"], values, np.where(seen, given["variance"], 0.1))
    by_inf = {**given, "values": np.where(seen, given["values"], stored)}
    expected = gradients(convolve, given, noise="channel")
    for other in ({**given, **by_nan}, by_inf):
        found = gradients(convolve, other, noise="channel")
        # The same numbers, from the same operations.
        assert_all_close(found, expected, rtol=1e-14, atol=1e-15)


def test_an_unseen_channels_posterior_is_its_prior():
    given = example()
    given["weights"] = np.eye(CHANNELS)[None].repeat(2, 0) * np.array([1.0, 0.5])[:, None, None]
    mean, variance, nll = convolve(**given, noise="channel")
    hyper = {key: given[key] for key in ("signal_std", "length_scale")}
    i, j = np.meshgrid(range(2), range(2), indexing="ij")
    prior = tfpn.math.diffused_kernel(
        np.zeros((2, 2, 1)), np.zeros((2, 2, 1)), **hyper,
        drift=given["drift"][i] - given["drift"][j],
        diffusion=given["diffusion"][i] + given["diffusion"][j],
    )  # fmt: skip
    expected = np.array([1.0, 0.5]) @ prior.numpy() @ np.array([1.0, 0.5])
    unseen = np.isinf(given["variance"]).all(1)
    assert unseen[1, 1] and unseen[2].all() and not unseen.all()
    for b, c in zip(*np.nonzero(unseen), strict=True):
        assert np.all(mean[b, :, c] == 0) and nll[b, c] == 0
        np.testing.assert_allclose(variance[b, :, c], expected, rtol=1e-14)
    seen = variance.numpy().transpose(0, 2, 1)[~unseen]
    assert np.all(seen < expected)
    # Without anything observed an example is the prior in all channels, and trains nothing.
    _, found = gradients(convolve, given, noise="channel")
    for key in ("points", "values", "variance"):
        assert not np.any(found[key][2])


def test_channels_do_not_see_each_other():
    given = example()
    given["weights"] = np.eye(CHANNELS)[None].repeat(2, 0)
    together = convolve(**given, noise="channel")
    for c in range(CHANNELS):
        one = {**given, "weights": given["weights"][:, c : c + 1, c : c + 1]}
        one["observation_variance"] = given["observation_variance"][c : c + 1]
        for key in ("values", "variance"):
            one[key] = given[key][..., c : c + 1]
        alone = convolve(**one, noise="shared")
        for whole, single in zip(together, alone, strict=True):
            np.testing.assert_allclose(whole[..., c], single[..., 0], rtol=1e-11, atol=1e-12)


def test_solve_and_posterior_of_the_conditioning(monkeypatch):
    given = example()
    data = [given[key] for key in ("points", "values", "variance")]
    hyper = {key: given[key] for key in ("signal_std", "length_scale", "observation_variance")}
    posterior = read_observed(*data, **hyper, noise="channel").posterior()
    columns = tf.random.stateless_normal([BATCH, POINTS, CHANNELS, 2], [1, 2], dtype=tf.float64)
    found, nll = posterior.solve(columns)
    kernel = rbf_kernel(
        posterior.points, posterior.points, signal_std=1.2, length_scale=0.9
    ).numpy()
    for b in range(BATCH):
        for c in range(CHANNELS):
            seen = np.isfinite(given["variance"][b, :, c])
            noisy = given["variance"][b, seen, c] + given["observation_variance"][c]
            gram = kernel[b][np.ix_(seen, seen)] + np.diag(noisy)
            expected = np.zeros((POINTS, 2))
            expected[seen] = np.linalg.solve(gram, columns[b, :, c].numpy()[seen])
            np.testing.assert_allclose(found[b, :, c], expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(posterior.negative_log_marginal_likelihood(), nll, rtol=1e-13)
