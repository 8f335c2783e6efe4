"""What layers and models give at many query points: piece by piece, the same as at once."""

import warnings

import keras
import numpy as np
import pytest

import tfpn
from tfpn.layers import steerable_conv
from tfpn.math import pieces
from tfpn.math.uncertainty import UNCERTAINTY, Joint, LowRank
from tfpn.models import readout

EXACT = {"rtol": 1e-10, "atol": 1e-12}


@pytest.fixture
def taken(monkeypatch):
    """Pieces of at most 6 points (the observed ones) and what was taken at once, in a list."""
    counts = []

    def count(owner, name, points):
        function = getattr(owner, name)

        def counted(*given, **options):
            counts.append(max(int(tensor.shape[1]) for tensor in points(*given)))
            return function(*given, **options)

        monkeypatch.setattr(owner, name, counted)

    for way in UNCERTAINTY.values():
        count(
            way, "convolve", lambda way, observed, operator, *_: (observed.points, operator.query)
        )
    count(steerable_conv, "convolve_fields", lambda observed, query: (observed.points, query))

    def small():
        monkeypatch.setattr(pieces, "_LEAST_POINTS", 2)
        monkeypatch.setattr(pieces, "_PIECE_POINTS", 2)
        for way in (LowRank, Joint):
            monkeypatch.setattr(way, "query_points", staticmethod(lambda channels: 6))
        monkeypatch.setattr(readout, "_BATCH_QUERY", 8)
        counts.clear()
        return counts

    return small


def data(dim=2, channels=1, dtype="float64"):
    rng = np.random.default_rng(0)
    x = tfpn.observations(
        rng.uniform(size=(2, 6, dim)), rng.normal(size=(2, 6, channels)), variance=0.05
    )
    x = {key: value.astype(dtype) for key, value in x.items()}
    return x, rng.uniform(size=(2, 25, dim)).astype(dtype)


def assert_same(found, expected):
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, **EXACT, err_msg=key)


@pytest.mark.parametrize(
    "layer,channels",
    [
        (lambda o: tfpn.layers.PNConv(3, 2, **o), 2),
        (lambda o: tfpn.layers.PNConv(3, 2, uncertainty="none", **o), 2),
        (lambda o: tfpn.layers.PNConv(3, 2, noise="channel", prior="channel", **o), 2),
        (lambda o: tfpn.layers.SteerablePNConv({0: 1, 1: 1}, 1, seed=0, **o), 1),
    ],
    ids=["shared", "none", "channel", "steerable"],
)
def test_layers(layer, channels, taken):
    x, query = data(channels=channels)
    layer = layer({"spacing": 0.3, "marginal_likelihood_weight": 1.0, "dtype": "float64"})
    expected, losses = layer(x, query), list(layer.losses)
    counts = taken()
    found = layer(x, query)
    assert len(counts) == 5 and max(counts) == 6
    assert_same(found, expected)
    assert len(layer.losses) == len(losses) == 1
    np.testing.assert_allclose(layer.losses, losses, rtol=1e-12)
    counts.clear()
    layer(x, query, training=True)  # the gradient keeps all points anyway
    assert counts == [25]


MODELS = {
    "diagonal": lambda o: tfpn.models.PNCNN(3, channels=2, uncertainty="diagonal", **o),
    "low_rank": lambda o: tfpn.models.PNCNN(3, channels=2, uncertainty="low_rank", rank=2, **o),
    "joint": lambda o: tfpn.models.PNCNN(3, channels=2, uncertainty="joint", **o),
    "series": lambda o: tfpn.models.PNTimeSeries(channels=2, query=4, **o),
    "joint series": lambda o: tfpn.models.PNTimeSeries(
        channels=2, query=4, uncertainty="joint", input_noise="shared", input_prior="shared", **o
    ),
    "steerable": lambda o: tfpn.models.SteerablePNCNN(3, copies=1, frequencies=(0, 1), seed=0, **o),
}


@pytest.mark.parametrize("name", MODELS)
def test_feature_maps(name, taken):
    keras.utils.set_random_seed(0)
    x, query = data(dim=1 if "series" in name else 2)
    blocks = 1 if name == "joint series" else 2
    options = {"num_blocks": blocks, "num_basis": 1, "spacing": 0.3, "dtype": "float64"}
    model = MODELS[name](options)
    expected = model.feature_maps(x, query)
    counts = taken()
    found = model.feature_maps(x, query)
    assert max(counts) == 6
    for one, other in zip(found, expected, strict=True):
        if name == "low_rank":  # the rectified factors differ: those of a part's own points
            assert one["values"].shape == other["values"].shape
            assert np.isfinite(one["variance"]).all()
        else:
            assert_same(one, other)


def test_fields(taken):
    x, query = data()
    x["query"] = query = query[:, :13]
    model = tfpn.models.SteerablePNCNN(
        None, out_fields={0: 1, 1: 1}, copies=1, num_blocks=1, frequencies=(0, 1), seed=0,
        spacing=0.3, dtype="float64",
    )  # fmt: skip
    values, law = model.predict(x, verbose=0), model.predict_distribution(x)
    epochs = []
    ended = keras.callbacks.LambdaCallback(
        on_predict_batch_end=lambda batch, logs: epochs.append(batch)
    )
    counts = taken()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*ran out of data")
        found = (
            model.predict(x, batch_size=1, verbose=0, callbacks=[ended]),
            model.predict_distribution(x),
        )
    assert max(counts) == 6 and len(epochs) == 2
    np.testing.assert_allclose(found[0], values, **EXACT)
    np.testing.assert_allclose(found[1].mean(), values, **EXACT)
    np.testing.assert_allclose(found[1].stddev(), law.stddev(), **EXACT)
    np.testing.assert_allclose(model(x), values, **EXACT)
    with pytest.raises(ValueError, match="query"):
        model.predict({**x, "query": query[:, 0]}, verbose=0)
    with pytest.raises(ValueError, match="batch_size must be"):
        model.predict_distribution(x, batch_size=0)


def test_one_piece_has_the_observed_points_at_least():
    assert pieces.piece_length(1, 10) == 2048
    assert pieces.piece_length(32, 10) == 256
    assert pieces.piece_length(32, 1000) == 1000
    assert pieces.piece_length(None, 10) is None
