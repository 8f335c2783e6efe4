"""The arguments of layers that may condition on neighbourhoods."""

from typing import Any

import tensorflow as tf

from tfpn.checks import check_choice, check_count, check_flag
from tfpn.math.common_points import with_common_points
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

    def _take_common_points(
        self, common_points: bool, way: Uncertainty | type[Uncertainty]
    ) -> None:
        """Keeps the argument of a convolution. Call it in the constructor, after the others."""
        self.common_points = check_flag("common_points", common_points)
        if not self.common_points:
            return
        for name, needed, found in (
            ("noise", "'shared'", repr(self.noise)),
            ("variance_estimator", "'exact'", repr(self.variance_estimator)),
        ):
            if needed != found:
                raise ValueError(f"common_points=True needs {name}={needed}, found {found}.")
        if not way.takes_common_points:
            raise ValueError(
                "common_points=True needs uncertainty='diagonal' or 'none', found "
                f"{self.uncertainty!r}."
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

    def _convolved_together(self, way, observed, operator, beside, missing, *, own):
        """`_convolved`, at once for all examples of a batch that have the same points."""

        def convolved(observed, operator):
            missing = tf.zeros_like(operator.query[..., :1])
            mean, variance, _, nll = self._convolved(
                way, observed, operator, None, missing, own=own
            )
            return mean, variance if way.has_variance else None, nll

        mean, variance, nll = with_common_points(convolved, observed, operator, self.filters)
        return mean, tf.zeros_like(mean) if variance is None else variance, None, nll

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
