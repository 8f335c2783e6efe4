"""Fits a prior to each example: that of the model, moved as far as the example's readings require.

The logarithms of length scales, standard deviations and coordinate factors have a normal prior
about those of the model. Their most probable values, given an example's readings, are

    theta = argmin  -log p(y | theta) + |theta - theta_model|^2 / (2 spread^2)

So an example with many readings gets its own parameters, and one with few keeps the model's.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tfpn.math.kernels import Kernel, read_mixture
from tfpn.math.posterior import Observed
from tfpn.types import Array

_STEPS = 40


class OwnPriors:
    """Finds each example's own prior, and lends it to the model.

    Args:
        path: the `FieldPath` of an adapted model.
        spread: standard deviation of the logarithms about the model's.
    """

    def __init__(self, path: Any, spread: float) -> None:
        self._kriging, self._scale, self._spread = path.kriging, path.scale, spread
        kriging = path.kriging
        self._weights = [
            kriging.log_length_scale,
            kriging.log_signal_std,
            kriging.log_observation_noise,
            kriging.log_trend_std,
            *([] if path.scale is None else [path.scale.log_factors]),
        ]
        self._start = [np.asarray(weight, np.float64) for weight in self._weights]
        self._sizes = [part.size for part in self._start]
        self._graph = tf.function(self._loss, autograph=False)

    def find(self, observed: tuple[Array, Array, Array]) -> Array:
        """Finds the most probable parameters of one example, as one row.

        Args:
            observed: points [1, N, d] in the input's unit, values and variance [1, N, c] in the
                model's, in float64.
        """
        from scipy import optimize

        start = np.concatenate([part.ravel() for part in self._start])
        given = [tf.constant(array) for array in observed]

        def loss(theta):
            value, gradient = self._graph(tf.constant(theta), tf.constant(start), *given)
            return float(value), gradient.numpy()

        reach = 6.0 * self._spread
        bounds = [(middle - reach, middle + reach) for middle in start]
        options = {"maxiter": _STEPS, "ftol": 1e-7}
        return optimize.minimize(
            loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
        ).x

    @contextlib.contextmanager
    def lent(self, theta: Array) -> Iterator[None]:
        """Context in which the model has an example's parameters; afterwards it has its own."""
        kriging = self._kriging
        kept = [np.asarray(weight) for weight in (*self._weights, kriging.centre, kriging.unit)]
        before = self._factors(self._start[-1]) if self._scale is not None else 1.0
        try:
            for weight, part in zip(self._weights, self._split(theta), strict=True):
                weight.assign(np.reshape(part, weight.shape))
            if self._scale is not None:  # the trend stays in the input's coordinates
                moved = self._factors(self._split(theta)[-1]) / before
                kriging.centre.assign(np.asarray(kriging.centre) * moved)
                kriging.unit.assign(np.asarray(kriging.unit) * moved)
            yield
        finally:
            weights = (*self._weights, kriging.centre, kriging.unit)
            for weight, value in zip(weights, kept, strict=True):
                weight.assign(value)

    def _split(self, theta):
        return np.split(theta, np.cumsum(self._sizes)[:-1])

    def _factors(self, logs):
        logs = np.asarray(logs)[self._scale.groups]
        return np.exp(logs - logs.mean())

    def _loss(self, theta, start, points, values, variance):
        """The negative log posterior of one example's parameters, and its gradient."""
        kriging = self._kriging
        with tf.GradientTape() as tape:
            tape.watch(theta)
            parts = [
                tf.reshape(part, np.shape(shape))
                for part, shape in zip(tf.split(theta, self._sizes), self._start, strict=True)
            ]
            lengths, signals, noises, trend = (tf.exp(part) for part in parts[:4])
            places, before = points, points
            if self._scale is not None:
                logs = tf.gather(parts[4], self._scale.groups)
                places = points * tf.exp(logs - tf.reduce_mean(logs))
                before = points * self._factors(self._start[4])
            kernel = Kernel(signals, lengths, read_mixture(kriging.prior_kernel))
            noise = tf.square(noises)
            observed = Observed(places, values, variance, kernel, kriging.noise, noise)
            nll = kriging.likelihood(observed, kriging.basis_at(before), tf.square(trend))
            loss = tf.reduce_sum(nll)
            loss += tf.reduce_sum(tf.square(theta - start)) / (2.0 * self._spread**2)
        return loss, tape.gradient(loss, theta)
