"""Mixes fields by matrices that commute with rotations (Schur's lemma)."""

import tensorflow as tf

from tfpn.math.channels import mix_channels


def mix_fields(parts, weights, bias=None):
    """``z_p = sum_c w_cp z_c`` for each frequency.

    Args:
        parts: {frequency: planar [..., width n]}, from
            `tfpn.math.steerable.fields.split_fields`.
        weights: {frequency: real [n, p] for 0, [2, n, p] with real and imaginary part for others}.
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
        mixed[frequency] = mix_channels(part, weight if frequency == 0 else weight[0] + weight[1])
    return mixed
