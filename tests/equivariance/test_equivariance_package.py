"""The package alone: it needs neither TensorFlow nor Keras, and its docstrings' examples run."""

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import equivariance

MODULES = [
    "equivariance",
    *(info.name for info in pkgutil.walk_packages(equivariance.__path__, "equivariance.")),
]


def test_works_without_tensorflow_and_keras():
    code = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tensorflow", "keras", "tensorflow_probability", "scipy"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
import equivariance
from equivariance import SO3, solve_generators
from equivariance.command import main
channels = SO3.irrep(0) + SO3.irrep(1)
solution = solve_generators(channels)
assert solution.residual() == 0
pde = solution.parameterization()
generator = pde.generator(pde.initial())
assert equivariance.verify(generator, channels) and not equivariance.amplifies(generator)
assert "class Flow" in equivariance.keras_source(pde, "Flow")
assert equivariance.latex_system(solution) and equivariance.to_document(solution)
assert equivariance.prove_scalar_diffusions_trivial().verified
c4 = equivariance.Cyclic(4)
orbits = equivariance.diffusion_orbits(c4.irrep(0), c4.irrep(1))
assert orbits.weights(orbits.initial())["kernel"].shape == (5, 1, 2)
assert not {"tensorflow", "keras", "tfpn.math", "scipy"} & set(sys.modules)
print(solution.dimensions["first_order"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "3"


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    report = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in doctest.DocTestFinder().find(importlib.import_module(name), name):
        runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)


def test_public_names_are_documented():
    for name in equivariance.__all__:
        assert inspect.getdoc(getattr(equivariance, name)), name
