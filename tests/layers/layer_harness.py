"""What every layer is held to: cases, inputs and comparisons."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf
from layer_references import (
    slow_convolution,
    slow_draws,
    slow_field_draws,
    slow_leaky_rectifier,
    slow_mixing,
    slow_normalization,
    slow_pooling,
    slow_rectifier,
    slow_steerable_convolution,
    slow_vector_mixing,
    slow_vector_normalization,
)

from tfpn import layers

KEYS = ("points", "values", "variance")


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """A layer's class, the arguments of the tests' instance, and what it computes."""

    layer: type
    arguments: dict
    reference: callable
    weights: tuple
    sporadic: bool = False  # takes points that are observed in some channels only
    pools: bool = False

    def make(self, dtype="float64", **changes):
        return self.layer(**{**self.arguments, **changes}, dtype=dtype)

    def built(self, x, dtype="float64", **changes):
        """A built layer with weights off their initial values."""
        layer = self.make(dtype, **changes)
        layer(x)
        perturb(layer)
        return layer

    @functools.cache  # noqa: B019
    def shared(self, dtype):
        """A built layer for all tests that do not change it."""
        return self.built(make_input(self.sporadic, dtype), dtype)

    @functools.cache  # noqa: B019
    def graph(self, dtype):
        """The shared layer as a graph, for any number of examples and points."""
        layer, x = self.shared(dtype), make_input(self.sporadic, dtype)
        signature = {key: tf.TensorSpec([None, None, v.shape[-1]], dtype) for key, v in x.items()}
        return tf.function(lambda x: layer(x), input_signature=[signature])


def perturb(layer, seed=1):
    """Moves every weight, so that no zero or one hides a mistake."""
    rng = np.random.default_rng(seed)
    generators = list(getattr(layer, "generator_weights", {}).values())
    for weight in layer.weights:
        # These are in units of eight spacings: longer flows would be resolved less exactly.
        scale = 0.125 if any(weight is flow for flow in generators) else 1.0
        weight.assign(np.asarray(weight) + scale * rng.uniform(0.02, 0.1, weight.shape))


def make_input(sporadic=False, dtype=np.float64, channels=2, seed=0):
    """Three examples of six points: complete, with two padding points, without observation."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(size=(3, 6, 2))
    values = rng.normal(size=(3, 6, channels))
    variance = rng.uniform(0.01, 0.1, size=(3, 6, channels))
    if sporadic:
        variance[0, 1, 0] = variance[0, 2, -1] = variance[1, 0, -1] = np.inf
    variance[1, 4:] = np.inf
    variance[2] = np.inf
    values[np.isinf(variance)] = 0.0
    return {k: v.astype(dtype) for k, v in zip(KEYS, (points, values, variance), strict=True)}


def assert_same(found, expected, rtol, atol=0.0, name=""):
    """Compares two dicts of arrays; infinities must be at the same entries."""
    assert found.keys() == expected.keys(), name
    for key in found:
        np.testing.assert_allclose(
            np.asarray(found[key]), np.asarray(expected[key]), rtol, atol, err_msg=f"{name} {key}"
        )


def points_axis(key):
    """The axis of the points of an output's tensor."""
    return 2 if key == "draws" else 1


def finite_sum(output):
    """A scalar that every finite value and variance of an output moves."""
    total = 0.0
    for key in ("values", "variance"):
        tensor = tf.where(tf.math.is_finite(output[key]), output[key], 0.0)
        total += tf.reduce_sum(tf.sin(tensor + 0.3))
    return total


def gradients(layer, x):
    """Gradients of `finite_sum` by values, variance and the layer's trainable weights."""
    x = {key: tf.convert_to_tensor(value) for key, value in x.items()}
    watched = [x["values"], x["variance"]]
    with tf.GradientTape() as tape:
        tape.watch(watched)
        total = finite_sum(layer(x))
    sources = [*watched, *[weight.value for weight in layer.trainable_weights]]
    found = tape.gradient(total, sources, unconnected_gradients="zero")
    return [np.asarray(gradient) for gradient in found]


_PRIOR = ("log_signal_std", "log_length_scale")
_UNITS = ("log_flow_unit", "log_value_unit")
_FLOWS = ("drift", "diffusion_factor", *_UNITS)
_CONV = (*_PRIOR, "kernel", "bias", *_FLOWS)
_POOLING = (*_PRIOR, "log_unit")
_NOISY = (*_PRIOR, "log_observation_noise")

CASES = {
    "conv": Case(
        layers.PNConv, {"filters": 3, "num_basis": 5, "spacing": 0.3}, slow_convolution, _CONV
    ),
    "conv_channel": Case(
        layers.PNConv,
        {
            "filters": 3,
            "num_basis": 4,
            "spacing": 0.3,
            "noise": "channel",
            "observation_noise": 0.2,
        },
        slow_convolution,
        (*_NOISY, "kernel", "bias", *_FLOWS),
        sporadic=True,
    ),
    "conv_priors": Case(
        layers.PNConv,
        {"filters": 2, "num_basis": 3, "spacing": 0.3, "noise": "channel", "prior": "channel"},
        slow_convolution,
        _CONV,
        sporadic=True,
    ),
    "conv_none": Case(
        layers.PNConv,
        {
            "filters": 2,
            "num_basis": 3,
            "spacing": 0.3,
            "uncertainty": "none",
            "observation_noise": 0.1,
        },
        slow_convolution,
        (*_NOISY, "kernel", "bias", *_FLOWS),
    ),
    "conv_sampled": Case(
        layers.PNConv,
        {
            "filters": 2,
            "num_basis": 3,
            "spacing": 0.3,
            "uncertainty": "sampled",
            "num_samples": 3,
            "num_waves": 5,
            "stream": 2,
            "observation_noise": 0.1,
        },
        slow_draws,
        (*_NOISY, "kernel", "bias", *_FLOWS),
    ),
    "relu": Case(layers.ProbReLU, {}, slow_rectifier, (), sporadic=True),
    "activation": Case(
        layers.ProbActivation, {"activation": {"negative_slope": 0.3}}, slow_leaky_rectifier, (),
        sporadic=True,
    ),
    "mix": Case(layers.ChannelMix, {"filters": 3}, slow_mixing, ("kernel", "bias"), sporadic=True),
    "norm": Case(
        layers.GPNormalization,
        {},
        slow_normalization,
        ("gamma", "beta", "moving_mean", "moving_variance", "updates"),
        sporadic=True,
    ),
    "pool": Case(layers.IntegralPooling, {"spacing": 0.3}, slow_pooling, _POOLING, pools=True),
    "pool_box": Case(
        layers.IntegralPooling,
        {"spacing": 0.3, "box": (0.0, [1.0, 1.2])},
        slow_pooling,
        _POOLING,
        pools=True,
    ),
    "pool_disc": Case(
        layers.IntegralPooling,
        {"spacing": 0.3, "disc": ((0.4, 0.6), 0.7)},
        slow_pooling,
        _POOLING,
        pools=True,
    ),
    "pool_channel": Case(
        layers.IntegralPooling,
        {"spacing": 0.3, "box": (0.0, 1.0), "noise": "channel", "observation_noise": 0.1},
        slow_pooling,
        (*_NOISY, "log_unit"),
        sporadic=True,
        pools=True,
    ),
    # What is particular to fields is in test_steerable_layers.py.
    "steerable_conv": Case(
        layers.SteerablePNConv,
        {"fields": {0: 1, 1: 1}, "in_fields": {1: 1}, "frequencies": (0, 1), "num_basis": 1,
         "spacing": 0.3, "seed": 3},
        slow_steerable_convolution,
        (
            *_PRIOR, "antisymmetric", "symmetric", "factors", "kernel_0", "kernel_1", "bias",
            *_UNITS,
        ),
    ),
    "steerable_sampled": Case(
        layers.SteerablePNConv,
        {"fields": {0: 1, 1: 1}, "in_fields": {1: 1}, "frequencies": (0, 1), "num_basis": 1,
         "spacing": 0.3, "seed": 3, "uncertainty": "sampled", "num_samples": 3, "num_waves": 5,
         "stream": 2, "observation_noise": 0.1},
        slow_field_draws,
        (*_NOISY, "antisymmetric", "symmetric", "factors", "kernel_0", "kernel_1", "bias",
         *_UNITS),
    ),
    "gated_relu": Case(layers.GatedReLU, {"fields": 2}, slow_rectifier, (), sporadic=True),
    "steerable_mix": Case(
        layers.SteerableMix, {"fields": {1: 2}, "in_fields": {1: 1}}, slow_vector_mixing,
        ("kernel_1",),
    ),
    "steerable_norm": Case(
        layers.SteerableNormalization,
        {"fields": {1: 1}},
        slow_vector_normalization,
        ("gamma", "moving_variance", "updates"),
    ),
}  # fmt: skip

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
# Float32 has a way of its own where a prior is conditioned, but draws are conditioned in float64.
where_dtypes_differ = pytest.mark.parametrize(
    "case, dtype",
    [
        pytest.param(case, dtype, id=f"{name}-{dtype}")
        for name, case in CASES.items()
        for dtype in ("float64", "float32")
        if dtype == "float64" or ("log_signal_std" in case.weights and "sampled" not in name)
    ],
)
# Of each kind of layer, and of each way to condition, one is compiled by XLA: it takes seconds.
COMPILED = (
    *("conv", "conv_channel", "conv_sampled", "relu", "mix", "norm", "pool_box"),
    *("steerable_conv", "gated_relu", "steerable_mix", "steerable_norm"),
)
every_compiled_case = pytest.mark.parametrize(
    "case", [CASES[name] for name in COMPILED], ids=COMPILED
)
every_layer = pytest.mark.parametrize(
    "case",
    {case.layer: case for case in reversed(CASES.values())}.values(),  # the first one of each
    ids=lambda case: case.layer.__name__,
)

# Every constructor argument away from its default, or None if another argument excludes it.
LOCAL = {"conditioning": "local", "block_size": 5, "neighbors": 6}
OTHER_ARGUMENTS = {
    layers.PNConv: {
        "filters": 4,
        "num_basis": 3,
        "spacing": 0.2,
        "signal_std": 1.5,
        "length_scale": 0.4,
        "observation_noise": 0.2,
        "noise": "channel",
        "prior": "channel",
        "kernel": "matern32",
        "uncertainty": "none",
        "rank": 3,
        "num_samples": 3,
        "num_training_samples": 2,
        "num_waves": 5,
        "stream": 2,
        "variance_estimator": "stochastic",
        "num_probes": 5,
        "probes": "gaussian",
        "seed": 1,
        "double_precision": False,
        **LOCAL,
        "common_points": None,  # test_common_points.py
        "use_bias": False,
        "train_bias": False,
        "kernel_initializer": "glorot_uniform",
        "bias_initializer": "ones",
        "marginal_likelihood_weight": 0.01,
        "marginal_likelihood_trains": "all",
    },
    layers.ProbReLU: {},
    layers.ProbActivation: {"activation": "gelu"},
    layers.ChannelMix: {
        "filters": 5,
        "use_bias": False,
        "train_bias": False,
        "kernel_initializer": "glorot_uniform",
        "bias_initializer": "ones",
    },
    layers.GPNormalization: {"momentum": 0.5, "epsilon": 1e-2},
    layers.IntegralPooling: {
        "box": None,
        "disc": {"centre": [0.1, 0.2], "radius": 0.8},
        "ball": None,
        "double_precision": False,
        **LOCAL,
        "unit": 0.5,
        "num_waves": 5,
        "stream": 2,
        "seed": 1,
        "spacing": 0.2,
        "signal_std": 1.5,
        "length_scale": 0.4,
        "observation_noise": 0.2,
        "noise": "channel",
        "kernel": "matern52",
        "marginal_likelihood_weight": 0.01,
        "marginal_likelihood_trains": "all",
    },
    layers.SteerablePNConv: {
        "fields": [[0, 1], [1, 1]],
        "num_basis": 3,
        "in_fields": [[0, 2]],
        "frequencies": [0, 1],
        "constraint": "free",
        "flows": None,
        "spacing": 0.2,
        "signal_std": 1.5,
        "length_scale": 0.4,
        "observation_noise": 0.2,
        "noise": "channel",
        "kernel": "matern32",
        "uncertainty": "none",
        "num_samples": 3,
        "num_training_samples": 2,
        "num_waves": 5,
        "stream": 2,
        "use_bias": False,
        "seed": 7,
        "marginal_likelihood_weight": 0.01,
        "marginal_likelihood_trains": "all",
        "double_precision": False,
        "spatial_dim": 3,
        "group": "SO3",
        **LOCAL,
        "common_points": None,  # test_common_points.py
    },
    layers.GatedReLU: {"fields": [[0, 2]], "gates": "own", "spatial_dim": 3, "group": "SO3"},
    layers.SteerableMix: {
        "fields": [[0, 2]],
        "in_fields": [[0, 2]],
        "use_bias": False,
        "train_bias": False,
        "spatial_dim": 3,
        "group": "SO3",
    },
    layers.SteerableNormalization: {
        "fields": [[0, 2]],
        "momentum": 0.5,
        "epsilon": 1e-2,
        "spatial_dim": 3,
        "group": "SO3",
    },
}
