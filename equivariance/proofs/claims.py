"""Claims that sympy decides, the steps they back, and derivations made of steps."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sympy

from equivariance.exact import simplified


@dataclass(frozen=True)
class Claim:
    """Something that sympy can check.

    Attributes:
        label: what the left side is, in words with LaTeX between dollar signs.
        left: what it came out as: an expression, a matrix or a sympy set.
        right: what it is said to be.
        equal: whether the two are said to be equal, or to differ.

    Example:

    >>> import sympy
    >>> x = sympy.Symbol("x")
    >>> Claim("sin^2 + cos^2", sympy.sin(x) ** 2 + sympy.cos(x) ** 2, sympy.Integer(1)).holds
    True
    """

    label: str
    left: Any
    right: Any
    equal: bool = True

    @cached_property
    def holds(self):
        """Whether it is true, decided by sympy."""
        return self._agree() == self.equal

    def _agree(self):
        if isinstance(self.left, sympy.Set):
            return self.left == self.right
        if isinstance(self.left, sympy.MatrixBase):
            if self.left.shape != self.right.shape:
                return False
            return all(_is_zero(x) for x in self.left - self.right)
        return _is_zero(sympy.sympify(self.left) - sympy.sympify(self.right))

    def latex(self):
        """The claim as LaTeX, without dollar signs."""
        sign = "=" if self.equal else r"\neq"
        right = sympy.latex(self.right)
        return rf"\text{{{latex_words(self.label)}}} {sign} {right}"

    def __str__(self):
        mark = "checked" if self.holds else "NOT TRUE"
        sign = "=" if self.equal else "!="
        return f"{plain_words(self.label)} {sign} {_plain(self.right)}  [{mark}]"


@dataclass(frozen=True)
class Step:
    """One step of a derivation.

    Attributes:
        title: in a few words.
        statement: what is concluded, and why; words with LaTeX between dollar signs.
        claims: the ``Claim`` objects that back it, at least one.
    """

    title: str
    statement: str
    claims: tuple

    @cached_property
    def verified(self):
        """Whether there are claims and sympy confirms all of them."""
        return bool(self.claims) and all(claim.holds for claim in self.claims)

    @property
    def equations(self):
        """The claims as sympy relations, unevaluated (matrices and sets included)."""
        relation = {True: sympy.Eq, False: sympy.Ne}
        return tuple(relation[x.equal](x.left, x.right, evaluate=False) for x in self.claims)


@dataclass(frozen=True)
class Proof:
    """A derivation.

    Attributes:
        title: what it is about.
        theorem: what is proved; words with LaTeX between dollar signs.
        steps: a tuple of ``Step``.
    """

    title: str
    theorem: str
    steps: tuple

    @property
    def verified(self):
        """Whether sympy confirms every step."""
        return all(step.verified for step in self.steps)

    def latex(self):
        """The derivation as LaTeX (amsmath), for the body of a document."""
        lines = [rf"\paragraph{{{self.title}.}} {latex_words(self.theorem)}"]
        lines.append(r"\begin{enumerate}")
        for step in self.steps:
            lines.append(rf"\item \textbf{{{step.title}.}} {latex_words(step.statement)}")
            lines.append(r"\begin{gather*}")
            lines.append(" \\\\\n".join(f"  {claim.latex()}" for claim in step.claims))
            lines.append(r"\end{gather*}")
        return "\n".join([*lines, r"\end{enumerate}"])

    def __str__(self):
        lines = [self.title, "", plain_words(self.theorem)]
        for n, step in enumerate(self.steps, 1):
            lines += ["", f"{n}. {step.title}. {plain_words(step.statement)}"]
            lines += [f"   {claim}" for claim in step.claims]
        verdict = "All steps checked." if self.verified else "Some steps are NOT confirmed."
        return "\n".join([*lines, "", verdict])


def _is_zero(x):
    x = sympy.sympify(x)
    return simplified(x) == 0


def _plain(x):
    if isinstance(x, sympy.MatrixBase):
        return str(x.tolist())
    return str(x)


def latex_words(text):
    """Words with LaTeX between dollar signs, as LaTeX."""
    text = text.replace("^T", r"^{\top}")
    return re.sub(r"_\{(out|in)\}", r"_{\\mathrm{\1}}", text)


def plain_words(text):
    """The same for reading as it is."""
    text = text.replace("$", "").replace(r"\cdot", ".").replace(r"\nabla", "grad")
    text = text.replace(r"\partial", "d")
    text = re.sub(r"\\([A-Za-z]+)", r"\1", text)
    text = re.sub(r"\^\{([^{}]*[ (][^{}]*)\}", r"^(\1)", text)
    return text.replace("{", "").replace("}", "")
