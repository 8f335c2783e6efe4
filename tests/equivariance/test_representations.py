import numpy as np
import pytest
import sample_groups
import sympy

from equivariance import O2, SO2, SO3, Cyclic, Dihedral


def representations(group):
    first = sample_groups.atoms(group)
    vector = group.tensor(1, 0)
    return [*first, 2 * vector + group.tensor(0, 0), vector @ group.tensor(1, 1), (vector @ vector)]


@pytest.mark.parametrize("group", sample_groups.ALL, ids=sample_groups.name)
def test_matrices_multiply_as_elements_do(group):
    rng = np.random.default_rng(1)
    for rep in representations(group):
        g, h = group.random_element(rng), group.random_element(rng)
        found = rep.matrix(group.compose(g, h))
        assert found.shape == (rep.dim, rep.dim) and found.dtype == np.float64
        scale = max(1.0, np.abs(rep.matrix(g)).max() * np.abs(rep.matrix(h)).max())
        np.testing.assert_allclose(found, rep.matrix(g) @ rep.matrix(h), rtol=0, atol=1e-12 * scale)
        np.testing.assert_allclose(
            rep.dual.matrix(g), np.linalg.inv(rep.matrix(g)).T, rtol=0, atol=1e-11 * scale
        )


@pytest.mark.parametrize("group", sample_groups.BUILT_IN, ids=sample_groups.name)
def test_matrices_are_orthogonal(group):
    rng = np.random.default_rng(2)
    for rep in representations(group):
        matrix = rep.matrix(group.random_element(rng))
        np.testing.assert_allclose(matrix @ matrix.T, np.eye(rep.dim), rtol=0, atol=1e-13)


@pytest.mark.parametrize("group", [SO2, O2, SO3, sample_groups.LORENTZ], ids=sample_groups.name)
def test_lie_algebra_is_the_derivative_of_the_matrices(group):
    for rep in representations(group):
        for generator, matrix in zip(group.lie_generators, rep.lie_algebra, strict=True):
            step = 1e-5
            element = np.eye(group.dim) + step * np.array(generator, dtype=float)
            if group.orthogonal:
                left, _, right = np.linalg.svd(element)
                element = left @ right
            found = (rep.matrix(element) - np.eye(rep.dim)) / step
            np.testing.assert_allclose(found, np.array(matrix, dtype=float), rtol=0, atol=1e-3)


@pytest.mark.parametrize("group", sample_groups.FINITE, ids=sample_groups.name)
def test_exact_and_numeric_matrices_agree(group):
    for rep in representations(group):
        for g in group.elements():
            numeric = rep.matrix(np.array(g.matrix, dtype=float))
            np.testing.assert_allclose(
                np.array(rep.matrix(g), dtype=float), numeric, rtol=0, atol=1e-14
            )


@pytest.mark.parametrize("spin", range(6))
def test_spins(spin):
    rep = SO3.irrep(spin)
    third, first, second = rep.lie_algebra
    size = 2 * spin + 1
    assert first * second - second * first == third
    assert second * third - third * second == first
    assert third.T == -third and first.T == -first
    total = third**2 + first**2 + second**2
    assert total == -spin * (spin + 1) * sympy.eye(size)


def test_spin_one_is_the_defining_representation():
    g = SO3.rotation([1, 2, 2], sympy.pi / 3)
    assert SO3.irrep(1).matrix(g) == g.matrix
    assert SO3.irrep(1).lie_algebra == SO3.tensor(1, 0).lie_algebra


def test_exact_spins_for_an_exact_rotation():
    g = SO3.element(sympy.Matrix([[1, 2, 2], [2, 1, -2], [-2, 2, -1]]) / 3)
    for spin in range(4):
        exact = SO3.irrep(spin).matrix(g)
        assert (exact * exact.T).applyfunc(sympy.simplify) == sympy.eye(2 * spin + 1)
        numeric = SO3.irrep(spin).matrix(np.array(g.matrix, dtype=float))
        np.testing.assert_allclose(np.array(exact, dtype=float), numeric, rtol=0, atol=1e-14)


def test_spin_two_rotates_quadratic_forms():
    """Spin 2 against the rotation of the five real spherical harmonics x^2 - y^2, 2 x y, ..."""

    def harmonics(x):
        root = np.sqrt(3)
        return np.array(
            [
                (x[0] ** 2 - x[1] ** 2) * root / 2,
                x[0] * x[1] * root,
                x[0] * x[2] * root,
                x[1] * x[2] * root,
                (2 * x[2] ** 2 - x[0] ** 2 - x[1] ** 2) / 2,
            ]
        )

    rng = np.random.default_rng(3)
    g, x = SO3.random_element(rng), rng.normal(size=3)
    np.testing.assert_allclose(
        harmonics(g.matrix @ x), SO3.irrep(2).matrix(g) @ harmonics(x), rtol=0, atol=1e-13
    )


def test_arithmetic():
    a, b = SO2.irrep(0), SO2.irrep(1)
    assert (2 * a + b).dim == 4 == (a * 2 + b).dim
    assert a + a == 2 * a and 2 * (3 * a) == 6 * a and 1 * b == b
    assert sum([a, b]) == a + b
    assert hash(2 * a + b) == hash(a + a + b)
    assert str(2 * (a + b)) == "2x(0 + 1)" and str((a + b) @ b) == "(0 + 1) @ 1"
    assert str(O2.irrep(0, parity=-1) + O2.irrep(2)) == "0- + 2"
    assert str(50 * SO2.tensor(0, 0) + 5 * SO2.tensor(1, 2)) == "50xT(0,0) + 5xT(1,2)"
    assert SO2.tensor(1, 0).dual == SO2.tensor(1, 0)  # orthogonal: its own dual
    assert sample_groups.LORENTZ.tensor(1, 0).dual == sample_groups.LORENTZ.tensor(0, 1)
    assert str(sample_groups.LORENTZ.tensor(1, 2).dual) == "T(1,2)*"


def test_kronecker_order_of_products():
    g = 0.3
    a, b = SO2.irrep(1), SO2.irrep(2)
    np.testing.assert_array_equal((a @ b).matrix(g), np.kron(a.matrix(g), b.matrix(g)))
    stacked = (a + b).matrix(g)
    np.testing.assert_array_equal(stacked[:2, :2], a.matrix(g))
    np.testing.assert_array_equal(stacked[2:, 2:], b.matrix(g))
    assert not stacked[:2, 2:].any()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: SO2.irrep(-1), ValueError, "frequency.*not be negative, found -1"),
        (lambda: SO2.irrep(1.0), TypeError, "frequency.*integer, found 1.0"),
        (lambda: SO2.irrep(True), TypeError, "integer"),
        (lambda: SO2.irrep(1, parity=1), ValueError, "SO2 has no reflections"),
        (lambda: O2.irrep(1, parity=-1), ValueError, "two channels"),
        (lambda: O2.irrep(0, parity=2), ValueError, "parity must be 1 or -1, found 2"),
        (lambda: Cyclic(5).irrep(3), ValueError, "at most n // 2 = 2 .* same .* as 2"),
        (lambda: Dihedral(4).irrep(1, parity=1), ValueError, "two channels"),
        (lambda: SO3.irrep(11), ValueError, "spin must be at most 10, found 11"),
        (lambda: SO3.irrep(-2), ValueError, "spin must not be negative"),
        (lambda: SO2.tensor(-1, 0), ValueError, "p must not be negative"),
        (lambda: SO2.tensor(0, "1"), TypeError, "q must be an integer"),
        (lambda: SO2.irrep(1) + O2.irrep(1), ValueError, r"different groups.*SO2 \(1\) and O2"),
        (lambda: SO2.irrep(1) @ SO3.irrep(1), ValueError, "different groups"),
        (lambda: SO2.irrep(1) + 1, TypeError, "unsupported operand"),
        (lambda: SO2.irrep(1) @ 2, TypeError, "unsupported operand"),
        (lambda: 1.5 * SO2.irrep(1), TypeError, "integer number of times, found 1.5"),
        (lambda: 0 * SO2.irrep(1), ValueError, "at least 1, found 0"),
        (lambda: -2 * SO2.irrep(1), ValueError, "at least 1, found -2"),
        (lambda: SO2.irrep(1) * SO2.irrep(1), TypeError, "multiplied with @"),
    ],
)
def test_bad_representations(make, error, message):
    with pytest.raises(error, match=message):
        make()
