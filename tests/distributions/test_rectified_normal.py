import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

import tfpn
from tfpn.distributions import RectifiedNormal


@pytest.mark.parametrize("loc, scale", [(0.4, 1.3), (-1.0, 0.8), (2.0, 0.5)])
def test_samples(loc, scale):
    distribution = RectifiedNormal(tf.constant(loc, tf.float64), scale)
    n = 200_000
    h = distribution.sample(n, seed=(1, 2)).numpy()
    assert h.shape == (n,) and np.all(h >= 0)
    np.testing.assert_array_equal(h, distribution.sample(n, seed=(1, 2)))
    assert abs(h.mean() - distribution.mean()) < 4 * h.std() / np.sqrt(n)
    squares = (h - h.mean()) ** 2
    assert abs(squares.mean() - distribution.variance()) < 4 * squares.std() / np.sqrt(n)
    atom = float(distribution.prob(0.0))
    assert abs((h == 0).mean() - atom) < 4 * np.sqrt(atom * (1 - atom) / n)
    for x in (0.3, 1.5):
        p = float(distribution.cdf(x))
        assert abs((h <= x).mean() - p) < 4 * np.sqrt(p * (1 - p) / n)


def test_total_mass_is_one():
    distribution = RectifiedNormal(np.float64(0.3), 0.7)
    x, w = np.polynomial.legendre.leggauss(60)
    x = 3 * (x + 1)
    density = 3 * w @ distribution.prob(x).numpy()
    np.testing.assert_allclose(distribution.prob(0.0) + density, 1, rtol=1e-13)


def test_quantile():
    distribution = RectifiedNormal(tf.constant([-0.4, 0.9], tf.float64), [1.1, 0.6])
    atom = distribution.prob(0.0).numpy()
    for p in np.linspace(0.02, 0.98, 25):
        x = distribution.quantile(p).numpy()
        # The least x with P(h <= x) >= p.
        np.testing.assert_array_equal(x == 0, p <= atom)
        np.testing.assert_allclose(distribution.cdf(x), np.maximum(p, atom), rtol=1e-12)
    np.testing.assert_array_equal(distribution.quantile(0.0), [0, 0])
    assert np.all(np.isposinf(distribution.quantile(1.0)))


@pytest.mark.parametrize("by", ["scale", "squared_scale"])
def test_broadcasting(by):
    loc, scale = np.array([[-1.0], [0.0], [2.0]], np.float32), np.array([0.5, 1.5], np.float32)
    distribution = RectifiedNormal(loc, **{by: scale if by == "scale" else scale**2})
    assert distribution.batch_shape == (3, 2) and distribution.event_shape == ()
    np.testing.assert_array_equal(distribution.batch_shape_tensor(), [3, 2])
    assert distribution.event_shape_tensor().shape == (0,)
    assert distribution.dtype == tf.float32
    for name in ("mean", "variance", "stddev"):
        assert getattr(distribution, name)().shape == (3, 2)
    assert distribution.sample(4, seed=1).shape == (4, 3, 2)
    assert distribution.sample((4, 5), seed=1).shape == (4, 5, 3, 2)
    assert distribution.log_prob(np.zeros((7, 1, 1), np.float32)).shape == (7, 3, 2)
    for i in range(3):
        for j in range(2):
            single = RectifiedNormal(loc[i, 0], scale[j])
            for name in ("mean", "variance"):
                np.testing.assert_allclose(
                    getattr(distribution, name)()[i, j], getattr(single, name)(), rtol=1e-6
                )
            for name in ("log_prob", "cdf", "survival_function", "quantile"):
                np.testing.assert_allclose(
                    getattr(distribution, name)(0.4)[i, j], getattr(single, name)(0.4), rtol=1e-6
                )
    np.testing.assert_allclose(distribution.scale, scale, rtol=1e-6)
    np.testing.assert_allclose(distribution.squared_scale, scale**2, rtol=1e-6)


def test_slices_and_copies():
    distribution = RectifiedNormal(np.float32([[-1.0], [2.0]]), squared_scale=np.float32([1, 4]))
    part = distribution[1, :]
    assert part.batch_shape == (2,)
    np.testing.assert_allclose(part.mean(), distribution.mean()[1])
    np.testing.assert_allclose(distribution.copy(loc=0.0).mean(), [0.3989423, 0.7978846], rtol=1e-6)


def test_shapes_known_only_when_run():
    spec = tf.TensorSpec(None, tf.float32)

    @tf.function(input_signature=[spec, spec])
    def function(loc, variance):
        return RectifiedNormal(loc, squared_scale=variance).mean_and_variance()

    loc, variance = np.float32([[-1.0], [2.0]]), np.float32([1.0, 4.0, 9.0])
    expected = RectifiedNormal(loc, squared_scale=variance).mean_and_variance()
    np.testing.assert_allclose(function(loc, variance), expected, rtol=1e-6)


def test_exactly_one_scale():
    for scales in ({}, {"scale": 1.0, "squared_scale": 1.0}):
        with pytest.raises(ValueError, match="exactly one of scale and squared_scale"):
            RectifiedNormal(0.0, **scales)


def test_gradients_without_variance_are_finite():
    loc = tf.constant([-1.0, 0.0, 2.0])
    variance = tf.zeros(3)
    with tf.GradientTape() as tape:
        tape.watch([loc, variance])
        mean, second = RectifiedNormal(loc, squared_scale=variance).mean_and_variance()
        total = tf.reduce_sum(mean) + tf.reduce_sum(second)
    d_loc, d_variance = tape.gradient(total, [loc, variance])
    assert np.all(np.isfinite(d_loc)) and np.all(np.isfinite(d_variance))
    np.testing.assert_array_equal(d_loc, [0, 0.5, 1])


def test_gradients_of_log_prob_and_samples():
    parameters = [tf.Variable(np.float64(0.4)), tf.Variable(np.float64(1.2))]
    x = np.array([-1.0, 0.0, 0.7])
    with tf.GradientTape() as tape:
        distribution = RectifiedNormal(*parameters)
        log_prob = tf.reduce_sum(distribution.log_prob(x)[1:])
    gradients = tape.gradient(log_prob, parameters)

    def total(loc, scale):
        return float(tf.reduce_sum(RectifiedNormal(loc, scale).log_prob(x)[1:]))

    h = 1e-5
    expected = [
        (total(0.4 + h, np.float64(1.2)) - total(0.4 - h, np.float64(1.2))) / (2 * h),
        (total(0.4, np.float64(1.2 + h)) - total(0.4, np.float64(1.2 - h))) / (2 * h),
    ]
    np.testing.assert_allclose(gradients, expected, rtol=1e-8)
    # Samples are differentiable, and their mean gradient is the mean's.
    with tf.GradientTape(persistent=True) as tape:
        distribution = RectifiedNormal(*parameters)
        samples = tf.reduce_mean(distribution.sample(200_000, seed=(3, 4)))
        mean = distribution.mean()
    # Standard deviations of the pathwise derivatives are below 1.
    for parameter in parameters:
        assert abs(tape.gradient(samples, parameter) - tape.gradient(mean, parameter)) < 4 / 447


METHODS = ("log_prob", "prob", "cdf", "log_cdf", "survival_function", "log_survival_function")


def test_raw_moments_take_an_order_and_broadcast():
    distribution = RectifiedNormal([[0.0], [1.0]], [1.0, 2.0, 3.0])
    assert distribution.raw_moment(3).shape == (2, 3)
    for order in (0, 5, 1.5):
        with pytest.raises(ValueError, match="expected an integer from 1 to 4"):
            distribution.raw_moment(order)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("by", ["scale", "squared_scale"])
@pytest.mark.parametrize("loc", [-1.0, 0.0, 2.0])
def test_without_a_scale_it_is_a_constant(loc, by, dtype):
    distribution = RectifiedNormal(dtype(loc), **{by: dtype(0)})
    constant = max(loc, 0.0)
    x = np.array([-1.0, 0.0, 1.0, 2.0, 3.0], dtype)
    np.testing.assert_array_equal(distribution.cdf(x), x >= constant)
    np.testing.assert_array_equal(distribution.survival_function(x), x < constant)
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(distribution.log_cdf(x), np.log(1.0 * (x >= constant)))
        np.testing.assert_array_equal(
            distribution.log_survival_function(x), np.log(1.0 * (x < constant))
        )
    # A mass at 0 has the density 1 with respect to the atom there; elsewhere it has none.
    at_constant = 0.0 if constant == 0 else np.inf
    np.testing.assert_array_equal(
        distribution.log_prob(x), np.where(x == constant, at_constant, -np.inf)
    )
    probability = np.array([0.0, 0.3, 1.0], dtype)
    np.testing.assert_array_equal(distribution.quantile(probability), [constant] * 3)
    np.testing.assert_array_equal(distribution.sample(3, seed=1), [constant] * 3)
    assert distribution.mean() == distribution.raw_moment(1) == constant
    assert distribution.variance() == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quantile_round_trip_in_the_tail(dtype):
    """Far out for a large mean, where the atom is small, and near 1 as far as 1 - p has digits."""
    eps = np.finfo(dtype).eps
    distribution = RectifiedNormal(dtype(12), dtype(1))
    p = 10.0 ** np.linspace(-30, -0.1, 60)
    p = np.concatenate([p, 1 - 10.0 ** np.linspace(-5, -1, 20)]).astype(dtype)
    x = distribution.quantile(p)
    # Rounding of x changes the probability by the density.
    moved = eps * 12 * distribution.prob(x)
    z = np.asarray(x, np.float64) - 12
    close = 4 * (moved + eps * p * np.maximum(1, z**2))
    assert np.all(np.abs(distribution.cdf(x) - p) <= close)
    np.testing.assert_array_equal(RectifiedNormal(dtype(-9), dtype(1)).quantile(p), 0)
    assert np.all(np.isnan(distribution.quantile(np.array([-0.1, 1.1, np.nan], dtype))))


def test_not_a_number_stays_one():
    distribution = RectifiedNormal(0.4, 1.2)
    for name in METHODS:
        assert np.isnan(getattr(distribution, name)(np.float32(np.nan))), name


def test_in_a_graph_in_float64():
    """There TensorFlow does not turn a number of Python into the other arguments' dtype."""
    loc = tf.constant([-0.7, 0.4], tf.float64)

    def everything(loc):
        distribution = RectifiedNormal(loc, tf.constant([0.0, 1.2], tf.float64))
        some = {name: getattr(distribution, name)(tf.abs(loc)) for name in METHODS}
        return {**some, "stddev": distribution.stddev(), "variance": distribution.variance()}

    tf.nest.map_structure(
        np.testing.assert_array_almost_equal, tf.function(everything)(loc), everything(loc)
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("by", ["scale", "squared_scale"])
def test_gradients_are_finite(by, dtype):
    """Also those of what is -inf or 0, far away, in tiny and huge units and without a scale."""
    loc, scale, value = (
        x.ravel().astype(dtype)
        for x in np.meshgrid(
            [-1e15, -50.0, -0.3, 0.0, 0.3, 50.0, 1e15],
            [0.0, 1e-10, 1.0, 1e10],
            [-1.0, 0.0, 0.5, 50.0],
        )
    )
    parameters = tf.constant(loc), tf.constant(scale if by == "scale" else scale**2)
    for name in METHODS:
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            distribution = RectifiedNormal(parameters[0], **{by: parameters[1]})
            found = getattr(distribution, name)(value)
        assert not np.any(np.isnan(found)), name
        for gradient in tape.gradient(found, parameters):
            assert not np.any(np.isnan(gradient)), name
    probability = np.where(value < 0, 0, np.where(value > 0, 0.9, 0.2)).astype(dtype)
    for function in (
        lambda distribution: distribution.quantile(probability),
        lambda distribution: distribution.sample(seed=(1, 2)),
        lambda distribution: distribution.raw_moment(2),
    ):
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            found = function(RectifiedNormal(parameters[0], **{by: parameters[1]}))
        for gradient in tape.gradient(found, parameters):
            assert np.all(np.isfinite(gradient))


def test_checks_on_request():
    for arguments in ({"scale": -1.0}, {"squared_scale": -1.0}):
        with pytest.raises(tf.errors.InvalidArgumentError, match="must not be negative"):
            RectifiedNormal(0.0, **arguments, validate_args=True)
    distribution = RectifiedNormal(0.0, 1.0, validate_args=True)
    assert np.isfinite(distribution.log_prob(0.0))
    with pytest.raises(tf.errors.InvalidArgumentError, match="must not be negative"):
        distribution.log_prob(-0.5)
    scale = tf.Variable(1.0)
    distribution = RectifiedNormal(0.0, scale, validate_args=True)
    scale.assign(-1.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must not be negative"):
        distribution.mean()


def test_inside_a_compiled_function():
    x = np.float32([0.0, 0.5, 2.0])

    def function(loc, scale):
        distribution = RectifiedNormal(loc, scale)
        return [getattr(distribution, name)(x) for name in METHODS] + [
            distribution.quantile([0.1, 0.6, 0.9]),
            distribution.raw_moment(4),
        ]

    loc, scale = tf.constant(0.3), tf.constant([0.5, 1.0, 2.0])
    compiled = tf.function(function, jit_compile=True)(loc, scale)
    for found, expected in zip(compiled, function(loc, scale), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("argument", ["scale", "squared_scale"])
def test_standard_deviation_has_a_gradient_where_the_scale_is_0(argument):
    loc, spread = tf.constant([-1.0, 1.0, 0.5]), tf.constant([0.0, 0.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch([loc, spread])
        stddev = tfpn.distributions.RectifiedNormal(loc, **{argument: spread}).stddev()
    gradients = tape.gradient(stddev, [loc, spread])
    assert np.isfinite(gradients).all()
    np.testing.assert_array_equal(np.asarray(gradients)[:, :2], 0.0)


@pytest.mark.parametrize("dtype, scale", [(np.float32, 3e19), (np.float64, 1e160)])
def test_a_scale_whose_square_overflows(dtype, scale):
    loc, scale = tf.constant(scale / 2, dtype), tf.constant(scale, dtype)
    with tf.GradientTape() as tape:
        tape.watch([loc, scale])
        mean = RectifiedNormal(loc, scale).mean()
    found = (float(mean / scale), *map(float, tape.gradient(mean, [loc, scale])))
    # E relu(N(1/2, 1)) = phi(1/2) + Phi(1/2) / 2; derivatives Phi(1/2) and phi(1/2)
    density, probability = scipy.stats.norm.pdf(0.5), scipy.stats.norm.cdf(0.5)
    expected = (density + 0.5 * probability, probability, density)
    np.testing.assert_allclose(found, expected, rtol=10 * np.finfo(dtype).eps)
    # Of the second moment (1 + 1/4) Phi(1/2) + phi(1/2) / 2
    second = 1.25 * probability + 0.5 * density
    deviation = float(RectifiedNormal(loc, scale).stddev() / scale)
    np.testing.assert_allclose(
        deviation, np.sqrt(second - expected[0] ** 2), rtol=10 * np.finfo(dtype).eps
    )
