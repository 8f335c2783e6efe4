"""The first block of a network of time series, whose channels are read at different times."""

from typing import Any

from tfpn.models.blocks import Block
from tfpn.types import Layer, Tensor


class SporadicBlock(Block):
    """A block that takes the raw series, and optionally the times of readings and constants.

    Its input is a dict of "observations", and "readings" and "constant" if there are any.

    Attributes:
        readings: None, or the layer that conditions on the indicators of readings.
        add: the layer that adds its features to the convolution's.
        known: None, or the layer that adds series known at all times; it takes the constants.
    """

    readings: Any = None
    add: Any = None
    known: Any = None

    def convolve(self, given: Any, query: Tensor | None = None) -> Any:
        features = self.convolution(given["observations"], query)
        if self.readings is not None:
            features = self.add(features, self.readings(given["readings"], query))
        if self.known is not None:
            features = self.known(features, given.get("constant"))
        return features

    @property
    def convolutions(self) -> list[tuple[Layer, Any]]:
        found = [(self.convolution, self.given["observations"])]
        if self.readings is not None:
            found.append((self.readings, self.given["readings"]))
        return found
