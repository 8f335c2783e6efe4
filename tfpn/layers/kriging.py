"""The posterior of the input's own channels at query points: GP regression with a trend."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfpn.checks import check_choice
from tfpn.layers.base import GPPosteriorLayer
from tfpn.layers.conditioning import BLOCK_SIZE, Conditioned
from tfpn.math.kriging import (
    Kriged,
    krige,
    krige_covariance,
    krige_likelihood,
    trend_basis,
)
from tfpn.math.neighbourhoods import krige_likelihood_near, krige_near
from tfpn.math.posterior import Observed
from tfpn.types import Array, ArrayLike, Config, KernelLike, Observations, Tensor

# The number of basis functions in d dimensions, by the layer's name for the trend.
TRENDS = {"none": lambda dim: 0, "constant": lambda dim: 1, "linear": lambda dim: 1 + dim}

# Number of covariance entries that `Kriging.residuals` holds at once.
_ENTRIES = 2**21


AMPLITUDES = ("shared", "example")
# Degrees of freedom at the start.
_DOF = 10.0


class Kriging(Conditioned, GPPosteriorLayer):
    """Gaussian process regression of every channel at query points (`tfpn.math.kriging`).

    Each channel is a trend, a zero-mean GP and noise, and is conditioned on its own readings. It
    computes in float64.

    Args:
        trend: "none", "constant", or "linear" in the coordinates. Its coefficients have a normal
            prior with learnable standard deviations.
        amplitude: "shared"; or "example", where the readings of each example give a factor of its
            variances, with learnable degrees of freedom (see `tfpn.math.kriging`).
        signal_std, length_scale, observation_noise, noise, kernel: as in `PNConv`. With
            noise="channel" every channel has its own prior.
        conditioning, block_size, neighbors: as in `PNConv`. With "local" each query point is
            predicted from its block and the block's halo, including the trend.
        marginal_likelihood_weight: weight of the likelihood in the loss. It trains all parameters.

    Input:
        The observations, and query points [B, M, d].

    Output:
        A dict of values and variance [B, M, c] of the channels without noise, the noise variance
        "noise" [B, 1 or M, c] of readings, and "residuals" [B, N, c]: readings minus the trend (0
        where nothing was read).
    """

    def __init__(
        self,
        *,
        trend: str = "constant",
        amplitude: str = "shared",
        length_scale: float = 1.0,
        signal_std: float = 1.0,
        observation_noise: float = 0.3,
        noise: str = "shared",
        kernel: KernelLike = "rbf",
        conditioning: str = "exact",
        block_size: int = BLOCK_SIZE,
        neighbors: int | None = None,
        marginal_likelihood_weight: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            length_scale=length_scale,
            signal_std=signal_std,
            observation_noise=observation_noise,
            noise=noise,
            kernel=kernel,
            double_precision=True,
            marginal_likelihood_weight=marginal_likelihood_weight,
            # Points move with learnt scales, which the likelihood is to train.
            marginal_likelihood_trains="all",
            **kwargs,
        )
        self.trend = check_choice("trend", trend, tuple(TRENDS))
        self.amplitude = check_choice("amplitude", amplitude, AMPLITUDES)
        self._take_conditioning(conditioning, block_size, neighbors)

    def build(self, observations_shape: Any, query_shape: Any = None) -> None:
        dim, channels = self._built_for = self._check_shapes(observations_shape)
        self._build_prior(channels, each=self._own_noise)
        self.trend_size = TRENDS[self.trend](dim)
        self.log_trend_std = self.add_weight(
            name="log_trend_std", shape=(self.trend_size,), initializer="zeros"
        )
        self.log_dof = None
        if self.amplitude == "example":
            self.log_dof = self.add_weight(
                name="log_dof", shape=(), initializer=keras.initializers.Constant(np.log(_DOF))
            )
        for name, start in (("centre", "zeros"), ("unit", "ones")):
            weight = self.add_weight(name=name, shape=(dim,), initializer=start, trainable=False)
            setattr(self, name, weight)

    def call(self, observations: Observations, query: Tensor) -> dict[str, Tensor]:
        points, values, variance = self._unpack(observations)
        found = self._krige(self._problem((points, values, variance), query))
        mean, spread, residuals, factor, nll = (
            tf.cast(getattr(found, name), self.algebra_dtype)
            for name in ("mean", "variance", "residuals", "factor", "nll")
        )
        self._add_marginal_likelihood(nll, variance)
        self._check_finite(mean, spread)
        noise = tf.exp(2.0 * self._cast(self.log_observation_noise))
        noise = noise * factor
        return {"values": mean, "variance": spread, "noise": noise, "residuals": residuals}

    def covariance(self, observations: Observations, query: Tensor) -> Tensor:
        """Posterior covariances between the query points, [B, c, M, M] in float64."""
        problem = self._problem(self._unpack(observations), query)
        covariance = krige_covariance(*problem)
        if self.log_dof is None:
            return covariance
        factor = krige(*problem, dof=self._dof()).factor  # [B, 1, c]
        return covariance * tf.reshape(factor, [-1, covariance.shape[1], 1, 1])

    def likelihood(self, observed: Observed, basis: Tensor, trend_variance: Tensor) -> Tensor:
        """The negative log marginal likelihood of each channel, [B, c].

        Args:
            observed, basis, trend_variance: as in `tfpn.math.kriging.krige_likelihood`.
        """
        given = observed, basis, trend_variance, self._dof()
        if self.neighbourhoods is None:
            return krige_likelihood(*given)
        return krige_likelihood_near(self.neighbourhoods, *given)

    def _krige(self, problem: Any) -> Kriged:
        observed, query, basis, trend_variance = problem
        given = observed, query, basis, trend_variance, self._dof()
        if self.neighbourhoods is None:
            return krige(*given)
        return krige_near(self.neighbourhoods, *given)

    def _dof(self):
        if self.log_dof is None:
            return None
        return tf.exp(tf.cast(self.log_dof, tf.float64))

    def residuals(self, observations: Any) -> Array:
        """Readings minus the trend, [B, N, c] in float64; a few examples at a time."""
        examples, count, dim = observations["points"].shape
        near = self.neighbourhoods
        entries = count**2 if near is None else count * (near.block_size + near.halo(dim))
        size = max(1, _ENTRIES // entries)
        found = []
        for start in range(0, examples, size):
            one = {key: value[start : start + size] for key, value in observations.items()}
            problem = self._problem(self._unpack(one), one["points"][:, :1])
            found.append(np.asarray(self._krige(problem).residuals))
        return np.concatenate(found)

    def _problem(self, given: Any, query: Any) -> tuple[Any, Any, Any, Any]:
        """The arguments of `krige`, in float64."""
        observed = self._in_float64(*given)
        query = tf.cast(self._cast(query), tf.float64)
        basis = tuple(self.basis_at(places) for places in (observed.finite_points(), query))
        return observed, query, basis, tf.exp(2.0 * tf.cast(self.log_trend_std, tf.float64))

    def basis_at(self, places: Tensor) -> Tensor:
        """The trend's basis functions at places [..., d] in float64, [..., p]."""
        centre, unit = (tf.cast(weight, tf.float64) for weight in (self.centre, self.unit))
        return trend_basis(places, self.trend_size, centre, unit)

    def set_spacing(self, spacing: float) -> None:
        """Does nothing: this is the prior of the field, which `tfpn.models.field_start` finds."""

    def assign(
        self,
        *,
        length_scale: ArrayLike,
        signal_std: ArrayLike,
        noise: ArrayLike,
        trend_std: ArrayLike,
        centre: ArrayLike,
        unit: ArrayLike,
        dof: ArrayLike,
    ) -> None:
        """Sets all parameters; standard deviations and lengths are not logarithms."""
        weights: Any = (
            (self.log_length_scale, np.log(length_scale)),
            (self.log_signal_std, np.log(signal_std)),
            (self.log_observation_noise, np.log(noise)),
            (self.log_trend_std, np.log(trend_std)),
            (self.centre, centre),
            (self.unit, unit),
            (self.log_dof, np.log(dof)),
        )
        for weight, value in weights:
            if weight is None:
                continue
            weight.assign(np.broadcast_to(np.reshape(value, weight.shape), weight.shape))

    def compute_output_spec(self, observations: Observations, query: Tensor) -> Any:
        channels = observations["values"].shape[-1]
        spec = self._spec((*query.shape[:2], channels))
        spec["residuals"] = self._spec(observations["values"].shape)["values"]
        places = 1 if self.neighbourhoods is None else query.shape[1]
        spec["noise"] = self._spec((query.shape[0], places, channels))["values"]
        return spec

    def get_config(self) -> Config:
        config = {**super().get_config(), "trend": self.trend}
        config |= {"amplitude": self.amplitude, **self._conditioning_config()}
        for fixed in ("double_precision", "marginal_likelihood_trains"):
            config.pop(fixed)
        return config
