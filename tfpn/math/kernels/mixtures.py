"""Correlation functions as mixtures of Gaussians of several length scales.

Every closed form of this library is linear in the kernel. So a sum of Gaussians needs no closed
form of its own. Matern and rational quadratic kernels are such sums in the limit of many terms. A
few terms are enough in practice.
"""

import dataclasses
import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import optimize

from tfpn.types import Array, Config, KernelLike

# A mixture is fitted up to this distance, in length scales.
_FITTED_TO = 8.0

# The error of a fitted mixture that brings a warning.
_LARGE_ERROR = 1e-3


@dataclasses.dataclass(frozen=True)
class ScaleMixture:
    """A correlation function ``rho(r) = sum_t w_t exp(-r^2 / (2 a_t^2))``.

    The distance r is in units of the kernel's length scale, and rho(0) = 1. Mixtures can be
    stretched (``mixture.stretched(4)``), and averaged (`mean_mixture`).

    Attributes:
        weights: w_t > 0. They are scaled to the sum 1.
        scales: a_t > 0, one for each weight.

    Raises:
        ValueError: for weights or scales that are not positive, or that differ in number.

    Example:

    >>> from tfpn.math.kernels import ScaleMixture
    >>> float(ScaleMixture([1.0, 3.0], [1.0, 2.0])(0.0))
    1.0
    """

    weights: Sequence[float]
    scales: Sequence[float]

    def __post_init__(self):
        weights, scales = (np.asarray(given, np.float64) for given in (self.weights, self.scales))
        if not (weights.ndim == 1 and weights.shape == scales.shape and len(weights)):
            raise ValueError(
                "a scale mixture takes as many weights as scales, and at least one; found weights "
                f"{self.weights!r} and scales {self.scales!r}."
            )
        for name, given in (("weights", weights), ("scales", scales)):
            if not np.all((given > 0.0) & np.isfinite(given)):
                raise ValueError(f"{name} must be positive and finite, found {given.tolist()}.")
        object.__setattr__(self, "weights", tuple((weights / weights.sum()).tolist()))
        object.__setattr__(self, "scales", tuple(scales.tolist()))

    def __call__(self, distance):
        """The correlation at distances in length scales, a NumPy array."""
        exponent = -0.5 * np.square(np.asarray(distance)[..., None] / np.array(self.scales))
        return np.exp(exponent) @ np.array(self.weights)

    def stretched(self, factor: float) -> "ScaleMixture":
        """The same correlation at ``factor`` times the distance."""
        return ScaleMixture(self.weights, [factor * scale for scale in self.scales])

    def get_config(self) -> Config:
        """A dict of lists, for saving and for recipes."""
        return {"weights": list(self.weights), "scales": list(self.scales)}


def mean_mixture(mixtures: Sequence[ScaleMixture], weights: Sequence[float]) -> ScaleMixture:
    """The weighted mean of correlation functions.

    Args:
        mixtures: list of `ScaleMixture`.
        weights: a positive number for each. They are scaled to the sum 1.

    Example: a rough kernel and a smooth kernel that reaches five times as far.

    >>> from tfpn.math.kernels import ScaleMixture, mean_mixture, read_mixture
    >>> both = mean_mixture([read_mixture("matern32"), read_mixture("rbf").stretched(5)], [1, 1])
    >>> bool(both(3.0) > read_mixture("matern32")(3.0))
    True
    """
    terms = [
        (share * weight, scale)
        for mixture, share in zip(mixtures, np.divide(weights, np.sum(weights)), strict=True)
        for weight, scale in zip(mixture.weights, mixture.scales, strict=True)
    ]
    return ScaleMixture(*zip(*terms, strict=True))


def fit_mixture(correlation: Callable[[Array], Array], terms: int = 12) -> ScaleMixture:
    """Fits a scale mixture to a correlation function, by non-negative least squares.

    The scales are geometric. A search over a grid finds the range of least error. The error is
    small for correlation functions that are smooth at 0 and valid in any number of dimensions:
    these are mixtures. Functions with a cusp at 0, such as ``exp(-d)``, need ever smaller scales.
    12 terms are off by 8e-3 near d = 0.02.

    Args:
        correlation: a function from distances [n], in length scales, to correlations.
        terms: number of scales. Those of weight 0 are left out.

    Returns:
        A `ScaleMixture`. Call it to see the error.

    Warns:
        UserWarning: if the error exceeds 1e-3 somewhere over 8 length scales.

    Example:

    >>> import numpy as np
    >>> from tfpn.math.kernels import fit_mixture
    >>> exact = lambda r: (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r)
    >>> r = np.linspace(0, 8, 1000)
    >>> bool(np.abs(fit_mixture(exact)(r) - exact(r)).max() < 2e-5)
    True
    """
    distance = np.concatenate([np.linspace(0.0, _FITTED_TO, 801), np.geomspace(1e-3, 1.0, 200)])
    target = correlation(distance)
    heaviest = 1e3  # the weight of the condition rho(0) = 1
    best: tuple[Any, ...] | None = None
    for low in np.geomspace(0.03, 0.6, 12):
        for high in np.geomspace(1.5, 12.0, 12):
            scales = np.geomspace(low, high, terms)
            basis = np.exp(-0.5 * np.square(distance[:, None] / scales))
            weights, _ = optimize.nnls(
                np.vstack([basis, np.full(terms, heaviest)]), np.append(target, heaviest)
            )
            error = np.max(np.abs(basis @ weights - target))
            if best is None or error < best[0]:
                best = error, weights, scales
    assert best is not None
    error, weights, scales = best
    if not error < _LARGE_ERROR:
        warnings.warn(
            f"the mixture of {terms} Gaussians is off by up to {error:.2g} over distances from 0 "
            f"to {_FITTED_TO:g} length scales. No mixture is near a correlation with a cusp at 0, "
            "such as exp(-d), or near one that is not valid in every number of dimensions.",
            stacklevel=2,
        )
    return ScaleMixture(weights[weights > 0.0], scales[weights > 0.0])


def _matern32(distance):
    scaled = math.sqrt(3.0) * distance
    return (1.0 + scaled) * np.exp(-scaled)


def _matern52(distance):
    scaled = math.sqrt(5.0) * distance
    return (1.0 + scaled + np.square(scaled) / 3.0) * np.exp(-scaled)


def _rational_quadratic(distance):
    return 1.0 / (1.0 + 0.5 * np.square(distance))


# The kernels by name. To add one, write its correlation function here.
CORRELATIONS = {
    "rbf": None,
    "matern32": _matern32,
    "matern52": _matern52,
    "rational_quadratic": _rational_quadratic,
}


def read_mixture(kernel: KernelLike) -> ScaleMixture:
    """Reads a scale mixture from a kernel's name, a `ScaleMixture` or its `get_config`.

    "rbf" is one Gaussian. "matern32", "matern52" and "rational_quadratic" (with the shape parameter
    1) are fits of 12 terms. Up to 8 length scales they are off by at most 2e-5, 3e-6 and 3e-6 of
    the variance. Beyond, the Matern kernels stay within 1e-6. The rational quadratic mixture falls
    faster than the kernel, by up to 3e-3. So its integral over the whole space is finite, while
    that of the kernel is infinite from two dimensions on.

    Raises:
        ValueError: for anything else.
    """
    if isinstance(kernel, ScaleMixture):
        return kernel
    if isinstance(kernel, str) and kernel in CORRELATIONS:
        return _named(kernel)
    if isinstance(kernel, dict) and set(kernel) == {"weights", "scales"}:
        return ScaleMixture(**kernel)
    raise ValueError(
        f"kernel must be one of {tuple(CORRELATIONS)}, a tfpn.math.kernels.ScaleMixture, or a dict "
        f"of its weights and scales; found {kernel!r}."
    )


@functools.cache
def _named(name):
    correlation = CORRELATIONS[name]
    return ScaleMixture([1.0], [1.0]) if correlation is None else fit_mixture(correlation)


def kernel_config(kernel: KernelLike) -> str | dict[str, list[float]]:
    """Checks a kernel as `read_mixture` does, and returns it in a form for saving."""
    mixture = read_mixture(kernel)
    return kernel if isinstance(kernel, str) else mixture.get_config()
