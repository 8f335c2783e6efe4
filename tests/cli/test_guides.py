"""Guides and benchmarks are readable, and the site that shows them needs no network."""

import re
import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
READABILITY = runpy.run_path(str(ROOT / "docs" / "readability.py"))
GUIDES = READABILITY["guides"]()


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: str(path.relative_to(ROOT)))
def test_reading_ease(path):
    ease, _, _ = READABILITY["reading_ease"](path.read_text(encoding="utf-8"))
    assert ease > 50, "python docs/readability.py --hard 5 shows the longest sentences"


def test_reading_ease_by_hand():
    """Two sentences of 6 and 4 words, one of them code, with 14 syllables in the other 9."""
    text = """# A heading that is not counted

The variance of a reading is

    indented code. It is not counted.

noise.
Give `variance` to [layers](a.md#b).

| a table | is not counted |
"""
    # The va-ri-ance of a read-ing is / noise / Give - to lay-ers
    found = READABILITY["sentences"](text)
    assert [len(x.split()) for x in found] == [6, 1, 4]
    ease, length, size = READABILITY["reading_ease"](text)
    assert length == pytest.approx(11 / 3) and size == pytest.approx(14 / 10)
    assert ease == pytest.approx(206.835 - 1.015 * 11 / 3 - 84.6 * 14 / 10)


# Syllables as dictionaries give them.
SYLLABLES = {
    1: "are noise scale whole used file placed signs trained through rules",
    2: "layer table reading losses sample mixes batches input neighbour",
    3: "example variance computed example estimate gradually uncertain",
    4: "conditioning information regularly uncertainty",
    5: "probability irregularly",
}


def test_syllables():
    found = {
        n: [READABILITY["syllables"](w) for w in words.split()] for n, words in SYLLABLES.items()
    }
    assert found == {n: [n] * len(words) for n, words in found.items()}


def test_formulas_become_mathml():
    convert = runpy.run_path(str(ROOT / "docs" / "mathml.py"))["to_mathml"]
    page = (
        '<p>At <span class="arithmatex">\\(x &lt; 1\\)</span></p>'
        '<div class="arithmatex">\\[\\sum_k e^{D_k} f\\]</div>'
    )
    root = ElementTree.fromstring(f"<body>{convert(page)}</body>")
    inline, display = (e for e in root.iter() if e.tag.endswith("math"))
    assert "".join(inline.itertext()) == "x<1" and inline.get("display") == "inline"
    assert "".join(display.itertext()) == "∑keDkf" and display.get("display") == "block"
    with pytest.raises(ValueError, match="unknown command .nonsense"):
        convert('<span class="arithmatex">\\(\\nonsense x\\)</span>')


def test_site_fetches_nothing():
    """Scripts and style sheets of the settings are files, and the sheets name no other host."""
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    extra = re.findall(r"^extra_(?:css|javascript):(.*\n(?: .*\n)*)", settings, re.MULTILINE)
    sheets = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.css")]
    assert extra and sheets
    for text in (*extra, *sheets):
        assert "//" not in text
