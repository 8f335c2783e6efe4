"""Each guide with Python code is a notebook of the site, too.

That the code runs is what `test_readme.py` shows for the page.
"""

import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
HOOK = runpy.run_path(str(ROOT / "docs" / "notebooks.py"))
GUIDES = HOOK["guides"]()
FENCE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_every_guide_with_code_has_a_notebook():
    pages = {page.stem for page in (ROOT / "docs").glob("*.md") if FENCE.search(page.read_text())}
    assert pages <= set(GUIDES)
    assert {"start", "fields"} <= set(GUIDES)  # whose code comes from the README, in part


@pytest.mark.parametrize("name", GUIDES)
def test_code_cells_are_the_blocks_of_the_page(name):
    text = HOOK["page_text"](GUIDES[name])
    notebook = HOOK["to_notebook"](text)
    nbformat.validate(notebook)
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    assert cells == [block.strip("\n") for block in FENCE.findall(text)]
    for cell in cells:
        compile(cell, name, "exec")
    prose = "".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert "--8<--" not in prose
    pictures = re.findall(r"\]\((.*?\.png)\)", prose)
    held = {key for cell in notebook.cells for key in cell.get("attachments", {})}
    assert {f"attachment:{name}" for name in held} == set(pictures)


def test_formulas_links_and_pictures():
    prose = "At \\(x\\), see [b](b.md#c) and [d](https://e.org/f.md)."
    page = f"# A\n\n{prose}\n\n![P](pictures/flows.png){{ width=9 }}\n"
    (cell,) = HOOK["to_notebook"](page).cells
    assert "At $x$, see [b](../b.html#c) and [d](https://e.org/f.md)." in cell.source
    assert cell.source.endswith("![P](attachment:flows.png)")
    assert cell.attachments["flows.png"]["image/png"].startswith("iVBORw0KGgo")


def test_pages_link_to_their_notebooks(tmp_path):
    def shown(path):
        page = SimpleNamespace(file=SimpleNamespace(src_uri=path))
        return HOOK["on_page_content"]("<h1>Title</h1>\n<p>Text</p>", page)

    assert 'href="notebooks/fields.ipynb" download' in shown("fields.md")
    assert shown("style.md") == shown("api/fields.md") == "<h1>Title</h1>\n<p>Text</p>"
    HOOK["on_post_build"]({"site_dir": str(tmp_path)})
    assert {path.stem for path in (tmp_path / "notebooks").glob("*.ipynb")} == set(GUIDES)
