"""Mixes fields by matrices that commute with a group (Schur's lemma).

A pair of scalars, or of fields of one spin in space, has one real number, which all components
share. A pair of fields of one frequency m >= 1 on the plane has a complex number, or a real one if
the group has reflections.
"""

import tensorflow as tf

from tfpn.math.channels import mix_channels
from tfpn.math.shapes import reshape, sizes
from tfpn.math.steerable.interface import feature_pairs


def mix_fields(parts, weights, bias=None):
    """``z_p = sum_c w_cp z_c`` for each frequency.

    Args:
        parts: {frequency: planar [..., width n]}, from
            `tfpn.math.steerable.fields.split_fields`.
        weights: {frequency: [n, p], or [2, n, p] with real and imaginary part}.
        bias: [p], added to the scalars, or None.

    Returns:
        {frequency: planar [..., width p]} for the frequencies of ``weights``.

    Example: turn a vector by a right angle.

    >>> import numpy as np
    >>> from tfpn.math.steerable.mixing import mix_fields
    >>> turn = np.array([0.0, 1.0]).reshape(2, 1, 1)
    >>> mix_fields({1: np.array([[1.0, 0.0]])}, {1: turn})[1].numpy().tolist()
    [[0.0, 1.0]]
    """
    mixed = {}
    for frequency, weight in weights.items():
        part = tf.convert_to_tensor(parts[frequency])
        weight = tf.convert_to_tensor(weight, part.dtype)
        if frequency == 0:
            mixed[0] = mix_channels(part, weight, bias)
            continue
        if weight.shape.rank == 2:
            *leading, channels = sizes(part)
            copies = weight.shape[0]
            components = channels // copies
            planes = mix_channels(reshape(part, [*leading, components, copies]), weight)
            mixed[frequency] = reshape(planes, [*leading, components * weight.shape[1]])
            continue
        real, imaginary = weight[0], weight[1]
        upper = tf.concat([real, imaginary], axis=-1)
        lower = tf.concat([-imaginary, real], axis=-1)
        mixed[frequency] = mix_channels(part, tf.concat([upper, lower], axis=0))
    return mixed


def mix_block_variance(parts, weights):
    """Variances of `mix_fields` for independent copies, ``sum_c |w_cp|^2 variance_c``.

    Args:
        parts: {frequency: [..., n]}, one variance for each block.
        weights: as in `mix_fields`.

    Returns:
        {frequency: [..., p]}.
    """
    mixed = {}
    for frequency, weight in weights.items():
        part = tf.convert_to_tensor(parts[frequency])
        weight = tf.square(tf.convert_to_tensor(weight, part.dtype))
        is_complex = weight.shape.rank == 3
        mixed[frequency] = mix_channels(part, weight[0] + weight[1] if is_complex else weight)
    return mixed


def are_complex(weights):
    """Whether weights are [2, K, n, p] with real and imaginary part, not [K, n, p]."""
    return weights.shape.rank == 4


def flat_weights(weights):
    """W over all flows and copies: [K n, p], or [2, K n, p]."""
    return {
        out: tf.reshape(w, [*([2] if are_complex(w) else []), -1, w.shape[-1]])
        for out, w in weights.items()
    }


def variance_weights(weights, copies):
    """What the sum over a field's components of its variance takes of each feature of each copy.

    Args:
        weights: [K, n, p], or [2, K, n, p] with real and imaginary part.
        copies: number of the input part's copies, the first of the n.

    Returns:
        [copies, F, p], F as `tfpn.math.steerable.interface.feature_pairs`.
    """
    is_complex = are_complex(weights)
    real, imaginary = (weights[0], weights[1]) if is_complex else (weights, weights[:0])
    found = []
    for first, second, of_imaginary in feature_pairs(real.shape[0], is_complex):
        if of_imaginary:  # -2 Im(w conj w')
            found.append(2.0 * (real[first] * imaginary[second] - imaginary[first] * real[second]))
        else:
            product = real[first] * real[second]
            if is_complex:
                product += imaginary[first] * imaginary[second]
            found.append(product if first == second else 2.0 * product)
    return tf.stack(found, axis=1)[:copies]
