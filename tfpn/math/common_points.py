"""Computes the examples of a batch that have the same points as one example of more channels.

Covariances and their factorisation depend on the points and on the variances, and not on the
values. If these are the same in all e examples of a batch, such as the pixels of whole images or
the stations of a network, one factorisation serves all. The examples' channels then stand beside
each other: values [1, N, e c] in place of [e, N, c].
"""

import dataclasses

import tensorflow as tf

from tfpn.math.blocks import compiled
from tfpn.math.shapes import axis_sizes, reshape

_NO_GRADIENT = (
    "common_points=True has no gradient for points, variances and query points: give "
    "common_points=False"
)


def with_common_points(function, observed, operator, outputs):
    """``function(observed, operator)``, at once for all examples if they have the same points.

    The batch is computed example by example if points, variances or query points differ, or if XLA
    compiles the computation, which needs fixed shapes.

    Args:
        function: takes observations and an operator, and returns a mean [B, M, c_out], a variance
            of the same shape or None, and the negative log marginal likelihood [B, c_in]. For e
            examples at once the mean has e c_out channels, and the likelihood e c_in.
        observed: `tfpn.math.posterior.Observed` with noise="shared".
        operator: `tfpn.math.operator.Operator` or another with ``query``.
        outputs: c_out.

    Returns:
        As ``function`` for the examples. Differentiating by points, variances or query points
        raises LookupError.
    """
    batch, _, channels = axis_sizes(observed.values)
    groups = _groups(observed, operator.query, batch)
    if isinstance(groups, int) and groups == batch:
        return function(observed, operator)
    copies = batch // tf.maximum(groups, 1)  # of an empty batch 0

    def first(tensor):
        return tf.raw_ops.PreventGradient(input=tensor[:groups], message=_NO_GRADIENT)

    def split(tensor, axes):
        """[g, ..., e c] -> [g e, ..., c]."""
        count, *between, _ = axis_sizes(tensor)
        found = reshape(tensor, [count, *between, copies, axes])
        order = [0, len(between) + 1, *range(1, len(between) + 1), len(between) + 2]
        return reshape(tf.transpose(found, order), [batch, *between, axes])

    joint = dataclasses.replace(
        observed,
        points=first(observed.points),
        values=_beside(observed.values, groups, copies),
        variance=first(observed.variance),
    )
    at = dataclasses.replace(operator, query=first(operator.query))
    mean, variance, nll = function(joint, at)
    mean = split(mean, outputs)
    if variance is not None:
        variance = tf.ensure_shape(tf.repeat(variance, copies, axis=0), mean.shape)
    return mean, variance, split(nll, channels)


def _groups(observed, query, batch):
    """The number of examples to compute: 1 if all are alike, or else all."""
    if compiled() or (isinstance(batch, int) and batch <= 1):
        return batch
    points, query = observed.finite_points(), tf.stop_gradient(query)
    alike = [tf.reduce_all(tensor == tensor[:1]) for tensor in (points, observed.variance, query)]
    return tf.where(tf.reduce_all(tf.stack(alike)), tf.minimum(batch, 1), batch)


def _beside(values, groups, copies):
    """[g e, N, c] -> [g, N, e c]."""
    _, size, channels = axis_sizes(values)
    found = tf.reshape(values, [groups, copies, size, channels])
    return tf.reshape(tf.transpose(found, [0, 2, 1, 3]), [groups, size, copies * channels])
