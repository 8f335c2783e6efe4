"""The blocks of a network, from one convolution to the next."""

import functools
from collections.abc import Callable
from typing import Any

from tfpn.layers import ChannelMix, GPNormalization, ProbActivation, ProbReLU
from tfpn.types import ActivationLike, DType, Layer, Tensor


class Block:
    """A convolution, and the layers that follow it point by point.

    Calling it evaluates it, at any query points. `connect` does the same on symbolic features when
    the network is built, and keeps these features as ``given``.

    Args:
        convolution: layer of features and query points.
        following: function that makes the layers after the convolution: a list of layers of
            features, and a layer of features and (if any) weights of the points, or None. It is
            called after the convolution is built, so that a seed draws the weights in the network's
            order.
    """

    def __init__(
        self,
        convolution: Layer,
        following: Callable[[], tuple[list[Layer], Layer | None]],
    ) -> None:
        self.convolution = convolution
        self._make_following = following
        self.following: list[Layer] = []
        self.normalization: Layer | None = None
        self.given: Any = None

    def connect(
        self, given: Any, query: Tensor | None = None, weights: Tensor | None = None
    ) -> Any:
        """The symbolic output; ``weights`` are those of points in the normalisation."""
        self.given = given
        features = self.convolve(given, query)
        self.following, self.normalization = self._make_following()
        return self._follow(features, weights)

    def __call__(self, given, query=None):
        return self._follow(self.convolve(given, query))

    def _follow(self, features, weights=None):
        for layer in self.following:
            features = layer(features)
        if self.normalization is None:
            return features
        beside = () if weights is None else (weights,)
        return self.normalization(features, *beside)

    def convolve(self, given: Any, query: Tensor | None = None) -> Any:
        """The convolution of the block's input."""
        return self.convolution(given, query)

    @property
    def convolutions(self) -> list[tuple[Layer, Any]]:
        """Pairs of each layer that conditions on features, and those features."""
        return [(self.convolution, self.given)]


def channel_block(
    number: int,
    convolution: Layer,
    channels: int,
    *,
    activation: ActivationLike,
    normalization: bool,
    dtype: DType,
    kind: Any = Block,
) -> Any:
    """Builds a block of a network of channels around its convolution; ``number`` names it."""

    def following() -> tuple[list[Layer], Layer | None]:
        name = f"relu_{number}" if activation == "relu" else f"activation_{number}"
        nonlinear: Any = ProbReLU
        if activation != "relu":
            nonlinear = functools.partial(ProbActivation, activation)
        layers = [
            nonlinear(dtype=dtype, name=name),
            ChannelMix(
                # The normalisation takes constants away.
                channels,
                train_bias=not normalization,
                dtype=dtype,
                name=f"mix_{number}",
            ),
        ]
        if not normalization:
            return layers, None
        return layers, GPNormalization(dtype=dtype, name=f"norm_{number}")

    return kind(convolution, following)
