"""What a model says of inputs that are not its own, however they are handed over."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from pncnn_support import small

import tfpn
from tfpn import layers


@pytest.fixture(scope="module")
def x():
    rng = np.random.default_rng(0)
    return tfpn.observations(
        rng.uniform(size=(8, 12, 2)).astype("float32"),
        rng.normal(size=(8, 12, 2)).astype("float32"),
    )


@pytest.fixture(scope="module")
def model():
    return tfpn.models.PNCNN(3, channels=4, num_blocks=1, num_basis=3, in_channels=2)


def unknown_axes(layer):
    """The layer traced with unknown numbers of examples and points."""
    spec = {key: tf.TensorSpec((None, None, 2)) for key in ("points", "values", "variance")}
    return tf.function(lambda x: layer(x), input_signature=[spec])


@pytest.mark.parametrize(
    "layer",
    [
        layers.PNConv(2, 3),
        layers.PNConv(2, 3, noise="channel"),
        layers.ProbReLU(),
        layers.ChannelMix(3),
        layers.GPNormalization(),
        layers.IntegralPooling(box=(0.0, 1.0)),
    ],
    ids=lambda layer: layer.name,
)
@pytest.mark.graphs
def test_sizes_that_are_known_only_when_run_must_agree(layer, x):
    function = unknown_axes(layer)
    function(x)
    message = f"(?s){layer.name}.*disagree on the"
    for key in ("values", "variance"):
        for part in (np.s_[:1], np.s_[:, :1]):
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                function({**x, key: x[key][part]})


@pytest.mark.graphs
def test_the_core_checks_them_too(x):
    flow = {"weights": np.ones((1, 2, 2)), "drift": np.zeros((1, 2)), "signal_std": 1.0}
    flow = {key: np.float32(value) for key, value in flow.items()}
    spec = tf.TensorSpec((None, None, 2))

    @tf.function(input_signature=[spec] * 3, autograph=False)
    def function(points, values, variance):
        return tfpn.math.convolve(
            points, values, variance, points, length_scale=0.1, noise="channel",
            diffusion=np.zeros((1, 2, 2), "float32"), **flow,
        )  # fmt: skip

    function(**{key: value[:4, :9] for key, value in x.items()})
    function(**x)
    with pytest.raises(tf.errors.InvalidArgumentError, match="disagree on the number"):
        function(**{**x, "variance": x["variance"][:1, :5]})


@pytest.mark.parametrize("way", ["call", "predict", "fit", "evaluate"])
@pytest.mark.parametrize("change", ["extra", "missing"])
def test_keys(model, x, way, change):
    # Keras would take the first three in alphabetical order.
    given = {**x, "mask": x["values"]} if change == "extra" else {"points": x["points"]}
    call = model if way == "call" else getattr(model, way)
    with pytest.raises(ValueError, match="takes a dict with the keys points, values, variance"):
        call(given)


@pytest.mark.parametrize("way", ["predict", "fit", "evaluate"])
@pytest.mark.parametrize(
    "change, message",
    [
        (lambda x: {key: value[:0] for key, value in x.items()}, r"points: found the shape \[0, "),
        (lambda x: {**x, "values": x["values"][:, :1]}, "have the shapes"),
        (lambda x: {**x, "variance": x["variance"] - 1}, "variance: example 0.*not negative"),
        (lambda x: {**x, "values": x["values"] * np.nan}, "values: example 0, point 0"),
        (lambda x: {**x, "points": x["points"][..., :1]}, "found 1 spatial dimensions, expected 2"),
    ],
)
def test_arrays_are_checked_before_they_are_cast_or_compiled(model, x, way, change, message):
    with pytest.raises(ValueError, match=message):
        getattr(model, way)(change(x))


def test_partly_seen_points_are_found_before(model, x):
    variance = x["variance"].copy()
    variance[0, 0, 0] = np.inf
    with pytest.raises(ValueError, match="input_noise='channel'"):
        model.predict({**x, "variance": variance})


def test_padding_may_lie_anywhere(model, x):
    padded = {key: value.copy() for key, value in x.items()}
    padded["points"][0, -3:] = np.nan
    padded["values"][0, -3:] = np.nan
    padded["variance"][0, -3:] = np.inf
    short = {key: value[:1, :-3] for key, value in padded.items()}
    found = model.predict(padded, verbose=0)
    np.testing.assert_allclose(found[:1], model(short), rtol=1e-4, atol=1e-5)


def test_lists(model, x):
    lists = {key: value.tolist() for key, value in x.items()}
    expected = model(x)
    np.testing.assert_array_equal(model(lists), expected)
    np.testing.assert_allclose(model.predict(lists, verbose=0), expected, rtol=1e-5, atol=1e-6)


def test_float64_arrays_keep_their_digits(x):
    model = small(num_blocks=1, in_channels=2, dtype="float64")
    wide = {key: value.astype("float64") for key, value in x.items()}
    wide["points"] += 1e6  # float32 resolves 0.06 there
    model.adapt(wide)
    np.testing.assert_allclose(model.predict(wide, verbose=0), model(wide), atol=1e-12)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, run_eagerly=True)
    with pytest.warns(UserWarning, match="casts arrays to float32"):
        model.fit(wide, np.zeros(8), verbose=0)


PROCESSES = {
    "feature_maps": lambda model, x, query: model.feature_maps(x, query),
    "feature_process": lambda model, x, query: model.feature_process(x, "conv_1", query),
    "input_process": lambda model, x, query: model.input_process(x, query),
}


@pytest.mark.parametrize("way", PROCESSES)
def test_methods_that_take_query_points_check_their_input_as_predict_does(way, x):
    x = {key: array[:2] for key, array in x.items()}
    if way == "input_process":
        model = tfpn.models.PNTimeSeries(2, in_channels=2, channels=2, num_blocks=1, num_basis=1)
        x["points"] = x["points"][..., :1]
    else:
        model = tfpn.models.PNCNN(
            3, channels=2, num_blocks=1, num_basis=1, in_channels=2, uncertainty="diagonal"
        )
    ask, query, dim = PROCESSES[way], x["points"][:1, :3], x["points"].shape[-1]
    arrays = [x["values"], x["points"], x["variance"]]
    for other, found in (
        (arrays, "list"),
        (tuple(arrays), "tuple"),
        (x["points"], "ndarray"),
        (tf.data.Dataset.from_tensor_slices(x).batch(2), "Dataset"),
    ):
        with pytest.raises(TypeError, match=f"dict.*found a? ?.*{found}"):
            ask(model, other, query)
    wrong = np.full(x["values"].shape, np.nan, "float32")
    for key, value, message in (
        ("variance", -1.0 - x["variance"], "variance: example 0.*not negative"),
        ("variance", x["variance"][:1], "variance"),
        ("values", wrong, "values: example 0, point 0"),
        ("more", x["values"], "takes a dict with the keys points, values, variance, found"),
    ):
        with pytest.raises(ValueError, match=message):
            ask(model, {**x, key: value}, query)
    with pytest.raises(ValueError, match="takes a dict with the keys"):
        ask(model, {key: x[key] for key in ("points", "values")}, query)
    for asked, message in (
        (query[0], rf"query has shape \(3, {dim}\); expected \[2, M, {dim}\], or \[1, M, {dim}\]"),
        (np.repeat(query, 3, axis=0), "query has shape"),
        (query[..., :0], "query has shape"),
        (query + np.nan, "query: example 0, point 0"),
    ):
        with pytest.raises(ValueError, match=message):
            ask(model, x, asked)
    with pytest.raises(TypeError, match="query"):
        ask(model, x, "everywhere")
    ask(model, {key: array.tolist() for key, array in x.items()}, query.tolist())  # passes


@pytest.mark.parametrize("missingness", [None, "intensity"])
def test_maps_of_no_query_points_are_empty(missingness, x):
    x = {key: array[:2] for key, array in x.items()}
    options = {"in_channels": 2, "channels": 3, "num_blocks": 2, "num_basis": 1}
    if missingness:
        x["points"] = x["points"][..., :1]
        model = tfpn.models.PNTimeSeries(2, missingness=missingness, **options)
    else:
        model = tfpn.models.PNCNN(3, **options)
    maps = model.feature_maps(x, x["points"][:1, :0])
    assert [found["values"].shape for found in maps] == 2 * [(2, 0, 3)]
    assert maps[0]["points"].shape == (2, 0, x["points"].shape[-1])


def test_adapt_names_a_data_set_without_examples(x):
    model = tfpn.models.PNCNN(2, in_channels=2, channels=3, num_blocks=1)
    batches = tf.data.Dataset.from_tensor_slices(x).batch(2)
    with pytest.raises(ValueError, match="adapt: the data set has no examples"):
        model.adapt(batches.take(0))
