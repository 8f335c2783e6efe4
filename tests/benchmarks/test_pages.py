"""The pages of benchmarks/ lead somewhere, and their commands are accepted."""

import argparse
import importlib
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
PAGES = sorted(BENCHMARKS.rglob("*.md"))
PROGRAMS = sorted(path.parent for path in BENCHMARKS.rglob("run.py"))
COMMANDS = re.compile(r"^ +python -m (benchmarks\.\S+)(.*)$", re.MULTILINE)
MENTIONS = re.compile(r"\bbenchmarks/[\w/.-]*\w")


def name(path):
    return str(path.relative_to(ROOT))


def commands(path):
    """Modules and words of a page's commands; a backslash continues a line."""
    text = re.sub(r"\\\n *", "", path.read_text(encoding="utf-8"))
    return [(module, shlex.split(rest, comments=True)) for module, rest in COMMANDS.findall(text)]


def targets(path):
    """Files that a page links to."""
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text(encoding="utf-8"))
    return {(path.parent / link).resolve() for link in links if "://" not in link}


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_links_lead_to_files(path):
    assert [target for target in targets(path) if not target.exists()] == []


def test_every_program_has_a_page_that_is_listed():
    assert len(PROGRAMS) >= 20
    listed = targets(BENCHMARKS / "README.md") | targets(BENCHMARKS / "archive" / "README.md")
    for folder in PROGRAMS:
        page = folder / "README.md"
        assert page in listed and folder / "run.py" in targets(page), page
        assert any(module == f"benchmarks.{folder.name}.run" for module, _ in commands(page)) or (
            folder.parent.name == "archive"
        )


class Accepted(Exception):
    """In place of what a program does after it has read its arguments."""


@pytest.mark.parametrize("path", [path for path in PAGES if commands(path)], ids=name)
def test_commands_are_accepted(path, monkeypatch):
    parse = argparse.ArgumentParser.parse_args

    def parse_only(parser, arguments=None):
        assert parse(parser, arguments)
        raise Accepted

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_only)
    for module, words in commands(path):
        with pytest.raises(Accepted):
            importlib.import_module(module).main(words)


TEXTS = [
    *(ROOT / "README.md", ROOT / "CHANGELOG.md"),
    *(
        path
        for folder in ("docs", "models", "benchmarks")
        for path in (ROOT / folder).rglob("*.md")
    ),
    *(path for folder in ("tfpn", "equivariance") for path in (ROOT / folder).rglob("*.py")),
]


def test_what_is_mentioned_exists():
    found = {(name(path), m) for path in TEXTS for m in MENTIONS.findall(path.read_text("utf-8"))}
    assert len(found) > 20
    assert {(page, mention) for page, mention in found if not (ROOT / mention).exists()} == set()
