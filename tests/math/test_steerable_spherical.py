"""Spherical harmonics, Clebsch-Gordan coefficients and rotations of both."""

import numpy as np
import pytest
import scipy.special
from sympy.physics.wigner import clebsch_gordan

from equivariance import SO3
from tfpn.math.steerable.space.spherical import couplings, products, spherical_harmonics

SPINS = range(5)


def directions(count=20, seed=0):
    u = np.random.default_rng(seed).normal(size=(count, 3))
    return u / np.linalg.norm(u, axis=-1, keepdims=True)


def harmonics(u, highest=5):
    found = spherical_harmonics(*u.T, np.ones(len(u)), highest)
    return [np.stack(part, axis=-1) for part in found]


def test_harmonics_are_those_of_scipy():
    u = directions()
    theta, phi = np.arccos(u[:, 2]), np.arctan2(u[:, 1], u[:, 0])
    for spin, found in enumerate(harmonics(u)):
        expected = []
        for m in range(spin, 0, -1):
            wave = np.sqrt(2.0) * (-1) ** m * scipy.special.sph_harm_y(spin, m, theta, phi)
            expected += [wave.real, wave.imag]
        expected.append(scipy.special.sph_harm_y(spin, 0, theta, phi).real)
        np.testing.assert_allclose(found, np.stack(expected, axis=-1), rtol=0, atol=2e-15)


@pytest.mark.parametrize("spin", SPINS)
def test_harmonics_turn_by_the_irreducible_representations(spin):
    u, rng = directions(), np.random.default_rng(1)
    for _ in range(5):
        g = SO3.random_element(rng)
        rho = np.asarray(SO3.irrep(spin).matrix(g), float)
        found = harmonics(u @ np.asarray(g.matrix).T)[spin]
        np.testing.assert_allclose(found, harmonics(u)[spin] @ rho.T, rtol=0, atol=5e-15)


def test_nothing_but_scalars_is_left_where_there_is_no_direction():
    scalar, *others = harmonics(np.zeros((1, 3)), 0) + [
        np.stack(part) for part in spherical_harmonics(*np.zeros((4, 1)), 4)[1:]
    ]
    assert scalar[0, 0] == np.sqrt(1.0 / (4.0 * np.pi))
    assert all(np.all(part == 0.0) for part in others)


@pytest.mark.parametrize("out", SPINS)
@pytest.mark.parametrize("inside", SPINS)
def test_couplings_are_an_equivariant_orthonormal_basis(out, inside):
    found = couplings(out, inside)
    assert list(found) == list(range(abs(out - inside), out + inside + 1))
    rows = np.concatenate([part.reshape(len(part), -1) for part in found.values()])
    np.testing.assert_allclose(rows @ rows.T, np.eye(len(rows)), rtol=0, atol=1e-14)
    g = SO3.random_element(np.random.default_rng(2))
    left, right = (np.asarray(SO3.irrep(l).matrix(g), float) for l in (out, inside))  # noqa: E741
    for spin, part in found.items():
        turned = np.einsum("ac,mcd,bd->mab", left, part, right)
        rho = np.asarray(SO3.irrep(spin).matrix(g), float)
        expected = np.einsum("nm,nab->mab", rho, part)
        np.testing.assert_allclose(turned, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("out, inside", [(0, 2), (1, 1), (1, 2), (2, 2)])
def test_couplings_along_the_third_axis_are_those_of_sympy(out, inside):
    """For M = 0: up to a sign for each L, (l m, l' -m | L 0) (-1)^m between equal orders m."""
    for spin, part in couplings(out, inside).items():
        zero, expected = part[-1], np.zeros((2 * out + 1, 2 * inside + 1))
        for m in range(-min(out, inside), min(out, inside) + 1):
            factor = (-1.0) ** m * float(clebsch_gordan(out, inside, spin, m, -m, 0))
            a, b = (2 * (l - abs(m)) for l in (out, inside))  # noqa: E741
            if m == 0:
                expected[a, b] += factor
            elif (out + inside + spin) % 2 == 0:
                expected[[a, a + 1], [b, b + 1]] += factor / 2.0
            else:
                expected[[a, a + 1], [b + 1, b]] += np.sign(m) * factor / 2.0 * np.array([1, -1])
        sign = np.sign(np.sum(zero * expected))
        np.testing.assert_allclose(sign * zero, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("spin", range(6))
def test_products_with_the_direction(spin):
    u = directions()
    found = harmonics(u, 6)
    total = sum(
        np.einsum("imn,pn->pim", products(spin, step), found[spin + step])
        for step in (1, -1)
        if spin + step >= 0
    )
    np.testing.assert_allclose(total, u[:, :, None] * found[spin][:, None], rtol=0, atol=3e-15)
