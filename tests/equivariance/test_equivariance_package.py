"""The package alone: it needs neither TensorFlow nor Keras, and its docstrings' examples run."""

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import equivariance
import tfpn._version

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


def test_stands_alone():
    code = "import sys, equivariance; print(*sys.modules, equivariance.__version__, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    loaded = done.stdout.splitlines()
    assert "equivariance.generators" in loaded
    assert not [name for name in loaded if name.split(".")[0] == "tfpn"]
    assert loaded[-1] == tfpn._version.__version__  # the same distribution


def members(name):
    """A public name's functions: itself, or the public ones of its class."""
    value = getattr(equivariance, name)
    if inspect.isfunction(value):
        yield name, value
        return
    for kind in (value if inspect.isclass(value) else type(value)).__mro__:
        for attribute, member in vars(kind).items() if "equivariance" in kind.__module__ else ():
            member = getattr(member, "fget", getattr(member, "func", member))
            member = getattr(member, "__func__", member)
            if inspect.isfunction(member) and (attribute == "__init__" or attribute[0] != "_"):
                yield f"{kind.__name__}.{attribute}", member


def test_public_names_are_annotated():
    """Arguments and results, but for ``self``; a type checker reads them in ``make test``."""
    missing = []
    for name, function in (x for public in equivariance.__all__ for x in members(public)):
        signature = inspect.signature(function)
        parameters = [
            p for n, p in enumerate(signature.parameters.values()) if n or "." not in name
        ]
        empty = [p.name for p in parameters if p.annotation is p.empty]
        if signature.return_annotation is signature.empty and not name.endswith("__init__"):
            empty.append("return")
        missing += [f"{name}: {x}" for x in empty]
    assert missing == []
    assert (Path(equivariance.__file__).parent / "py.typed").exists()


def test_public_names_are_documented():
    for name in equivariance.__all__:
        assert inspect.getdoc(getattr(equivariance, name)), name
