"""What precision the models compute in.

tests/models/test_pncnn.py, class TestFit, shows that PNCNN trains in float64 and mixed_bfloat16,
with XLA as without, and repeats itself with a seed; tests/models/test_steerable_keras.py shows the
like of SteerablePNCNN; tests/layers/test_layer_contract.py compares every layer with a slow version
to 1e-12. Here is what is left: a whole network in float64 to 1e-12, and the time series' model.
"""

import keras
import numpy as np
import pytest
import scipy.stats
import slow_gp
import tensorflow as tf

import tfpn

LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def series(dtype="float32", examples=3, points=6):
    rng = np.random.default_rng(0)
    x = tfpn.observations(
        np.sort(rng.uniform(size=(examples, points, 1)), axis=1),
        rng.normal(size=(examples, points, 2)),
        0.1,
    )
    x["variance"][0, 1, 0] = x["variance"][1, 3, 1] = np.inf
    x["values"][np.isinf(x["variance"])] = 0.0
    return {key: value.astype(dtype) for key, value in x.items()}


def build(**changes):
    return tfpn.models.PNTimeSeries(
        2, in_channels=2, channels=3, num_blocks=1, num_basis=2, pooling=(0, 1), query=4,
        spacing=0.2, **changes,
    )  # fmt: skip


def perturb(model):
    rng = np.random.default_rng(1)
    for weight in model.weights:
        weight.assign(np.asarray(weight) + rng.uniform(0.02, 0.1, weight.shape))


def prior(layer):
    """Arguments of `slow_gp` from a layer's weights."""
    numbers = {
        name: np.exp(float(getattr(layer, f"log_{name}").numpy()))
        for name in ("signal_std", "length_scale")
    }
    noise = layer.log_observation_noise
    return {**numbers, "observation_variance": 0.0 if noise is None else np.exp(2 * noise.numpy())}


def slow_block(model, x):
    """Logits of a network of one block: posterior and integral by loops over points."""
    conv, mix, norm, pool, head = (
        model.get_layer(name) for name in ("conv_1", "mix_1", "norm_1", "pooling", "head")
    )
    drift, diffusion = (t.numpy() for t in conv.flow_parameters())
    mean, variance, _ = slow_gp.convolve(
        **x, query=x["points"], weights=conv.kernel_parameters().numpy(), drift=drift,
        diffusion=diffusion, noise="shared", **prior(conv),
    )  # fmt: skip
    mean = mean + conv.bias.numpy()
    std = np.sqrt(variance)
    z, normal = mean / std, scipy.stats.norm
    first = std * (normal.pdf(z) + z * normal.cdf(z))
    second = std**2 * ((1 + z**2) * normal.cdf(z) + z * normal.pdf(z))
    kernel = mix.kernel.numpy()
    mean, variance = first @ kernel + mix.bias.numpy(), (second - first**2) @ kernel**2
    scale = norm.gamma.numpy() / np.sqrt(norm.moving_variance.numpy() + norm.epsilon)
    mean = (mean - norm.moving_mean.numpy()) * scale + norm.beta.numpy()
    pooled, _, _ = slow_gp.integrate(
        x["points"], mean, variance * scale**2, box=(0.0, 1.0), noise="shared", **prior(pool)
    )
    pooled /= np.exp(float(pool.log_unit.numpy())) ** x["points"].shape[-1]
    logits = pooled @ head.kernel.numpy() + head.bias.numpy()
    temperature, offsets = (w.numpy() for w in model.get_layer("temperature").weights)
    return logits / temperature + offsets


class TestFloat64:
    def test_network_equals_loops(self):
        x = series("float64")
        x["variance"][:] = 0.1
        model = tfpn.models.PNCNN(
            3, channels=3, num_blocks=1, num_basis=2, in_channels=2, spatial_dim=1, spacing=0.2,
            pooling=(0.0, 1.0), dtype="float64",
        )  # fmt: skip
        perturb(model)
        expected = slow_block(model, x)
        found = model(x)
        assert found.dtype == tf.float64
        # Condition numbers below 1e3.
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        assert np.ptp(expected) > 1e-3

    def test_no_step_in_between_is_float32(self):
        """A change of 1e-11 in any input moves the output by its derivative times that."""
        x = {key: tf.constant(value) for key, value in series("float64").items()}
        model = build(dtype="float64")
        perturb(model)
        for key in ("points", "values"):
            direction = tf.cast(x[key] > 0.3, tf.float64) * tf.cast(
                tf.reduce_any(tf.math.is_finite(x["variance"]), -1, keepdims=True), tf.float64
            )
            with tf.GradientTape() as tape:
                tape.watch(x[key])
                output = model(x)[0, 0]
            slope = float(tf.reduce_sum(tape.gradient(output, x[key])[0] * direction[0]))
            change = float(model({**x, key: x[key] + 1e-8 * direction})[0, 0] - output)
            assert abs(slope) > 1e-4
            # Differences of 1e-8 times the slope, rounded by some 1e-15; float32 would give 0.
            assert change == pytest.approx(1e-8 * slope, rel=1e-3)

    def test_weights_and_training(self):
        model = build(dtype="float64")
        assert {str(weight.dtype) for weight in model.weights} == {"float64"}
        with tf.GradientTape() as tape:
            output = model(series("float64"), training=True)
            loss = tf.reduce_sum(output)
        gradients = tape.gradient(loss, [w.value for w in model.trainable_weights])
        assert {g.dtype for g in gradients if g is not None} == {tf.float64}


class TestTimeSeries:
    @pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
    def test_half_precision_trains(self, dtype):
        keras.utils.set_random_seed(0)
        models = [build(dtype=dtype), build()]
        models[0].set_weights(models[1].get_weights())
        x, y = series(), np.array([0, 1, 1])
        # Nothing of the network is computed in half precision.
        np.testing.assert_allclose(models[0](x), models[1](x), rtol=1e-6, atol=1e-6)
        losses = []
        for model in models:
            before = model.get_weights()
            model.compile(keras.optimizers.SGD(0.01), LOSS, run_eagerly=True)
            losses.append([float(model.train_on_batch(x, y)[0]) for _ in range(2)])
            assert any(np.any(a != b) for a, b in zip(before, model.get_weights(), strict=True))
        assert np.isfinite(losses).all() and losses[0][1] < losses[0][0]
        # The optimizer scales float16 losses by powers of two.
        np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)

    @pytest.mark.graphs
    def test_xla_agrees(self):
        model, x = build(), series()
        perturb(model)
        compiled = tf.function(lambda x: model(x), jit_compile=True)
        np.testing.assert_allclose(compiled(x), model(x), rtol=1e-4, atol=1e-5)

    @pytest.mark.graphs
    def test_one_seed_one_result(self):
        results = []
        for seed in (1, 1, 2):
            keras.utils.set_random_seed(seed)
            model = build()
            model.compile("adam", LOSS, run_eagerly=True)
            model.fit(series(), np.array([0, 1, 1]), batch_size=3, verbose=0)
            results.append(model.get_weights())
        first, second, other = results
        for one, two in zip(first, second, strict=True):
            np.testing.assert_array_equal(one, two)
        assert any(np.any(one != two) for one, two in zip(first, other, strict=True))
