import numpy as np
import oracle
import pytest
import slow_gp
import tensorflow as tf

import tfpn
from tfpn.math import (
    condition,
    convolve,
    convolve_mean,
    diffused_kernel,
    integrate,
    negative_log_marginal_likelihood,
    posterior_mean,
)
from tfpn.math.arguments import read_observed
from tfpn.math.posterior import Fixed, floored_variance, whiten


def case_arguments(case, dtype="float64"):
    """Observations, queries, prior and operators of a case of posterior.json."""
    given = case["inputs"]
    length, d = given["lengthscale"], given["d"]
    variance = oracle.array(given["noise_variance"])
    values = oracle.array(given["y"])  # NaN where missing, as the variance is infinite there
    assert np.array_equal(np.isnan(values), np.isinf(variance))
    data = [np.array(given["X"]), values, variance]
    prior = {
        "signal_std": np.sqrt(given["a"] * (2 * np.pi * length**2) ** (-d / 2)),
        "length_scale": np.float64(length),
    }
    operators = {
        "weights": np.transpose(given["W"], [0, 2, 1]),
        "drift": np.array(given["beta"]),
        "diffusion": np.array(given["Sigma"]),
    }

    def cast(t):
        return t.astype(dtype)

    return (
        [cast(t)[None] for t in data],
        cast(np.array(given["Xq"]))[None],
        {name: cast(t) for name, t in prior.items()},
        {name: cast(t) for name, t in operators.items()},
    )


# In float32 K + S, of condition number up to 1e4 (6e3 s^2 / noise in the first case), is rounded.
DTYPES = [
    pytest.param("float64", {}, id="float64"),
    pytest.param("float32", {"rtol": 3e-4, "atol": 3e-4}, id="float32"),
]


@pytest.mark.parametrize("dtype, tolerance", DTYPES)
@pytest.mark.parametrize("case", oracle.cases("posterior"))
def test_oracle_convolve(case, dtype, tolerance):
    data, query, prior, operators = case_arguments(case, dtype)
    mean, variance, nll = convolve(*data, query, **operators, **prior, noise="channel")
    oracle.assert_agrees(case, "mean_Af", mean[0], **tolerance)
    oracle.assert_agrees(case, "var_Af", variance[0], **tolerance)
    oracle.assert_agrees(case, "log_marginal_likelihood", -nll[0], **tolerance)
    only, same = convolve_mean(*data, query, **operators, **prior, noise="channel")
    oracle.assert_agrees(case, "mean_Af", only[0], **tolerance)
    oracle.assert_agrees(case, "log_marginal_likelihood", -same[0], **tolerance)
    rectified, _ = tfpn.math.rectified_moments(mean, variance)
    oracle.assert_agrees(case, "rectified_mean", rectified[0], **tolerance)


@pytest.mark.parametrize("dtype, tolerance", DTYPES)
@pytest.mark.parametrize("case", oracle.cases("posterior"))
def test_oracle_plain_posterior(case, dtype, tolerance):
    """No drift, no diffusion, every channel to itself."""
    data, query, prior, _ = case_arguments(case, dtype)
    d, c = query.shape[-1], data[1].shape[-1]
    mean, variance, _ = convolve(
        *data, query, weights=np.eye(c)[None], drift=np.zeros((1, d)),
        diffusion=np.zeros((1, d, d)), **prior, noise="channel",
    )  # fmt: skip
    oracle.assert_agrees(case, "posterior_mean", mean[0], **tolerance)
    covariance = oracle.array(case["outputs"]["posterior_cov"])
    expected = np.einsum("cmm->mc", covariance)
    tolerance = tolerance or {"rtol": 1e-10, "atol": 1e-12}
    np.testing.assert_allclose(variance[0], expected, **tolerance)


def joint_posterior(data, query, prior, drift, diffusion):
    """Mean [K, M, c] and covariance [c, K, K, M, M] of all operators at all queries."""
    posterior = read_observed(*data, **prior, noise="channel").posterior()
    flowed = posterior.kernel.flowed(tf.constant(drift), tf.constant(diffusion))
    cross = flowed(tf.constant(query), posterior.points)  # [1, M, K, N]
    _, m, k, n = cross.shape
    # One "point" with all m k functionals, so that their joint covariance comes out.
    mean, explained, _ = posterior.condition(Fixed(tf.reshape(cross, [1, 1, m * k, n])))
    mean = tf.transpose(tf.reshape(mean[0, 0], [m, k, -1]), [1, 0, 2])
    explained = tf.reshape(explained[0, 0], [-1, m, k, m, k])
    explained = tf.transpose(explained, [0, 2, 4, 1, 3])
    x = query[0]
    before = diffused_kernel(
        x[:, None], x[None, :], **prior,
        drift=(drift[:, None] - drift[None, :])[:, :, None, None],
        diffusion=(diffusion[:, None] + diffusion[None, :])[:, :, None, None],
    )  # fmt: skip
    return mean, before[None] - explained


@pytest.mark.parametrize("dtype, tolerance", DTYPES)
@pytest.mark.parametrize("case", oracle.cases("posterior"))
def test_oracle_covariances(case, dtype, tolerance):
    data, query, prior, operators = case_arguments(case, dtype)
    weights, drift, diffusion = operators.values()
    _, covariance = joint_posterior(data, query, prior, drift, diffusion)
    oracle.assert_agrees(case, "N", covariance, **tolerance)
    mixed = np.einsum("ico,jcp,cijmn->mnop", weights, weights, covariance)
    oracle.assert_agrees(case, "cov_Af", mixed, **tolerance)
    plain = joint_posterior(data, query, prior, 0 * drift[:1], 0 * diffusion[:1])
    oracle.assert_agrees(case, "posterior_mean", plain[0][0], **tolerance)
    oracle.assert_agrees(case, "posterior_cov", plain[1][:, 0, 0], **tolerance)


@pytest.mark.parametrize("dtype, tolerance", DTYPES)
@pytest.mark.parametrize("case", oracle.cases("posterior"))
def test_oracle_pooling(case, dtype, tolerance):
    data, _, prior, _ = case_arguments(case, dtype)
    mean, variance, nll = integrate(*data, **prior, noise="channel", box=(0.0, 1.0))
    oracle.assert_agrees(case, "pool_unit_box_mean", mean[0], **tolerance)
    oracle.assert_agrees(case, "pool_unit_box_var", variance[0], **tolerance)
    oracle.assert_agrees(case, "log_marginal_likelihood", -nll[0], **tolerance)
    mean, variance, nll = integrate(*data, **prior, noise="channel")
    oracle.assert_agrees(case, "pool_all_space_mean", mean[0], **tolerance)
    assert np.all(np.isposinf(variance))
    oracle.assert_agrees(case, "log_marginal_likelihood", -nll[0], **tolerance)


@pytest.mark.parametrize("case", oracle.cases("posterior")[1:2])
def test_oracle_shared_noise(case):
    """The case of one channel, twice over: the noise is equal in all channels."""
    (points, values, variance), query, prior, operators = case_arguments(case)
    data = points, np.concatenate([values] * 2, -1), np.concatenate([variance] * 2, -1)
    weights = operators.pop("weights")
    weights = np.concatenate([weights, np.zeros_like(weights)], axis=1)
    mean, variance, nll = convolve(
        *data, query, weights=weights, **operators, **prior, noise="shared"
    )
    oracle.assert_agrees(case, "mean_Af", mean[0])
    oracle.assert_agrees(case, "var_Af", variance[0])
    oracle.assert_agrees(case, "log_marginal_likelihood", -nll[0, :1])
    assert nll[0, 0] == nll[0, 1]


def dense(seed=0, n=5, batch=(2,)):
    """A covariance matrix, noise with entries missing, values, and K functionals at M points."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(*batch, n, 2))
    distance = np.sum((x[..., :, None, :] - x[..., None, :, :]) ** 2, -1)
    variance = rng.uniform(0.1, 0.5, size=(*batch, n))
    variance[0, 1] = np.inf
    return {
        "cross": rng.normal(size=(*batch, 3, 2, n)) * 0.3,
        "covariance": np.exp(-0.5 * distance),
        "variance": variance,
        "values": rng.normal(size=(*batch, n, 2)),
    }


def plain(cross, covariance, variance, values):
    """Means, what is explained, and negative log marginal likelihoods, example by example."""
    means, explained, nlls = [], [], []
    for b in range(len(values)):
        seen = np.isfinite(variance[b])
        gram = covariance[b][np.ix_(seen, seen)] + np.diag(variance[b][seen])
        k, y = cross[b][..., seen], values[b][seen]
        weights = np.linalg.solve(gram, y)
        means.append(k @ weights)
        explained.append([each @ np.linalg.solve(gram, each.T) for each in k])
        constant = np.linalg.slogdet(gram)[1] + seen.sum() * np.log(2 * np.pi)
        nlls.append([0.5 * (y[:, c] @ weights[:, c] + constant) for c in range(y.shape[1])])
    return tuple(np.array(each) for each in (means, explained, nlls))


def fast(cross, covariance, variance, values):
    whitener, log_det = whiten(covariance, variance)
    mean, explained = condition(cross, covariance, variance, values, whitener)
    shape = tf.shape(cross)
    flat = tf.reshape(cross, [shape[0], shape[1] * shape[2], shape[3]])
    only = posterior_mean(flat, covariance, variance, values, whitener)
    nll = negative_log_marginal_likelihood(covariance, variance, values, whitener, log_det)
    return mean, explained, nll, tf.reshape(only, tf.shape(mean))


def test_functions_against_solve():
    given = dense()
    mean, explained, nll, only = fast(**{k: tf.constant(v) for k, v in given.items()})
    expected = plain(**given)
    for one, other in zip((mean, explained, nll), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(only, expected[0], rtol=1e-12, atol=1e-13)
    whitener, log_det = whiten(tf.constant(given["covariance"]), tf.constant(given["variance"]))
    assert np.all(whitener[0, :, 1] == 0)
    seen = np.isfinite(given["variance"][0])
    gram = given["covariance"][0][np.ix_(seen, seen)] + np.diag(given["variance"][0][seen])
    inverse = tf.matmul(whitener, whitener, transpose_a=True)[0].numpy()[np.ix_(seen, seen)]
    np.testing.assert_allclose(inverse, np.linalg.inv(gram), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(log_det[0], np.linalg.slogdet(gram)[1], rtol=1e-12)


@pytest.mark.parametrize("output", [0, 1, 2, 3], ids=["mean", "explained", "nll", "only"])
def test_gradients_of_each_function(output):
    given = dense()
    constants = {key: tf.constant(value) for key, value in given.items()}
    projection = np.random.default_rng(1).normal(size=fast(**constants)[output].shape)

    @tf.function
    def scalar(**arguments):
        return tf.reduce_sum(projection * fast(**arguments)[output])

    with tf.GradientTape() as tape:
        tape.watch(constants)
        result = scalar(**constants)
    gradients = tape.gradient(result, constants, unconnected_gradients="zero")
    for key, value in given.items():

        def moved(array, key=key):
            return scalar(**{**constants, key: tf.constant(array)})

        with np.errstate(invalid="ignore"):
            expected = slow_gp.differences(moved, value, symmetric=key == "covariance")
        found = gradients[key].numpy()
        scale = max(1.0, np.max(np.abs(expected)))
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * scale, err_msg=key)


def test_floor():
    for dtype, floor, each in ((tf.float32, 3e-5, 4e-7), (tf.float64, 1e-12, 2e-13)):
        variance = tf.constant([0.0, 1.0, np.inf], dtype)
        signal_std = tf.constant(2.0, dtype)
        np.testing.assert_allclose(
            floored_variance(variance, signal_std), [4 * floor, 1, np.inf], rtol=1e-6
        )
        many = tf.zeros([500], dtype)
        np.testing.assert_allclose(floored_variance(many, signal_std), 4 * 500 * each, rtol=1e-6)


def test_second_derivatives_raise():
    constants = {key: tf.constant(value) for key, value in dense().items()}
    for output in range(4):
        with tf.GradientTape() as outer:
            outer.watch(constants)
            with tf.GradientTape() as inner:
                inner.watch(constants)
                result = tf.reduce_sum(tf.square(fast(**constants)[output]))
            gradient = inner.gradient(result, constants["values"])
            if gradient is None:
                gradient = inner.gradient(result, constants["cross"])
        with pytest.raises(LookupError, match="second derivatives of Gaussian process posteriors"):
            outer.gradient(gradient, constants["covariance"])
