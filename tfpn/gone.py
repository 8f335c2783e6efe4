"""Arguments that the models had once, for models and recipes that were saved with them."""

from collections.abc import Mapping
from typing import Any

# The only values with which they can still be read: what the models do now.
GONE = {"probes": "rademacher", "marginal_likelihood_trains": "kernel"}


def without_gone(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a model without those that it no longer has.

    One with another value stays, and is refused as any unknown argument is.

    >>> without_gone({"channels": 8, "probes": "rademacher"})
    {'channels': 8}
    """
    return {key: value for key, value in arguments.items() if GONE.get(key, ()) != value}
