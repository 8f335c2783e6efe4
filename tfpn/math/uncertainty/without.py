"""No uncertainty: only means, which count as exact (the paper's ablation)."""

import dataclasses
from typing import Any

import tensorflow as tf

from tfpn.math.operator import Operator
from tfpn.math.posterior import Observed
from tfpn.math.precision import in_double_precision
from tfpn.math.uncertainty.diagonal import Diagonal
from tfpn.types import Tensor


@dataclasses.dataclass(frozen=True)
class Without(Diagonal):
    """A variance of 0 at every observed point."""

    has_variance = False
    takes_estimator = False

    @in_double_precision
    def convolve(
        self, observed: Observed, operator: Operator, beside: Tensor | None, missing: Tensor
    ) -> Any:
        response, nll = observed.posterior().mean(operator.functionals(observed.kernel))
        mean = operator.mix(response)
        return mean, tf.zeros_like(mean), None, nll
