"""What holds for every layer, whatever it computes."""

import inspect
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_harness import (
    CASES,
    KEYS,
    OTHER_ARGUMENTS,
    assert_same,
    every_case,
    every_compiled_case,
    every_layer,
    gradients,
    make_input,
    points_axis,
    where_dtypes_differ,
)

pytestmark = pytest.mark.usefixtures("always_cut")

# Float64, condition numbers below 1e4: rounding stays below 1e-11.
EXACT = {"rtol": 1e-11, "atol": 1e-11}
SINGLE = {"rtol": 1e-4, "atol": 1e-4}  # the same in float32: 1e4 times 6e-8, rarely reached


def symbolic(x, batch=None, points=None):
    return {
        key: keras.KerasTensor((batch, points, value.shape[-1]), dtype=value.dtype)
        for key, value in x.items()
    }


@every_case
def test_equals_the_slow_version_in_float64(case):
    x = make_input(case.sporadic)
    layer = case.shared("float64")
    output = layer(x)
    # 1e-12 of the largest entry: two different algorithms, condition numbers below 1e3.
    assert_same(output, case.reference(layer, x), rtol=1e-12, atol=3e-12)


@every_case
def test_builds_lazily(case):
    x = make_input(case.sporadic)
    layer = case.make()
    assert not layer.built and not layer.weights
    layer(x)
    other = case.make()
    other.build({key: (None, None, value.shape[-1]) for key, value in x.items()})
    assert [w.name for w in layer.weights] == [w.name for w in other.weights]
    assert [w.shape for w in layer.weights] == [w.shape for w in other.weights]
    assert sorted(w.name for w in layer.weights) == sorted(case.weights)


@where_dtypes_differ
def test_eager_and_graph_agree(case, dtype):
    x = make_input(case.sporadic, dtype)
    tolerance = EXACT if dtype == "float64" else SINGLE
    assert_same(case.graph(dtype)(x), case.shared(dtype)(x), **tolerance)


@every_compiled_case
def test_eager_and_xla_agree(case):
    """In float64: the graph is the same, and float32 would not tell more."""
    x, layer = make_input(case.sporadic), case.shared("float64")
    assert_same(tf.function(layer, jit_compile=True, autograph=False)(x), layer(x), **EXACT)


@every_case
@pytest.mark.parametrize("dtype", ["float64", "float32", "mixed_float16", "mixed_bfloat16"])
def test_output_spec_tells_shapes_and_dtypes(case, dtype):
    x = make_input(case.sporadic, "float64" if dtype == "float64" else "float32")
    layer = case.make(dtype)
    output = layer(x)
    for batch, points in ((None, None), (3, 6)):
        spec = layer.compute_output_spec(symbolic(x, batch, points))
        assert spec.keys() == output.keys()
        for key, tensor in output.items():
            assert spec[key].dtype == tensor.dtype.name, key
            assert tf.TensorShape(spec[key].shape).is_compatible_with(tensor.shape), key
            known = [axis is not None for axis in spec[key].shape]
            free = [batch is not None] + ([] if case.pools else [points is not None])
            if key == "draws":  # of which training and inference have other numbers
                free.insert(1, False)
            assert known == [*free, True], key


@every_layer
@pytest.mark.parametrize("changed", [False, True], ids=["default", "changed"])
def test_configuration_holds_every_argument(case, changed):
    parameters = inspect.signature(case.layer.__init__).parameters
    names = {n for n, p in parameters.items() if p.kind is not p.VAR_KEYWORD} - {"self"}
    other = OTHER_ARGUMENTS[case.layer]
    assert other.keys() == names
    x = make_input()
    if changed and "spatial_dim" in other:
        x["points"] = np.concatenate([x["points"], x["points"][..., ::-1]], axis=-1)[..., :3]
    keras.utils.set_random_seed(0)  # also the seeds that unseeded initializers draw
    allowed = {name: value for name, value in other.items() if value is not None}
    arguments = allowed if changed else case.arguments
    layer = case.layer(**arguments, name="given", dtype="float64")
    config = layer.get_config()
    assert names <= config.keys()
    if changed:
        for name in names:
            default = parameters[name].default
            if other[name] is None:
                continue
            assert config[name] != default, f"{name} was not changed"
            if "initializer" not in name:
                assert np.all(np.asarray(config[name], object) == np.asarray(other[name], object))
    keras.utils.set_random_seed(0)
    rebuilt = case.layer.from_config(json.loads(json.dumps(config)))
    assert rebuilt.name == "given" and rebuilt.dtype_policy == layer.dtype_policy
    assert json.dumps(rebuilt.get_config()) == json.dumps(config)
    for instance in (layer, rebuilt):
        keras.utils.set_random_seed(0)
        instance.build({key: value.shape for key, value in x.items()})
    for mine, other_weight in zip(layer.weights, rebuilt.weights, strict=True):
        np.testing.assert_array_equal(mine, other_weight)
    assert_same(rebuilt(x), layer(x), rtol=0)


@every_case
@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
def test_other_policies_compute_in_float32(case, dtype):
    exact = make_input(case.sporadic)
    reference = case.shared("float64")
    x = {key: value.astype("float32") for key, value in exact.items()}
    layer = case.make(dtype)
    layer(x)
    layer.set_weights(reference.get_weights())
    output = layer(x)
    assert {tensor.dtype for tensor in output.values()} == {tf.float32}
    assert {str(weight.dtype) for weight in layer.weights} <= {"float32"}
    assert_same(output, reference(exact), **SINGLE)
    if dtype != "float32":
        plain = case.make("float32")
        plain(x)
        plain.set_weights(reference.get_weights())
        assert_same(output, plain(x), rtol=0)  # the same operations


@every_case
def test_padding_stays_unobserved(case):
    if case.pools:
        return _check_pooled_example_without_observation(case)
    x = make_input(case.sporadic)
    output = case.shared("float64")(x)
    padding = np.isinf(x["variance"]).all(-1)
    assert padding.sum() == 8
    assert (np.asarray(output["values"])[padding] == 0).all()
    assert np.isposinf(np.asarray(output["variance"])[padding]).all()
    known = ~np.isinf(x["variance"]).any(-1)
    assert np.isfinite(np.asarray(output["variance"])[known]).all()
    np.testing.assert_array_equal(output["points"], x["points"])


def _check_pooled_example_without_observation(case):
    x = make_input(case.sporadic)
    output = case.shared("float64")(x)
    assert (np.asarray(output["values"])[2] == 0).all()
    assert (np.asarray(output["variance"])[2] >= np.asarray(output["variance"]).max(0)).all()


@every_case
def test_what_is_stored_where_unobserved_has_no_influence(case):
    x = make_input(case.sporadic)
    layer = case.shared("float64")
    expected, expected_gradients = layer(x), gradients(layer, x)
    hidden = {key: value.copy() for key, value in x.items()}
    hidden["values"][np.isinf(x["variance"])] = np.nan
    padding = np.isinf(x["variance"]).all(-1)
    assert np.isnan(hidden["values"]).any()
    for coordinate in (0.0, np.nan):
        hidden["points"][padding] += coordinate
        output = layer(hidden)
        for key in ("values", "variance"):
            np.testing.assert_array_equal(output[key], expected[key], key)
        for found, wanted in zip(gradients(layer, hidden), expected_gradients, strict=True):
            assert np.isfinite(found).all()
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
    by_values, by_variance, *_ = expected_gradients
    assert (by_values[np.isinf(x["variance"])] == 0).all()
    assert (by_variance[np.isinf(x["variance"])] == 0).all()
    assert (by_values[:2][np.isfinite(x["variance"][:2])] != 0).any()


@every_case
def test_permuted_points_permute_the_output(case):
    x = make_input(case.sporadic)
    layer = case.shared("float64")
    order = np.array([3, 0, 5, 1, 4, 2])
    found = layer({key: value[:, order] for key, value in x.items()})
    expected = layer(x)
    if not case.pools:
        expected = {k: np.take(v, order, points_axis(k)) for k, v in expected.items()}
    assert_same(found, expected, **EXACT)


@every_case
def test_permuted_examples_permute_the_output(case):
    x = make_input(case.sporadic)
    layer = case.shared("float64")
    found = layer({key: value[::-1] for key, value in x.items()})
    assert_same(found, {k: np.asarray(v)[::-1] for k, v in layer(x).items()}, **EXACT)


@every_case
def test_more_unobserved_points_change_nothing(case):
    x = make_input(case.sporadic)
    layer = case.shared("float64")
    fills = {"points": 0.4, "values": 7.0, "variance": np.inf}
    longer = {
        key: np.concatenate([value[:, :2], np.full_like(value[:, :3], fills[key]), value[:, 2:]], 1)
        for key, value in x.items()
    }
    found = layer(longer)
    if not case.pools:
        found = {k: np.delete(np.asarray(v), [2, 3, 4], points_axis(k)) for k, v in found.items()}
    assert_same(found, layer(x), **EXACT)


@every_case
def test_shifted_points_shift_the_output(case):
    x = make_input(case.sporadic)
    layer, shift = case.shared("float64"), np.array([3.7, -2.2])
    moved = {**x, "points": x["points"] + shift}
    other = layer
    if case.arguments.get("box"):
        low, high = (np.broadcast_to(side, [2]) + shift for side in case.arguments["box"])
        other = case.built(x, box=(low, high))
    if case.arguments.get("disc"):
        centre, radius = case.arguments["disc"]
        other = case.built(x, disc=(centre + shift, radius))
    found, expected = other(moved), dict(layer(x))
    if not case.pools:
        expected["points"] = moved["points"]
    # Coordinates near 4 are rounded by 4e-16, a few 1e-15 length scales.
    assert_same(found, expected, rtol=1e-10, atol=1e-10)


@every_case
def test_single_points_and_duplicates_without_noise(case):
    """In float32 where a prior is conditioned, which is harder, else in float64."""
    dtype = "float32" if "log_signal_std" in case.weights else "float64"
    x = make_input(dtype=dtype)
    layer = case.shared(dtype)
    single = {key: value[:1, :1] for key, value in x.items()}
    single["variance"] = np.zeros_like(single["variance"])
    doubled = {key: np.repeat(value, 2, axis=1) for key, value in single.items()}
    for inputs in (single, doubled):
        output = layer(inputs)
        assert np.isfinite(np.asarray(output["values"])).all()
        assert (np.asarray(output["variance"]) >= 0).all()
        assert all(np.isfinite(gradient).all() for gradient in gradients(layer, inputs))
    found = layer(doubled)
    if not case.pools:
        found = {key: np.take(value, [0], points_axis(key)) for key, value in found.items()}
    # Exact values get a least variance of 1e-12 of the signal's, which two copies halve; with a
    # learnable noise s_n^2 = 0.05 the difference is that noise's.
    if "log_observation_noise" not in case.weights:
        tolerance = 1e-5 if dtype == "float32" else 1e-11
        assert_same(found, layer(single), rtol=tolerance, atol=tolerance)


@every_case
def test_empty_batch_gives_an_empty_result(case):
    x = make_input(case.sporadic, "float32")
    layer = case.shared("float32")
    output = layer({key: value[:0] for key, value in x.items()})
    for key, full in layer(x).items():
        assert tuple(output[key].shape) == (0, *full.shape[1:])


@every_case
def test_lists_of_numbers_are_read_as_arrays(case):
    x = make_input(case.sporadic)
    layer = case.shared("float64")
    assert_same(layer({key: value.tolist() for key, value in x.items()}), layer(x), rtol=0)
    unbuilt = case.make("float32")
    output = unbuilt({key: list(value) for key, value in x.items()})
    assert output["values"].dtype == "float32"


@every_case
@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
def test_negative_variance_is_refused(case, graph):
    x = make_input(case.sporadic)
    layer = case.shared("float64")
    call = case.graph("float64") if graph else layer
    call(x)
    for wrong in (-1e-6, np.nan):
        # In one channel alone: the mean over the channels stays positive.
        x["variance"][0, 3, 1] = wrong
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            call(x)
        assert f"{case.layer.__name__} {layer.name!r}: variance is negative" in str(
            caught.value
        ).replace("\\'", "'")


class TestBadInput:
    """Errors name the layer, the argument and what was found, before and after building."""

    @pytest.fixture(params=[False, True], ids=["unbuilt", "built"])
    def built(self, request):
        return request.param

    def raises(self, case, built, x, *messages):
        layer = case.make(name="my_layer")
        if built:
            layer(make_input())
        with pytest.raises(ValueError) as caught:
            layer(x)
        for message in (case.layer.__name__, "my_layer", *messages):
            assert message in str(caught.value)

    @every_layer
    def test_wrong_keys(self, case, built):
        x = make_input()
        x["mask"] = x.pop("variance")
        self.raises(case, built, x, "points, values, variance", "['mask', 'points', 'values']")

    @every_layer
    def test_no_dict(self, case, built):
        self.raises(case, built, make_input()["values"], "takes a dict")

    @every_layer
    @pytest.mark.parametrize("key", KEYS)
    def test_wrong_rank(self, case, built, key):
        x = make_input()
        x[key] = x[key][0]
        self.raises(case, built, x, key, str(x[key].shape))

    @every_layer
    @pytest.mark.parametrize("wrong", [[[0.0], [0.0, 1.0]], ["a"]], ids=["ragged", "text"])
    def test_lists_that_are_no_array(self, case, built, wrong):
        x = {**make_input(), "values": wrong}
        self.raises(case, built, x, "values is a list", "tfpn.observations")

    @every_layer
    def test_values_and_variance_differ(self, case, built):
        x = make_input()
        x["variance"] = x["variance"][..., :1]
        self.raises(case, built, x, "values (3, 6, 2)", "variance (3, 6, 1)")

    @every_layer
    def test_points_and_values_differ(self, case, built):
        x = make_input()
        for axis, shape in ((1, "(3, 4, 2)"), (0, "(2, 6, 2)")):
            fewer = np.take(x["points"], range(int(shape[1 + 3 * axis])), axis)
            self.raises(case, built, {**x, "points": fewer}, f"points {shape}", "values (3, 6, 2)")

    @pytest.mark.parametrize("case", [CASES["conv"], CASES["mix"], CASES["norm"]])
    def test_other_number_of_channels_than_built_for(self, case):
        self.raises(case, True, make_input(channels=3), "2 channel", "values (3, 6, 3)")

    def test_other_dimension_than_built_for(self):
        x = make_input()
        x["points"] = x["points"][..., :1]
        self.raises(CASES["conv"], True, x, "2 dimension", "points (3, 6, 1)")


@every_case
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_points_that_are_no_numbers_raise(case, number):
    x = make_input(case.sporadic)
    points = x["points"].copy()
    points[0, 0, 0] = number
    x["variance"][0, 0] = 0.1  # observed
    with pytest.raises(tf.errors.InvalidArgumentError, match="points|not finite"):
        case.shared("float64")({**x, "points": points})
