"""Checks of the arguments of `SteerablePNCNN`."""

from collections.abc import Mapping, Sequence
from typing import Any

from tfpn.layers.steerable_flows import is_flow
from tfpn.math.steerable.fields import read_frequencies
from tfpn.types import Layer, Pooling


def read_block_frequencies(frequencies: Sequence[int]) -> list[int]:
    """The frequencies of the blocks' fields, sorted; raises ValueError without the scalars."""
    found = list(read_frequencies(frequencies))
    if found[0] != 0:
        raise ValueError(
            f"frequencies must hold 0, the scalars, which gate all other fields; found "
            f"{frequencies!r}."
        )
    return found


def check_flow(flow: Layer | None, frequencies: Sequence[int], fields: Mapping[str, Any]) -> None:
    """Raises ValueError unless a flow can act on the fields, by the name of their argument."""
    if flow is None:
        return
    if not is_flow(flow):
        raise ValueError(
            "flow must be a Keras layer with a method generator(), such as one that "
            f"equivariance.keras_source writes, found {flow!r}."
        )
    for name, pairs in fields.items():
        missing = sorted({m for m, _ in pairs or ()} - set(frequencies))
        if missing:
            raise ValueError(
                f"{name} {pairs} has the frequencies {missing}, on which a flow for the "
                f"frequencies {tuple(frequencies)} does not act: give a flow and frequencies that "
                "have them."
            )


def check_out_fields(
    out_fields: Any, num_classes: int | None, num_outputs: int | None, pooling: Pooling
) -> None:
    """Raises ValueError for arguments that do not go with fields as the output."""
    if out_fields is None:
        return
    for name, value in (("num_classes", num_classes), ("num_outputs", num_outputs)):
        if value is not None:
            raise ValueError(
                f"give out_fields or {name}, not both: found {out_fields} and {value}; to predict "
                "fields set num_classes=None."
            )
    if pooling != "space":
        raise ValueError(
            f"out_fields are read out at points and not pooled; leave pooling out, found "
            f"{pooling!r}."
        )
