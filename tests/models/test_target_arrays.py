"""What is no array of numbers is named, and what holds the targets elsewhere passes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfpn
from tfpn.models.targets import read_targets


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("label", [1, "ill"])
def test_sequences(kind, label):
    with pytest.raises(ValueError, match=f"^y is a {kind.__name__}; give an array") as caught:
        read_targets(kind([label] * 1000))
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize("y", [np.array(["a", "b"]), np.array([0, "b"], object), np.array([b"a"])])
def test_texts(y):
    with pytest.raises(ValueError, match=r"^y holds texts; .* 0 to K - 1.*return_inverse=True"):
        read_targets(y)


@pytest.mark.parametrize("labels", [[0, 1], [0, None]])
def test_objects(labels):
    with pytest.raises(ValueError, match="^y has the dtype object; give an array of numbers"):
        read_targets(np.array(labels, object))


@pytest.mark.parametrize("y", [np.array([0, 1]), np.array([True]), tf.constant([0.5])])
def test_what_passes(y):
    np.testing.assert_array_equal(read_targets(y), y)


@pytest.fixture(scope="module")
def classifier():
    rng = np.random.default_rng(0)
    x = tfpn.observations(rng.uniform(size=(4, 5, 2)), rng.normal(size=(4, 5)))
    model = tfpn.models.PNCNN(3, channels=2, num_blocks=1, num_basis=1)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model, x, np.arange(4) % 3


DICT = "class_weight must be a dict of weights by label.*found"


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"sample_weight": np.ones((4, 2))}, r"^sample_weight has the shape \(4, 2\); .* \[4\]"),
        ({"sample_weight": np.ones((4, 3))}, r"^sample_weight has the shape \(4, 3\); .* \[4\]"),
        ({"class_weight": [1.0, 2.0, 1.0]}, DICT),
        ({"class_weight": "balanced"}, DICT + " 'balanced'"),
        ({"class_weight": {0: "a"}}, "class_weight is 'a' for the label 0"),
        ({"class_weight": {0: None}}, "class_weight is None for the label 0"),
        ({"class_weight": {"a": 1.0}}, "class_weight has the key 'a'; keys are the labels"),
        ({"y": None}, "^y is None: give the targets"),
        ({"validation_data": "x, None"}, "^validation_data: y is None: give the targets"),
        ({"validation_split": np.nan}, r"validation_split must be in \[0, 1\), found nan"),
        ({"validation_split": 1.0}, r"validation_split must be in \[0, 1\), found 1.0"),
    ],
)
def test_arguments_of_fit_are_named(classifier, arguments, message):
    model, x, y = classifier
    if "validation_data" in arguments:
        arguments = {"validation_data": (x, None)}
    with pytest.raises(ValueError, match=message):
        model.fit(**{"x": x, "y": y, "verbose": 0, **arguments})
    assert model.optimizer.iterations == 0


def test_weights_of_entries_pass_where_the_loss_has_them():
    rng = np.random.default_rng(0)
    x = tfpn.observations(rng.uniform(size=(4, 5, 2)), rng.normal(size=(4, 5)))
    model, y = tfpn.models.PNCNN(None, num_outputs=2, channels=2, num_blocks=1, num_basis=1), 0.1
    model.compile("adam", "mse")
    y = y * rng.normal(size=(4, 2))
    for weights in (np.ones(4), np.ones((4, 1)), np.ones((4, 2))):
        model.evaluate(x, y, sample_weight=weights, verbose=0)
    with pytest.raises(ValueError, match=r"takes \[4\] or \[4, 2\] with this"):
        model.evaluate(x, y, sample_weight=np.ones((4, 3)), verbose=0)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"dtype": "int32"}, "dtype must be a policy of floating numbers.*found 'int32'"),
        ({"normalization": "yes"}, "normalization must be True or False, found 'yes'"),
        ({"trainable": None}, "trainable must be True or False, found None"),
    ],
)
def test_arguments_of_models_are_named(arguments, message):
    for kind in (tfpn.models.PNCNN, tfpn.models.PNTimeSeries, tfpn.models.SteerablePNCNN):
        with pytest.raises(ValueError, match=message):
            kind(2, num_blocks=1, num_basis=1, **arguments)
