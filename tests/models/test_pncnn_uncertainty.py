"""Models with coherent uncertainty: training, saving, predictive distributions, processes."""

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import tfpn

MODES = ["diagonal", "low_rank", "joint"]


def _data(examples=6, points=12, seed=0):
    rng = np.random.default_rng(seed)
    x = tfpn.observations(
        rng.uniform(size=(examples, points, 2)), rng.normal(size=(examples, points, 1)), 0.05
    )
    x["variance"][0, -3:] = np.inf
    x["values"][0, -3:] = np.nan
    return x, rng.integers(0, 3, size=examples)


def _model(uncertainty, **arguments):
    keras.utils.set_random_seed(0)
    arguments = {"pooling": (0.0, 1.0), "num_blocks": 1, **arguments}
    return tfpn.models.PNCNN(
        3, channels=5, num_basis=4, rank=4, uncertainty=uncertainty, **arguments
    )


@pytest.mark.parametrize(
    "uncertainty,num_blocks,pooling",
    [("diagonal", 1, (0.0, 1.0)), ("low_rank", 2, "space"), ("joint", 1, (0.0, 1.0))],
)
def test_trains_and_reloads(uncertainty, num_blocks, pooling, tmp_path):
    x, y = _data()
    model = _model(uncertainty, num_blocks=num_blocks, pooling=pooling)
    model.adapt(x)
    before = [weight.numpy() for weight in model.trainable_weights]
    model.compile(
        keras.optimizers.Adam(1e-2),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        run_eagerly=True,
    )
    losses = model.fit(x, y, epochs=2, batch_size=6, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    for weight, old in zip(model.trainable_weights, before, strict=True):
        cancels = weight.path in ("mix_1/bias", "mix_2/bias")  # in the normalisation
        assert np.any(weight.numpy() != old) != cancels, weight.path
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(x), model(x))


@pytest.mark.parametrize("uncertainty", MODES)
def test_logits_covariance(uncertainty):
    """Against the head applied to the pooled features by hand."""
    x, _ = _data()
    # Keras's predict hands arrays over in its floatx, whatever the model's policy.
    x = {key: value.astype("float32").astype("float64") for key, value in x.items()}
    model = _model(uncertainty, dtype="float64")
    pooled = {
        key: np.asarray(value)
        for key, value in keras.Model(model.inputs_dict, model._moments_output)(x).items()
    }
    kernel, bias = model.get_layer("head").get_weights()
    if uncertainty == "joint":
        covariance = pooled["covariance"]
    else:
        factors = pooled.get("factors", np.zeros((6, 5, 1)))
        remainder = pooled["variance"] - np.sum(factors**2, axis=-1)
        covariance = factors @ np.swapaxes(factors, 1, 2) + remainder[:, :, None] * np.eye(5)
    logits = model.predict_distribution(x)
    np.testing.assert_allclose(logits.mean(), pooled["values"] @ kernel + bias, rtol=1e-10)
    np.testing.assert_allclose(logits.covariance(), kernel.T @ covariance @ kernel, rtol=1e-9)
    np.testing.assert_allclose(logits.mean(), model.predict(x, verbose=0), rtol=1e-10)


def test_probabilities_average_the_softmax():
    x, _ = _data()
    model = _model("low_rank", dtype="float64")
    head = model.get_layer("head")
    kernel, bias = head.get_weights()
    head.set_weights([30.0 * kernel, bias])  # large variances
    found = model.predict_proba(x, num_points=1024)
    draws = model.predict_distribution(x).sample(200_000, seed=1).numpy()
    expected = scipy.special.softmax(draws, axis=-1)
    # Six standard errors of the sample, and the quasi-random rule's own error of 1e-3.
    tolerance = 6 * expected.std(0).max() / np.sqrt(2e5) + 1e-3
    np.testing.assert_allclose(found, expected.mean(0), atol=tolerance)
    np.testing.assert_allclose(found.sum(-1), 1.0, rtol=1e-12)
    plain = scipy.special.softmax(model.predict(x, verbose=0), axis=-1)
    assert np.abs(found - plain).max() > 0.02  # the variance matters here


def test_probabilities_of_whole_space_pooling():
    x, _ = _data()
    model = _model("diagonal", pooling="space")
    np.testing.assert_allclose(
        model.predict_proba(x),
        scipy.special.softmax(model.predict(x, verbose=0), axis=-1),
        rtol=1e-6,
    )
    with pytest.raises(ValueError, match="pooling='space'.*infinite; build the model with"):
        model.predict_distribution(x)


def test_probabilities_need_a_classifier():
    x, _ = _data()
    model = tfpn.models.PNCNN(None, num_outputs=1, channels=4, num_blocks=1)
    with pytest.raises(ValueError, match="classifier"):
        model.predict_proba(x)


@pytest.fixture(scope="module", params=MODES)
def of_two_blocks(request):
    return _model(request.param, num_blocks=2, dtype="float64")


@pytest.mark.parametrize("layer", ["conv_1", "conv_2"])
def test_feature_process(of_two_blocks, layer):
    x, model = _data()[0], of_two_blocks
    query = np.random.default_rng(1).uniform(size=(1, 7, 2))
    process = model.feature_process(x, layer, query)
    assert process.batch_shape == (6, 5) and process.event_shape == (7,)
    # The layer itself, at the same points, has the same means and variances.
    features = keras.Model(
        model.inputs_dict, dict((c.name, g) for b in model.blocks for c, g in b.convolutions)[layer]
    )(x)
    out = model.get_layer(layer)(features, np.repeat(query, 6, axis=0))
    np.testing.assert_allclose(
        process.mean(), np.swapaxes(out["values"], 1, 2), rtol=1e-8, atol=1e-10
    )
    np.testing.assert_allclose(
        process.variance(), np.swapaxes(out["variance"], 1, 2), rtol=1e-5, atol=1e-8
    )
    samples = process.sample(20_000, seed=2).numpy()
    error = np.abs((samples.mean(0) - process.mean()) / process.stddev())
    assert error.max() < 6.0 / np.sqrt(20_000)
    centred = samples - samples.mean(0)
    covariance = np.einsum("sbam,sban->bamn", centred, centred) / 20_000
    scale = np.einsum("bam,ban->bamn", process.stddev(), process.stddev())
    error = np.abs((covariance - process.covariance()) / scale)
    assert error.max() < 6.0 * np.sqrt(2.0) / np.sqrt(20_000)


def test_feature_process_errors():
    x, _ = _data()
    query = np.zeros((1, 2, 2))
    with pytest.raises(ValueError, match="layer must be one of"):
        _model("diagonal").feature_process(x, "relu_1", query)
    with pytest.raises(ValueError, match="carries no uncertainty"):
        _model("none").feature_process(x, "conv_1", query)


def test_layers_refuse_what_does_not_fit():
    x, _ = _data()
    coherent = tfpn.layers.PNConv(3, uncertainty="low_rank")(x)
    with pytest.raises(ValueError, match="takes no factors"):
        tfpn.layers.PNConv(3)(coherent)
    with pytest.raises(ValueError, match="takes no factors"):
        tfpn.layers.PNConv(3, uncertainty="joint")(coherent)
    with pytest.raises(ValueError, match="needs noise='shared'"):
        tfpn.layers.PNConv(3, uncertainty="low_rank", noise="channel")
    with pytest.raises(ValueError, match="rank must be a positive whole number"):
        tfpn.layers.PNConv(3, uncertainty="low_rank", rank=0)
    with pytest.raises(ValueError, match="factors has shape"):
        tfpn.layers.ProbReLU()({**coherent, "factors": coherent["factors"][:, :, :2]})
    with pytest.raises(ValueError, match="needs noise='shared'"):
        tfpn.models.PNCNN(3, in_channels=2, input_noise="channel", uncertainty="joint")


@pytest.mark.parametrize("uncertainty", ["low_rank", "joint"])
def test_padding_and_unobserved_entries_change_nothing(uncertainty):
    x, _ = _data(points=8)
    model = _model(uncertainty, num_blocks=2, dtype="float64")
    longer = {
        key: np.concatenate([value, np.full_like(value[:, :4], fill)], axis=1)
        for (key, value), fill in zip(x.items(), (0.7, np.nan, np.inf), strict=True)
    }
    # The start of the factors' subspace iteration is the same, but its rounding is not.
    np.testing.assert_allclose(
        model.predict(longer, verbose=0), model.predict(x, verbose=0), rtol=1e-6, atol=1e-8
    )


def _regression(uncertainty="diagonal"):
    keras.utils.set_random_seed(0)
    return tfpn.models.PNCNN(
        None,
        num_outputs=2,
        channels=5,
        num_blocks=1,
        num_basis=4,
        uncertainty=uncertainty,
        pooling=(0.0, 1.0),
    )


def test_calibrated_regression(tmp_path):
    """Targets drawn from known predictive variances: their two numbers are found again."""
    x, _ = _data(examples=3000)
    # Very different amounts of information, so that factor and noise can be told apart.
    x["variance"] *= 10.0 ** np.random.default_rng(3).uniform(-2, 3, (3000, 1, 1)).astype("float32")
    model = _regression()
    predicted = model.predict_distribution(x, batch_size=500)
    variance = predicted.variance().numpy()
    factor, noise = np.array([4.0, 0.25]), np.array([0.1, 2.0]) * variance.mean(0)
    rng = np.random.default_rng(4)
    y = predicted.mean() + rng.normal(size=variance.shape) * np.sqrt(factor * variance + noise)
    model.calibrate(x, y, batch_size=500)
    found = model.predict_distribution(x, batch_size=500).variance().numpy()
    # 3000 targets tell a variance to 1.8 standard errors of 2.6 %.
    np.testing.assert_allclose(found, factor * variance + noise, rtol=0.15)
    standardised = (y - predicted.mean()) / np.sqrt(found)
    np.testing.assert_allclose(np.mean(standardised**2, axis=0), 1.0, atol=0.02)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict_distribution(x, batch_size=500).variance(), found)


def test_calibrate_errors():
    x, y = _data()
    with pytest.raises(ValueError, match=r"y has the shape \(5,\); give a class number for"):
        _model("diagonal").calibrate(x, y[:5])
    with pytest.raises(ValueError, match=r"shape \(6, 2\), found shape \(6,\)"):
        _regression().calibrate(x, y)


# Rounding, and in "low_rank" the eigenvectors of a subspace that the iteration has nearly found.
@pytest.mark.parametrize(
    "uncertainty,dtype,tolerance",
    [("low_rank", "float64", 1e-8), ("joint", "float32", 2e-4)],
)
@pytest.mark.graphs
def test_eager_graph_and_xla_agree(uncertainty, dtype, tolerance):
    x, _ = _data()
    model = _model(uncertainty, dtype=dtype, spacing=0.3)
    x = {key: tf.constant(np.nan_to_num(value, posinf=np.inf), dtype) for key, value in x.items()}

    def moments(network):
        pooled = {key: np.asarray(value) for key, value in network(x).items()}
        if "factors" in pooled:  # known up to a rotation
            factors = pooled.pop("factors")
            pooled["covariance"] = factors @ np.swapaxes(factors, 1, 2)
        return pooled

    network = keras.Model(model.inputs_dict, model._moments_output)
    eager = moments(network)
    assert set(eager) == {"values", "variance", "covariance"}
    graph = tf.function(network).get_concrete_function(x)  # traced once for both
    for compiled in (graph, tf.function(lambda x: graph(x), jit_compile=True)):
        for key, found in moments(compiled).items():
            np.testing.assert_allclose(found, eager[key], tolerance, tolerance, err_msg=key)


@pytest.mark.parametrize("uncertainty", MODES)
def test_feature_process_at_many_points_in_float32(uncertainty):
    # Between 20 points 100 query points leave directions in which hardly any variance is left.
    rng = np.random.default_rng(5)
    points = rng.uniform(size=(2, 20, 1))
    x = tfpn.observations(points.astype("f"), np.sin(8 * points).astype("f"), 1e-4)
    model = _model(uncertainty, num_blocks=2, spatial_dim=1)
    model.adapt(x)
    query = np.linspace(0.0, 1.0, 100, dtype="f").reshape(1, 100, 1)
    for layer in ("conv_1", "conv_2"):
        process = model.feature_process(x, layer, query)
        assert np.isfinite(process.sample(3, seed=0)).all()
        assert np.isfinite(process.log_prob(process.mean())).all()


def test_failed_calibration_keeps_the_former():
    x, _ = _data()
    model = _model("diagonal")
    model = tfpn.models.PNCNN.from_config(
        {**model.get_config(), "num_classes": None, "num_outputs": 1}
    )
    model.adapt(x)
    model.calibrate(x, np.linspace(-3.0, 3.0, 6))
    before = model.predict_distribution(x).stddev().numpy()
    with pytest.raises(Exception, match="negative"):
        model.calibrate({**x, "variance": -np.ones_like(x["variance"])}, np.zeros(6))
    np.testing.assert_array_equal(model.predict_distribution(x).stddev(), before)
    nothing = {key: value[:0] for key, value in x.items()}
    with pytest.raises(ValueError, match="y holds no example"):
        model.calibrate(nothing, np.zeros(0))


def test_probabilities_need_two_classes():
    x, _ = _data()
    model = tfpn.models.PNCNN.from_config({**_model("diagonal").get_config(), "num_classes": 1})
    with pytest.raises(ValueError, match="at least two classes, found num_classes=1"):
        model.predict_proba(x)


# Not "low_rank", whose factors depend on the set of points.
@pytest.mark.parametrize("uncertainty", ["diagonal", "joint"])
def test_feature_maps_of_many_points_are_those_of_few(uncertainty):
    # 300 points of 5 channels: joint takes them in parts, so that their covariance fits.
    x, _ = _data(examples=1)
    model = _model(uncertainty, spacing=0.3, dtype="float64")
    query = np.random.default_rng(1).uniform(size=(1, 300, 2))
    maps = model.feature_maps(x, query)
    few = model.feature_maps(x, query[:, 150:160])
    for whole, part in zip(maps, few, strict=True):
        assert set(whole) == {"points", "values", "variance"}
        for key, value in part.items():
            np.testing.assert_allclose(whole[key][:, 150:160], value, rtol=1e-9, atol=1e-11)
