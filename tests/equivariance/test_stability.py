import os
import subprocess
import sys

import numpy as np
import pytest
import sample_groups
import sympy

from equivariance import SO2, SO3, Generator, amplifies, solve_generators

HEAT = np.eye(2)[:, :, None, None] / 2


@pytest.mark.parametrize("group", sample_groups.ORTHOGONAL, ids=sample_groups.name)
def test_dissipative_generators_do_not(group):
    rep = group.tensor(1, 0) + group.tensor(0, 0)
    parameterization = solve_generators(rep).parameterization()
    found = amplifies(parameterization.generator(parameterization.initial(rng=0)), 0.1)
    assert not found and found.growth <= 0.0 and found.well_posed
    assert found.margin_one_side >= 0.1**2 / 2 - 1e-9
    assert str(found).startswith("exp(M) does not amplify.")


def test_the_frequency_proves_it():
    """At the frequency that is named, the norm of exp(t M) grows at the rate that is named."""
    free = solve_generators(SO2.irrep(0) + SO2.irrep(1)).parameterization("free")
    seen = 0
    for seed in range(8):
        generator = free.generator(free.initial(rng=seed))
        found = amplifies(generator)
        if not found or np.isinf(found.growth):
            continue
        m = generator.symbol(1j * found.frequency)
        step = 1e-6
        norm = np.linalg.norm(np.eye(3) + step * m, 2)
        assert norm == pytest.approx(1 + step * found.growth, abs=1e-10)
        seen += 1
    assert seen > 2


def test_known_cases():
    transport = {"first_order": np.array([[[1.0, 0.0], [0.0, -1.0]], [[0.0, 1.0], [1.0, 0.0]]])}
    assert not amplifies(transport)  # symmetric hyperbolic
    skew = {"first_order": np.array([[[0.0, 1.0], [-1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])}
    assert amplifies(skew).growth == np.inf and amplifies(skew).well_posed
    growth = amplifies({"zeroth_order": np.diag([0.3, -2.0]), "second_order": None})
    assert growth.growth == pytest.approx(0.3) and growth.frequency.tolist() == [0.0]
    assert not amplifies({"zeroth_order": np.array([[0.0, 1.0], [-1.0, 0.0]])})
    # Transport by an antisymmetric B, tamed by diffusion: growth at low frequencies only.
    tamed = {**skew, "second_order": np.eye(2)[:, :, None, None] * np.eye(2)}
    found = amplifies(tamed)
    assert found.growth == pytest.approx(0.25, rel=1e-2)  # max of r - r^2
    assert np.linalg.norm(found.frequency) == pytest.approx(0.5, rel=0.1)
    # Diffusion along one axis only is enough for no growth along the other.
    assert not amplifies({"second_order": np.diag([1.0, 0.0])[:, :, None, None]})
    assert amplifies({"second_order": np.diag([1.0, -0.1])[:, :, None, None]})


@pytest.mark.parametrize(
    ("length_scale", "one_side", "both_sides"),
    [(1.0, True, True), (0.5, True, False), (0.3, False, False)],
)
def test_rbf_kernels(length_scale, one_side, both_sides):
    """min Re spec S(k) = -1/10 against -l^2 / 2 and -l^2 / 4."""
    found = amplifies(Generator(second_order=-0.2 * HEAT), length_scale)
    assert not found.well_posed and found.growth == np.inf
    assert (found.margin_one_side > 0, found.margin_both_sides > 0) == (one_side, both_sides)
    assert ("A k exists" in str(found)) == one_side
    assert ("A k A' exists" in str(found)) == both_sides


def test_rbf_margin_is_where_the_kernel_blows_up():
    """The spectrum exp(-k^T S k) exp(-l^2 k^2 / 2) decays for margins above 0, grows below."""
    rng = np.random.default_rng(0)
    s = rng.normal(size=(2, 2, 2, 2))
    s = s + s.swapaxes(0, 1)
    s = s + s.swapaxes(-1, -2)
    free = amplifies((None, None, s), 1.0)
    critical = np.sqrt(2 * (0.5 - free.margin_one_side))  # l at which the margin is 0
    for factor, grows in ((0.9, True), (1.1, False)):
        largest = 0.0
        for angle in np.linspace(0, np.pi, 181):
            k = 40.0 / critical * np.array([np.cos(angle), np.sin(angle)])
            form = np.einsum("i,j,ijab->ab", k, k, s)
            tops = -np.linalg.eigvalsh(form).min() - (factor * critical) ** 2 * (k @ k) / 2
            largest = max(largest, tops)
        assert (largest > 10) == grows


def test_in_space():
    free = solve_generators(SO3.irrep(0) + SO3.irrep(1)).parameterization("free")
    assert amplifies(free.generator({p.name: np.ones(p.shape) for p in free.parameters}))


def test_the_papers_180_channels_in_seconds():
    """One thread: on busy cores those of BLAS wait for each other."""
    code = """
import time
from equivariance import SO2, amplifies, solve_generators
scalars, vectors, matrices, third = (SO2.tensor(*x) for x in ((0, 0), (1, 0), (1, 1), (1, 2)))
solution = solve_generators(50 * scalars + 25 * vectors + 10 * matrices + 5 * third)
for constraint, expected in (("dissipative", False), ("free", True)):
    pde = solution.parameterization(constraint)
    generator = pde.generator(pde.initial(rng=0))
    start = time.process_time()
    found = amplifies(generator, 0.3)
    assert found.amplifies is expected and time.process_time() - start < 5
"""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def brute_force(generator, directions=90):
    """The largest rate on a fine grid, relative to terms of size 1."""
    dim = len(generator.first_order)
    found = -np.inf
    for n in range(directions):
        angle = np.pi * n / directions
        k = np.array([np.cos(angle), np.sin(angle)][:dim])
        for r in np.concatenate([[0.0], np.logspace(-2, 2, 120)]):
            m = generator.symbol(1j * r * k)
            found = max(found, np.linalg.eigvalsh((m + m.conj().T) / 2)[-1])
    return found


@pytest.mark.parametrize("size", [1, 2, 5])
def test_against_a_fine_grid(size):
    rng = np.random.default_rng(size)
    for _ in range(3):
        q = rng.normal(size=(2, size, size))
        s = np.einsum("iab,jac->ijbc", q, q) / 2 + 0.1 * HEAT * np.eye(size)
        s = (s + s.swapaxes(0, 1)) / 2
        generator = Generator(rng.normal(size=(size, size)) - 2.0 * np.eye(size), 0 * q, s)
        generator = generator._replace(first_order=rng.normal(size=(2, size, size)))
        if not np.isinf(amplifies(generator).growth):
            assert amplifies(generator).growth >= brute_force(generator) - 1e-6


def test_many_coupled_channels_against_a_fine_grid():
    """More channels than are searched at once."""
    rng = np.random.default_rng(0)
    size = 30
    first = rng.normal(size=(1, size, size))
    second = np.eye(size)[None, None] * 2.0
    generator = Generator(rng.normal(size=(size, size)) / 4 - 3 * np.eye(size), first, second)
    found = amplifies(generator)
    assert found.growth >= brute_force(generator, 1) - 1e-6
    m = generator.symbol(1j * found.frequency)
    top = np.linalg.eigvalsh((m + m.conj().T) / 2)[-1]
    assert found.growth == pytest.approx(top, abs=1e-6)


def test_uncoupled_channels_are_examined_apart():
    """Anti-diffusion of size 1 beside diffusion of size 1e12."""
    s = HEAT * np.diag([1e12, -1.0])
    found = amplifies({"second_order": s})
    assert found.growth == np.inf and not found.well_posed
    assert not amplifies({"second_order": np.abs(s)})


def test_transport_where_nothing_is_diffused_has_no_bound():
    skew = np.array([[[0.0, 1.0, 0], [-1.0, 0.0, 0], [0, 0, 0.0]]])
    skew[0, 0, 2] = skew[0, 2, 0] = 1.0
    tamed = np.diag([0.0, 0.0, 1.0])[None, None]
    assert amplifies({"first_order": skew, "second_order": tamed}).growth == np.inf


def test_rounding_is_no_growth():
    rng = np.random.default_rng(0)
    b = rng.normal(size=(2, 5, 5))
    b = b + b.swapaxes(-1, -2)
    b[0, 0, 1] *= 1 + 1e-15
    c = rng.normal(size=(5, 5))
    c = c - c.T
    c[0, 1] *= 1 + 1e-15
    assert not amplifies({"zeroth_order": c, "first_order": b})


@pytest.mark.parametrize("scale", [1e-280, 1e-100, 1e100, 1e300])
def test_units_do_not_matter(scale, recwarn):
    skew = np.array([[[0.0, 1.0], [-1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    tamed = np.eye(2)[:, :, None, None] * np.eye(2)
    found = amplifies({"first_order": scale * skew, "second_order": scale * tamed})
    assert found.growth == pytest.approx(0.25 * scale)
    assert np.abs(found.frequency) == pytest.approx([0.5, 0.0], abs=1e-6)
    found = amplifies({"first_order": skew, "second_order": tamed * 1e-20})
    assert found.growth == pytest.approx(0.25e20)
    assert not recwarn


def test_sizes_too_far_apart():
    skew = np.array([[[0.0, 1.0], [-1.0, 0.0]]])
    with pytest.raises(ValueError, match="too far apart"):
        amplifies({"first_order": 1e300 * skew, "second_order": 1e-300 * np.eye(2)[None, None]})


@pytest.mark.parametrize(
    ("generator", "length_scale", "error", "message"),
    [
        (3, None, TypeError, "generator must be"),
        ({}, None, ValueError, "empty"),
        ({"zeroth_order": np.ones((2, 3))}, None, ValueError, "as many output .* 2 and 3"),
        ({"second_order": HEAT * np.nan}, None, ValueError, "finite"),
        ({"zeroth_order": [[sympy.Symbol("a")]]}, None, TypeError, "symbols"),
        ({"second_order": HEAT}, -1.0, ValueError, "length_scale must be a positive"),
        ({"second_order": HEAT}, "1", TypeError, "length_scale must be a positive"),
        ({"second_order": HEAT, "first_order": np.ones((3, 1, 1))}, None, ValueError, "shape"),
    ],
)
def test_bad_arguments(generator, length_scale, error, message):
    with pytest.raises(error, match=message):
        amplifies(generator, length_scale)
