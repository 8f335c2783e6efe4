"""When examples are cut into blocks, and into how many."""

import numpy as np
import pytest
import tensorflow as tf

from tfpn.math.neighbourhoods import Neighbourhoods

NUMBERS = (1, 57, 150, 163, 208, 209, 340, 400, 5000, 20000)


def takes_longer(number, size, halo, own):
    """Whether blocks do, by their multiplications: their places are filled up to ``size``."""
    blocks = -(-number // size)
    if own:  # covariances of the flows at all places, by the whitener
        return 1.5 * blocks * size * (size + halo) ** 2 >= number**3
    return blocks * (size + halo) ** 3 >= number**3


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("size, halo", [(80, None), (80, 32), (30, 27), (1, 0), (16, 100)])
@pytest.mark.parametrize("dim", [1, 2])
def test_examples_are_cut_where_that_takes_less_time(size, halo, dim, own):
    sizes = Neighbourhoods(size, halo)
    halo = sizes.halo(dim)
    for number in (*NUMBERS, size + halo, size + halo + 1):
        count, length, near = (int(t) for t in sizes.plan(number, dim, own))
        if number <= size + halo or takes_longer(number, size, halo, own):
            assert (count, length, near) == (1, number, 0)
        else:
            assert (count, length, near) == (-(-number // size), size, halo)
        found = sizes.plan(tf.constant(number), dim, own)
        assert [int(t) for t in found] == [count, max(length, 1), near]


@pytest.mark.parametrize(
    "dim, own, first", [(1, True, 166), (1, False, 162), (2, True, 275), (2, False, 356)]
)
def test_from_where_examples_are_cut_by_default(dim, own, first):
    """The numbers that the guide on many points names."""
    counts = [Neighbourhoods(80).plan(number, dim, own)[0] for number in range(first - 1, 900)]
    assert [count > 1 for count in counts] == [False] + [True] * (900 - first)


def test_a_large_number_of_points_does_not_overflow():
    assert [int(t) for t in Neighbourhoods(80, 128).plan(tf.constant(10**6), 2)] == [12500, 80, 128]


def test_examples_that_take_less_time_whole_are_exact():
    """300 points of the plane: without a cut, the default block and its halo have 208."""
    points = tf.constant(np.random.default_rng(0).uniform(size=(1, 300, 2)))
    assert Neighbourhoods(80).is_whole(points)
    assert not Neighbourhoods(80).is_whole(points, own=True)
    assert not Neighbourhoods(80, 32).is_whole(points)
