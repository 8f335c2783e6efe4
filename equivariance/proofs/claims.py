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
        cases: which cases of a general statement were computed, if not all: the words of the step
            cover the others.

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
    cases: str = ""

    @cached_property
    def holds(self) -> bool:
        """Whether it is true, decided by sympy; of a general statement, in the ``cases`` named."""
        return self._agree() == self.equal

    def _agree(self):
        if isinstance(self.left, sympy.Set):
            return self.left == self.right
        if isinstance(self.left, sympy.MatrixBase):
            same = self.left.shape == self.right.shape
            return same and all(simplified(x) == 0 for x in self.left - self.right)
        return simplified(sympy.sympify(self.left - self.right)) == 0

    def latex(self) -> str:
        """The claim as LaTeX, without dollar signs."""
        sign = "=" if self.equal else r"\neq"
        right = sympy.latex(self.right)
        note = rf" \quad \text{{({self.cases} only)}}" if self.cases else ""
        return rf"\text{{{latex_words(self.label)}}} {sign} {right}{note}"

    def __str__(self) -> str:
        mark = "checked" if self.holds else "NOT TRUE"
        mark += f", {self.cases} only" if self.cases else ""
        sign = "=" if self.equal else "!="
        matrix = isinstance(self.right, sympy.MatrixBase)
        right = self.right.tolist() if matrix else self.right
        return f"{plain_words(self.label)} {sign} {right}  [{mark}]"


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
    claims: tuple[Claim, ...]

    @cached_property
    def verified(self) -> bool:
        """Whether there are claims and sympy confirms all of them."""
        return bool(self.claims) and all(claim.holds for claim in self.claims)

    @property
    def equations(self) -> tuple:
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
    steps: tuple[Step, ...]

    @property
    def verified(self) -> bool:
        """Whether sympy confirms every claim, those with ``cases`` in these cases."""
        return all(step.verified for step in self.steps)

    @property
    def partial(self) -> tuple[Claim, ...]:
        """The claims that were computed in some cases only."""
        return tuple(claim for step in self.steps for claim in step.claims if claim.cases)

    def latex(self) -> str:
        """The derivation as LaTeX (amsmath), for the body of a document."""
        lines = [rf"\paragraph{{{self.title}.}} {latex_words(self.theorem)}"]
        lines.append(r"\begin{enumerate}")
        for step in self.steps:
            lines.append(rf"\item \textbf{{{step.title}.}} {latex_words(step.statement)}")
            lines.append(r"\begin{gather*}")
            lines.append(" \\\\\n".join(f"  {claim.latex()}" for claim in step.claims))
            lines.append(r"\end{gather*}")
        return "\n".join([*lines, r"\end{enumerate}"])

    def __str__(self) -> str:
        lines = [self.title, "", plain_words(self.theorem)]
        for n, step in enumerate(self.steps, 1):
            lines += ["", f"{n}. {step.title}. {plain_words(step.statement)}"]
            lines += [f"   {claim}" for claim in step.claims]
        verdict = "All steps checked." if self.verified else "Some steps are NOT confirmed."
        if self.partial:
            verdict += f" {len(self.partial)} claims were computed in the named cases only."
        return "\n".join([*lines, "", verdict])


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
