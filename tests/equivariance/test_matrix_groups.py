"""What is said about groups that users define, right and wrong."""

import time
from fractions import Fraction

import numpy as np
import pytest
import sample_groups
import sympy

from equivariance import MatrixGroup, count_generators, solve_generators

TURN = [[0, -1], [1, 0]]


@pytest.mark.parametrize(
    "matrix",
    [
        TURN,
        tuple(map(tuple, TURN)),
        np.array(TURN),
        np.array(TURN, dtype=object),
        sympy.Matrix(TURN),
        sympy.Array(TURN),
        [[0, Fraction(-1)], [sympy.sqrt(4) / 2, sympy.cos(sympy.pi / 2)]],
    ],
)
def test_forms_of_a_matrix(matrix, recwarn):
    assert MatrixGroup("turn", 2, [matrix]) == MatrixGroup("turn", 2, [TURN])
    assert MatrixGroup("turn", 2, (), (matrix,)).discrete_generators[0].matrix == sympy.Matrix(TURN)
    assert not recwarn


@pytest.mark.parametrize(
    ("matrices", "error", "message"),
    [
        (TURN, ValueError, r"list of 2 x 2 matrices, found a single matrix: .*\[matrix\]"),
        (np.array(TURN), ValueError, "found a single matrix"),
        (sympy.Matrix(TURN), ValueError, "found a single matrix"),
        (3, TypeError, r"list of 2 x 2 matrices, found 3 \(int\)"),
        ("turn", TypeError, "list of 2 x 2 matrices, found 'turn'"),
        ([3], TypeError, r"lie_generators\[0\] must be a 2 x 2 matrix, found 3"),
        ([TURN, [[1, 2], [3]]], ValueError, r"lie_generators\[1\] .* found rows of"),
        ([np.eye(3, dtype=int)], ValueError, r"found shape \(3, 3\)"),
        ([np.zeros((2, 2, 1))], ValueError, r"found shape \(2, 2, 1\)"),
        ([[[0, float("nan")], [1, 0]]], ValueError, r"\[0\], row 0, column 1: found nan, .*finite"),
        ([[[0, sympy.nan], [1, 0]]], ValueError, "found nan, which is not finite"),
        ([[[0, sympy.oo], [1, 0]]], ValueError, "found oo, which is not finite"),
        ([[[0, -1], [sympy.pi, 0]]], ValueError, "row 1, column 0: found pi, .*not algebraic"),
        ([[[0, -1], [sympy.exp(1), 0]]], ValueError, "found E, which is not algebraic"),
        ([[[0, "-1"], [1, 0]]], TypeError, r"row 0, column 1: found '-1' \(str\)"),
        ([[[False, True], [True, False]]], TypeError, r"found False \(bool\)"),
        ([np.eye(2, dtype=bool)], TypeError, "found True"),
        ([sympy.Matrix([[0, sympy.Symbol("a")], [1, 0]])], ValueError, "found the symbol a"),
        ([np.array([[0.0, -1.0], [1.0, 0.0]])], ValueError, "found the float 0.0.*sympy.Rational"),
        ([[[0, sympy.Float(0.5)], [1, 0]]], ValueError, "found the float 0.5"),
        ([[[0, 1j], [1, 0]]], ValueError, "found the complex number 1j"),
        ([[[0, None], [1, 0]]], TypeError, "found None"),
    ],
)
def test_wrong_matrices(matrices, error, message, recwarn):
    with pytest.raises(error, match=message):
        MatrixGroup("g", 2, matrices)
    with pytest.raises(error, match=message.replace("lie_", "discrete_")):
        MatrixGroup("g", 2, [], matrices)
    assert not recwarn


@pytest.mark.parametrize(
    ("name", "dim", "error", "message"),
    [
        (3, 2, TypeError, r"name must be text, .*found 3 \(int\)"),
        (None, 2, TypeError, "name must be text"),
        (" ", 2, TypeError, "name must be text"),
        ("g", 2.0, TypeError, "dim must be an integer"),
        ("g", 10**9, ValueError, "at most 50"),
    ],
)
def test_wrong_names_and_dimensions(name, dim, error, message):
    with pytest.raises(error, match=message):
        MatrixGroup(name, dim, [])


def test_pairs_that_would_take_hours_are_refused():
    boosts = sample_groups.LORENTZ
    start = time.process_time()
    with pytest.raises(ValueError, match=r"T\(3,2\) -> T\(3,2\) of Lorentz with 0 der.* 1024 unkn"):
        solve_generators(boosts.tensor(3, 2))
    three = MatrixGroup("turns", 3, [[[0, -1, 0], [1, 0, 0], [0, 0, 0]]])
    with pytest.raises(ValueError, match="6561 unknowns to be solved at once; at most 1000 are"):
        solve_generators(three.tensor(2, 2))
    with pytest.raises(ValueError, match=r"over numbers of degree 2.*built-in group \(SO2"):
        solve_generators(sample_groups.TRIANGLE.tensor(2, 2))
    assert time.process_time() - start < 5


def test_algebraic_numbers_are_eliminated_over_the_rationals():
    """Elimination over the field took half a minute."""
    triangle = sample_groups.TRIANGLE
    start = time.process_time()
    solution = solve_generators(triangle.tensor(2, 1), triangle.tensor(1, 0))
    assert solution.dimensions == count_generators(solution.rep_in, solution.rep_out)
    assert solution.residual() == 0
    assert time.process_time() - start < 20


def test_characters_of_a_large_cyclic_group_are_counted():
    """Inverses were looked for power by power."""
    turn = sympy.Matrix([[0, 1], [-1, 0]])
    shifted = sympy.eye(8)[:, [1, 2, 3, 4, 5, 6, 7, 0]]
    flips = [sympy.diag(*[-1 if i == 0 else 1 for i in range(8)])]
    group = MatrixGroup("signs", 8, [], [shifted, *flips])
    vector = group.tensor(1, 0)
    with pytest.raises(NotImplementedError, match="more than 2000"):
        count_generators(vector)
    four = MatrixGroup("four", 2, [], [turn])
    assert count_generators(four.tensor(1, 0))["zeroth_order"] == 2
