"""Field types of the groups SO(2) and SO(3): they say which channels rotate into each other.

A field type is a tuple of pairs (frequency, copies) with increasing frequencies. Channels stand in
the order of the pairs, copy by copy. "Planar" is the order [all first components, all second ones
and so on] of the copies of one frequency.

On the plane frequency 0 is a scalar with one channel. Frequency m >= 1 has two channels, which a
rotation by an angle t rotates by m t (vectors have m = 1). They are also one complex number
``z = f_1 + i f_2``, which the rotation multiplies by ``exp(i m t)``.

In space the frequency is a spin l. It has 2 l + 1 channels, which a rotation turns by the matrix of
`equivariance.SO3.irrep(l)`: spin 0 is a scalar and spin 1 a vector (x, y, z).
"""

from numbers import Integral

import numpy as np
import tensorflow as tf

GROUPS = {2: "SO2", 3: "SO3"}


def read_fields(fields, name="fields", dim=2):
    """Reads a field type as a tuple of pairs (frequency, copies).

    Args:
        fields: a whole number of scalars; a dict {frequency: copies}, whose keys may be strings of
            digits; a sequence of pairs; or a representation of `equivariance.SO2` (in space of
            `equivariance.SO3`) that is a sum of irreducible ones, sorted by frequency.
        name: the argument's name, for errors.
        dim: of space, 2 or 3.

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
        pairs = _of_representation(fields, name, GROUPS[dim])
    elif hasattr(fields, "items"):
        pairs = list(fields.items())
    else:
        try:
            pairs = [(frequency, copies) for frequency, copies in fields]
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{name} must be a number of scalars, a dict {{frequency: copies}} or a "
                f"representation of equivariance.{GROUPS[dim]}, found {fields!r}."
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


def _of_representation(representation, name, expected):
    group = representation.group
    if group.name != expected:
        raise ValueError(
            f"{name} must be a representation of {expected}, found one of {group.name}."
        )
    decomposition = representation.decompose()
    if not np.array_equal(decomposition.change_of_basis_numpy, np.eye(representation.dim)):
        raise ValueError(
            f"{name} must be a sum of irreducible representations in the order of their "
            f"frequencies, such as 8 * {expected}.irrep(0) + 4 * {expected}.irrep(1), found "
            f"{representation}."
        )
    return [(irrep.index[0], copies) for irrep, copies in decomposition.irreps]


def width(frequency, dim=2):
    """The number of channels of one copy, on the plane or in space."""
    if dim == 3:
        return 2 * frequency + 1
    return 1 if frequency == 0 else 2


def count_channels(fields, dim=2):
    """The number of channels of a field type."""
    return sum(copies * width(frequency, dim) for frequency, copies in fields)


def split_fields(tensor, fields, dim=2):
    """The channels of each frequency in planar order.

    Args:
        tensor: [..., c].
        fields: a field type of c channels.
        dim: of space.

    Returns:
        A dict from frequency to [..., width copies], with all first components before all second
        ones, and so on.
    """
    sizes = [copies * width(frequency, dim) for frequency, copies in fields]
    parts = tf.split(tensor, sizes, axis=-1)
    return {
        frequency: part if frequency == 0 else _swap(part, [copies, width(frequency, dim)])
        for (frequency, copies), part in zip(fields, parts, strict=True)
    }


def planar_channels(fields, dim=2):
    """The indices of each frequency's channels in planar order, a dict of lists."""
    found, start = {}, 0
    for frequency, copies in fields:
        components = width(frequency, dim)
        stop = start + copies * components
        found[frequency] = [
            channel
            for part in range(components)
            for channel in range(start + part, stop, components)
        ]
        start = stop
    return found


def join_fields(parts, fields, dim=2):
    """The inverse of `split_fields`."""
    joined = []
    for frequency, copies in fields:
        part = parts[frequency]
        joined.append(part if frequency == 0 else _swap(part, [width(frequency, dim), copies]))
    return tf.concat(joined, axis=-1)


def _swap(tensor, sizes):
    shape = tf.shape(tensor)
    split = tf.reshape(tensor, tf.concat([shape[:-1], sizes], axis=0))
    return tf.reshape(tf.linalg.matrix_transpose(split), shape)


def block_numbers(fields, dim=2):
    """For each channel the number of its block (a copy of an irreducible field), as a list."""
    numbers, block = [], 0
    for frequency, copies in fields:
        for _ in range(copies):
            numbers += [block] * width(frequency, dim)
            block += 1
    return numbers


def component_mean(part, frequency, dim=2):
    """The mean over the components of planar channels, [..., width n] -> [..., n]."""
    components = width(frequency, dim)
    if components == 1:
        return part
    return tf.add_n(tf.split(part, components, axis=-1)) * (1.0 / components)


def block_mean(tensor, fields, dim=2):
    """Replaces every channel by the mean of its block's channels, [..., c]."""
    parts = split_fields(tensor, fields, dim)
    return spread_blocks(
        {m: component_mean(part, m, dim) for m, part in parts.items()}, fields, dim
    )


def field_moments(draws, fields, dim=2):
    """Mean of draws [B, S, N, c], and their variance averaged over each block, both [B, N, c]."""
    mean = tf.reduce_mean(draws, axis=1)
    variance = tf.reduce_mean(tf.math.squared_difference(draws, mean[:, None]), axis=1)
    return mean, block_mean(variance, fields, dim)


def spread_blocks(parts, fields, dim=2):
    """Spreads one number of each block to its channels: {frequency: [..., copies]} -> [..., c]."""
    joined = [
        parts[frequency] if frequency == 0
        else tf.repeat(parts[frequency], width(frequency, dim), axis=-1)
        for frequency, _ in fields
    ]  # fmt: skip
    return tf.concat(joined, axis=-1)
