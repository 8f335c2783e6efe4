"""Equivariant maps of a representation to itself that are symmetric or antisymmetric in channels.

For an orthogonal representation the transpose of an equivariant map is equivariant, so these are
subspaces. Between copies of two different irreducible parts the block below the diagonal is the
transpose of the one above. Between copies of one part the pair's tensors are symmetric or
antisymmetric, and so are the coefficients of the copies.
"""

from functools import cache

from equivariance.exact import sparse
from equivariance.factored import Basis, PairBlock, Term
from equivariance.tensors import tensors


class SymmetricBasis(Basis):
    """Basis of the equivariant X from rho to rho with X[d..., a, b] = sign X[d..., b, a].

    Args:
        order: number of derivatives, 0, 1 or 2.
        rep: rho; orthogonal.
        sign: 1 or -1.
    """

    def __init__(self, order, rep, sign):
        self.sign = sign
        parts, terms = rep.decompose().blocks, []
        for n, out in enumerate(parts):
            for own in (1, -1):
                # X = w T is symmetric if w and T are both symmetric or both antisymmetric.
                kind = "symmetric" if own == sign else "antisymmetric"
                found = _own_tensors(out.irrep, order, own)
                terms.append(Term(PairBlock(out, out), found, kind))
            for inside in parts[n + 1 :]:
                pair = PairBlock(out, inside)
                terms.append(Term(pair, pair.tensors(order), "pair", sign))
        terms = [term for term in terms if term.size]
        super().__init__(order, rep.decompose(), rep.decompose(), terms)

    def assemble(self, coefficients):
        """The dense array [..., d, ..., dim, dim] with the coefficients [..., size]."""
        found = super().assemble(coefficients)
        return (found + self.sign * found.swapaxes(-1, -2)) / 2  # exact symmetry despite rounding


@cache
def _own_tensors(irrep, order, sign):
    """A basis of the symmetric (sign 1) or antisymmetric tensors of a part with itself."""
    found = [x.symmetrised(sign) for x in tensors(irrep, irrep, order)]
    if not found:
        return ()
    places = {at: n for n, at in enumerate({at: 0 for x in found for at in x.entries})}
    entries = {(places[at], n): y for n, x in enumerate(found) for at, y in x.entries.items()}
    independent = sparse(entries, (len(places), len(found)), found[0].field).rref()[1]
    return tuple(found[n] for n in independent)
