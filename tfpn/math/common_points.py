"""Computes the examples of a batch that have the same points as one example of more channels.

Covariances and their factorisation depend on the points and on the variances, and not on the
values. If these are the same in all e examples of a batch, such as the pixels of whole images or
the stations of a network, one factorisation serves all. The examples' channels then stand beside
each other: values [1, N, e c] in place of [e, N, c].
"""

import dataclasses
from typing import Any

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
    channels = axis_sizes(observed.values)[-1]
    together = Together.of(observed, operator.query)
    if together is None:
        return function(observed, operator)
    at = dataclasses.replace(operator, query=together.first(operator.query))
    mean, variance, nll = function(together.joint(observed), at)
    mean = together.split(mean, outputs)
    if variance is not None:
        variance = tf.ensure_shape(together.repeat(variance), mean.shape)
    return mean, variance, together.split(nll, channels)


@dataclasses.dataclass(frozen=True)
class Together:
    """How a batch is computed: g groups of e examples each, where g is 1 or the batch's size.

    Attributes:
        batch: number of examples, g e.
        groups: g.
        copies: e.
    """

    batch: Any
    groups: Any
    copies: Any

    @classmethod
    def of(cls, observed, query):
        """For these observations and query points; None if each example is computed alone."""
        batch = axis_sizes(observed.values)[0]
        groups = _groups(observed, query, batch)
        if isinstance(groups, int) and groups == batch:
            return None
        return cls(batch, groups, batch // tf.maximum(groups, 1))  # of an empty batch 0

    def first(self, tensor):
        """That of each group's first example, [g, ...]."""
        return tf.raw_ops.PreventGradient(input=tensor[: self.groups], message=_NO_GRADIENT)

    def joint(self, observed):
        """The observations of a group as those of one example with e times the channels."""
        _, size, channels = axis_sizes(observed.values)
        found = tf.reshape(observed.values, [self.groups, self.copies, size, channels])
        values = tf.transpose(found, [0, 2, 1, 3])
        return dataclasses.replace(
            observed,
            points=self.first(observed.points),
            values=tf.reshape(values, [self.groups, size, self.copies * channels]),
            variance=self.first(observed.variance),
        )

    def split(self, tensor, channels):
        """[g, ..., e c] -> [g e, ..., c]."""
        count, *between, _ = axis_sizes(tensor)
        found = reshape(tensor, [count, *between, self.copies, channels])
        order = [0, len(between) + 1, *range(1, len(between) + 1), len(between) + 2]
        return reshape(tf.transpose(found, order), [self.batch, *between, channels])

    def repeat(self, tensor):
        """What all examples of a group share, for each of them: [g, ...] -> [g e, ...]."""
        return tf.repeat(tensor, self.copies, axis=0)


def _groups(observed, query, batch):
    """The number of examples to compute: 1 if all are alike, or else all."""
    if compiled() or (isinstance(batch, int) and batch <= 1):
        return batch
    points, query = observed.finite_points(), tf.stop_gradient(query)
    alike = [tf.reduce_all(tensor == tensor[:1]) for tensor in (points, observed.variance, query)]
    return tf.where(tf.reduce_all(tf.stack(alike)), tf.minimum(batch, 1), batch)
