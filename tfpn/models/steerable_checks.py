"""Checks of the arguments of `SteerablePNCNN`."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfpn.layers.steerable_base import fields_config, optional_fields, read_spatial_dim
from tfpn.layers.steerable_flows import is_flow
from tfpn.math.steerable.fields import block_numbers, read_fields, read_frequencies
from tfpn.types import Config, Layer, Mixin, Pooling


def read_block_frequencies(frequencies: Sequence[int]) -> list[int]:
    """The frequencies of the blocks' fields, sorted; raises ValueError without the scalars."""
    found = list(read_frequencies(frequencies))
    if found[0] != 0:
        raise ValueError(
            f"frequencies must hold 0, the scalars, which gate all other fields; found "
            f"{frequencies!r}."
        )
    return found


def read_types(in_fields: Any, out_fields: Any, spatial_dim: Any) -> Config:
    """``in_fields``, ``out_fields`` and ``spatial_dim`` as the configuration holds them."""
    dim = read_spatial_dim(spatial_dim)
    return {
        "in_fields": fields_config(read_fields(in_fields, "in_fields", dim)),
        "out_fields": fields_config(optional_fields(out_fields, "out_fields", dim)),
        "spatial_dim": dim,
    }


def check_flow(flow: Layer | None, frequencies: Sequence[int], fields: Mapping[str, Any]) -> None:
    """Raises ValueError unless a flow can act on the fields; ``fields`` has argument names."""
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
                f"{name} {pairs} has the frequencies {missing}, but the flow acts only on the "
                f"frequencies {tuple(frequencies)}: give a flow and frequencies that have them."
            )


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
        return read_fields(self._config["in_fields"], dim=self._config["spatial_dim"])

    @property
    def output_fields(self) -> tuple[tuple[int, int], ...] | None:
        """The type of the output's channels; None for numbers that no rotation changes."""
        return optional_fields(
            self._config["out_fields"], "out_fields", self._config["spatial_dim"]
        )

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
        blocks = self._input_blocks
        return np.flatnonzero(np.bincount(blocks)[blocks] == 1)

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
