"""Flesch reading ease of guides and benchmarks.

It is 206.835 - 1.015 words / sentences - 84.6 syllables / words.

    python docs/readability.py             # a line for each page, the hardest first
    python docs/readability.py --hard 5    # and the five longest sentences of each page

Code blocks, tables, formulas, pictures, headings and quoted messages do not count. A name in code
counts as a word of its sentence and has no syllables. 60 to 70 is plain English, below 50 is hard.
"""

import argparse
import re
from pathlib import Path

DOCS = Path(__file__).parent

# In this order. Headings and items of lists without a full stop get one.
_DROPPED = (
    (r"^```.*?^```", "", re.DOTALL),  # code
    (r"\\\[.*?\\\]", "", re.DOTALL),  # formulas
    (r"\\\(.*?\\\)", "`x`", re.DOTALL),
    (r"^(?: {4,}|\t)(?! *[-*] ).*$", "", 0),  # indented code
    (r"^ *\|.*$", "", 0),  # tables
    (r"^ *(?:>|#|--8<--|!!!|:::).*$", "", 0),  # messages, headings, what is included
    (r"<!--.*?-->", "", re.DOTALL),
    (r"!\[[^\]]*\]\([^)]*\)(?:\{[^}]*\})?", "", 0),  # pictures
    (r"\[([^\]]*)\]\([^)]*\)", r"\1", 0),  # the text of a link stays
)
_SILENT = re.compile(r"(?:(?:[^laeiouy]|[aeiouy]l)es?|[^aeiouydt]ed)$")
_CODE = "\x00"


def prose(markdown):
    """Paragraphs of a page as plain text; a name in code is one NUL.

    Args:
        markdown: the page's text.

    Returns:
        A list of texts, each a paragraph or an item of a list.
    """
    for pattern, replacement, flags in _DROPPED:
        markdown = re.sub(pattern, replacement, markdown, flags=flags | re.MULTILINE)
    markdown = re.sub(r"`[^`]+`", _CODE, markdown)
    items = re.split(r"\n\s*\n|^ *(?:[-*]|\d+\.) ", markdown, flags=re.MULTILINE)
    texts = (" ".join(item.replace("*", "").split()) for item in items)
    return [text for text in texts if re.search(r"[A-Za-z]", text)]


def sentences(markdown):
    """Sentences of a page: they end with a full stop, question mark, exclamation mark or colon."""
    parts = (re.split(r"(?<=[.!?:])[)\"]?\s+(?=[^a-z])", text) for text in prose(markdown))
    return [part for text in parts for part in text if re.search(r"[A-Za-z]", part)]


def syllables(word):
    """Groups of vowels of an English word, without a silent ending; at least one.

    >>> [syllables(word) for word in ("noise", "variance", "table", "layers", "computed", "mixes")]
    [1, 3, 2, 2, 3, 2]
    """
    word = re.sub(r"y(?=[aeiou])", "-", word.lower())  # a consonant: layers, years
    if re.search(r"(?:[sxz]|[cs]h|[cg])es$", word):  # mixes, losses, places
        return max(1, len(re.findall(r"[aeiouy]+", word)))
    stem = _SILENT.sub("", word)
    split = re.sub(r"i(?=[aou])(?<!t[i])(?<!s[i])(?<!c[i])", "i-", stem)  # va-ri-ance, not par-tial
    return max(1, len(re.findall(r"[aeiouy]+", split)))


def reading_ease(markdown):
    """Flesch reading ease of a page.

    Args:
        markdown: the page's text.

    Returns:
        The ease, the mean number of words of a sentence and of syllables of a word, as floats;
        three NaN for a page without a sentence.
    """
    found = sentences(markdown)
    words = [word for text in found for word in re.findall(r"[A-Za-z]+(?:'[a-z]+)?", text)]
    if not words:
        return (float("nan"),) * 3
    length = (len(words) + sum(text.count(_CODE) for text in found)) / len(found)
    size = sum(map(syllables, words)) / len(words)
    return 206.835 - 1.015 * length - 84.6 * size, length, size


def guides():
    """Paths of the pages of docs/ and benchmarks/, without the reference and tables alone."""
    benchmarks = DOCS.parent.joinpath("benchmarks").rglob("*.md")
    return sorted(DOCS.glob("*.md")) + sorted(p for p in benchmarks if p.name != "table.md")


def main(arguments=None):
    """Prints the figures of every page.

    Args:
        arguments: the command's words; those of the process by default.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hard", type=int, default=0, metavar="N", help="longest sentences shown")
    hard = parser.parse_args(arguments).hard
    texts = {
        str(path.relative_to(DOCS.parent)): path.read_text(encoding="utf-8") for path in guides()
    }
    print(f"{'page':45} ease  words a sentence  syllables a word")
    for name in sorted(texts, key=lambda name: reading_ease(texts[name])[0]):
        ease, length, size = reading_ease(texts[name])
        print(f"{name:45} {ease:4.1f}  {length:16.1f}  {size:16.2f}")
        for text in sorted(sentences(texts[name]), key=lambda text: -len(text.split()))[:hard]:
            print("    " + text.replace(_CODE, "`...`"))


if __name__ == "__main__":
    main()
