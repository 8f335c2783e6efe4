"""Layers on fields, their inputs, and rotations of both, for the tests of these layers."""

import functools

import numpy as np
import pytest
from layer_harness import KEYS, perturb

from equivariance import SO2
from tfpn import layers
from tfpn.math.steerable import count_channels, read_fields

FIELDS = {0: 3, 1: 2, 2: 1}
SCALARS = {0: 2}

# Class, arguments, the input's fields, the output's.
CASES = {
    "conv": (layers.SteerablePNConv, {"fields": FIELDS, "in_fields": FIELDS}, FIELDS, FIELDS),
    "conv_scalars_in": (layers.SteerablePNConv, {"fields": FIELDS}, SCALARS, FIELDS),
    "conv_scalars_out": (
        layers.SteerablePNConv, {"fields": SCALARS, "in_fields": FIELDS}, FIELDS, SCALARS
    ),
    "conv_channel": (
        layers.SteerablePNConv,
        {"fields": FIELDS, "in_fields": FIELDS, "noise": "channel", "observation_noise": 0.2},
        FIELDS,
        FIELDS,
    ),
    "conv_none": (
        layers.SteerablePNConv,
        {"fields": FIELDS, "in_fields": FIELDS, "uncertainty": "none", "num_basis": 1},
        FIELDS,
        FIELDS,
    ),
    "conv_sampled": (
        layers.SteerablePNConv,
        {
            "fields": FIELDS, "in_fields": FIELDS, "uncertainty": "sampled", "num_samples": 3,
            "num_waves": 8, "observation_noise": 0.2,
        },
        FIELDS,
        FIELDS,
    ),
    "conv_free": (
        layers.SteerablePNConv,
        {"fields": FIELDS, "in_fields": FIELDS, "constraint": "free", "frequencies": (0, 1, 2, 3)},
        FIELDS,
        FIELDS,
    ),
    "relu": (layers.GatedReLU, {"fields": FIELDS}, FIELDS, FIELDS),
    "relu_own": (layers.GatedReLU, {"fields": {0: 4, 1: 2, 2: 1}, "gates": "own"},
                 {0: 4, 1: 2, 2: 1}, {0: 1, 1: 2, 2: 1}),
    "mix": (layers.SteerableMix, {"fields": {0: 2, 2: 3}, "in_fields": FIELDS}, FIELDS,
            {0: 2, 2: 3}),
    "norm": (layers.SteerableNormalization, {"fields": FIELDS}, FIELDS, FIELDS),
}  # fmt: skip
# Those of draws turn with their draws alone: in tests/math/test_sampled_fields.py.
turning_case = pytest.mark.parametrize("name", [name for name in CASES if name != "conv_sampled"])
every_case = pytest.mark.parametrize("name", CASES)


def make(name, dtype="float64", **changes):
    kind, arguments, *_ = CASES[name]
    if kind is layers.SteerablePNConv:
        arguments = {"spacing": 0.3, "seed": 3, **arguments}
    return kind(**{**arguments, **changes}, dtype=dtype)


def make_input(fields, dtype="float64", seed=0):
    """Three examples of six points: complete, with two padding points, without observation."""
    rng = np.random.default_rng(seed)
    channels = count_channels(read_fields(fields))
    points = rng.uniform(size=(3, 6, 2))
    values = rng.normal(size=(3, 6, channels))
    variance = np.repeat(rng.uniform(0.01, 0.1, size=(3, 6, 1)), channels, axis=-1)
    variance[1, 4:] = np.inf
    variance[2] = np.inf
    values[np.isinf(variance)] = 0.0
    return {k: v.astype(dtype) for k, v in zip(KEYS, (points, values, variance), strict=True)}


def built(name, dtype="float64", **changes):
    """A built layer with weights off their initial values."""
    layer = make(name, dtype, **changes)
    layer(make_input(CASES[name][2], dtype))
    perturb(layer)
    return layer


shared = functools.cache(built)  # for tests that do not change the layer


def rho(fields, angle):
    fields = read_fields(fields)
    return sum(n * SO2.irrep(m) for m, n in fields).matrix(angle)


def rotated(x, fields, angle):
    return {
        "points": (x["points"] @ SO2.irrep(1).matrix(angle).T).astype(x["points"].dtype),
        "values": (np.asarray(x["values"]) @ rho(fields, angle).T).astype(x["values"].dtype),
        "variance": np.asarray(x["variance"]),
    }


def assert_rotates(layer, x, fields_in, fields_out, tolerance, **options):
    output = {key: np.asarray(value) for key, value in layer(x, **options).items()}
    for angle in (0.4, 1.9, -2.6):
        found = layer(rotated(x, fields_in, angle), **options)
        expected = rotated(output, fields_out, angle)
        for key in KEYS:
            a, b = np.asarray(found[key], np.float64), np.asarray(expected[key], np.float64)
            finite = np.isfinite(b)
            np.testing.assert_array_equal(np.isfinite(a), finite)
            if finite.any():
                largest = max(np.max(np.abs(b[finite])), 1e-30)
                assert np.max(np.abs(a[finite] - b[finite])) <= tolerance * largest, key
