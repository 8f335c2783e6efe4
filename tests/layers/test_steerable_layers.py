"""What is particular to layers on fields; what holds for all layers is in the layers' contract."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from field_layers import (
    CASES,
    FIELDS,
    SCALARS,
    assert_rotates,
    every_case,
    make,
    make_input,
    shared,
    turning_case,
)
from layer_harness import assert_same, gradients, perturb, points_axis

from tfpn import layers
from tfpn.math.steerable import read_fields
from tfpn.math.steerable.fields import field_moments


@turning_case
def test_commutes_with_rotations(name, dtype="float64", tolerance=1e-11):
    _, _, fields_in, fields_out = CASES[name]
    layer = shared(name, dtype)
    assert_rotates(layer, make_input(fields_in, dtype), fields_in, fields_out, tolerance)
    if name == "norm":
        options = {"training": True}
        layer = make(name, dtype)
        x = make_input(fields_in, dtype)
        assert_rotates(layer, x, fields_in, fields_out, tolerance, **options)


@pytest.mark.parametrize("name", ["conv", "conv_channel", "norm"])
def test_commutes_with_rotations_in_float32(name):
    test_commutes_with_rotations(name, "float32", 1e-5)


def test_eager_graph_and_xla_agree(name="relu_own", dtype="float64", tolerance=1e-11):
    """The others are among the cases of the layers' contract."""
    x = make_input(CASES[name][2], dtype)
    layer = shared(name, dtype)
    eager = layer(x)
    signature = {key: tf.TensorSpec([None, None, v.shape[-1]], dtype) for key, v in x.items()}
    graph = tf.function(lambda x: layer(x), input_signature=[signature], autograph=False)
    compiled = tf.function(lambda x: layer(x), jit_compile=True, autograph=False)
    assert_same(graph(x), eager, rtol=tolerance, atol=tolerance)
    assert_same(compiled(x), eager, rtol=tolerance, atol=tolerance)


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
    layer = shared(name, "float64")
    found = gradients(layer, x)
    assert all(np.all(np.isfinite(g)) for g in found)


@every_case
def test_what_is_unobserved_counts_for_nothing(name):
    x = make_input(CASES[name][2])
    layer = shared(name, "float64")
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
    layer = shared(name, "float64")
    order = np.random.default_rng(5).permutation(6)
    expected = {
        key: np.take(value, order, axis=points_axis(key)) for key, value in layer(x).items()
    }
    found = layer({key: value[:, order] for key, value in x.items()})
    assert_same(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["relu", "relu_own", "mix", "norm"])
def test_each_draw_becomes_what_exact_values_do(eagerly, name):
    """And mean and block variance are those of the draws, of one draw and of several."""
    _, _, fields_in, fields_out = CASES[name]
    x = make_input(fields_in)
    layer = shared(name, "float64")
    fields_out = read_fields(fields_out)
    for samples in (1, 3):
        given = [make_input(fields_in, seed=seed)["values"] for seed in range(samples)]
        draws = np.stack(given, axis=1)
        mean, variance = field_moments(tf.constant(draws), read_fields(fields_in))
        spread = np.where(np.isinf(x["variance"]), np.inf, variance)
        output = layer({**x, "values": mean, "variance": spread, "draws": draws})
        exact = np.where(np.isinf(x["variance"]), np.inf, 0.0)
        for number, values in enumerate(given):
            alone = layer({**x, "values": values, "variance": exact})["values"]
            np.testing.assert_allclose(output["draws"][:, number], alone, rtol=1e-12, atol=1e-12)
        mean, variance = field_moments(output["draws"], fields_out)
        np.testing.assert_allclose(output["values"], mean, rtol=1e-12, atol=1e-12)
        known = np.isfinite(output["variance"])
        np.testing.assert_array_equal(known, np.isfinite(layer(x)["variance"]))
        np.testing.assert_allclose(
            output["variance"][known], variance[known], rtol=1e-12, atol=1e-12
        )


@pytest.mark.parametrize("case, samples", [("together", 2), ("nothing", 1), ("one", 1)])
def test_gradients_of_draws_are_finite(eagerly, case, samples):
    x = make_input(FIELDS)
    if case == "together":
        x["points"][:] = x["points"][:, :1]
        x["variance"][np.isfinite(x["variance"])] = 0.0
    else:
        x["variance"][:, 0 if case == "nothing" else 1 :] = np.inf
    first = make("conv_sampled", noise="channel", num_training_samples=samples)
    chain = [first, make("relu"), make("norm"), make("conv_sampled", stream=2)]
    x = {key: tf.constant(value) for key, value in x.items()}
    watched = list(x.values())
    with tf.GradientTape() as tape:
        tape.watch(watched)
        output = x
        for layer in chain:
            output = layer(output, training=True)
        total = tf.reduce_sum(tf.sin(output["draws"]))
        total += tf.reduce_sum(
            tf.where(tf.math.is_finite(output["variance"]), output["variance"], 0.0)
        )
    assert output["draws"].shape == (3, samples, 6, 9)
    weights = [weight for layer in chain for weight in layer.trainable_weights]
    for found in tape.gradient(total, [*watched, *weights]):
        assert found is None or np.all(np.isfinite(found))


def test_draws_need_the_same_uncertainty_everywhere():
    x = make_input(FIELDS)
    sampled = make("conv_sampled")(x)
    with pytest.raises(ValueError, match="same uncertainty"):
        make("conv")(sampled)
    with pytest.raises(ValueError, match="draws has shape"):
        make("relu")({**sampled, "draws": sampled["draws"][..., :2]})


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
