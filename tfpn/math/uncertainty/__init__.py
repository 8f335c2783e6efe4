"""Ways to carry uncertainty through a network, one in each file."""

import dataclasses
from collections.abc import Container
from typing import Any

from tfpn.math.uncertainty.base import Uncertainty
from tfpn.math.uncertainty.diagonal import Diagonal
from tfpn.math.uncertainty.joint import Joint
from tfpn.math.uncertainty.low_rank import LowRank
from tfpn.math.uncertainty.sampled import Sampled
from tfpn.math.uncertainty.without import Without

# The ways by the names that layers and models take. To add one, write a file, and a line here.
UNCERTAINTY: dict[str, type[Uncertainty]] = {
    "diagonal": Diagonal,
    "none": Without,
    "sampled": Sampled,
    "low_rank": LowRank,
    "joint": Joint,
}

__all__ = [
    "UNCERTAINTY",
    "Diagonal",
    "Joint",
    "LowRank",
    "Sampled",
    "Uncertainty",
    "Without",
    "carried_by",
    "keys_beside",
    "steerable",
    "strategy",
]


# Methods that other layers call for a way's features. They find the way by its key.
_ELSEWHERE = ("integrate", "integrate_near", "mix", "activate", "affine", "joint_covariance")


def keys_beside() -> tuple[str, ...]:
    """Keys of the observations dict other than the contract's three."""
    return tuple(way.key for way in UNCERTAINTY.values() if way.key)


def steerable() -> tuple[str, ...]:
    """The names of the ways that steerable layers take."""
    return tuple(name for name, way in UNCERTAINTY.items() if way.is_steerable)


def strategy(name: str, **options: Any) -> Uncertainty:
    """Makes the strategy of that name, with those of the options that it has.

    Raises:
        TypeError: if other layers would not know its features, because it has its own methods for
            them but no ``key`` of its own.
    """
    way = UNCERTAINTY[name]
    carried = type(carried_by((way.key,)))
    own = [one for one in _ELSEWHERE if getattr(way, one) is not getattr(carried, one)]
    if own:
        raise TypeError(
            f"uncertainty={name!r}: {way.__name__} has its own {', '.join(own)}, but other layers "
            f"take its features for those of {carried.__name__}, as both have the key {way.key!r}: "
            "set a key of its own, and return the tensor of this key from convolve."
        )
    known = {field.name for field in dataclasses.fields(way)}
    return way(**{key: value for key, value in options.items() if key in known})


def carried_by(keys: Container[str | None]) -> Uncertainty:
    """The strategy that carries feature maps with these keys."""
    for way in UNCERTAINTY.values():
        if way.key in keys:
            return way()
    return Diagonal()
