"""Small models and inputs for the tests of PNCNN."""

import keras
import numpy as np

import tfpn

KEYS = ("points", "values", "variance")
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def small(num_classes=3, **changes):
    arguments = {"channels": 4, "num_blocks": 2, "num_basis": 3, "spacing": 0.25, **changes}
    return tfpn.models.PNCNN(num_classes, **arguments)


def make_batch(dtype=np.float32, channels=1, sporadic=False, examples=5, points=7, seed=0):
    """Random examples; the second has three padding points, the third no observation."""
    rng = np.random.default_rng(seed)
    shape = (examples, points, channels)
    x = {
        "points": rng.uniform(size=(examples, points, 2)),
        "values": rng.normal(size=shape),
        "variance": rng.uniform(0.0, 0.05, size=shape),
    }
    if sporadic:
        x["variance"][0, 2, 0] = x["variance"][0, 3, -1] = np.inf
    x["variance"][1, 4:] = x["variance"][2] = np.inf
    x["values"][np.isinf(x["variance"])] = 0.0
    return {key: value.astype(dtype) for key, value in x.items()}


def perturb(model, seed=1):
    """Moves every weight, so that no zero or one hides a mistake."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(np.asarray(weight) + rng.uniform(0.02, 0.1, weight.shape))


def separable(examples=40, points=12, seed=0):
    """Two classes of waves that differ in their sign."""
    rng = np.random.default_rng(seed)
    where = rng.uniform(size=(examples, points, 2)).astype("float32")
    labels = np.arange(examples) % 2
    wave = np.cos(2.0 * where.sum(-1) - 2.0) * (2 * labels[:, None] - 1)
    return tfpn.observations(where, wave + 0.05 * rng.normal(size=wave.shape)), labels


def as_float32(x):
    return {key: value.astype("float32") for key, value in x.items()}
