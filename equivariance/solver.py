"""The linear equations of equivariance, solved exactly for one pair of representations.

A map with derivatives is a tensor X[p, o, i]: p counts the derivative monomials (one, d, or the
pairs i <= j), o the output and i the input channels. A Lie-algebra generator J gives

    (J on p) X + d rho_out(J) X - X d rho_in(J) = 0

and a discrete generator h gives ``(h on p) rho_out(h) X = X rho_in(h)``, which needs no inverse. A
rotation by 2 pi / n takes X to ``exp(2 pi T / n) X``, T X being the left side above with the
weights in place of J. As T is antisymmetric with eigenvalues i w of integer w, X stays unchanged
if and only if the product of T^2 + w^2 over the multiples w of n (T for w = 0) annihilates it:
rational equations, whatever n.
"""

import itertools
from functools import cache

from sympy import QQ
from sympy.polys.matrices import DomainMatrix

from equivariance.exact import common_nullspace, kron, primitive, sparse, to_rational
from equivariance.models import Model, Turn


def monomials(dim, order):
    """The derivative monomials of an order as tuples of axes: (), (i,) or (i, j) with i <= j."""
    return list(itertools.combinations_with_replacement(range(dim), order))


@cache
def space_model(group, order):
    """How the group's generators act on the coefficients of derivative monomials, a ``Model``.

    The coefficient of second order is the symmetric matrix S: J gives J S + S J^T, h gives
    h S h^T, in the coordinates S_ij with i <= j.
    """
    model, field = group.defining_model, group.field
    if order == 0:
        return Model.of_factors((), model, field)
    if order == 1:
        return model
    pairs = monomials(group.dim, 2)
    at = {pair: n for n, pair in enumerate(pairs)}

    def symmetrised(product):
        """Restricts an action on S_kl, all k and l, to the coordinates i <= j."""
        entries: dict = {}
        for (row, column), x in product.to_dok().items():
            i, j = divmod(row, group.dim)
            other = divmod(column, group.dim)
            if i <= j:
                place = at[i, j], at[min(other), max(other)]
                entries[place] = entries.get(place, field.zero) + x
        return sparse(entries, (len(pairs), len(pairs)), field)

    squared = Model.of_product(model, model, field)
    places = [i * group.dim + j for i, j in pairs]
    return Model(
        tuple(symmetrised(x) for x in squared.lie),
        tuple(symmetrised(x) for x in squared.discrete),
        # The squared length of a unit coordinate: S_ij with i < j stands for two entries.
        tuple(QQ(1 if i == j else 2) for i, j in pairs),
        tuple(
            Turn(x.order, symmetrised(x.weights), tuple(x.signs[n] for n in places))
            for x in squared.turns
        ),
    )


def unchanged_weights(order, bound, sign):
    """The weights w >= 0 of what a rotation by 2 pi / n, times the sign, leaves unchanged.

    Args:
        order: n.
        bound: the largest weight that can occur.
        sign: 1 or -1.

    Example:

    >>> unchanged_weights(4, 9, 1), unchanged_weights(4, 9, -1), unchanged_weights(3, 9, -1)
    ([0, 4, 8], [2, 6], [])
    """
    if sign == 1:
        return list(range(0, bound + 1, order))
    return [] if order % 2 else list(range(order // 2, bound + 1, order))


def without_weights(step, x, weights):
    """The product of T^2 + w^2 (T for w = 0) over the weights, applied to x; T is ``step``."""
    for w in weights:
        moved = step(x)
        x = step(moved) + x.scalarmul(x.domain(w * w)) if w else moved
    return x


def largest_weight(matrix):
    """A bound of the eigenvalues of an antisymmetric matrix of integers: its row sums."""
    sums = [0] * matrix.shape[0]
    for (i, _), x in matrix.to_dok().items():
        sums[i] += abs(int(x))
    return max(sums)


def constraints(space, out, inside, field):
    """The operators on the flattened X[p, o, i], one a generator, that must give zero.

    Args:
        space: ``Model`` of the derivative monomials.
        out: ``Model`` of the output representation.
        inside: ``Model`` of the input representation.
        field: their common field.

    Returns:
        A list of square sparse matrices.
    """
    on_p, on_o, on_i = (DomainMatrix.eye(len(x.scale), field) for x in (space, out, inside))

    def derivation(p, o, i):
        found = kron(kron(p, on_o), on_i) + kron(kron(on_p, o), on_i)
        return found - kron(kron(on_p, on_o), i.transpose())

    found = [derivation(*x) for x in zip(space.lie, out.lie, inside.lie, strict=True)]
    for p, o, i in zip(space.discrete, out.discrete, inside.discrete, strict=True):
        found.append(kron(kron(p, o), on_i) - kron(kron(on_p, on_o), i.transpose()))
    for p, o, i in zip(space.turns, out.turns, inside.turns, strict=True):
        operator = derivation(p.weights, o.weights, i.weights)
        signs = [x * y * z for x in p.signs for y in o.signs for z in i.signs]
        for sign in set(signs):
            rows = DomainMatrix.diag([field.convert(int(x == sign)) for x in signs], field)
            weights = unchanged_weights(p.order, largest_weight(operator), sign)
            found.append(without_weights(lambda x, by=operator: by * x, rows, weights))
    return found


def equivariant_maps(space, out, inside, field):
    """Basis of the solutions in the working bases.

    Args:
        space, out, inside, field: as for ``constraints``.

    Returns:
        Matrix [s, P * out * in], a flattened solution X[p, o, i] a row. Orthogonal as maps between
        the orthonormal bases (second derivatives counted as the full matrix S), with coprime
        integers where the solutions are rational.
    """
    size = len(space.scale) * len(out.scale) * len(inside.scale)
    basis = to_rational(common_nullspace(constraints(space, out, inside, field), size, field))
    # Squared length, in the orthonormal bases, of the unit tensors of the working bases.
    weights = [p * o / i for p in space.scale for o in out.scale for i in inside.scale]
    return _orthogonalised(basis, weights)


def _orthogonalised(basis, weights):
    """The rows made orthogonal: their Gram matrix is L D L^T, and L^-1 makes it diagonal."""
    field = basis.domain
    if not basis.shape[0]:
        return basis
    weighted = basis * DomainMatrix.diag([field.convert(x) for x in weights], field)
    lower, _, _ = (weighted * basis.transpose()).lu()
    found, columns = lower.inv() * basis, range(basis.shape[1])
    rows = (primitive(found.extract([n], columns)) for n in range(found.shape[0]))
    return DomainMatrix.vstack(*rows).to_sparse()
