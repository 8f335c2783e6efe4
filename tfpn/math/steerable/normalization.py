"""Normalises fields: with one scale for each block, and a shift for only the scalars."""

import tensorflow as tf

from tfpn.math.channels import channel_sum
from tfpn.math.replicas import replica_sum
from tfpn.math.steerable.fields import (
    component_mean,
    join_fields,
    split_fields,
    spread_blocks,
    width,
)


def field_statistics(values, variance, weight, fields, dim=2):
    """Means of scalars and spreads of blocks over the observed entries of a batch.

    With `tf.distribute` the batch is that of all replicas.

    Args:
        values, variance: [B, N, c], 0 where the weight is 0.
        weight: [B, N, c], 1 where observed and 0 elsewhere, equal in a block.
        fields: the field type.
        dim: of space.

    Returns:
        Three tensors: m, the means [scalars]; q^2 [blocks], the mean over a block's channels of
        ``(value - m)^2 + variance``, with m = 0 unless it is a scalar; and the number of entries
        [blocks].
    """
    count, values_sum = replica_sum(channel_sum(weight), channel_sum(values))
    total = tf.maximum(count, 1.0)
    mean = split_fields(values_sum / total, fields, dim).get(0, tf.zeros([0], values.dtype))
    square = tf.square(values - _for_scalars(mean, fields, dim) * weight) + variance
    (square_sum,) = replica_sum(channel_sum(square))
    return mean, _by_block(square_sum / total, fields, dim), _by_block(count, fields, dim)


def _by_block(numbers, fields, dim):
    """The mean over the channels of each block, [c] -> [blocks]."""
    parts = split_fields(numbers, fields, dim)
    return tf.concat([component_mean(parts[m], m, dim) for m, _ in fields], axis=0)


def _for_scalars(numbers, fields, dim):
    """Spreads numbers of scalars to channels, [scalars] -> [c]; other channels get 0."""
    parts = {m: tf.zeros([width(m, dim) * copies], numbers.dtype) for m, copies in fields}
    return join_fields({**parts, 0: numbers}, fields, dim)


def normalize_fields(values, variance, weight, mean, spread, gamma, beta, fields, epsilon, dim=2):
    """``gamma (values - m) / q + beta``, with a scale for each block.

    Args:
        values, variance, weight: as in `field_statistics`.
        mean: m [scalars].
        spread: q^2 [blocks].
        gamma: [blocks].
        beta: [scalars].
        fields: the field type.
        epsilon: a number to add to q^2.
        dim: of space.

    Returns:
        Values and variance [B, N, c], 0 where the weight is 0, and the scales [c].

    Example: a vector keeps its direction.

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from tfpn.math.steerable.normalization import field_statistics, normalize_fields
    >>> fields, v = ((1, 1),), tf.constant([[[3.0, 4.0]]])
    >>> weight, zero = tf.ones_like(v), tf.zeros_like(v)
    >>> mean, spread, _ = field_statistics(v, zero, weight, fields)
    >>> one, none = tf.ones(1), tf.ones(0)
    >>> v, *_ = normalize_fields(v, zero, weight, mean, spread, one, none, fields, 0.0)
    >>> bool(np.allclose(v, np.array([[[3.0, 4.0]]]) / np.sqrt(12.5)))
    True
    """
    scale = gamma * tf.math.rsqrt(spread + epsilon)
    by_frequency = tf.split(scale, [copies for _, copies in fields])
    parts = {m: part for (m, _), part in zip(fields, by_frequency, strict=True)}
    scale = spread_blocks(parts, fields, dim)
    shift = _for_scalars(beta, fields, dim) - _for_scalars(mean, fields, dim) * scale
    return values * scale + shift * weight, variance * tf.square(scale), scale
