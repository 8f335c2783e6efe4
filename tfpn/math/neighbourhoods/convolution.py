"""Computes functions of observations and query points block by block."""

import dataclasses

from tfpn.math.neighbourhoods.halos import nearest_block
from tfpn.math.neighbourhoods.queries import chunks
from tfpn.math.shapes import axis_sizes


def in_neighbourhoods(neighbourhoods, function, observed, operator, *, own, tensors=()):
    """``function(observed, operator, *tensors)`` with blocks in place of examples.

    Args:
        neighbourhoods: `tfpn.math.neighbourhoods.Neighbourhoods`.
        function: takes observations, an operator and the rows of ``tensors`` at the observations.
            It returns a tuple: tensors [B, M, ...] at the operator's query points, or None, and
            last the negative log marginal likelihood [B, c].
        observed: `tfpn.math.posterior.Observed`.
        operator: `tfpn.math.operator.Operator` or another with ``query`` and ``reach``.
        own: whether the query points are the observed points.
        tensors: [B, N, ...].

    Returns:
        As ``function``. With ``own`` the results at unobserved points are arbitrary but finite.
    """
    if neighbourhoods.is_whole(observed.points):
        return function(observed, operator, *tensors)
    blocks = neighbourhoods.blocks(observed, operator.reach)

    def within(chosen, query):
        moved = dataclasses.replace(operator, query=query)
        return function(chosen.observed(observed), moved, *map(chosen.take, tensors))

    if own:
        *found, nll = within(blocks, blocks.own(observed.finite_points()))
        return *_put_back(blocks, found), blocks.total(nll)
    count = axis_sizes(blocks.rows)[1]
    to = chunks(nearest_block(operator.query, blocks.cuts, observed.finite_points()), count)
    *found, _ = within(blocks.at(to.block), to.take(operator.query))
    # The likelihood comes from the blocks' own points, which chunks do not know.
    *_, nll = within(blocks, blocks.own(observed.finite_points())[:, :1])
    return *_put_back(to, found), blocks.total(nll)


def _put_back(whence, found):
    return (None if tensor is None else whence.put_back(tensor) for tensor in found)
