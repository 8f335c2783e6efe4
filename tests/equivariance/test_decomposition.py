import numpy as np
import pytest
import sample_groups
import sympy

from equivariance import SO2, SO3, Cyclic, count_invariants, decompose


def composites(group):
    vector = group.tensor(1, 0)
    found = [group.tensor(0, 0), vector, group.tensor(1, 1), 2 * vector + group.tensor(0, 2)]
    found.append((vector + group.tensor(0, 0)) @ group.tensor(1, 1))
    if group in sample_groups.BUILT_IN:
        irreps = sample_groups.irreps(group)
        found += [irreps[-1] @ irreps[-1], irreps[-1] @ (irreps[0] + irreps[1 % len(irreps)])]
    return found


@pytest.mark.parametrize("group", sample_groups.ALL, ids=sample_groups.name)
def test_change_of_basis(group):
    rng = np.random.default_rng(0)
    for rep in composites(group):
        parts = rep.decompose()
        q = parts.change_of_basis_numpy
        np.testing.assert_allclose(q @ q.T, np.eye(rep.dim), rtol=0, atol=1e-14)
        assert parts.representation.dim == rep.dim
        for _ in range(3):
            g = group.random_element(rng)
            diagonal = parts.representation.matrix(g)
            scale = max(1.0, np.abs(diagonal).max())
            np.testing.assert_allclose(
                q @ diagonal @ q.T, rep.matrix(g), rtol=0, atol=1e-13 * scale
            )


@pytest.mark.parametrize("group", sample_groups.BUILT_IN, ids=sample_groups.name)
def test_change_of_basis_is_exact(group):
    for rep in composites(group):
        if rep.dim > 12:
            continue
        parts = rep.decompose()
        q = parts.change_of_basis
        assert sample_groups.is_zero(q * q.T - sympy.eye(rep.dim))
        np.testing.assert_allclose(
            np.array(q, dtype=float), parts.change_of_basis_numpy, rtol=0, atol=1e-15
        )
        whole = zip(rep.lie_algebra, parts.representation.lie_algebra, strict=True)
        for a, b in whole:
            assert sample_groups.is_zero(a * q - q * b)


@pytest.mark.parametrize("group", sample_groups.BUILT_IN, ids=sample_groups.name)
def test_parts_are_irreducible(group):
    """<chi, chi> is 1, or 2 for the complex type (rotations of two channels, no reflections)."""
    for irrep in sample_groups.irreps(group):
        complex_type = irrep.dim == 2 and not group.reflections
        assert count_invariants(irrep @ irrep) == (2 if complex_type else 1)


@pytest.mark.parametrize("group", sample_groups.BUILT_IN, ids=sample_groups.name)
def test_multiplicities_are_those_of_the_characters(group):
    for rep in composites(group):
        for irrep, multiplicity in rep.decompose().irreps:
            assert count_invariants(rep @ irrep) == multiplicity * count_invariants(irrep @ irrep)


def test_known_decompositions():
    assert str(SO2.tensor(2, 1).decompose().representation) == "3x1 + 3"
    assert str(SO3.tensor(1, 2).decompose().representation) == "0 + 3x1 + 2x2 + 3"
    assert str((SO3.irrep(2) @ SO3.irrep(3)).decompose().representation) == "1 + 2 + 3 + 4 + 5"
    assert str(Cyclic(2).tensor(1, 0).decompose().representation) == "2x1"
    assert str(Cyclic(1).tensor(1, 0).decompose().representation) == "2x0"
    assert str((SO2.irrep(3) @ SO2.irrep(3)).decompose().representation) == "2x0 + 6"


def test_spins_above_the_largest_that_users_build():
    rep = SO3.irrep(8) @ SO3.irrep(5)
    assert [irrep.dim for irrep, _ in rep.decompose().irreps] == [2 * k + 1 for k in range(3, 14)]


def test_blocks_are_slices_of_the_irreducible_channels():
    rep = 2 * SO2.irrep(1) + 3 * SO2.irrep(0)
    blocks = decompose(rep).blocks
    assert [(str(b.irrep), b.multiplicity, b.channels) for b in blocks] == [
        ("0", 3, slice(0, 3)),
        ("1", 2, slice(3, 7)),
    ]


def test_bad_argument():
    with pytest.raises(TypeError, match="rep must be a representation .*found 3"):
        decompose(3)
