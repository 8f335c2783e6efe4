"""The arguments of layers that may condition on neighbourhoods."""

from typing import Any

from tfpn.checks import check_choice, check_count
from tfpn.math.neighbourhoods import Neighbourhoods
from tfpn.math.uncertainty import Uncertainty
from tfpn.types import Config, Mixin

CONDITIONING = ("exact", "local")
BLOCK_SIZE = 80
# The arguments' names.
CONDITIONED = ("conditioning", "block_size", "neighbors")


class Conditioned(Mixin):
    """Mix-in for layers with a posterior: exact, or conditioned block by block."""

    def _take_conditioning(self, conditioning, block_size, neighbors):
        """Keeps the arguments. Call it in the constructor."""
        self._conditioning = read_conditioning(conditioning, block_size, neighbors)
        self.conditioning, self.block_size, self.neighbors = self._conditioning.values()

    def _check_local(self, way: Uncertainty | type[Uncertainty]) -> None:
        """Raises ValueError if a strategy has to be exact."""
        if self.conditioning == "local" and not way.takes_neighbourhoods:
            raise ValueError(
                f"{type(self).__name__} {self.name!r}: {way.key} keeps the errors of different "
                "blocks together, and conditioning='local' does not; use uncertainty='sampled', "
                "'diagonal' or 'none'."
            )

    @property
    def neighbourhoods(self) -> Neighbourhoods | None:
        """The neighbourhoods of conditioning="local"; None for "exact"."""
        if self.conditioning == "exact":
            return None
        return Neighbourhoods(self.block_size, self.neighbors)

    def _convolved(self, way: Uncertainty, *given: Any, own: bool) -> Any:
        """The strategy's convolution; with ``own`` the query points are the observed ones."""
        if self.neighbourhoods is None:
            return way.convolve(*given)
        return way.convolve_near(self.neighbourhoods, *given, own=own)

    def _conditioning_config(self) -> Config:
        """The arguments in the form for saving."""
        return dict(self._conditioning)


def read_conditioning(conditioning: str, block_size: int, neighbors: int | None) -> Config:
    """Checks the three arguments of conditioning, and returns them by name."""
    return {
        "conditioning": check_choice("conditioning", conditioning, CONDITIONING),
        "block_size": check_count("block_size", block_size),
        "neighbors": None if neighbors is None else check_count("neighbors", neighbors),
    }
