"""The argument of convolutions that may condition once for a whole batch."""

import tensorflow as tf

from tfpn.checks import check_flag
from tfpn.math.common_points import with_common_points
from tfpn.math.uncertainty import Uncertainty
from tfpn.types import Mixin


class CommonPoints(Mixin):
    """Part of the convolutions: all examples of a batch at once if they have the same points."""

    def _take_common_points(
        self, common_points: bool, way: Uncertainty | type[Uncertainty], **needed: str
    ) -> None:
        """Keeps the argument. Call it in the constructor, after the others.

        Args:
            common_points: the argument.
            way: the layer's uncertainty.
            needed: attributes of the layer, and the values that common points need.
        """
        self.common_points = check_flag("common_points", common_points)
        if not self.common_points:
            return
        for name, value in needed.items():
            found = getattr(self, name)
            if found != value:
                raise ValueError(f"common_points=True needs {name}={value!r}, found {found!r}.")
        if not way.takes_common_points:
            raise ValueError(
                "common_points=True needs uncertainty='diagonal' or 'none', found "
                f"{self.uncertainty!r}."
            )

    def _convolved_together(self, way, observed, operator, beside, missing, *, own):
        """`_convolved`, at once for all examples of a batch that have the same points."""

        def convolved(observed, operator):
            missing = tf.zeros_like(operator.query[..., :1])
            given = observed, operator, None, missing
            mean, variance, _, nll = self._convolved(way, *given, own=own)
            return mean, variance if way.has_variance else None, nll

        mean, variance, nll = with_common_points(convolved, observed, operator, self.filters)
        return mean, tf.zeros_like(mean) if variance is None else variance, None, nll
