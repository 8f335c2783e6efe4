"""Small models, records and options for the tests of PNTimeSeries."""

import keras
import numpy as np
import pytest

import tfpn
from tfpn.models import PNTimeSeries

KEYS = ("points", "values", "variance")
CHANNELS = 3
# Float64. Conditioning: noise variances of 0.01 against signals of 1, so 1e4 times 1e-16 and a
# few more digits for sums in another order.
EXACT = {"rtol": 1e-9, "atol": 1e-10}
every_option = pytest.mark.parametrize(
    "options",
    [
        {},
        {"missingness": "intensity"},
        {"missingness": "intensity", "query": 7},
        {"missingness": "counts", "num_statics": 2, "query": 7},
        {"missingness": "counts", "num_statics": 2, "context": "both", "clock": True, "windows": 2},
        {"uncertainty": "none", "input_prior": "shared"},
    ],
    ids=lambda options: "-".join(map(str, options.values())) or "default",
)


def records(examples=5, size=9, statics=False, seed=0):
    """Channels read at 40 % of the times; one never read in record 1, record 2 empty, record 3
    with a single reading."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(examples, size, CHANNELS))
    values[rng.uniform(size=values.shape) > 0.4] = np.nan
    values[1, :, 1] = np.nan
    values[2] = np.nan
    values[3] = np.nan
    values[3, 4, 2] = 0.7
    variance = rng.uniform(0.0, 0.05, size=values.shape)
    x = tfpn.observations(rng.uniform(0, 4, size=(examples, size, 1)), values, variance)
    if statics:
        x["statics"] = rng.normal(size=(examples, 2))
        x["statics_variance"] = np.where(rng.uniform(size=(examples, 2)) < 0.3, np.inf, 0.0)
    return x


def small(num_classes=2, dtype="float64", perturbed=True, **options):
    options = {"channels": 4, "num_blocks": 2, "num_basis": 3, "query": "union", **options}
    keras.utils.set_random_seed(0)
    model = PNTimeSeries(
        num_classes, in_channels=CHANNELS, pooling=(0.0, 4.0), spacing=0.5, dtype=dtype, **options
    )
    if perturbed:  # so that no zero or one hides a mistake
        rng = np.random.default_rng(1)
        for weight in model.weights:
            weight.assign(np.asarray(weight) + rng.uniform(0.02, 0.1, weight.shape))
    return model


def inputs(model, **options):
    return records(statics="statics" in model.inputs_dict, **options)


def layer_output(model, x, name):
    """What a layer of the network makes of an input."""
    found = keras.Model(model.inputs_dict, model.get_layer(name).output)(x)
    keys = KEYS if len(found) == 3 else ("values", "variance")  # Keras flattens dicts by key
    return dict(zip(keys, (tensor.numpy() for tensor in found), strict=True))


def outputs(model, x):
    result = np.asarray(model(x))
    assert np.all(np.isfinite(result))
    return result


def split(x, rng):
    """Every observation in a row of its own, the rows in random order, and some padding."""
    parts = {key: [] for key in KEYS}
    for points, values, variance in zip(*(x[key] for key in KEYS), strict=True):
        rows, channels = np.nonzero(np.isfinite(variance))
        order = rng.permutation(len(rows))
        rows, channels = rows[order], channels[order]
        alone = np.full((len(rows), CHANNELS), np.nan)
        alone[np.arange(len(rows)), channels] = values[rows, channels]
        noise = np.full(alone.shape, np.inf)
        noise[np.arange(len(rows)), channels] = variance[rows, channels]
        for key, array in zip(KEYS, (points[rows], alone, noise), strict=True):
            parts[key].append(array)
    return {**x, **tfpn.observations(*(parts[key] for key in KEYS))}
