"""Docstrings as Markdown: what Google's style leaves to the reader's eye is made explicit."""

import re

import griffe

# A doctest: from its first prompt to the next empty line.
_DOCTEST = re.compile(r"^( *)>>> .*(?:\n *\S.*)*(?:\n\s*\n\1>>> .*(?:\n *\S.*)*)*", re.MULTILINE)
# Parameters that share a description, with a break of line between their names.
_NAMES = re.compile(r"^( +(?:\w+, )+\w+,)\n +(?=(?:\w+, )*\w+: )", re.MULTILINE)


def to_markdown(text):
    """Puts fences around doctests, and the names of an entry of "Args" on one line."""
    text = _DOCTEST.sub(lambda m: f"{m[1]}```pycon\n{m[0]}\n{m[1]}```", text)
    return _NAMES.sub(r"\1 ", text)


class Docstrings(griffe.Extension):
    """Applies `to_markdown` to every docstring that is loaded."""

    def on_object(self, *, obj, **kwargs):
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)
