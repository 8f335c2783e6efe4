import numpy as np
import pytest
import tensorflow as tf

from tfpn.math.normalization import normalize

NAMES = ("values", "variance", "gamma", "beta")
EPSILON = 1e-3


def observed(values, variance, weight, gamma, beta):
    """The arguments of `normalize`: NaN and +inf where nothing is observed."""
    values = np.where(weight == 1, values, np.nan).astype(values.dtype)
    variance = np.where(weight == 1, variance, np.inf).astype(variance.dtype)
    return dict(zip(NAMES, map(tf.constant, (values, variance, gamma, beta)), strict=True))


def example(dtype=np.float64, offset=1.5):
    rng = np.random.default_rng(0)
    shape = (3, 5, 4)
    weight = (rng.uniform(size=shape) < 0.7).astype(dtype)
    weight[..., 2] = 1  # a channel without gaps
    weight[..., 3] = 0  # and one never seen
    return {
        "values": ((rng.normal(size=shape) * 2 + offset) * weight).astype(dtype),
        "variance": (rng.uniform(0, 1, size=shape) * weight).astype(dtype),
        "weight": weight,
        "gamma": rng.normal(size=4).astype(dtype),
        "beta": rng.normal(size=4).astype(dtype),
    }


def plain(values, variance, weight, gamma, beta):
    """Channel by channel on what is observed alone."""
    results = [np.zeros_like(values), np.zeros_like(values), gamma / np.sqrt(EPSILON)]
    results += [np.zeros(4), np.zeros(4), weight.sum((0, 1))]
    for c in range(values.shape[-1]):
        seen = weight[..., c] == 1
        if seen.any():
            y, v = values[..., c][seen], variance[..., c][seen]
            mean, total = y.mean(), y.var() + v.mean()
            results[0][..., c][seen] = gamma[c] * (y - mean) / np.sqrt(total + EPSILON) + beta[c]
            results[1][..., c][seen] = gamma[c] ** 2 * v / (total + EPSILON)
            results[2][c] = gamma[c] / np.sqrt(total + EPSILON)
            results[3][c], results[4][c] = mean, total
    return results


def obvious(values, variance, weight, gamma, beta):
    """For automatic differentiation."""
    axes = [0, 1]
    count = tf.maximum(tf.reduce_sum(weight, axes), 1.0)
    mean = tf.reduce_sum(values * weight, axes) / count
    total = tf.reduce_sum(weight * (tf.square(values - mean) + variance), axes) / count
    scale = gamma / tf.sqrt(total + EPSILON)
    return weight * (scale * (values - mean) + beta), weight * variance * tf.square(scale)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_against_plain(dtype):
    given = example(dtype)
    found = normalize(**observed(**given), epsilon=EPSILON)
    # Some tens of roundings, of numbers a few times the results.
    unit = np.finfo(dtype).eps
    for one, other in zip(found, plain(**example()), strict=True):
        assert one.dtype == dtype
        np.testing.assert_allclose(one, other, rtol=50 * unit, atol=20 * unit)


def test_large_mean_does_not_cancel():
    """The spread is taken around the mean, not as a difference of moments."""
    given = example(np.float32, offset=3000.0)
    exact = plain(**{k: v.astype(np.float64) for k, v in given.items()})
    found = normalize(**observed(**given), epsilon=EPSILON)
    # The mean is rounded to eps 3000, 4e-4, of a spread of 2; a difference of moments, of size
    # 1e7 with rounding 1, would be off by 0.2.
    for one, other in zip(found, exact, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-3)


def test_unit_variance_and_no_mean():
    given = example()
    given["gamma"], given["beta"] = np.ones(4), np.zeros(4)
    values, variance = (
        result.numpy() for result in normalize(**observed(**given), epsilon=1e-9)[:2]
    )
    count = given["weight"].sum((0, 1))[:3]
    mean = values.sum((0, 1))[:3] / count
    total = (values**2 + variance).sum((0, 1))[:3] / count
    np.testing.assert_allclose(mean, 0, atol=1e-14)
    np.testing.assert_allclose(total, 1, rtol=1e-8)  # epsilon


@pytest.mark.parametrize("jit", [None, False, True], ids=["eager", "traced", "compiled"])
def test_gradients(jit):
    arrays = example()
    weight = arrays["weight"]
    rng = np.random.default_rng(1)
    projections = [rng.normal(size=(3, 5, 4)) for _ in range(2)]

    def gradients(function, given):
        with tf.GradientTape() as tape:
            tape.watch(given)
            values, variance = function(**given)[:2]
            # Quadratic in the results, and arbitrary where nothing is observed.
            total = tf.reduce_sum(weight * projections[0] * tf.square(values))
            total += tf.reduce_sum(weight * projections[1] * tf.square(variance))
        return tape.gradient(total, [given[name] for name in NAMES])

    def fast(**arguments):
        return normalize(**arguments, epsilon=EPSILON)

    fast = fast if jit is None else tf.function(fast, jit_compile=jit)
    found = gradients(fast, observed(**arrays))
    expected = gradients(obvious, {k: tf.constant(v) for k, v in arrays.items()})
    for name, one, other in zip(NAMES, found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12, err_msg=name)
        if name in ("values", "variance"):
            assert not np.any(one.numpy()[weight == 0])


def test_upstream_gradients_where_nothing_is_observed_are_not_read():
    arrays = example()
    given = observed(**arrays)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(given)
        values, variance, _, mean, spread, _ = normalize(**given, epsilon=EPSILON)
        junk = 1e6 * (1 - arrays["weight"])
        total = tf.reduce_sum(junk * (values + variance))
        statistics = tf.reduce_sum(mean + spread)
    for name in NAMES:
        assert not np.any(tape.gradient(total, given[name]))
        found = tape.gradient(statistics, given[name])
        assert found is None or not np.any(found)


def test_one_entry_and_no_variance():
    """A spread of zero: epsilon alone is left, and everything stays finite."""
    arguments = [tf.constant([[[x]]], tf.float32) for x in (2.0, 0.0)]
    gamma, beta = tf.constant([3.0]), tf.constant([0.5])
    with tf.GradientTape() as tape:
        watched = [*arguments, gamma, beta]
        tape.watch(watched)
        values, variance, _, mean, spread, _ = normalize(*watched, EPSILON)
        total = tf.reduce_sum(values + variance)
    assert float(values[0, 0, 0]) == 0.5 and float(variance[0, 0, 0]) == 0.0
    assert float(mean[0]) == 2.0 and float(spread[0]) == 0.0
    assert all(np.all(np.isfinite(g)) for g in tape.gradient(total, watched))


def test_a_point_of_weight_two_is_a_point_twice():
    given = observed(**example())
    weights, rows = np.array([1.0, 2.0, 0.5, 1.0, 0.0])[:, None], np.array([0, 1, 1, 2, 3])
    ones = np.array([1.0, 1.0, 1.0, 0.5, 1.0])[:, None]

    def results(values, variance, rows, weights):
        rows = tf.constant(rows)
        with tf.GradientTape() as tape:
            tape.watch((values, variance))
            some = (tf.gather(t, rows, axis=1) for t in (values, variance))
            found = normalize(*some, given["gamma"], given["beta"], EPSILON, weights)
            loss = tf.reduce_sum(tf.sin(found[2]))
        return found[2:5], tape.gradient(loss, (values, variance))

    values, variance = given["values"], given["variance"]
    found, gradients = results(values, variance, np.arange(5), weights)
    expected, wanted = results(values, variance, rows, ones)
    for a, b in zip((*found, *gradients), (*expected, *wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
