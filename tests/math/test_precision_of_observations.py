"""Float32 observations of any accuracy and density, against dense matrices in float64.

The reference takes the float32 numbers as they are. Results are float64's, rounded to float32, or
float32's where its rounding is small: within 1e-3 of the mean's and the likelihood's size and of
each variance.
"""

import numpy as np
import pytest
import tensorflow as tf

import tfpn
from tfpn.math import blocks, convolve, convolve_mean, integrate
from tfpn.math.posterior.channel import ChannelNoise

NOISE = ("shared", "channel")
LIMIT = 1e-3


def smooth(x):
    return np.sin(3 * x[:, 0]) + x[:, 1] ** 2


def twice(rng):
    x = np.repeat(rng.uniform(size=(128, 2)), 2, axis=0)
    return x, smooth(x), np.zeros(len(x)), 1.0


def one_place(rng, count=512, noise=0.05):
    x = np.tile([[0.3, 0.6]], (count, 1))
    return x, 0.54 + noise * rng.normal(size=count), np.full(count, noise**2), 1.0


def accurate(rng):
    x = rng.uniform(size=(128, 2))
    return x, smooth(x), np.full(len(x), 1e-6), 0.3


def apart(distance):
    def make(rng):
        x = rng.uniform(size=(20, 2))
        x = np.concatenate([x, x + 0.2 * distance * rng.normal(size=x.shape)])
        return x, smooth(x), np.full(len(x), 1e-5), 0.2

    return make


def cluster(rng):
    x = np.concatenate([0.5 + 1e-3 * rng.normal(size=(200, 2)), rng.uniform(size=(20, 2))])
    return x, smooth(x) + 0.01 * rng.normal(size=220), np.full(220, 1e-4), 0.5


def unequal(rng):
    x = np.repeat(rng.uniform(size=(10, 2)), 6, axis=0)
    variance = 10.0 ** rng.uniform(-7, 0, size=60)
    return x, smooth(x) + np.sqrt(variance) * rng.normal(size=60), variance, 0.4


def exact_and_noisy(rng):
    x = rng.uniform(size=(60, 2))
    variance = np.where(np.arange(60) % 3, 0.04, 0.0)
    return x, smooth(x) + np.sqrt(variance) * rng.normal(size=60), variance, 0.1


def long_scale(rng):
    x = rng.uniform(size=(100, 2))
    return x, smooth(x) + 1e-2 * rng.normal(size=100), np.full(100, 1e-4), 10.0


def single(rng):
    return rng.uniform(size=(1, 2)), np.ones(1), np.full(1, 1e-4), 0.3


CASES = {
    "twice": twice, "one place": one_place, "accurate": accurate, "1e-6 apart": apart(1e-6),
    "1e-3 apart": apart(1e-3), "cluster": cluster, "unequal": unequal, "mixed": exact_and_noisy,
    "long scale": long_scale, "single": single,
}  # fmt: skip


def floored(variance, count, signal_std=1.0):
    """The least noise as documented."""
    return np.maximum(variance, max(1e-12, 2e-13 * count) * signal_std**2)


def kernel(a, b, s, length):
    return s**2 * np.exp(-0.5 * np.sum((a[:, None] - b[None]) ** 2, -1) / length**2)


def dense(points, values, variance, query, length, s=1.0):
    """Mean, variance and negative log marginal likelihood of one channel by its observed points."""
    seen = np.isfinite(variance)
    points, values, variance = points[seen], values[seen], variance[seen]
    gram = kernel(points, points, s, length) + np.diag(floored(variance, seen.sum(), s))
    factor = np.linalg.cholesky(gram)
    cross, white = (np.linalg.solve(factor, t) for t in (kernel(points, query, s, length), values))
    nll = 0.5 * (white @ white + len(white) * np.log(2 * np.pi))
    nll += np.sum(np.log(np.diag(factor)))
    return cross.T @ white, s**2 - np.sum(cross**2, 0), nll


def example(name):
    rng = np.random.default_rng(0)
    x, y, variance, length = CASES[name](rng)
    query = np.concatenate([x[:10], rng.uniform(size=(20, 2))])
    return *(np.asarray(t, np.float32) for t in (x, y, variance, query)), np.float32(length)


PLAIN = {
    "weights": np.ones((1, 1, 1), np.float32), "drift": np.zeros((1, 2), np.float32),
    "diffusion": np.zeros((1, 2, 2), np.float32), "signal_std": np.float32(1.0),
}  # fmt: skip


def assert_close(found, expected):
    mean, variance, nll = (np.asarray(t, np.float64).ravel() for t in found)
    assert np.abs(mean - expected[0]).max() < LIMIT * np.abs(expected[0]).max()
    np.testing.assert_allclose(variance, expected[1], rtol=LIMIT, atol=1e-13)
    assert np.all(variance > 0)
    assert abs(nll[0] - expected[2]) < LIMIT * max(1.0, abs(expected[2]))


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("name", CASES)
def test_equals_dense_float64(name, noise):
    x, y, variance, query, length = example(name)
    found = convolve(
        x[None], y[None, :, None], variance[None, :, None], query[None], **PLAIN,
        length_scale=length, noise=noise,
    )  # fmt: skip
    assert {t.dtype for t in found} == {tf.float32}
    wide = (t.astype(np.float64) for t in (x, y, variance, query))
    expected = dense(*wide, np.float64(length))
    if name == "twice":  # of which the least noise is left, some 1e-11, float64's rounding 1e-14
        np.testing.assert_allclose(np.ravel(found[1]), expected[1], atol=1e-13)
        found, expected = (*found[:1], tf.ones(30), found[2]), (expected[0], 1.0, expected[2])
    assert_close(found, expected)
    mean, nll = convolve_mean(
        x[None], y[None, :, None], variance[None, :, None], query[None], **PLAIN,
        length_scale=length, noise=noise,
    )  # fmt: skip
    assert_close((mean, tf.ones(30), nll), (expected[0], 1.0, expected[2]))


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exact_readings_leave_a_variance_in_either_dtype(dtype, noise):
    """256 places read twice, exactly: of the least noise, 1e-10, rounding must leave digits.

    No place knows more than its own two readings and those of its neighbours, and none less than
    its own: so half the least noise is the most that is left.
    """
    x = np.repeat(np.random.default_rng(0).uniform(size=(256, 2)).astype("float32"), 2, axis=0)
    given = {key: value.astype(dtype) for key, value in PLAIN.items()}
    _, variance, _ = convolve(
        x[None].astype(dtype), smooth(x)[None, :, None].astype(dtype), np.zeros((1, 512, 1), dtype),
        x[None, ::2].astype(dtype), **given, length_scale=np.asarray(1.0, dtype), noise=noise,
    )  # fmt: skip
    expected = dense(
        x.astype(float), smooth(x.astype(float)), np.zeros(512), x[::2].astype(float), 1.0
    )[1]
    assert np.all(variance > 0.0)
    assert np.max(variance) < 0.5 * 512 * 2e-13 * (1 + LIMIT)
    # Each of them rounds 1 - (1 - variance), by some N eps.
    np.testing.assert_allclose(np.ravel(variance), expected, atol=2 * 512 * 2.2e-16)


def test_every_single_variance_is_right_to_a_thousandth():
    """300 random problems of 75 points, where float32 and float64 examples mix."""
    rng = np.random.default_rng(1)
    for length in (0.05, 0.2, 0.7):
        x = rng.uniform(size=(100, 75, 2)).astype("float32")
        variance = np.broadcast_to(10 ** rng.uniform(-4, -0.5, size=(100, 1, 1)), (100, 75, 1))
        y = np.sin(3 * x[..., :1]) + np.sqrt(variance) * rng.normal(size=variance.shape)
        given = [x, y.astype("float32"), variance.astype("float32"), x]
        found, expected = (
            convolve(
                *(t.astype(dtype) for t in given),
                **{key: value.astype(dtype) for key, value in PLAIN.items()},
                length_scale=np.asarray(length, dtype),
            )[1]
            for dtype in ("float32", "float64")
        )
        np.testing.assert_allclose(found, expected, rtol=LIMIT)


def test_exact_readings_that_contradict_each_other_are_averaged():
    """Float64 rounds the least noise of N readings, 2e-13 N, by some N times 1e-16."""
    for count in (2, 100, 1000):
        x, y, _, _ = one_place(np.random.default_rng(1), count, noise=1.0)
        mean, variance, _ = convolve(
            x[None].astype("float32"), y[None, :, None].astype("float32"),
            np.zeros((1, count, 1), "float32"), x[None, :1].astype("float32"), **PLAIN,
            length_scale=1.0,
        )  # fmt: skip
        assert abs(float(mean[0, 0, 0]) - y.mean()) < LIMIT
        assert 0 < float(variance[0, 0, 0]) < 1e-11


def test_channels_seen_in_part():
    """Two channels at coinciding points with noise of their own, some not observed."""
    rng = np.random.default_rng(2)
    x = np.repeat(rng.uniform(size=(15, 2)), 4, axis=0).astype(np.float32)
    y = (smooth(x)[:, None] * [1.0, -2.0] + 0.01 * rng.normal(size=(60, 2))).astype(np.float32)
    variance = (10.0 ** rng.uniform(-6, -2, size=(60, 2))).astype(np.float32)
    variance[rng.uniform(size=(60, 2)) < 0.4] = np.inf
    query = np.concatenate([x[:5], rng.uniform(size=(5, 2))]).astype(np.float32)
    given = {"signal_std": np.float32(1.0), "length_scale": np.float32(0.5), "noise": "channel"}
    for channel in range(2):
        weights = np.eye(2, dtype=np.float32)[None, :, channel : channel + 1]
        flow = {**PLAIN, "weights": weights}
        mean, var, nll = convolve(
            x[None], y[None], variance[None], query[None], **{**flow, **given}
        )
        wide = (t.astype(np.float64) for t in (x, y[:, channel], variance[:, channel], query))
        assert_close((mean, var, nll[:, channel]), dense(*wide, 0.5))


def gradients(arguments, dtype, mode, **options):
    """Of a scalar of mean, variance and likelihood by all floating arguments."""
    tensors = {key: tf.constant(value, dtype) for key, value in arguments.items()}

    def function(tensors):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            mean, variance, nll = convolve(**tensors, **options)
            loss = tf.reduce_sum(tf.sin(mean)) + tf.reduce_sum(variance) + tf.reduce_sum(nll)
        return tape.gradient(loss, tensors)

    if mode != "eager":
        function = tf.function(function, jit_compile=mode == "xla")
    return {key: np.asarray(value) for key, value in function(tensors).items()}


def assert_gradients_close(found, expected):
    for key, value in expected.items():
        assert found[key].dtype == np.float32
        assert np.isfinite(value).all()
        axes = tuple(range(1, value.ndim)) if key in ("points", "values", "variance") else None
        size = np.abs(value).max(axis=axes, keepdims=True)
        assert np.all(np.abs(found[key] - value) <= LIMIT * size), key


@pytest.mark.parametrize("noise", NOISE)
def test_gradients_equal_those_in_float64(noise):
    """A batch of examples of which some are computed in float32 and some in float64."""
    rng = np.random.default_rng(3)
    points = rng.uniform(size=(3, 24, 2))
    points[1, 12:] = points[1, :12] + 1e-5
    points[2, :] = points[2, :1]
    variance = np.full((3, 24, 1), 0.01)
    variance[1] = 1e-4
    variance[2] = 10.0 ** rng.uniform(-4, -2, size=(24, 1))
    variance[0, -3:] = np.inf
    arguments = {
        "points": points, "values": rng.normal(size=(3, 24, 1)) * 0.1 + points[..., :1],
        "variance": variance, "query": points[:, :5] + 0.01, "weights": rng.normal(size=(2, 1, 2)),
        "drift": 0.1 * rng.normal(size=(2, 2)), "diffusion": np.tile(0.01 * np.eye(2), (2, 1, 1)),
        "signal_std": 1.0, "length_scale": 0.3, "observation_variance": 1e-5,
    }  # fmt: skip
    arguments = {key: np.asarray(value, np.float32) for key, value in arguments.items()}
    found = gradients(arguments, tf.float32, "eager", noise=noise)
    assert_gradients_close(found, gradients(arguments, tf.float64, "eager", noise=noise))


def channels_of_all_kinds():
    """Four examples of three channels, and which pairs float32's digits suffice for.

    Example 0 is noisy, but for coinciding accurate readings in channel 1 and none in channel 2; 1
    has such readings in channels 0 and 2; 2 is noisy throughout; 3 has readings at its query points
    so far apart that nothing is enlarged, and so accurate that too little is left.
    """
    rng = np.random.default_rng(6)
    points = rng.uniform(size=(4, 24, 2))
    points[:2, 12:] = points[:2, :12] + 1e-5
    points[3] = 5.0 * np.stack(np.meshgrid(np.arange(6), np.arange(4)), -1).reshape(24, 2)
    variance = np.full((4, 24, 3), 0.01)
    variance[0, :, 1] = 1e-6
    variance[0, :, 2] = np.inf
    variance[1, :, ::2] = 10.0 ** rng.uniform(-6, -5, size=(24, 2))
    variance[2, rng.uniform(size=(24, 3)) < 0.4] = np.inf
    variance[3] = 1e-6
    query = points[:, :5] + np.where(np.arange(4) < 3, 0.01, 0.0)[:, None, None]
    fine = np.ones((4, 3), bool)
    fine[0, 1] = fine[1, 0] = fine[1, 2] = False
    fine[3] = False
    values = 0.1 * rng.normal(size=(4, 24, 3)) * np.sqrt(variance.clip(0, 1)) + points[..., :1]
    arguments = {
        "points": points, "values": values, "variance": variance, "query": query,
        "weights": rng.normal(size=(2, 3, 2)), "drift": 1e-3 * rng.normal(size=(2, 2)),
        "diffusion": np.tile(1e-6 * np.eye(2), (2, 1, 1)), "signal_std": np.full(3, 1.0),
        "length_scale": np.full(3, 0.3), "observation_variance": 1e-7, "bias": rng.normal(size=2),
    }  # fmt: skip
    return {key: np.asarray(value, np.float32) for key, value in arguments.items()}, fine


@pytest.fixture
def chosen(monkeypatch):
    """The pairs that are asked of `ChannelNoise.mixed` in float64, call by call."""
    asked, mixed = [], ChannelNoise.mixed

    def recorded(self, *arguments, chosen=None, **options):
        if chosen is not None and tf.executing_eagerly():
            assert self.values.dtype == tf.float64
            asked.append(chosen.numpy())
        return mixed(self, *arguments, chosen=chosen, **options)

    monkeypatch.setattr(ChannelNoise, "mixed", recorded)
    return asked


@pytest.mark.parametrize("prior", ["shared", "channel"])
@pytest.mark.parametrize("pairs", [1, 5, 1000])
def test_channels_are_computed_where_their_digits_suffice(prior, pairs, chosen, monkeypatch):
    """Blocks of one pair, of some that are not all of one kind, and of all."""
    arguments, fine = channels_of_all_kinds()
    if prior == "shared":
        arguments.update({key: arguments[key][0] for key in ("signal_std", "length_scale")})
    monkeypatch.setattr(blocks, "BLOCK_BYTES", pairs * 24 * 24 * 4)
    found = convolve(**arguments, noise="channel")
    np.testing.assert_array_equal(chosen, [~fine])
    wide = {key: value.astype(np.float64) for key, value in arguments.items()}
    expected = convolve(**wide, noise="channel")
    for one, other in zip(found[::2], expected[::2], strict=True):
        size = np.maximum(np.abs(other).max(axis=-1, keepdims=True), 1.0)
        assert one.dtype == tf.float32
        assert np.all(np.abs(one.numpy() - other) <= LIMIT * size)
    np.testing.assert_allclose(found[1], expected[1], rtol=LIMIT)


@pytest.mark.parametrize("mode", ["eager", "xla"])
def test_gradients_of_channels_of_all_kinds(mode, monkeypatch):
    arguments, _ = channels_of_all_kinds()
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 5 * 24 * 24 * 4)
    found = gradients(arguments, tf.float32, mode, noise="channel")
    assert_gradients_close(found, gradients(arguments, tf.float64, "eager", noise="channel"))


def test_a_batch_of_noisy_channels_asks_nothing_of_float64(chosen):
    arguments, _ = channels_of_all_kinds()
    batched = ("points", "values", "variance", "query")
    noisy = {key: value[2:3] if key in batched else value for key, value in arguments.items()}
    convolve(**noisy, noise="channel")
    assert not np.any(chosen)


@pytest.mark.parametrize("noise", NOISE)
def test_layers_equal_those_of_float64(noise):
    rng = np.random.default_rng(4)
    x, y, variance, length = CASES["one place"](rng)
    x = np.concatenate([x, rng.uniform(size=(8, 2))])
    y, variance = (np.concatenate([t, t[:8]]) for t in (y, variance))
    data = {"points": x[None], "values": y[None, :, None], "variance": variance[None, :, None]}
    data = {key: value.astype(np.float32) for key, value in data.items()}
    query = data["points"][:, -12:]
    layers = {
        "conv": lambda dtype: tfpn.layers.PNConv(
            3, 3, length_scale=length, noise=noise, dtype=dtype
        ),
        "pool": lambda dtype: tfpn.layers.IntegralPooling(
            length_scale=length, noise=noise, dtype=dtype
        ),
        "steerable": lambda dtype: tfpn.layers.SteerablePNConv(
            {0: 1}, num_basis=1, length_scale=length, noise=noise, frequencies=(0, 1), seed=0,
            dtype=dtype,
        ),
    }  # fmt: skip
    for name, make in layers.items():
        narrow, wide = make("float32"), make("float64")
        asked = () if name == "pool" else (query,)
        found = narrow(data, *asked)
        wide_data = {key: tf.cast(value, tf.float64) for key, value in data.items()}
        asked = tuple(tf.cast(t, tf.float64) for t in asked)
        wide(wide_data, *asked)
        wide.set_weights(narrow.get_weights())
        expected = {key: value.numpy() for key, value in wide(wide_data, *asked).items()}
        size = np.abs(expected["values"]).max()
        error = np.abs(found["values"].numpy() - expected["values"]).max()
        assert error < LIMIT * size, name
        if name != "pool":
            np.testing.assert_allclose(found["variance"], expected["variance"], rtol=LIMIT)


def test_integral_of_accurate_readings():
    """Of what 64 accurate readings leave of an integral's variance, 1e-7 of the prior's."""
    rng = np.random.default_rng(5)
    x = rng.uniform(size=(1, 64, 1))
    given = {"signal_std": 1.0, "length_scale": 0.5, "box": (0.0, 1.0)}
    data = [t.astype(np.float32) for t in (x, np.sin(x), np.full_like(x, 1e-6))]
    found = integrate(*data, **given)
    expected = integrate(*(t.astype(np.float64) for t in data), **given)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == tf.float32
        np.testing.assert_allclose(one, other, rtol=1e-5)
