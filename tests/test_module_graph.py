"""Files are short, and those of a package import each other without circles.

Imports inside functions count. What ``tfpn/__init__.py`` imports by a computed name on first use is
not seen.
"""

import ast
import importlib.util
from pathlib import Path

import pytest

PACKAGES = ["equivariance", "tfpn"]
FOLDERS = [*PACKAGES, "tests", "benchmarks", "examples"]


def files(package):
    """The package's files by module name."""
    root = Path(importlib.util.find_spec(package).origin).parent
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        found[".".join((package, *parts))] = path
    return found


def is_for_types(node):
    """Whether a statement is ``if TYPE_CHECKING:``, whose imports never run."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def called(node):
    """The module that ``import_module("...")`` imports, or None."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
        name = node.args[0]
        return name.value if isinstance(name, ast.Constant) else None
    return None


def statements(node):
    """All import statements that may run, wherever they stand, and calls of import_module."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom) or called(child):
            yield child
        elif not is_for_types(child):
            yield from statements(child)


def imported(source, module, is_package, known):
    """The modules among the known ones that a file imports."""
    found = set()
    for node in statements(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
            continue
        if isinstance(node, ast.Call):
            found.add(called(node))
            continue
        base = node.module or ""
        if node.level:
            parts = module.split(".")
            parts = parts[: len(parts) - node.level + is_package]
            base = ".".join([*parts, *([node.module] if node.module else [])])
        for alias in node.names:  # a module of the package, or a name in one
            inner = f"{base}.{alias.name}"
            found.add(inner if inner in known else base)
    return found & set(known)


def circles(graph):
    """The circles that a walk through the graph meets, as lists of modules."""
    found, done, path = [], set(), []

    def visit(module):
        if module in path:
            found.append([*path[path.index(module) :], module])
        elif module not in done:
            path.append(module)
            for other in sorted(graph[module]):
                visit(other)
            done.add(path.pop())

    for module in sorted(graph):
        visit(module)
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_have_no_circles(package):
    known = files(package)
    graph = {
        module: imported(path.read_text(), module, path.name == "__init__.py", known)
        for module, path in known.items()
    }
    assert sum(map(len, graph.values())) > len(graph)  # the walk sees imports
    assert [" -> ".join(circle) for circle in circles(graph)] == []


def test_a_circle_is_found():
    known = {"p": "", "p.a": "", "p.b": "", "p.c": ""}
    sources = {
        "p": "from p import a",
        "p.a": "def f():\n    from .b import g\n    return g",
        "p.b": "import p.c\nif TYPE_CHECKING:\n    from p import b",
        "p.c": "try:\n    a = importlib.import_module('p.a')\nexcept ImportError:\n    pass",
    }
    graph = {name: imported(text, name, name == "p", known) for name, text in sources.items()}
    assert graph == {"p": {"p.a"}, "p.a": {"p.b"}, "p.b": {"p.c"}, "p.c": {"p.a"}}
    assert circles(graph) == [["p.a", "p.b", "p.c", "p.a"]]


def test_files_are_short():
    """No Python file has more than 400 lines."""
    root = Path(__file__).parents[1]
    paths = [path for folder in FOLDERS for path in (root / folder).rglob("*.py")]
    assert len(paths) > 300  # the walk sees files
    lengths = {str(path.relative_to(root)): len(path.read_text().splitlines()) for path in paths}
    assert {path: length for path, length in lengths.items() if length > 400} == {}
