"""The time-series model with draws: what goes beside its convolutions, and what changes nothing."""

import keras
import numpy as np
import pytest

import tfpn

EXAMPLES, TIMES, CHANNELS = 4, 6, 2


def series(seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(EXAMPLES, TIMES, CHANNELS))
    values[rng.uniform(size=values.shape) < 0.4] = np.nan
    values[:, 0] = 1.0
    x = dict(tfpn.observations(rng.uniform(0.0, 48.0, size=(EXAMPLES, TIMES, 1)), values))
    x["statics"] = rng.normal(size=(EXAMPLES, 1))
    x["statics_variance"] = np.zeros((EXAMPLES, 1))
    return x, rng.integers(0, 2, size=EXAMPLES)


def split_rows(x):
    """The readings of the channels in rows of their own, in another order."""
    order = np.random.default_rng(5).permutation(2 * TIMES)
    found = dict(x)
    for key in ("points", "values"):
        found[key] = np.concatenate([x[key], x[key]], axis=1)[:, order]
    first, second = x["variance"].copy(), x["variance"].copy()
    first[..., 0], second[..., 1:] = np.inf, np.inf
    found["variance"] = np.concatenate([first, second], axis=1)[:, order]
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": 4, "windows": 2, "clock": True, "context": "both", "missingness": "intensity"},
        {"missingness": "counts", "context": "features"},
        {"missingness": "intensity", "input_noise": "channel", "input_prior": "shared"},
    ],
    ids=["grid", "union", "shared prior"],
)
def test_everything_beside_the_series_takes_draws(arguments):
    x, y = series()
    keras.utils.set_random_seed(1)
    model = tfpn.models.PNTimeSeries(
        in_channels=CHANNELS, num_statics=1, channels=3, num_blocks=2, num_basis=2,
        uncertainty="sampled", pooling=(0.0, 48.0), num_samples=3, num_waves=16, **arguments
    )  # fmt: skip
    model.adapt(x)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(x, y, verbose=0)
    assert np.isfinite(history.history["loss"][0])
    logits = model.predict(x, verbose=0)
    # Some hundred roundings in single precision, in systems of condition 1e3.
    close = {"rtol": 1e-3, "atol": 1e-3}
    reverse = {key: value[::-1] for key, value in x.items()}
    np.testing.assert_allclose(
        model.predict(reverse, batch_size=3, verbose=0)[::-1], logits, **close
    )
    np.testing.assert_allclose(model.predict(split_rows(x), verbose=0), logits, **close)
    np.testing.assert_allclose(model.predict_distribution(x).mean().shape, logits.shape)
    moments = model._moments.predict(x, verbose=0)
    np.testing.assert_allclose(moments["draws"].mean(1), moments["values"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(moments["draws"].var(1), moments["variance"], rtol=1e-3, atol=1e-5)
    for block in model.blocks:
        features = keras.Model(model.inputs_dict, block.given)(x)
        features = features.get("observations", features)
        if "draws" in features:
            known = np.isfinite(features["variance"])
            mean = np.mean(features["draws"], axis=1)
            np.testing.assert_allclose(mean[known], features["values"][known], atol=1e-4)
