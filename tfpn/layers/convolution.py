"""The base of convolution layers: points of the result, and the start from data."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfpn.checks import check_positive
from tfpn.fitting import FittedPrior, fit_prior
from tfpn.layers.base import GPPosteriorLayer
from tfpn.math.missing import penalty
from tfpn.math.pieces import in_pieces, piece_length
from tfpn.spacing import point_spacing
from tfpn.types import Config, Observations, Tensor

# Initial length scale, drift step and diffusion radius, in units of the points' spacing.
LENGTH_PER_SPACING = 1.0
DRIFT_PER_SPACING = 1.0
DIFFUSION_PER_SPACING = 0.5
# The length in which flows are learnt. In units of one spacing an optimiser's steps are so short
# that drifts and diffusions hardly move in some hundred of them.
UNIT_PER_SPACING = 8.0


class GPConvolution(GPPosteriorLayer):
    """Base of `PNConv` and `SteerablePNConv`.

    Two stored numbers are not trained, so that the steps of an optimiser depend neither on the unit
    of the points nor on that of the values. The weights of the flows are in units of a length,
    ``exp(log_flow_unit)``, which is eight times the spacing. Those of the kernel are for values
    divided by ``exp(log_value_unit)``, which is 1 until `adapt` measures it, of each channel with a
    prior of its own. A subclass calls ``_build_units``, and sets its flows to their start by
    ``_reset_flows``.
    """

    def __init__(self, *, spacing: float, length_scale: float | None, **kwargs: Any) -> None:
        self.spacing = check_positive("spacing", spacing)
        if length_scale is None:
            length_scale = LENGTH_PER_SPACING * self.spacing
        super().__init__(length_scale=length_scale, **kwargs)

    def _build_units(self):
        self.log_flow_unit = self.add_weight(
            name="log_flow_unit",
            shape=(),
            initializer=keras.initializers.Constant(np.log(self.flow_unit(self.spacing))),
            trainable=False,
        )
        self.log_value_unit = self.add_weight(
            name="log_value_unit",
            shape=self.log_signal_std.shape,
            initializer="zeros",
            trainable=False,
        )

    def _per_unit(self, kernel):
        """Weights [..., channels, filters] of values from those of values in their units."""
        return self._cast(kernel) * tf.exp(-self._cast(self.log_value_unit))[..., None]

    def load_own_variables(self, store: Any) -> None:
        """Keras's; layers stored without units have those of points and values."""
        own = [*self._trainable_variables, *self._non_trainable_variables]
        lacking = len(own) - len(store)
        if lacking not in (1, 2) or own[-1] is not self.log_value_unit:
            super().load_own_variables(store)
            return
        for index, variable in enumerate(own[:-lacking]):
            variable.assign(store[f"{index}"])
        for unit in own[-lacking:]:
            unit.assign(np.zeros(unit.shape))

    def set_spacing(self, spacing: float) -> None:
        """Sets length scale, flows and their unit to the start values for ``spacing``."""
        spacing = self._check_length("spacing", spacing)
        length = np.log(self.length_scale * (spacing / self.spacing))
        self.log_length_scale.assign(np.broadcast_to(length, self.log_length_scale.shape))
        self.start_flows(spacing)

    def start_flows(self, spacing: float) -> None:
        """Sets flows and their unit to the start values for ``spacing``, and leaves the prior."""
        spacing = self._check_length("spacing", spacing)
        self.log_flow_unit.assign(np.log(self.flow_unit(spacing)))
        self._reset_flows()

    def flow_unit(self, spacing: float) -> float:
        """The length in which flows that start from ``spacing`` are learnt."""
        return UNIT_PER_SPACING * spacing

    def _check_query(self, shape, points_shape):
        batch, _, dim = points_shape
        if not tf.TensorShape(shape).is_compatible_with([batch, None, dim]):
            raise ValueError(
                f"{type(self).__name__} {self.name!r}: query has shape {tuple(shape)}; "
                f"expected [B, M, {dim}] for points {tuple(points_shape)}."
            )

    def adapt(self, data: Observations) -> None:
        """Sets the layer's scales, signal and noise level from data, before training.

        The spacing sets length scale and flows. It is the median distance of a point to its second
        nearest neighbour in the same example; on a lattice this is the step. The signal standard
        deviation and the unit of the values become the root mean square of the observed values.
        The observation noise (if there is one) moves in proportion.

        Args:
            data: the observations dict (NumPy or tensors) that this layer will take.

        Raises:
            ValueError: if no example has two distinct observed points, or if the layer's dtype
                cannot hold the square of the values.
        """
        data = {key: np.asarray(data[key]) for key in ("points", "values", "variance")}
        if not self.built:
            self.build({key: value.shape for key, value in data.items()})
        self.set_spacing(point_spacing(data["points"], data["variance"]))
        observed = np.isfinite(data["variance"])
        level = self._level(data["values"][observed])
        if level > 0.0:
            self._set_level(level)

    def _level(self, values):
        """The root mean square of observed values; refuses one whose square has no number."""
        largest = np.max(np.abs(values), initial=0.0).astype(np.float64)
        if largest == 0.0:
            return 0.0
        level = largest * np.sqrt(np.mean(np.square(values / largest, dtype=np.float64)))
        dtype = self.algebra_dtype
        low, high = (float(np.sqrt(getattr(np.finfo(dtype), end))) for end in ("tiny", "max"))
        if not low < level < high:
            raise ValueError(
                f"the values have the root mean square {level:.2g}, whose square {dtype} cannot "
                "hold: give the values in another unit."
            )
        return level

    def fit_prior(
        self, data: Observations, progress: Callable[[int], Any] | None = None
    ) -> FittedPrior:
        """Sets the prior's length scale, signal and noise by maximum marginal likelihood.

        Flows stay as they are. So does a prior that has too few readings to be fitted.

        Args:
            data: the observations dict (NumPy or tensors) that this layer will take.
            progress: as in `tfpn.fitting.fit_prior`.

        Returns:
            The result of `tfpn.fitting.fit_prior`.
        """
        priors, noises = self._prior_numbers(data["values"].shape[-1])
        found = fit_prior(
            *(np.asarray(data[key]) for key in ("points", "values", "variance")),
            priors=priors,
            noises=noises,
            kernel=self.prior_kernel,
            fit_noise=self.log_observation_noise is not None,
            progress=progress,
        )
        for weight, fitted in (
            (self.log_length_scale, found.length_scale),
            (self.log_signal_std, found.signal_std),
            (self.log_observation_noise, found.observation_noise),
        ):
            if weight is not None and fitted is not None:
                fitted = np.log(np.reshape(fitted, weight.shape))
                weight.assign(np.where(np.isnan(fitted), weight, fitted))
        return found

    def _prior_numbers(self, channels):
        """For each input channel the number of its prior and that of its noise."""
        each = range(channels) if self._own_noise else [0] * channels
        return [0] * channels, list(each)

    def _set_level(self, level):
        """Sets signal, unit and noise for values of the root mean square ``level``, or [c]."""
        for weight in (self.log_signal_std, self.log_value_unit):
            weight.assign(np.broadcast_to(np.log(level), weight.shape))
        if self.log_observation_noise is not None:
            noise = np.log(self.observation_noise / self.signal_std * level)
            shape = self.log_observation_noise.shape
            self.log_observation_noise.assign(np.broadcast_to(noise, shape))

    def get_config(self) -> Config:
        return {**super().get_config(), "spacing": self.spacing}

    def _targets(self, query, points, variance):
        """Points of the output as given, the same made finite, and a mark of padding.

        Returns:
            The output's points [B, M, d]; the same with zeros for what is not finite; and
            [B, M, 1], +inf at the input's points without any observed channel and 0 elsewhere.
        """
        if query is None:
            finite = tf.where(tf.math.is_finite(points), points, 0.0)
            return points, finite, self._padding_penalty(variance)
        self._check_query(query.shape, points.shape)
        query = self._cast(query)
        return query, query, tf.zeros_like(query[..., :1])

    def _in_pieces(self, convolved, points, query, training):
        """Mean, variance and marginal likelihood from ``convolved(query)``.

        Many query points are taken in pieces. Training takes them whole, because its gradient keeps
        all of them.
        """
        length = None if training else piece_length(*points.shape[:2])
        likelihoods: list[Tensor] = []

        def piece(query):
            mean, variance, _, nll = convolved(query)
            likelihoods[:] = [nll]  # the same for all
            return mean, variance

        mean, variance = in_pieces(piece, query, length)
        return mean, variance, likelihoods[0]

    def _padding_penalty(self, variance):
        """+inf at points without any observed channel, 0 elsewhere, [B, N, 1]."""
        if not self._own_noise:  # one channel stands for all
            return penalty(variance[..., :1])
        return penalty(tf.reduce_min(variance, axis=-1, keepdims=True))
