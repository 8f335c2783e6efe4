import sys

import numpy as np
import pytest
import sklearn.datasets

from tfpn.datasets import digits

PARTS = ("train", "validation", "test")


def test_every_point_is_a_pixel_of_an_image():
    data = digits(keep=30, seed=3)
    images, labels = sklearn.datasets.load_digits(return_X_y=True)
    # All parts together hold each image once; undo the scaling by the description's figures.
    points = np.concatenate([getattr(data, part).x["points"] for part in PARTS])
    values = np.concatenate([getattr(data, part).x["values"] for part in PARTS])
    y = np.concatenate([getattr(data, part).y for part in PARTS])
    assert len(y) == len(images)
    levels = np.unique(values)
    assert len(levels) == 17
    intensity = np.searchsorted(levels, values[..., 0])
    pixels = np.rint(points * 7).astype(int)
    np.testing.assert_allclose(points, pixels / 7, atol=1e-7)

    unused = set(range(len(images)))
    for b in range(0, len(y), 10):
        seen = {(row, column): v for (column, row), v in zip(pixels[b], intensity[b], strict=True)}
        assert len(seen) == 30
        matches = [
            i
            for i in unused
            if labels[i] == y[b]
            and all(images[i, 8 * row + column] == v for (row, column), v in seen.items())
        ]
        assert matches
        unused.discard(matches[0])


def test_standardised_by_the_training_part():
    data = digits(keep=25)
    values = data.train.x["values"].astype(np.float64)
    assert abs(values.mean()) < 1e-6
    assert abs(values.std() - 1) < 1e-6
    assert abs(data.test.x["values"].mean()) > 1e-6
    for part in PARTS:
        x = getattr(data, part).x
        np.testing.assert_array_equal(x["variance"], 0)
        assert {array.dtype for array in x.values()} == {np.dtype(np.float32)}


def test_pixels_differ_between_images():
    points = digits(keep=20).train.x["points"]
    assert len(np.unique(points.reshape(len(points), -1), axis=0)) == len(points)
    # In the order of the rows of the image.
    order = points[..., 1] * 8 + points[..., 0]
    assert (np.diff(order, axis=1) > 0).all()


def test_seed():
    first, again, other = digits(seed=1), digits(seed=1), digits(seed=2)
    for part in PARTS:
        a, b, c = (getattr(data, part) for data in (first, again, other))
        np.testing.assert_array_equal(a.y, b.y)
        for key in a.x:
            np.testing.assert_array_equal(a.x[key], b.x[key])
        assert not np.array_equal(a.x["points"], c.x["points"])
        assert not np.array_equal(a.y, c.y)


def test_views_are_further_random_pixels_of_the_training_images():
    one, three = digits(keep=30, seed=4), digits(keep=30, views=3, seed=4)
    count = len(one.train)
    assert len(three.train) == 3 * count and three.train.x["points"].shape[1] == 30
    for part in ("validation", "test"):
        a, b = getattr(one, part), getattr(three, part)
        np.testing.assert_array_equal(a.y, b.y)
        for key in a.x:
            np.testing.assert_array_equal(a.x[key], b.x[key])
    np.testing.assert_array_equal(three.train.y, np.tile(one.train.y, 3))
    for key, array in one.train.x.items():
        np.testing.assert_array_equal(three.train.x[key][:count], array)

    # Where two views of an image show the same pixel, they agree; and they show different ones.
    pixel = np.rint(three.train.x["points"] @ [7, 56]).astype(int)
    images = np.full((3, count, 64), np.nan)
    values = three.train.x["values"][..., 0].reshape(3, count, 30)
    np.put_along_axis(images, pixel.reshape(3, count, 30), values, axis=-1)
    seen = ~np.isnan(images)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        both = seen[a] & seen[b]
        assert both.any() and (seen[a] != seen[b]).any(axis=-1).all()
        np.testing.assert_array_equal(images[a][both], images[b][both])
    again = digits(keep=30, views=3, seed=4).train.x["points"]
    np.testing.assert_array_equal(three.train.x["points"], again)


def test_parts_are_stratified():
    data = digits(keep=1, validation_fraction=0.15, test_fraction=0.3)
    assert [len(getattr(data, part)) for part in PARTS] == [1797 - 270 - 539, 270, 539]
    counts = np.bincount(sklearn.datasets.load_digits().target)
    for part in PARTS:
        y = getattr(data, part).y
        np.testing.assert_allclose(np.bincount(y), counts * len(y) / 1797, atol=2)


def test_all_pixels_and_no_further_parts():
    data = digits(keep=64, validation_fraction=0, test_fraction=0)
    assert data.validation is None and data.test is None
    images, labels = sklearn.datasets.load_digits(return_X_y=True)
    expected = (images - images.mean()) / images.std()
    np.testing.assert_allclose(data.train.x["values"][..., 0], expected, atol=1e-6)
    np.testing.assert_array_equal(data.train.y, labels)
    assert data.train.y.dtype == np.int64


@pytest.mark.parametrize(
    "arguments, error, match",
    [
        ({"keep": 0}, ValueError, r"keep: found 0; give an integer from 1 to 64"),
        ({"keep": 65}, ValueError, r"keep: found 65"),
        ({"keep": 3.0}, TypeError, r"keep: found 3\.0; give an integer"),
        ({"keep": True}, TypeError, r"keep: found True"),
        ({"views": 0}, ValueError, r"views: found 0; give an integer of at least 1"),
        ({"views": 2.0}, TypeError, r"views: found 2\.0; give an integer"),
        ({"seed": -1}, ValueError, r"seed: found -1"),
        ({"seed": None}, TypeError, r"seed: found None"),
        ({"validation_fraction": 1}, ValueError, r"validation_fraction: found 1; .*below 1"),
        ({"test_fraction": -0.1}, ValueError, r"test_fraction: found -0\.1"),
        ({"test_fraction": "a"}, TypeError, r"test_fraction: found 'a'; give a number"),
        ({"validation_fraction": 0.003}, ValueError, r"validation_fraction: .* 5 images; .*10 of"),
        (
            {"validation_fraction": 0.5, "test_fraction": 0.5},
            ValueError,
            r"validation_fraction and test_fraction: found 0\.5 and 0\.5, which leave fewer",
        ),
    ],
)
def test_errors(arguments, error, match):
    with pytest.raises(error, match=match):
        digits(**arguments)


def test_missing_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"scikit-learn .*pip install 'tfpn\[datasets\]'"):
        digits()
