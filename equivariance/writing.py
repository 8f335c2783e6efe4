"""Writes generators as a system of PDEs, one equation for each field, in LaTeX or plain text."""

import itertools
from dataclasses import dataclass

import numpy as np
import sympy

from equivariance.generators import GeneratorSolution, require_solution
from equivariance.inputs import arrow
from equivariance.operators import expansion, is_scalar, is_vector, operators
from equivariance.representations import Tensor

LETTERS = "cbs"
MAX_MATRIX = 12  # a change of basis with more channels is not printed


@dataclass(frozen=True)
class Style:
    """The style in which a system is written."""

    derivative: str  # of one variable
    time: str
    brackets: str  # around a sum of one row
    names: dict[str, str]  # operators applied to {}


class Latex(Style):
    def number(self, x):
        return sympy.latex(x)

    def field(self, block, index, prime=False):
        letter, label = _letter(block.irrep)
        if label:
            letter = rf"{letter}^{{({label})}}"
        elif block.irrep.group.dim > 1 and block.irrep.dim > 1:
            letter = rf"\mathbf{{{letter}}}"
        if prime:
            letter = f"{letter}'" if not label else rf"{{{letter}}}'"
        return f"{letter}_{{{index}}}" if index else letter

    def component(self, block, index, n):
        letter, label = _letter(block.irrep)
        if block.irrep.dim == 1:
            return self.field(block, index)
        letter = rf"{letter}^{{({label})}}" if label else letter
        return f"{letter}_{{{index},{n + 1}}}" if index else f"{letter}_{{{n + 1}}}"

    def column(self, rows):
        return _latex_matrix([[row] for row in rows])

    def coefficient(self, order, number, indices):
        letter = LETTERS[order]
        return f"{letter}^{{({number})}}_{{{indices}}}" if indices else f"{letter}_{{{number}}}"

    def sum(self, terms, index, count):
        return rf"\sum_{{{index}=1}}^{{{count}}} \left( {terms} \right)"


class Text(Style):
    def number(self, x):
        text = str(x)
        return f"({text})" if any(c in text for c in " /") else text

    def field(self, block, index, prime=False):
        letter, label = _letter(block.irrep)
        letter = f"{letter}({label})" if label else letter
        return letter + "'" * prime + (f"_{index}" if index else "")

    def component(self, block, index, n):
        field = self.field(block, index)
        return field if block.irrep.dim == 1 else f"{field}[{n + 1}]"

    def column(self, rows):
        return f"({', '.join(rows)})"

    def coefficient(self, order, number, indices):
        return f"{LETTERS[order]}{number}{f'_{indices}' if indices else ''}"

    def sum(self, terms, index, count):
        return f"sum_{index} ({terms})"


LATEX = Latex(
    r"\partial_{}",
    r"\partial_t",
    r"\left( {} \right)",
    {
        "identity": "{}",
        "turn": r"{}^{{\perp}}",
        "div": r"\operatorname{{div}} {}",
        "curl": r"\operatorname{{curl}} {}",
        "grad": r"\nabla {}",
        "rot": r"\nabla^{{\perp}} {}",
        "laplacian": r"\Delta {}",
        "laplacian turn": r"\Delta {}^{{\perp}}",
        "grad div": r"\nabla \operatorname{{div}} {}",
        "rot div": r"\nabla^{{\perp}} \operatorname{{div}} {}",
    },
)
TEXT = Text(
    "d{}",
    "d/dt",
    "({})",
    {name: f"{name.replace('laplacian', 'lap')} {{}}" for name in LATEX.names} | {"identity": "{}"},
)
EXPLANATIONS = {
    "turn": ("turn v = (-v[2], v[1])", r"\mathbf{v}^{\perp} = (-v_{2}, v_{1})"),
    "curl": (
        "curl v = d1 v[2] - d2 v[1]",
        r"\operatorname{curl} \mathbf{v} = \partial_1 v_{2} - \partial_2 v_{1}",
    ),
    "rot": ("rot u = (-d2 u, d1 u)", r"\nabla^{\perp} u = (-\partial_2 u, \partial_1 u)"),
}


def latex_system(solution: GeneratorSolution) -> str:
    """The system of PDEs of all equivariant generators in LaTeX, one equation for each field.

    Fields are the irreducible parts: scalars u, vectors v, and others z^(k) of frequency or spin k.
    Gradient, divergence, curl and Laplacian appear by name, other operators component by component.
    Every coefficient c (no derivative), b (first) and s (second) is free.

    Args:
        solution: a ``GeneratorSolution``.

    Returns:
        LaTeX source, an ``align*`` environment (amsmath), with comment lines first.

    Example:

    >>> from equivariance import O2, latex_system, solve_generators
    >>> print(latex_system(solve_generators(O2.irrep(0) + O2.irrep(1))))
    % Generators of 0+ + 1 under O2: 2 of order 0, 2 of order 1, 3 of order 2.
    % Fields: u = 0+ (1 channel), v = 1 (2 channels).
    \\begin{align*}
    \\partial_t u &= c_{1} u + s_{1} \\Delta u + b_{1} \\operatorname{div} \\mathbf{v} \\\\
    \\partial_t \\mathbf{v} &= b_{2} \\nabla u + c_{2} \\mathbf{v} + s_{2} \\Delta \\mathbf{v}
      + s_{3} \\nabla \\operatorname{div} \\mathbf{v}
    \\end{align*}
    """
    require_solution(solution)
    rows = []
    for left, terms in _equations(solution, LATEX):
        lines, current = [], f"{left} &= "
        for text in [_joined(terms[:1]), *map(_signed, terms[1:])] if terms else ["0"]:
            if len(current) + len(text) > 88:
                lines.append(current.rstrip())
                current = "  "
            current += text + " "
        rows.append("\n".join([*lines, current.rstrip()]))
    return "\n".join([*(f"% {line}" for line in _head(solution, LATEX)), _align(rows)])


def text_system(solution: GeneratorSolution) -> str:
    """The system of ``latex_system`` as plain text.

    Example:

    >>> from equivariance import SO2, solve_generators, text_system
    >>> print(text_system(solve_generators(SO2.irrep(1), SO2.irrep(0))))
    Generators of 1 -> 0 under SO2: 0 of order 0, 2 of order 1, 0 of order 2.
    Fields: v = 1 (2 channels) -> u' = 0 (1 channel).
    curl v = d1 v[2] - d2 v[1]
    u' = b1 div v + b2 curl v
    """
    require_solution(solution)
    lines = _head(solution, TEXT)
    for left, terms in _equations(solution, TEXT):
        lines.append(f"{left} = {_joined(terms) or '0'}")
    return "\n".join(lines)


def latex_basis(solution: GeneratorSolution) -> str:
    """The solver's bases of C, B and S in LaTeX, for each pair of irreducible parts.

    Each basis tensor is a matrix [out, in] of polynomials in the derivatives. Its expression by
    named operators follows if it has one. In the channels of the representations a basis element is
    one of these between two copies. The changes of basis Q are printed up to 12 channels
    (irreducible channels = Q^T channels).

    Args:
        solution: a ``GeneratorSolution``.

    Returns:
        LaTeX source, an ``align*`` environment.

    Example:

    >>> from equivariance import SO2, latex_basis, solve_generators
    >>> print(latex_basis(solve_generators(SO2.irrep(1), SO2.irrep(0))))
    \\begin{align*}
    B_{1}^{0 \\leftarrow 1} &= \\begin{pmatrix} \\partial_1 & \\partial_2 \\end{pmatrix}
      = \\operatorname{div} \\\\
    B_{2}^{0 \\leftarrow 1} &= \\begin{pmatrix} - \\partial_2 & \\partial_1 \\end{pmatrix}
      = \\operatorname{curl}
    \\end{align*}
    """
    require_solution(solution)
    rows = []
    sides = {"in": solution.decomposition_in, "out": solution.decomposition_out}
    if solution.rep_in == solution.rep_out:
        del sides["out"]
    for side, parts in sides.items():
        q = parts.change_of_basis if parts.rep.dim <= MAX_MATRIX else None
        if q is not None and q != sympy.eye(parts.rep.dim):
            entries = [[sympy.latex(x) for x in row] for row in q.tolist()]
            rows.append(rf"Q_{{\text{{{side}}}}} &= {_latex_matrix(entries)}")
    for order in range(3):
        for block in solution.blocks:
            for n, tensor in enumerate(block.basis(order), 1):
                rows.append(_latex_tensor(block, order, n, tensor))
    if not any(solution.dimensions.values()):
        rows.append(r"C = B_{i} = S_{ij} &= 0")
    return _align(rows)


def _latex_tensor(block, order, n, tensor):
    grid = [
        [
            _joined(_polynomial(tensor, order, o, i, "", LATEX)) or "0"
            for i in range(tensor.shape[-1])
        ]
        for o in range(tensor.shape[-2])
    ]
    left = f"{'CBS'[order]}_{{{n}}}^{{{block.irrep_out} \\leftarrow {block.irrep_in}}}"
    text = f"{left} &= {_latex_matrix(grid)}"
    basis = _operators(block, order)
    if all(x.name for x in basis):
        parts = []
        for x, operator in zip(expansion(tensor, basis), basis, strict=True):
            parts += _scaled(x, _bare(operator.name), LATEX)
        text += f"\n  = {_joined(parts)}"
    return text


def _bare(name):
    """An operator's LaTeX name without a field."""
    if name == "identity":
        return "1"
    if name.endswith("turn"):
        return LATEX.names[name].format("(\\cdot)")
    return LATEX.names[name].format("").strip()


def _align(rows):
    return "\\begin{align*}\n" + " \\\\\n".join(rows) + "\n\\end{align*}"


def _latex_matrix(rows):
    body = r" \\ ".join(" & ".join(row) for row in rows)
    return rf"\begin{{pmatrix}} {body} \end{{pmatrix}}"


def _head(solution, style):
    counts = ", ".join(f"{n} of order {k}" for k, n in enumerate(solution.dimensions.values()))
    group = " ".join(solution.group.name.split())  # a user's name may have several lines
    channels = arrow(solution.rep_in, solution.rep_out)
    fields = _fields(solution.decomposition_in)
    if solution.rep_in != solution.rep_out:
        fields += " -> " + _fields(solution.decomposition_out, prime=True)
    lines = [f"Generators of {channels} under {group}: {counts}.", f"Fields: {fields}."]
    used = {
        word
        for block in solution.blocks
        for order in range(3)
        for operator in _operators(block, order)
        for word in (operator.name or "").split()
    }
    for name, (text, source) in EXPLANATIONS.items():
        if name in used and solution.group.dim == 2:
            lines.append(f"${source}$" if style is LATEX else text)
    return lines


def _fields(decomposition, prime=False):
    found = []
    for block in decomposition.blocks:
        count, rep = block.multiplicity, block.irrep
        name = TEXT.field(block, "", prime)
        names = name if count == 1 else f"{name}_1..{count}"
        size = "1 channel" if rep.dim == 1 else f"{rep.dim} channels"
        found.append(f"{names} = {rep} ({size}{' each' if count > 1 else ''})")
    return ", ".join(found)


def _equations(solution, style):
    """For each output field its left side and the terms, (sign, text)."""
    same = solution.rep_in == solution.rep_out
    counters = [itertools.count(1) for _ in range(3)]
    for out, blocks in itertools.groupby(solution.blocks, lambda block: block.out):
        row = "a" if out.multiplicity > 1 else ""
        field = style.field(out, row, prime=not same)
        found = []
        for block in blocks:
            column = "b" if block.multiplicity_in > 1 else ""
            terms = []
            for order in range(3):
                for operator in _operators(block, order):
                    coefficient = style.coefficient(order, next(counters[order]), row + column)
                    applied = _applied(operator, block, column, style)
                    terms.append((1, f"{coefficient} {applied}"))
            if terms and column:
                terms = [(1, style.sum(_joined(terms), column, block.multiplicity_in))]
            found += terms
        yield f"{style.time} {field}" if same else field, found


def _operators(block, order):
    return operators(block.irrep_out, block.irrep_in, order, block.basis(order))


def _applied(operator, block, index, style):
    """An operator applied to the field of a block's input."""
    if operator.name:
        field = style.field(block.inside, index)
        if operator.name.endswith("turn") and "^" in field:
            field = f"{{{field}}}"  # LaTeX does not take a second superscript
        return style.names[operator.name].format(field)
    rows = []
    for o in range(block.irrep_out.dim):
        parts = []
        for i in range(block.irrep_in.dim):
            component = style.component(block.inside, index, i)
            parts += _polynomial(operator.array, operator.order, o, i, component, style)
        rows.append(_joined(parts) or "0")
    return style.column(rows) if len(rows) > 1 else style.brackets.format(rows[0])


def _polynomial(array, order, o, i, component, style):
    """An entry as terms (sign, text): numbers times its derivatives of a component."""
    found: dict = {}
    for at in np.ndindex(*array.shape[:order]):
        key = tuple(sorted(at))
        found[key] = found.get(key, 0) + array[(*at, o, i)]
    parts = []
    for at, x in found.items():
        factors = []
        for axis in sorted(set(at)):
            power = at.count(axis)
            derivative = style.derivative.format(axis + 1)
            factors.append(derivative + (f"^{power}" if power > 1 else ""))
        parts += _scaled(x, " ".join([*factors, component]).strip(), style)
    return parts


def _scaled(x, text, style):
    """A term as a list of one (sign, text), or none."""
    x = sympy.sympify(x)
    if x == 0:
        return []
    sign = -1 if x.could_extract_minus_sign() else 1
    x = sign * x
    if x == 1:
        return [(sign, text or "1")]
    return [(sign, f"{style.number(x)} {text}".strip())]


def _joined(terms):
    text = " ".join(_signed(term) for term in terms)
    return text.removeprefix("+ ")


def _signed(term):
    sign, text = term
    return f"{'+' if sign > 0 else '-'} {text}"


def _letter(rep):
    """A field's letter, and a label if the letter does not suffice."""
    if is_scalar(rep):
        return "u", ""
    if is_vector(rep):
        return "v", ""
    if str(rep) == "0-":
        return "p", ""
    return ("t" if isinstance(rep, Tensor) else "z"), str(rep)
