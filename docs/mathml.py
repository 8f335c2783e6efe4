"""A hook of MkDocs: formulas become MathML when the site is built.

Browsers draw MathML by themselves, so a page needs neither a script nor a network.
"""

import html
import re

from latex2mathml.converter import convert

# As pymdownx.arithmatex writes them with generic: true.
_FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\s*(?:\\\((.*?)\\\)|\\\[(.*?)\\\])\s*</\1>', re.DOTALL
)


def to_mathml(page):
    r"""Replaces the TeX formulas of a page.

    Args:
        page: HTML in which formulas stand as ``\(...\)`` or ``\[...\]`` in elements of the class
            arithmatex.

    Returns:
        The HTML with `<math>` in the place of TeX.

    Raises:
        ValueError: a formula has a command that latex2mathml does not know.
    """

    def formula(match):
        tag, inline, display = match.groups()
        tex = html.unescape(inline or display)
        mathml = convert(tex, display="inline" if inline else "block")
        unknown = re.search(r"<m[a-z]+>(\\[A-Za-z]+)</m[a-z]+>", mathml)
        if unknown:
            raise ValueError(f"the formula {tex!r} has the unknown command {unknown[1]}")
        return f'<{tag} class="formula">{mathml}</{tag}>'

    return _FORMULA.sub(formula, page)


def on_page_content(content, **kwargs):
    """Called by MkDocs with the HTML of each page."""
    return to_mathml(content)
