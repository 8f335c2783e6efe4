"""Turns the entries' means and covariances into those of complex fields."""

import numpy as np
import tensorflow as tf

from tfpn.math.steerable.interface import feature_pairs
from tfpn.types import Tensor


def fields_of(mean, group, count, copies):
    """The fields that the flows make of one input frequency.

    Args:
        mean: means of the group's entries, [B, M, 2 K E, channels in planar order].
        group: a `Group`.
        count: K.
        copies: n. Zeros pad the input's copies to this number.

    Returns:
        A dict from output frequencies to [B, M, K, 1 or 2, n]: the scalars, or the real and
        imaginary parts of z.
    """
    halves = 1 if group.inside == 0 else 2
    shape = tf.shape(mean)
    number = mean.shape[-1] // halves
    sizes = [2, count, len(group.entries), halves, number]
    mean = tf.reshape(mean, tf.concat([shape[:2], sizes], axis=0))
    if number < copies:
        mean = tf.pad(mean, [[0, 0]] * 6 + [[0, copies - number]])
    # The products of D's parts with the parts of z_beta, each [B, M, K, n].
    products = {}
    for part, by_entry in enumerate(tf.unstack(mean, axis=2)):
        for entry, by_half in zip(group.entries, tf.unstack(by_entry, axis=3), strict=True):
            for half, product in enumerate(tf.unstack(by_half, axis=3)):
                products[entry, part, half] = product
    found: dict[int, list[Tensor]] = {}
    for entry in group.entries:

        def product(part, half, entry=entry):
            return products[entry, part, half]

        if entry.out == 0:
            real = product(0, 0) if group.inside == 0 else product(0, 0) - product(1, 1)
            parts = [real]
        elif group.inside == 0:
            parts = [product(0, 0), product(1, 0)]
        elif entry.inside > 0:
            parts = [product(0, 0) - product(1, 1), product(0, 1) + product(1, 0)]
        else:  # the entry maps the conjugate
            parts = [product(0, 0) + product(1, 1), product(1, 0) - product(0, 1)]
        found.setdefault(entry.out, []).append(tf.stack(parts, axis=3))
    return {out: tf.add_n(terms) for out, terms in found.items()}


def covariance_features(explained, flows, group, out):
    """`tfpn.math.steerable.interface.Harmonics.covariance_features` of 2 K E functionals.

    Args:
        explained: the explained part of the entries' covariances, [..., 2 K E, 2 K E].
        flows: a list of `Flows`, one for each Gaussian term of the kernel.
        group: a `Group`.
        out: alpha, the frequency of the output.

    Returns:
        The numbers of the prior [F], and their explained part [..., F].
    """
    entries = len(group.entries)
    count = flows[0].count
    size = 2 * count * entries
    selectors = []
    for first, second, imaginary in feature_pairs(count, bool(out)):
        selector = np.zeros((2, count, entries, 2, count, entries))
        for i, entry in enumerate(group.entries):
            if entry.out != out:
                continue
            for part in (0, 1):
                if not imaginary:
                    selector[part, first, i, part, second, i] = entry.power
                else:  # Im(D conj D') = Im D Re D' - Re D Im D'
                    sign = 1.0 if part else -1.0
                    selector[part, first, i, 1 - part, second, i] = sign * entry.power
        selectors.append(selector.reshape(-1))
    matrix = tf.constant(np.stack(selectors, axis=-1), explained.dtype)
    leading = tf.shape(explained)[:-2]
    flat = tf.matmul(tf.reshape(explained, [-1, size * size]), matrix)
    features = tf.reshape(flat, tf.concat([leading, matrix.shape[1:]], axis=0))
    prior = tf.add_n([term.prior(group, out) for term in flows])
    prior = [
        (tf.math.imag if imaginary else tf.math.real)(prior[first, second])
        for first, second, imaginary in feature_pairs(count, bool(out))
    ]
    return tf.cast(tf.stack(prior), explained.dtype), features
