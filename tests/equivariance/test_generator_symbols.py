"""rho(g) M(g^-1 xi) rho(g)^-1 = M(xi) for random groups, representations and elements."""

import numpy as np
import pytest
import sample_groups
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerance import rounding

from equivariance import count_generators, solve_generators, symbol

NAMES = ("zeroth_order", "first_order", "second_order")


@st.composite
def representation(draw, group, largest=16):
    atoms = sample_groups.atoms(group)
    total = draw(st.integers(1, 2)) * draw(st.sampled_from(atoms))
    for _ in range(draw(st.integers(0, 2))):
        term = draw(st.sampled_from(atoms))
        if draw(st.booleans()) and total.dim * term.dim <= largest:
            total = total @ term
        elif total.dim + term.dim <= largest:
            total = total + term
        if draw(st.booleans()):
            total = total.dual
    return total


@pytest.mark.parametrize("group", sample_groups.ALL, ids=sample_groups.name)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(data=st.data())
def test_symbols_commute_with_the_group(group, data):
    # Without irreducible parts a pair is solved as a whole: keep it small.
    largest = 16 if group in sample_groups.BUILT_IN else 5
    rep_in = data.draw(representation(group, largest))
    rep_out = data.draw(representation(group, largest))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    solution = solve_generators(rep_in, rep_out)
    assert solution.residual() == 0
    if group in sample_groups.BUILT_IN:
        assert solution.dimensions == count_generators(rep_in, rep_out)
    c, b, s = (basis.assemble(rng.normal(size=basis.size)) for basis in solution.factored.values())
    np.testing.assert_array_equal(s, s.swapaxes(0, 1))
    for _ in range(20):
        g = group.random_element(rng)
        xi = rng.normal(size=group.dim)
        # Frequencies transform as the dual of space: g^T xi, which is g^-1 xi if g is orthogonal.
        moved = symbol(g.matrix.T @ xi, c, b, s)
        left, right = rep_out.matrix(g), rep_in.matrix(group.inverse(g))
        error = np.linalg.norm(left @ moved @ right - symbol(xi, c, b, s))
        # Sums over the channels of both sides and over pairs of derivatives, with g^T xi twice.
        sums = rep_in.dim + rep_out.dim + 4 * group.dim**2
        reach = np.linalg.norm(g.matrix) * np.linalg.norm(xi)  # the matrix is rounded, zeros too
        sizes = symbol(np.full(group.dim, reach), *map(np.abs, (c, b, s)))
        size = np.linalg.norm(left) * np.linalg.norm(right) * np.linalg.norm(sizes)
        assert error <= rounding(sums, condition=size)
