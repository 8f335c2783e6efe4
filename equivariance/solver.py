"""The linear equations of equivariance, solved exactly for one pair of representations.

A map with derivatives is a tensor X[p, o, i]: p counts the derivative monomials (one, d, or the
pairs i <= j), o the output and i the input channels. A Lie-algebra generator J gives

    (J on p) X + d rho_out(J) X - X d rho_in(J) = 0

and a discrete generator h gives ``(h on p) rho_out(h) X = X rho_in(h)``, which needs no inverse.
"""

import itertools
from functools import cache

from sympy import QQ

from equivariance.exact import common_nullspace, identity, kron, primitive, sparse, to_rational
from equivariance.representations import Model


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
        zero, one = sparse({}, (1, 1), field), identity(1, field)
        return Model(tuple(zero for _ in model.lie), tuple(one for _ in model.discrete), (QQ(1),))
    if order == 1:
        return model
    pairs = monomials(group.dim, 2)
    at = {pair: n for n, pair in enumerate(pairs)}

    def symmetrised(product):
        """Restricts an action on S_kl, all k and l, to the coordinates i <= j."""
        entries = {}
        for (row, column), x in product.to_dok().items():
            i, j = divmod(row, group.dim)
            other = divmod(column, group.dim)
            if i <= j:
                place = at[i, j], at[min(other), max(other)]
                entries[place] = entries.get(place, field.zero) + x
        return sparse(entries, (len(pairs), len(pairs)), field)

    one = identity(group.dim, field)
    return Model(
        tuple(symmetrised(kron(x, one) + kron(one, x)) for x in model.lie),
        tuple(symmetrised(kron(x, x)) for x in model.discrete),
        # The squared length of a unit coordinate: S_ij with i < j stands for two entries.
        tuple(QQ(1 if i == j else 2) for i, j in pairs),
    )


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
    on_p, on_o, on_i = (identity(len(model.scale), field) for model in (space, out, inside))
    found = []
    for p, o, i in zip(space.lie, out.lie, inside.lie, strict=True):
        found.append(
            kron(kron(p, on_o), on_i)
            + kron(kron(on_p, o), on_i)
            - kron(kron(on_p, on_o), i.transpose())
        )
    for p, o, i in zip(space.discrete, out.discrete, inside.discrete, strict=True):
        found.append(kron(kron(p, o), on_i) - kron(kron(on_p, on_o), i.transpose()))
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
    basis = common_nullspace(constraints(space, out, inside, field), size, field)
    return _orthogonalised(to_rational(basis), _weights(space, out, inside))


def _weights(space, out, inside):
    """Squared length, in the orthonormal bases, of the unit tensors of the working bases."""
    return [p * o / i for p in space.scale for o in out.scale for i in inside.scale]


def _orthogonalised(basis, weights):
    rows = []
    for n in range(basis.shape[0]):
        row = basis.extract([n], range(basis.shape[1]))
        for other, squared in rows:
            overlap = _inner(row, other, weights)
            if overlap:
                row = row - other.scalarmul(overlap / squared)
        row = primitive(row)
        rows.append((row, _inner(row, row, weights)))
    entries = {(n, j): x for n, (row, _) in enumerate(rows) for (_, j), x in row.to_dok().items()}
    return sparse(entries, basis.shape, basis.domain)


def _inner(left, right, weights):
    other = right.to_dok()
    total = left.domain.zero
    for at, x in left.to_dok().items():
        if at in other:
            total += x * other[at] * left.domain.convert(weights[at[1]])
    return total
