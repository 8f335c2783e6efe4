"""The groups that act on fields: all rotations, with or without reflections, or finite ones.

A finite group has more generators than all rotations unless its order is high enough. A generator
has two derivatives at most. So it maps frequency m' to fields that turn by m' - 2 to m' + 2 times
the angle. C_n cannot tell the frequencies q and q + n of this turn apart. With frequencies up to m
the difference of two turns is at most 2 m + 2. So for n > 2 m + 2 the generators of C_n are those
of SO(2), and those of D_n are those of O(2). For smaller n there are generators that prefer
directions, and the kernels turn by q + n j times the angle for all j (`tfpn.math.steerable.plane`).

C_n turns a pair of the frequency n / 2 by the signs of its rotations, so its two channels are
fields by themselves. They stay together here, as for all rotations.
"""

import dataclasses
import functools
from typing import Any

PSEUDOSCALAR = "0-"  # the frequency of scalars that change sign under reflections


def turns(frequency: int | str) -> int:
    """How often a field turns where a vector turns once; a spin in space."""
    return int(str(frequency).rstrip("-"))


def is_pseudo(frequency: Any) -> bool:
    """Whether it is one of "0-", "1-" and so on, whose sign changes besides under reflections."""
    return isinstance(frequency, str)


@dataclasses.dataclass(frozen=True)
class FieldGroup:
    """A group that acts on fields.

    Attributes:
        name: its name in `equivariance`, such as "SO2" or "D8".
        dim: of space, 2 or 3.
        reflections: whether it has reflections.
        order: n of C_n and D_n, None for all rotations.
    """

    name: str
    dim: int = 2
    reflections: bool = False
    order: int | None = None

    @property
    def continuous(self) -> str:
        """The name of the group of all rotations, and reflections if this group has some."""
        return self.name if self.order is None else "O2" if self.reflections else "SO2"

    def mixes_by_complex_numbers(self, frequency: int | str) -> bool:
        """Whether the matrices that commute with the group are complex numbers, not real ones."""
        return self.dim == 2 and not self.reflections and frequency != 0

    def frequency(self, irrep: Any) -> int | str:
        """The frequency of an irreducible representation of this group.

        Raises:
            ValueError: if it is no field of all rotations.
        """
        m, *parity = irrep.index
        if m and 2 * m == self.order:
            raise ValueError(
                f"{self.name} has frequency {irrep}, a channel that only changes sign. Rotations "
                "by other angles do not act on such a channel, so no layer takes it; give "
                f"frequencies below {m}, or a dict such as {{{m}: 1}} for pairs of such channels."
            )
        return f"{m}-" if parity == [-1] else m

    def flow_order(self, frequencies: tuple) -> int | None:
        """n if the group's flows on these frequencies may prefer directions, else None."""
        highest = max(map(turns, frequencies))
        return None if self.order is None or self.order > 2 * highest + 2 else self.order

    def representation(self, frequencies: tuple) -> Any:
        """What acts on some frequencies: of `continuous`, if the generators are the same."""
        finite = self.flow_order(frequencies) is not None
        group = equivariance_group(self.name if finite else self.continuous)
        parts = []
        for m in frequencies:
            if is_pseudo(m):
                parts.append(group.irrep(turns(m), parity=-1))
            elif finite and m and 2 * m == self.order:
                signs = ({"parity": 1}, {"parity": -1}) if self.reflections else ({}, {})
                parts += [group.irrep(m, **sign) for sign in signs]
            else:
                parts.append(group.irrep(m))
        return sum(parts[1:], parts[0])

    def check_frequencies(self, frequencies: tuple) -> None:
        """Raises ValueError for frequencies that the group cannot tell from lower ones."""
        highest = max(map(turns, frequencies))
        if self.order is not None and (2 * highest > self.order or self.order == 1):
            raise ValueError(
                f"group {self.name} cannot tell the frequencies {tuple(frequencies)} apart. Give "
                f"frequencies up to {self.order // 2} and n of at least 2, or a group of all "
                f"rotations, group={self.continuous!r}, whose layers commute with {self.name} too."
            )


ALL_ROTATIONS = {2: FieldGroup("SO2"), 3: FieldGroup("SO3", dim=3)}
# The groups with all fields that there are.
LARGEST = {
    2: FieldGroup("O2", reflections=True),
    3: FieldGroup("O3", dim=3, reflections=True),
}
KNOWN = "SO2, O2, C<n> and D<n> on the plane, and SO3 and O3 in space"


def equivariance_group(name: str) -> Any:
    """The group of the package `equivariance`, which needs no TensorFlow but half a second."""
    from equivariance import parse_group

    return parse_group(name)


def read_group(group: Any, spatial_dim: int | None = None) -> FieldGroup:
    """Reads a group from its name or from `equivariance`.

    Args:
        group: a name such as "O2" or "C8", a group of `equivariance`, a `FieldGroup`, or None for
            all rotations.
        spatial_dim: of space, None for that of the group (2 without a group).

    Raises:
        TypeError, ValueError: for another group, or one that acts on another space.

    Example:

    >>> from tfpn.math.steerable.groups import read_group
    >>> read_group("D8").continuous, read_group(None, 3).name
    ('O2', 'SO3')
    """
    if group is None:
        return ALL_ROTATIONS[2 if spatial_dim is None else spatial_dim]
    if not isinstance(group, (str, FieldGroup)) and not hasattr(group, "irrep"):
        raise TypeError(
            f"group must be a name or a group of the package equivariance, found {group!r}; "
            f"known are {KNOWN}."
        )
    found = group if isinstance(group, FieldGroup) else _read_group(group)
    if spatial_dim not in (None, found.dim):
        raise ValueError(
            f"group {found.name} acts on {found.dim} coordinates, found "
            f"spatial_dim={spatial_dim}; leave spatial_dim out, or give {KNOWN}."
        )
    return found


@functools.cache
def _read_group(group):
    try:
        found = equivariance_group(getattr(group, "name", group))
    except ValueError as error:
        raise ValueError(f"group must be one of {KNOWN}. {error}") from error
    if found != group and not isinstance(group, str):  # a user's group of a known name
        raise ValueError(f"group must be one of {KNOWN}, found {group!r}.")
    order = getattr(found, "order", None)
    return FieldGroup(found.name, found.dim, found.reflections, order)
