"""What is no array of numbers is named, and what holds the targets elsewhere passes."""

import numpy as np
import pytest
import tensorflow as tf

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
