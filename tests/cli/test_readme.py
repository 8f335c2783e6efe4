"""The README's code and commands, and the example, do what they say."""

import re
import runpy
import shlex
from pathlib import Path

import numpy as np
import pytest

from tfpn.cli.arguments import parser

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_code_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) >= 2
    names = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert names["logits"].shape == (64, 2) and np.isfinite(names["logits"]).all()
    assert (tmp_path / "feature_maps.png").stat().st_size > 0


@pytest.mark.parametrize("line", re.findall(r"^    (tfpn .*?)(?: +#.*)?$", README, re.MULTILINE))
def test_commands_are_accepted(line):
    assert parser().parse_args(shlex.split(line)[1:]).command


def test_links_lead_to_files():
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    assert links and all((ROOT / link).exists() for link in links)


def test_example_learns_and_survives_saving():
    example = runpy.run_path(str(ROOT / "examples" / "own_data.py"))
    accuracy, before, after = example["main"]()
    assert accuracy > 0.9
    np.testing.assert_allclose(after, before, atol=1e-5)
