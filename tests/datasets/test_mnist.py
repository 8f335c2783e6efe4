import sys
import types

import numpy as np
import pytest

from tfpn.datasets import mnist_grid


def average_of_fine_pixels(image, resolution):
    """Cell averages by splitting each pixel into `resolution`^2 equal ones."""
    fine = np.repeat(np.repeat(image / 255, resolution, axis=0), resolution, axis=1)
    out = np.zeros((resolution, resolution))
    for row in range(resolution):
        for column in range(resolution):
            out[row, column] = fine[
                28 * row : 28 * (row + 1), 28 * column : 28 * (column + 1)
            ].mean()
    return out


def grey(part):
    return part.x["values"].astype(np.float64) * 0.3081 + 0.1307


@pytest.mark.parametrize("resolution", [1, 5, 7, 14, 27, 28, 41, 56])
def test_cell_averages(mnist_folder, mnist_arrays, resolution):
    data = mnist_grid(resolution, data_dir=mnist_folder, limit=3, validation_fraction=0)
    for part, name in ((data.train, "train"), (data.test, "test")):
        for index in range(3):
            expected = average_of_fine_pixels(mnist_arrays[f"x_{name}"][index], resolution)
            np.testing.assert_allclose(grey(part)[index, :, 0], expected.ravel(), atol=1e-6)


@pytest.mark.parametrize("resolution", [1, 5, 14, 28])
def test_points_are_centroids_of_the_cells(mnist_folder, resolution):
    points = mnist_grid(resolution, data_dir=mnist_folder, limit=3).test.x["points"]
    assert points.shape == (3, resolution**2, 2)
    assert points.min() >= 0 and points.max() <= 1
    # A fine pixel's centre in units of the original ones, whose centres are 0 to 27.
    fine = (np.arange(28 * resolution) + 0.5) / resolution - 0.5
    for row in range(resolution):
        for column in range(resolution):
            center = [fine[28 * i : 28 * (i + 1)].mean() / 27 for i in (column, row)]
            np.testing.assert_allclose(points[1, row * resolution + column], center, atol=1e-6)


def test_full_resolution_has_the_pixels(mnist_folder, mnist_arrays):
    part = mnist_grid(data_dir=mnist_folder).test
    assert len(part) == 25
    assert {array.dtype for array in part.x.values()} == {np.dtype(np.float32)}
    np.testing.assert_array_equal(part.x["variance"], 0)
    pixels = np.rint(part.x["points"] * 27).astype(int)
    np.testing.assert_allclose(part.x["points"], pixels / 27, atol=1e-7)
    columns, rows = pixels[0].T
    np.testing.assert_allclose(
        grey(part)[..., 0], mnist_arrays["x_test"][:, rows, columns] / 255, atol=1e-6
    )
    np.testing.assert_array_equal(part.y, mnist_arrays["y_test"])
    assert part.y.dtype == np.int64


def test_parts_share_the_training_images(mnist_folder, mnist_arrays):
    whole = mnist_grid(7, data_dir=mnist_folder, validation_fraction=0)
    assert whole.validation is None
    np.testing.assert_array_equal(whole.train.y, mnist_arrays["y_train"])

    data = mnist_grid(7, data_dir=mnist_folder, validation_fraction=0.25, seed=5)
    assert (len(data.train), len(data.validation)) == (45, 15)
    together = np.concatenate([data.train.x["values"], data.validation.x["values"]])
    assert sorted(map(bytes, together)) == sorted(map(bytes, whole.train.x["values"]))
    again = mnist_grid(7, data_dir=mnist_folder, validation_fraction=0.25, seed=5)
    other = mnist_grid(7, data_dir=mnist_folder, validation_fraction=0.25, seed=6)
    same = data.validation.x["values"]
    np.testing.assert_array_equal(same, again.validation.x["values"])
    assert not np.array_equal(same, other.validation.x["values"])


def test_limit(mnist_folder, mnist_arrays):
    data = mnist_grid(data_dir=mnist_folder, limit=40, validation_fraction=0)
    assert (len(data.train), len(data.test)) == (40, 25)
    np.testing.assert_array_equal(data.train.y, mnist_arrays["y_train"][:40])


@pytest.mark.parametrize(
    "arguments, error, match",
    [
        ({"resolution": 0}, ValueError, r"resolution: found 0; give an integer from 1 to 56"),
        ({"resolution": 57}, ValueError, r"resolution: found 57"),
        (
            {"resolution": 7, "keep": 50},
            ValueError,
            r"keep: found 50; give an integer from 1 to 49",
        ),
        ({"resolution": 7.5}, TypeError, r"resolution: found 7\.5"),
        ({"limit": 0}, ValueError, r"limit: found 0; give an integer of at least 1"),
        ({"seed": -1}, ValueError, r"seed: found -1"),
        ({"validation_fraction": 1.0}, ValueError, r"validation_fraction: found 1\.0"),
        (
            {"validation_fraction": 0.9, "limit": 1},
            ValueError,
            r"validation_fraction: found 0\.9, which leaves none of 1 images",
        ),
    ],
)
def test_errors(mnist_folder, arguments, error, match):
    with pytest.raises(error, match=match):
        mnist_grid(data_dir=mnist_folder, **arguments)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"data_dir: .*mnist\.npz; expected .*x_train"):
        mnist_grid(data_dir=tmp_path)


@pytest.mark.parametrize(
    "change, match",
    [
        ({"x_train": np.zeros((3, 28, 28))}, r"mnist\.npz: x_train is float64 \[3, 28, 28\]"),
        ({"x_test": np.zeros((3, 8, 8), np.uint8)}, r"x_test is uint8 \[3, 8, 8\]; expected uint8"),
        ({"x_test": np.zeros((0, 28, 28), np.uint8)}, r"x_test is uint8 \[0, 28, 28\]"),
        ({"y_train": np.zeros(60)}, r"y_train is float64 \[60\]; expected 60 integers"),
        ({"y_test": np.zeros(24, int)}, r"y_test is int64 \[24\]; expected 25 integers"),
        ({"y_test": np.full(25, 10)}, r"y_test is int64 \[25\]; .* from 0 to 9"),
        ({"x_train": None}, r"cannot be read \(KeyError: .*x_train.*; expected an \.npz file"),
        ({"x_train": np.array([{}])}, r"cannot be read \(ValueError: .*allow_pickle"),
    ],
)
def test_wrong_file(tmp_path, mnist_arrays, change, match):
    arrays = {k: v for k, v in {**mnist_arrays, **change}.items() if v is not None}
    np.savez(tmp_path / "mnist.npz", **arrays)
    with pytest.raises(ValueError, match=match):
        mnist_grid(data_dir=tmp_path)


def test_broken_file(mnist_folder):
    path = mnist_folder / "mnist.npz"
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(ValueError, match=r"mnist\.npz: cannot be read"):
        mnist_grid(data_dir=mnist_folder)


def fake_keras(load_data):
    return types.SimpleNamespace(
        datasets=types.SimpleNamespace(mnist=types.SimpleNamespace(load_data=load_data))
    )


def test_download(monkeypatch, mnist_folder, mnist_arrays):
    a = mnist_arrays
    loaded = (a["x_train"], a["y_train"]), (a["x_test"], a["y_test"])
    monkeypatch.setitem(sys.modules, "keras", fake_keras(lambda: loaded))
    downloaded, local = mnist_grid(7), mnist_grid(7, data_dir=mnist_folder)
    for part in ("train", "validation", "test"):
        ours, theirs = getattr(downloaded, part), getattr(local, part)
        np.testing.assert_array_equal(ours.x["values"], theirs.x["values"])
        np.testing.assert_array_equal(ours.y, theirs.y)


def test_no_network(monkeypatch):
    def load_data():
        raise Exception("URL fetch failure")

    monkeypatch.setitem(sys.modules, "keras", fake_keras(load_data))
    with pytest.raises(RuntimeError, match=r"could not be downloaded \(URL fetch.*as data_dir"):
        mnist_grid()


def test_each_image_keeps_random_cells_of_its_own(mnist_folder):
    whole = mnist_grid(14, data_dir=mnist_folder, limit=3)
    some = mnist_grid(14, keep=50, data_dir=mnist_folder, limit=3)
    again = mnist_grid(14, keep=50, data_dir=mnist_folder, limit=2, validation_fraction=0)
    places = []
    for part, other in ((some.train, whole.train), (some.test, whole.test)):
        assert part.x["points"].shape == (len(part), 50, 2)
        for example in range(len(part)):
            lattice = [tuple(point) for point in other.x["points"][example]]
            rows = [lattice.index(tuple(point)) for point in part.x["points"][example]]
            assert rows == sorted(set(rows))
            np.testing.assert_array_equal(
                part.x["values"][example], other.x["values"][example][rows]
            )
            places.append(tuple(rows))
    assert len(set(places)) == len(places)
    np.testing.assert_array_equal(again.test.x["points"], some.test.x["points"][:2])
