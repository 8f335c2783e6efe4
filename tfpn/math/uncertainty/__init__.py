"""Ways to carry uncertainty through a network, a file each."""

import dataclasses
from collections.abc import Container
from typing import Any

from tfpn.math.uncertainty.base import Uncertainty
from tfpn.math.uncertainty.diagonal import Diagonal
from tfpn.math.uncertainty.joint import Joint
from tfpn.math.uncertainty.low_rank import LowRank
from tfpn.math.uncertainty.sampled import Sampled
from tfpn.math.uncertainty.without import Without

# By the name that layers and models take. A further one needs its file and its line here.
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


# What other layers do with a way's features. They know it by its key.
_ELSEWHERE = ("integrate", "integrate_near", "mix", "activate", "affine", "joint_covariance")


def keys_beside() -> tuple[str, ...]:
    """Keys of the observations dict beside the contract's three."""
    return tuple(way.key for way in UNCERTAINTY.values() if way.key)


def steerable() -> tuple[str, ...]:
    """The names that steerable layers take."""
    return tuple(name for name, way in UNCERTAINTY.items() if way.is_steerable)


def strategy(name: str, **options: Any) -> Uncertainty:
    """The strategy of that name, with those of the options that it has.

    Raises:
        TypeError: if other layers would not know its features: it has methods of its own for them,
            and no ``key`` of its own.
    """
    way = UNCERTAINTY[name]
    carried = type(carried_by((way.key,)))
    own = [one for one in _ELSEWHERE if getattr(way, one) is not getattr(carried, one)]
    if own:
        raise TypeError(
            f"uncertainty={name!r}: {way.__name__} has its own {', '.join(own)}, but other layers "
            f"take its features for those of {carried.__name__}, as both have the key {way.key!r}: "
            "set a key of its own, and return what stands under it from convolve."
        )
    known = {field.name for field in dataclasses.fields(way)}
    return way(**{key: value for key, value in options.items() if key in known})


def carried_by(keys: Container[str | None]) -> Uncertainty:
    """The strategy of feature maps with these keys."""
    for way in UNCERTAINTY.values():
        if way.key in keys:
            return way()
    return Diagonal()
