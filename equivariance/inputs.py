"""Reads, checks and decomposes representations that are arguments."""

from equivariance.arguments import require_channels, require_same_group, wrong_type
from equivariance.decomposition import Decomposition
from equivariance.representations import Representation, decomposition


def decompose(rep: Representation) -> Decomposition:
    """Finds the irreducible parts of a representation and the change of basis to them.

    For the built-in groups the parts are irreducible over the reals, and Q is orthogonal. For a
    user-defined group no list of irreducible representations is known. Its sums are split into
    their terms, its tensor representations stay whole, and Q is a permutation.

    Args:
        rep: the representation.

    Returns:
        A ``Decomposition``.

    Raises:
        TypeError: if ``rep`` is not a representation.

    Example:

    >>> import equivariance
    >>> parts = equivariance.decompose(equivariance.SO3.tensor(1, 1))
    >>> str(parts.representation)
    '0 + 1 + 2'
    >>> parts.change_of_basis[:, 0].T  # the trace
    Matrix([[sqrt(3)/3, 0, 0, 0, sqrt(3)/3, 0, 0, 0, sqrt(3)/3]])
    """
    require_representation(rep, "rep")
    return decomposition(rep)


def require_representation(rep, name, limited=True):
    """Raises an error that names the argument unless it is a representation of allowed size."""
    if not isinstance(rep, Representation):
        raise wrong_type(name, "a representation such as SO2.irrep(1)", rep)
    if limited:
        require_channels(rep.dim, name)


def read_pair(rep_in, rep_out, limited=True):
    """Checks two representations of one group; the second is the first by default."""
    rep_out = rep_in if rep_out is None else rep_out
    require_representation(rep_in, "rep_in", limited)
    require_representation(rep_out, "rep_out", limited)
    require_same_group(rep_in, rep_out, "coupled (rep_in and rep_out)")
    return rep_in, rep_out


def arrow(rep_in, rep_out):
    """The names of two representations as text, one name if they are the same."""
    return str(rep_in) if rep_in == rep_out else f"{rep_in} -> {rep_out}"
