import numpy as np

import tfpn
from benchmarks.turned_mnist import images as program


def bars(count):
    """Upright bars, right of the centre, whose brightness says which one it is."""
    found = np.zeros((count, 28, 28), np.uint8)
    found[:, 6:22, 16:19] = 50 + np.arange(count, dtype=np.uint8)[:, None, None]
    return found


def test_images_turn_about_their_centres():
    turned = program.turn(bars(2), [90.0, 180.0])
    # The angle is counted against the clock as one sees the image, its rows from top to bottom.
    np.testing.assert_array_equal(turned[0], np.rot90(bars(2)[0]))
    np.testing.assert_array_equal(turned[1], bars(2)[1, ::-1, ::-1])


def test_the_split_draws_each_image_once():
    found = program.split(bars(60), np.arange(60), training=12, test=40)
    assert found["x_train"].shape == (12, 28, 28)
    labels = np.concatenate([found["y_train"], found["y_test"]])
    assert len(set(labels.tolist())) == len(labels) == 52
    # The cubic interpolation keeps a bar's grey in its middle to some 15 %.
    brightest = np.concatenate([found["x_train"], found["x_test"]]).max(axis=(1, 2))
    np.testing.assert_allclose(brightest, 50 + labels, rtol=0.2)


def test_pixels_show_the_nearest_superpixel():
    x = tfpn.observations([[[0.2, 0.5], [0.9, 0.5], [0.5, 0.0]]], [[1.0, 2.0, np.nan]])
    image = program.rendered(tfpn.datasets.Part(x, np.array([3])))[0]
    # Half way between 0.2 and 0.9 is column 14.85.
    np.testing.assert_array_equal(image[:, :15], 1.0)
    np.testing.assert_array_equal(image[:, 15:], 2.0)
