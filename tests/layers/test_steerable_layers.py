"""What is particular to layers on fields; what holds for all layers is in the layers' contract."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_harness import KEYS, assert_same, gradients, perturb

from equivariance import SO2
from tfpn import layers
from tfpn.math.steerable import count_channels, read_fields

FIELDS = {0: 3, 1: 2, 2: 1}
SCALARS = {0: 2}

# Class, arguments, the input's fields, the output's.
CASES = {
    "conv": (layers.SteerablePNConv, {"fields": FIELDS, "in_fields": FIELDS}, FIELDS, FIELDS),
    "conv_scalars_in": (layers.SteerablePNConv, {"fields": FIELDS}, SCALARS, FIELDS),
    "conv_scalars_out": (
        layers.SteerablePNConv, {"fields": SCALARS, "in_fields": FIELDS}, FIELDS, SCALARS
    ),
    "conv_channel": (
        layers.SteerablePNConv,
        {"fields": FIELDS, "in_fields": FIELDS, "noise": "channel", "observation_noise": 0.2},
        FIELDS,
        FIELDS,
    ),
    "conv_none": (
        layers.SteerablePNConv,
        {"fields": FIELDS, "in_fields": FIELDS, "uncertainty": "none", "num_basis": 1},
        FIELDS,
        FIELDS,
    ),
    "conv_free": (
        layers.SteerablePNConv,
        {"fields": FIELDS, "in_fields": FIELDS, "constraint": "free", "frequencies": (0, 1, 2, 3)},
        FIELDS,
        FIELDS,
    ),
    "relu": (layers.GatedReLU, {"fields": FIELDS}, FIELDS, FIELDS),
    "relu_own": (layers.GatedReLU, {"fields": {0: 4, 1: 2, 2: 1}, "gates": "own"},
                 {0: 4, 1: 2, 2: 1}, {0: 1, 1: 2, 2: 1}),
    "mix": (layers.SteerableMix, {"fields": {0: 2, 2: 3}, "in_fields": FIELDS}, FIELDS,
            {0: 2, 2: 3}),
    "norm": (layers.SteerableNormalization, {"fields": FIELDS}, FIELDS, FIELDS),
}  # fmt: skip
CONVOLUTIONS = [name for name in CASES if name.startswith("conv")]
every_case = pytest.mark.parametrize("name", CASES)


def make(name, dtype="float64", **changes):
    kind, arguments, *_ = CASES[name]
    if kind is layers.SteerablePNConv:
        arguments = {"spacing": 0.3, "seed": 3, **arguments}
    return kind(**{**arguments, **changes}, dtype=dtype)


def make_input(fields, dtype="float64", seed=0):
    """Three examples of six points: complete, with two padding points, without observation."""
    rng = np.random.default_rng(seed)
    channels = count_channels(read_fields(fields))
    points = rng.uniform(size=(3, 6, 2))
    values = rng.normal(size=(3, 6, channels))
    variance = np.repeat(rng.uniform(0.01, 0.1, size=(3, 6, 1)), channels, axis=-1)
    variance[1, 4:] = np.inf
    variance[2] = np.inf
    values[np.isinf(variance)] = 0.0
    return {k: v.astype(dtype) for k, v in zip(KEYS, (points, values, variance), strict=True)}


def built(name, dtype="float64", **changes):
    layer = make(name, dtype, **changes)
    layer(make_input(CASES[name][2], dtype))
    perturb(layer)
    return layer


def rho(fields, angle):
    fields = read_fields(fields)
    return sum(n * SO2.irrep(m) for m, n in fields).matrix(angle)


def rotated(x, fields, angle):
    return {
        "points": (x["points"] @ SO2.irrep(1).matrix(angle).T).astype(x["points"].dtype),
        "values": (np.asarray(x["values"]) @ rho(fields, angle).T).astype(x["values"].dtype),
        "variance": np.asarray(x["variance"]),
    }


def assert_rotates(layer, x, fields_in, fields_out, tolerance, **options):
    output = {key: np.asarray(value) for key, value in layer(x, **options).items()}
    for angle in (0.4, 1.9, -2.6):
        found = layer(rotated(x, fields_in, angle), **options)
        expected = rotated(output, fields_out, angle)
        for key in KEYS:
            a, b = np.asarray(found[key], np.float64), np.asarray(expected[key], np.float64)
            finite = np.isfinite(b)
            np.testing.assert_array_equal(np.isfinite(a), finite)
            if finite.any():
                largest = max(np.max(np.abs(b[finite])), 1e-30)
                assert np.max(np.abs(a[finite] - b[finite])) <= tolerance * largest, key


@every_case
@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-11), ("float32", 1e-5)])
def test_commutes_with_rotations(name, dtype, tolerance):
    _, _, fields_in, fields_out = CASES[name]
    layer = built(name, dtype)
    assert_rotates(layer, make_input(fields_in, dtype), fields_in, fields_out, tolerance)
    if name == "norm":
        options = {"training": True}
        layer = make(name, dtype)
        x = make_input(fields_in, dtype)
        assert_rotates(layer, x, fields_in, fields_out, tolerance, **options)


def test_exact_white_noise_in_float32_commutes_with_rotations():
    """The hardest signal: without double precision inside, the error is 6e-5."""
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    points, values = rng.uniform(-0.5, 0.5, size=(2, 75, 2)), rng.normal(size=(2, 75, 2))
    x = {"points": points, "values": values, "variance": np.zeros_like(values)}
    x = {key: value.astype("float32") for key, value in x.items()}
    layer, angles = make("conv_scalars_in", "float32", spacing=0.1), (0.0, 0.4, 1.9, -2.6)
    turned = [rotated(x, SCALARS, angle) for angle in angles]
    # All in one call: most of its time is Python's.
    found = layer({key: np.concatenate([part[key] for part in turned]) for key in KEYS})
    parts = {key: np.split(np.asarray(found[key], np.float64), len(angles)) for key in KEYS}
    first = {key: parts[key][0] for key in KEYS}
    for at, angle in enumerate(angles):
        expected = rotated(first, FIELDS, angle)
        for key in ("values", "variance"):
            error = np.max(np.abs(parts[key][at] - expected[key])) / np.max(np.abs(expected[key]))
            assert error < 1e-5, (key, angle)


@pytest.mark.parametrize("name", ["conv_channel", "relu_own"])
def test_eager_graph_and_xla_agree(name, dtype="float64", tolerance=1e-11):
    x = make_input(CASES[name][2], dtype)
    layer = built(name, dtype)
    eager = layer(x)
    signature = {key: tf.TensorSpec([None, None, v.shape[-1]], dtype) for key, v in x.items()}
    graph = tf.function(lambda x: layer(x), input_signature=[signature], autograph=False)
    compiled = tf.function(lambda x: layer(x), jit_compile=True, autograph=False)
    assert_same(graph(x), eager, rtol=tolerance, atol=tolerance)
    assert_same(compiled(x), eager, rtol=tolerance, atol=tolerance)


def test_far_flows_in_float32_equal_those_in_float64():
    fine, coarse = (make("conv", dtype) for dtype in ("float64", "float32"))
    x = make_input(FIELDS, "float32")
    for layer in (fine, coarse):
        layer(x)
        reach, limit = layer.flow_reach()
        assert reach < 18.0
    fine.generator_weights["symmetric"].assign(fine.generator_weights["symmetric"] * 16.0)
    for weight, source in zip(coarse.weights, fine.weights, strict=True):
        weight.assign(source)
    for layer in (fine, coarse):
        reach, limit = layer.flow_reach()
        assert 30.0 < reach < limit
    found, expected = coarse(x), fine(x)
    for key in KEYS:
        a, b = (np.asarray(output[key], float) for output in (found, expected))
        seen = np.isfinite(b)
        assert np.max(np.abs(a[seen] - b[seen])) < 1e-4 * np.max(np.abs(b[seen]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1e3, 1e9, 1e15])
@pytest.mark.parametrize("names", [("factors",), ("symmetric",), None])
def test_generators_of_any_size_neither_amplify_nor_fail(size, dtype, names):
    """Transport, diffusion or all of a generator enlarged, as by training at too high a rate."""
    layer, x = make("conv", dtype), make_input(FIELDS, dtype)
    before = {key: np.asarray(value) for key, value in layer(x).items()}
    for name, weight in layer.generator_weights.items():
        if names is None or name in names:
            weight.assign(weight * size)
    after = {key: np.asarray(value) for key, value in layer(x).items()}
    for key in ("values", "variance"):
        seen = np.isfinite(before[key])
        assert np.all(np.isfinite(after[key][seen]))
    # Posterior fields come to no more than some prior standard deviations of 1; W sums them up.
    bound = sum(float(np.sum(np.abs(weight))) for weight in layer.kernels.values())
    assert np.max(np.abs(after["values"])) < 3.0 * bound
    assert np.max(after["variance"][seen]) < bound**2
    slopes = gradients(layer, x)
    assert all(np.all(np.isfinite(slope)) for slope in slopes)


@every_case
@pytest.mark.parametrize("dtype", ["float64", "float32", "mixed_float16"])
def test_output_spec_tells_shapes_and_dtypes(name, dtype):
    x = make_input(CASES[name][2], "float64" if dtype == "float64" else "float32")
    layer = make(name, dtype)
    output = layer(x)
    spec = layer.compute_output_spec(
        {k: keras.KerasTensor((None, None, v.shape[-1]), dtype=v.dtype) for k, v in x.items()}
    )
    assert spec.keys() == output.keys()
    for key, tensor in output.items():
        assert spec[key].dtype == tensor.dtype.name
        assert tf.TensorShape(spec[key].shape).is_compatible_with(tensor.shape)
        assert spec[key].shape[-1] == tensor.shape[-1]


@every_case
def test_saving_keeps_the_outputs(name, tmp_path):
    x = make_input(CASES[name][2])
    inputs = {
        key: keras.Input((None, value.shape[-1]), name=key, dtype="float64")
        for key, value in x.items()
    }
    model = keras.Model(inputs, make(name)(inputs))
    perturb(model)
    expected = model(x)
    model.save(tmp_path / "model.keras")
    assert_same(keras.models.load_model(tmp_path / "model.keras")(x), expected, rtol=1e-13)


@every_case
def test_gradients_are_finite_and_reach_every_weight(name):
    x = make_input(CASES[name][2])
    x["points"][0, 1] = x["points"][0, 0]  # coincident
    x["variance"][0, 2] = 0.0
    layer = built(name)
    found = gradients(layer, x)
    assert all(np.all(np.isfinite(g)) for g in found)


@every_case
def test_what_is_unobserved_counts_for_nothing(name):
    x = make_input(CASES[name][2])
    layer = built(name)
    expected = layer(x)
    hidden = {key: value.copy() for key, value in x.items()}
    hidden["values"][np.isinf(x["variance"])] = np.nan
    assert_same(layer(hidden), expected, rtol=1e-12, atol=1e-13)
    for key in ("values", "variance"):
        padding = np.asarray(expected[key])[1, 4:]
        assert np.all(padding == (0.0 if key == "values" else np.inf))


@every_case
def test_permuting_points_permutes_the_output(name):
    x = make_input(CASES[name][2])
    layer = built(name)
    order = np.random.default_rng(5).permutation(6)
    expected = {key: np.asarray(value)[:, order] for key, value in layer(x).items()}
    found = layer({key: value[:, order] for key, value in x.items()})
    assert_same(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["conv", "conv_scalars_in", "conv_channel"])
def test_query_points(name):
    x = make_input(CASES[name][2])
    layer = built(name)
    here, there = layer(x), layer(x, x["points"][:, :2] + 0.1)
    assert there["values"].shape[:2] == (3, 2)
    assert np.all(np.isfinite(there["variance"]))
    same = layer(x, x["points"])
    np.testing.assert_allclose(same["values"][0], here["values"][0], rtol=1e-12, atol=1e-12)
    prior = np.asarray(there["variance"][2])  # an example without any observation
    np.testing.assert_allclose(prior[0], prior[1], rtol=1e-12)


def test_sporadic_scalars():
    x = make_input(SCALARS)
    x["variance"][0, 1, 0] = x["variance"][0, 2, 1] = np.inf
    layer = built("conv_scalars_in", noise="channel")
    output = layer(x)
    assert np.all(np.isfinite(output["variance"][0]))
    assert_rotates(layer, x, SCALARS, FIELDS, 1e-11)
    with pytest.raises(tf.errors.InvalidArgumentError, match="noise='channel'"):
        built("conv_scalars_in")(x)


def test_generators_that_do_not_couple_are_the_plain_convolution():
    """Two heat flows on scalars: PNConv without drift."""
    x = make_input(SCALARS)
    steerable = layers.SteerablePNConv(
        {0: 3}, constraint="free", frequencies=(0, 1), spacing=0.3, dtype="float64"
    )
    plain = layers.PNConv(3, num_basis=2, spacing=0.3, dtype="float64")
    steerable(x), plain(x)
    basis = steerable._family._bases["second_order"]  # S = sum of coefficients times these
    widths = np.array([0.1, 0.3])
    heat = 0.5 * np.einsum("k,ij,ab->kijab", widths**2, np.eye(2), np.eye(3))
    flat = basis.reshape(len(basis), -1).T
    coefficients = np.linalg.lstsq(flat, heat.reshape(2, -1).T, rcond=None)[0].T
    weights = steerable.generator_weights
    weights["second_order"].assign(coefficients)
    for name in ("zeroth_order", "first_order"):
        weights[name].assign(np.zeros(weights[name].shape))
    plain.drift.assign(np.zeros((2, 2)))
    plain.diffusion_factor.assign(widths[:, None, None] * np.eye(2))
    plain.kernel.assign(steerable.kernels[0])
    assert_same(steerable(x), plain(x), rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("size", [1.0, 1e2, 1e4])
def test_dissipative_generators_never_amplify(size):
    """The output's prior variance without mixing is at most the input's, whatever the weights."""
    layer = built("conv", num_basis=1)
    rng = np.random.default_rng(0)
    for weight in layer.generator_weights.values():
        weight.assign(size * rng.normal(size=weight.shape))
    for m, kernel in layer.kernels.items():
        one = np.zeros(kernel.shape)
        one[(0,) * (1 if m == 0 else 2) + (0, 0)] = 1.0
        kernel.assign(one)
    x = make_input(FIELDS)
    output = layer(x)
    prior = np.asarray(output["variance"])[2]
    variance = np.asarray(layer(x, x["points"])["variance"])[2]
    assert np.all(prior == np.inf)
    limit = np.exp(2.0 * float(layer.log_signal_std.numpy()))
    assert np.all(variance <= limit * (1 + 1e-9))


def test_adapt_measures_the_spacing():
    x = make_input(SCALARS)
    one, two = (make("conv_scalars_in") for _ in range(2))
    one.adapt(x)
    two.adapt({**x, "points": 10.0 * x["points"]})
    np.testing.assert_allclose(
        np.asarray(two.log_length_scale) - np.asarray(one.log_length_scale), np.log(10.0)
    )
    for key, power in (("values", 1.0), ("variance", 1.0)):
        for m, kernel in two.kernels.items():
            kernel.assign(one.kernels[m])
        a = np.asarray(one(x)[key])[0]
        b = np.asarray(two({**x, "points": 10.0 * x["points"]})[key])[0]
        np.testing.assert_allclose(a, b * power, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", [layers.SteerablePNConv, layers.PNConv])
def test_float32_takes_points_in_any_unit_that_it_can_square(kind):
    keras.utils.set_random_seed(0)
    x = make_input(SCALARS, "float32")
    plain, expected = kind(2, spacing=0.3, seed=3), {}
    plain.build({key: value.shape for key, value in x.items()})
    for unit in (1.0, 1e-14, 1e15):
        layer = kind(2, spacing=0.3 * unit, seed=3)
        scaled = {**x, "points": x["points"] * np.float32(unit)}
        layer.build({key: value.shape for key, value in x.items()})
        for weight, other in zip(layer.weights, plain.weights, strict=True):
            if "kernel" in weight.name:
                weight.assign(other)
        with tf.GradientTape() as tape:
            out = layer(scaled)
            finite = tf.math.is_finite(out["variance"])
            total = tf.reduce_sum(tf.square(out["values"]))
            total += tf.reduce_sum(tf.where(finite, out["variance"], 0.0))
        found = {
            "values": out["values"].numpy(),
            "variance": np.where(finite, out["variance"], 0.0),
            "by the length scale": tape.gradient(total, layer.log_length_scale.value).numpy(),
        }
        expected = expected or found
        for key, value in found.items():
            # Rounding of the scaled points, through conditioning. The derivative of a sum by the
            # logarithm of the length scale is of the sum's size, where its terms do not cancel.
            largest = max(np.max(np.abs(expected[key])), total if "length" in key else 0.0)
            np.testing.assert_allclose(value, expected[key], atol=1e-5 * largest, err_msg=key)
    for unit in (1e-19, 1e19):
        with pytest.raises(ValueError, match="length_scale must be from 1e-15 to 1e.15 in float32"):
            kind(2, spacing=unit)
        with pytest.raises(ValueError, match="spacing must be from .* found 1e.*dtype='float64'"):
            plain.set_spacing(unit)


def test_marginal_likelihood_is_added_and_shown():
    layer = make("conv", marginal_likelihood_weight=0.5)
    x = make_input(FIELDS)
    layer(x)
    shown = layer.nll_tracker.result()
    np.testing.assert_allclose(layer.losses[0], 0.5 * shown, rtol=1e-6)


@pytest.mark.parametrize(
    "make_layer, message",
    [
        (lambda: layers.SteerablePNConv({0: 1, 3: 1}, frequencies=(0, 1)), "frequencies"),
        (lambda: layers.SteerablePNConv(2, frequencies=5), r"such as \(0, 1, 2\), found 5"),
        (lambda: layers.SteerablePNConv(2, seed="x"), "seed must be a whole number .* found 'x'"),
        (lambda: layers.SteerablePNConv(2, seed=1.7), "seed must be a whole number .* found 1.7"),
        (lambda: layers.SteerablePNConv(2, use_bias="no"), "use_bias must be True .* found 'no'"),
        (lambda: layers.SteerableMix(2, use_bias="no"), "use_bias must be True .* found 'no'"),
        (lambda: layers.PNConv(2, use_bias="no"), "use_bias must be True .* found 'no'"),
        (lambda: layers.SteerablePNConv("x"), "fields"),
        (lambda: layers.SteerablePNConv(2, constraint="none"), "constraint"),
        (lambda: layers.SteerablePNConv(2, uncertainty="joint"), "uncertainty"),
        (lambda: layers.GatedReLU({0: 1, 1: 2}), "at least 2 scalars"),
        (lambda: layers.GatedReLU({0: 2, 1: 1, 2: 2}, gates="own"), "at least 3 scalars"),
        (lambda: layers.GatedReLU({0: 2}, gates="x"), "gates"),
        (lambda: layers.SteerableNormalization({0: 2}, momentum=2.0), "momentum"),
    ],
)
def test_bad_arguments(make_layer, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make_layer()


def test_bad_inputs():
    x = make_input(SCALARS)
    for layer in (make("conv"), make("relu"), make("mix"), make("norm")):
        with pytest.raises(ValueError, match="channels"):
            layer(x)
    with pytest.raises(ValueError, match="frequency 1"):
        layers.SteerableMix({0: 1, 1: 1}, dtype="float64")(x)
    with pytest.raises(ValueError, match="leads from"):
        layers.SteerablePNConv({3: 1}, frequencies=(0, 3), dtype="float64")(x)
    line = {**x, "points": x["points"][..., :1]}
    with pytest.raises(ValueError, match="plane"):
        make("conv_scalars_in")(line)
    with pytest.raises(ValueError, match="factors"):
        make("conv_scalars_in")({**x, "factors": np.zeros((3, 6, 2, 1))})
    bad = {**x, "variance": -np.ones_like(x["variance"])}
    with pytest.raises(tf.errors.InvalidArgumentError, match="negative"):
        make("conv_scalars_in")(bad)
    x = make_input(FIELDS, "float32")
    x["variance"][0, 0] = np.finfo("float32").max
    layer = make("conv", "float32", double_precision=False)
    with pytest.raises(tf.errors.InvalidArgumentError, match="above 1e37 .* give them as inf"):
        layer(x)
    layer = make("conv", "float32")  # which float64 can hold
    found = layer(x)["values"]
    x["variance"][0, 0] = np.inf
    expected = layer(x)["values"]  # 0 where nothing is observed
    np.testing.assert_allclose(found[0, 1:], expected[0, 1:], atol=1e-6)
