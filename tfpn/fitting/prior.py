"""Fits a Gaussian process prior to observations by maximum marginal likelihood."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import optimize

from tfpn.fitting.likelihood import Likelihood
from tfpn.fitting.neighbourhoods import neighbourhoods
from tfpn.spacing import point_extent, point_spacing
from tfpn.types import Array, KernelLike

# Bounds of the length scale: the lower in spacings, the upper in extents of an example. Bounds of
# the standard deviations of signal and noise, in root mean squares of the values.
LEAST_LENGTH, LARGEST_LENGTH = 0.5, 2.0
SIGNAL = 0.03, 30.0
NOISE = 1e-3, 3.0
# Neighbourhoods are chosen in so many examples, evenly spread over all.
EXAMPLES = 256
# Fewer readings say little about three parameters.
LEAST_READINGS = 20
# The prior's log likelihood has to exceed that of independent readings by so much. Chance alone
# does this in one case of a hundred: half of a chi-squared variable of two degrees of freedom.
LEAST_GAIN = 5.0
# Starts of the search: length scales in spacings, and noises in root mean squares.
_LENGTHS = 0.5 * 2.0 ** np.arange(12)
_NOISES = 0.03, 0.3


@dataclasses.dataclass(frozen=True)
class FittedPrior:
    """The priors that `fit_prior` found, with NaN for those that it could not fit.

    Attributes:
        length_scale, signal_std: [priors].
        observation_noise: standard deviations [noises]; None if none was fitted.
        white: bool [priors]: whether the readings may as well be independent of each other. The
            length scale is then the least one, half of the spacing.
    """

    length_scale: Array
    signal_std: Array
    observation_noise: Array | None
    white: Array


def fit_prior(
    points: Array,
    values: Array,
    variance: Array,
    *,
    priors: Sequence[int] | None = None,
    noises: Sequence[int] | None = None,
    kernel: KernelLike = "rbf",
    fit_noise: bool = True,
    progress: Callable[[int], Any] | None = None,
) -> FittedPrior:
    """Finds length scales, signals and noises of the largest marginal likelihood (eq. posterior).

    A quasi-Newton method with the exact gradient starts from the best point of a grid, in float64.
    It reads at most 128 neighbourhoods of 64 points, and fewer if there are many priors. Length
    scales lie between half of the points' spacing and twice an example's extent. Signals lie
    between 0.03 and 30 times the values' root mean square, and noises between 0.001 and 3 times.

    Args:
        points: [B, N, d].
        values: [B, N, c], anything where unobserved.
        variance: [B, N, c], +inf where unobserved. Channels that share a noise take the mean of
            their variances.
        priors: the number of each channel's prior, from 0. The default is one prior for all.
        noises: the number of each channel's noise, from 0. The default is that of its prior.
            Channels that share a noise share a prior and are observed together.
        kernel: as in `tfpn.layers.PNConv`.
        fit_noise: whether to fit a noise, which is added to the given variances.
        progress: a function that is called after each prior with the number of finished ones.

    Returns:
        A `FittedPrior`. A prior is NaN if it has fewer than 20 readings, if the points of each
        example coincide, or if all readings are 0.

    Example: a sine of period 1 with noise.

    >>> import numpy as np
    >>> from tfpn.fitting import fit_prior
    >>> rng = np.random.default_rng(0)
    >>> points = rng.uniform(0, 3, size=(20, 60, 1))
    >>> shift = rng.uniform(size=(20, 1, 1))
    >>> values = np.sin(2 * np.pi * (points + shift)) + rng.normal(scale=0.2, size=points.shape)
    >>> found = fit_prior(points, values, np.zeros_like(values))
    >>> bool(0.2 < found.length_scale[0] < 0.4), bool(0.19 < found.observation_noise[0] < 0.21)
    (True, True)
    """
    points, values, variance = (np.asarray(array) for array in (points, values, variance))
    of_prior = np.zeros(values.shape[-1], int) if priors is None else np.asarray(priors)
    of_noise = of_prior if noises is None else np.asarray(noises)
    count = of_prior.max() + 1
    length, signal, noise = (np.full(size, np.nan) for size in (count, count, of_noise.max() + 1))
    white = np.zeros(count, bool)
    for prior in range(count):
        own = np.flatnonzero(of_prior == prior)
        members, groups = np.unique(of_noise[own], return_inverse=True)
        averaged = np.stack(
            [variance[..., own[groups == g]].mean(axis=-1) for g in range(len(members))], axis=-1
        )
        share = max(count, len(members))
        found = _fit_one(points, values[..., own], averaged, groups, kernel, fit_noise, share)
        if found is not None:
            length[prior], signal[prior], noise[members], white[prior] = found
        if progress is not None:
            progress(prior + 1)
    return FittedPrior(length, signal, noise if fit_noise else None, white)


def _fit_one(points, values, variance, groups, kernel, fit_noise, share):
    """Fits one prior: its length scale, signal and noises, and whether it is white; or None."""
    seen = np.isfinite(variance).any(axis=-1).sum(axis=-1) > 1
    examples = np.flatnonzero(seen)[:: max(seen.sum() // EXAMPLES, 1)]
    points, values, variance = (
        array[examples].astype(np.float64) for array in (points, values, variance)
    )
    observed = np.isfinite(variance[..., groups])
    readings = values[observed]
    largest = np.abs(readings).max(initial=0.0)
    if largest == 0.0:
        return None
    level = largest * np.sqrt(np.mean(np.square(readings / largest)))
    try:
        spacing = point_spacing(points, variance)
    except ValueError:  # no example has two distinct points
        return None
    centred = points - _origin(points, observed.any(axis=-1))
    data = neighbourhoods(
        centred / spacing, np.where(observed, values, 0.0) / level, variance / level**2,
        share=share,
    )  # fmt: skip
    if np.isfinite(data.variance[..., groups]).sum() < LEAST_READINGS:
        return None
    count = len(np.unique(groups)) if fit_noise else 0
    likelihood = Likelihood(data, groups, kernel, floor=NOISE[0] ** 2)
    longest = max(LARGEST_LENGTH * point_extent(points, variance) / spacing, 2.0 * LEAST_LENGTH)
    bounds = np.log([(LEAST_LENGTH, longest), SIGNAL, *[NOISE] * count])
    found = _least(likelihood, bounds)
    independent, whole = likelihood.white()
    white = likelihood.count and found.fun > independent - LEAST_GAIN
    length, signal, noise = np.exp(found.x[0]), np.exp(found.x[1]), np.exp(found.x[2:])
    if white:
        length, signal = LEAST_LENGTH, np.sqrt(max(whole, NOISE[0] ** 2))
        noise = 0.1 * signal * np.ones(count)
    noise = noise * level if count else np.nan
    return length * spacing, signal * level, noise, bool(white)


def _least(likelihood, bounds):
    """Minimises the negative log likelihood within bounds, all in logarithms; scipy's result."""
    low, high = bounds.T
    noises = _NOISES if len(bounds) > 2 else _NOISES[:1]
    starts = [
        np.array([np.log(length), 0.0, *[np.log(noise)] * (len(bounds) - 2)])
        for length in _LENGTHS[np.log(_LENGTHS) <= high[0]]
        for noise in noises
    ]
    start = min(starts, key=lambda one: likelihood(one)[0])
    scale = max(likelihood.count, 1)

    def mean(parameters):
        value, gradient = likelihood(parameters)
        return value / scale, gradient / scale

    found = optimize.minimize(
        mean, np.clip(start, low, high), jac=True, method="L-BFGS-B", bounds=bounds,
        options={"maxiter": 60, "ftol": 1e-9, "gtol": 1e-5},
    )  # fmt: skip
    found.fun = found.fun * scale
    return found


def _origin(points, observed):
    """A point among the observed ones, [d], to subtract: huge coordinates lose digits."""
    return points[observed][0]
