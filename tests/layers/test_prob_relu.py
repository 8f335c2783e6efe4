"""The rectifier of Gaussian variables against Monte Carlo."""

import numpy as np
import pytest
from layer_harness import CASES, make_input

import tfpn
from tfpn.layers import ProbReLU


def test_moments_against_monte_carlo():
    rng = np.random.default_rng(0)
    mean = np.array([-2.0, -0.7, 0.0, 0.4, 1.5])
    variance = np.array([1.5, 0.3, 2.0, 1e-4, 0.8])
    x = {"points": np.zeros((1, 5, 1)), "values": mean[None, :, None]}
    x["variance"] = variance[None, :, None]
    output = ProbReLU(dtype="float64")(x)
    count = 400_000
    samples = np.maximum(mean + np.sqrt(variance) * rng.normal(size=(count, 5)), 0.0)
    error = samples.std(0) / np.sqrt(count)
    assert (np.abs(np.ravel(output["values"]) - samples.mean(0)) < 4 * error).all()
    deviation = (samples - samples.mean(0)) ** 2
    error = deviation.std(0) / np.sqrt(count)
    assert (np.abs(np.ravel(output["variance"]) - deviation.mean(0)) < 4 * error).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_without_variance_it_is_the_ordinary_relu(dtype):
    x = make_input(dtype=dtype)
    x["variance"] = np.zeros_like(x["variance"])
    output = ProbReLU(dtype=dtype)(x)
    np.testing.assert_array_equal(output["values"], np.maximum(x["values"], 0))
    np.testing.assert_array_equal(output["variance"], 0)


def test_unobserved_entries_stay_unobserved_one_by_one():
    x = make_input(sporadic=True)
    output = CASES["relu"].make()(x)
    np.testing.assert_array_equal(np.isinf(output["variance"]), np.isinf(x["variance"]))
    assert (np.asarray(output["values"])[np.isinf(x["variance"])] == 0).all()


@pytest.mark.parametrize(
    "activation, message",
    [
        ("nosuch", "activation is 'nosuch', which Keras does not know"),
        (3, "activation is 3, which Keras does not know"),
        (np.tanh, "activation is <ufunc 'tanh'>, which turns .* into a ndarray .*not numpy.tanh"),
        (lambda x: x[0], r"activation is <function .* into a .* of the shape \(\): give"),
        (lambda x: x.nosuch, "activation is <function .* fails on a tensor: AttributeError"),
        ({"slope": 1.0}, r"activation as a dict is .* found \{'slope': 1.0\}"),
    ],
)
def test_activations_that_are_none(activation, message):
    for build in (tfpn.layers.ProbActivation, lambda a: tfpn.models.PNCNN(3, activation=a)):
        with pytest.raises(ValueError, match=message):
            build(activation)
