"""The emitted file as text; tests/equivariance_layers runs it and checks its format."""

import ast

import pytest
import sample_groups

from equivariance import O2, SO2, SO3, Dihedral, MatrixGroup, keras_source, solve_generators

CASES = {
    "scalar": (SO2.irrep(0), None, "dissipative"),
    "free": (2 * SO2.irrep(0) + SO2.irrep(1), None, "free"),
    "tensors": (2 * O2.tensor(1, 1) + O2.tensor(1, 2), None, "dissipative"),
    "space": (SO3.irrep(0) + 2 * SO3.irrep(2), None, "dissipative"),
    "cube": (sample_groups.CUBE.tensor(1, 0), None, "dissipative"),
    "dihedral": (Dihedral(5).irrep(1) + Dihedral(5).irrep(2), None, "free"),
    "derivative": (SO2.irrep(1), SO2.irrep(0), "free"),
    "shear": (sample_groups.SHEAR.tensor(1, 0), None, "free"),
}


def source(name):
    rep_in, rep_out, constraint = CASES[name]
    return solve_generators(rep_in, rep_out).parameterization(constraint).keras_source("Emitted")


@pytest.mark.parametrize("name", CASES)
def test_needs_keras_and_numpy_only(name):
    text = source(name)
    tree = ast.parse(text)
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module.split(".")[0])
    assert imported == {"keras", "numpy", "numbers"}
    assert text.endswith("\n") and "@" not in text.replace("@keras", "").replace(" @ ", "")
    assert max(map(len, text.splitlines())) <= 100


def test_is_the_same_every_time():
    assert source("space") == source("space")


def test_names_of_groups_do_no_harm():
    group = MatrixGroup('"""\nimport os\\x\n', 2, [], [[[0, -1], [1, 0]]])
    text = keras_source(solve_generators(group.tensor(1, 0)).parameterization(), "Safe")
    tree = ast.parse(text)
    assert "import os" in ast.get_docstring(tree)  # in the description, not in the code


def test_paper_example():
    rep = 50 * SO2.tensor(0, 0) + 25 * SO2.tensor(1, 0)
    rep = rep + 10 * SO2.tensor(1, 1) + 5 * SO2.tensor(1, 2)
    text = keras_source(solve_generators(rep).parameterization())
    ast.parse(text)
    assert len(text) < 60_000


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: keras_source(solve_generators(SO2.irrep(0))), TypeError, "GeneratorSolution"),
        (lambda: source_of("1a"), ValueError, "found '1a'"),
        (lambda: source_of("class"), ValueError, "found 'class'"),
        (lambda: source_of("A" * 61), ValueError, "60 characters"),
        (lambda: source_of(3), ValueError, "found 3"),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


def source_of(name):
    return keras_source(solve_generators(SO2.irrep(0)).parameterization(), name)


@pytest.mark.parametrize(
    "name",
    ["float", "print", "ValueError", "keras", "np", "ops", "Real", "DIM", "BLOCKS", "PARAMETERS"]
    + ["_fourier", "_exponential", "self", "inputs", "__init__", "ｎｐ", "fl\uff4fat", "None"],
)
def test_names_with_a_meaning_are_refused(name):
    parameterization = solve_generators(SO2.irrep(0) + SO2.irrep(1)).parameterization()
    with pytest.raises(ValueError, match="name.*such as 'MyFlow'"):
        keras_source(parameterization, name)


@pytest.mark.parametrize("name", ["Flow", "flow", "_Flow", "Layer", "Strömung"])
def test_other_names_are_taken(name):
    parameterization = solve_generators(SO2.irrep(0)).parameterization()
    source = keras_source(parameterization, name)
    assert f"class {name}(keras.layers.Layer):" in source
    compile(source, "flow", "exec")
