"""Turns the entries' means and covariances into those of complex fields."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfpn.math.steerable.interface import feature_pairs, flows_and_parts
from tfpn.types import Tensor


def fields_of(mean, group, count, copies):
    """The fields that the flows make of one part of rho.

    Args:
        mean: means of the group's entries, [B, M, 2 K E, channels in planar order].
        group: a `Group`.
        count: K.
        copies: n. Zeros pad the input's copies to this number.

    Returns:
        A dict from the output's kinds to [B, M, K mu, 1 or 2, n]: the scalars, or the real and
        imaginary parts of z.
    """
    halves = 2 if group.inside.frequency else 1
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
    found: dict[Any, list[Tensor]] = {}
    for entry in group.entries:

        def product(part, half, entry=entry):
            return products[entry, part, half]

        if not entry.out.frequency:
            real = product(0, 0) - product(1, 1) if entry.inside.frequency else product(0, 0)
            parts = [real]
        elif not entry.inside.frequency:
            parts = [product(0, 0), product(1, 0)]
        elif not entry.conjugate:
            parts = [product(0, 0) - product(1, 1), product(0, 1) + product(1, 0)]
        else:
            parts = [product(0, 0) + product(1, 1), product(1, 0) - product(0, 1)]
        found.setdefault(entry.out, []).append(tf.stack(parts, axis=3))
    of_parts = {out: tf.add_n(terms) for out, terms in found.items()}
    return {kind: flows_and_parts([of_parts[out] for out in kind], 2) for kind in group.outs}


def covariance_features(explained, flows, group, kind, is_complex):
    """`tfpn.math.steerable.interface.Harmonics.covariance_features` of 2 K E functionals.

    Args:
        explained: the explained part of the entries' covariances, [..., 2 K E, 2 K E].
        flows: a list of `Flows`, one for each Gaussian term of the kernel.
        group: a `Group`.
        kind: of the output.
        is_complex: whether complex numbers mix the output's fields.

    Returns:
        The numbers of the prior [F], and their explained part [..., F].
    """
    entries, by_kind = len(group.entries), group.by_kind(kind)
    count, parts = flows[0].count, len(kind)
    size = 2 * count * entries
    pairs = feature_pairs(count * parts, is_complex)
    selectors = []
    for first, second, imaginary in pairs:
        selector = np.zeros((2, count, entries, 2, count, entries))
        for numbers in by_kind:
            one, other = (
                (number // parts, numbers[number % parts]) for number in (first, second)
            )  # flow and entry
            power = group.entries[one[1]].power
            for part in (0, 1):
                if not imaginary:
                    selector[(part, *one, part, *other)] = power
                else:  # Im(D conj D') = Im D Re D' - Re D Im D'
                    selector[(part, *one, 1 - part, *other)] = power if part else -power
        selectors.append(selector.reshape(-1))
    matrix = tf.constant(np.stack(selectors, axis=-1), explained.dtype)
    leading = tf.shape(explained)[:-2]
    flat = tf.matmul(tf.reshape(explained, [-1, size * size]), matrix)
    features = tf.reshape(flat, tf.concat([leading, matrix.shape[1:]], axis=0))
    prior = tf.add_n([term.prior(group, kind) for term in flows])
    prior = [
        (tf.math.imag if imaginary else tf.math.real)(prior[first, second])
        for first, second, imaginary in pairs
    ]
    return tf.cast(tf.stack(prior), explained.dtype), features
