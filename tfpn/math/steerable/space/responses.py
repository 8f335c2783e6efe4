"""From the rows' means and covariances to those of fields in space."""

import tensorflow as tf

from tfpn.math.steerable.interface import feature_pairs
from tfpn.types import Tensor


def fields_of(mean, group, count, copies):
    """`tfpn.math.steerable.interface.Harmonics.fields_of` of [B, M rows, K mu, copies]."""
    mean = _by_row(mean, group)  # [B, M, rows, K mu, n]
    number = mean.shape[-1]
    if number < copies:
        mean = tf.pad(mean, [[0, 0]] * 4 + [[0, copies - number]])
    mean = tf.transpose(mean, [0, 1, 3, 2, 4])
    return {kind: mean[:, :, :, group.rows_of(kind)] for kind in group.outs}


def covariance_features(explained, flows, group, kind, is_complex):
    """`tfpn.math.steerable.interface.Harmonics.covariance_features`, real numbers mix spins.

    Args:
        explained: [B, M rows, G, K mu, K mu].
        flows, group, kind, is_complex: as there; spins are of real type.
    """
    pairs = feature_pairs(flows[0].count * len(kind), is_complex)
    rows = _by_row(explained, group)[:, :, group.rows_of(kind)]
    total = tf.reduce_sum(rows, axis=2)
    features = tf.stack([total[..., first, second] for first, second, _ in pairs], axis=-1)
    prior: Tensor = tf.add_n([term.prior(group, kind) for term in flows])
    prior = tf.stack([prior[first, second] for first, second, _ in pairs])
    return tf.cast(prior, explained.dtype), features


def _by_row(tensor, group):
    """[B, M rows, ...] -> [B, M, rows, ...]."""
    shape = tf.shape(tensor)
    places = tensor.shape[1]
    places = shape[1] // group.rows if places is None else places // group.rows
    split = tf.reshape(tensor, tf.concat([shape[:1], [places, group.rows], shape[2:]], axis=0))
    split.set_shape([tensor.shape[0], None, group.rows, *tensor.shape[2:]])
    return split
