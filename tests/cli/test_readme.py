"""The README, the pages of docs/ and the example do what they say."""

import ast
import importlib
import inspect
import re
import runpy
import shlex
from pathlib import Path

import numpy as np
import pytest

import tfpn
from tfpn.cli.arguments import parser
from tfpn.math.kernels import CORRELATIONS
from tfpn.math.posterior import NOISE
from tfpn.math.uncertainty import UNCERTAINTY

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))


def section(match):
    """What a page includes by ``--8<-- "FILE:NAME"``."""
    text = (ROOT / match[1]).read_text(encoding="utf-8")
    start, end = (text.index(f"<!-- --8<-- [{word}:{match[2]}] -->") for word in ("start", "end"))
    return text[start:end]


def read(page):
    return re.sub(r'^--8<-- "(.*):(.*)"$', section, page.read_text(encoding="utf-8"), flags=re.M)


def blocks(text):
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


TEXTS = {page.name: read(page) for page in PAGES}
README = (ROOT / "README.md").read_text(encoding="utf-8")


def run_page(name, folder, monkeypatch):
    """Runs the code blocks of a page in a folder; returns what they have named."""
    monkeypatch.chdir(folder)
    # Keras Tuner collects the garbage of the whole process, which takes longer than its page.
    monkeypatch.setattr("gc.collect", lambda *arguments: 0)
    before = [(registry, dict(registry)) for registry in (CORRELATIONS, NOISE, UNCERTAINTY)]
    names = {}
    try:
        for block in blocks(TEXTS[name]):
            exec(compile(block, name, "exec"), names)
    finally:
        for registry, entries in before:  # to which a page adds
            registry.clear()
            registry.update(entries)
    return names


# The page of fields runs in test_tables.py, which looks at its map.
RUN = [name for name, text in TEXTS.items() if blocks(text) and name != "fields.md"]


@pytest.mark.parametrize("name", RUN)
def test_code_blocks_run(name, tmp_path, monkeypatch, eagerly):
    """Without tracing: a step or two each. The example below trains by graphs as a user does."""
    names = run_page(name, tmp_path, monkeypatch)
    if name == "start.md":
        assert names["logits"].shape == (64, 2) and np.isfinite(names["logits"]).all()
        assert (tmp_path / "feature_maps.png").stat().st_size > 0


def test_code_blocks_of_the_readme_are_in_pages():
    assert blocks(README)
    assert set(blocks(README)) <= {block for text in TEXTS.values() for block in blocks(text)}


COMMANDS = re.compile(r"^    (?:\w+=\S+ )*(tfpn .*?)(?: &)?(?: +#.*)?$", re.MULTILINE)


@pytest.mark.parametrize(
    "line", [line for text in (README, *TEXTS.values()) for line in COMMANDS.findall(text)]
)
def test_commands_are_accepted(line):
    assert parser().parse_args(shlex.split(line)[1:]).command


TEXT_FILES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]


@pytest.mark.parametrize("path", TEXT_FILES, ids=lambda path: path.name)
def test_links_lead_to_files(path):
    links = re.findall(r"\]\(([^)]+)\)", path.read_text(encoding="utf-8"))
    links = [link.split("#")[0] for link in links if "://" not in link]
    assert all((path.parent / link).exists() for link in links), links


def messages(package):
    """All texts in a package's code; what is filled in when it runs stands as "..."."""
    for path in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (p.value if isinstance(p, ast.Constant) else "..." for p in node.values)
                yield "".join(parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


QUOTES = re.findall(r"^> (.*)$", TEXTS["troubleshooting.md"], re.MULTILINE)


@pytest.fixture(scope="module")
def known_messages():
    return "\n".join(messages("tfpn"))


@pytest.mark.parametrize("quote", QUOTES)
def test_quoted_messages_are_those_of_the_library(quote, known_messages):
    for part in quote.split("..."):
        assert part.strip(" ;:,") in known_messages


def public_names(module):
    """What a module offers: its ``__all__``, or else what it defines without an underscore."""
    if hasattr(module, "__all__"):
        return set(module.__all__) - {"__version__"}
    return {
        name
        for name, member in vars(module).items()
        if (inspect.isfunction(member) or inspect.isclass(member))
        and member.__module__ == module.__name__
        and not name.startswith("_")
    }


PARTS = [
    *(name for name in tfpn.__all__ if inspect.ismodule(getattr(tfpn, name))),
    *("contract", "fitting"),
]


@pytest.mark.parametrize("package", ["equivariance", *(f"tfpn.{name}" for name in PARTS)])
def test_reference_has_every_public_name(package):
    """As an entry, or as a constant in a table."""
    texts = [page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.md")]
    entries = re.compile(r"^(?:::: |\| `)([\w.]+)", re.MULTILINE)
    listed = {name for text in texts for name in entries.findall(text)}
    names = public_names(importlib.import_module(package))
    assert names
    assert {f"{package}.{name}" for name in names} <= listed


def test_docstrings_become_markdown():
    to_markdown = runpy.run_path(str(ROOT / "docs" / "docstrings.py"))["to_markdown"]
    doctest = ">>> 1 + 1\n2\n>>> 3\n3"
    text = f"Args:\n    a, b,\n        c: numbers.\n\nExample:\n\n{doctest}\n\nMore."
    entries = "    a: numbers.\n    b: numbers.\n    c: numbers."
    expected = f"Args:\n{entries}\n\nExample:\n\n```pycon\n{doctest}\n```\n\nMore."
    assert to_markdown(text) == expected


def test_example_learns_and_survives_saving():
    example = runpy.run_path(str(ROOT / "examples" / "own_data.py"))
    accuracy, before, after = example["main"]()
    assert accuracy > 0.9
    np.testing.assert_allclose(after, before, atol=1e-5)
