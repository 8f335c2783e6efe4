import numpy as np
import pytest

import tfpn
from benchmarks.turned_mnist import images as program
from tfpn import recipes
from tfpn.training import make_batches


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


def test_points_to_look_at_are_spread_out_in_the_disc():
    order = program.spread_out()
    assert sorted(order) == list(range(784))
    points = np.stack([order % 28, order // 28], axis=-1)[: program.FIRST] / 27
    assert np.linalg.norm(points - 0.5, axis=-1).max() <= program.RADIUS
    distances = np.linalg.norm(points[:, None] - points, axis=-1) + np.eye(len(points))
    assert distances.min() >= 1.4 / 27  # even ones in the disc would be 2.2 pixels apart


def test_written_points_have_the_values_of_their_pixels(tmp_path):
    rng = np.random.default_rng(0)
    column, row = np.meshgrid(np.arange(28), np.arange(28))
    points = np.stack([column, row], axis=-1).reshape(1, 784, 2) / 27
    x = tfpn.observations(np.repeat(points, 3, axis=0), rng.normal(size=(3, 784, 1)))
    part = tfpn.datasets.Part(x, np.arange(3))
    data = tfpn.datasets.Dataset(train=part, validation=part, test=part, name="", description="")
    program.write_points(tmp_path, data)
    found = tfpn.datasets.folder(tmp_path).validation
    np.testing.assert_array_equal(found.y, part.y)
    where = np.rint(27 * found.x["points"]).astype(int) @ [1, 28]
    expected = np.take_along_axis(x["values"], where[..., None], axis=1)
    np.testing.assert_array_equal(found.x["values"], expected)


@pytest.mark.parametrize("recipe", ["steerable_pixels", "pncnn_pixels"])
def test_batches_of_pixels_keep_common_points(recipe):
    found = recipes.resolve(recipes.load(f"benchmarks/turned_mnist/{recipe}.toml"))
    column, row = np.meshgrid(np.arange(28), np.arange(28))
    points = np.stack([column, row], axis=-1).reshape(1, 784, 2) / 27
    x = tfpn.observations(np.repeat(points, 60, axis=0), np.zeros((60, 784, 1)))
    batches = make_batches(found, x, np.arange(60))
    one, other = (batches[number][0]["points"] for number in (0, 1))
    np.testing.assert_array_equal(one, np.repeat(one[:1], 50, axis=0))
    assert np.abs(one[0] - other[0]).max() > 0.01
