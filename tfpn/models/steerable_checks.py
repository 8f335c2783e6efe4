"""Checks of the arguments of `SteerablePNCNN`."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from tfpn.checks import check_count
from tfpn.layers.steerable_base import fields_config, optional_fields
from tfpn.layers.steerable_flows import is_flow
from tfpn.math.steerable.fields import (
    block_numbers,
    read_fields,
    read_frequencies,
    sort_frequencies,
)
from tfpn.math.steerable.groups import FieldGroup, is_pseudo, read_group
from tfpn.types import Config, Mixin, Pooling

COPIES = 26
FREQUENCIES = (0, 1, 2)


def read_blocks(
    fields: Any, copies: int | None, frequencies: Sequence[Any] | None, group: FieldGroup
) -> tuple[Config, list]:
    """The type of the fields in the blocks: ``fields``, or ``copies`` of each of ``frequencies``.

    Returns:
        The three arguments as the configuration holds them, and the type as a list of pairs.

    Raises:
        ValueError: if they are bad, or there are not enough scalars, which gate all other fields.
    """
    if fields is None:
        copies = check_count("copies", COPIES if copies is None else copies)
        found = list(read_frequencies(FREQUENCIES if frequencies is None else frequencies,
                                      group=group))  # fmt: skip
        if found[0] != 0 or len(set(found)) < len(found):
            raise ValueError(
                "frequencies must hold 0, the scalars, which gate all other fields, and none "
                f"twice; found {frequencies!r}."
            )
        return {"fields": None, "copies": copies, "frequencies": found}, [
            [m, copies] for m in found
        ]
    for name, value in (("copies", copies), ("frequencies", frequencies)):
        if value is not None:
            raise ValueError(
                f"give fields, or copies and frequencies, not both: found fields={fields!r} and "
                f"{name}={value!r}."
            )
    pairs = fields_config(read_fields(fields, group=group, any_basis=True))
    most, scalars = max(copies for _, copies in pairs), dict(pairs).get(0, 0)
    if scalars < most:
        raise ValueError(
            "fields must have at least as many scalars (frequency 0) as copies of any other "
            f"frequency, because the scalars gate these; found {scalars} and {most} in "
            f"{fields!r}."
        )
    return {"fields": pairs, "copies": None, "frequencies": None}, pairs


def reached(fields: Any, hidden: Any) -> Any:
    """The blocks' fields without those that no flow makes of a block's input.

    A flow that commutes with reflections makes no pseudo fields of scalars: the curl of a gradient
    is 0. Gated gradients have curls, so later blocks have pseudo fields.
    """
    if [m for m, _ in fields] != [0]:
        return hidden
    return [[m, copies] for m, copies in hidden if not is_pseudo(m)]


def read_types(in_fields: Any, out_fields: Any, group: FieldGroup) -> Config:
    """``in_fields`` and ``out_fields`` as the configuration holds them, and the group."""
    return {
        "in_fields": fields_config(read_fields(in_fields, "in_fields", group=group)),
        "out_fields": fields_config(optional_fields(out_fields, "out_fields", group)),
        "group": group.name,
        "spatial_dim": group.dim,
    }


def read_flow(flow: Any, hidden: Any, fields: Mapping[str, Any], group: FieldGroup) -> Any:
    """The frequencies of rho that all flows act on; None for those of each convolution.

    Args:
        flow: a representation or its text, a Keras layer, or None.
        hidden: the type of the blocks' fields. A Keras layer acts on one copy of each.
        fields: the types by argument that rho must hold.
        group: of all.

    Raises:
        ValueError: if it is none of these, or does not act on all fields.
    """
    if flow is None:
        return None
    if isinstance(flow, str) or hasattr(flow, "decompose"):
        found, what = read_frequencies(flow, "flow", group=group), f"{str(flow)!r}"
    elif is_flow(flow):
        found, what = tuple(m for m, _ in hidden), "the layer"
    else:
        raise ValueError(
            "flow must be a representation such as '2x0 + 1', or a Keras layer with a method "
            f"generator(), such as one that equivariance.keras_source writes, found {flow!r}."
        )
    for name, pairs in fields.items():
        missing = sort_frequencies({m for m, _ in pairs or ()} - set(found))
        if missing:
            raise ValueError(
                f"{name} {pairs} has the frequencies {missing}, but flow, {what}, acts only on the "
                f"frequencies {found}: give a flow and frequencies that have them."
            )
    return found


def flow_config(flow: Any) -> Any:
    """A flow as the configuration holds it: its text, a saved layer or None."""
    if is_flow(flow):
        return keras.saving.serialize_keras_object(flow)
    return None if flow is None else str(flow)


def check_out_fields(
    out_fields: Any, num_classes: int | None, num_outputs: int | None, pooling: Pooling
) -> None:
    """Raises ValueError for arguments that do not fit fields as the output."""
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


class FieldInput(Mixin):
    """Mix-in for a model of fields: their types, and checks of the input's components."""

    @property
    def in_fields(self) -> tuple[tuple[int, int], ...]:
        """The type of the input's channels, as pairs (frequency, copies)."""
        return read_fields(self._config["in_fields"], group=self._config["group"])

    @property
    def output_fields(self) -> tuple[tuple[int, int], ...] | None:
        """The type of the output's channels; None for numbers that no rotation changes."""
        group = read_group(self._config["group"])
        return optional_fields(self._config["out_fields"], "out_fields", group)

    @property
    def _input_blocks(self):
        """For each channel of the input the number of its field."""
        return np.asarray(block_numbers(self.in_fields, self._config["spatial_dim"]))

    def _check_missing(self, variance):
        blocks = self._input_blocks
        observed = np.isfinite(variance)
        for block in np.unique(blocks):
            channels = np.flatnonzero(blocks == block)
            parts = observed[..., channels]
            partly = parts.any(-1) != parts.all(-1)
            if partly.any():
                example, point = (int(i) for i in np.argwhere(partly)[0])
                found = ", ".join(f"{v:g}" for v in variance[example, point, channels])
                raise ValueError(
                    f"variance: example {example}, point {point} has [{found}] in the channels "
                    f"{channels.tolist()}, the components of one field, which a rotation turns "
                    "into each other: all of them are observed there or none. Give each the same "
                    "finite variance, or each the variance inf."
                )
        super()._check_missing(variance)

    def _scalar_channels(self):
        return np.arange(dict(self.in_fields).get(0, 0))

    def _block_noise(self, variance):
        blocks = self._input_blocks
        parts = [variance[..., blocks == block] for block in np.unique(blocks)]
        known = [part[np.isfinite(part).all(-1)] for part in parts]
        if any(np.any(part.min(-1) < 0.9 * part.max(-1)) for part in known):
            warnings.warn(
                "the components of some fields differ in variance. A rotation turns them into each "
                "other, so their mean counts: give all components of a field the same.",
                stacklevel=3,
            )
        return np.stack([part.mean(-1) for part in parts], axis=-1)
