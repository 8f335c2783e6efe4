"""Processes at query points: exact readings, very many points, copies."""

import copy
import pickle

import mpmath
import numpy as np
import processes
import pytest
import tensorflow as tf

import tfpn
from tfpn.distributions import process_values
from tfpn.distributions.multivariate_normal import multivariate_normal
from tfpn.math import operator, pieces
from tfpn.math.uncertainty import Diagonal

both_types = pytest.mark.parametrize("dtype", ["float32", "float64"])

LENGTH, SIGNAL = 0.08, 0.35  # as a training on the readings below leaves them


def exact_readings(dtype, points=30):
    """A model of time series that takes readings for exact, and some that lie close."""
    rng = np.random.default_rng(0)
    times = np.sort(rng.uniform(size=(1, points, 1)), axis=1).astype(dtype)
    x = tfpn.observations(times, np.sin(6 * times), 0.0)
    x = {key: value.astype(dtype) for key, value in x.items()}
    model = tfpn.models.PNTimeSeries(
        channels=2,
        num_blocks=1,
        num_basis=3,
        query="union",
        observation_noise=None,
        spacing=0.05,
        dtype=dtype,
    )
    layer = model.get_layer("conv_1")
    layer.log_length_scale.assign([np.log(LENGTH)])
    layer.log_signal_std.assign([np.log(SIGNAL)])
    return model, x


def exact_covariance(layer, x, query):
    """Posterior covariance of the channel itself, with 50 digits; and the least noise."""
    prior = layer._kernel()
    signal, length = float(prior.signal_std[0]), float(prior.length_scale[0])
    floor = max(1e-12, 2e-13 * x["points"].shape[1]) * signal**2

    def kernel(first, second):
        return mpmath.matrix(
            [
                [
                    mpmath.mpf(float(signal)) ** 2
                    * mpmath.exp(-(((mpmath.mpf(a) - mpmath.mpf(b)) / float(length)) ** 2) / 2)
                    for b in second
                ]
                for a in first
            ]
        )

    with mpmath.workdps(50):
        times = [float(t) for t in x["points"][0, :, 0]]
        noisy = kernel(times, times) + floor * mpmath.eye(len(times))
        cross = kernel(times, query)
        found = kernel(query, query) - cross.T * mpmath.inverse(noisy) * cross
        return np.array(found.tolist(), float), floor


@both_types
def test_exact_readings_have_a_process_with_the_layers_least_noise(dtype):
    model, x = exact_readings(dtype)
    query = [-0.1, 0.03, 0.31, 0.3101, 0.77, 1.05]
    fit = model.input_process(x, np.reshape(query, (1, -1, 1)))
    expected, floor = exact_covariance(model.get_layer("conv_1"), x, query)
    # Rounding counts as noise of a few N eps beside the least noise, and as eps of the prior's
    # variance where it is subtracted; float32 knows its least noise to its eps.
    eps = np.finfo(float).eps
    relative = 90 * eps * SIGNAL**2 / floor + np.finfo(dtype).eps
    absolute = 30 * eps * SIGNAL**2
    np.testing.assert_allclose(fit.covariance()[0, 0], expected, relative, absolute)
    np.testing.assert_allclose(fit.variance()[0, 0], np.diag(expected), relative, absolute)


@both_types
def test_exact_readings_can_be_drawn_from(dtype):
    model, x = exact_readings(dtype)
    query = np.linspace(-0.2, 1.2, 200).reshape(1, 200, 1)
    for fit in (model.input_process(x, query), model.feature_process(x, "conv_1", query)):
        draws = fit.sample(2, seed=0)
        assert np.isfinite(draws).all() and np.isfinite(fit.log_prob(draws)).all()
        assert np.isfinite(fit.entropy()).all()
        np.testing.assert_allclose(fit.kl_divergence(fit), 0.0, atol=200 * 1e-3)
        # Positive semidefinite but for the rounding of the prior.
        covariance = fit.covariance().numpy().astype(float)
        size = np.abs(covariance).max() * np.finfo(fit.dtype.as_numpy_dtype).eps * 200
        assert np.linalg.eigvalsh(covariance).min() > -size - 1e-14


def test_the_jitter_grows_for_the_matrix_that_needs_it():
    # Rank 1, and an eigenvalue of -1e-10, which the first steps do not lift.
    good = np.ones((2, 2))
    bad = good - 1e-10 * np.eye(2)
    found = multivariate_normal(np.zeros((2, 2)), np.stack([good, bad])).covariance()
    np.testing.assert_allclose(found[0], good, atol=1e-12)
    np.testing.assert_allclose(found[1], bad, atol=2e-9)
    with pytest.raises(tf.errors.InvalidArgumentError, match="layer 'conv_3': .*jitter of 1e-08"):
        multivariate_normal(np.zeros(2), [[1.0, 2.0], [2.0, 1.0]], source="layer 'conv_3'")


@pytest.fixture(scope="module")
def few_readings():
    x = tfpn.observations([[[0.2], [0.8]]], [[1.0, -1.0]])
    options = {"channels": 2, "num_blocks": 1, "num_basis": 2, "query": "union", "spacing": 0.2}
    return tfpn.models.PNTimeSeries(**options), x


def test_very_many_points_have_a_band_and_no_covariance(few_readings, monkeypatch):
    model, x = few_readings
    taken = []
    convolve = Diagonal.convolve

    def count(way, observed, operator, *others):
        taken.append(operator.query.shape[1])
        return convolve(way, observed, operator, *others)

    def never(*arguments, **options):
        raise AssertionError("the covariance is not asked for")

    monkeypatch.setattr(Diagonal, "convolve", count)
    monkeypatch.setattr(process_values, "process_covariance", never)
    query = np.linspace(0.0, 1.0, 100_000).reshape(1, -1, 1)
    some = slice(99_000, 99_005)  # within a later piece
    for method, name in ((model.input_process, ()), (model.feature_process, ("conv_1",))):
        taken.clear()
        fit, few = (method(x, *name, at) for at in (query, query[:, some]))
        assert max(taken) <= 2048 and sum(taken) == 100_005
        low, high = (fit.marginals().quantile(p)[0, 0, some] for p in (0.16, 0.84))
        for found, expected in (
            (fit.mean(), few.mean()),
            (fit.stddev(), few.stddev()),
            (fit.variance(), few.variance()),
        ):
            np.testing.assert_allclose(found[..., some], expected, rtol=1e-6)
        np.testing.assert_allclose((high - low) / 2, 0.99446 * few.stddev()[0, 0], rtol=1e-4)
        for ask in (fit.covariance, fit.sample, fit.joint, lambda fit=fit: fit.log_prob(fit.loc)):
            with pytest.raises(MemoryError, match=r"'conv_1': the covariance.*GB.*fewer query"):
                ask()


def test_memory_that_gives_out_is_named(few_readings, monkeypatch):
    model, x = few_readings

    def exhausted(*arguments, **options):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

    monkeypatch.setattr(process_values, "process_covariance", exhausted)
    with pytest.raises(MemoryError, match="PNConv 'conv_1': the covariance between 1 points"):
        model.input_process(x, [[[0.5]]]).covariance()


@pytest.mark.parametrize("uncertainty", ["diagonal", "low_rank", "joint"])
def test_pieces_and_rows_change_nothing(uncertainty, monkeypatch):
    rng = np.random.default_rng(3)
    x = tfpn.observations(rng.uniform(size=(2, 6, 2)), rng.normal(size=(2, 6, 2)), 0.05)
    options = {"uncertainty": uncertainty, "dtype": "float64", "spacing": 0.3}
    first = tfpn.layers.PNConv(3, 2, rank=2, **options)
    second = tfpn.layers.PNConv(2, 3, rank=2, **options)
    features = first(x)
    second(features)
    query = rng.uniform(size=(2, 25, 2))
    whole = second.process(features, query)
    expected = whole.mean(), whole.variance(), whole.covariance()
    monkeypatch.setattr(pieces, "_LEAST_POINTS", 2)
    monkeypatch.setattr(pieces, "_PIECE_POINTS", 2)
    monkeypatch.setattr(operator, "_ROW_BYTES", 1)
    parts = second.process(features, query)
    found = parts.mean(), parts.variance(), parts.covariance()
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(
        tf.linalg.diag_part(parts.covariance()), parts.variance(), rtol=1e-11, atol=1e-13
    )


def made():
    """A distribution of every kind that the models return, by name."""
    rng = np.random.default_rng(0)
    x = tfpn.observations(rng.uniform(size=(2, 6, 2)), rng.normal(size=(2, 6)), 0.05)
    found = {}
    for mode in ("diagonal", "low_rank", "joint"):
        options = {"spacing": 0.3, "uncertainty": mode, "rank": 2}
        features = tfpn.layers.PNConv(2, 2, **options)(x)
        layer = tfpn.layers.PNConv(3, 2, **options)
        layer(features)
        found[f"layer, {mode}"] = layer.process(features, x["points"][:, :4])
    model = tfpn.models.PNCNN(
        3, channels=3, num_blocks=1, num_basis=2, rank=2, uncertainty="low_rank", pooling=(0, 1)
    )
    found["logits"] = model.predict_distribution(x)
    found["features"] = model.feature_process(x, "conv_1", x["points"][:1, :4])
    series = tfpn.observations(rng.uniform(size=(2, 6, 1)), rng.normal(size=(2, 6, 2)))
    model = tfpn.models.PNTimeSeries(in_channels=2, channels=3, num_blocks=1, num_basis=2, query=4)
    found["series"] = model.predict_distribution(series)
    found["series, input"] = model.input_process(series, [[[0.3], [0.6]]])
    found["series, features"] = model.feature_process(series, "conv_1", [[[0.3], [0.6]]])
    steerable = {"copies": 1, "num_blocks": 1, "num_basis": 1, "frequencies": (0, 1)}
    model = tfpn.models.SteerablePNCNN(None, out_fields={0: 1, 1: 1}, **steerable)
    found["fields"] = model.predict_distribution({**x, "query": x["points"][:, :3]})
    found["rectified"] = tfpn.distributions.RectifiedNormal([0.0, 1.0], scale=[1.0, 0.5])
    return found


def numbers(distribution):
    value = np.abs(distribution.mean()) + 0.1
    found = distribution.mean(), distribution.stddev(), distribution.log_prob(value)
    return *found, distribution.sample(2, seed=(0, 3))


def read_again(data, result):
    with open(result, "wb") as file:
        pickle.dump({name: list(map(np.asarray, numbers(d))) for name, d in
                     pickle.loads(data).items()}, file)  # fmt: skip


@pytest.mark.usefixtures("eagerly")
def test_distributions_can_be_copied_and_pickled(tmp_path):
    distributions = made()
    data = pickle.dumps(distributions)
    process = processes.start(read_again, data, tmp_path / "read")
    again = pickle.loads(data)
    expected = {name: numbers(distribution) for name, distribution in distributions.items()}
    for name, distribution in distributions.items():
        for other in (copy.copy(distribution), copy.deepcopy(distribution), again[name]):
            assert type(other) is type(distribution)
            for one, two in zip(numbers(other), expected[name], strict=True):
                np.testing.assert_array_equal(one, two, err_msg=name)
    processes.finish(process)
    with open(tmp_path / "read", "rb") as file:
        for name, found in pickle.load(file).items():
            for one, two in zip(found, expected[name], strict=True):
                np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6, err_msg=name)
