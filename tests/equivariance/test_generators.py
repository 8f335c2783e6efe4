import dataclasses
import itertools
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import oracle
import pytest
import sample_groups
import sympy
from sympy import QQ

from equivariance import (
    O2,
    SO2,
    SO3,
    Cyclic,
    Dihedral,
    count_generators,
    count_invariants,
    decompose,
    solve_generators,
    solve_intertwiners,
    symbol,
    to_numpy,
)
from equivariance.decomposition import Copy, IrrepBlock
from equivariance.exact import sparse
from equivariance.factored import tensors
from equivariance.residuals import embeddings_residual, maps_residual

GROUPS = {"SO(2)": SO2, "O(2)": O2, "SO(3)": SO3, "C4": Cyclic(4), "D4": Dihedral(4)}
NAMES = ("zeroth_order", "first_order", "second_order")


def built(group, blocks):
    return sum(
        block["multiplicity"]
        * (
            group.tensor(block["p"], block["q"])
            if block["type"] == "tensor"
            else group.irrep(block["frequency"])
        )
        for block in blocks
    )


def paper_example(group):
    tensors = [group.tensor(*pq) for pq in ((0, 0), (1, 0), (1, 1), (1, 2))]
    return 50 * tensors[0] + 25 * tensors[1] + 10 * tensors[2] + 5 * tensors[3]


@pytest.mark.parametrize("case", oracle.cases("equivariance_dims"))
def test_oracle(case):
    given, expected = case["inputs"], case["outputs"]
    group = GROUPS[given["group"]]
    rep_in, rep_out = built(group, given["rho_in"]), built(group, given["rho_out"])
    assert (rep_in.dim, rep_out.dim) == (expected["size_in"], expected["size_out"])
    solution = solve_generators(rep_in, rep_out)
    assert solution.dimensions == {
        "zeroth_order": expected["dim_W"],
        "first_order": expected["dim_B"],
        "second_order": expected["dim_S"],
    }
    assert count_generators(rep_in, rep_out) == solution.dimensions
    assert len(solve_intertwiners(rep_in, rep_out)) == expected["dim_W"]
    assert count_invariants(rep_out) == expected["dim_bias"]
    assert solution.residual() == 0


def exact_residuals(solution):
    """The equations for the listed arrays, in the given channels, with sympy alone."""
    group, rep_in, rep_out = solution.group, solution.rep_in, solution.rep_out
    axes = range(group.dim)
    for order, name in enumerate(NAMES):
        for array in getattr(solution, name):
            places = list(itertools.product(axes, repeat=order))
            x = {}
            for at in places:
                rows = array[at].tolist() if at else array.tolist()
                x[at] = sympy.Matrix(rows)
                assert x[at].shape == (rep_out.dim, rep_in.dim)
            if order == 2:
                for i, j in places:
                    assert array[i, j] == array[j, i]
            for j, a, b in zip(
                group.lie_generators, rep_out.lie_algebra, rep_in.lie_algebra, strict=True
            ):
                for at in places:
                    result = a * x[at] - x[at] * b
                    for slot, axis in enumerate(at):
                        for k in axes:
                            result += j[axis, k] * x[(*at[:slot], k, *at[slot + 1 :])]
                    yield result
            for g, a, b in zip(
                group.discrete_generators, rep_out.discrete, rep_in.discrete, strict=True
            ):
                for at in places:
                    result = -x[at] * b
                    for source in places:
                        factor = sympy.prod(
                            [g.matrix[i, k] for i, k in zip(at, source, strict=True)]
                        )
                        result += factor * a * x[source]
                    yield result


@pytest.mark.parametrize("group", sample_groups.ALL, ids=sample_groups.name)
def test_listed_bases_fulfil_the_equations_exactly(group):
    vector = group.tensor(1, 0)
    pairs = [(vector, vector)]
    if str(group) in ("SO2", "O2", "SO3", "C4", "D3", "triangle", "Lorentz"):  # slow in sympy
        pairs.append((vector + group.tensor(0, 0), group.tensor(1, 1)))
    if group in sample_groups.BUILT_IN:
        pairs.append((group.irrep(min(2, (getattr(group, "order", None) or 9) // 2)), vector))
    for rep_in, rep_out in pairs:
        solution = solve_generators(rep_in, rep_out)
        assert solution.residual() == 0
        for name in NAMES:
            assert len(getattr(solution, name)) == solution.dimensions[name]
        for residual in exact_residuals(solution):
            assert sample_groups.is_zero(residual)


@pytest.mark.parametrize("group", sample_groups.BUILT_IN, ids=sample_groups.name)
def test_every_pair_of_irreducible_representations(group):
    for rep_in, rep_out in itertools.product(sample_groups.irreps(group), repeat=2):
        solution = solve_generators(rep_in, rep_out)
        assert solution.dimensions == count_generators(rep_in, rep_out)
        assert solution.residual() == 0


@pytest.mark.parametrize(
    "group", [sample_groups.CUBE, sample_groups.TRIANGLE], ids=sample_groups.name
)
def test_user_defined_finite_groups_against_characters(group):
    for p, q in [(0, 0), (1, 0), (2, 0)]:
        pair = group.tensor(p, q), group.tensor(1, 0) + group.tensor(0, 0)
        assert solve_generators(*pair).dimensions == count_generators(*pair)


def test_user_defined_groups_agree_with_the_built_in_ones():
    triangle, c3 = sample_groups.TRIANGLE, Cyclic(3)
    for p, q in [(0, 0), (1, 0), (1, 1)]:
        mine = solve_generators(triangle.tensor(p, q)).dimensions
        assert mine == solve_generators(c3.tensor(p, q)).dimensions
    # Reflecting through the origin leaves the isotropic couplings of a vector field with itself,
    # but not the curl.
    assert solve_generators(SO3.tensor(1, 0)).dimensions["first_order"] == 1
    assert solve_generators(sample_groups.O3.tensor(1, 0)).dimensions["first_order"] == 0


def test_a_group_that_is_not_orthogonal():
    """Boosts: the wave operator d_1^2 - d_2^2 is the only scalar one of second order."""
    scalar = sample_groups.LORENTZ.tensor(0, 0)
    (wave,) = solve_generators(scalar).second_order
    assert wave.tolist() == [[[[1]], [[0]]], [[[0]], [[-1]]]]
    # Index placement: derivatives of a scalar form a covector, which the metric turns around.
    lorentz = sample_groups.LORENTZ
    assert solve_generators(scalar, lorentz.tensor(0, 1)).dimensions["first_order"] == 1
    assert solve_generators(scalar, lorentz.tensor(1, 0)).dimensions["first_order"] == 1
    # Shears have no metric: only one of the two is left in full.
    shear = sample_groups.SHEAR
    scalar, vector = shear.tensor(0, 0), shear.tensor(1, 0)
    assert solve_generators(vector, scalar).dimensions["first_order"] != 0
    for rep_in, rep_out in itertools.product((scalar, vector, vector.dual), repeat=2):
        assert solve_generators(rep_in, rep_out).residual() == 0


def test_all_pairs_of_frequencies_up_to_four_in_a_second():
    code = """
import time
from equivariance import SO2, solve_generators
start = time.perf_counter()
for k in range(5):
    for m in range(5):
        s = solve_generators(SO2.irrep(k), SO2.irrep(m))
        s.zeroth_order, s.first_order, s.second_order
        assert s.residual() == 0
print(time.perf_counter() - start)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 1.0


@pytest.mark.parametrize("group", [SO2, O2, SO3, Cyclic(6), Dihedral(3)], ids=sample_groups.name)
def test_the_papers_example(group):
    rep = paper_example(group)
    solution = solve_generators(rep)
    assert solution.dimensions == count_generators(rep)
    assert solution.residual() == 0
    coefficients = np.random.default_rng(0).normal(size=solution.dimensions["first_order"])
    first_order = solution.factored["first_order"].assemble(coefficients)
    assert first_order.shape == (group.dim, rep.dim, rep.dim)
    g = group.random_element(np.random.default_rng(1))
    moved = np.einsum("ij,jab->iab", g.matrix, first_order)
    moved = rep.matrix(g) @ moved @ rep.matrix(g).T
    np.testing.assert_allclose(moved, first_order, rtol=0, atol=1e-12)


@pytest.mark.parametrize("order", range(3))
def test_factored_and_listed_bases_agree(order):
    rep_in = 2 * SO2.irrep(1) + SO2.tensor(1, 1)
    rep_out = SO2.irrep(2) + 2 * SO2.tensor(0, 0) + SO2.irrep(1) @ SO2.irrep(1)
    solution = solve_generators(rep_in, rep_out)
    basis, arrays = solution.factored[NAMES[order]], getattr(solution, NAMES[order])
    listed = np.array([to_numpy(x) for x in arrays])
    assert listed.shape == (len(basis), *basis.shape) and isinstance(arrays, list)
    np.testing.assert_allclose(basis.dense(), listed, rtol=0, atol=1e-14)
    # The elements are orthogonal, so none is a combination of the others.
    gram = np.einsum("nx,mx->nm", *2 * [listed.reshape(len(listed), -1)])
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), rtol=0, atol=1e-13)
    assert np.diag(gram).min() > 0.1

    rng = np.random.default_rng(0)
    coefficients = rng.normal(size=(3, basis.size))
    assembled = basis.assemble(coefficients)
    np.testing.assert_allclose(assembled, np.tensordot(coefficients, listed, 1), rtol=0, atol=1e-13)
    values = rng.normal(size=(4, 5, rep_in.dim))
    np.testing.assert_allclose(
        basis.apply(coefficients[0], values),
        np.einsum("...ab,xyb->xy...a", assembled[0], values),
        rtol=0,
        atol=1e-12,
    )


def test_large_bases_are_sparse_arrays():
    rep = 20 * SO2.irrep(0) + 13 * SO2.irrep(1)
    basis = solve_generators(rep).first_order
    assert isinstance(basis[0], sympy.ImmutableSparseNDimArray)
    assert basis[0].shape == (2, 46, 46)
    assert np.count_nonzero(to_numpy(basis[0])) == len(basis[0]._sparse_array) == 2


def test_familiar_operators():
    scalar, vector = SO2.irrep(0), SO2.irrep(1)
    (laplacian,) = solve_generators(scalar).second_order
    assert laplacian.tolist() == [[[[1]], [[0]]], [[[0]], [[1]]]]
    assert solve_generators(scalar).first_order == []
    gradient, rotated_gradient = solve_generators(scalar, vector).first_order
    assert gradient.tolist() == [[[1], [0]], [[0], [1]]]
    assert rotated_gradient.tolist() == [[[0], [1]], [[-1], [0]]]
    (gradient,) = solve_generators(O2.irrep(0), O2.irrep(1)).first_order
    assert gradient.tolist() == [[[1], [0]], [[0], [1]]]
    (curl,) = solve_generators(SO3.irrep(1)).first_order
    signs = sympy.Array(
        [[[sympy.LeviCivita(i, a, b) for b in range(3)] for a in range(3)] for i in range(3)]
    )
    assert curl in (signs, -signs)


def test_solutions_are_kept():
    rep = SO2.irrep(1) + SO2.irrep(2)
    assert solve_generators(rep) is solve_generators(SO2.irrep(1) + SO2.irrep(2))


def test_intertwiners():
    rep = 2 * SO3.irrep(1) + SO3.tensor(1, 1)
    mixings = solve_intertwiners(rep, SO3.irrep(1))
    assert mixings.dimension == len(mixings) == 3 and mixings.residual() == 0
    for matrix in mixings:
        assert matrix.shape == (3, rep.dim)
        for a, b in zip(SO3.irrep(1).lie_algebra, rep.lie_algebra, strict=True):
            assert sample_groups.is_zero(a * matrix - matrix * b)
    combined = mixings.factored.assemble([1.0, 2.0, 3.0])
    listed = sum(n * to_numpy(x) for n, x in zip((1, 2, 3), mixings, strict=True))
    np.testing.assert_allclose(combined, listed, rtol=0, atol=1e-14)


def test_symbol():
    rng = np.random.default_rng(0)
    c, b, s = rng.normal(size=(4, 3)), rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 2, 4, 3))
    xi = np.array([0.5, -2.0])
    expected = c + xi[0] * b[0] + xi[1] * b[1]
    expected = expected + sum(xi[i] * xi[j] * s[i, j] for i in range(2) for j in range(2))
    np.testing.assert_allclose(symbol(xi, c, b, s), expected, rtol=1e-14)
    np.testing.assert_allclose(symbol(xi, first_order=b), xi[0] * b[0] + xi[1] * b[1], rtol=1e-14)
    with pytest.raises(ValueError, match="at least one of zeroth_order"):
        symbol(xi)


@pytest.mark.parametrize("solve", [solve_generators, solve_intertwiners, count_generators])
def test_bad_arguments(solve):
    with pytest.raises(TypeError, match="rep_in must be a representation .* found 'vector'"):
        solve("vector", SO2.irrep(1))
    with pytest.raises(TypeError, match="rep_out must be a representation"):
        solve(SO2.irrep(1), 3)
    with pytest.raises(ValueError, match=r"different groups.*SO2 \(1\) and O2 \(1\)"):
        solve(SO2.irrep(1), O2.irrep(1))


def test_bad_coefficients():
    basis = solve_generators(SO2.irrep(1)).factored["second_order"]
    with pytest.raises(ValueError, match=r"last axis 4, .* found shape \(3,\)"):
        basis.assemble(np.ones(3))


def test_characters_do_not_count_over_unbounded_groups():
    vector = sample_groups.LORENTZ.tensor(1, 0)
    with pytest.raises(NotImplementedError, match="Lorentz has Lie-algebra generators"):
        count_generators(vector)


@pytest.mark.parametrize("group", [Cyclic(360), Dihedral(1001)], ids=sample_groups.name)
def test_turns_by_a_small_angle_are_solved_without_its_cosine(group):
    """Over the field of cos(2 pi / 360), of degree 48, this took minutes."""
    start = time.process_time()
    rep = group.tensor(4, 4)
    solution = solve_generators(rep)
    assert solution.dimensions == count_generators(rep)
    assert solution.residual() == 0
    assert time.process_time() - start < 15


@pytest.mark.parametrize("order", range(3))
def test_the_residual_of_turns_sees_a_wrong_basis(order, monkeypatch):
    solution = solve_generators(Cyclic(4).irrep(1) + Cyclic(4).irrep(2), Cyclic(4).irrep(1))
    right = [block for block in solution.blocks if block.count(order)][0]

    def disturbed(*arguments):
        found = tensors(*arguments)
        for tensor in found:
            at = min(tensor.entries)
            entries = {**tensor.entries, at: tensor.entries[at] + 1}
            yield dataclasses.replace(tensor, entries=entries)

    assert maps_residual([right], [order]) == 0
    monkeypatch.setattr("equivariance.residuals.tensors", disturbed)
    assert maps_residual([right], [order]) > 0


def test_the_residual_of_turns_sees_a_wrong_embedding():
    parts = decompose(Cyclic(4).tensor(2, 0) + Cyclic(4).irrep(2))  # signs of both kinds
    assert embeddings_residual(parts) == 0
    for block in parts.blocks:
        for copy in block.copies:
            at = min(copy.embedding.to_dok())
            entries = {**copy.embedding.to_dok(), at: QQ(7)}
            wrong = sparse(entries, copy.embedding.shape)
            block = IrrepBlock(block.irrep, (Copy(copy.irrep, wrong, copy.norm),), block.start)
            fake = SimpleNamespace(rep=parts.rep, blocks=[block])
            assert (embeddings_residual(fake) > 0) == (copy.irrep.dim == 2 or len(entries) > 1)
