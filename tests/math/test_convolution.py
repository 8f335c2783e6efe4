import keras
import numpy as np
import pytest
import slow_gp
import tensorflow as tf
from convolution_examples import (
    ARGUMENTS,
    EPS,
    NOISE,
    assert_all_close,
    example,
    gradients,
    tensors,
)

from tfpn.math import convolve, convolve_mean


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_against_loops(d, noise):
    given = example(d, noise)
    expected = slow_gp.convolve(**given, noise=noise)
    results = convolve(**given, noise=noise)
    # Some hundred roundings times the condition number.
    assert_all_close(results, expected, rtol=1e-11, atol=1e-12)
    assert_all_close(convolve_mean(**given, noise=noise), expected[::2], rtol=1e-11, atol=1e-12)
    low = convolve(**example(d, noise, dtype="float32"), noise=noise)
    assert {result.dtype for result in low} == {tf.float32}
    assert_all_close(low, expected, rtol=1e-4, atol=1e-5)


def test_noise_equal_in_all_channels():
    """Then both ways of conditioning are the same, and sharing one's mean is not in general."""
    given = example(noise="shared")
    given["observation_variance"] = np.array(0.05)
    different = convolve(**given, noise="channel")[0] - convolve(**given, noise="shared")[0]
    assert np.max(np.abs(different)) > 1e-3
    given["variance"] = np.repeat(given["variance"].mean(-1, keepdims=True), 2, -1)
    shared, channel = (gradients(given, noise) for noise in NOISE)
    assert_all_close(shared[0], channel[0], rtol=1e-11, atol=1e-12)
    for key in ARGUMENTS:
        if key != "variance":
            assert_all_close([shared[1][key]], [channel[1][key]], rtol=1e-10, atol=1e-11)
    # Shared noise depends on the mean over channels alone.
    expected = tf.reduce_mean(channel[1]["variance"], -1, keepdims=True) * tf.ones(2, tf.float64)
    np.testing.assert_allclose(shared[1]["variance"], expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_gradients_of_everything(d, noise):
    given = example(d, noise, n=4 if d == 3 else 5)
    constants = tensors(given)
    results = convolve(**constants, noise=noise)
    rng = np.random.default_rng(1)
    projections = [rng.normal(size=result.shape) for result in results]

    @tf.function(autograph=False)
    def scalar(**arguments):
        results = convolve(**arguments, noise=noise)
        return sum(tf.reduce_sum(p * r) for p, r in zip(projections, results, strict=True))

    _, found = gradients(given, noise)
    for key in ARGUMENTS:

        def moved(array, key=key):
            return scalar(**{**constants, key: tf.constant(array)})

        symmetric = key == "diffusion"
        with np.errstate(invalid="ignore"):
            expected = slow_gp.differences(moved, given[key], symmetric=symmetric)
        one = found[key].numpy()
        if symmetric:
            one = 0.5 * (one + one.transpose(0, 2, 1))
        # Differences of fourth order with step 1e-3: rounding 1e-12 / step, and step^4 = 1e-12.
        scale = max(1.0, np.max(np.abs(expected)))
        np.testing.assert_allclose(one, expected, rtol=1e-7, atol=1e-8 * scale, err_msg=key)


@pytest.mark.parametrize("noise", NOISE)
def test_gradients_of_the_mean_alone(noise):
    given = example(noise=noise)
    constants = tensors(given)
    totals, found = [], []
    for function in (convolve, convolve_mean):
        with tf.GradientTape() as tape:
            tape.watch(constants)
            results = function(**constants, noise=noise)
            weights = np.random.default_rng(2).normal(size=results[0].shape)
            totals.append(tf.reduce_sum(results[0] * weights) + tf.reduce_sum(results[-1]))
        found.append(tape.gradient(totals[-1], constants, unconnected_gradients="zero"))
    np.testing.assert_allclose(*totals, rtol=1e-12)
    for key in ARGUMENTS:
        assert_all_close([found[1][key]], [found[0][key]], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("noise", NOISE)
def test_what_the_marginal_likelihood_trains(noise):
    given = example(noise=noise)
    constants = tensors(given)
    found = {}
    for trains in ("all", "kernel"):
        with tf.GradientTape() as tape:
            tape.watch(constants)
            nll = convolve(**constants, noise=noise, marginal_likelihood_trains=trains)[2]
        found[trains] = tape.gradient(nll, constants)
    for key in ("points", "values", "variance"):
        assert found["kernel"][key] is None or not np.any(found["kernel"][key])
        assert np.any(found["all"][key])
    for key in ("signal_std", "length_scale", "observation_variance"):
        assert np.all(found["kernel"][key] != 0)
        np.testing.assert_allclose(found["kernel"][key], found["all"][key], rtol=1e-12)
    # What it trains does not touch mean and variance.
    for key in ("query", "weights", "drift", "diffusion"):
        assert found["all"][key] is None or not np.any(found["all"][key])
    with pytest.raises(ValueError, match="marginal_likelihood_trains must be one of .*'nothing'"):
        convolve(**given, noise=noise, marginal_likelihood_trains="nothing")


DEGENERATE = {
    "coincident points": {"points": np.zeros((1, 4, 2)), "query": np.zeros((1, 3, 2))},
    "no noise": {"variance": np.zeros((1, 4, 2))},
    "no noise at coincident points": {
        "points": np.zeros((1, 4, 2)), "variance": np.zeros((1, 4, 2)),
    },
    "no diffusion": {"diffusion": np.zeros((2, 2, 2)), "drift": np.zeros((2, 2))},
    "one point": {
        "points": np.zeros((1, 1, 2)), "values": np.ones((1, 1, 2)),
        "variance": np.zeros((1, 1, 2)),
    },
    "nothing observed": {"variance": np.full((1, 4, 2), np.inf)},
    "one padding point": {
        "points": np.full((1, 1, 2), np.nan), "values": np.full((1, 1, 2), np.nan),
        "variance": np.full((1, 1, 2), np.inf),
    },
    "no points": {
        "points": np.zeros((1, 0, 2)), "values": np.zeros((1, 0, 2)),
        "variance": np.zeros((1, 0, 2)),
    },
    "far apart": {"points": np.arange(8.0).reshape(1, 4, 2) * 1e3},
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("which", DEGENERATE)
def test_degenerate_inputs_have_finite_results_and_gradients(which, noise, dtype):
    given = example(noise=noise, n=4)
    given = {k: v[1:] if k in ARGUMENTS[:4] else v for k, v in given.items()}
    given["variance"] = np.full((1, 4, 2), 0.1)
    given["observation_variance"] = np.array(0.0)
    given = {k: v.astype(dtype) for k, v in {**given, **DEGENERATE[which]}.items()}
    results, found = gradients(given, noise)
    for result in (*results, *found.values()):
        assert np.all(np.isfinite(result))
    assert np.all(results[1] >= 0)
    if which in ("nothing observed", "one padding point", "no points"):
        prior = slow_gp.convolve(
            **{**given, "points": np.zeros((1, 1, 2)), "values": np.zeros((1, 1, 2)),
               "variance": np.full((1, 1, 2), np.inf)}, noise=noise,
        )  # fmt: skip
        assert not np.any(results[0]) and not np.any(results[2])
        np.testing.assert_allclose(results[1], prior[1], rtol=100 * EPS[dtype])
        for key in ("points", "values", "variance"):
            assert not np.any(found[key])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "n, times, length", [(40, 3, 1.0), (600, 3, 0.3), (600, 3, 30.0), (1000, 1, 1.0)]
)
def test_close_points_without_noise(n, times, length, dtype):
    """Every point ``times``, exact values of a function as smooth as the prior takes it."""
    rng = np.random.default_rng(4)
    points = np.repeat(rng.uniform(size=(1, n // times + 1, 2)), times, axis=1)[:, :n]
    values = np.sin(points[..., :1] / length + 1) + 0.3 * points[..., 1:] / length
    given = {
        "points": points, "values": values, "variance": np.zeros_like(values),
        "query": points[:, :20], "weights": np.ones((1, 1, 1)), "drift": np.zeros((1, 2)),
        "diffusion": np.zeros((1, 2, 2)), "signal_std": np.array(1.0),
        "length_scale": np.array(length), "observation_variance": np.array(0.0),
    }  # fmt: skip
    given = {key: value.astype(dtype) for key, value in given.items()}
    results, found = gradients(given, "shared")
    for result in (*results, *found.values()):
        assert np.all(np.isfinite(result))
    mean, variance, _ = results
    # At most the floor is left of the variance. The mean's error is a rounding of
    # sqrt(N) eps / floor, 5e-3, of values' residuals of size sqrt(floor), 1e-6. (Allowed: ten times
    # as much.) Float32 is computed in float64; its values' rounding is 1e-7 of up to 3.
    floor, fit = 2e-13 * max(5, n), {"float32": 5e-6, "float64": 5e-7}[dtype]
    assert np.all(variance >= 0) and np.max(variance) < floor
    np.testing.assert_allclose(mean, values[:, :20], atol=fit)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("same", [True, False], ids=["same", "asymmetric"])
def test_lattice_limit_is_an_ordinary_convolution(same, dtype):
    """Sigma = 0, drifts on the lattice, l = 0.1 spacings: k between neighbours is exp(-50)."""
    rng = np.random.default_rng(6)
    height, width, c_in, c_out = 6, 5, 2, 3
    image = rng.normal(size=(2, height, width, c_in)).astype(dtype)
    rows, columns = (3, 3) if same else (2, 4)
    filters = rng.normal(size=(rows, columns, c_in, c_out)).astype(dtype)
    lattice = np.stack(np.meshgrid(range(height), range(width), indexing="ij"), -1)
    points = np.tile(lattice.reshape(1, -1, 2), (2, 1, 1)).astype(dtype)
    offsets = np.stack(np.meshgrid(range(rows), range(columns), indexing="ij"), -1)
    offsets = offsets.reshape(-1, 2) - (1 if same else 0)
    values = image.reshape(2, -1, c_in)
    mean, variance, _ = convolve(
        points, values, np.zeros_like(values), points,
        weights=filters.reshape(-1, c_in, c_out), drift=offsets.astype(dtype),
        diffusion=np.zeros((rows * columns, 2, 2), dtype), signal_std=1.0, length_scale=0.1,
    )  # fmt: skip
    mean = mean.numpy().reshape(2, height, width, c_out)
    variance = variance.numpy().reshape(2, height, width, c_out)
    # f is exact to the floor on the variance, relative to its prior variance, and so is A f.
    floor = {"float32": 3e-5, "float64": 1e-12}[dtype]
    tolerance = 10 * floor + 100 * EPS[dtype]
    expected = keras.ops.conv(image, filters, padding="same" if same else "valid")
    inside = mean if same else mean[:, : height - rows + 1, : width - columns + 1]
    np.testing.assert_allclose(inside, expected, atol=tolerance * 10)
    loops = np.zeros_like(expected)
    for i in range(loops.shape[1]):
        for j in range(loops.shape[2]):
            for offset, matrix in zip(offsets, filters.reshape(-1, c_in, c_out), strict=True):
                row, column = i + offset[0], j + offset[1]
                if 0 <= row < height and 0 <= column < width:
                    loops[:, i, j] += image[:, row, column] @ matrix
    np.testing.assert_allclose(inside, loops, atol=tolerance * 10)
    # Away from the border everything is known; outside the image a variance of 1 a channel is left.
    if same:
        assert np.max(variance[:, 1:-1, 1:-1]) < 100 * tolerance
        unknown = np.sum(filters[0] ** 2, (0, 1))
        np.testing.assert_allclose(variance[:, 0, 1:-1], unknown + 0 * mean[:, 0, 1:-1], rtol=1e-3)


@pytest.mark.parametrize("noise", NOISE)
def test_modes_agree(noise):
    """Eager, traced with unknown axes, and compiled; results and gradients."""
    given = example(noise=noise)
    expected = gradients(given, noise)

    def function(noise, marginal_likelihood_trains, **arguments):
        return convolve(
            **arguments, noise=noise, marginal_likelihood_trains=marginal_likelihood_trains
        )

    def traced(**options):
        shapes = {
            key: [None, None, value.shape[-1]] if key in ARGUMENTS[:4] else value.shape
            for key, value in given.items()
        }
        signature = [tf.TensorSpec(shapes[key], tf.float64) for key in ARGUMENTS]

        @tf.function(input_signature=signature, autograph=False, **options)
        def inner(*arguments):
            return function(noise, "all", **dict(zip(ARGUMENTS, arguments, strict=True)))

        def call(noise, marginal_likelihood_trains, **arguments):
            return inner(*(arguments[key] for key in ARGUMENTS))

        return call

    for other in (traced(), traced(jit_compile=True)):
        found = gradients(given, noise, function=other)
        # Other orders of summation: rounding times the condition number.
        assert_all_close(found[0], expected[0], rtol=1e-11, atol=1e-13)
        for key in ARGUMENTS:
            assert_all_close([found[1][key]], [expected[1][key]], rtol=1e-10, atol=1e-12)


def test_gradients_inside_a_compiled_function():
    given = tensors(example(dtype="float32"))

    def step(given):
        with tf.GradientTape() as tape:
            tape.watch(given)
            results = convolve(**given, noise="channel")
            total = sum(tf.reduce_sum(tf.sin(result)) for result in results)
        return tape.gradient(total, given)

    expected = step(given)
    found = tf.function(step, jit_compile=True, autograph=False)(given)
    for key in ARGUMENTS:
        # Condition number 100 in float32.
        assert_all_close([found[key]], [expected[key]], rtol=1e-3, atol=1e-4)


def test_unknown_axes_are_left_unknown():
    given = example()

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, 2], tf.float64),
            tf.TensorSpec([None, None, 2], tf.float64),
            tf.TensorSpec([None, None, 2], tf.float64),
            tf.TensorSpec([None, None, 2], tf.float64),
        ]
    )
    def function(points, values, variance, query):
        rest = {key: given[key] for key in ARGUMENTS[4:]}
        results = convolve(points, values, variance, query, **rest, noise="channel")
        assert results[0].shape[-1] == results[1].shape[-1] == 3
        return results

    for batch, n, m in ((1, 3, 4), (2, 5, 1)):
        part = [given[k][:batch, :n] for k in ARGUMENTS[:3]] + [given["query"][:batch, :m]]
        results = function(*part)
        eager = convolve(*part, **{key: given[key] for key in ARGUMENTS[4:]}, noise="channel")
        assert_all_close(results, eager, rtol=1e-12, atol=1e-13)
