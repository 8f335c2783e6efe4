"""What `convolve` says of arguments that it cannot take."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from convolution_examples import NOISE, example, tensors

from tfpn.math import convolve, convolve_mean, integrate
from tfpn.math.steerable import steerable_convolve


@pytest.mark.parametrize("traced", [False, True])
def test_partly_missing_channels_with_shared_noise(traced):
    given = tensors(example(noise="channel"))
    call = tf.function(convolve) if traced else convolve
    with pytest.raises(tf.errors.InvalidArgumentError, match="Use noise=.{1,2}channel"):
        call(**given, noise="shared")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_points_that_are_not_finite_where_something_is_observed(bad):
    given = example()
    given["points"][0, 0, 1] = bad
    for noise in NOISE:
        if noise == "shared":
            given["variance"][...] = 0.1
        with pytest.raises(tf.errors.InvalidArgumentError, match="points holds NaN or infinity"):
            convolve(**given, noise=noise)


@pytest.mark.parametrize(
    "name, wrong, match",
    [
        ("points", np.zeros((5, 2)), r"points has shape \(5, 2\); expected 3 axes \[B, N, d\]"),
        ("values", np.zeros((2, 5)), r"values has shape \(2, 5\); expected 3 axes \[B, N, c\]"),
        ("values", np.zeros((2, 4, 2)), r"values has shape \(2, 4, 2\), but points has shape"),
        ("values", np.zeros((3, 5, 2)), r"values has shape \(3, 5, 2\), but points has shape"),
        ("variance", np.zeros((2, 5, 1)), r"variance has shape .* expected that of values"),
        ("query", np.zeros((3, 2)), r"query has shape \(3, 2\); expected 3 axes \[B, M, d\]"),
        ("query", np.zeros((2, 3, 1)), r"query has shape \(2, 3, 1\), expected \(2, None, 2\)"),
        ("query", np.zeros((3, 3, 2)), r"query has shape \(3, 3, 2\), expected \(2, None, 2\)"),
        ("weights", np.zeros((2, 3)), r"weights has shape .*3 axes \[K, c_in, c_out\]"),
        ("weights", np.zeros((2, 3, 3)), r"weights has shape .* expected \(2, 2, None\)"),
        ("drift", np.zeros((3, 2)), r"drift has shape \(3, 2\), expected \(2, 2\)"),
        ("drift", np.zeros((2, 1)), r"drift has shape \(2, 1\), expected \(2, 2\)"),
        ("diffusion", np.zeros((2, 2)), r"diffusion has shape \(2, 2\), expected \(2, 2, 2\)"),
        ("diffusion", np.zeros((2, 3, 3)), r"diffusion has shape .* expected \(2, 2, 2\)"),
    ],
)
@pytest.mark.parametrize("function", [convolve, convolve_mean])
def test_wrong_shapes(function, name, wrong, match):
    with pytest.raises(ValueError, match=f"^{match}"):
        function(**{**example(), name: wrong}, noise="channel")


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize(
    "name, wrong",
    [
        ("observation_variance", np.zeros(3)),
        ("observation_variance", np.zeros((2, 2))),
        ("signal_std", np.ones(3)),
        ("length_scale", np.ones(3)),
    ],
)
def test_wrong_shapes_of_parameters(name, wrong, noise):
    with pytest.raises(ValueError, match=f"^{name} has shape"):
        convolve(**{**example(noise="shared"), name: wrong}, noise=noise)


def test_wrong_options_and_dtypes():
    given = example()
    with pytest.raises(ValueError, match=r"noise must be one of \('shared', 'channel'\).*'mean'"):
        convolve(**given, noise="mean")
    for dtype in ("float16", "bfloat16"):
        half = {key: tf.cast(value, dtype) for key, value in given.items()}
        with pytest.raises(TypeError, match=f"values has dtype {dtype}.*cast it before the call"):
            convolve(**half, noise="channel")
    unknown = tf.TensorSpec([None, None, None], tf.float64)
    function = tf.function(
        lambda points: convolve(**{**given, "points": points}, noise="channel"),
        input_signature=[unknown],
    )
    with pytest.raises(ValueError, match="points has shape .* must be known"):
        function(given["points"])


def test_second_derivatives_raise():
    given = tensors(example())
    plain, traced = lambda f: f, functools.partial(tf.function, autograph=False)
    for key in ("points", "variance", "length_scale", "observation_variance"):
        for wrap in (plain, traced) if key == "points" else (plain,):

            def first(x, key=key):
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    results = convolve(**{**given, key: x}, noise="channel")
                    total = sum(tf.reduce_sum(tf.sin(result)) for result in results)
                return tape.gradient(total, x)

            with pytest.raises(LookupError, match="second derivatives .* are not implemented"):
                with tf.GradientTape() as outer:
                    outer.watch(given[key])
                    gradient = wrap(first)(given[key])
                outer.gradient(gradient, given[key])


@pytest.mark.parametrize(
    "name, bad, traced",
    [(name, bad, False) for name in ("signal_std", "length_scale") for bad in (0.0, -1.0, np.nan)]
    + [("observation_variance", bad, False) for bad in (-1.0, np.nan)]
    + [("length_scale", np.inf, False), ("observation_variance", np.inf, False)]
    + [("signal_std", np.inf, True)],  # a graph is that of any number
)
def test_what_is_no_prior(name, bad, traced, noise="shared"):
    """By every function that conditions: a prior of 0 made NaN, and -1 passed for 1."""
    given = tensors({**example(noise="shared"), name: np.array(bad)})
    prior = {key: given[key] for key in ("signal_std", "length_scale", "observation_variance")}
    observed = [given[key] for key in ("points", "values", "variance")]
    flow = {"first_order": np.zeros((1, 2, 1, 1)), "second_order": np.zeros((1, 2, 2, 1, 1))}
    scalars = {"fields_in": ((0, 2),), "fields_out": ((0, 1),), "frequencies": (0,)}
    rest = {**scalars, **flow, "zeroth_order": None, "weights": {0: np.ones((1, 2, 1))}}
    for call in (
        lambda: convolve(**given, noise=noise),
        lambda: convolve_mean(**given, noise=noise),
        lambda: integrate(*observed, **prior, noise=noise, box=(0.0, 1.0)),
        lambda: steerable_convolve(*observed, given["query"], **rest, **prior, noise=noise),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"{name} must be .* found"):
            (tf.function(call) if traced else call)()
