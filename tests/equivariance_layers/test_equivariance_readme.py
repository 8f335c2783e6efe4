"""The commands in docs/symmetries.md do what they say; its code is run in tests/cli."""

import re
import shlex
from pathlib import Path

import pytest

from equivariance.command import main

PAGE = (Path(__file__).parents[2] / "docs" / "symmetries.md").read_text(encoding="utf-8")
LINES = re.findall(r"^    python -m equivariance (.*?)(?: +#.*)?$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("line", LINES)
def test_commands_run(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(line)) == 0
    assert capsys.readouterr().out.strip()
    for name in re.findall(r"--(?:json|keras) (\S+)", line):
        assert (tmp_path / name).stat().st_size > 0


def test_there_are_commands():
    assert len(LINES) >= 4


def test_group_elements(capsys):
    """The page's code runs as it stands, and prints what its comments say."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (block,) = [x for x in blocks if "MatrixGroup(" in x]
    exec(compile(block, "symmetries.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Matrix([[0, -1], [1, 0]])" and "-1.0" in lines[1]
    assert lines[-4:] == [
        "Matrix([[-1]])",
        "(5, 5)",
        "[[1.]]",
        "[[[[[1]], [[0]]], [[[0]], [[-1]]]]]",
    ]
