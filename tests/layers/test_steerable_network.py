"""Networks of steerable layers: equivariant before and after training, and after saving."""

import keras
import numpy as np

from equivariance import SO2
from tfpn import layers

FIELDS = {0: 4, 1: 4, 2: 4}
OUT = {0: 3, 1: 2}
TURN = SO2.irrep(1).matrix


def network(dtype):
    """Scalars in, fields inside, scalars and vectors out."""
    inputs = {
        key: keras.Input((None, size), name=key, dtype=dtype)
        for key, size in (("points", 2), ("values", 2), ("variance", 2))
    }
    x, before = inputs, {0: 2}
    for block in range(1):
        convolution = layers.SteerablePNConv(
            FIELDS, in_fields=before, spacing=0.2, seed=block, dtype=dtype,
            marginal_likelihood_weight=0.01,
        )  # fmt: skip
        x = convolution(x)
        x = layers.GatedReLU(FIELDS, dtype=dtype)(x)
        x = layers.SteerableMix(FIELDS, in_fields=FIELDS, dtype=dtype)(x)
        x = layers.SteerableNormalization(FIELDS, dtype=dtype)(x)
        before = FIELDS
    last = layers.SteerablePNConv(OUT, in_fields=FIELDS, spacing=0.2, seed=9, dtype=dtype)
    return keras.Model(inputs, last(x))


def data(dtype, examples=6, size=20):
    rng = np.random.default_rng(0)
    x = {
        "points": rng.uniform(-0.5, 0.5, size=(examples, size, 2)),
        "values": rng.normal(size=(examples, size, 2)),
        "variance": np.full((examples, size, 2), 0.1),
    }
    x["variance"][0, -3:] = np.inf  # padding
    return {key: value.astype(dtype) for key, value in x.items()}


def largest_error(model, x):
    """The worst relative error of values and variances over rotations by random angles."""
    rho, errors = 3 * SO2.irrep(0) + 2 * SO2.irrep(1), []
    angles = np.random.default_rng(1).uniform(-np.pi, np.pi, size=3)
    points = [(x["points"] @ TURN(t).T).astype(x["points"].dtype) for t in (0.0, *angles)]
    # All in one call: most of its time is Python's.
    found = model(
        {**{key: np.tile(x[key], (4, 1, 1)) for key in x}, "points": np.concatenate(points)}
    )
    values, variance = (
        np.split(np.asarray(found[k], np.float64), 4) for k in ("values", "variance")
    )
    seen = np.isfinite(variance[0])
    for angle, turned, turned_variance in zip(angles, values[1:], variance[1:], strict=True):
        for now, expected in (
            (turned, values[0] @ rho.matrix(angle).T),
            (turned_variance, variance[0]),
        ):
            difference = np.max(np.abs(now[seen] - expected[seen]))
            errors.append(difference / np.max(np.abs(expected[seen])))
    return max(errors)


def test_rotates_before_and_after_training_and_saving(tmp_path):
    """In float64; the models' tests do the same in float32."""
    dtype, tolerance = "float64", 1e-10
    keras.utils.set_random_seed(0)
    model, x = network(dtype), data(dtype)
    assert largest_error(model, x) < tolerance
    trained = keras.Model(model.inputs, model.output["values"])
    # Few steps, quicker than tracing them.
    trained.compile(keras.optimizers.Adam(3e-2), "mse", run_eagerly=True)
    targets = np.random.default_rng(2).normal(size=(6, 20, 7)).astype(dtype)
    losses = trained.fit(x, targets, batch_size=6, epochs=2, verbose=0).history["loss"]
    assert np.all(np.isfinite(losses)) and losses[-1] < losses[0]
    assert largest_error(model, x) < tolerance
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(x)["values"], model(x)["values"], rtol=1e-5, atol=1e-6)
    assert largest_error(loaded, x) < tolerance
