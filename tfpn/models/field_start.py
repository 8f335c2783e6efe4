"""Starts a field's prior from data by maximum marginal likelihood, including the trend."""

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfpn.contract import KEYS
from tfpn.math.kernels import Kernel, read_mixture
from tfpn.math.kriging import krige_likelihood, trend_basis
from tfpn.math.posterior import Observed
from tfpn.types import Array, Layer

# Bounds in units of the coordinates' spread and of the values' standard deviation.
LENGTH = 3e-3, 30.0
SIGNAL = 0.03, 30.0
NOISE = 1e-3, 3.0
TREND = 0.03, 30.0
FACTOR = 1e-3, 1e3
DOF = 1.0, 1e4
# The largest number of points of an example, and numbers that limit the examples.
POINTS = 256
_WORK = 6e7
# With a prior for each channel an example gives fewer points, and more examples are read: a handful
# of them may agree by chance, and the fit would take this for a law.
_EXAMPLES = 32
# If each channel has its own prior, more examples are read until every channel has so many
# readings, up to a multiple of the work.
_READINGS = 60
_MORE = 2.0
STEPS = 80
# Starts of the search.
_LENGTHS = 0.1, 0.3, 1.0, 3.0


@dataclasses.dataclass(frozen=True)
class _Form:
    """The layout of the parameters, logarithms in one vector."""

    priors: int  # 1, or the number of channels
    trend: int
    factors: int
    dof: int  # 1 if examples have their own factors, otherwise 0

    def split(self, theta):
        """Splits into length scales, signals, noises [priors], trend [p], factors and dof."""
        sizes = [*[self.priors] * 3, self.trend, self.factors, self.dof]
        ends = np.cumsum(sizes)
        return [theta[end - size : end] for end, size in zip(ends, sizes, strict=True)]

    def bounds(self):
        kinds = LENGTH, SIGNAL, NOISE, TREND, FACTOR, DOF
        counts = *[self.priors] * 3, self.trend, self.factors, self.dof
        return np.log([bound for bound, n in zip(kinds, counts, strict=True) for _ in range(n)])


def start_field(
    data: dict[str, Array],
    kriging: Layer,
    scale: Any,
    *,
    fit: bool,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Sets a `Kriging` layer's parameters and a `CoordinateScale`'s factors from data.

    Coordinates start in units of their spread. With ``fit`` a quasi-Newton method in float64 finds
    all parameters, including the factors, that maximise the marginal likelihood on some examples,
    with at most 256 points of each. If channels have their own priors, examples are added until
    rare channels have some readings.

    Args:
        data: points, values and variance, with values of unit size in each channel.
        kriging: the built `Kriging` layer.
        scale: the built `CoordinateScale`, or None.
        fit: whether to fit.
        seed: seed of the choice of points.
        progress: a function that is called with the number of finished steps. In the end all of
            `STEPS` are finished.
    """
    points, values, variance = (np.asarray(data[key], np.float64) for key in KEYS)
    seen = np.isfinite(variance).any(axis=-1)
    places = points[seen]
    centre, spread = places.mean(axis=0), places.std(axis=0)
    whole = np.sqrt(np.mean(np.square(spread))) or 1.0
    spread = np.where(spread > 1e-9 * whole, spread, whole)
    groups = [] if scale is None else scale.groups
    # The dimensions of a group share one unit; without factors all dimensions do.
    if groups:
        units = np.array(
            [
                np.sqrt(np.mean(np.square(spread[np.equal(groups, group)])))
                for group in range(max(groups) + 1)
            ]
        )
        unit = units[groups]
    else:
        unit = np.full(points.shape[-1], whole)
    form = _Form(
        values.shape[-1] if kriging._own_noise else 1,
        kriging.trend_size,
        max(groups) + 1 if groups else 0,
        int(kriging.log_dof is not None),
    )
    starts = [0.3, 1.0, 0.3, 1.0, 1.0, 10.0]
    counts = [*[form.priors] * 3, form.trend, form.factors, form.dof]
    theta = np.log(np.repeat(starts, counts))
    if fit:
        examples = _chosen(points, values, variance, seen, form.priors, seed)
        likelihood = _Likelihood(examples, kriging, form, groups, centre, spread, unit)
        theta = _least(likelihood, theta, form, progress or (lambda step: None))
    lengths, signals, noises, trend, factors, dof = (np.exp(part) for part in form.split(theta))
    if groups:
        logs = np.log(factors / units)
        scale.log_factors.assign(logs)
        common = np.exp(np.mean(logs[groups]))  # the layer removes this common factor
        applied = np.exp(logs)[groups] / common
    else:
        common, applied = 1.0 / whole, 1.0
    kriging.assign(
        length_scale=lengths / common,
        signal_std=signals,
        noise=noises,
        trend_std=trend,
        centre=centre * applied,
        unit=spread * applied,
        dof=dof,
    )


def _chosen(points, values, variance, seen, priors, seed):
    """Chooses some examples and some of their observed points, equally many, for the fit."""
    rng = np.random.default_rng(seed)
    counts = seen.sum(axis=1)
    largest = POINTS
    if priors > 1:
        largest = int(np.clip(np.cbrt(_WORK / priors / _EXAMPLES), 8, POINTS))
    order = rng.permutation(np.flatnonzero(counts > 1))
    picked: list[tuple[int, Array]] = []
    work = 0.0
    read = np.isfinite(variance).sum(axis=1)  # [B, c]
    found = np.zeros(read.shape[1])
    for example in order:
        size = min(counts[example], largest)
        if picked and work + priors * float(size) ** 3 > _WORK:
            if priors == 1 or work > _MORE * _WORK:
                break
            if not np.any((found < _READINGS) & (read[example] > 0)):
                continue
        work += priors * float(size) ** 3
        found += read[example] * (size / counts[example])
        places = np.flatnonzero(seen[example])
        if len(places) > size and len(picked) % 2:  # every other example takes neighbours
            middle = points[example, rng.choice(places)]
            distance = np.abs(points[example, places] - middle).max(axis=-1)
            places = places[np.argsort(distance)]
        elif len(places) > size:
            places = rng.permutation(places)
        picked.append((example, places[:size]))
    longest = max((len(places) for _, places in picked), default=0)
    chosen = [
        np.zeros((len(picked), longest, array.shape[-1])) for array in (points, values, variance)
    ]
    chosen[2] += np.inf
    for row, (example, places) in enumerate(picked):
        for array, whole in zip(chosen, (points, values, variance), strict=True):
            array[row, : len(places)] = whole[example, places]
    return chosen


class _Likelihood:
    """The mean negative log marginal likelihood of a reading, and its gradient."""

    def __init__(self, examples, kriging, form, groups, centre, spread, unit):
        points, values, variance = examples
        self._count = max(np.isfinite(variance).sum(), 1)
        self._values = tf.constant(np.where(np.isfinite(variance), values, 0.0))
        self._variance = tf.constant(variance)
        self._points = tf.constant((points - centre) / unit)
        self._basis = trend_basis(tf.constant(points), form.trend, centre, spread)
        self._kriging, self._form, self._groups = kriging, form, groups
        self._graph = tf.function(self._value, autograph=False)

    def _value(self, theta):
        with tf.GradientTape() as tape:
            tape.watch(theta)
            lengths, signals, noises, trend, factors, dof = (
                tf.exp(part) for part in self._form.split(theta)
            )
            points = self._points
            if self._groups:
                points *= tf.gather(factors, self._groups)
            each = self._kriging._own_noise
            one = (lambda t: t) if each else (lambda t: t[0])
            kernel = Kernel(one(signals), one(lengths), read_mixture(self._kriging.prior_kernel))
            observed = Observed(
                points,
                self._values,
                self._variance,
                kernel,
                self._kriging.noise,
                tf.square(one(noises)),
            )
            own = dof[0] if self._form.dof else None
            nll = krige_likelihood(observed, self._basis, tf.square(trend), own)
            mean = tf.reduce_sum(nll) / self._count
            # The factors' common size belongs to the length scale.
            mean += 1e-3 * tf.square(tf.reduce_mean(tf.math.log(factors))) if self._groups else 0.0
        return mean, tape.gradient(mean, theta)

    def __call__(self, theta: Array) -> tuple[float, Array]:
        value, gradient = self._graph(tf.constant(theta))
        return float(value), gradient.numpy()


def _least(likelihood, theta, form, progress):
    """Minimises the mean from the best of some starts; returns the parameters."""
    from scipy import optimize

    if not np.size(likelihood._values):
        progress(STEPS)
        return theta
    starts = np.tile(theta, (len(_LENGTHS), 1))
    starts[:, : form.priors] = np.log(_LENGTHS)[:, None]
    best = min(starts, key=lambda start: likelihood(start)[0])
    steps = itertools.count(1)
    found = optimize.minimize(
        likelihood, best, jac=True, method="L-BFGS-B", bounds=form.bounds(),
        options={"maxiter": STEPS, "ftol": 1e-7, "gtol": 1e-5},
        callback=lambda theta: progress(min(next(steps), STEPS - 1)),
    )  # fmt: skip
    progress(STEPS)
    return found.x
