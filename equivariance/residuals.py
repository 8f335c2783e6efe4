"""By how much solutions miss the equations, exactly: sums of squares that have to be 0."""

import itertools

import sympy

from equivariance.exact import sparse
from equivariance.factored import tensors
from equivariance.solver import largest_weight, unchanged_weights, without_weights


def maps_residual(blocks, orders):
    """Sum of the squared residuals of all basis tensors of the pairs; a sympy number.

    Written out matrix by matrix from the equations above, with the full S, unlike the operators
    that the solver inverts.
    """
    total = sympy.S.Zero
    for block in blocks:
        out, inside = block.irrep_out.model, block.irrep_in.model
        group, shape = block.irrep_out.group, (block.irrep_out.dim, block.irrep_in.dim)
        field = group.field
        space = group.defining_model
        for order in orders:
            for tensor in tensors(block.irrep_out, block.irrep_in, order):
                axes = list(itertools.product(range(group.dim), repeat=order))
                x = {at: tensor.matrix(at, shape).convert_to(field) for at in axes}
                for j, a, b in zip(space.lie, out.lie, inside.lie, strict=True):
                    total += _squared(_lie_residual(x, j.to_dok(), a, b), field)
                for g, a, b in zip(space.discrete, out.discrete, inside.discrete, strict=True):
                    inverse = b.to_field().inv().to_sparse()
                    total += _squared(_discrete_residual(x, g.to_dok(), a, inverse), field)
                for g, a, b in zip(space.turns, out.turns, inside.turns, strict=True):
                    total += _squared(_turn_residual(x, g, a, b, order), field)
    return total


def embeddings_residual(decomposition):
    """Sum of the squares of ``rho E - E sigma`` over generators and irreducible parts."""
    total = sympy.S.Zero
    field = decomposition.rep.group.field
    rho = decomposition.rep.model
    for block in decomposition.blocks:
        sigma = block.irrep.model
        for copy in block.copies:
            e = copy.embedding.convert_to(field)
            pairs = zip([*rho.lie, *rho.discrete], [*sigma.lie, *sigma.discrete], strict=True)
            total += _squared([a * e - e * b for a, b in pairs], field)
            for a, b in zip(rho.turns, sigma.turns, strict=True):
                total += _squared(_turned_embedding(e, a, b), field)
    return total


def _lie_residual(x, j, a, b):
    """(J on the derivative indices) X + A X - X B, for each derivative index."""
    for at in x:
        result = a * x[at] - x[at] * b
        for slot, index in enumerate(at):
            for (row, column), value in j.items():
                if row == index:
                    source = (*at[:slot], column, *at[slot + 1 :])
                    result += x[source].scalarmul(value)
        yield result


def _discrete_residual(x, g, a, inverse):
    """sum over derivative indices of g ... g A X B^-1, minus X."""
    moved = {at: a * matrix * inverse for at, matrix in x.items()}
    for at in x:
        result = -x[at]
        for source in x:
            factor = inverse.domain.one
            for row, column in zip(at, source, strict=True):
                factor *= g.get((row, column), inverse.domain.zero)
            if factor:
                result += moved[source].scalarmul(factor)
        yield result


def _turn_residual(x, g, a, b, order):
    """What of X has weights that a rotation by 2 pi / n changes; see ``equivariance.solver``.

    The channels of an irreducible representation have one sign.
    """
    j, sign = g.weights.to_dok(), a.signs[0] * b.signs[0]
    bound = order * largest_weight(g.weights)
    bound += largest_weight(a.weights) + largest_weight(b.weights)

    def moved(x):
        return dict(zip(x, _lie_residual(x, j, a.weights, b.weights), strict=True))

    for w in unchanged_weights(g.order, bound, sign):
        once = moved(x)
        if w:
            twice = moved(once)
            once = {at: twice[at] + x[at].scalarmul(x[at].domain(w * w)) for at in x}
        x = once
    return x.values()


def _turned_embedding(e, a, b):
    """The same of an embedding E, rows of different signs apart."""
    bound = largest_weight(a.weights) + largest_weight(b.weights)
    entries = e.to_dok()
    for sign in (1, -1):
        part = {at: x for at, x in entries.items() if a.signs[at[0]] * b.signs[0] == sign}
        weights = unchanged_weights(a.order, bound, sign)
        yield without_weights(
            lambda x: a.weights * x - x * b.weights, sparse(part, e.shape, e.domain), weights
        )


def _squared(matrices, field):
    return field.to_sympy(sum((x * x for m in matrices for x in m.to_dok().values()), field.zero))
