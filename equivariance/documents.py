"""A solution as data for JSON: dimensions, irreducible parts and the exact basis of each pair."""

import itertools
from typing import Any

from equivariance.characters import ORDERS
from equivariance.generators import GeneratorSolution, require_solution

MAX_MATRIX = 200  # a change of basis with more channels is not written


def to_document(solution: GeneratorSolution) -> dict[str, Any]:
    """A solution as nested dicts and lists of text and numbers, ready for ``json.dump``.

    The keys are group, rep_in, rep_out (text), channels_in, channels_out, dimensions,
    ``irreps_in`` and ``irreps_out`` (representation, multiplicity, first irreducible channel), and
    ``pairs``. The last holds for each pair of irreducible parts the tensors of each order, as lists
    of non-zero entries {"index": [derivatives..., out, in], "exact": text, "value": float}. There
    are also the changes of basis Q (lists of [row, column, exact, value]; omitted above 200
    channels). A solution is X = Q_out Y Q_in^T, where Y combines a pair's tensors between its
    copies.

    Args:
        solution: a ``GeneratorSolution``.

    Returns:
        A dict.

    Example:

    >>> from equivariance import SO2, solve_generators
    >>> document = to_document(solve_generators(SO2.irrep(1), SO2.irrep(0)))
    >>> document["dimensions"]["first_order"], len(document["pairs"][0]["first_order"])
    (2, 2)
    >>> document["pairs"][0]["first_order"][0][1]  # d_2 of the second component, of the divergence
    {'index': [1, 0, 1], 'exact': '1', 'value': 1.0}
    """
    require_solution(solution)
    document = {
        "group": solution.group.name,
        "rep_in": str(solution.rep_in),
        "rep_out": str(solution.rep_out),
        "channels_in": solution.rep_in.dim,
        "channels_out": solution.rep_out.dim,
        "dimensions": solution.dimensions,
    }
    for side, parts in (("in", solution.decomposition_in), ("out", solution.decomposition_out)):
        document[f"irreps_{side}"] = [
            {
                "representation": str(block.irrep),
                "channels": block.irrep.dim,
                "multiplicity": block.multiplicity,
                "start": block.start,
            }
            for block in parts.blocks
        ]
        if parts.rep.dim <= MAX_MATRIX:
            document[f"change_of_basis_{side}"] = [
                [i, j, str(x), float(x)]
                for (i, j), x in sorted(parts.change_of_basis.todok().items())
            ]
    document["pairs"] = [
        {
            "out": str(block.irrep_out),
            "in": str(block.irrep_in),
            **{
                name: [_entries(tensor) for tensor in block.basis(order)]
                for order, name in enumerate(ORDERS)
            },
        }
        for block in solution.blocks
    ]
    return document


def _entries(tensor):
    return [
        {"index": list(at), "exact": str(tensor[at]), "value": float(tensor[at])}
        for at in itertools.product(*(range(n) for n in tensor.shape))
        if tensor[at] != 0
    ]
