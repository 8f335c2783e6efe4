import numpy as np
import pytest
import sample_groups
import sympy

from equivariance import O2, SO2, SO3, Cyclic, Dihedral, MatrixGroup


@pytest.mark.parametrize("group", sample_groups.ALL, ids=sample_groups.name)
def test_elements_form_a_group(group):
    rng = np.random.default_rng(0)
    for _ in range(5):
        g, h = group.random_element(rng), group.random_element(rng)
        product = group.compose(g, h)
        np.testing.assert_allclose(product.matrix, g.matrix @ h.matrix, rtol=0, atol=1e-12)
        unit = group.compose(g, group.inverse(g))
        np.testing.assert_allclose(unit.matrix, np.eye(group.dim), rtol=0, atol=1e-12)
        # The matrix is enough to name an element.
        again = group.element(np.array(g.matrix))
        np.testing.assert_allclose(again.matrix, g.matrix, rtol=0, atol=1e-14)


@pytest.mark.parametrize("group", sample_groups.FINITE, ids=sample_groups.name)
def test_finite_groups_are_closed(group):
    elements = group.elements()
    assert len(elements) == group.order * (2 if group.reflections else 1)
    matrices = [np.array(g.matrix, dtype=float) for g in elements]
    for a in matrices:
        for b in matrices:
            assert sum(np.allclose(a @ b, c, atol=1e-12) for c in matrices) == 1


def test_exact_elements_stay_exact():
    quarter = SO2.rotation(sympy.pi / 4)
    assert SO2.irrep(2).matrix(quarter) == sympy.Matrix([[0, -1], [1, 0]])
    assert SO2.compose(quarter, quarter).matrix == sympy.Matrix([[0, -1], [1, 0]])
    # A rational rotation that is no rational part of a turn.
    turn = sympy.Matrix([[3, -4], [4, 3]]) / 5
    assert SO2.irrep(2).matrix(turn) == turn**2
    flip = turn * sympy.diag(1, -1)
    assert O2.irrep(1).matrix(flip) == flip
    assert O2.compose(flip, flip).matrix == sympy.eye(2)
    third = Cyclic(3).element(sympy.Matrix([[-1, -sympy.sqrt(3)], [sympy.sqrt(3), -1]]) / 2)
    assert third.angle == 2 * sympy.pi / 3
    assert SO3.inverse(SO3.rotation([1, 0, 0], sympy.pi / 2)).matrix[1, 2] == 1


def test_numbers_say_whether_they_are_exact():
    assert isinstance(SO2.irrep(1).matrix(1), sympy.MatrixBase)
    assert isinstance(SO2.irrep(1).matrix(1.0), np.ndarray)
    assert isinstance(SO2.irrep(1).matrix(np.float32(1.0)), np.ndarray)
    assert isinstance(SO2.irrep(1).matrix(sympy.Float(1.0)), np.ndarray)
    assert SO2.irrep(1).matrix(1.0).dtype == np.float64


def test_equality():
    assert Cyclic(4) == Cyclic(4) and Cyclic(4) != Cyclic(3) and Cyclic(4) != Dihedral(4)
    assert SO2 != O2 and len({Cyclic(4), Cyclic(4), Dihedral(4)}) == 2


def test_a_groups_own_matrices_are_its_generators():
    assert O2.discrete_generators[0].matrix == sympy.diag(1, -1)
    x, y = SO3.lie_generators[1], SO3.lie_generators[2]
    assert x * y - y * x == SO3.lie_generators[0]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Cyclic(0), ValueError, "n must be at least 1, found 0"),
        (lambda: Dihedral(2.5), TypeError, "n must be an integer, found 2.5"),
        (lambda: SO2.rotation("north"), TypeError, "angle must be a number"),
        (lambda: SO2.rotation(float("nan")), ValueError, "angle must be finite"),
        (lambda: SO2.rotation(sympy.Symbol("t")), ValueError, "real number, found t"),
        (lambda: SO2.element(np.diag([1.0, -1.0])), ValueError, "SO2 has only rotations"),
        (lambda: SO2.element(np.diag([1.0, 2.0])), ValueError, "orthogonal"),
        (lambda: SO2.element(sympy.diag(1, 2)), ValueError, "orthogonal"),
        (lambda: SO2.element(np.eye(3)), ValueError, r"shape \(3, 3\)"),
        (lambda: Cyclic(4).element(0.1), ValueError, "no multiple of 2 pi / 4"),
        (lambda: Cyclic(4).element(sympy.Rational(1, 10)), ValueError, "no multiple"),
        (lambda: SO3.element(0.5), TypeError, "3 x 3 matrix"),
        (lambda: SO3.element("up"), TypeError, "3 x 3 matrix"),
        (lambda: SO3.element(-np.eye(3)), ValueError, "rotation matrix"),
        (lambda: SO3.element(-sympy.eye(3)), ValueError, "rotation matrix"),
        (lambda: SO3.rotation([0, 0, 0], 1.0), ValueError, "not all 0"),
        (lambda: MatrixGroup("g", 0), ValueError, "dim must be at least 1"),
        (
            lambda: MatrixGroup("g", 2, [[[0, 1]]]),
            ValueError,
            r"lie_generators\[0\] must be a 2 x 2 matrix, found shape \(1, 2\)",
        ),
        (lambda: MatrixGroup("g", 1, [[[0.5]]]), ValueError, "float 0.5.*exact real algebraic"),
        (
            lambda: MatrixGroup("g", 1, [[[sympy.pi]]]),
            ValueError,
            "pi, which is not algebraic",
        ),
        (
            lambda: MatrixGroup("g", 1, [[[sympy.I]]]),
            ValueError,
            "I, which is not real",
        ),
        (lambda: MatrixGroup("g", 1, [], [[[0]]]), ValueError, r"discrete_generators\[0\] has no"),
        (lambda: sample_groups.LORENTZ.element(np.zeros((2, 2))), ValueError, "inverse"),
        (lambda: sample_groups.CUBE.irrep(1), NotImplementedError, r"tensor\(p, q\)"),
    ],
)
def test_bad_groups_and_elements(make, error, message):
    with pytest.raises(error, match=message):
        make()
