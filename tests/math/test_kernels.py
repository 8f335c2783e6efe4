import numpy as np
import oracle
import pytest
import slow_gp
import tensorflow as tf

from tfpn.math import diffused_kernel, rbf_kernel
from tfpn.math.kernels import Kernel
from tfpn.math.kernels.gaussian import gaussian_whitener


def operator_kernels(query, points, *, signal_std, length_scale, drift, diffusion):
    return Kernel(signal_std, length_scale).flowed(drift, diffusion)(query, points)


def operator_prior_covariance(*, signal_std, length_scale, drift, diffusion):
    return Kernel(signal_std, length_scale).flowed_variance(drift, diffusion)


EPS = {"float32": np.finfo(np.float32).eps, "float64": np.finfo(np.float64).eps}


def green(case, dtype):
    """Points, hyperparameters and the two operators at time t of one case."""
    given = case["inputs"]
    length, t, d = given["lengthscale"], given["t"], given["d"]
    x, xp = (np.array(given[name], dtype) for name in ("x", "xp"))
    drift = np.array([given["beta1"], given["beta2"]], dtype) * t
    diffusion = np.array([given["Sigma1"], given["Sigma2"]], dtype) * t
    signal = np.sqrt(given["a"] * (2 * np.pi * length**2) ** (-d / 2))
    return x, xp, {"signal_std": signal, "length_scale": length}, drift, diffusion


# Rounding of the inputs alone is some eps times the exponent's gradient, |x - x' + beta| / width.
TOLERANCES = [
    pytest.param("float64", {}, id="float64"),
    pytest.param("float32", {"rtol": 1e-5, "atol": 1e-7}, id="float32"),
]


@pytest.mark.parametrize("dtype, tolerance", TOLERANCES)
@pytest.mark.parametrize("case", oracle.cases("green"))
def test_green(case, dtype, tolerance):
    x, xp, prior, (b1, b2), (s1, s2) = green(case, dtype)
    none = np.zeros_like(b1), np.zeros_like(s1)
    for output, x1, x2, drift, diffusion in (
        ("k", x, xp, *none),
        ("left", x, xp, b1, s1),
        ("right", xp, x, b2, s2),
        ("right", x, xp, -b2, s2),
        ("both", x, xp, b1 - b2, s1 + s2),
    ):
        found = diffused_kernel(x1, x2, drift=drift, diffusion=diffusion, **prior)
        assert found.dtype == dtype
        oracle.assert_agrees(case, output, found, **tolerance)
    prior = {name: tf.constant(value, dtype) for name, value in prior.items()}
    rbf = rbf_kernel(tf.constant(x[None, None]), tf.constant(xp[None, None]), **prior)
    oracle.assert_agrees(case, "k", rbf[0, 0, 0], **tolerance)


@pytest.mark.parametrize("dtype, tolerance", TOLERANCES)
@pytest.mark.parametrize("case", oracle.cases("green"))
def test_green_by_all_operators_at_once(case, dtype, tolerance):
    x, xp, prior, drift, diffusion = green(case, dtype)
    prior = {name: tf.constant(value, dtype) for name, value in prior.items()}
    one, other = tf.constant(x[None, None]), tf.constant(xp[None, None])
    left = operator_kernels(one, other, drift=drift, diffusion=diffusion, **prior)
    right = operator_kernels(other, one, drift=drift, diffusion=diffusion, **prior)
    assert left.shape == (1, 1, 2, 1) and left.dtype == dtype
    oracle.assert_agrees(case, "left", left[0, 0, 0, 0], **tolerance)
    oracle.assert_agrees(case, "right", right[0, 0, 1, 0], **tolerance)
    # Only the difference x - x' and the drifts matter: drift x - x' + beta_1 against beta_2.
    moved = drift + np.stack([x - xp, np.zeros_like(x)])
    both = operator_prior_covariance(drift=moved, diffusion=diffusion, **prior)
    oracle.assert_agrees(case, "both", both[0, 1], **tolerance)
    np.testing.assert_allclose(both, tf.transpose(both), rtol=8 * EPS[dtype])


@pytest.mark.parametrize("case", oracle.cases("stochastic"))
def test_operator_is_the_expectation_over_the_process(case):
    given = case["inputs"]
    t, x0, beta = given["t"], np.array(given["x0"]), np.array(given["beta"])
    sigma = np.array(given["Sigma"])
    mean = 0.0
    for bump in given["bumps"]:
        # A bump is an RBF kernel at its centre, of height 1.
        mean += bump["weight"] * diffused_kernel(
            x0, np.array(bump["center"]), signal_std=1.0, length_scale=bump["width"],
            drift=t * beta, diffusion=t * sigma,
        )  # fmt: skip
    oracle.assert_agrees(case, "mean", mean)

    # dX = beta dt + Sigma^(1/2) dB by Euler-Maruyama, which is exact in law for any step here.
    rng = np.random.default_rng(7)
    samples, steps = 100_000, 25
    root = np.linalg.cholesky(sigma)
    x = np.tile(x0, (samples, 1))
    for _ in range(steps):
        x += beta * t / steps
        x += np.sqrt(t / steps) * rng.standard_normal((samples, given["d"])) @ root.T
    f = np.zeros(samples)
    for bump in given["bumps"]:
        distance = np.sum((x - bump["center"]) ** 2, axis=-1)
        f += bump["weight"] * np.exp(-0.5 * distance / bump["width"] ** 2)
    error = case["outputs"]["standard_error_per_sqrt_sample"] / np.sqrt(samples)
    allowed = case["tolerance"]["monte_carlo"]["standard_errors"] * error
    assert abs(f.mean() - float(mean)) < allowed
    # The sign of the drift is seen: the reversed process is far outside.
    reverse = f.mean() - float(
        sum(
            bump["weight"]
            * diffused_kernel(
                x0, np.array(bump["center"]), signal_std=1.0, length_scale=bump["width"],
                drift=-t * beta, diffusion=t * sigma,
            )
            for bump in given["bumps"]
        )
    )  # fmt: skip
    assert abs(reverse) > 10 * allowed


def example(d, seed=0, operators=3, dtype=np.float64):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(operators, d, d)) * 0.3
    arguments = {
        "x1": rng.normal(size=(2, 3, d)),
        "x2": rng.normal(size=(2, 4, d)),
        "drift": rng.normal(size=(operators, d)) * 0.5,
        "diffusion": root @ root.transpose(0, 2, 1),
        "signal_std": np.array(1.3),
        "length_scale": np.array(0.8),
    }
    return {name: value.astype(dtype) for name, value in arguments.items()}


@pytest.mark.parametrize("d", [1, 2, 3])
def test_against_loops(d):
    given = example(d)
    x1, x2, prior = given["x1"], given["x2"], (given["signal_std"], given["length_scale"])
    expected = np.array(
        [
            [
                [
                    [slow_gp.kernel(p, q, *prior, drift, diffusion) for q in x2[b]]
                    for drift, diffusion in zip(given["drift"], given["diffusion"], strict=True)
                ]
                for p in x1[b]
            ]
            for b in range(2)
        ]
    )
    options = {name: tf.constant(given[name]) for name in given if name not in ("x1", "x2")}
    found = operator_kernels(tf.constant(x1), tf.constant(x2), **options)
    # Some tens of roundings, with exponents of some tens.
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    broadcast = diffused_kernel(
        x1[:, :, None, None], x2[:, None, None], **prior_of(given),
        drift=given["drift"][:, None], diffusion=given["diffusion"][:, None],
    )  # fmt: skip
    np.testing.assert_allclose(broadcast, expected, rtol=1e-13)
    low = example(d, dtype=np.float32)
    options = {name: tf.constant(low[name]) for name in low if name not in ("x1", "x2")}
    found = operator_kernels(tf.constant(low["x1"]), tf.constant(low["x2"]), **options)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-6)


def prior_of(given):
    return {name: given[name] for name in ("signal_std", "length_scale")}


FUNCTIONS = {
    "operators": lambda x1, x2, **rest: operator_kernels(x1, x2, **rest),
    "prior": lambda x1, x2, **rest: operator_prior_covariance(**rest),
    "rbf": lambda x1, x2, drift, diffusion, **rest: rbf_kernel(x1, x2, **rest),
}


@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name, d, far):
    given = example(d)
    if far:  # beyond 16 widths: the other branch of the exponent
        given["drift"] = given["drift"] + 40.0
        given["x2"] = given["x2"] + 40.0
    rng = np.random.default_rng(3)
    constants = {key: tf.constant(value) for key, value in given.items()}
    shape = FUNCTIONS[name](**constants).shape
    projection = tf.constant(rng.normal(size=shape))

    @tf.function
    def scalar(**arguments):
        return tf.reduce_sum(projection * FUNCTIONS[name](**arguments))

    with tf.GradientTape() as tape:
        tape.watch(constants)
        result = scalar(**constants)
    gradients = tape.gradient(result, constants, unconnected_gradients="zero")
    for key, value in given.items():

        def moved(array, key=key):
            return scalar(**{**constants, key: tf.constant(array)})

        symmetric = key == "diffusion"
        expected = slow_gp.differences(moved, value, symmetric=symmetric)
        found = gradients[key].numpy()
        if symmetric:
            found = 0.5 * (found + found.transpose(0, 2, 1))
        # Differences of fourth order with step 1e-3: rounding eps / step and step^4.
        scale = max(1.0, np.max(np.abs(expected)))
        np.testing.assert_allclose(found, expected, atol=1e-9 * scale, rtol=1e-8, err_msg=key)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("widths", [10, 15.9, 16.1, 100, 10_000])
def test_long_drifts_in_float32(widths, d):
    rng = np.random.default_rng(5)
    length = 0.25
    width = length * np.sqrt(2.0)  # of every axis, the diffusion being length^2 I
    direction = np.ones(d) / np.sqrt(d)
    # Multiples of 2^-10 below 2^12, exact in float32: so that the sum x - x' + beta is exact too,
    # and the error is that of the evaluation.
    drift = np.round((widths * width * direction + rng.normal(size=(3, d)) * 0.2) * 1024) / 1024
    points = np.round(rng.normal(size=(1, 6, d)) * 0.3 * 1024) / 1024
    query = np.round((points - widths * width * direction) * 1024) / 1024
    results = []
    for dtype in (tf.float32, tf.float64):
        arguments = tf.constant(query, dtype), tf.constant(points, dtype)
        found = operator_kernels(
            *arguments,
            signal_std=tf.constant(1.5, dtype),
            length_scale=tf.constant(length, dtype),
            drift=tf.constant(drift, dtype),
            diffusion=tf.constant(np.tile(length**2 * np.eye(d), (3, 1, 1)), dtype),
        )
        results.append(found.numpy())
    low, high = results
    assert np.max(high) > 0.5  # the kernels are seen, not their tails
    # The quadratic form, up to 16 widths, loses widths^2 / 2 units of rounding, some times over.
    # The sum of squares loses eps * widths in the whitened coordinate w, and exp(-w^2/2) moves by
    # at most 0.61 times that.
    longest = np.max(np.sum(np.square(drift / width), axis=-1))  # the largest decides
    units = 4 * longest if longest <= 256 else 4 * widths
    np.testing.assert_allclose(low, high, atol=1.5**2 * units * EPS["float32"], rtol=0)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_units_do_not_matter(unit):
    given = example(2, dtype=np.float32)
    powers = {"x1": 1, "x2": 1, "drift": 1, "length_scale": 1, "diffusion": 2, "signal_std": 0}
    results = []
    for scale in (1.0, unit):
        arguments = {
            key: tf.constant(value * np.float32(scale) ** powers[key])
            for key, value in given.items()
        }
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            kernel = FUNCTIONS["operators"](**arguments)
            prior = FUNCTIONS["prior"](**arguments)
            rbf = FUNCTIONS["rbf"](**arguments)
            total = tf.reduce_sum(kernel) + tf.reduce_sum(prior) + tf.reduce_sum(rbf)
        gradients = tape.gradient(total, arguments)
        natural = [gradients[key] * np.float32(scale) ** powers[key] for key in sorted(arguments)]
        results.append([kernel, prior, rbf, *natural])
    # Scaling rounds every input: eps times the exponent's derivatives, some tens at most.
    for one, other in zip(*results, strict=True):
        scale = np.max(np.abs(one))
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-6 * scale)


def test_diffusion_far_larger_than_the_length_scale():
    # In float32 l^2 I + Sigma would lose l entirely along the axis that Sigma leaves alone.
    direction = np.array([0.6, 0.8])
    diffusion = 1e8 * np.outer(direction, direction)
    found = diffused_kernel(
        np.zeros(2, np.float32), np.zeros(2, np.float32), signal_std=1.0, length_scale=1.0,
        drift=np.zeros(2, np.float32), diffusion=diffusion.astype(np.float32),
    )  # fmt: skip
    expected = slow_gp.kernel(
        np.zeros(2), np.zeros(2), 1.0, 1.0, np.zeros(2),
        diffusion.astype(np.float32).astype(np.float64),
    )  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_whitener():
    given = example(3)
    whitener, log_peak = gaussian_whitener(
        tf.constant(given["length_scale"]), tf.constant(given["diffusion"])
    )
    covariance = given["length_scale"] ** 2 * np.eye(3) + given["diffusion"]
    precision = tf.matmul(whitener, whitener, transpose_a=True)
    np.testing.assert_allclose(precision @ covariance, np.tile(np.eye(3), (3, 1, 1)), atol=1e-13)
    expected = 3 * np.log(given["length_scale"]) - 0.5 * np.linalg.slogdet(covariance)[1]
    np.testing.assert_allclose(log_peak, expected, rtol=1e-13)


@pytest.mark.parametrize("name", ["x2", "drift", "diffusion"])
def test_dimensions_that_do_not_agree(name):
    arguments = {
        "x1": np.zeros(2), "x2": np.zeros(2), "drift": np.zeros(2), "diffusion": np.zeros((2, 2)),
    }  # fmt: skip
    arguments[name] = np.zeros((3,) * arguments[name].ndim)
    with pytest.raises(ValueError, match=rf"^{name} has shape .*x1 has 2 spatial"):
        diffused_kernel(**arguments, signal_std=1.0, length_scale=1.0)


def test_half_precision_is_refused():
    zeros = np.zeros(1, np.float16)
    with pytest.raises(TypeError, match="x1 has dtype float16"):
        diffused_kernel(
            zeros, zeros, signal_std=1.0, length_scale=1.0, drift=zeros, diffusion=zeros[None]
        )


def test_integers_become_float32():
    kernel = diffused_kernel(
        np.array([1]), np.array([2.0]), signal_std=1, length_scale=1, drift=[0.0], diffusion=[[0.0]]
    )
    assert kernel.dtype == tf.float32
    np.testing.assert_allclose(kernel, np.exp(-0.5), rtol=1e-6)


@pytest.mark.parametrize(
    "shape1, shape2, message",
    [
        ((1, 3, 2), (1, 4, 1), r"x2 has shape \(1, 4, 1\), but x1 has 2 .* must be 2"),
        ((1, 3, 1), (1, 4, 2), r"x2 has shape \(1, 4, 2\), but x1 has 1 .* must be 1"),
        ((2, 3, 1), (3, 4, 1), r"x2 has shape \(3, 4, 1\), x1 \(2, 3, 1\): their leading axes"),
        ((3,), (3, 1), r"x1 has shape \(3,\), expected .* x1\[:, None\]"),
        ((3, 1), (), r"x2 has shape \(\), expected"),
    ],
)
def test_rbf_kernel_of_points_that_do_not_fit(shape1, shape2, message):
    x1, x2 = np.zeros(shape1), np.zeros(shape2)
    with pytest.raises(ValueError, match=message):
        rbf_kernel(x1, x2, signal_std=1.0, length_scale=1.0)


@pytest.mark.parametrize("leading1, leading2", [((), ()), ((2,), (1,)), ((), (2, 3))])
def test_rbf_kernel_broadcasts_leading_axes(leading1, leading2):
    x1, x2 = np.zeros((*leading1, 4, 2)), np.ones((*leading2, 5, 2))
    found = rbf_kernel(x1, x2, signal_std=2.0, length_scale=1.0)
    expected = (*np.broadcast_shapes(leading1, leading2), 4, 5)
    np.testing.assert_allclose(found, np.full(expected, 4 * np.exp(-1)), rtol=1e-14)
