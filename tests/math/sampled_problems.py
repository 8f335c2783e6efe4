"""Draws for the tests of coherent draws, and how far they may be from the exact moments."""

import dataclasses

import numpy as np
import tensorflow as tf

from tfpn.math.convolution import _problem
from tfpn.math.uncertainty import Sampled


def observed_and_operator(data, query, parameters):
    """The inner arguments of a strategy, for data [points, values, variance]."""
    return _problem(*data, query, **parameters)


def many_draws(way, call, repeats, first=0):
    """Draws of ``call(way)`` for several seeds together, an array [B, S, ...].

    Each seed has frequencies, amplitudes and noise of its own.
    """
    found = []
    for repeat in range(first, first + repeats):
        seed = tf.constant([repeat << 12, 5], tf.int32)
        found.append(np.asarray(call(dataclasses.replace(way, seed=seed))))
    return np.concatenate(found, axis=1)


def convolved(observed, operator, beside=None):
    """A function of a `Sampled` that gives a convolution's draws."""
    missing = tf.zeros_like(operator.query[..., :1])
    return lambda way: way.convolve(observed, operator, beside, missing)[2]


def assert_moments(draws, mean, covariance, sigmas=5.0):
    """Compares draws [S, n] with a normal distribution, within so many Monte Carlo errors.

    Of S independent draws the mean has the variance C_ii / S, and ``(x_i - m_i)(x_j - m_j)`` the
    variance ``C_ii C_jj + C_ij^2``. Five deviations are passed by chance once in a million.
    """
    count = len(draws)
    variance = np.diag(covariance)
    error = sigmas * np.sqrt(variance / count) + 1e-6 * np.sqrt(variance.max())
    np.testing.assert_array_less(np.abs(draws.mean(0) - mean), error)
    deviations = draws - mean
    found = deviations.T @ deviations / count
    spread = np.sqrt((np.outer(variance, variance) + np.square(covariance)) / count)
    error = sigmas * spread + 1e-6 * variance.max()
    np.testing.assert_array_less(np.abs(found - covariance), error)


SMALL = Sampled(samples=500, waves=16)


class Turned(Sampled):
    """The draws of the input before it was turned, turned with it."""

    def _waves(self, observed, beside):
        before = dataclasses.replace(observed, points=observed.points @ self.turn)
        waves = super()._waves(before, beside)
        return dataclasses.replace(
            waves,
            frequencies=waves.frequencies @ self.turn.T,
            amplitudes=waves.amplitudes @ self.rho.T,
            centre=waves.centre @ self.turn.T,
        )

    def _noise(self, points, known, std, values, samples, channels):
        if values is not None:
            values = values @ self.rho
        noise = super()._noise(points @ self.turn, known, std, values, samples, channels)
        return noise @ self.rho.T
