"""Solves the linear equations of equivariance exactly, for one pair of representations.

A map with derivatives is a tensor X[p, o, i]. p stands for the derivative indices (none, one, or
two, in which X is symmetric), o for the output channels and i for the input channels. A Lie-algebra
generator J gives

    (J on p) X + d rho_out(J) X - X d rho_in(J) = 0

A discrete generator h gives ``(h on p) rho_out(h) X = X rho_in(h)``, which needs no inverse. A
rotation by 2 pi / n maps X to ``exp(2 pi T / n) X``, where T X is the left side above with the
weights in place of J. T is antisymmetric with eigenvalues i w of integer w. So X stays unchanged if
and only if the product of T^2 + w^2 over the multiples w of n (T for w = 0) annihilates it. These
equations are rational for every n.
"""

import itertools
from functools import cache

from sympy.polys.matrices import DomainMatrix

from equivariance.exact import common_nullspace, kron, primitive, sparse, to_rational
from equivariance.models import Model


@cache
def space_model(group, order):
    """The action of the group's generators on derivative indices, a ``Model``."""
    model = group.defining_model
    return Model.of_factors([model] * order, model, group.field)


def symmetric_tensors(dim, order, field):
    """A basis of the tensors [d, ...] that do not depend on the order of their indices, as rows."""
    places = {at: n for n, at in enumerate(itertools.product(range(dim), repeat=order))}
    rows = list(itertools.combinations_with_replacement(range(dim), order))
    entries = {
        (n, places[at]): field.one
        for n, axes in enumerate(rows)
        for at in itertools.permutations(axes)
    }
    return sparse(entries, (len(rows), len(places)), field)


def unchanged_weights(order, bound, sign):
    """The weights w >= 0 that a rotation by 2 pi / n, times the sign, leaves unchanged.

    ``bound`` is the largest weight that can occur.

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
    """A bound on the eigenvalues of an antisymmetric matrix of integers, from its row sums."""
    sums = [0] * matrix.shape[0]
    for (i, _), x in matrix.to_dok().items():
        sums[i] += abs(int(x))
    return max(sums)


def constraints(left, right, field):
    """The operators on a flattened X that must give 0 if X commutes, A X = X B: square matrices.

    X maps from the ``Model`` right to the ``Model`` left, both over the field.
    """
    on_left, on_right = (DomainMatrix.eye(len(x.scale), field) for x in (left, right))

    def commutator(a, b):
        return kron(a, on_right) - kron(on_left, b.transpose())

    found = [commutator(a, b) for a, b in zip(left.plain, right.plain, strict=True)]
    for a, b in zip(left.turns, right.turns, strict=True):
        operator = commutator(a.weights, b.weights)
        signs = [x * y for x in a.signs for y in b.signs]
        for sign in set(signs):
            rows = DomainMatrix.diag([field.convert(int(x == sign)) for x in signs], field)
            weights = unchanged_weights(a.order, largest_weight(operator), sign)
            found.append(without_weights(lambda x, by=operator: by * x, rows, weights))
    return found


def equivariant_maps(group, order, out, inside):
    """Basis of the solutions in the working bases.

    They map from the ``Model`` inside to the ``Model`` out, with ``order`` derivatives. Each row of
    the result [s, d * ... * out * in] is a flattened solution X[p, o, i]. The solutions are
    orthogonal as maps between the orthonormal bases. Rational solutions have coprime integer
    entries.
    """
    field = group.field
    left = Model.of_product(space_model(group, order), out, field)
    unit = DomainMatrix.eye(len(out.scale) * len(inside.scale), field)
    symmetric = kron(symmetric_tensors(group.dim, order, field), unit)
    basis = to_rational(common_nullspace(constraints(left, inside, field), symmetric))
    # The squared lengths, in the orthonormal bases, of the unit tensors of the working bases.
    weights = [x / i for x in left.scale for i in inside.scale]
    return _orthogonalised(basis, weights)


def _orthogonalised(basis, weights):
    """Makes the rows orthogonal: their Gram matrix is L D L^T, and L^-1 makes it diagonal."""
    field = basis.domain
    if not basis.shape[0]:
        return basis
    weighted = basis * DomainMatrix.diag([field.convert(x) for x in weights], field)
    lower, _, _ = (weighted * basis.transpose()).lu()
    found, columns = lower.inv() * basis, range(basis.shape[1])
    rows = (primitive(found.extract([n], columns)) for n in range(found.shape[0]))
    return DomainMatrix.vstack(*rows).to_sparse()
