"""Blocks of neighbours, their halos and their query points, beside plain searches."""

import numpy as np
import pytest
import tensorflow as tf
from tolerance import rounding

from tfpn.math.kernels import Kernel, read_mixture
from tfpn.math.neighbourhoods import Neighbourhoods, cells, integrals_over
from tfpn.math.neighbourhoods.cuts import block_count, median_cuts
from tfpn.math.neighbourhoods.halos import nearest, nearest_block, nearest_by_channel
from tfpn.math.neighbourhoods.queries import chunks
from tfpn.math.posterior import Observed

pytestmark = pytest.mark.usefixtures("eagerly", "always_cut")


def problem(dim, number=57, seed=0, missing=0.2):
    rng = np.random.default_rng(seed)
    points = rng.uniform(size=(3, number, dim))
    known = rng.uniform(size=(3, number)) > missing
    known[2] = False
    known[2, :3] = True
    return points, known


def cut(points, known, size=8):
    count = block_count(points.shape[1], size)
    return median_cuts(tf.constant(points), tf.constant(known), size, count)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_blocks_hold_every_known_point_once(dim):
    points, known = problem(dim)
    cuts = cut(points, known)
    rows, filled = cuts.rows.numpy(), cuts.filled.numpy()
    for example in range(3):
        count = known[example].sum()
        held = rows[example][filled[example]]
        np.testing.assert_array_equal(np.sort(held), np.flatnonzero(known[example]))
        sizes = filled[example].sum(-1)
        used = -(-count // 8)
        assert (sizes[used:] == 0).all() and np.ptp(sizes[:used]) <= 1
        places = cuts.places.numpy()[example][known[example]]
        np.testing.assert_array_equal(rows[example].ravel()[places], np.flatnonzero(known[example]))


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_cells_fill_the_space_without_overlap(dim):
    points, known = problem(dim)
    cuts = cut(points, known)
    anywhere = np.random.default_rng(1).normal(0.5, 1.0, size=(200, dim))
    low, high = cuts.low.numpy()[:, :, None], cuts.high.numpy()[:, :, None]
    inside = ((low < anywhere) & (anywhere < high)).all(-1)
    np.testing.assert_array_equal(inside.sum(axis=1), 1)
    own = np.take_along_axis(points[:, :, None], cuts.rows.numpy().reshape(3, -1, 1, 1), 1)
    own = own.reshape(*cuts.rows.shape, dim)
    assert (((low <= own) & (own <= high)).all(-1) | ~cuts.filled.numpy()).all()


def test_one_dimension_is_a_sort():
    points, known = problem(1, missing=0.0)
    cuts = cut(points[:2], known[:2] | True)
    held = np.take_along_axis(points[0, :, 0], cuts.rows.numpy()[0].ravel(), 0)
    np.testing.assert_array_equal(held[cuts.filled.numpy()[0].ravel()], np.sort(points[0, :, 0]))


def test_cuts_do_not_depend_on_order_or_on_unknown_points():
    points, known = problem(2)
    cuts = cut(points, known)
    order = np.random.default_rng(2).permutation(57)
    moved = np.concatenate([np.full((3, 9, 2), 7.0), points[:, order]], axis=1)
    with_others = np.concatenate([np.zeros((3, 9), bool), known[:, order]], axis=1)
    other = cut(moved, with_others)
    for example in range(3):
        for block in range(8):
            sets = [
                {tuple(p) for p in given[example][found.rows[example, block].numpy()][
                    found.filled[example, block].numpy()]}
                for given, found in ((points, cuts), (moved, other))
            ]  # fmt: skip
            assert sets[0] == sets[1]


def assert_nearest(points, known, cuts, reach, found):
    """Halos of 10 points beside a search through all known points of each example."""
    rows, seen, block = (t.numpy() for t in found)
    for example, number in np.ndindex(*rows.shape[:2]):
        own = cuts.rows[example, number].numpy()[cuts.filled[example, number].numpy()]
        if not len(own):
            assert not seen[example, number].any()
            continue
        others = np.setdiff1d(np.flatnonzero(known[example]), own)
        box = points[example, own].min(0), points[example, own].max(0)

        def outside(p, low, high):
            return np.sum(np.maximum(0.0, np.maximum(low - p, p - high)) ** 2, axis=-1)

        distance = outside(points[example, others], box[0] + reach[0], box[1] + reach[1])
        distance += 1e-3 * outside(points[example, others], *box)
        expected = others[np.argsort(distance)][:10]
        found = rows[example, number][seen[example, number]]
        assert set(found) == set(expected)
        for row, of in zip(found, block[example, number][seen[example, number]], strict=True):
            assert row in cuts.rows[example, of].numpy()[cuts.filled[example, of].numpy()]


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_halos_are_the_nearest_points(dim):
    points, known = problem(dim)
    drift = np.array([0.05, -0.02, 0.0])[:dim]
    reach = np.minimum(drift, 0.0), np.maximum(drift, 0.0)
    cuts = cut(points, known)
    assert_nearest(points, known, cuts, reach, nearest(tf.constant(points), cuts, reach, 10))


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_halos_of_a_channel_are_the_nearest_points_that_it_observed(dim):
    points, known = problem(dim)
    reach = -np.full(dim, 0.03), np.full(dim, 0.04)
    # The first channel has all points, the second a quarter, and the third none but one.
    parts = [known, known & (np.arange(57) % 4 == 1), known & (np.arange(57) == 8)]
    cuts = cut(points, known)
    found = nearest_by_channel(tf.constant(points), np.stack(parts, axis=-1), cuts, reach, 10)
    for part, *tensors in zip(parts, *(tf.split(t, 3, axis=2) for t in found), strict=True):
        assert_nearest(points, part, cuts, reach, tensors)


def test_stages_are_earlier_blocks_own_points_and_later_ones():
    points, known = problem(2)
    variance = np.where(known, 0.1, np.inf)[..., None]
    kernel = Kernel(tf.constant(1.0, tf.float64), tf.constant(0.3, tf.float64))
    observed = Observed(
        *(tf.constant(t) for t in (points, np.zeros((3, 57, 1)), variance)),
        kernel, "shared", tf.constant(0.0, tf.float64),
    )  # fmt: skip
    blocks = Neighbourhoods(8, 10).blocks(observed)
    stages = blocks.stages.numpy()
    assert (np.diff(stages, axis=1) >= 0).all()
    # Every known point is once among the points whose likelihood is taken.
    assert (stages == 1).sum() == known.sum()
    assert (
        np.isinf(blocks.penalty.numpy()).sum()
        == stages.size - np.isfinite(blocks.observed(observed).variance.numpy()).sum()
    )


def test_query_points_go_to_the_nearest_block():
    points, known = problem(2)
    cuts = cut(points, known)
    query = np.random.default_rng(3).normal(0.5, 0.5, size=(3, 41, 2))
    block = nearest_block(tf.constant(query), cuts, tf.constant(points)).numpy()
    for example, number in np.ndindex(3, 41):
        distances = []
        for own, filled in zip(cuts.rows[example], cuts.filled[example], strict=True):
            own = points[example, own.numpy()[filled.numpy()]]
            gap = np.inf
            if len(own):
                at = query[example, number]
                gap = np.sum(np.maximum(0, np.maximum(own.min(0) - at, at - own.max(0))) ** 2)
            distances.append(gap)
        assert distances[block[example, number]] == min(distances)


@pytest.mark.parametrize("number", [0, 1, 3, 40, 3000])
@pytest.mark.parametrize("spread", ["even", "one", "random"])
@pytest.mark.parametrize("every", [False, True])
def test_chunks_hold_every_query_point(number, spread, every):
    rng = np.random.default_rng(number)
    block = {
        "even": np.arange(number) % 7,
        "one": np.full(number, 5),
        "random": rng.integers(7, size=number),
    }[spread]
    block = np.stack([block, block[::-1]]).astype(np.int32)
    found = chunks(tf.constant(block), 7, every=every)
    rows, places = found.rows.numpy(), found.places.numpy()
    length = rows.shape[2]
    few = 2 * 7 if every else min(2 * 7, number)
    assert rows.shape[1] <= max(few, 7 + number // 1024) and length <= 1024
    for example in range(2):
        assert len(set(places[example])) == number
        np.testing.assert_array_equal(rows[example].ravel()[places[example]], np.arange(number))
        held = found.block.numpy()[example][places[example] // length]
        np.testing.assert_array_equal(held, block[example])
        first = found.first.numpy()[example].astype(bool)
        with_chunks = np.arange(7) if every else np.unique(block[example])
        assert set(with_chunks) <= set(found.block.numpy()[example][first])
        assert len(set(found.block.numpy()[example][first])) == first.sum()
    query = rng.normal(size=(2, number, 2))
    np.testing.assert_array_equal(found.put_back(found.take(tf.constant(query))), query)


@pytest.mark.parametrize("kind", ["rbf", "matern52"])
@pytest.mark.parametrize(
    "dim, region",
    [
        (1, {}),
        (2, {}),
        (1, {"box": (-0.2, 0.9)}),
        (2, {"box": (-0.2, 0.9)}),
        (2, {"disc": ([0.4, 0.5], 0.45)}),
        (2, {"disc": ([0.9, 0.1], 2.0)}),
    ],
)
def test_integrals_over_cells_add_up(kind, dim, region):
    points, known = problem(dim)
    region = {
        key: tuple(tf.constant(side, tf.float64) for side in sides) for key, sides in region.items()
    }
    prior = Kernel(*(tf.constant(v, tf.float64) for v in (1.3, 0.2)), read_mixture(kind))
    variance = np.where(known, 0.1, np.inf)[..., None]
    observed = Observed(
        *(tf.constant(t) for t in (points, np.zeros((3, 57, 1)), variance)),
        prior, "shared", tf.constant(0.0, tf.float64),
    )  # fmt: skip
    blocks = Neighbourhoods(8, 10).blocks(observed)
    # The same points for all cells of an example.
    at = tf.repeat(tf.constant(points[:, :5]), blocks.rows.shape[1], axis=0)
    found = integrals_over(region, prior, at, *cells(blocks, observed, region))
    expected, _ = prior.integrals(tf.constant(points[:, :5]), **region)
    # Cells of R^d end 8.5 length scales from the points; a disc's are integrated numerically.
    limit = rounding(1000) if "box" in region else 1e-6 if "disc" in region else 1e-12
    np.testing.assert_allclose(blocks.total(found), expected, rtol=limit)


@pytest.mark.parametrize("dim, reach", [(1, 0.0), (2, 0.0), (3, 0.0), (1, 0.4), (2, 0.4)])
@pytest.mark.parametrize("unit, dtype", [(1.0, "float64"), (1e14, "float32")])
def test_candidates_suffice(dim, reach, unit, dtype):
    """Of many blocks only some are searched; the nearest points are found all the same."""
    points = np.random.default_rng(0).uniform(size=(1, 1000, dim)).astype(dtype) * np.float32(unit)
    known = np.ones((1, 1000), bool)
    cuts = cut(points, known)
    reach *= unit
    found = nearest(tf.constant(points), cuts, (-reach, reach), 10)
    rows, seen, _ = (t.numpy()[0] for t in found)
    assert seen.all()
    missed, points = 0, points.astype("float64")
    for number, own in enumerate(cuts.rows[0].numpy()):
        low, high = points[0, own].min(0), points[0, own].max(0)
        outside = np.maximum(0.0, np.maximum(low - points[0], points[0] - high))
        distance = np.sum(np.maximum(0.0, outside - reach) ** 2 + 1e-3 * outside**2, axis=-1)
        distance[own] = np.inf
        missed += len(set(np.argsort(distance)[:10]) - set(rows[number]))
    # In 3 dimensions 54 of 125 blocks; a box has some thirty around it, most of which touch it.
    assert missed <= 0.001 * rows.size
