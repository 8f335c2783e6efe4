"""From the means and covariances of waves to those of fields in space."""

import tensorflow as tf

from tfpn.math.shapes import reshape, sizes
from tfpn.math.steerable.interface import feature_pairs
from tfpn.math.steerable.space.spherical import coupling_matrix
from tfpn.types import Tensor


def fields_of(mean, group, count, copies):
    """`tfpn.math.steerable.interface.Harmonics.fields_of`, [B, M rows, K mu, channels].

    The waves that the flows make of each component of the input are coupled to fields.
    """
    components = 2 * group.inside.frequency + 1
    mean = _by_row(mean, group)  # [B, M, rows, K mu, components n]
    number = mean.shape[-1] // components
    found = {}
    for kind, waves in zip(group.outs, tf.split(mean, group.sizes, axis=2), strict=True):
        batch, size, rows, functionals, _ = sizes(waves)
        waves = reshape(waves, [batch, size, rows, functionals, components, number])
        waves = tf.transpose(waves, [0, 1, 3, 5, 2, 4])  # [B, M, K mu, n, rows, components]
        matrix = coupling_matrix(kind[0].frequency, group.inside.frequency).swapaxes(1, 2)
        matrix = matrix.reshape(rows * components, -1)
        flat = reshape(waves, [[batch, size, functionals, number], [rows, components]])
        fields = tf.matmul(flat, tf.constant(matrix, mean.dtype))
        fields = reshape(fields, [batch, size, functionals, number, matrix.shape[1]])
        fields = tf.linalg.matrix_transpose(fields)
        if number < copies:
            fields = tf.pad(fields, [[0, 0]] * 4 + [[0, copies - number]])
        found[kind] = fields
    return found


def covariance_features(explained, flows, group, kind, is_complex):
    """`tfpn.math.steerable.interface.Harmonics.covariance_features`, real numbers mix spins.

    Args:
        explained: [B, M rows, G, K mu, K mu].
        flows, group, kind, is_complex: as there; spins are of real type.
    """
    pairs = feature_pairs(flows[0].count * len(kind), is_complex)
    rows = tf.split(_by_row(explained, group), group.sizes, axis=2)[group.outs.index(kind)]
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
