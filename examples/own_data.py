"""Classify your own irregular time series: from lists of samples to a saved model.

Two sensors of a machine are read at irregular times, and some readings fail. The script generates
the series. Replace `read_series` by a function that reads yours.

    python examples/own_data.py
"""

import tempfile
from pathlib import Path

import keras
import numpy as np

import tfpn

CLASSES = ("steady", "drifting", "oscillating")
NOISE = 0.1  # standard deviation of a reading


def read_series(number, seed):
    """Times [N_i, 1] in hours, readings [N_i, 2] and labels; each series has its own N_i."""
    rng = np.random.default_rng(seed)
    times, readings, labels = [], [], rng.integers(len(CLASSES), size=number)
    for label in labels:
        t = np.sort(rng.uniform(0, 10, size=rng.integers(12, 30)))
        phase = rng.uniform(0, 2 * np.pi)
        shape = (np.zeros_like(t), 0.3 * (t - 5), np.sin(2 * t + phase))[label]
        signal = np.stack([shape, 0.5 * shape + rng.normal()], axis=-1)
        signal += NOISE * rng.normal(size=signal.shape)
        signal[rng.uniform(size=len(t)) < 0.1] = np.nan  # the reading failed
        times.append(t[:, None])
        readings.append(signal)
    return times, readings, labels


def load(number, seed):
    times, readings, labels = read_series(number, seed)
    # Ragged lists and NaN become arrays, in which a variance of +inf means "not observed".
    x = tfpn.observations(times, readings, variance=NOISE**2)
    return {key: array.astype("float32") for key, array in x.items()}, labels


def main():
    keras.utils.set_random_seed(0)
    x, y = load(300, seed=1)
    x_test, y_test = load(150, seed=2)
    print({key: array.shape for key, array in x.items()})

    model = tfpn.models.PNCNN(
        num_classes=len(CLASSES),
        channels=8,
        num_blocks=1,
        num_basis=5,
        spatial_dim=1,
        in_channels=2,
    )
    model.adapt(x)  # takes the prior from the samples, and the flows from their spacing
    model.compile(
        optimizer=keras.optimizers.Adam(2e-2),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(x, y, batch_size=30, epochs=5, verbose=2)
    accuracy = model.evaluate(x_test, y_test, verbose=0, return_dict=True)["accuracy"]
    print(f"test accuracy {accuracy:.3f}")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "machine.keras"
        model.save(path)
        reloaded = keras.models.load_model(path)
    before, after = (m.predict(x_test, verbose=0) for m in (model, reloaded))
    print(f"largest change of a logit after reloading: {np.abs(before - after).max():.1e}")
    return accuracy, before, after


if __name__ == "__main__":
    main()
