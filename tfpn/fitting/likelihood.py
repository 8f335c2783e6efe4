"""The negative log marginal likelihood of neighbourhoods and its gradient, in NumPy."""

import numpy as np

from tfpn.math.kernels import read_mixture
from tfpn.types import Array


class Likelihood:
    """The negative log marginal likelihood of a zero-mean GP prior (eq. posterior).

    Channels are independent and share one prior. Each belongs to one of g noises. The covariance
    of a channel's observations is ``s^2 R + diag(variance) + sigma_g^2 I``, with R the kernel's
    correlations for the length scale.

    Args:
        data: `Neighbourhoods` whose points and values are of the order of 1.
        groups: the number of each channel's noise, from 0, integers [c].
        kernel: as in `tfpn.layers.PNConv`.
        floor: a variance that is added to that of every observation.
    """

    def __init__(self, data, groups, kernel, floor):
        mixture = read_mixture(kernel)
        self._terms = list(zip(mixture.weights, mixture.scales, strict=True))
        difference = data.points[:, :, None] - data.points[:, None]
        self._squares = np.sum(np.square(difference), axis=-1)
        self._noises = []
        for group, variance in enumerate(np.moveaxis(data.variance, -1, 0)):
            values = data.values[..., np.asarray(groups) == group]
            some = np.isfinite(variance).any(axis=-1)
            seen = np.isfinite(variance[some])
            self._noises.append(
                (some, values[some] * seen[..., None], np.where(seen, variance[some], 0.0), seen)
            )
        self._floor = floor
        self.count = sum(seen.sum() * values.shape[-1] for _, values, _, seen in self._noises)

    def __call__(self, parameters: Array) -> tuple[float, Array]:
        """The negative log likelihood and its gradient.

        Args:
            parameters: logarithms of the length scale, of the signal's standard deviation and, if
                noises are fitted, of theirs: [2] or [2 + g].
        """
        length, signal = np.exp(parameters[:2])
        noises = np.exp(2.0 * parameters[2:])
        correlation = np.zeros_like(self._squares)
        stretched = np.zeros_like(self._squares)  # the derivative by log(length)
        for weight, scale in self._terms:
            squares = self._squares / np.square(length * scale)
            term = weight * np.exp(-0.5 * squares)
            correlation += term
            stretched += term * squares
        total, gradient = 0.0, np.zeros(len(parameters))
        for group, (some, values, variance, seen) in enumerate(self._noises):
            channels = values.shape[-1]
            noise = noises[group] if len(noises) else 0.0
            precision = seen / (variance + noise + self._floor)
            roots = np.sqrt(precision)
            both = roots[:, :, None] * roots[:, None]
            # An unobserved point has the row of the unit matrix.
            whitened = np.eye(roots.shape[1]) + np.square(signal) * both * correlation[some]
            factor = np.linalg.cholesky(whitened)
            log_det = 2.0 * np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum()
            log_det -= np.log(precision[seen]).sum()
            inverse = both * np.linalg.inv(whitened)
            solved = inverse @ values
            total += 0.5 * (np.sum(values * solved) + channels * log_det)
            total += 0.5 * channels * seen.sum() * np.log(2.0 * np.pi)
            slope = channels * inverse - solved @ np.swapaxes(solved, -1, -2)
            gradient[0] += 0.5 * np.square(signal) * np.sum(slope * stretched[some])
            gradient[1] += np.square(signal) * np.sum(slope * correlation[some])
            if len(noises):
                gradient[2 + group] += noise * np.trace(slope, axis1=-2, axis2=-1).sum()
        return total, gradient

    def white(self) -> tuple[float, float]:
        """The least negative log likelihood of independent readings, and their signal variance."""
        values = np.concatenate([v[seen].ravel() for _, v, _, seen in self._noises])
        variance = np.concatenate(
            [np.repeat(v[seen], y.shape[-1]) for _, y, v, seen in self._noises]
        )
        squares, level, given = np.square(values), np.mean(np.square(values)), variance
        # Fixed-point iteration for the maximum. It starts at the mean square and settles fast.
        for _ in range(50):
            weight = np.square(1.0 / (given + level + self._floor))
            level = max(np.sum(weight * (squares - given)) / np.sum(weight), 0.0)
        whole = given + level + self._floor
        return 0.5 * np.sum(np.log(2.0 * np.pi * whole) + squares / whole), float(level)
