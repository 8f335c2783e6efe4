import numpy as np

import tfpn
from benchmarks.turned_mnist import images as program
from benchmarks.turned_mnist import points


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


def test_points_to_look_at_are_in_the_disc_and_values_at_their_pixels():
    pictures = np.random.default_rng(0).normal(size=(5, 28, 28))
    data = points.Images(pictures, np.arange(5), batch=5)
    x, y = data[0]
    np.testing.assert_array_equal(y, np.arange(5))
    column, row = np.rint(27 * x["points"][0]).astype(int).T
    assert len(set(zip(column, row, strict=True))) == 784
    np.testing.assert_allclose(x["values"][..., 0], pictures[:, row, column], rtol=1e-6)
    looked_at = x["points"][0, : points.QUERY]
    assert np.linalg.norm(looked_at - 0.5, axis=-1).max() <= points.RADIUS
    distances = np.linalg.norm(looked_at[:, None] - looked_at, axis=-1) + np.eye(points.QUERY)
    assert distances.min() >= 1.4 / 27  # even ones in the disc would be 2.2 pixels apart


def test_a_training_batch_moves_as_one():
    pictures = np.random.default_rng(0).normal(size=(6, 28, 28))
    data = points.Images(pictures, np.arange(6), move=points.MOVES, batch=3)
    (one, labels), (two, others) = data[0], data[1]
    assert set(labels) | set(others) == set(range(6))
    np.testing.assert_array_equal(one["points"][0], one["points"][2])
    assert not np.allclose(one["points"], two["points"])
    data.on_epoch_end()
    assert not np.allclose(data[0][0]["points"], one["points"])
