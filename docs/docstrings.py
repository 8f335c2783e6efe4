"""Docstrings as Markdown: what Google's style leaves to the reader's eye is made explicit."""

import re

import griffe

# A doctest: from its first prompt to the next empty line.
_DOCTEST = re.compile(r"^( *)>>> .*(?:\n *\S.*)*(?:\n\s*\n\1>>> .*(?:\n *\S.*)*)*", re.MULTILINE)
# Parameters that share a description, with or without a break of line between their names.
_ENTRY = re.compile(r"^    ((?:\w+,\s+)+\w+):((?: .*|)(?:\n {5,}\S.*)*)", re.MULTILINE)


def to_markdown(text):
    """Puts fences around doctests, and gives each parameter an entry of its own."""
    text = _DOCTEST.sub(lambda m: f"{m[1]}```pycon\n{m[0]}\n{m[1]}```", text)
    return _ENTRY.sub(
        lambda m: "\n".join(f"    {name}:{m[2]}" for name in re.findall(r"\w+", m[1])), text
    )


class Docstrings(griffe.Extension):
    """Applies `to_markdown` to every docstring that is loaded."""

    def on_object(self, *, obj, **kwargs):
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)
