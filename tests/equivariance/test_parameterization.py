import time

import numpy as np
import pytest
import sample_groups
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from test_generator_symbols import representation
from tolerance import rounding

from equivariance import (
    O2,
    SO2,
    SO3,
    Cyclic,
    Dihedral,
    Generator,
    solve_generators,
    solve_intertwiners,
    verify,
)
from equivariance.symmetric import SymmetricBasis


def exponential(matrix):
    """exp of a matrix by scaling, Taylor series and squaring."""
    squarings = max(0, int(np.ceil(np.log2(np.linalg.norm(matrix) + 1e-30)))) + 2
    small = matrix / 2.0**squarings
    term = total = np.eye(len(matrix), dtype=complex)
    for n in range(1, 20):
        term = term @ small / n
        total = total + term
    for _ in range(squarings):
        total = total @ total
    return total


def drawn(parameters, data):
    """Parameters of any size, some of them 0."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    found = {}
    for p in parameters:
        scale = data.draw(st.sampled_from([0.0, 1e-3, 1.0, 30.0]))
        found[p.name] = scale * rng.normal(size=p.shape)
    return found, rng


@pytest.mark.parametrize("group", sample_groups.ORTHOGONAL, ids=sample_groups.name)
@settings(max_examples=4, deadline=None, derandomize=True)
@given(data=st.data())
def test_dissipative_generators_never_amplify(group, data):
    """The numerical range of M(i xi) is in the left half-plane and |exp(M(i xi))| <= 1."""
    rep = data.draw(representation(group, 10 if group in sample_groups.BUILT_IN else 3))
    solution = solve_generators(rep)
    factors = data.draw(st.integers(1, 2))
    parameterization = solution.parameterization(
        "dissipative", num_factors=factors, zeroth_order=data.draw(st.booleans())
    )
    values, rng = drawn(parameterization.parameters, data)
    generator = parameterization.generator(values)
    assert verify(generator, rep).size < sample_groups.residual_limit(rep, factors)
    c, b, s = generator
    np.testing.assert_array_equal(c, -c.T)
    np.testing.assert_array_equal(b, b.swapaxes(-1, -2))
    np.testing.assert_array_equal(s, s.swapaxes(0, 1))
    for _ in range(4):
        xi = rng.normal(size=group.dim) * 10.0 ** rng.uniform(-2, 2)
        m = generator.symbol(1j * xi)
        size = max(1.0, np.linalg.norm(m))
        assert np.linalg.eigvalsh(m + m.conj().T).max() < 1e-12 * size
        for vector in rng.normal(size=(3, rep.dim)) + 1j * rng.normal(size=(3, rep.dim)):
            assert (vector.conj() @ m @ vector).real < 1e-12 * size * np.linalg.norm(vector) ** 2
        if size < 1e4:
            assert np.linalg.norm(exponential(m), 2) < 1 + 1e-10 * size


@pytest.mark.parametrize(
    ("group", "constraint"),
    [(group, "free") for group in sample_groups.ALL]
    + [(group, "dissipative") for group in sample_groups.ORTHOGONAL],
    ids=sample_groups.name,
)
def test_generators_are_equivariant(group, constraint):
    rep = group.tensor(1, 0) + 2 * group.tensor(0, 0)
    parameterization = solve_generators(rep).parameterization(constraint)
    values = parameterization.initial(rng=1)
    generator = parameterization.generator(values)
    found = verify(generator, rep)
    assert found.equivariant and found.size < sample_groups.residual_limit(rep) and found.symmetric
    rng = np.random.default_rng(2)
    for _ in range(20):
        g, xi = group.random_element(rng), rng.normal(size=group.dim)
        left, right = rep.matrix(g), rep.matrix(group.inverse(g))
        moved = left @ generator.symbol(1j * g.matrix.T @ xi) @ right
        size = 1.0 if group.orthogonal else np.linalg.norm(left) * np.linalg.norm(right)
        expected = generator.symbol(1j * xi)
        error = np.abs(moved - expected).max()
        # Sums over the channels on both sides, over pairs of derivatives, and over g^T xi twice.
        sums = 2 * rep.dim + 4 * group.dim**2
        size *= np.linalg.norm(g.matrix) ** 2 * max(1.0, np.abs(expected).max())
        assert error <= rounding(sums, condition=size)


@pytest.mark.parametrize(
    "rep",
    [
        2 * SO2.irrep(0) + SO2.irrep(1),
        O2.tensor(1, 1),
        SO3.irrep(0) + SO3.irrep(1),
        Dihedral(3).irrep(0, -1) + Dihedral(3).irrep(1),
        Dihedral(5).irrep(1),
        Cyclic(4).irrep(1) + Cyclic(4).irrep(2),
        sample_groups.TRIANGLE.tensor(1, 0),
    ],
    ids=lambda rep: f"{rep.group}: {rep}",
)
@pytest.mark.parametrize("constraint", ["free", "dissipative"])
def test_exact_dense_and_factored_agree(rep, constraint):
    parameterization = solve_generators(rep).parameterization(constraint)
    values = parameterization.initial(rng=3)
    generator = parameterization.generator(values)
    symbols = parameterization.symbols()
    exact = parameterization.exact()
    assert verify(exact, rep).exact and verify(exact, rep).equivariant
    numbers = {
        x: y
        for name, array in symbols.items()
        for x, y in zip(sympy.flatten(array), values[name].ravel(), strict=True)
    }
    for expression, array in zip(exact, generator, strict=True):
        assert expression.shape == array.shape
        found = [float(x.subs(numbers)) for x in sympy.flatten(expression)]
        np.testing.assert_allclose(found, array.ravel(), rtol=0, atol=1e-13)
    rng = np.random.default_rng(4)
    factored = parameterization.factored(values)
    xi, channels = rng.normal(size=rep.group.dim), rng.normal(size=(2, 3, rep.dim))
    np.testing.assert_allclose(
        factored.apply(xi, channels),
        np.einsum("ab,xyb->xya", generator.symbol(1j * xi), channels),
        rtol=0,
        atol=1e-13,
    )


def test_exact_takes_values():
    free = solve_generators(SO2.irrep(0)).parameterization("free")
    half = sympy.Rational(1, 2)
    heat = free.exact({"zeroth_order": [0], "second_order": [half]})
    assert heat.second_order.tolist() == [[[[half]], [[0]]], [[[0]], [[half]]]]
    assert heat.zeroth_order.tolist() == [[0]] and heat.first_order.tolist() == [[[0]], [[0]]]


def test_the_default_reaches_every_dissipative_pair_of_scalar_and_vector():
    """A scalar's heat equation and a vector's Lame operator, from factors found by hand."""
    rep = SO2.irrep(0) + SO2.irrep(1)
    parameterization = solve_generators(rep).parameterization(zeroth_order=False)
    basis = parameterization.bases["factors"]
    # Least squares for Q^T Q on a target that is positive: S = 1/2 diag(1, 3, 2) at xi = e_1.
    rng = np.random.default_rng(0)
    from_factors = [
        parameterization.generator(
            {"symmetric": np.zeros(2), "factors": rng.normal(size=(1, basis.size))}
        ).second_order
        for _ in range(40)
    ]
    rank = np.linalg.matrix_rank(np.array(from_factors).reshape(40, -1))
    symmetric = SymmetricBasis(2, rep, 1)
    assert rank == symmetric.size  # all equivariant S, as far as they are symmetric in channels


@pytest.mark.parametrize("group", sample_groups.ORTHOGONAL, ids=sample_groups.name)
@pytest.mark.parametrize("sign", [1, -1])
def test_symmetric_bases_are_complete(group, sign):
    """Their size is the rank of what is left of the whole solution space symmetrised."""
    rep = group.tensor(1, 0) + 2 * group.tensor(0, 0)
    solution = solve_generators(rep)
    for order, basis in enumerate(solution.factored.values()):
        symmetric = SymmetricBasis(order, rep, sign)
        full = basis.dense()
        half = (full + sign * full.swapaxes(-1, -2)).reshape(len(full), -1)
        expected = np.linalg.matrix_rank(half) if half.size else 0
        assert symmetric.size == expected
        found = symmetric.assemble(np.eye(symmetric.size)).reshape(symmetric.size, -1)
        if symmetric.size:
            assert np.linalg.matrix_rank(found) == expected
            both = np.concatenate([found, half])
            assert np.linalg.matrix_rank(both) == expected
        total = np.sum(found**2)
        assert symmetric.squared_norm() == pytest.approx(total, abs=1e-12)


def test_symmetric_arrays_are_the_numeric_ones():
    for rep in (SO2.tensor(1, 1) + 2 * SO2.irrep(1), SO3.irrep(1) + SO3.irrep(0)):
        for order in range(3):
            for sign in (1, -1):
                basis = SymmetricBasis(order, rep, sign)
                arrays = [np.array(x.tolist(), dtype=float) for x in basis.arrays()]
                assert len(arrays) == basis.size
                if arrays:
                    dense = basis.assemble(np.eye(basis.size))
                    np.testing.assert_allclose(dense, arrays, rtol=0, atol=1e-14)


def test_initial_values_have_the_unit_of_length():
    parameterization = solve_generators(SO2.irrep(0) + SO2.irrep(1)).parameterization()
    one = parameterization.generator(parameterization.initial(rng=0))
    ten = parameterization.generator(parameterization.initial(rng=0, length=10.0))
    for order, (x, y) in enumerate(zip(ten, one, strict=True)):
        np.testing.assert_allclose(x, 10**order * y, rtol=0, atol=1e-13 * np.abs(x).max())


@pytest.mark.parametrize("rep", [SO2.irrep(0), 3 * SO2.irrep(1), SO3.irrep(0) + 2 * SO3.irrep(2)])
def test_initial_diffusion_is_of_order_one(rep):
    """Mean of the diffused variance per direction, S = Sigma / 2 for one channel."""
    for constraint in ("free", "dissipative"):
        parameterization = solve_generators(rep).parameterization(constraint)
        sizes = []
        for seed in range(30):
            s = parameterization.generator(parameterization.initial(rng=seed)).second_order
            sizes.append(2 * np.einsum("iiaa->", s) / (rep.dim * rep.group.dim))
        assert 0.7 < np.mean(sizes) < 1.4


def test_leading_axes_make_many_generators():
    for constraint in ("free", "dissipative"):
        parameterization = solve_generators(SO2.irrep(0) + SO2.irrep(1)).parameterization(
            constraint
        )
        sets = [parameterization.initial(rng=n) for n in range(3)]
        together = parameterization.generator(
            {name: np.stack([x[name] for x in sets]) for name in sets[0]}
        )
        for n, values in enumerate(sets):
            for many, one in zip(together, parameterization.generator(values), strict=True):
                np.testing.assert_allclose(many[n], one, rtol=0, atol=1e-15)


def test_paper_example():
    """180 channels: parameters in factored form within a few seconds, no dense basis."""
    start = time.perf_counter()
    rep = 50 * SO2.tensor(0, 0) + 25 * SO2.tensor(1, 0)
    rep = rep + 10 * SO2.tensor(1, 1) + 5 * SO2.tensor(1, 2)
    solution = solve_generators(rep)
    for constraint in ("free", "dissipative"):
        parameterization = solution.parameterization(constraint)
        values = parameterization.initial()
        generator = parameterization.generator(values)
        assert generator.second_order.shape == (2, 2, 180, 180)
        assert verify(generator, rep).size < sample_groups.residual_limit(rep)
        xi, channels = np.array([0.3, -1.0]), np.ones(180)
        np.testing.assert_allclose(
            parameterization.factored(values).apply(xi, channels),
            generator.symbol(1j * xi) @ channels,
            rtol=0,
            atol=1e-12,
        )
    assert time.perf_counter() - start < 10


def test_derivative_layers_and_groups_without_a_norm():
    free = solve_generators(SO2.irrep(1), SO2.irrep(0)).parameterization("free")
    assert [p.name for p in free.parameters] == ["first_order"]
    generator = free.generator(free.initial())
    assert generator.zeroth_order.shape == (1, 2) and not generator.zeroth_order.any()
    lorentz = sample_groups.LORENTZ.tensor(1, 0)
    free = solve_generators(lorentz).parameterization("free")
    assert verify(free.generator(free.initial()), lorentz)


def test_intertwiners():
    mixings = solve_intertwiners(2 * SO2.irrep(1) + SO2.tensor(1, 1), 3 * SO2.irrep(1))
    parameterization = mixings.parameterization()
    w = parameterization.matrix(parameterization.initial(rng=0))
    rng = np.random.default_rng(1)
    for _ in range(20):
        g = SO2.random_element(rng)
        left, right = mixings.rep_out.matrix(g), mixings.rep_in.matrix(g)
        np.testing.assert_allclose(left @ w, w @ right, rtol=0, atol=1e-13)
    exact = parameterization.exact({"weights": list(range(parameterization.size))})
    found = parameterization.matrix({"weights": np.arange(parameterization.size)})
    np.testing.assert_allclose(np.array(exact, dtype=float), found, rtol=0, atol=1e-13)
    assert len(parameterization.exact().free_symbols) == parameterization.size
    many = solve_intertwiners(16 * SO3.irrep(1), 16 * SO3.irrep(1)).parameterization()
    w = many.matrix(many.initial(rng=0))
    assert 0.7 < np.mean(np.sum(w**2, axis=1)) < 1.3  # variances are kept
    none = solve_intertwiners(SO2.irrep(0), SO2.irrep(1)).parameterization()
    assert none.size == 0 and not none.matrix(none.initial()).any()


def test_without_second_order():
    transport = solve_generators(SO2.irrep(0) + SO2.irrep(1)).parameterization(num_factors=0)
    generator = transport.generator(transport.initial())
    assert not generator.second_order.any() and generator.first_order.any()
    m = generator.symbol(1j * np.array([0.4, 2.0]))
    u = exponential(m)
    np.testing.assert_allclose(u @ u.conj().T, np.eye(3), rtol=0, atol=1e-12)  # an isometry


SOLUTION = solve_generators(SO2.irrep(0) + SO2.irrep(1))
DISSIPATIVE = SOLUTION.parameterization()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: SOLUTION.parameterization("stable"), ValueError, "one of .*found 'stable'"),
        (
            lambda: solve_generators(SO2.irrep(0), SO2.irrep(1)).parameterization(),
            ValueError,
            "0 -> 1. Use constraint = 'free'",
        ),
        (
            lambda: solve_generators(sample_groups.LORENTZ.tensor(1, 0)).parameterization(),
            ValueError,
            "Lorentz are not orthogonal",
        ),
        (
            lambda: SOLUTION.parameterization(through=SO2.irrep(7)),
            ValueError,
            "no equivariant first-order maps from 0 . 1 to through = 7",
        ),
        (lambda: SOLUTION.parameterization(through=3), TypeError, "through must be a repr"),
        (lambda: SOLUTION.parameterization(through=O2.irrep(1)), ValueError, "different groups"),
        (lambda: SOLUTION.parameterization("free", through=SO2.irrep(1)), ValueError, "through"),
        (lambda: SOLUTION.parameterization(num_factors=-1), ValueError, "num_factors must not be"),
        (lambda: SOLUTION.parameterization(num_factors=1.5), TypeError, "num_factors must be an"),
        (lambda: DISSIPATIVE.generator([1, 2]), ValueError, "dict with the keys .*found list"),
        (lambda: DISSIPATIVE.generator({"factors": 1}), ValueError, r"found \['factors'\]"),
        (
            lambda: DISSIPATIVE.generator({**DISSIPATIVE.initial(), "symmetric": np.ones(3)}),
            ValueError,
            r"symmetric must have the shape \(2,\).*found \(3,\)",
        ),
        (
            lambda: DISSIPATIVE.generator({**DISSIPATIVE.initial(), "symmetric": [np.nan, 1]}),
            ValueError,
            "symmetric is not finite",
        ),
        (lambda: DISSIPATIVE.initial(rng="seed"), TypeError, "rng must be a seed"),
        (lambda: DISSIPATIVE.initial(length="1"), TypeError, "length must be a positive"),
        (lambda: DISSIPATIVE.initial(length=0), ValueError, "length must be a positive"),
        (lambda: DISSIPATIVE.exact({"symmetric": [1]}), ValueError, "dict with the keys"),
        (
            lambda: DISSIPATIVE.exact({"antisymmetric": [0], "symmetric": [1], "factors": [0] * 8}),
            ValueError,
            r"symmetric must have the shape \(2,\), found \(1,\)",
        ),
        (
            lambda: DISSIPATIVE.factored(
                {name: x[None] for name, x in DISSIPATIVE.initial().items()}
            ),
            ValueError,
            "leading axes",
        ),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_generator_is_a_named_triple():
    c, b, s = Generator(first_order=np.ones((2, 1, 1)))
    assert c is None and s is None and b.shape == (2, 1, 1)
    exact = Generator(first_order=sympy.Array([[[1]], [[sympy.sqrt(2)]]]))
    np.testing.assert_allclose(exact.to_numpy().first_order.ravel(), [1.0, np.sqrt(2.0)])
