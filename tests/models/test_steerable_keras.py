"""SteerablePNCNN through what Keras offers: XLA, threads, half precision, seeds."""

import logging
import threading

import keras
import numpy as np
import pytest

import tfpn
from tfpn.models import SteerablePNCNN

LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
LABELS = np.array([0, 1, 2, 0])


def data(examples=4, points=6):
    rng = np.random.default_rng(0)
    x = tfpn.observations(
        rng.uniform(size=(examples, points, 2)).astype("float32"),
        rng.normal(size=(examples, points)).astype("float32"),
        0.01,
    )
    x["variance"][0, -2:] = np.inf
    return x


def small(**changes):
    return SteerablePNCNN(
        3, copies=1, num_blocks=1, num_basis=1, frequencies=(0, 1), spacing=0.2,
        pooling={"centre": (0.5, 0.5), "radius": 0.6}, **changes,
    )  # fmt: skip


@pytest.fixture(scope="module")
def model():
    """Untrained, and never changed."""
    keras.utils.set_random_seed(0)
    return small()


def trained(model, **how):
    """The losses of two steps of a copy, and its weights."""
    copy = SteerablePNCNN.from_config(model.get_config())
    copy.set_weights(model.get_weights())
    copy.compile(keras.optimizers.SGD(0.1), LOSS, **how)
    fit = {"batch_size": 2, "shuffle": False, "verbose": 0}
    return copy.fit(data(), LABELS, **fit).history["loss"], copy.get_weights()


@pytest.mark.graphs
def test_xla_trains_as_without_it(model):
    loss, weights = trained(model, jit_compile=True)
    expected_loss, expected = trained(model, run_eagerly=True)
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-4)
    assert any(np.any(a != b) for a, b in zip(expected, model.get_weights(), strict=True))
    for found, weight in zip(weights, expected, strict=True):
        np.testing.assert_allclose(found, weight, rtol=1e-4, atol=1e-5)


@pytest.mark.graphs
def test_two_threads_predict_at_once(model):
    found = {}
    inputs = {1: data(4, 6), 2: data(3, 6)}

    def predict(number):
        found[number] = model.predict(inputs[number], verbose=0)

    threads = [threading.Thread(target=predict, args=(number,)) for number in inputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, x in inputs.items():
        np.testing.assert_allclose(found[number], model(x), rtol=1e-4, atol=1e-5)


def test_half_precision_trains_with_algebra_in_full(model):
    half = small(dtype="mixed_bfloat16", seed=1)
    half.set_weights(model.get_weights())
    # The same to the last digit: nothing of the network is computed in half precision.
    np.testing.assert_allclose(half(data()), model(data()), rtol=1e-5, atol=1e-6)
    loss, _ = trained(half, run_eagerly=True)
    assert np.isfinite(loss).all()


def test_one_seed_for_all_weights(model):
    """`keras.utils.set_random_seed` makes all weights again, ``seed`` the flows' alone."""
    keras.utils.set_random_seed(0)
    for found, weight in zip(small().weights, model.weights, strict=True):
        np.testing.assert_array_equal(found, weight, err_msg=weight.path)
    first, second = small(seed=3), small(seed=3)
    flows = first.get_layer("conv_1").generator_weights
    for name, weight in flows.items():
        other = second.get_layer("conv_1").generator_weights[name]
        np.testing.assert_array_equal(weight, other)
    kernels = [each.get_layer("conv_1").kernels[0].numpy() for each in (first, second)]
    assert np.any(kernels[0] != kernels[1])


def test_training_logs_nothing():
    """TensorFlow used to log that gradients of casts to complex numbers lose a part."""
    logged = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())
    logger = logging.getLogger("tensorflow")
    logger.addHandler(handler)
    network = small()
    network.compile("sgd", LOSS)
    try:
        network.fit(data(), LABELS, epochs=1, verbose=0)
    finally:
        logger.removeHandler(handler)
    assert not logged
