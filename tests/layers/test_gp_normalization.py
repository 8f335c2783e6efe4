"""Normalisation: training statistics against NumPy, running averages, inference."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_harness import assert_same, make_input, perturb

import tfpn
from tfpn.layers import GPNormalization


def statistics(x):
    """Mean and total variance of each channel over its observed entries."""
    mean, spread = [], []
    for c in range(x["values"].shape[-1]):
        observed = np.isfinite(x["variance"][..., c])
        values = x["values"][..., c][observed]
        mean.append(values.mean())
        spread.append(values.var() + x["variance"][..., c][observed].mean())
    return np.array(mean), np.array(spread)


@pytest.fixture
def x():
    x = make_input(sporadic=True)
    x["values"] = np.where(np.isinf(x["variance"]), np.nan, 3.0 + 2.0 * x["values"])
    return x


def expected_output(x, mean, spread, gamma, beta, epsilon):
    observed = np.isfinite(x["variance"])
    scale = gamma / np.sqrt(spread + epsilon)
    return {
        "points": x["points"],
        "values": np.where(observed, (x["values"] - mean) * scale + beta, 0.0),
        "variance": x["variance"] * scale**2,
    }


def test_training_uses_the_batch_and_inference_the_averages(x):
    layer = GPNormalization(momentum=0.8, epsilon=1e-3, dtype="float64")
    layer(x)
    perturb(layer)
    layer.updates.assign(np.full(layer.updates.shape, 50.0))  # past the plain means of the start
    gamma, beta = np.asarray(layer.gamma), np.asarray(layer.beta)
    averages = np.asarray(layer.moving_mean), np.asarray(layer.moving_variance)
    mean, spread = statistics(x)
    output = layer(x, training=True)
    # Sums of a dozen numbers of size 5.
    exact = {"rtol": 1e-13, "atol": 1e-13}
    assert_same(output, expected_output(x, mean, spread, gamma, beta, 1e-3), **exact)
    averages = tuple(
        0.8 * old + 0.2 * new for old, new in zip(averages, (mean, spread), strict=True)
    )
    np.testing.assert_allclose(layer.moving_mean, averages[0], **exact)
    np.testing.assert_allclose(layer.moving_variance, averages[1], **exact)
    for _ in range(2):  # inference leaves the averages alone
        output = layer(x, training=False)
        assert_same(output, expected_output(x, *averages, gamma, beta, 1e-3), **exact)


def test_averages_begin_as_plain_means(x):
    layer = GPNormalization(momentum=0.9, dtype="float64")
    batches = [{**x, "values": x["values"] + shift} for shift in (0.0, 1.0, 5.0)]
    for batch in batches:
        layer(batch, training=True)
    means, spreads = zip(*(statistics(batch) for batch in batches), strict=True)
    np.testing.assert_allclose(layer.moving_mean, np.mean(means, axis=0), rtol=1e-12)
    np.testing.assert_allclose(layer.moving_variance, np.mean(spreads, axis=0), rtol=1e-12)


def test_output_has_zero_mean_and_unit_spread_in_training(x):
    output = GPNormalization(dtype="float64")(x, training=True)
    mean, spread = statistics({key: np.asarray(value) for key, value in output.items()})
    np.testing.assert_allclose(mean, 0.0, atol=1e-13)
    np.testing.assert_allclose(spread, 1.0, atol=1e-5)  # epsilon 1e-5 of a spread above 1


def test_channel_never_observed_keeps_its_averages(x):
    x["variance"][..., 1] = np.inf
    layer = GPNormalization(dtype="float64")
    layer(x)
    perturb(layer)
    before = [np.asarray(w).copy() for w in (layer.moving_mean, layer.moving_variance)]
    output = layer(x, training=True)
    after = [np.asarray(w) for w in (layer.moving_mean, layer.moving_variance)]
    for old, new in zip(before, after, strict=True):
        assert new[1] == old[1] and new[0] != old[0]
    assert np.isposinf(np.asarray(output["variance"])[..., 1]).all()
    assert (np.asarray(output["values"])[..., 1] == 0).all()


@pytest.mark.parametrize("jit_compile", [False, True])
def test_training_gradient_against_finite_differences(x, jit_compile):
    layer = GPNormalization(dtype="float64")
    layer(x)
    perturb(layer)
    rng = np.random.default_rng(2)
    probe = rng.normal(size=(2, *x["values"].shape))
    observed = np.isfinite(x["variance"])

    @tf.function(jit_compile=jit_compile)
    def loss(values, variance):
        batch = {"points": x["points"], "values": values, "variance": variance}
        output = layer(batch, training=True)
        found = tf.where(observed, tf.stack([output["values"], output["variance"]]), 0.0)
        return tf.reduce_sum(probe * tf.sin(found))

    @tf.function(jit_compile=jit_compile)
    def gradient(values, variance):
        sources = [values, variance, layer.gamma.value, layer.beta.value]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            total = loss(values, variance)
        return tape.gradient(total, sources)

    sources = [tf.constant(x["values"]), tf.constant(x["variance"])]
    found = [np.asarray(g) for g in gradient(*sources)]
    assert all(np.isfinite(g).all() for g in found)
    assert (found[0][~observed] == 0).all() and (found[1][~observed] == 0).all()
    step = 1e-5
    direction = [rng.normal(size=observed.shape) * observed for _ in range(2)]
    weights = rng.normal(size=(2, 2))
    start = [np.asarray(layer.gamma).copy(), np.asarray(layer.beta).copy()]

    def moved(sign):
        layer.gamma.assign(start[0] + sign * step * weights[0])
        layer.beta.assign(start[1] + sign * step * weights[1])
        return float(loss(*(s + sign * step * d for s, d in zip(sources, direction, strict=True))))

    numeric = (moved(1) - moved(-1)) / (2 * step)
    exact = sum(np.sum(g * d) for g, d in zip(found[:2], direction, strict=True))
    exact += np.sum(found[2] * weights[0]) + np.sum(found[3] * weights[1])
    # Central differences: step^2 = 1e-10 of the third derivative, rounding 1e-16 / step.
    assert numeric == pytest.approx(exact, rel=1e-6)


def test_fit_moves_the_averages_and_predict_uses_them():
    x = make_input(dtype=np.float32)
    inputs = {key: keras.Input((6, 2), name=key) for key in x}
    layer = GPNormalization(momentum=0.5)
    model = keras.Model(inputs, keras.ops.sum(layer(inputs)["values"], axis=(1, 2)))
    model.compile(keras.optimizers.SGD(0.0), "mse")
    model.fit(x, np.zeros(3), epochs=3, verbose=0, shuffle=False)
    mean, spread = statistics(x)
    np.testing.assert_allclose(layer.moving_mean, mean, rtol=1e-5, atol=1e-6)  # float32
    np.testing.assert_allclose(layer.moving_variance, spread, rtol=1e-5)
    np.testing.assert_array_equal(layer.updates, 3.0)
    before = layer.get_weights()
    model.predict(x, verbose=0)
    for old, new in zip(before, layer.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"momentum": 1.0}, r"momentum must be in \[0, 1\), found 1.0"),
        ({"momentum": -0.1}, r"momentum must be in \[0, 1\), found -0.1"),
        ({"momentum": "a"}, r"momentum must be in \[0, 1\), found 'a'"),
        ({"momentum": None}, r"momentum must be in \[0, 1\), found None"),
        ({"epsilon": 0.0}, "epsilon must be positive and finite, found 0.0"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        GPNormalization(**arguments)


@pytest.mark.parametrize(
    "make", [tfpn.layers.GPNormalization, lambda: tfpn.layers.SteerableNormalization({0: 1})]
)
def test_huge_values_leave_the_averages_as_they_are(make):
    layer = make()
    values = np.zeros((2, 3, 1), "float32")
    x = tfpn.observations(np.zeros((2, 3, 2)), values)
    layer(x, training=True)
    before = [w.numpy() for w in layer.weights]
    values[0, 0] = 3e19  # float32 cannot hold its square
    with pytest.raises(tf.errors.InvalidArgumentError, match="a result that is not finite"):
        layer({**x, "values": values}, training=True)
    for weight, old in zip(layer.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), old)
