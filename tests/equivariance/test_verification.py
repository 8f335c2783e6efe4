import numpy as np
import pytest
import sample_groups
import sympy

from equivariance import (
    O2,
    SO2,
    SO3,
    Cyclic,
    Dihedral,
    Generator,
    MatrixGroup,
    solve_generators,
    verify,
)

HEAT = np.eye(2)[:, :, None, None] / 2


@pytest.mark.parametrize("group", sample_groups.ALL, ids=sample_groups.name)
def test_solutions_pass_and_disturbed_ones_do_not(group):
    """Numerically, on random combinations; the smallest disturbance that counts is seen."""
    rep_in, rep_out = group.tensor(1, 0) + group.tensor(0, 0), group.tensor(1, 0)
    solution = solve_generators(rep_in, rep_out)
    rng = np.random.default_rng(0)
    parts = {
        name: basis.assemble(rng.normal(size=basis.size))
        for name, basis in solution.factored.items()
        if basis.size
    }
    found = verify(parts, rep_in, rep_out)
    limit = sample_groups.residual_limit(rep_in)
    assert found and not found.exact and found.size < limit and not found.violations
    if group == Cyclic(1):  # nothing to miss
        return
    name = sorted(parts)[0]
    disturbed = {**parts, name: parts[name].copy()}
    disturbed[name] += 1e-5 * rng.normal(size=disturbed[name].shape)
    found = verify(disturbed, rep_in, rep_out)
    assert not found and found.violations
    assert all(x.order == name for x in found.violations)
    assert verify(disturbed, rep_in, rep_out, tolerance=10.0)


@pytest.mark.parametrize(
    "group", [SO2, O2, SO3, Cyclic(4), Dihedral(5), sample_groups.TRIANGLE], ids=sample_groups.name
)
def test_exact_bases_pass_exactly(group):
    vector = group.tensor(1, 0)
    solution = solve_generators(vector + group.tensor(0, 0), vector)
    for name in ("zeroth_order", "first_order", "second_order"):
        for array in getattr(solution, name)[:3]:
            found = verify({name: array}, solution.rep_in, vector)
            assert found.equivariant and found.exact and found.size == 0


def test_the_residual_is_shown():
    drift = {"first_order": [[[1]], [[2]]]}
    found = verify(drift, SO2.irrep(0))
    assert not found.equivariant and found.exact
    assert [str(x) for x in found.violations] == [
        "B_0[0, 0] misses the equation of lie_generators[0] by -2",
        "B_1[0, 0] misses the equation of lie_generators[0] by 1",
    ]
    assert found.residuals["lie_generators[0]", "first_order"].tolist() == [[[-2]], [[1]]]
    assert found.size == 1.0
    assert "Not equivariant (SO2: 0)" in str(found) and "by -2" in str(found)
    # A reflection through the second axis only changes the second component.
    group = MatrixGroup("mirror", 2, [], [[[1, 0], [0, -1]]])
    (violation,) = verify(drift, group.tensor(0, 0)).violations
    assert (violation.element, violation.derivatives) == ("discrete_generators[0]", (1,))
    assert violation.channels == (0, 0) and violation.residual == -4


def test_residual_against_finite_rotations():
    """The residual of a Lie-algebra generator is the derivative of the group's equation."""
    rng = np.random.default_rng(1)
    rep_in, rep_out = SO2.irrep(2), SO2.irrep(1) + SO2.irrep(0)
    b, s = rng.normal(size=(2, 3, 2)), rng.normal(size=(2, 2, 3, 2))
    s = s + s.swapaxes(0, 1)
    found = verify(Generator(first_order=b, second_order=s), rep_in, rep_out)

    def moved(angle):
        g, a = SO2.irrep(1).matrix(angle), rep_out.matrix(angle)
        x = rep_in.matrix(-angle)
        return (
            np.einsum("ij,ab,jbc,cd->iad", g, a, b, x),
            np.einsum("ik,jl,ab,klbc,cd->ijad", g, g, a, s, x),
        )

    step = 1e-6
    for name, up, down in zip(
        ("first_order", "second_order"), moved(step), moved(-step), strict=True
    ):
        slope = (up - down) / (2 * step)
        np.testing.assert_allclose(
            found.residuals["lie_generators[0]", name], slope, rtol=0, atol=1e-8
        )


def test_symbols_stand_for_any_number():
    a, b = sympy.symbols("a b", real=True)
    rotated = [[[0], [a]], [[-a], [0]]]
    assert verify({"first_order": rotated}, SO2.irrep(0), SO2.irrep(1))
    found = verify({"first_order": rotated}, O2.irrep(0), O2.irrep(1))
    assert not found and all(x.residual in (2 * a, -2 * a) for x in found.violations)
    mixed = verify({"zeroth_order": [[a, b], [b, a]]}, SO2.irrep(1))
    assert not mixed and np.isnan(mixed.size)
    assert {x.residual for x in mixed.violations} <= {2 * b, -2 * b}


def test_forms_of_a_generator():
    rep = SO2.irrep(0)
    for generator in (
        Generator(second_order=HEAT),
        (None, None, HEAT),
        {"second_order": HEAT.tolist()},
        {"second_order": sympy.Array([[[[1]], [[0]]], [[[0]], [[1]]]])},
        {"zeroth_order": sympy.Matrix([[1]]), "second_order": None},
    ):
        assert verify(generator, rep)
        assert verify(generator, SO2)  # a group: scalar channels
    assert verify({"zeroth_order": np.eye(3, dtype=int)}, SO3).exact
    assert verify({"zeroth_order": np.ones((3, 2))}, SO3)


def test_only_the_symmetric_part_of_s_acts():
    skew = np.array([[0.0, 1.0], [-1.0, 0.0]])[:, :, None, None]
    found = verify({"second_order": HEAT + skew}, SO2.irrep(0))
    assert found.equivariant and not found.symmetric and "symmetric part" in str(found)
    drift = np.array([[1.0, 1.0], [-1.0, 2.0]])[:, :, None, None]
    assert not verify({"second_order": drift}, SO2.irrep(0)).equivariant


@pytest.mark.parametrize(
    ("generator", "rep", "error", "message"),
    [
        (3, SO2.irrep(0), TypeError, "generator must be .* found int"),
        ((1, 2), SO2.irrep(0), TypeError, "found tuple"),
        ({}, SO2.irrep(0), ValueError, "empty"),
        ({"drift": [1]}, SO2.irrep(0), ValueError, r"keys \['drift'\]; known are"),
        (
            {"first_order": np.ones((3, 1, 1))},
            SO2.irrep(0),
            ValueError,
            r"\(2, 1, 1\).*\(3, 1, 1\)",
        ),
        ({"first_order": [[[1.0]], [[np.nan]]]}, SO2.irrep(0), ValueError, r"nan at \(1, 0, 0\)"),
        ({"first_order": [[[1]], [[sympy.nan]]]}, SO2.irrep(0), ValueError, "finite"),
        ({"first_order": [[[sympy.oo]], [[1]]]}, SO2.irrep(0), ValueError, "finite"),
        ({"first_order": [[["a"]], [[1]]]}, SO2.irrep(0), TypeError, "real numbers|numbers or"),
        ({"first_order": [[[1, 2]], [[1]]]}, SO2.irrep(0), ValueError, "unequal length"),
        ({"zeroth_order": [[sympy.I]]}, SO2.irrep(0), TypeError, "must be real"),
        ({"zeroth_order": [[1j]]}, SO2.irrep(0), TypeError, "real"),
        ({"zeroth_order": [[1]]}, "SO2", TypeError, "rep_in must be a representation"),
    ],
)
def test_bad_input(generator, rep, error, message):
    with pytest.raises(error, match=message):
        verify(generator, rep)


@pytest.mark.parametrize("tolerance", [float("nan"), float("inf"), -1.0, -float("inf"), sympy.oo])
def test_bad_tolerance(tolerance):
    with pytest.raises(ValueError, match="tolerance must be finite and not negative"):
        verify({"zeroth_order": [[1.0]]}, SO2.irrep(0), tolerance=tolerance)


@pytest.mark.parametrize("tolerance", ["1e-9", None, True, 1e-9j, [1e-9]])
def test_a_tolerance_is_a_number(tolerance):
    with pytest.raises(TypeError, match="tolerance must be a number"):
        verify({"zeroth_order": [[1.0]]}, SO2.irrep(0), tolerance=tolerance)


def test_a_large_block_does_not_hide_a_small_one():
    """A drift of size 1 beside diffusions of size 1e12, between channels that nothing mixes."""
    rep = SO2.irrep(0) + SO2.irrep(1) + SO2.irrep(2)
    c = np.diag([1e12, 1e12, 1e12, 1e12, 1e12])
    assert verify({"zeroth_order": c}, rep)
    c[1, 2] = c[2, 1] = 1.0  # within frequency 1, beside its own 1e12: 1 is a relative 1e-12
    assert verify({"zeroth_order": c}, rep)
    c[1, 2] = c[2, 1] = 0.0
    c[0, 3] = 1.0
    found = verify({"zeroth_order": c}, rep)
    assert not found and {x.channels for x in found.violations} <= {(0, 3), (0, 4)}
    c[0, 3], c[0, 4] = 0.0, 1e-3  # rounding of 1e12 is 1e-4
    assert verify({"zeroth_order": c}, rep)


def test_rounding_of_a_block_that_should_be_zero_is_no_violation():
    rep = SO2.irrep(0) + SO2.irrep(1)
    c = np.diag([1.0, 1.0, 1.0])
    c[0, 1] = 1e-15
    assert verify({"zeroth_order": c}, rep)
    assert not verify({"zeroth_order": c}, rep, tolerance=0.0)


@pytest.mark.parametrize("scale", [1e308, 1.7e308, 1e-300, 5e-324])
@pytest.mark.parametrize("group", [SO2, SO3, Cyclic(4)], ids=sample_groups.name)
def test_huge_and_tiny_entries(group, scale, recwarn):
    drift = np.zeros((group.dim, 1, 1))
    laplacian = np.eye(group.dim)[:, :, None, None] * scale
    assert verify({"first_order": drift, "second_order": laplacian}, group.tensor(0, 0))
    drift[0] = scale
    found = verify({"first_order": drift, "second_order": laplacian}, group.tensor(0, 0))
    assert not found and found.size >= 1 and abs(found.violations[0].residual) >= scale
    laplacian[0, 1] = scale
    assert not verify({"second_order": laplacian}, group.tensor(0, 0))
    assert not recwarn


def test_huge_integers_are_exact():
    drift = {"first_order": [[[10**400]], [[10**400]]]}
    found = verify(drift, SO2.irrep(0))
    assert found.exact and not found and found.size == 1.0
    assert found.violations[0].residual == -(10**400)
    with pytest.raises(ValueError, match="too large for a float"):
        verify({"first_order": [[[10**400]], [[0.5]]]}, SO2.irrep(0))


@pytest.mark.parametrize("c", [[[True]], np.array([[True]]), np.array([[np.True_]], dtype=object)])
def test_truth_values_are_no_numbers(c, recwarn):
    with pytest.raises(TypeError):
        verify({"zeroth_order": c}, SO2.irrep(0))
    assert not recwarn


def _own(name, lie=(), discrete=()):
    return MatrixGroup(name, 2, list(lie), list(discrete))


@pytest.mark.parametrize("exponent", [0, 9, 12, 30])
def test_scaling_a_lie_generator_changes_no_verdict(exponent):
    small = sympy.Rational(1, 10**exponent)
    rep = _own("turns", lie=[[[0, -small], [small, 0]]]).tensor(1, 0)
    assert not verify({"zeroth_order": np.diag([1.0, 2.0])}, rep)
    assert verify({"zeroth_order": np.eye(2)}, rep)


def _boost(factor):
    factor = sympy.Rational(factor)
    c, s = (factor + 1 / factor) / 2, (factor - 1 / factor) / 2
    return [[c, s], [s, c]]


@pytest.mark.parametrize(
    "group",
    [
        _own("boost", discrete=[_boost(100)]),
        _own("shear", discrete=[[[1, 1000], [0, 1]]]),
        _own("turns", lie=[[[0, -(10**8)], [10**8, 0]]]),
    ],
    ids=lambda group: group.name,
)
def test_large_entries_of_a_group_reject_no_solution(group):
    rep = group.tensor(1, 1)
    free = solve_generators(rep).parameterization("free")
    assert verify(free.generator(free.initial(rng=0)), rep)
    wrong = {"zeroth_order": np.diag([1.0, 2.0, 3.0, 4.0])}
    assert not verify(wrong, rep)


def test_entries_beyond_double_precision_are_refused():
    rep = _own("huge", lie=[[[0, 10**400], [-(10**400), 0]]]).tensor(1, 0)
    with pytest.raises(ValueError, match="too large for double precision"):
        verify({"zeroth_order": np.diag([1.0, 2.0])}, rep)
    exact = {"zeroth_order": sympy.diag(1, 2)}
    assert not verify(exact, rep)
