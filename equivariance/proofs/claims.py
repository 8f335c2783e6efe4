"""Claims that sympy decides, the steps that they back, and derivations made of steps."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sympy

from equivariance.exact import simplified


@dataclass(frozen=True)
class Claim:
    """A claim that sympy can check.

    Attributes:
        label: the meaning of the left side, in words with LaTeX between dollar signs.
        left: the computed result: an expression, a matrix or a sympy set.
        right: the claimed result.
        equal: whether the claim is that the two are equal, or that they differ.
        cases: the computed cases of a general statement, if not all. The words of the step cover
            the others.

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
        """Whether sympy finds it true; for a general statement, in the named ``cases``."""
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
        title: a title of a few words.
        statement: the conclusion and its reason, in words with LaTeX between dollar signs.
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
        """The claims as unevaluated sympy relations, including matrices and sets."""
        relation = {True: sympy.Eq, False: sympy.Ne}
        return tuple(relation[x.equal](x.left, x.right, evaluate=False) for x in self.claims)


@dataclass(frozen=True)
class Proof:
    """A derivation.

    Attributes:
        title: the subject.
        theorem: the theorem, in words with LaTeX between dollar signs.
        steps: a tuple of ``Step``.
    """

    title: str
    theorem: str
    steps: tuple[Step, ...]

    @property
    def verified(self) -> bool:
        """Whether sympy confirms every claim; claims with ``cases`` count in these cases."""
        return all(step.verified for step in self.steps)

    @property
    def partial(self) -> tuple[Claim, ...]:
        """The claims that were computed only in some cases."""
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
    """Turns words with LaTeX between dollar signs into LaTeX."""
    text = text.replace("^T", r"^{\top}")
    return re.sub(r"_\{(out|in)\}", r"_{\\mathrm{\1}}", text)


def plain_words(text):
    """Turns words with LaTeX between dollar signs into plain text."""
    text = text.replace("$", "").replace(r"\cdot", ".").replace(r"\nabla", "grad")
    text = text.replace(r"\partial", "d")
    text = re.sub(r"\\([A-Za-z]+)", r"\1", text)
    text = re.sub(r"\^\{([^{}]*[ (][^{}]*)\}", r"^(\1)", text)
    return text.replace("{", "").replace("}", "")
