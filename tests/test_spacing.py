"""Spacing of points and lattices of drifts."""

import itertools

import numpy as np
import pytest

import tfpn
from tfpn.spacing import lattice, point_extent, point_spacing, typical_number


def test_spacing_of_a_grid_is_its_step():
    grid = np.stack(np.meshgrid(np.arange(6) * 0.3, np.arange(5) * 0.3), -1).reshape(1, -1, 2)
    assert point_spacing(grid, np.zeros((1, 30, 1))) == pytest.approx(0.3)


def test_spacing_against_a_loop_over_pairs():
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(4, 9, 3))
    variance = np.where(rng.uniform(size=(4, 9, 2)) < 0.4, np.inf, 0.1)
    nearest = []
    for example, noise in zip(points, variance, strict=True):
        observed = [p for p, v in zip(example, noise, strict=True) if np.isfinite(v).any()]
        for i, p in enumerate(observed):
            others = [q for j, q in enumerate(observed) if j != i]
            nearest.append(sorted(np.linalg.norm(p - q) for q in others)[:2][-1])
    assert point_spacing(points, variance) == pytest.approx(np.median(nearest), rel=1e-12)


def test_padding_and_duplicates_do_not_count():
    points = np.array([[[0.0], [1.0], [1.0], [3.0], [0.01], [np.nan]]])
    variance = np.array([[[0.0], [0.0], [0.0], [0.0], [np.inf], [np.inf]]])
    # The second nearest of the points 0, 1 and 3 are 3, 2 and 3 away.
    assert point_spacing(points, variance) == pytest.approx(3.0)


def test_many_points_are_thinned():
    points = np.tile(np.arange(5000.0)[None, :, None] * 0.5, (3, 1, 1))
    assert point_spacing(points, np.zeros((3, 5000, 1))) == pytest.approx(0.5)


@pytest.mark.parametrize("points", [[[[0.0]]], [[[1.0], [1.0]]], [[[0.0], [1.0]]]])
def test_too_few_points(points):
    points = np.array(points)
    variance = np.zeros(points.shape)
    variance[:, 1:] = np.inf if points.max() != points.min() else 0.0
    with pytest.raises(ValueError, match="two distinct observed points.*spacing"):
        point_spacing(points, variance)


@pytest.mark.parametrize("dim", [1, 2])
def test_lattice_of_three_per_axis_is_the_convolutions_neighbourhood(dim):
    found = {tuple(p) for p in lattice(3**dim, dim)}
    assert found == {
        tuple(p) for p in np.stack(np.meshgrid(*[[-1, 0, 1]] * dim), -1).reshape(-1, dim)
    }


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 6, 20])
def test_lattice_holds_the_nearest_points(count, dim):
    found = lattice(count, dim)
    assert found.shape == (count, dim)
    np.testing.assert_array_equal(found, np.round(found))
    assert len(np.unique(found, axis=0)) == count
    norms = np.sum(found**2, axis=1)
    assert norms[0] == 0 and (np.diff(norms) >= 0).all()
    axes = np.meshgrid(*[np.arange(-11, 12)] * dim)
    every = np.sort(sum(axis.ravel() ** 2 for axis in axes))[:count]
    np.testing.assert_array_equal(norms, every)
    np.testing.assert_array_equal(found, lattice(count, dim))


def test_points_that_nearly_coincide_count_once():
    """Three channels' readings at each of the places, in rows 1e-7 apart, and in one row."""
    rng = np.random.default_rng(0)
    places = rng.uniform(size=(3, 40, 2))
    rows = (places[:, :, None] + 1e-7 * rng.normal(size=(3, 40, 3, 2))).reshape(3, 120, 2)
    for measure in (point_spacing, point_extent, typical_number):
        expected = measure(places, np.zeros((3, 40, 1)))
        # Each distance changes by a few 1e-7.
        assert measure(rows, np.zeros((3, 120, 1))) == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize(("count", "dim"), [(12, 1), (90, 2), (150, 3), (300, 4), (60, 5)])
def test_lattice_is_ordered_by_distance_and_then_by_coordinates(count, dim):
    grid = itertools.product(range(-6, 7) if dim < 4 else range(-3, 4), repeat=dim)
    expected = sorted(grid, key=lambda point: (sum(x * x for x in point), point))[:count]
    np.testing.assert_array_equal(lattice(count, dim), expected)


def test_lattice_of_many_dimensions_makes_only_the_points_it_needs():
    found = lattice(2 + 2 * 40, 40)  # of 3^40 in the cube
    assert found.shape == (82, 40) and len(np.unique(found, axis=0)) == 82
    np.testing.assert_array_equal(np.square(found).sum(-1), [0.0] + 80 * [1.0] + [2.0])
    assert lattice(9, 2000).shape == (9, 2000)


def test_a_network_of_many_dimensions():
    rng = np.random.default_rng(0)
    x = tfpn.observations(rng.uniform(size=(2, 9, 40)), rng.normal(size=(2, 9)))
    model = tfpn.models.PNCNN(3, spatial_dim=40, channels=2, num_blocks=1)
    model.adapt(x)
    assert np.isfinite(model(x)).all()
