"""SteerablePNCNN: logits and fields that turn with the input, trained, calibrated, reloaded."""

import inspect
import json

import keras
import numpy as np
import pytest
import slow_gp
import tensorflow as tf

import tfpn
from equivariance import O2, SO2
from tfpn.models import SteerablePNCNN

# Graphs are trained and compared in test_steerable_keras.py and elsewhere.
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
DISC = {"centre": [0.5, 0.5], "radius": 0.6}
FIELDS = {0: 1, 1: 1}


def data(examples=4, points=20, fields=None, dtype=np.float32):
    """Exact smooth observations of a scalar, or of a type; the first example has padding."""
    rng = np.random.default_rng(0)
    where = rng.uniform(size=(examples, points, 2))
    phases = rng.uniform(0, 6, size=(examples, 1, 1))
    values = np.sin(6 * where[..., :1] + phases)
    if fields:
        values = np.concatenate([values * (k + 1) for k in range(fields)], axis=-1)
    variance = np.zeros_like(values)
    variance[0, -3:] = np.inf
    x = {"points": where, "values": values, "variance": variance}
    return {key: value.astype(dtype) for key, value in x.items()}


def with_query(x, count=7):
    """Points where a field is asked for, and targets that have something to do with the input."""
    query = np.random.default_rng(1).uniform(size=(len(x["points"]), count, 2))
    x = {**x, "query": query.astype(x["points"].dtype)}
    return x, np.concatenate([np.sin(6 * query[..., :1]), query - 0.5], axis=-1)


def small(num_classes=3, **changes):
    arguments = {"copies": 2, "num_blocks": 1, "num_basis": 1, "frequencies": (0, 1), **changes}
    arguments = {"spacing": 0.2, "seed": 1, **arguments}
    return SteerablePNCNN(num_classes, **arguments)


def numbers(distribution):
    return np.stack([distribution.mean(), distribution.stddev()])


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A classifier of two blocks after a short training, its data, and the same one reloaded."""
    keras.utils.set_random_seed(0)
    x, y = data(), np.array([0, 1, 2, 0])
    model = small(num_blocks=2, pooling=DISC)
    model.adapt(x)
    before = tfpn.check_equivariance(model, x, SO2, n=3)
    model.compile(keras.optimizers.Adam(1e-2), LOSS, metrics=["accuracy"])
    history = model.fit(x, y, epochs=2, batch_size=4, verbose=0).history
    path = tmp_path_factory.mktemp("models") / "classifier.keras"
    model.save(path)
    return model, x, keras.models.load_model(path), history, before


@pytest.fixture(scope="module")
def regressor(tmp_path_factory):
    """A regressor of a scalar and a vector field after a short training, calibrated, reloaded."""
    keras.utils.set_random_seed(0)
    x, y = with_query(data())
    model = small(None, out_fields=FIELDS)
    model.adapt(x)
    before = tfpn.check_equivariance(model, x, SO2, n=3)
    weights = np.ones(y.shape[:2])
    weights[0, 2] = 0.0
    missing = np.where(weights[..., None] > 0.0, y, 1e6)
    model.compile(keras.optimizers.Adam(0.1), "mse")
    fit = {"epochs": 4, "batch_size": 4, "verbose": 0}
    history = model.fit(x, missing, sample_weight=weights, **fit).history
    gaps = y.copy()
    gaps[0, 2], gaps[1, :, 0], gaps[2, 1, 1] = np.nan, np.nan, np.nan
    model.calibrate(x, gaps)
    path = tmp_path_factory.mktemp("models") / "regressor.keras"
    model.save(path)
    return model, x, keras.models.load_model(path), history, before, gaps


class TestClassifier:
    def test_trains(self, classifier):
        model, x, _, history, _ = classifier
        assert history["loss"][-1] < history["loss"][0]
        assert {"task_loss", "marginal_nll"} <= history.keys()
        parts = tfpn.callbacks.layer_likelihoods(model)
        assert parts.keys() == {"conv_1_nll", "conv_2_nll", "pooling_nll"}
        probabilities = model.predict_proba(x)
        assert probabilities.shape == (4, 3)
        np.testing.assert_allclose(probabilities.sum(-1), 1.0, rtol=1e-5)

    def test_rotations_change_nothing_before_and_after_training_and_saving(self, classifier):
        model, x, loaded, _, before = classifier
        for report in (
            before,
            tfpn.check_equivariance(model, x, SO2, n=3),
            tfpn.check_equivariance(loaded, x, SO2, n=3),
        ):
            assert set(report.errors) == {"values", "variance"}
            assert report.largest < 1e-5 and report.centre == (0.5, 0.5)

    def test_saving_keeps_the_outputs(self, classifier):
        model, x, loaded, _, _ = classifier
        assert type(loaded) is SteerablePNCNN
        np.testing.assert_array_equal(loaded(x), model(x))
        assert loaded.get_config() == model.get_config()

    def test_layers(self, classifier):
        model, x, _, _, _ = classifier
        names = ["conv_1", "relu_1", "mix_1", "norm_1", "conv_2", "relu_2", "mix_2", "norm_2"]
        assert [layer.name for layer in model.layers[3:]] == [
            *names,
            "pooling",
            "head",
            "temperature",
        ]
        assert [layer.name for layer in model.pn_layers] == ["conv_1", "conv_2", "pooling"]
        assert model.get_layer("norm_1").fields == ((0, 2), (1, 2))
        assert model.get_layer("norm_2").fields == ((0, 6),)  # scalars alone, as many channels

    def test_feature_maps_turn(self, classifier):
        model, x, _, _, _ = classifier
        query = x["points"][:1, :5]
        maps = model.feature_maps(x, query)
        assert [m["values"].shape for m in maps] == [(4, 5, 6), (4, 5, 6)]
        turn = SO2.irrep(1).matrix(0.8)
        turned = {**x, "points": (x["points"] @ turn.T).astype("float32")}
        rho = sum(2 * SO2.irrep(m) for m in range(2)).matrix(0.8)
        for found, one, matrix in zip(
            model.feature_maps(turned, (query @ turn.T).astype("float32")),
            maps,
            (rho, np.eye(6)),
            strict=True,
        ):
            for key, expected in (
                ("values", one["values"] @ matrix.T),
                ("variance", one["variance"]),
            ):
                scale = np.abs(expected).max()
                np.testing.assert_allclose(found[key], expected, rtol=0, atol=1e-5 * scale)


class TestFieldRegressor:
    def test_learns_without_the_missing_targets(self, regressor):
        _, _, _, history, _, _ = regressor
        assert history["loss"][-1] < 0.8 * history["loss"][0] < 100.0

    def test_fields_turn_before_and_after_training_and_saving(self, regressor):
        model, x, loaded, _, before, _ = regressor
        for report in (
            before,
            tfpn.check_equivariance(model, x, SO2, n=3),
            tfpn.check_equivariance(loaded, x, SO2, n=3),
        ):
            assert set(report.errors) == {"values", "variance"}
            assert report.largest < 1e-5

    def test_output_is_the_distributions_mean(self, regressor):
        model, x, _, _, _, _ = regressor
        distribution = model.predict_distribution(x)
        assert tuple(distribution.batch_shape) == (4, 7, 3) and distribution.event_shape == ()
        # Eager and compiled sums differ by rounding.
        np.testing.assert_allclose(distribution.mean(), model(x), rtol=1e-4, atol=1e-5)

    def test_calibration_is_one_for_each_field_and_of_largest_likelihood(self, regressor):
        model, x, _, _, _, gaps = regressor
        predicted = model.predict_distribution(x)
        variance = predicted.variance().numpy()
        np.testing.assert_array_equal(variance[..., 1], variance[..., 2])
        raw = model._moments({key: value for key, value in x.items()})["variance"].numpy()
        factor, noise = np.exp(model._calibration.numpy().astype(float))
        assert factor.shape == (2,)
        for channels, block in (([0], 0), ([1, 2], 1)):
            found = factor[block] * raw[..., channels] + noise[block]
            np.testing.assert_allclose(variance[..., channels], found, rtol=1e-3)
            residuals = (gaps - predicted.mean().numpy())[..., channels]
            seen = np.isfinite(residuals)

            def likelihood(scale, seen=seen, residuals=residuals, found=found):
                v = scale * found[seen]
                return -0.5 * np.sum(np.log(v) + residuals[seen] ** 2 / v)

            # A factor on both numbers is a direction in which it cannot be improved.
            assert likelihood(1.0) > max(likelihood(0.9), likelihood(1.1))

    def test_saving_keeps_the_distribution(self, regressor):
        model, x, loaded, _, _, _ = regressor
        np.testing.assert_array_equal(loaded(x), model(x))
        np.testing.assert_array_equal(
            numbers(loaded.predict_distribution(x)), numbers(model.predict_distribution(x))
        )

    def test_calibrate_errors(self, regressor):
        model, x, _, _, _, gaps = regressor
        before = model._calibration.numpy()
        for bad, message in (
            (gaps[..., :2], r"shape \(4, 7, 3\), found shape \(4, 7, 2\)"),
            (np.where(np.isnan(gaps), np.inf, gaps), "finite numbers"),
            (np.where([True, False, False], gaps, np.nan), r"output\(s\) \[1\]"),
        ):
            with pytest.raises(ValueError, match=message):
                model.calibrate(x, bad)
        np.testing.assert_array_equal(model._calibration, before)

    def test_far_from_the_readings_is_the_prior(self, regressor):
        model, x, _, _, _, _ = regressor
        far = {**x, "query": np.full_like(x["query"], 50.0)}
        near, distant = (model.predict_distribution(each).stddev() for each in (x, far))
        assert (np.asarray(distant) >= np.max(near, axis=(0, 1)) * 0.999).all()


@pytest.mark.parametrize("out_fields", [{0: 1}, {1: 1}], ids=["scalar", "vector"])
def test_slope_where_an_observation_is(out_fields):
    """By the query, in both dtypes, against central differences in float64."""
    rng = np.random.default_rng(0)
    points, values = rng.uniform(size=(1, 8, 2)), rng.normal(size=(1, 8, 1))
    x = {"points": points, "values": values, "variance": np.full_like(values, 0.01)}
    models = {
        dtype: small(None, out_fields=out_fields, copies=1, spacing=0.3, dtype=dtype)
        for dtype in ("float64", "float32")
    }
    models["float32"].set_weights(models["float64"].get_weights())

    def total(query):
        given = {key: tf.constant(value, query.dtype) for key, value in x.items()}
        return tf.reduce_sum(models[query.dtype.name]({**given, "query": query}))

    expected = slow_gp.differences(lambda query: total(tf.constant(query)), points[:, :1])
    # Of fourth order with a step of 1e-3, a 300th of the length scale; float32's tables, 1e-6,
    # times the condition number of 100.
    for dtype, tolerance in (("float64", 1e-7), ("float32", 1e-4)):
        query = tf.constant(points[:, :1], dtype)
        with tf.GradientTape() as tape:
            tape.watch(query)
            out = total(query)
        limit = tolerance * np.max(np.abs(expected))
        np.testing.assert_allclose(tape.gradient(out, query), expected, rtol=0, atol=limit)


class TestFloat64:
    """Untrained; errors of float64 after training are tested on the layers."""

    @pytest.mark.parametrize(
        "changes",
        [
            {"pooling": DISC, "num_basis": 2, "frequencies": (0, 1, 2), "num_blocks": 2},
            {"num_classes": None, "out_fields": FIELDS},
            {"pooling": "space"},
        ],
        ids=["disc", "fields", "space"],
    )
    def test_error_is_rounding(self, changes):
        keras.utils.set_random_seed(0)
        x = data(dtype=np.float64)
        model = small(**{"dtype": "float64", **changes})
        if "out_fields" in changes:
            x, _ = with_query(x)
        model.adapt(x)
        report = tfpn.check_equivariance(model, x, SO2, n=3)
        assert report.largest < 1e-10 and report.dtype == "float64"
        assert model(x).dtype == "float64"

    def test_fields_in_and_out(self):
        """Vectors in; the regressor of what no rotation changes."""
        x = data(fields=3, dtype=np.float64)
        model = small(
            None, num_outputs=2, in_fields=SO2.irrep(0) + SO2.irrep(1), dtype="float64",
            pooling=DISC,
        )  # fmt: skip
        model.adapt(x)
        assert model(x).shape == (4, 2)
        assert tfpn.check_equivariance(model, x, SO2, n=3).largest < 1e-10
        assert tfpn.check_equivariance(model, x, O2, n=6).largest > 1e-4  # reflections
        scalars = {"rep_in": 3}  # if the vectors did not turn
        assert tfpn.check_equivariance(model, x, SO2, n=3, **scalars).largest > 1e-4
        model.calibrate(x, np.random.default_rng(0).normal(size=(4, 2)))

    def test_neither_a_box_nor_pncnn_is_invariant(self):
        keras.utils.set_random_seed(0)
        x = data(dtype=np.float64)
        box = small(pooling=(0.0, 1.0), dtype="float64")
        assert tfpn.check_equivariance(box, x, SO2, n=3, centre=(0.5, 0.5)).largest > 1e-3
        plain = tfpn.models.PNCNN(3, channels=4, num_blocks=1, spacing=0.2, dtype="float64")
        assert tfpn.check_equivariance(plain, x, SO2, n=3).largest > 1e-2


def test_pncnn_pools_over_a_disc():
    x = data()
    model = tfpn.models.PNCNN(3, channels=4, num_blocks=1, num_basis=2, pooling=DISC)
    model.adapt(x)
    # In units of the disc's own size: the pooled mean is an average over it.
    unit = np.exp(float(model.get_layer("pooling").log_unit.numpy()))
    assert unit**2 == pytest.approx(np.pi * 0.6**2, rel=1e-6)
    assert np.isfinite(model.predict_distribution(x).covariance()).all()
    again = tfpn.models.PNCNN.from_config(json.loads(json.dumps(model.get_config())))
    assert again.get_layer("pooling").disc == DISC


def test_units_do_not_matter():
    """Coordinates in metres or kilometres: the same fields."""
    x, _ = with_query(data(dtype=np.float64))
    results = []
    for unit in (1.0, 1000.0):
        keras.utils.set_random_seed(0)
        model = small(None, out_fields=FIELDS, dtype="float64")
        moved = {**x, "points": unit * x["points"], "query": unit * x["query"]}
        model.adapt(moved)
        results.append(np.asarray(model(moved)))
    # Scaled coordinates are rounded; two layers amplify it.
    np.testing.assert_allclose(results[1], results[0], rtol=1e-8, atol=1e-10)


def test_without_uncertainty():
    x, _ = with_query(data())
    model = small(None, out_fields=2, uncertainty="none")
    assert model(x).shape == (4, 7, 2) and not model.finite_variance
    with pytest.raises(ValueError, match="uncertainty='none' and carries no variance"):
        model.predict_distribution(x)
    with pytest.raises(ValueError, match="infinite; build the model with"):
        small().predict_distribution(data())


def test_configuration_holds_every_argument():
    other = {
        "num_classes": None,
        "num_outputs": None,
        "out_fields": [[1, 1]],
        "num_blocks": 1,
        "num_basis": 1,
        "in_fields": [[0, 1], [1, 1]],
        "flow": None,  # in test_steerable_flows.py
        "constraint": "free",
        "uncertainty": "none",
        "num_samples": 3,
        "num_training_samples": 2,
        "num_waves": 5,
        "normalization": False,
        "kernel": "matern52",
        "spacing": 0.3,
        "input_noise": "channel",
        "observation_noise": None,
        "feature_noise": None,
        "marginal_likelihood_weight": 0.25,
        "pooling": "space",
        "seed": 3,
        "dtype": "float64",
        "name": "given",
        "trainable": False,
    } | {"conditioning": "local", "block_size": 40, "neighbors": 60, "spatial_dim": 2}
    other |= {"group": "O2", "fields": None, "copies": 3, "frequencies": [0, 1]}
    other |= {"num_query": 5, "common_points": False}  # True needs conditioning="exact"
    assert other.keys() == inspect.signature(SteerablePNCNN.__init__).parameters.keys() - {"self"}
    model = SteerablePNCNN(**other)
    config = json.loads(json.dumps(model.get_config()))
    assert config == other
    rebuilt = SteerablePNCNN.from_config(config)
    assert rebuilt.get_config() == other and rebuilt.trainable_weights == []
    assert [w.shape for w in rebuilt.weights] == [w.shape for w in model.weights]
    changed = {**other, "num_outputs": 2, "out_fields": None, "pooling": DISC}
    assert SteerablePNCNN(**changed).get_config() == changed


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"num_outputs": 2}, "give num_classes or num_outputs, not both"),
        ({"out_fields": 1}, "give out_fields or num_classes, not both"),
        ({"num_classes": None, "num_outputs": 1, "out_fields": 1}, "out_fields or num_outputs"),
        ({"num_classes": None, "out_fields": "x"}, "out_fields is no representation of"),
        ({"num_classes": None, "out_fields": 1, "pooling": DISC}, "leave pooling out"),
        ({"in_fields": {1: 0}}, "in_fields must have whole numbers"),
        ({"frequencies": (1, 2)}, "frequencies must hold 0"),
        ({"frequencies": 3}, "frequencies must be whole numbers"),
        ({"seed": "x"}, "seed must be a whole number >= 0 or None, found 'x'"),
        ({"seed": 1.7}, "seed must be a whole number >= 0 or None, found 1.7"),
        ({"copies": 0}, "copies must be a positive whole number, found 0"),
        ({"num_blocks": 1.5}, "num_blocks must be a positive whole number"),
        ({"spatial_dim": 3, "pooling": DISC}, "a disc needs points of the plane"),
        ({"num_basis": 0}, "num_basis must be a positive whole number"),
        ({"constraint": "none"}, "constraint must be one of"),
        ({"uncertainty": "joint"}, "uncertainty must be one of"),
        ({"feature_noise": 0.0}, "feature_noise must be positive"),
        ({"pooling": {"centre": 0.5, "radius": 1.0}}, "pooling must be 'space' or a box"),
        ({"pooling": {"radius": 1.0}}, "a disc of the plane"),
        ({"pooling": {"centre": (0, 0), "radius": -1.0}}, "with r > 0, found"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_bad_arguments(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        small(**arguments)
