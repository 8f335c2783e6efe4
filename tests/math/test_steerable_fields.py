"""Field types and their channels."""

import numpy as np
import pytest
import slow_steerable as slow
import tensorflow as tf

from equivariance import O2, SO2
from tfpn.math.steerable.fields import (
    block_mean,
    block_numbers,
    count_channels,
    join_fields,
    read_fields,
    split_fields,
)
from tfpn.math.steerable.mixing import mix_block_variance, mix_fields

FIELDS = ((0, 3), (1, 2), (3, 1))


@pytest.mark.parametrize(
    "given",
    [
        FIELDS,
        dict(FIELDS),
        {"1": 2, "0": 3, "3": 1},
        [[3, 1], [0, 3], [1, 2]],
        3 * SO2.irrep(0) + 2 * SO2.irrep(1) + SO2.irrep(3),
    ],
)
def test_all_ways_to_write_a_type(given):
    assert read_fields(given) == FIELDS


def test_one_irreducible_representation_and_a_number_of_scalars():
    assert read_fields(SO2.irrep(2)) == ((2, 1),)
    assert read_fields(np.int64(4)) == ((0, 4),)


def test_channels_are_those_of_the_representation():
    rho = 3 * SO2.irrep(0) + 2 * SO2.irrep(1) + SO2.irrep(3)
    assert count_channels(FIELDS) == rho.dim
    np.testing.assert_allclose(slow.representation(FIELDS)(0.7), rho.matrix(0.7), atol=1e-15)


@pytest.mark.parametrize(
    "given, error, message",
    [
        ("0y", ValueError, "fields is no representation of SO2: Unexpected 'y'"),
        ("0-", ValueError, "SO2 has no reflections"),
        ({"0-": 1}, ValueError, "'0-', but SO2 has no reflections"),
        ({0: 0}, ValueError, "copies"),
        ({-1: 2}, ValueError, "frequency"),
        ({0: 1.5}, ValueError, "copies"),
        ([(0, 1), (0, 2)], ValueError, "twice"),
        ({}, ValueError, "empty"),
        (True, TypeError, "fields"),
        (O2.irrep(1), ValueError, "SO2"),
        (SO2.irrep(1) + SO2.irrep(0), ValueError, "order"),
        (SO2.tensor(1, 1), ValueError, "irreducible"),
    ],
)
def test_errors_name_the_argument(given, error, message):
    with pytest.raises(error, match=message):
        read_fields(given)


def test_splitting_and_joining():
    x = np.arange(2.0 * 9).reshape(2, 9)
    parts = split_fields(tf.constant(x), FIELDS)
    np.testing.assert_array_equal(parts[0], x[:, :3])
    np.testing.assert_array_equal(parts[1], x[:, [3, 5, 4, 6]])
    np.testing.assert_array_equal(parts[3], x[:, 7:])
    np.testing.assert_array_equal(join_fields(parts, FIELDS), x)


def test_blocks():
    assert block_numbers(FIELDS) == [0, 1, 2, 3, 3, 4, 4, 5, 5]
    x = np.arange(9.0)[None]
    expected = [[0, 1, 2, 3.5, 3.5, 5.5, 5.5, 7.5, 7.5]]
    np.testing.assert_array_equal(block_mean(tf.constant(x), FIELDS), expected)


def test_mixings_commute_with_rotations_and_keep_variances_of_blocks():
    rng = np.random.default_rng(0)
    out = ((0, 2), (1, 1), (3, 2))
    weights = {
        0: rng.normal(size=(3, 2)),
        1: rng.normal(size=(2, 2, 1)),
        3: rng.normal(size=(2, 1, 2)),
    }
    x = rng.normal(size=(5, 9))

    def mix(x):
        return join_fields(mix_fields(split_fields(tf.constant(x), FIELDS), weights), out).numpy()

    matrix = mix(np.eye(9)).T
    rho_in, rho_out = slow.representation(FIELDS)(0.4), slow.representation(out)(0.4)
    np.testing.assert_allclose(matrix @ rho_in, rho_out @ matrix, atol=1e-14)
    np.testing.assert_allclose(mix(x), x @ matrix.T, atol=1e-14)
    variance = rng.uniform(size=6)  # a block's
    full = matrix @ np.diag(variance[block_numbers(FIELDS)]) @ matrix.T
    parts = {0: variance[None, :3], 1: variance[None, 3:5], 3: variance[None, 5:]}
    found = mix_block_variance(parts, weights)
    np.testing.assert_allclose(np.diag(full)[:2], found[0][0], atol=1e-14)
    np.testing.assert_allclose(np.diag(full)[[2, 3]], np.repeat(found[1][0], 2), atol=1e-14)
    np.testing.assert_allclose(np.diag(full)[4:], np.repeat(found[3][0], 2), atol=1e-14)
