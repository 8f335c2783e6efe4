"""The blocks of a network of fields that turn with its input."""

from typing import Any

from tfpn.layers import GatedReLU, SteerableMix, SteerableNormalization
from tfpn.models.blocks import Block
from tfpn.models.first_points import FirstPointsBlock
from tfpn.types import DType, Layer


def field_block(
    number: int,
    convolution: Layer,
    fields: Any,
    *,
    normalization: bool,
    num_query: int | None,
    group: str,
    dtype: DType,
) -> Block:
    """Builds a block around its convolution.

    Args:
        number: names the layers.
        convolution: a `SteerablePNConv`.
        fields: the type of its output.
        normalization: whether `SteerableNormalization` ends the block.
        num_query: at how many points the block is evaluated, or None for those of its input.
        group: name of the group.
        dtype: of the layers.
    """
    common = {"group": group, "dtype": dtype}

    def following() -> tuple[list[Layer], Layer | None]:
        layers = [
            GatedReLU(fields, name=f"relu_{number}", **common),
            SteerableMix(
                # The normalisation takes constants away.
                fields,
                in_fields=fields,
                train_bias=not normalization,
                name=f"mix_{number}",
                **common,
            ),
        ]
        if not normalization:
            return layers, None
        return layers, SteerableNormalization(fields, name=f"norm_{number}", **common)

    if num_query is None:
        return Block(convolution, following)
    return FirstPointsBlock(convolution, following, num_query, dtype)
