"""Reads groups and representations from text, such as "SO2" and "2x0 + 1 @ T(1,1)".

    sum      = term { "+" term }
    term     = [ multiplicity "x" ] product
    product  = factor { "@" factor }
    factor   = ( frequency [ parity ] | "T(" p "," q ")" | "(" sum ")" ) { "*" }

A parity is "+" or "-" directly after a frequency. A "+" that another term follows belongs to a sum.
"*" is the dual. The ``str`` of a representation of a built-in group can be read back.
"""

import operator
import re

from equivariance.arguments import MAX_CHANNELS
from equivariance.groups import O2, O3, SO2, SO3, Cyclic, Dihedral, Group
from equivariance.representations import Representation

MAX_ORDER = 360
DIGITS = "0123456789"
WINDOW = 40  # characters shown on either side of a mistake
GROUPS = {"SO2": SO2, "O2": O2, "SO3": SO3, "O3": O3}
KNOWN_GROUPS = "SO2, O2, SO3, O3, C<n> and D<n>, such as C4 or D6"


class NotationError(ValueError):
    """Text that does not name a group or representation.

    Attributes:
        text: the text.
        position: the place of the mistake, counted from 0.
        reason: the mistake.
    """

    def __init__(self, text: str, position: int, reason: str):
        self.text, self.position, self.reason = text, position, reason
        shown = "".join(c if c.isprintable() else " " for c in text)
        start = max(0, position - WINDOW)
        before = "... " if start else ""
        after = " ..." if len(shown) > position + WINDOW else ""
        shown = f"{before}{shown[start : position + WINDOW]}{after}"
        super().__init__(f"{reason}\n  {shown}\n  {' ' * (len(before) + position - start)}^")


def parse_group(text: str) -> Group:
    """Reads a built-in group from its name.

    Args:
        text: "SO2", "O2", "SO3", "O3" (or "SO(2)" and so on), "C4", "D6", in capital or small
            letters.

    Returns:
        The group.

    Raises:
        NotationError: for another name. The message points at the mistake.

    Example:

    >>> parse_group("D6"), parse_group("SO(3)")
    (D6, SO3)
    """
    if not isinstance(text, str):
        raise TypeError(f"A group is named by text, found {text!r} ({type(text).__name__}).")
    start = len(text) - len(text.lstrip())
    name = text.strip().upper()
    plain = re.sub(r"^(S?O)\((\d+)\)$", r"\1\2", name)
    if plain in GROUPS:
        return GROUPS[plain]
    match = re.fullmatch(r"([CD])(\d+)", name, re.ASCII)
    if not match:
        raise NotationError(
            text, start, f"Unknown group {text.strip()!r}: known are {KNOWN_GROUPS}."
        )
    digits = match[2]
    n = int(digits) if len(digits) < 9 else 10**9
    if not 1 <= n <= MAX_ORDER:
        raise NotationError(
            text, start + 1, f"n in {match[1]}<n> must be 1 to {MAX_ORDER}, found {digits}."
        )
    return (Cyclic if match[1] == "C" else Dihedral)(n)


def parse_representation(text: str, group: Group) -> Representation:
    """Reads a representation from text.

    Args:
        text: sums (+), multiples (3x), tensor products (@) and duals (*) of irreducible
            representations (0, 1, 2 ... by frequency or spin; 0+ and 0- with a parity under
            reflections) and tensor representations T(p,q), with parentheses. A multiple takes the
            whole product after it: 2x1 @ 1 is 2x(1 @ 1).
        group: the group. A ``MatrixGroup`` has no irreducible representations, so use only T(p,q)
            there. T(0,0) is a scalar.

    Returns:
        The representation.

    Raises:
        NotationError: if the text is wrong. The message points at the mistake. It is a ValueError.

    Example:

    >>> from equivariance import O2, SO2, parse_representation
    >>> parse_representation("2x0 + T(1,1)", SO2)
    <SO2 representation 2x0 + T(1,1), 6 channels>
    >>> parse_representation("0- + (0+ + 1) @ 2", O2)
    <O2 representation 0- + ((0+ + 1) @ 2), 7 channels>
    >>> try:
    ...     parse_representation("2x0 + 1y", SO2)
    ... except ValueError as error:
    ...     print(error)
    Unexpected 'y'.
      2x0 + 1y
             ^
    """
    if not isinstance(text, str):
        raise TypeError(f"A representation is text, found {text!r} ({type(text).__name__}).")
    if not isinstance(group, Group):
        raise TypeError(f"group must be a group such as SO2, found {group!r}.")
    return _Reader(text, group).read()


class _Reader:
    def __init__(self, text, group):
        self.text, self.group, self.at, self.depth = text, group, 0, 0

    def read(self):
        rep = self._sum()
        if self._peek() == ")":
            self._fail("There is no '(' for this ')'.")
        if self._peek():
            self._fail(f"Unexpected {self._peek()!r}.")
        return rep

    def _sum(self):
        return self._chain("+", self._term, operator.add)

    def _product(self):
        return self._chain("@", self._factor, operator.matmul)

    def _chain(self, sign, part, joined):
        total = part()
        while self._peek() == sign:
            start = self.at
            self.at += 1
            total = self._checked(start, lambda left=total: joined(left, part()))
        return total

    def _term(self):
        self._peek()
        start = self.at
        match = re.compile(r"(\d+)\s*[xX×]", re.ASCII).match(self.text, start)
        if not match:
            return self._product()
        self.at = match.end()
        if len(match[1]) > 9:
            self._fail(f"The multiplicity is too large: at most {MAX_CHANNELS} channels.", start)
        if int(match[1]) == 0:
            self._fail("A multiplicity must be at least 1.", start)
        return self._checked(start, lambda: int(match[1]) * self._product())

    def _factor(self):
        c = self._peek()
        if c in DIGITS and c:
            rep = self._irrep()
        elif c in ("T", "t"):
            rep = self._tensor()
        elif c == "(":
            if self.depth == 50:
                self._fail("Too many parentheses.")
            self.at, self.depth = self.at + 1, self.depth + 1
            rep = self._sum()
            if self._peek() != ")":
                self._fail("A ')' is missing here.")
            self.at, self.depth = self.at + 1, self.depth - 1
        elif c:
            self._fail(f"Expected a frequency such as 1, T(p,q) or '(', found {c!r}.")
        elif self.text.strip():
            self._fail("A representation is missing here.")
        else:
            self._fail("The representation is empty; write for example '2x0 + 1'.")
        while self._peek() == "*":
            star = self.at
            self.at += 1
            if self._peek() and self._peek() in f"{DIGITS}T(":
                self._fail(
                    "'*' is the dual; write multiples with x (2x1) and products with @.", star
                )
            rep = rep.dual
        return rep

    def _irrep(self):
        start = self.at
        index = self._integer()
        sign, rest = self.text[self.at : self.at + 1], self.text[self.at + 1 :].lstrip()
        # A "+" is a parity if no term begins after it.
        if sign != "-" and not (sign == "+" and (not rest or rest[0] in "+@)*")):
            return self._checked(start, lambda: self.group.irrep(index))
        if not self.group.reflections:
            self._fail(f"{self.group.name} has no reflections, so no parity.")
        self.at += 1
        return self._checked(start, lambda: self.group.irrep(index, int(f"{sign}1")))

    def _tensor(self):
        start = self.at
        self.at += 1
        numbers = []
        for before, after in ("(", ","), ("", ")"):
            if before:
                self._expect(before)
            if not self._peek() or self._peek() not in DIGITS:
                self._fail("A tensor representation is written T(p,q): a number expected here.")
            numbers.append(self._integer())
            self._expect(after)
        return self._checked(start, lambda: self.group.tensor(*numbers))

    def _expect(self, c):
        if self._peek() != c:
            self._fail(f"A tensor representation is written T(p,q): {c!r} expected here.")
        self.at += 1

    def _integer(self):
        digits = self.text[self.at :]
        digits = digits[: len(digits) - len(digits.lstrip(DIGITS))]
        if len(digits) > 4:
            self._fail(f"The number {digits[:12]} is too large.")
        self.at += len(digits)
        return int(digits)

    def _checked(self, start, make):
        """Calls ``make``; its errors, and that of too many channels, point at ``start``."""
        try:
            rep = make()
        except NotationError:
            raise
        except (TypeError, ValueError, NotImplementedError) as error:
            self._fail(str(error), start)
        if rep.dim > MAX_CHANNELS:
            self._fail(
                f"{rep.dim} channels are more than the {MAX_CHANNELS} supported here.", start
            )
        return rep

    def _peek(self):
        """The next character other than a space, or ""."""
        self.at = len(self.text) - len(self.text[self.at :].lstrip())
        return self.text[self.at : self.at + 1]

    def _fail(self, reason, position=None):
        raise NotationError(self.text, self.at if position is None else position, reason)
