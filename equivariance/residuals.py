"""The exact residuals of solutions: sums of squares that have to be 0.

Both kinds of solution commute with the group, ``A X = X B`` for each of its generators. A tensor
maps the input to the derivatives times the output. An embedding maps an irreducible part to the
whole.
"""

import numpy as np
import sympy

from equivariance.exact import sparse
from equivariance.models import Model
from equivariance.solver import largest_weight, space_model, unchanged_weights, without_weights
from equivariance.tensors import tensors


def maps_residual(blocks, orders):
    """Sum of the squared residuals of all basis tensors of the pairs; a sympy number."""
    total = sympy.S.Zero
    for block in blocks:
        out, inside = block.irrep_out, block.irrep_in
        group = out.group
        for order in orders:
            left = Model.of_product(space_model(group, order), out.model, group.field)
            shape = (group.dim**order * out.dim, inside.dim)
            for tensor in tensors(out, inside, order):
                axes = {at: n for n, at in enumerate(np.ndindex(*(group.dim,) * order))}
                entries = {
                    (axes[at] * out.dim + o, i): x for (at, o, i), x in tensor.entries.items()
                }
                x = sparse(entries, shape, tensor.field)
                total += _residual(x, left, inside.model, group.field)
    return total


def embeddings_residual(decomposition):
    """Sum of the squares of ``rho E - E sigma`` over generators and irreducible parts."""
    rep, total = decomposition.rep, sympy.S.Zero
    for block in decomposition.blocks:
        for copy in block.copies:
            total += _residual(copy.embedding, rep.model, block.irrep.model, rep.group.field)
    return total


def _residual(x, left, right, field):
    """The sum of the squares of ``A X - X B`` over all generators.

    For a rotation by 2 pi / n it takes the part of X whose weights the rotation changes (see
    ``equivariance.solver``), separately for rows of each sign. The columns belong to an irreducible
    representation and have one sign.
    """
    x = x.convert_to(field)
    found = [a * x - x * b for a, b in zip(left.plain, right.plain, strict=True)]
    for a, b in zip(left.turns, right.turns, strict=True):
        bound = largest_weight(a.weights) + largest_weight(b.weights)
        for sign in (1, -1):
            rows = {at: y for at, y in x.to_dok().items() if a.signs[at[0]] * b.signs[0] == sign}
            found.append(
                without_weights(
                    lambda y, a=a, b=b: a.weights * y - y * b.weights,
                    sparse(rows, x.shape, field),
                    unchanged_weights(a.order, bound, sign),
                )
            )
    squares = (y * y for matrix in found for y in matrix.to_dok().values())
    return field.to_sympy(sum(squares, field.zero))
