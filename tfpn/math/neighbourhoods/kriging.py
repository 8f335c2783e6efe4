"""Kriging block by block: each query point is predicted from its neighbourhood.

Every block has its own trend, from its points and its halo. Geostatistics calls this a moving
neighbourhood. With halos of all points it is exact kriging.
"""

import dataclasses

import tensorflow as tf

from tfpn.math.kriging import Kriged, krige, krige_likelihood
from tfpn.math.neighbourhoods.halos import nearest_block
from tfpn.math.neighbourhoods.queries import chunks
from tfpn.math.shapes import axis_sizes


def krige_near(neighbourhoods, observed, query, basis, trend_variance, dof=None):
    """`tfpn.math.kriging.krige` with blocks in place of examples.

    Args:
        neighbourhoods: `tfpn.math.neighbourhoods.Neighbourhoods`.
        observed, query, basis, trend_variance, dof: as in `krige`.

    Returns:
        A `Kriged`. Its ``factor`` is that of each query point's block, [B, M, c].
    """
    if neighbourhoods.is_whole(observed.points):
        return krige(observed, query, basis, trend_variance, dof)
    here, there = basis
    blocks = neighbourhoods.blocks(observed)
    inside, columns = _within(blocks, observed), blocks.take(here)
    own = blocks.own(observed.finite_points())[:, :1]
    found = krige(inside, own, (columns, columns[:, :1]), trend_variance, dof)
    residuals = blocks.put_back_rows(found.residuals)
    nll = blocks.total(_likelihood(blocks, inside, columns, trend_variance, dof))

    count = axis_sizes(blocks.rows)[1]
    to = chunks(nearest_block(query, blocks.cuts, observed.finite_points()), count)
    chosen = blocks.at(to.block)
    at_chunks = chosen.take(here), to.take(there)
    found = krige(_within(chosen, observed), to.take(query), at_chunks, trend_variance, dof)
    factor = found.factor + tf.zeros_like(found.mean)
    mean, variance, factor = map(to.put_back, (found.mean, found.variance, factor))
    return Kriged(mean, variance, residuals, factor, nll)


def krige_likelihood_near(neighbourhoods, observed, basis, trend_variance, dof=None):
    """`tfpn.math.kriging.krige_likelihood` as a product over blocks, [B, c].

    Each block's readings are given those of its halo that belong to earlier blocks.

    Args:
        neighbourhoods: `tfpn.math.neighbourhoods.Neighbourhoods`.
        observed, basis, trend_variance, dof: as in `krige_likelihood`.
    """
    if neighbourhoods.is_whole(observed.points):
        return krige_likelihood(observed, basis, trend_variance, dof)
    blocks = neighbourhoods.blocks(observed)
    inside, columns = _within(blocks, observed), blocks.take(basis)
    return blocks.total(_likelihood(blocks, inside, columns, trend_variance, dof))


def _within(blocks, observed):
    """The blocks' observations without stages, so that the likelihood is that of all."""
    return dataclasses.replace(blocks.observed(observed), stages=())


def _likelihood(blocks, inside, columns, trend_variance, dof):
    """The part of each block's own readings given earlier ones, [B n, c].

    It is ``log p(a, b) - log p(a)``.
    """

    def of_stages(last):
        hidden = tf.where(blocks.stages > last, tf.constant(float("inf"), inside.values.dtype), 0.0)
        seen = dataclasses.replace(inside, variance=inside.variance + hidden[..., None])
        return krige_likelihood(seen, columns, trend_variance, dof)

    return of_stages(1.0) - of_stages(0.0)
