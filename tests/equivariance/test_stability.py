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
