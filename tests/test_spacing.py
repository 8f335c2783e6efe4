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
        # Each distance changes by a few 1e-7. A place counts for more by three times the fourth
        # power of up to 5e-7 in units of a thousandth of 1 / 120: 4e-5.
        tolerance = 40 * 4e-5 if measure is typical_number else 2e-6
        assert measure(rows, np.zeros((3, 120, 1))) == pytest.approx(expected, abs=tolerance)


def in_turn(gap, times):
    """Channels read one after the other, ``gap`` apart, from each of the times on."""
    points = (times[:, None] + gap * np.arange(3)).reshape(1, -1, 1)
    return points, np.where(np.eye(3), 0.0, np.inf)[None].repeat(len(times), 0).reshape(1, -1, 3)


@pytest.mark.parametrize(
    ("gap", "tolerance"),
    [(0.0, 1e-12), (1e-7, 1e-6), (1e-4, 0.01), (1 / 3600, 0.01), (1 / 60, 0.1)],
)
def test_channels_read_one_after_the_other_are_as_read_at_once(gap, tolerance):
    """A record of 48 hours: gaps up to a minute, where 1.15 hours are typical."""
    times = np.sort(np.random.default_rng(0).uniform(0, 48, 40))
    together = times[None, :, None], np.zeros((1, 40, 3))
    for measure in (point_spacing, typical_number, point_extent):
        found = measure(*in_turn(gap, times))
        assert found == pytest.approx(measure(*together), rel=tolerance)


def test_listing_of_readings_changes_nothing():
    """Channels in one row or in rows of their own, in any order, a reading listed twice."""
    rng = np.random.default_rng(3)
    points, variance = rng.uniform(size=(2, 25, 2)), np.full((2, 25, 4), 0.1)
    variance[rng.uniform(size=variance.shape) < 0.5] = np.inf
    order = rng.permutation(100)
    rows = np.repeat(points, 4, axis=1)[:, order]
    apart = np.where(np.eye(4), variance[:, :, None], np.inf).reshape(2, 100, 4)[:, order]
    twice = np.concatenate([points] * 2, axis=1), np.concatenate([variance] * 2, axis=1)
    for measure in (point_spacing, typical_number, point_extent):
        expected = measure(points, variance)
        assert measure(rows, apart) == pytest.approx(expected, rel=1e-9)
        # The part of the extent below which readings are repetitions is half as large.
        assert measure(*twice) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("channels", [1, 3])
def test_measures_change_in_small_steps_as_readings_part(channels):
    """From one time to three on a lattice with the step 1, over 400 gaps: none is a jump."""
    gaps = np.concatenate([[0.0], np.geomspace(1e-6, 0.33, 400)])
    spacings, numbers = [], []
    for gap in gaps:
        points, variance = in_turn(gap, np.arange(30.0))
        variance = variance if channels == 3 else np.zeros_like(points)
        spacings.append(point_spacing(points, variance))
        numbers.append(typical_number(points, variance))
    assert spacings[0] == pytest.approx(1.0) and spacings[-1] == pytest.approx(0.33, abs=0.02)
    assert numbers[0] == pytest.approx(30.0) and numbers[-1] == pytest.approx(90.0)
    assert np.abs(np.diff(numbers)).max() < 6.0
    assert np.abs(np.diff(spacings)).max() < 0.25
    # The shortest is that of the gaps at which three times are told apart.
    assert min(spacings) > (0.05 if channels == 3 else 2e-4)


def test_points_of_one_channel_are_told_apart_at_once():
    """Random places of rows with all channels are as before: neighbours' distances, by a loop."""
    points = np.random.default_rng(5).uniform(size=(3, 30, 2))
    distances = np.linalg.norm(points[:, :, None] - points[:, None], axis=-1)
    expected = np.median(np.sort(distances, axis=-1)[:, :, 2])
    assert point_spacing(points, np.zeros((3, 30, 3))) == pytest.approx(expected, rel=1e-12)
    assert typical_number(points, np.zeros((3, 30, 3))) == pytest.approx(30.0, rel=1e-12)


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
