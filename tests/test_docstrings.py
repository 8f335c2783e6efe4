"""The examples in the docstrings of tfpn run and give what they show.

Those of tfpn.datasets and tfpn.contract have tests of their own.
"""

import doctest
import importlib
import inspect
import pkgutil

import pytest

PACKAGES = (
    *("tfpn.math", "tfpn.layers", "tfpn.models", "tfpn.distributions", "tfpn.training"),
    *("tfpn.tuning", "tfpn.exporting", "tfpn.recipes", "tfpn.tasks"),
)


def modules():
    yield from (
        f"tfpn.{name}" for name in ("augmentation", "evaluation", "figures", "losses", "metrics")
    )
    yield from ("tfpn.debug", "tfpn.spacing", "tfpn.symmetry")
    yield from (
        "tfpn.callbacks",
        "tfpn.coordinates",
        "tfpn.degrees",
        "tfpn.long_tables",
        "tfpn.tables",
        "tfpn.wrappers",
    )
    for package in PACKAGES:
        yield package
        path = importlib.import_module(package).__path__
        yield from (info.name for info in pkgutil.walk_packages(path, f"{package}."))


@pytest.mark.parametrize("name", list(modules()))
def test_examples_run(name, monkeypatch):
    # Keras Tuner collects the garbage of the whole process, which takes longer than its example.
    monkeypatch.setattr("gc.collect", lambda *arguments: 0)
    report = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in doctest.DocTestFinder().find(importlib.import_module(name), name):
        runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_documented(package):
    module = importlib.import_module(package)
    found = doctest.DocTestFinder(recurse=False)
    examples = 0
    for name in module.__all__:
        assert inspect.getdoc(getattr(module, name)), name
        examples += sum(len(test.examples) for test in found.find(getattr(module, name), name))
    assert examples > 0
