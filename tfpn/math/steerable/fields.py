"""Field types of the group SO(2): they say which channels rotate into each other, and how fast.

A field type is a tuple of pairs (frequency, copies) with increasing frequencies. Frequency 0 is a
scalar with one channel. Frequency m >= 1 has two channels. If the plane rotates by an angle t, they
rotate by m t (vectors have m = 1). Channels have the order of the pairs, copy by copy. The two
channels of a copy are also one complex number ``z = f_1 + i f_2``, which the rotation multiplies by
``exp(i m t)``. "Planar" order is [all f_1, all f_2].
"""

from numbers import Integral

import numpy as np
import tensorflow as tf


def read_fields(fields, name="fields"):
    """Reads a field type as a tuple of pairs (frequency, copies).

    Args:
        fields: a whole number of scalars; a dict {frequency: copies}, whose keys may be strings of
            digits; a sequence of pairs; or a representation of `equivariance.SO2` that is a sum of
            irreducible ones, sorted by frequency.
        name: the argument's name, for errors.

    Returns:
        A tuple of pairs of ints, sorted by frequency.

    Raises:
        TypeError, ValueError: for anything else.

    Example:

    >>> from tfpn.math.steerable.fields import count_channels, read_fields
    >>> read_fields({0: 8, 1: 4})
    ((0, 8), (1, 4))
    >>> read_fields(3), count_channels(read_fields({0: 8, 1: 4}))
    (((0, 3),), 16)
    """
    if isinstance(fields, Integral) and not isinstance(fields, bool):
        pairs = [(0, fields)]
    elif hasattr(fields, "decompose"):
        pairs = _of_representation(fields, name)
    elif hasattr(fields, "items"):
        pairs = list(fields.items())
    else:
        try:
            pairs = [(frequency, copies) for frequency, copies in fields]
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{name} must be a number of scalars, a dict {{frequency: copies}} or a "
                f"representation of equivariance.SO2, found {fields!r}."
            ) from error
    found = {}
    for frequency, copies in pairs:
        if isinstance(frequency, str) and frequency.isdigit():
            frequency = int(frequency)
        for what, number, least in (("frequency", frequency, 0), ("number of copies", copies, 1)):
            if isinstance(number, bool) or not isinstance(number, Integral) or number < least:
                raise ValueError(
                    f"{name} must have whole numbers, frequencies >= 0 and copies >= 1; found the "
                    f"{what} {number!r} in {fields!r}."
                )
        if int(frequency) in found:
            raise ValueError(f"{name} has the frequency {frequency} twice: {fields!r}.")
        found[int(frequency)] = int(copies)
    if not found:
        raise ValueError(f"{name} is empty: give at least one pair (frequency, copies).")
    return tuple(sorted(found.items()))


def read_frequencies(frequencies):
    """Reads frequencies as a sorted tuple; raises ValueError unless they are whole numbers."""
    try:
        pairs = read_fields([(m, 1) for m in frequencies], "frequencies")
    except TypeError as error:
        raise ValueError(
            f"frequencies must be whole numbers such as (0, 1, 2), found {frequencies!r}."
        ) from error
    return tuple(m for m, _ in pairs)


def _of_representation(representation, name):
    group = representation.group
    if group.name != "SO2":
        raise ValueError(f"{name} must be a representation of SO2, found one of {group.name}.")
    decomposition = representation.decompose()
    if not np.array_equal(decomposition.change_of_basis_numpy, np.eye(representation.dim)):
        raise ValueError(
            f"{name} must be a sum of irreducible representations in the order of their "
            f"frequencies, such as 8 * SO2.irrep(0) + 4 * SO2.irrep(1), found {representation}."
        )
    return [(irrep.index[0], copies) for irrep, copies in decomposition.irreps]


def width(frequency):
    """The number of channels of one copy."""
    return 1 if frequency == 0 else 2


def count_channels(fields):
    """The number of channels of a field type."""
    return sum(copies * width(frequency) for frequency, copies in fields)


def split_fields(tensor, fields):
    """The channels of each frequency in planar order.

    Args:
        tensor: [..., c].
        fields: a field type of c channels.

    Returns:
        A dict from frequency to [..., copies] for scalars and to [..., 2 copies] for others, with
        all first components before all second ones.
    """
    sizes = [copies * width(frequency) for frequency, copies in fields]
    parts = tf.split(tensor, sizes, axis=-1)
    return {
        frequency: part if frequency == 0 else _planar(part, copies)
        for (frequency, copies), part in zip(fields, parts, strict=True)
    }


def planar_channels(fields):
    """The indices of each frequency's channels in planar order, a dict of lists."""
    found, start = {}, 0
    for frequency, copies in fields:
        stop = start + copies * width(frequency)
        found[frequency] = [
            channel
            for part in range(width(frequency))
            for channel in range(start + part, stop, width(frequency))
        ]
        start = stop
    return found


def join_fields(parts, fields):
    """The inverse of `split_fields`."""
    joined = []
    for frequency, copies in fields:
        part = parts[frequency]
        joined.append(part if frequency == 0 else _pairs(part, copies))
    return tf.concat(joined, axis=-1)


def _planar(tensor, copies):
    return _swap(tensor, [copies, 2])


def _pairs(tensor, copies):
    return _swap(tensor, [2, copies])


def _swap(tensor, sizes):
    shape = tf.shape(tensor)
    split = tf.reshape(tensor, tf.concat([shape[:-1], sizes], axis=0))
    return tf.reshape(tf.linalg.matrix_transpose(split), shape)


def block_numbers(fields):
    """For each channel the number of its block (a copy of an irreducible field), as a list."""
    numbers, block = [], 0
    for frequency, copies in fields:
        for _ in range(copies):
            numbers += [block] * width(frequency)
            block += 1
    return numbers


def block_mean(tensor, fields):
    """Replaces every channel by the mean of its block's channels, [..., c]."""
    parts = split_fields(tensor, fields)
    return spread_blocks(
        {
            frequency: part if frequency == 0 else 0.5 * tf.add_n(tf.split(part, 2, axis=-1))
            for frequency, part in parts.items()
        },
        fields,
    )


def field_moments(draws, fields):
    """Mean of draws [B, S, N, c], and their variance averaged over each block, both [B, N, c]."""
    mean = tf.reduce_mean(draws, axis=1)
    variance = tf.reduce_mean(tf.math.squared_difference(draws, mean[:, None]), axis=1)
    return mean, block_mean(variance, fields)


def spread_blocks(parts, fields):
    """Spreads one number of each block to its channels: {frequency: [..., copies]} -> [..., c]."""
    joined = [
        parts[frequency] if frequency == 0 else tf.repeat(parts[frequency], 2, axis=-1)
        for frequency, _ in fields
    ]
    return tf.concat(joined, axis=-1)
