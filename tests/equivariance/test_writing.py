import itertools
import re

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
    MatrixGroup,
    latex_basis,
    latex_system,
    solve_generators,
    text_system,
    to_document,
    to_numpy,
)
from equivariance.operators import expansion, operators

SPREAD = [
    2 * SO2.irrep(0) + SO2.irrep(1) + 3 * SO2.irrep(2),
    O2.tensor(1, 1) + O2.irrep(1),
    SO3.irrep(0) + 2 * SO3.irrep(1) + SO3.irrep(2),
    Cyclic(4).irrep(0) + Cyclic(4).irrep(1) + Cyclic(4).irrep(2),
    Dihedral(3).irrep(0, -1) + Dihedral(3).irrep(1),
    Cyclic(1).tensor(1, 0),
    sample_groups.CUBE.tensor(1, 0) + sample_groups.CUBE.tensor(0, 0),
    sample_groups.SHEAR.tensor(1, 0),
]


def check_latex(text):
    assert text.count("{") == text.count("}")
    assert text.count(r"\left(") == text.count(r"\right)")
    for environment in set(re.findall(r"\\begin\{([a-z*]+)\}", text)):
        begins = text.count(rf"\begin{{{environment}}}")
        assert begins == text.count(rf"\end{{{environment}}}")
    # No second super- or subscript on the same symbol.
    group = r"(?:\{[^{}]*\}|\\[A-Za-z]+|[A-Za-z0-9])"
    assert not re.search(rf"\^{group}\^|_{group}_|\^{group}_{group}\^", text)


@pytest.mark.parametrize("rep", SPREAD, ids=lambda rep: f"{rep.group}: {rep}")
def test_latex_is_well_formed(rep):
    for other in (rep, rep.group.tensor(1, 0)):
        solution = solve_generators(rep, other)
        system, basis = latex_system(solution), latex_basis(solution)
        check_latex(system)
        check_latex(basis)
        body = system.split(r"\begin{align*}")[1]
        equations = body.count("&=")
        assert equations == len(solution.decomposition_out.blocks)
        assert r"\partial_t" in body if rep == other else r"\partial_t" not in body
        # Every coefficient appears once, and there are as many as tensors.
        for letter, order in (("c", 0), ("b", 1), ("s", 2)):
            found = re.findall(rf"(?<![a-z\\]){letter}(?:\^\{{\((\d+)\)\}}|_\{{(\d+)\}}) ?", body)
            numbers = [int(x or y) for x, y in found]
            count = sum(block.count(order) for block in solution.blocks)
            assert sorted(numbers) == list(range(1, count + 1))
        assert len(text_system(solution).splitlines()) >= 2 + equations


@pytest.mark.parametrize("rep", SPREAD, ids=lambda rep: f"{rep.group}: {rep}")
def test_named_operators_span_the_solutions(rep):
    for block in solve_generators(rep).blocks:
        for order in range(3):
            tensors = block.basis(order)
            basis = operators(block.irrep_out, block.irrep_in, order, tensors)
            assert len(basis) == len(tensors)
            for tensor in tensors:
                coefficients = expansion(tensor, basis)
                total = sum(
                    (x * y.array for x, y in zip(coefficients, basis, strict=True)),
                    0 * tensor,
                )
                difference = [sympy.simplify(x) for x in sympy.flatten(total - tensor)]
                assert not any(difference)


def test_names_are_what_they_say():
    """The named operators, applied to fields by sympy's derivatives."""
    x = sympy.symbols("x1:3")
    u = sympy.Function("u")(*x)
    v = [sympy.Function(n)(*x) for n in ("v1", "v2")]
    d = sympy.diff
    divergence, curl = d(v[0], x[0]) + d(v[1], x[1]), d(v[1], x[0]) - d(v[0], x[1])
    laplacian = [d(f, x[0], 2) + d(f, x[1], 2) for f in v]
    expected = {
        "div": [divergence],
        "curl": [curl],
        "grad": [d(u, x[0]), d(u, x[1])],
        "rot": [-d(u, x[1]), d(u, x[0])],
        "identity": v,
        "turn": [-v[1], v[0]],
        "laplacian": laplacian,
        "laplacian turn": [-laplacian[1], laplacian[0]],
        "grad div": [d(divergence, x[0]), d(divergence, x[1])],
        "rot div": [-d(divergence, x[1]), d(divergence, x[0])],
    }
    seen = set()
    for block in solve_generators(SO2.irrep(0) + SO2.irrep(1)).blocks:
        fields = [u] if block.irrep_in.dim == 1 else v
        for order in range(3):
            for operator in operators(block.irrep_out, block.irrep_in, order, block.basis(order)):
                if block.irrep_in.dim == block.irrep_out.dim == 1:
                    continue
                result = [sympy.S.Zero] * block.irrep_out.dim
                for at in itertools.product(range(2), repeat=order):
                    for o, i in itertools.product(range(len(result)), range(len(fields))):
                        derivative = fields[i]
                        for axis in at:
                            derivative = d(derivative, x[axis])
                        result[o] += operator.array[(*at, o, i)] * derivative
                named = expected[operator.name]
                assert [sympy.expand(a - b) for a, b in zip(result, named, strict=True)] == [
                    0
                ] * len(result)
                seen.add(operator.name)
    assert seen == set(expected)


def test_curl_in_space():
    (block,) = solve_generators(SO3.irrep(1)).blocks
    (curl,) = operators(block.irrep_out, block.irrep_in, 1, block.basis(1))
    assert curl.name == "curl"
    rng = np.random.default_rng(0)
    xi, v = rng.normal(size=3), rng.normal(size=3)
    array = np.array(curl.array.tolist(), dtype=float)
    np.testing.assert_allclose(np.einsum("iab,i,b->a", array, xi, v), np.cross(xi, v), atol=1e-14)


def test_scalar_and_vector_in_the_plane():
    text = latex_system(solve_generators(SO2.irrep(0) + SO2.irrep(1)))
    for name in (
        r"\Delta u",
        r"\nabla u",
        r"\nabla^{\perp} u",
        r"\operatorname{div} \mathbf{v}",
        r"\operatorname{curl} \mathbf{v}",
        r"\nabla \operatorname{div} \mathbf{v}",
        r"\Delta \mathbf{v}",
        r"\Delta \mathbf{v}^{\perp}",
    ):
        assert name in text
    parity = text_system(solve_generators(O2.irrep(0, -1) + O2.irrep(1)))
    assert (
        "curl v" in parity and "rot p" in parity and "div v" not in parity.replace("grad div v", "")
    )


@pytest.mark.parametrize("write", [latex_basis, latex_system, text_system, to_document])
def test_bad_arguments(write):
    with pytest.raises(TypeError, match="solution must come from solve_generators, found Irrep"):
        write(SO2.irrep(0))


def test_a_groups_name_stays_on_its_line():
    group = MatrixGroup("turn\nand \\input{x}", 2, [], [[[0, -1], [1, 0]]])
    lines = latex_system(solve_generators(group.tensor(1, 0))).splitlines()
    assert "input" in lines[0] and not any("input" in x for x in lines[1:])


def test_changes_of_basis_are_printed():
    assert "Q_{\\text{in}}" in latex_basis(solve_generators(SO2.tensor(1, 1)))
    both = latex_basis(solve_generators(SO2.tensor(1, 1), SO2.tensor(2, 0)))
    assert "Q_{\\text{in}}" in both and "Q_{\\text{out}}" in both
    assert "Q" not in latex_basis(solve_generators(SO2.irrep(1)))


def test_large_tensors_are_written():
    """Those of two derivatives between spins 11 are sympy's sparse arrays."""
    spin = SO3.irrep(10) @ SO3.irrep(1)
    solution = solve_generators(spin, SO3.irrep(10))
    assert " - (" in text_system(solution)
    (own,) = [
        x for x in solve_generators(spin).blocks if x.irrep_out == x.irrep_in == SO3._spin(11)
    ]
    (laplacian, other) = operators(own.irrep_out, own.irrep_in, 2, own.basis(2))
    assert laplacian.name == "laplacian" and other.name is None
    np.testing.assert_array_equal(to_numpy(other.array), to_numpy(own.basis(2)[1]))


def test_no_solutions_are_written():
    """An empty line in align* would be an error of LaTeX."""
    none = solve_generators(O2.irrep(0), O2.irrep(0, -1))
    for text in (latex_basis(none), latex_system(none)):
        check_latex(text)
        assert "= 0" in text.replace("&", "") and "\n\n" not in text
    assert text_system(none).endswith("p' = 0")
