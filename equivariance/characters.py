"""Characters, and the dimensions of solution spaces by averaging them over the group.

Nothing here uses the solver: the number of equivariant maps is the average over the group of a
product of traces, <chi_space chi_out chi_in*>, taken exactly (constant terms of Laurent polynomials
in t = exp(i angle), or sums over the elements of a finite group).
"""

from equivariance.representations import (
    Irrep,
    Product,
    Sum,
    Tensor,
    read_pair,
    require_representation,
)

ORDERS = ("zeroth_order", "first_order", "second_order")


class PlaneCharacter:
    """Character of a group of the plane.

    Args:
        order: n for C_n and D_n, None for all rotations.
        rotations: the trace of the rotation by an angle as a Laurent polynomial in t, a dict from
            exponents to coefficients.
        reflections: traces of the reflections R(2 pi j / n) F for even and odd j (the same for
            O(2)); None for a group of rotations.
    """

    def __init__(self, order, rotations, reflections):
        self.order = order
        self.rotations = rotations
        self.reflections = reflections

    def constant(self, value):
        flips = None if self.reflections is None else (value, value)
        return PlaneCharacter(self.order, {0: value}, flips)

    def __add__(self, other):
        flips = _pairwise(lambda x, y: x + y, self.reflections, other.reflections)
        return PlaneCharacter(self.order, _sum(self.rotations, other.rotations), flips)

    def __mul__(self, other):
        flips = _pairwise(lambda x, y: x * y, self.reflections, other.reflections)
        return PlaneCharacter(self.order, _product(self.rotations, other.rotations), flips)

    def dual(self):
        """g -> chi(g^-1)."""
        return PlaneCharacter(
            self.order, {-k: x for k, x in self.rotations.items()}, self.reflections
        )

    def of_square(self):
        """g -> chi(g^2). The square of a reflection is the identity."""
        size = sum(self.rotations.values())
        flips = None if self.reflections is None else (size, size)
        return PlaneCharacter(self.order, {2 * k: x for k, x in self.rotations.items()}, flips)

    def twice_average(self):
        """Twice the average over the group, an integer."""
        rotations = sum(
            x
            for k, x in self.rotations.items()
            if (k == 0 if self.order is None else k % self.order == 0)
        )
        if self.reflections is None:
            return 2 * rotations
        even, odd = self.reflections
        # Half of the reflections have even j if n is even; otherwise the two values are the same.
        return rotations + _halved(even + odd)


class SpaceCharacter:
    """Character of SO(3) as a Laurent polynomial in t = exp(i angle)."""

    def __init__(self, rotations):
        self.rotations = rotations

    def constant(self, value):
        return SpaceCharacter({0: value})

    def __add__(self, other):
        return SpaceCharacter(_sum(self.rotations, other.rotations))

    def __mul__(self, other):
        return SpaceCharacter(_product(self.rotations, other.rotations))

    def dual(self):
        return SpaceCharacter({-k: x for k, x in self.rotations.items()})

    def of_square(self):
        return SpaceCharacter({2 * k: x for k, x in self.rotations.items()})

    def twice_average(self):
        """Weyl's formula: the average of chi(t) (1 - t) (1 - 1/t) / 2 over the circle, doubled."""
        at = self.rotations.get
        return 2 * at(0, 0) - at(1, 0) - at(-1, 0)


class FiniteCharacter:
    """Values of a character on the elements of a finite group.

    Args:
        values: one for each element.
        inverses: the position of each element's inverse.
        squares: the position of each element's square.
        field: the sympy field of the values.
    """

    def __init__(self, values, inverses, squares, field):
        self.values, self.inverses, self.squares, self.field = values, inverses, squares, field

    def _with(self, values):
        return FiniteCharacter(values, self.inverses, self.squares, self.field)

    def constant(self, value):
        return self._with([self.field.convert(value)] * len(self.values))

    def __add__(self, other):
        return self._with([x + y for x, y in zip(self.values, other.values, strict=True)])

    def __mul__(self, other):
        return self._with([x * y for x, y in zip(self.values, other.values, strict=True)])

    def dual(self):
        return self._with([self.values[i] for i in self.inverses])

    def of_square(self):
        return self._with([self.values[i] for i in self.squares])

    def twice_average(self):
        total = self.field.to_sympy(sum(self.values, self.field.zero))
        return 2 * total / len(self.values)


def character(rep):
    """The character of a representation, from the way it is built.

    Args:
        rep: the representation.

    Returns:
        An object with ``+``, ``*``, ``dual()``, ``of_square()`` and ``twice_average()``.
    """
    if isinstance(rep, Irrep):
        return rep.group._irrep_character(rep)
    if isinstance(rep, Product):
        return character(rep.left) * character(rep.right)
    plain = rep.group._defining_character()
    total = plain.constant(1)
    if isinstance(rep, Tensor):
        for letter in rep.letters:
            total = total * (plain.dual() if letter else plain)
        return total
    if not isinstance(rep, Sum):
        raise TypeError(f"No character is known for {rep!r}.")
    total = plain.constant(0)
    for term, n in rep.terms:
        total = total + plain.constant(n) * character(term)
    return total


def count_invariants(rep):
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
    return _average(character(rep))


def count_generators(rep_in, rep_out=None):
    """The dimensions of the spaces that ``solve_generators`` finds, from characters alone.

    Args:
        rep_in: the representation that a generator acts on.
        rep_out: the representation that it gives; the same by default.

    Returns:
        A dict with the keys zeroth_order, first_order and second_order.

    Raises:
        NotImplementedError: for a user-defined group with Lie-algebra generators, over which there
            is no average in general.

    Example:

    >>> import equivariance
    >>> equivariance.count_generators(equivariance.SO2.irrep(1))
    {'zeroth_order': 2, 'first_order': 0, 'second_order': 4}
    """
    rep_in, rep_out = read_pair(rep_in, rep_out, limited=False)
    maps = character(rep_out) * character(rep_in).dual()
    space = maps.constant(1), rep_in.group._defining_character()
    symmetric = space[1] * space[1] + space[1].of_square()  # twice that of Sym^2 V
    counts = [_average(maps * x) for x in space]
    counts.append(_halved(_average(maps * symmetric)))
    return dict(zip(ORDERS, counts, strict=True))


def _average(chi):
    return _halved(chi.twice_average())


def _halved(value):
    half = int(value) // 2
    if value != 2 * half:
        raise ArithmeticError(f"A character count gave {value} / 2, which is no integer.")
    return half


def _sum(left, right):
    return {k: left.get(k, 0) + right.get(k, 0) for k in {*left, *right}}


def _product(left, right):
    found = {}
    for i, x in left.items():
        for j, y in right.items():
            found[i + j] = found.get(i + j, 0) + x * y
    return found


def _pairwise(operation, left, right):
    if left is None:
        return None
    return tuple(operation(x, y) for x, y in zip(left, right, strict=True))
