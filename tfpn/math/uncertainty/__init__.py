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

# The names that steerable layers take.
STEERABLE = tuple(name for name, way in UNCERTAINTY.items() if way.is_steerable)

# Keys of the observations dict beside the contract's three.
KEYS_BESIDE = tuple(way.key for way in UNCERTAINTY.values() if way.key)

__all__ = [
    "KEYS_BESIDE",
    "STEERABLE",
    "UNCERTAINTY",
    "Diagonal",
    "Joint",
    "LowRank",
    "Sampled",
    "Uncertainty",
    "Without",
    "carried_by",
    "strategy",
]


def strategy(name: str, **options: Any) -> Uncertainty:
    """The strategy of that name, with those of the options that it has."""
    way = UNCERTAINTY[name]
    known = {field.name for field in dataclasses.fields(way)}
    return way(**{key: value for key, value in options.items() if key in known})


def carried_by(keys: Container[str | None]) -> Uncertainty:
    """The strategy of feature maps with these keys."""
    for way in UNCERTAINTY.values():
        if way.key in keys:
            return way()
    return Diagonal()
