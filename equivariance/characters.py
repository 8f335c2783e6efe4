"""Characters, and the dimensions of solution spaces from their averages over the group.

Nothing here uses the solver. The number of equivariant maps is the average of a product of traces
over the group, <chi_space chi_out chi_in*>. The averages are exact: constant terms of Laurent
polynomials in t = exp(i angle), or sums over the elements of a finite group.
"""

from equivariance.inputs import read_pair, require_representation
from equivariance.representations import Representation

ORDERS = ("zeroth_order", "first_order", "second_order")


class Character:
    """Character of a group of rotations and reflections.

    ``rotations`` is the trace of the rotation by an angle as a Laurent polynomial in t: a dict from
    exponents to coefficients. ``reflections`` holds, in the plane, the traces of the reflections
    R(2 pi j / n) F for even and odd j; otherwise it is (). ``average`` computes twice the average
    over the group from both.
    """

    def __init__(self, average, rotations, reflections=()):
        self.average = average
        self.rotations = rotations
        self.reflections = tuple(reflections)

    def constant(self, value):
        return Character(self.average, {0: value}, [value] * len(self.reflections))

    def __add__(self, other):
        rotations = dict(self.rotations)
        for k, x in other.rotations.items():
            rotations[k] = rotations.get(k, 0) + x
        pairs = zip(self.reflections, other.reflections, strict=True)
        return Character(self.average, rotations, [x + y for x, y in pairs])

    def __mul__(self, other):
        rotations: dict = {}
        for i, x in self.rotations.items():
            for j, y in other.rotations.items():
                rotations[i + j] = rotations.get(i + j, 0) + x * y
        pairs = zip(self.reflections, other.reflections, strict=True)
        return Character(self.average, rotations, [x * y for x, y in pairs])

    def dual(self):
        """g -> chi(g^-1)."""
        rotations = {-k: x for k, x in self.rotations.items()}
        return Character(self.average, rotations, self.reflections)

    def of_square(self):
        """g -> chi(g^2). The square of a reflection is the identity."""
        rotations = {2 * k: x for k, x in self.rotations.items()}
        size = sum(self.rotations.values())
        return Character(self.average, rotations, [size] * len(self.reflections))

    def twice_average(self):
        """Twice the average over the group, an integer."""
        return self.average(self.rotations, self.reflections)


class FiniteCharacter:
    """Values of a character on the elements of a finite group, in a sympy field.

    ``inverses`` and ``squares`` hold the positions of each element's inverse and square.
    """

    def __init__(self, values, inverses, squares, field):
        self.values, self.inverses, self.squares, self.field = values, inverses, squares, field

    def _with(self, values):
        return FiniteCharacter(list(values), self.inverses, self.squares, self.field)

    def constant(self, value):
        return self._with([self.field.convert(value)] * len(self.values))

    def __add__(self, other):
        return self._with(x + y for x, y in zip(self.values, other.values, strict=True))

    def __mul__(self, other):
        return self._with(x * y for x, y in zip(self.values, other.values, strict=True))

    def dual(self):
        return self._with(self.values[i] for i in self.inverses)

    def of_square(self):
        return self._with(self.values[i] for i in self.squares)

    def twice_average(self):
        total = self.field.to_sympy(sum(self.values, self.field.zero))
        return 2 * total / len(self.values)


def count_invariants(rep: Representation) -> int:
    """The number of independent vectors that the group leaves unchanged.

    Args:
        rep: the representation.

    Returns:
        An int.

    Example:

    >>> import equivariance
    >>> equivariance.count_invariants(equivariance.SO3.tensor(2, 2))
    3
    """
    require_representation(rep, "rep", limited=False)
    return halved(rep.character().twice_average())


def count_generators(
    rep_in: Representation, rep_out: Representation | None = None
) -> dict[str, int]:
    """The dimensions of the spaces that ``solve_generators`` finds, from only the characters.

    Args:
        rep_in: the representation that a generator acts on.
        rep_out: the representation of its result. The default is ``rep_in``.

    Returns:
        A dict with the keys zeroth_order, first_order and second_order.

    Raises:
        NotImplementedError: for a user-defined group with Lie-algebra generators, which has no
            average in general.

    Example:

    >>> import equivariance
    >>> equivariance.count_generators(equivariance.SO2.irrep(1))
    {'zeroth_order': 2, 'first_order': 0, 'second_order': 4}
    """
    rep_in, rep_out = read_pair(rep_in, rep_out, limited=False)
    maps = rep_out.character() * rep_in.character().dual()
    space = maps.constant(1), rep_in.group.defining_character()
    symmetric = space[1] * space[1] + space[1].of_square()  # twice the character of Sym^2 V
    counts = [halved((maps * x).twice_average()) for x in (*space, symmetric)]
    counts[2] = halved(counts[2])
    return dict(zip(ORDERS, counts, strict=True))


def halved(value):
    """Half of an even integer."""
    half = int(value) // 2
    if value != 2 * half:
        raise ArithmeticError(f"A character count gave {value} / 2, which is not an integer.")
    return half
