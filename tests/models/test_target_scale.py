"""Regression in any unit of the targets, and what `fit` warns of before the first step."""

import warnings

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

import tfpn
from tfpn.models.target_scale import TargetScale

SMALL = {"num_blocks": 1, "num_basis": 1, "dtype": "float64"}
MODELS = {
    "planar": lambda: tfpn.models.PNCNN(
        None, num_outputs=2, channels=2, pooling=(0.0, 1.0), **SMALL
    ),
    "series": lambda: tfpn.models.PNTimeSeries(
        None, num_outputs=1, channels=2, query=3, **SMALL
    ),
    "fields": lambda: tfpn.models.SteerablePNCNN(
        None, out_fields={0: 1, 1: 1}, copies=1, frequencies=(0, 1), seed=0, **SMALL
    ),
}  # fmt: skip
# Of the targets' two channels or three; a vector can be scaled only.
AFFINE = {
    "planar": ([-5e4, 3e-3], [2e5, 0.7]),
    "fields": ([-3e-3, 5e4, 5e4], [0.7, 0.0, 0.0]),
}


def problem(name):
    rng = np.random.default_rng(0)
    dim = 1 if name == "series" else 2
    points = rng.uniform(size=(6, 8, dim))
    x = tfpn.observations(points, rng.normal(size=(6, 8)), 0.01)
    shape = {"planar": (6, 2), "fields": (6, 4, 3)}.get(name, (6, 1))
    if name == "fields":
        x["query"] = rng.uniform(size=(6, 4, 2))
    return x, rng.normal(size=shape)


def trained(name, y, steps=2):
    keras.utils.set_random_seed(0)
    x, model = problem(name)[0], MODELS[name]()
    model.adapt(x, y)
    model.compile(keras.optimizers.Adam(0.03), "mse", metrics=["mae"])
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(6)
    return model, model.fit(batches, epochs=steps, verbose=0).history, batches


@pytest.mark.parametrize("name", AFFINE)
def test_the_same_for_any_affine_change_of_the_targets(name):
    x, y = problem(name)
    factor, shift = map(np.array, AFFINE[name])
    (model, history, batches), (other, changed, others) = (
        trained(name, targets) for targets in (y, factor * y + shift)
    )
    # Float64: (y - mean) / deviation has lost |mean| / deviation <= 250, and Adam divides gradients
    # by their size, of which the smallest are some 1e-6.
    close = {"rtol": 1e-7}
    np.testing.assert_allclose(changed["loss"], history["loss"], **close)
    assert history["loss"][-1] < history["loss"][0]
    expected = model(x).numpy()
    size = np.abs(factor) * np.std(expected)
    found = other(x).numpy()
    np.testing.assert_allclose((found - shift) / size, factor * expected / size, atol=1e-7)
    # Metrics are in the targets' unit.
    measured = other.evaluate(others, verbose=0, return_dict=True)
    assert measured["mae"] == pytest.approx(np.abs(found - factor * y - shift).mean(), rel=1e-5)
    for calibrated in (False, True):
        if calibrated:
            model.calibrate(x, y)
            other.calibrate(x, factor * y + shift)
        first, second = model.predict_distribution(x), other.predict_distribution(x)
        deviation = np.abs(factor) * first.stddev().numpy()
        # The calibration's optimiser ends where 2e-9 of the likelihood is left to gain, which is
        # quadratic in the deviation.
        close = 3e-4 if calibrated else 1e-6
        np.testing.assert_allclose(second.stddev(), deviation, rtol=close)
        np.testing.assert_allclose(
            (second.mean() - shift) / size, factor * first.mean() / size, atol=1e-7
        )
        np.testing.assert_allclose(second.mean(), found, rtol=1e-9)


def test_a_rotated_field_stays_a_rotated_field():
    x, y = problem("fields")
    model, turn = MODELS["fields"](), np.array([[0.6, -0.8], [0.8, 0.6]])
    model.adapt(x, 100.0 * y + [[[5.0, 7.0, 0.0]]])
    turned = {**x, "points": x["points"] @ turn.T, "query": x["query"] @ turn.T}
    expected = model(x).numpy()
    expected[..., 1:] @= turn.T
    np.testing.assert_allclose(model(turned).numpy(), expected, rtol=1e-9, atol=1e-9)


def test_saving_keeps_the_scale(tmp_path):
    x, y = problem("planar")
    model = MODELS["planar"]()
    model.adapt(x, 1e3 * y + 5.0)
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(x).numpy(), model(x).numpy())
    # A file of before there was a scale: the raw outputs.
    with h5py.File(tmp_path / "model.weights.h5", "a") as file:
        names = [name for name in file["layers"] if "target" in name]
        assert len(names) == 1
        del file["layers"][names[0]]
    older = MODELS["planar"]()
    older.load_weights(tmp_path / "model.weights.h5")
    raw = (model(x).numpy() - model._unit()[0]) / model._unit()[1]
    np.testing.assert_allclose(older(x).numpy(), raw, rtol=1e-9, atol=1e-12)


def test_statistics_are_those_of_what_was_measured():
    rng = np.random.default_rng(0)
    y = rng.normal(3.0, 50.0, size=(7, 4, 3))
    y[rng.uniform(size=y.shape) < 0.2] = np.nan
    layer = TargetScale([0, 1, 1])
    offset, scale = layer.statistics(y)
    np.testing.assert_allclose(offset, [np.nanmean(y[..., 0]), 0.0, 0.0])
    shared = np.sqrt(np.nanmean(np.square(y[..., 1:])))
    np.testing.assert_allclose(np.abs(scale), [np.nanstd(y[..., 0]), shared, shared])
    assert np.all(scale[1:] > 0)
    # All the same: nothing to scale by. Near the limits of float64: no square overflows.
    assert [float(t[0]) for t in TargetScale([0]).statistics(np.full(9, 0.1))] == [0.1, 1.0]
    np.testing.assert_allclose(TargetScale([0]).statistics([1e300, -1e300]), [[0.0], [1e300]])


def test_a_data_set_of_pairs_and_one_output_without_an_axis():
    x, y = problem("series")
    models = [MODELS["series"]() for _ in range(3)]
    models[0].adapt(x, y * 1e3)
    models[1].adapt(x, y[:, 0] * 1e3)
    models[2].adapt(tf.data.Dataset.from_tensor_slices((x, y * 1e3)).batch(4))
    assert abs(models[0]._unit()[1][0]) > 100.0
    for model in models[1:]:
        np.testing.assert_array_equal(model._unit(), models[0]._unit())
    models[2].adapt(x)  # leaves it
    np.testing.assert_array_equal(models[2]._unit(), models[0]._unit())


@pytest.mark.parametrize(
    "name, change, error, message",
    [
        ("planar", lambda y: y[:, :1], ValueError, r"shape \(6, 1\); the model has 2 output\(s\)"),
        ("planar", lambda y: y[:4], ValueError, "targets has 4 examples, but the data have 6"),
        ("planar", lambda y: y * [1, np.nan], ValueError, r"only NaN for the output\(s\) \[1\]"),
        ("planar", lambda y: y / [1, 0], ValueError, "targets holds infinity"),
        ("planar", lambda y: y * 1e306, ValueError, "does not hold: give them in another unit"),
        ("series", lambda y: y.astype(str) + "m", TypeError, "targets must be an array of numbers"),
    ],
)
def test_what_are_no_targets(name, change, error, message):
    x, y = problem(name)
    with pytest.raises(error, match=message), np.errstate(divide="ignore"):
        MODELS[name]().adapt(x, change(y))


def test_a_classifier_takes_no_targets():
    x, _ = problem("planar")
    model = tfpn.models.PNCNN(2, channels=2, **SMALL)
    with pytest.raises(ValueError, match="has no outputs to scale, so it takes no targets"):
        model.adapt(x, np.zeros(6))


class TestWarnings:
    def fit(self, name, y, adapt=False, **arguments):
        """What one step of training warns of."""
        x = {key: array.astype("float32") for key, array in problem(name)[0].items()}
        model = tfpn.models.PNCNN(
            **{"num_classes": None, "num_outputs": 2} if name == "planar" else {"num_classes": 5},
            channels=2, num_blocks=1, num_basis=1,
        )  # fmt: skip
        model.adapt(x, *[y] * adapt)
        loss = "mse" if name == "planar" else keras.losses.SparseCategoricalCrossentropy(True)
        model.compile("sgd", loss)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            if arguments.pop("batches", False):
                batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(6)
                model.fit(batches, shuffle=False, verbose=0)
            else:
                model.fit(x, y, verbose=0, **arguments)
        # TensorFlow warns of data sets that run eagerly.
        return [str(w.message) for w in found if "training" in str(w.message)]

    @pytest.mark.parametrize("batches", [False, True])
    def test_targets_far_from_unit_scale(self, batches):
        y = problem("planar")[1].astype("float32")
        changes = (1e3 * y, 1e-3 * y, y + 50.0, y * np.float32([1, 100]))
        for change in changes[3:] if batches else changes:
            (message,) = self.fit("planar", change, batches=batches)
            assert "call adapt(x, targets) before fit" in message
        assert self.fit("planar", 1e3 * y, adapt=True, batches=batches) == []
        assert self.fit("planar", y, batches=batches) == []

    def test_a_class_that_is_held_back_whole(self):
        sorted_labels = np.array([0, 1, 1, 2, 2, 4])
        (message,) = self.fit("classes", sorted_labels, validation_split=0.2)
        assert "the last 2 examples, which have the class(es) [4], which no training" in message
        mixed = sorted_labels[[5, 3, 1, 0, 2, 4]]
        assert self.fit("classes", mixed, validation_split=0.2) == []
        x = {key: array.astype("float32") for key, array in problem("classes")[0].items()}
        (message,) = self.fit("classes", mixed, validation_data=(x, np.array([0, 1, 2, 3, 3, 4])))
        assert "validation_data has the class(es) [3]" in message
        assert self.fit("classes", mixed, validation_data=(x, mixed)) == []


@pytest.mark.parametrize(("name", "scale"), [("planar", 1e34), ("fields", 1e-34)])
def test_deviations_whose_squares_float32_does_not_hold(name, scale):
    x, y = problem(name)
    x = {key: value.astype("float32") for key, value in x.items()}
    found, plain = [], MODELS[name]()
    for factor in (1.0, scale):
        keras.utils.set_random_seed(0)
        model = type(plain).from_config({**plain.get_config(), "dtype": "float32"})
        model.adapt(x, factor * y)
        found.append([model.predict_distribution(x).stddev().numpy() / np.float32(factor)])
        model.calibrate(x, factor * y)
        found[-1].append(model.predict_distribution(x).stddev().numpy() / np.float32(factor))
    # Rounding; after the calibration as above, with its logarithm, up to 170, in float32.
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-5)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-3)


def test_calibration_on_targets_beyond_the_dtype_keeps_the_former():
    x, y = problem("planar")
    model = tfpn.models.PNCNN.from_config({**MODELS["planar"]().get_config(), "dtype": "float32"})
    model.adapt(x, 1e25 * y)
    model.calibrate(x, 1e25 * y)
    before = model._calibration.numpy()
    assert np.isfinite(before).all()
    for wrong in (1e39, 1e300):
        y[3, 1] = wrong
        with pytest.raises(ValueError, match=r"y is up to 1e\+\d* from .* for output 1"):
            model.calibrate(x, 1e25 * y if wrong == 1e39 else y)
        np.testing.assert_array_equal(model._calibration, before)
