"""Field types: they say which channels rotate into each other.

A field type is a tuple of pairs (frequency, copies) with increasing frequencies. Channels stand in
the order of the pairs, copy by copy. "Planar" is the order [all first components, all second ones
and so on] of the copies of one frequency.

On the plane frequency 0 is a scalar with one channel. Frequency m >= 1 has two channels, which a
rotation by an angle t rotates by m t (vectors have m = 1). They are also one complex number
``z = f_1 + i f_2``, which the rotation multiplies by ``exp(i m t)``. A reflection at the first axis
leaves scalars as they are and takes z to its conjugate. The frequency "0-" is a pseudoscalar, which
such a reflection multiplies by -1, and only groups with reflections have it.

In space the frequency is a spin l. It has 2 l + 1 channels, which a rotation turns by the matrix of
`equivariance.SO3.irrep(l)`: spin 0 is a scalar and spin 1 a vector (x, y, z). With reflections the
frequency "l-" is the pseudo field of spin l, which they multiply by -1 besides: "1-" is a curl.

Flows act on a small representation rho, which is given by the frequencies of its irreducible parts
such as (0, 0, 1). The input is copies of rho. With several parts of one frequency in rho, its
copies are dealt out to these parts in turn.
"""

from numbers import Integral
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfpn.math.steerable.groups import (
    PSEUDOSCALAR,
    equivariance_group,
    is_pseudo,
    read_group,
    turns,
)


def read_fields(fields, name="fields", dim=2, group=None, *, any_basis=False):
    """Reads a field type as a tuple of pairs (frequency, copies).

    Args:
        fields: a whole number of scalars; a dict {frequency: copies}, whose keys may be strings of
            digits; a sequence of pairs; a text such as "2x0 + 1", see
            `equivariance.parse_representation`; or a representation of the group. Text and
            representations must be sums of irreducible ones, sorted by frequency.
        name: the argument's name, for errors.
        dim: of space, 2 or 3.
        group: see `tfpn.math.steerable.groups.read_group`; by default all rotations.
        any_basis: whether a text or representation may be any, such as "1 + 0" or "T(1,1)". The
            type is then that of its irreducible parts, in another basis.

    Returns:
        A tuple of pairs, sorted by frequency.

    Raises:
        TypeError, ValueError: for anything else.

    Example:

    >>> from tfpn.math.steerable.fields import count_channels, read_fields
    >>> read_fields({0: 8, 1: 4})
    ((0, 8), (1, 4))
    >>> read_fields(3), count_channels(read_fields({0: 8, 1: 4}))
    (((0, 3),), 16)
    >>> read_fields("T(1,1)", group="O2", any_basis=True)
    ((0, 1), ('0-', 1), (2, 1))
    """
    group = read_group(group, dim if group is None else None)
    if isinstance(fields, Integral) and not isinstance(fields, bool):
        pairs = [(0, fields)]
    elif isinstance(fields, str) or hasattr(fields, "decompose"):
        pairs = _of_representation(fields, name, group, any_basis)
    elif hasattr(fields, "items"):
        pairs = list(fields.items())
    else:
        try:
            pairs = [(frequency, copies) for frequency, copies in fields]
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{name} must be a number of scalars, a dict {{frequency: copies}} or a "
                f"representation of equivariance.{group.name} such as '2x0 + 1', found {fields!r}."
            ) from error
    found = {}
    for frequency, copies in pairs:
        frequency = _read_frequency(frequency, name, group)
        for what, number, least in (("frequency", frequency, 0), ("number of copies", copies, 1)):
            if what == "frequency" and _is_known_pseudo(number, group):
                continue
            if isinstance(number, bool) or not isinstance(number, Integral) or number < least:
                raise ValueError(
                    f"{name} must have whole numbers, frequencies >= 0 and copies >= 1; found the "
                    f"{what} {number!r} in {fields!r}."
                )
        frequency = frequency if is_pseudo(frequency) else int(frequency)
        if frequency in found:
            raise ValueError(f"{name} has the frequency {frequency} twice: {fields!r}.")
        found[frequency] = int(copies)
    if not found:
        raise ValueError(f"{name} is empty: give at least one pair (frequency, copies).")
    return tuple((m, found[m]) for m in sort_frequencies(found))


def _is_known_pseudo(frequency, group):
    """Whether it is "0-", or in space the text of a spin with a minus."""
    if not (is_pseudo(frequency) and group.reflections):
        return False
    spin = frequency[:-1]
    return frequency == PSEUDOSCALAR or (
        group.dim == 3 and spin.isdecimal() and frequency == f"{int(spin)}-"
    )


def _read_frequency(frequency, name, group):
    if not isinstance(frequency, str):
        return frequency
    if frequency.isdigit():
        return int(frequency)
    if frequency == "0+" and group.reflections:
        return 0
    if frequency == PSEUDOSCALAR and not group.reflections:
        raise ValueError(
            f"{name} has the frequency '0-', but {group.name} has no reflections, so no "
            "pseudoscalars; give 0, or a group with reflections such as group='O2'."
        )
    return frequency


def sort_frequencies(frequencies):
    """Sorts frequencies, pseudoscalars after scalars, and so on."""
    return sorted(frequencies, key=lambda m: (turns(m), is_pseudo(m)))


def read_frequencies(frequencies, name="frequencies", dim=2, group=None):
    """Reads the frequencies of rho's irreducible parts as a sorted tuple.

    Args:
        frequencies: a sequence of frequencies, or a text or representation of any basis.
        name, dim, group: as in `read_fields`.

    Raises:
        ValueError: for anything else.

    Example:

    >>> from tfpn.math.steerable.fields import read_frequencies
    >>> read_frequencies([1, 0]), read_frequencies("2x0 + 1")
    ((0, 1), (0, 0, 1))
    """
    group = read_group(group, dim if group is None else None)
    if isinstance(frequencies, str) or hasattr(frequencies, "decompose"):
        pairs = read_fields(frequencies, name, group=group, any_basis=True)
        return tuple(m for m, copies in pairs for _ in range(copies))
    try:
        found = [read_fields([(m, 1)], name, group=group)[0][0] for m in frequencies]
    except TypeError as error:
        raise ValueError(
            f"{name} must be whole numbers such as (0, 1, 2), found {frequencies!r}; or give a "
            "representation such as '2x0 + 1'."
        ) from error
    if not found:
        raise ValueError(f"{name} is empty: give at least one frequency.")
    return tuple(sort_frequencies(found))


def _of_representation(given, name, group, any_basis):
    if isinstance(given, str):
        from equivariance import parse_representation

        try:
            representation = parse_representation(given, equivariance_group(group.name))
        except ValueError as error:
            raise ValueError(f"{name} is no representation of {group.name}: {error}") from error
    else:
        representation = given
    if representation.group != equivariance_group(group.name):
        raise ValueError(
            f"{name} must be a representation of {group.name}, found one of "
            f"{representation.group.name}."
        )
    decomposition = representation.decompose()
    try:
        pairs = [(group.frequency(irrep), copies) for irrep, copies in decomposition.irreps]
    except ValueError as error:
        raise ValueError(f"{name} {given!r}: {error}") from error
    change = decomposition.change_of_basis_numpy
    if not any_basis and not np.array_equal(change, np.eye(representation.dim)):
        raise ValueError(
            f"{name} must be a sum of irreducible representations in the order of their "
            f"frequencies, found {str(given)!r}; its parts are {decomposition.representation}. "
            "Give these, and multiply the channels by the matrix of "
            "equivariance.decompose(...).change_of_basis."
        )
    return pairs


def width(frequency, dim=2):
    """The number of channels of one copy, on the plane or in space."""
    if dim == 3:
        return 2 * turns(frequency) + 1
    return 1 if turns(frequency) == 0 else 2


class Part(NamedTuple):
    """An irreducible part of rho.

    Attributes:
        frequency: how often it turns, 0 for pseudoscalars too.
        start: its first channel in rho.
    """

    frequency: int
    start: int


def parts_of(frequencies, dim=2):
    """The parts of rho by frequency, a dict of tuples of `Part`.

    Example:

    >>> from tfpn.math.steerable.fields import parts_of
    >>> parts_of((0, 0, 1))[1]
    (Part(frequency=1, start=2),)
    """
    found: dict[int | str, tuple[Part, ...]] = {}
    start = 0
    for frequency in frequencies:
        part = Part(turns(frequency), start)
        found[frequency] = (*found.get(frequency, ()), part)
        start += width(frequency, dim)
    return found


def part_channels(fields, frequencies, dim=2):
    """The channels that the parts of rho take from a type's fields.

    Returns:
        A dict from each part that takes some to their indices in planar order.
    """
    parts = parts_of(frequencies, dim)
    found: dict[Part, list[int]] = {}
    for (frequency, copies), channels in zip(
        fields, planar_channels(fields, dim).values(), strict=True
    ):
        planes = np.reshape(channels, [-1, copies])
        same = parts[frequency]
        for number, part in enumerate(same[:copies]):
            found[part] = planes[:, number :: len(same)].ravel().tolist()
    return found


def count_copies(fields, frequencies):
    """n, the number of copies of rho that hold a type's fields."""
    return max(-(-copies // frequencies.count(m)) for m, copies in fields)


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
