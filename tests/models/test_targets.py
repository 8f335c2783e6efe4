"""Targets, weights and inputs that no step can be taken on are named before it, in every model."""

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import tfpn

SPARSE = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
EXAMPLES, PLACES = 6, 4
SMALL = {"num_blocks": 1, "num_basis": 1}
FLAT = {**SMALL, "copies": 1, "frequencies": (0, 1), "spacing": 0.3}


def build(kind, outputs, **options):
    """A model of one block and its input; ``outputs`` is a number of them, or "labels"."""
    head = {"num_classes": 3} if outputs == "labels" else {"num_outputs": outputs}
    head = {"num_classes": None, **head}
    if kind == "fields":
        head = {"num_classes": None, "out_fields": {1: 1}}
    if kind == "series":
        model = tfpn.models.PNTimeSeries(**head, **SMALL, channels=2, query=4)
    elif kind == "plane":
        model = tfpn.models.PNCNN(**head, **SMALL, channels=2, **options)
    else:
        model = tfpn.models.SteerablePNCNN(**head, **FLAT)
    rng = np.random.default_rng(0)
    dim = model.inputs_dict["points"].shape[-1]
    x = tfpn.observations(rng.uniform(size=(EXAMPLES, 5, dim)), rng.normal(size=(EXAMPLES, 5)), 0.1)
    x = {key: array.astype("float32") for key, array in x.items()}
    if kind == "fields":
        x["query"] = rng.uniform(size=(EXAMPLES, PLACES, 2)).astype("float32")
    return model, x


KINDS = [
    (kind, outputs) for kind in ("plane", "steerable", "series") for outputs in ("labels", 1, 3)
] + [("fields", 2)]


@pytest.fixture(scope="module", params=KINDS, ids=lambda given: f"{given[0]}-{given[1]}")
def given(request):
    """A compiled model, its input, good targets and its number of outputs."""
    kind, outputs = request.param
    model, x = build(kind, outputs)
    model.compile(keras.optimizers.SGD(0.1), SPARSE if outputs == "labels" else "mse")
    rng = np.random.default_rng(1)
    shape = (EXAMPLES, PLACES, 2) if kind == "fields" else (EXAMPLES, outputs)
    y = np.arange(EXAMPLES) % 3 if outputs == "labels" else rng.normal(size=shape)
    return model, x, y, outputs


def changed(y, value, example=3):
    y = np.array(y, float)
    y[example] = value
    return y


def ways(model, x, good):
    """All ways of handing over arrays as targets, by name, and the weights of the examples."""
    return {
        "fit": lambda y, w=None: model.fit(x, y, sample_weight=w, verbose=0),
        "evaluate": lambda y, w=None: model.evaluate(x, y, sample_weight=w, verbose=0),
        "train_on_batch": lambda y, w=None: model.train_on_batch(x, y, w),
        "test_on_batch": lambda y, w=None: model.test_on_batch(x, y, w),
        "validation_data": lambda y, w=None: model.fit(
            x, good, validation_data=(x, y) if w is None else (x, y, w), verbose=0
        ),
    }


def wrong_targets(good, outputs):
    """Pairs of targets that are not what a loss takes, and what is said of them."""
    yield changed(good, np.inf), "y is inf for example 3"
    yield changed(good, 1e39), "y is 1e.39 for example 3.*in float32"
    yield good[:4], r"y has the shape \(4,.*but x has 6 examples"
    yield good.tolist(), "y is a list; give an array"
    yield good.astype(str), "y holds texts; labels are"
    missing = "y is NaN for 1 of 6 examples, the first of them 3: leave out"
    if outputs in ("labels", 1):
        yield changed(good, np.nan), missing
    else:
        yield np.full(good.shape, np.nan), "y is NaN throughout"
        # Keras would compare it with all outputs.
        yield good[..., 0], r"y has the shape .* with this model's output\."
    if outputs == "labels":
        for wrong in (-1, 3, 1.5):
            message = f"y is {wrong} for example 3; sparse.* takes the labels 0 to 2"
            yield changed(good, wrong), message
        message = r"\(6, 3\); .* takes \[6\] .*one-hot targets go with CategoricalCross"
        yield np.eye(3)[good], f"y has the shape {message}"
        table = pd.Series(good, dtype="Int64")
        table[3] = pd.NA
        yield table, missing
    else:
        wide = np.zeros((*good.shape[:-1], good.shape[-1] + 1))
        yield wide, r"y has the shape .* with this model's output\."


def test_arrays_are_refused_before_the_first_step(given):
    model, x, good, outputs = given
    before = model.get_weights()
    for way, call in ways(model, x, good).items():
        prefix = "^validation_data: " if way == "validation_data" else "^"
        for wrong, message in wrong_targets(good, outputs):
            with pytest.raises(ValueError, match=prefix + message):
                call(wrong)
        for weight in (np.nan, np.inf, -1.0):
            with pytest.raises(
                ValueError, match=f"{prefix}sample_weight is {weight} for example 3"
            ):
                call(good, changed(np.zeros(EXAMPLES), weight))
    for found, expected in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_inputs_are_refused_before_the_first_step(given):
    model, x, good, _ = given
    before = model.get_weights()
    bad = {**x, "values": x["values"].copy()}
    bad["values"][2, 1] = np.nan
    list_of, tuple_of = list(x.values()), tuple(x.values())
    named = "validation_data: "
    for call, name in (
        (lambda x: model.fit(x, good, verbose=0), ""),
        (lambda x: model.evaluate(x, good, verbose=0), ""),
        (lambda x: model.train_on_batch(x, good), ""),
        (lambda x: model.test_on_batch(x, good), ""),
        (model.predict, ""),
        (model.predict_on_batch, ""),
        (lambda other: model.fit(x, good, validation_data=(other, good), verbose=0), named),
    ):
        with pytest.raises(
            ValueError, match=f"^{name}values: example 2, point 1, channel 0 is nan"
        ):
            call(bad)
        with pytest.raises(ValueError, match=f"^{name}{type(model).__name__}.*dict with the keys"):
            call({"points": x["points"]})
        for arrays in (list_of, list_of[::-1], tuple_of, x["points"]):
            with pytest.raises(TypeError, match=f"^{name}.*takes a dict with the keys points"):
                call(arrays)
    for arrays in (list_of, tuple_of):
        with pytest.raises(TypeError, match="takes a dict with the keys .* found a"):
            model(arrays)
    for found, expected in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_validation_data_of_another_form():
    model, x = build("plane", "labels")
    model.compile("sgd", SPARSE)
    y = np.arange(EXAMPLES) % 3
    batches = tf.data.Dataset.from_tensor_slices
    for data, error, match in (
        (x, TypeError, "found no targets; give a tuple"),
        ((x,), ValueError, "found 1 entries; give the input dict, targets"),
        ((x, y, y, y), ValueError, "found 4 entries"),
        (batches((tuple(x.values()), y)).batch(3), TypeError, "found a tuple, which does not name"),
        (batches((x, y)), ValueError, r"points: a batch has the shape \(5, 2\)"),
        (batches((x, np.eye(3)[y])).batch(3), ValueError, r"y has the shape \(None, 3\); sparse"),
        (batches(({**x, "values": x["points"]}, y)).batch(3), ValueError, "values: a batch has"),
        (Batches([(list(x.values()), y)]), TypeError, "found a list, which does not name"),
    ):
        with pytest.raises(error, match=f"^validation_data: .*{match}"):
            model.fit(x, y, validation_data=data, verbose=0)
    assert model.optimizer.iterations == 0
    for weight in (np.nan, np.inf, -1.0):
        with pytest.raises(ValueError, match=f"class_weight is {weight} for the label 0"):
            model.fit(x, y, class_weight={0: weight})


class Batches(keras.utils.PyDataset):
    def __init__(self, batches):
        super().__init__()
        self.batches = batches

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        return self.batches[index]


def handed_over(batches):
    """The same batches as a data set, a generator and a PyDataset."""
    spec = tf.nest.map_structure(lambda a: tf.TensorSpec(a.shape, a.dtype), batches[0])
    yield tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=spec)
    yield (batch for batch in batches)
    yield Batches(batches)


def bad_batches(x, y):
    one = np.ones(EXAMPLES, "float32")
    bad = {**x, "values": changed(x["values"], np.nan)}
    for batch, match in (
        ((x, changed(y, np.nan), one), "y is NaN or infinite"),
        ((x, changed(y, 3.0), one), "does not take; it takes whole numbers from 0 to 2"),
        ((x, changed(y, -np.inf), one), "y is NaN or infinite"),
        ((x, changed(y, 0.5), one), "does not take; it takes whole numbers from 0 to 2"),
        ((x, y, changed(one, np.nan)), "sample_weight is NaN, infinite or negative"),
        ((x, y, changed(one, -1.0)), "sample_weight is NaN, infinite or negative"),
        ((bad, y, one), "values holds NaN or infinity where"),
    ):
        batch = tf.nest.map_structure(lambda array: array.astype("float32"), batch)
        yield [(x, y, one), batch], match


# Under XLA too, which drops assertions; few of the batches where steps are slow or compiled.
@pytest.mark.parametrize("how, count", [("eager", 1), ("graph", 6), ("xla", 2)])
@pytest.mark.graphs
def test_no_step_is_taken_on_a_bad_batch(how, count):
    # Less to trace and to compile: a batch is looked at before the model sees it.
    plain = {"uncertainty": "none", "marginal_likelihood_weight": 0.0}
    model, x = build("plane", "labels", **plain)
    model.compile(
        keras.optimizers.SGD(0.1, momentum=0.9), SPARSE,
        jit_compile=how == "xla", run_eagerly=how == "eager",
    )  # fmt: skip
    y, steps = np.arange(EXAMPLES, dtype="float32") % 3, 0
    for batches, match in list(bad_batches(x, y))[:count]:
        dataset, *others = handed_over(batches)
        for data in others if how == "eager" else [dataset]:
            before = model.get_weights()
            with pytest.raises(tf.errors.InvalidArgumentError, match=match):
                model.fit(data, shuffle=False, verbose=0)
            steps += 1  # on the good batch
            assert model.optimizer.iterations == steps
            after = model.get_weights()
            assert all(np.isfinite(weight).all() for weight in after)
            assert any(np.any(a != b) for a, b in zip(after, before, strict=True))
        if how == "eager":
            with pytest.raises(tf.errors.InvalidArgumentError, match=match):
                model.evaluate(Batches(batches[1:]), verbose=0)


def test_a_short_data_set_for_validation_is_read_before_the_first_step():
    model, x = build("plane", "labels")
    y = np.arange(EXAMPLES, dtype="float32") % 3
    model.compile("sgd", SPARSE, run_eagerly=True)
    for batches, match in list(bad_batches(x, y))[::5]:
        unknown = next(handed_over(batches))  # a generator's size
        known = unknown.apply(tf.data.experimental.assert_cardinality(2))
        for steps in ({}, {"validation_steps": 2}):
            with pytest.raises(ValueError, match=f"^validation_data: batch 1: {match}"):
                model.fit(x, y, validation_data=known, **steps, verbose=0)
        with pytest.raises(ValueError, match="^validation_data: batch 1: "):
            model.fit(x, y, 32, 1, 0, None, 0.0, known, True, None, None, 0, None, 2)
        assert model.optimizer.iterations == 0
        # A batch that is not used is not looked at.
        model.fit(x, y, validation_data=known, validation_steps=1, verbose=0)
        with pytest.raises(tf.errors.InvalidArgumentError, match=match):
            model.fit(x, y, validation_data=unknown, verbose=0)
        assert model.optimizer.iterations == 2
        model.optimizer.iterations.assign(0)


def test_ignored_labels_pass():
    model, x = build("plane", "labels")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    model.compile("sgd", loss, run_eagerly=True)
    y = changed(np.arange(EXAMPLES) % 3, -1)
    expected = SPARSE(np.delete(y, 3), np.delete(model(x), 3, axis=0))
    found = model.evaluate(x, y, verbose=0, return_dict=True)["task_loss"]
    assert found == pytest.approx(float(expected), rel=1e-5)  # float32
    with pytest.raises(ValueError, match="y is -2 for example 3"):
        model.evaluate(x, changed(y, -2), verbose=0)


ERRORS = {
    "mse": lambda y, p: (y - p) ** 2,
    "mae": lambda y, p: abs(y - p),
    "huber": lambda y, p: tf.where(abs(y - p) < 1, 0.5 * (y - p) ** 2, abs(y - p) - 0.5),
    "log_cosh": lambda y, p: tf.math.log(tf.math.cosh(y - p)),
    "binary_crossentropy": lambda y, p: tf.nn.softplus(p) - y * p,
}


@pytest.mark.parametrize("loss", ERRORS)
@pytest.mark.parametrize("kind", ["plane", "fields", "series"])
def test_loss_of_what_was_measured(given_several, kind, loss):
    model, _ = given_several[kind]
    shape = (EXAMPLES, PLACES, 2) if kind == "fields" else (EXAMPLES, 3)
    rng = np.random.default_rng(2)
    y = rng.uniform(size=shape).astype("float32")
    y[1, 0] = y[4] = np.nan
    y[0, ..., 1] = np.nan
    predicted = tf.constant(rng.normal(size=shape).astype("float32"))
    weights = rng.uniform(0.5, 2.0, size=shape[:-1]).astype("float32")
    compiled = keras.losses.BinaryCrossentropy(from_logits=True) if "binary" in loss else loss
    model.compile("sgd", compiled)
    measured = np.isfinite(y)
    for w in (None, weights, weights[:, :1] if kind == "fields" else weights[:, None]):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(predicted)
            found = model.compute_loss(None, tf.constant(y), predicted, w)
            # The entries taken out.
            errors = ERRORS[loss](y[measured], tf.boolean_mask(predicted, measured))
            if w is not None:
                full = np.reshape(w, (*w.shape, *[1] * (len(shape) - w.ndim)))
                errors *= np.broadcast_to(full, shape)[measured]
            expected = tf.reduce_mean(errors) + sum(model.losses)  # of an earlier call
        assert float(found) == pytest.approx(float(expected), rel=1e-5)  # float32
        np.testing.assert_allclose(
            tape.gradient(found, predicted), tape.gradient(expected, predicted), rtol=1e-5
        )
    # Without gaps it is Keras's own.
    full = tf.constant(np.nan_to_num(y, nan=0.5))
    plain = keras.losses.get(compiled)(full, predicted)
    found = model.compute_loss(None, full, predicted)
    expected = tf.reduce_mean(plain) + sum(model.losses)
    assert float(found) == pytest.approx(float(expected), rel=1e-6)


@pytest.fixture(scope="module")
def given_several():
    return {kind: build(kind, 3) for kind in ("plane", "fields", "series")}


def test_metrics_of_what_was_measured(given_several):
    model, x = given_several["plane"]
    metrics = ["mae", keras.metrics.RootMeanSquaredError(name="rmse")]
    model.compile(
        keras.optimizers.SGD(0.1), "mse", metrics=metrics, weighted_metrics=["mse"],
        run_eagerly=True,
    )  # fmt: skip
    y = np.random.default_rng(3).normal(size=(EXAMPLES, 3)).astype("float32")
    y[0, 1] = y[2] = y[5, :2] = np.nan
    table = pd.DataFrame(y).convert_dtypes()  # with pandas.NA
    assert table.isna().to_numpy().sum() == 6
    weights = np.linspace(0.5, 2.0, EXAMPLES)
    errors = y - np.asarray(model(x))
    w = np.where(np.isnan(errors), np.nan, weights[:, None])
    for targets in (y, table):
        logs = model.evaluate(
            x, targets, sample_weight=weights, batch_size=4, verbose=0, return_dict=True
        )
        assert logs["mae"] == pytest.approx(np.nanmean(abs(errors)), rel=1e-5)
        assert logs["rmse"] == pytest.approx(np.sqrt(np.nanmean(errors**2)), rel=1e-5)
        weighted = np.nansum(w * errors**2) / np.nansum(w)
        assert logs["mse"] == pytest.approx(weighted, rel=1e-5)
        # Over the epoch, whatever the batches: a batch counts by what was measured in it.
        assert logs["task_loss"] == pytest.approx(np.nanmean(w * errors**2), rel=1e-5)


@pytest.mark.graphs
def test_batches_in_which_nothing_was_measured(given_several):
    model, x = given_several["plane"]
    model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"], run_eagerly=True)
    y = np.zeros((EXAMPLES, 3), "float32")
    y[:3] = np.nan
    before = model.get_weights()
    history = model.fit(x, y, batch_size=3, shuffle=False, verbose=0).history
    assert all(np.isfinite(weight).all() for weight in model.get_weights())
    assert any(np.any(a != b) for a, b in zip(model.get_weights(), before, strict=True))
    assert history["mae"][0] > 0.0 and history["task_loss"][0] > 0.0
    compiled = tf.function(model.compute_loss, jit_compile=True)
    predicted = tf.ones((EXAMPLES, 3))
    others = sum(float(loss) for loss in model.losses)
    for targets, expected in ((y, 1.0), (y + np.nan, 0.0)):
        found = float(compiled(None, tf.constant(targets), predicted))
        assert found == pytest.approx(expected + others, rel=1e-6)


def test_losses_of_another_make_take_no_gaps(given_several):
    model, x = given_several["plane"]
    y = changed(np.zeros((EXAMPLES, 3)), np.nan)
    for loss in (
        lambda y, p: tf.reduce_mean(tf.square(y - p), -1),
        keras.losses.CosineSimilarity(),
        keras.losses.MeanSquaredError(reduction="sum"),
    ):
        model.compile("sgd", loss)
        with pytest.raises(ValueError, match="y is NaN for 1 of 6 .* means not measured only if"):
            model.fit(x, y, verbose=0)


def test_symbolic_lists_compose_as_in_keras():
    model, x = build("plane", "labels")
    inputs = [keras.Input(tensor.shape[1:], name=tensor.name) for tensor in model.inputs]
    outer = keras.Model(dict(zip(model.inputs_dict, inputs, strict=True)), model(inputs))
    np.testing.assert_allclose(outer(x), model(x), rtol=1e-6)


def test_a_loss_without_a_number_changes_no_weight():
    model = tfpn.models.PNCNN(None, num_outputs=1, channels=2, num_blocks=1, spacing=0.3)
    model.compile("adam", lambda y, outputs: tf.reduce_mean(tf.square(y - outputs)))
    x = tfpn.observations(np.zeros((2, 1, 2)), np.zeros((2, 1, 1)), 0.1)
    before = [weight.numpy() for weight in model.trainable_weights]
    with pytest.raises(tf.errors.InvalidArgumentError, match="the loss is not finite"):
        model.fit(x, np.array([0.0, 1e30]), verbose=0)  # float32 cannot hold its square
    for weight, old in zip(model.trainable_weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), old)
