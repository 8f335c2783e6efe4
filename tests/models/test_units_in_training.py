"""Training gives the same result whatever the units of points and values."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfpn

EPOCHS = 2  # of one step
# Microseconds and years beside the unit of the data, alternately.
UNITS = 1e-6, 1e6
BOX, STAY = ((0.0, 0.0), (1.0, 2.0)), (0.0, 4.0)
DISC = {"centre": (0.5, 1.0), "radius": 1.5}


def plane(rng, channels=1):
    values = rng.normal(size=(6, 8, channels))
    return tfpn.observations(rng.uniform(size=(6, 8, 2)) * [1.0, 2.0], values, 0.01)


def series(rng):
    values = rng.normal(size=(6, 8, 2))
    values[rng.uniform(size=values.shape) > 0.6] = np.nan
    return tfpn.observations(rng.uniform(0, 4, size=(6, 8, 1)), values, 0.01)


def scaled(pooling, unit):
    if isinstance(pooling, str):
        return pooling
    if isinstance(pooling, dict):
        centre = tuple(unit * number for number in pooling["centre"])
        return {"centre": centre, "radius": unit * pooling["radius"]}
    return tuple(tuple(unit * np.array(side)) if np.ndim(side) else unit * side for side in pooling)


MIXTURE = {"weights": [0.5, 0.5], "scales": [1.0, 3.0]}
SMALL = {"num_blocks": 2, "num_basis": 2, "dtype": "float64", "marginal_likelihood_weight": 0.1}
PLAIN, TURNING = tfpn.models.PNCNN, tfpn.models.SteerablePNCNN
SERIES = tfpn.models.PNTimeSeries
STEERABLE = {**SMALL, "copies": 2, "frequencies": (0, 1), "num_blocks": 1, "seed": 0}
CASES = {
    "box": (PLAIN, plane, {**SMALL, "channels": 3, "kernel": MIXTURE, "num_blocks": 1}, BOX),
    "grid": (SERIES, series, {**SMALL, "channels": 3, "in_channels": 2, "query": 5}, STAY),
    "union": (
        SERIES, series,
        {**SMALL, "channels": 3, "in_channels": 2, "missingness": "intensity", "clock": True,
         "windows": 2, "num_blocks": 1},
        STAY,
    ),
    "turning": (TURNING, plane, {**STEERABLE, "constraint": "dissipative"}, DISC),
    "free": (TURNING, plane, {**STEERABLE, "constraint": "free"}, "space"),
}  # fmt: skip


def trained(case, unit, values=1.0):
    """Losses of some steps, with points in units of 1 / ``unit`` and readings of 1 / ``values``."""
    kind, data, options, pooling = CASES[case]
    keras.utils.set_random_seed(0)
    x = data(np.random.default_rng(0))
    x["points"] = unit * x["points"]
    x["values"], x["variance"] = values * x["values"], np.square(values) * x["variance"]
    model = kind(3, pooling=scaled(pooling, unit), **options)
    model.adapt(x)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # At such a rate each step moves a drift by a twentieth of a spacing.
    model.compile(keras.optimizers.Adam(0.05 / 8), loss)
    # Keras would cast arrays to float32.
    batches = tf.data.Dataset.from_tensor_slices((x, np.arange(6) % 3)).batch(6)
    history = model.fit(batches, epochs=EPOCHS, shuffle=False, verbose=0)
    return np.array(history.history["task_loss"]), flows(model.get_layer("conv_1"))


def flows(layer):
    """The weights of a layer's flows as one vector."""
    weights = getattr(layer, "generator_weights", None)
    weights = weights.values() if weights else (layer.drift, layer.diffusion_factor)
    return np.concatenate([np.ravel(weight) for weight in weights])


@pytest.mark.parametrize(("number", "case"), list(enumerate(CASES)), ids=str)
def test_losses_do_not_depend_on_the_unit(number, case):
    expected, moved = trained(case, 1.0)
    assert abs(expected[1] - expected[0]) > 1e-3
    found, again = trained(case, UNITS[number % 2])
    # Rounding of coordinates, 1e-16, through systems of a condition of 1e4 and some steps of Adam,
    # which divides by gradients that may be a thousandth of the largest.
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    np.testing.assert_allclose(again, moved, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("case", "unit"), [("box", 1e-5), ("grid", np.array([1e-5, 1e4])), ("turning", 1e5)], ids=str
)
def test_losses_do_not_depend_on_the_unit_of_the_values(case, unit):
    """Of all channels, or of each where each has its own prior. Tolerances of flows as above."""
    expected, moved = trained(case, 1.0)
    found, again = trained(case, 1.0, unit)
    np.testing.assert_allclose(found, expected, rtol=3e-7)  # Keras keeps means in float32
    np.testing.assert_allclose(again, moved, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("level", [1e-200, 1e-25, 1e25, 1e200])
@pytest.mark.parametrize("kind", [PLAIN, SERIES])
def test_values_whose_square_has_no_number_are_refused(kind, level):
    channels = {PLAIN: 1, SERIES: 2}[kind]
    x = {PLAIN: plane, SERIES: series}[kind](np.random.default_rng(0))
    x["values"], x["variance"] = level * x["values"], np.where(np.isinf(x["variance"]), np.inf, 0)
    model = kind(3, pooling="space", in_channels=channels, channels=2, num_blocks=1, num_basis=1)
    with pytest.raises(ValueError, match="root mean square .*, whose square float32 cannot hold"):
        model.adapt(x)


@pytest.mark.parametrize("layer", [tfpn.layers.PNConv, tfpn.layers.SteerablePNConv])
def test_gradients_of_a_layer_that_was_made_for_a_spacing(layer):
    """Without `adapt`: the same output, and the same gradients by the flows' weights."""
    x = plane(np.random.default_rng(0))

    def one(unit):
        keras.utils.set_random_seed(0)
        options = {} if layer is tfpn.layers.PNConv else {"seed": 0}
        made = layer(3, spacing=0.2 * unit, dtype="float64", **options)
        with tf.GradientTape() as tape:
            output = made({**x, "points": unit * x["points"]})
            total = tf.reduce_sum(tf.square(output["values"]))
        weights = getattr(made, "generator_weights", None)
        weights = list(weights.values()) if weights else [made.drift, made.diffusion_factor]
        gradients = tape.gradient(total, [weight.value for weight in weights])
        return np.concatenate([np.ravel(t) for t in (output["values"], *gradients)])

    np.testing.assert_allclose(one(1e6), one(1.0), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("lacking", [1, 2])
def test_layers_stored_without_units_have_those_of_points_and_values(lacking):
    """As they were stored before: kernels for values as they are, kept bit for bit."""
    x = plane(np.random.default_rng(0))
    for kind in (tfpn.layers.PNConv, tfpn.layers.SteerablePNConv):
        layer, other = kind(3, spacing=0.2), kind(3, spacing=0.4)
        layer(x), other(x)
        weights = [*layer.trainable_weights, *layer.non_trainable_weights]
        assert weights[-2] is layer.log_flow_unit and weights[-1] is layer.log_value_unit
        other.log_value_unit.assign(3.0)
        if lacking == 2:
            layer.log_flow_unit.assign(0.0)
        store = {str(k): np.asarray(weight) for k, weight in enumerate(weights[:-lacking])}
        other.load_own_variables(store)
        np.testing.assert_array_equal(other(x)["values"], layer(x)["values"])
        with pytest.raises(ValueError, match="expected .* variables, but received 2"):
            other.load_own_variables({key: store[key] for key in ("0", "1")})
