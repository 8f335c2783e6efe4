"""When examples are cut into blocks, and into how many."""

import numpy as np
import pytest
import tensorflow as tf

from tfpn.math.neighbourhoods import Neighbourhoods


def cubes(number, size, halo):
    """Multiplications of all factorisations, up to a factor: whole, and in blocks."""
    count = -(-number // size)
    return number**3, count * (number / count + halo) ** 3


@pytest.mark.parametrize("size, halo", [(80, None), (80, 32), (30, 27), (1, 0), (16, 100)])
@pytest.mark.parametrize("dim", [1, 2])
def test_never_more_operations_than_exact(size, halo, dim):
    sizes = Neighbourhoods(size, halo)
    halo = sizes.halo(dim)
    for number in (1, 57, size + halo, size + halo + 1, 150, 208, 209, 340, 400, 5000, 20000):
        count, length, near = (int(t) for t in sizes.plan(number, dim))
        whole, cut = cubes(number, size, halo)
        if number <= size + halo or whole <= cut:
            assert (count, length, near) == (1, number, 0)
        else:
            assert (count, length, near) == (-(-number // size), size, halo)
        found = sizes.plan(tf.constant(number), dim)
        assert [int(t) for t in found] == [count, max(length, 1), near]


@pytest.mark.parametrize("dim, first", [(1, 113), (2, 333)])
def test_from_where_examples_are_cut_by_default(dim, first):
    """The numbers that the guide on many points names."""
    counts = [Neighbourhoods(80).plan(number, dim)[0] for number in range(1, 700)]
    assert [count > 1 for count in counts] == [number >= first for number in range(1, 700)]


def test_a_large_number_of_points_does_not_overflow():
    assert [int(t) for t in Neighbourhoods(80, 128).plan(tf.constant(10**6), 2)] == [12500, 80, 128]


def test_examples_that_are_cheaper_whole_are_exact():
    """300 points of the plane: without a cut, the default block and its halo have 208."""
    rng = np.random.default_rng(0)
    points = tf.constant(rng.uniform(size=(1, 300, 2)))
    assert Neighbourhoods(80).is_whole(points)
    assert not Neighbourhoods(80, 32).is_whole(points)
