"""A hook of MkDocs: each guide with Python code is a notebook, too, in notebooks/ of the site.

The code cells are the Python blocks of the page, in its order. Pictures are inside the file, and
links lead from the folder notebooks/ to the pages of the site.
"""

import base64
import re
from pathlib import Path

import jupytext
import nbformat

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
_INCLUDED = re.compile(r'^--8<-- "(.*):(.*)"$', re.MULTILINE)
_MARK = re.compile(r"^<!-- --8<-- .*-->\n?", re.MULTILINE)
_PICTURE = re.compile(r"!\[([^\]]*)\]\(pictures/([^)]+)\)(?:\{[^}]*\})?")
_PAGE = re.compile(r"\]\((?!\w+:)([\w/-]+)\.md(#[^)]*)?\)")
_INSTALL = (
    "*This notebook needs tfpn with some extras. In a checkout of the repository: "
    "`pip install '.[datasets,plots,fields,tuning]'`.*\n\n"
)


def _section(match):
    text = (ROOT / match[1]).read_text(encoding="utf-8")
    start, end = (text.index(f"<!-- --8<-- [{word}:{match[2]}] -->") for word in ("start", "end"))
    return text[start:end]


def page_text(path):
    """The Markdown of a page with what it includes.

    Args:
        path: of the page.

    Returns:
        The text, in which sections of other files stand in the place of ``--8<-- "FILE:NAME"``.
    """
    return _MARK.sub("", _INCLUDED.sub(_section, path.read_text(encoding="utf-8")))


def guides():
    """Paths of the guides with Python blocks, by the name of the notebook."""
    pages = sorted(DOCS.glob("*.md"))
    return {page.stem: page for page in pages if "```python\n" in page_text(page)}


def to_notebook(text):
    """A page as a notebook.

    Args:
        text: Markdown, as `page_text` gives it.

    Returns:
        A notebook of nbformat, whose code cells are the page's Python blocks.
    """
    formula = re.compile(r"\\([\[(])(.*?)\\[\])]", re.DOTALL)
    text = formula.sub(lambda m: ("$$" if m[1] == "[" else "$").join(("", m[2].strip(), "")), text)
    text = _PAGE.sub(lambda m: f"](../{m[1]}.html{m[2] or ''})", text)
    notebook = jupytext.reads(_INSTALL + text, fmt="md")
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            names = [name for _, name in _PICTURE.findall(cell.source)]
            cell.source = _PICTURE.sub(r"![\1](attachment:\2)", cell.source)
            if names:
                cell.attachments = {name: {"image/png": _picture(name)} for name in names}
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
    }
    return notebook


def _picture(name):
    return base64.b64encode((DOCS / "pictures" / name).read_bytes()).decode("ascii")


def on_page_content(content, page, **kwargs):
    """Called by MkDocs with the HTML of each page: puts a link to the notebook below the title."""
    name = Path(page.file.src_uri).stem
    if page.file.src_uri != f"{name}.md" or name not in guides():
        return content
    link = f'<a href="notebooks/{name}.ipynb" download>Download this page as a notebook</a>'
    return content.replace("</h1>", f'</h1>\n<p class="notebook">{link}</p>', 1)


def on_post_build(config, **kwargs):
    """Called by MkDocs when the pages are written: writes the notebooks beside them."""
    folder = Path(config["site_dir"]) / "notebooks"
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in guides().items():
        nbformat.write(to_notebook(page_text(path)), folder / f"{name}.ipynb")
