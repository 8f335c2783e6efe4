"""Computes functions of observations and query points block by block."""

import dataclasses

import tensorflow as tf

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
    if neighbourhoods.is_whole(observed.points, own):
        return function(observed, operator, *tensors)
    blocks = neighbourhoods.blocks(observed, operator.reach, own)

    def within(chosen, query):
        moved = dataclasses.replace(operator, query=query)
        return function(chosen.observed(observed), moved, *map(chosen.take, tensors))

    if own:
        *found, nll = within(blocks, blocks.own(observed.finite_points()))
        return *_put_back(blocks, found), blocks.total(nll)
    count = axis_sizes(blocks.rows)[1]
    near = nearest_block(operator.query, blocks.cuts, observed.finite_points())
    to = chunks(near, count, every=True)
    chosen = blocks.at(to.block)
    *found, nll = within(chosen, to.take(operator.query))
    # A block may have several chunks, and its likelihood counts once.
    nll *= tf.cast(tf.reshape(to.first, [-1, 1]), nll.dtype)
    return *_put_back(to, found), chosen.total(nll)


def _put_back(whence, found):
    return (None if tensor is None else whence.put_back(tensor) for tensor in found)
