"""A small convolution, its gradients and a comparison, for the tests of `convolve`."""

import numpy as np
import tensorflow as tf

from tfpn.math import convolve

NOISE = ["shared", "channel"]
ARGUMENTS = (
    "points", "values", "variance", "query", "weights", "drift", "diffusion", "signal_std",
    "length_scale", "observation_variance",
)  # fmt: skip
EPS = {"float32": np.finfo(np.float32).eps, "float64": np.finfo(np.float64).eps}


def example(d=2, noise="channel", seed=0, n=5, dtype="float64"):
    """Two examples, the second with a coincident pair; some entries or points unobserved.

    Signal variance 1.4, noise 0.1 and up: K + S has a condition number below 100.
    """
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(2, d, d)) * 0.3
    points = rng.normal(size=(2, n, d)) * 0.8
    points[1, 1] = points[1, 0]
    variance = rng.uniform(0.1, 0.4, size=(2, n, 2))
    values = rng.normal(size=(2, n, 2))
    if noise == "shared":
        variance[0, 2] = np.inf
    else:
        variance[0, 2, 1] = variance[1, -2, 0] = variance[1, -1] = np.inf
    query = rng.normal(size=(2, 3, d))
    query[:, 0] = points[:, 0]
    given = {
        "points": points,
        "values": np.where(np.isinf(variance), 0, values),
        "variance": variance,
        "query": query,
        "weights": rng.normal(size=(2, 2, 3)) * 0.5,
        "drift": rng.normal(size=(2, d)) * 0.4,
        "diffusion": root @ root.transpose(0, 2, 1),
        "signal_std": np.array(1.2),
        "length_scale": np.array(0.9),
        "observation_variance": np.array([0.02, 0.06]),
    }
    return {key: value.astype(dtype) for key, value in given.items()}


def tensors(given):
    return {key: tf.constant(value) for key, value in given.items()}


def gradients(given, noise, trains="all", function=convolve, seed=1):
    """The results and the gradients of a fixed linear function of them."""
    constants = tensors(given)
    with tf.GradientTape() as tape:
        tape.watch(constants)
        results = function(**constants, noise=noise, marginal_likelihood_trains=trains)
        rng = np.random.default_rng(seed)
        total = sum(
            tf.reduce_sum(rng.normal(size=result.shape).astype(result.dtype.name) * result)
            for result in results
        )
    return results, tape.gradient(total, constants, unconnected_gradients="zero")


def assert_all_close(found, expected, rtol, atol=0.0):
    """``atol`` in units of the largest magnitude."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert np.all(np.isfinite(one))
        scale = np.max(np.abs(other), initial=0.0)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol * scale)
