"""A field model that takes readings one after the other."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfpn.checks import check_flag
from tfpn.contract import KEYS, check_observations, check_query, observations, query_array
from tfpn.math.sequential import start
from tfpn.types import Array, ArrayLike, Distribution, Model, Observations


class ConditionedField:
    """A field model with readings that arrive one after the other, from ``model.conditioned(x)``.

    It keeps the results of kriging for N readings. So m more readings take about N^2 m operations
    instead of N^3. Predictions are those of `predict_field` with all readings. This holds for a
    model that was adapted but not trained. A trained network sees all readings anew by
    `predict_field`, so this saves nothing.

    The prior stays that of the model at the start. After ``adapt`` or ``fit``, condition it anew.

    Args:
        model: a model with ``output="field"``.
        x: the first readings, the observations dict.
    """

    def __init__(self, model: Model, x: Observations) -> None:
        self._model = model
        self._field = model._need_field("conditioned")
        inputs = model.inputs_dict
        self._dim, self._channels = (inputs[key].shape[-1] for key in ("points", "values"))
        x = self._checked({key: x[key] for key in KEYS if key in x} if isinstance(x, dict) else x)
        kriging = self._field.kriging
        observed = kriging._in_float64(*self._own(x))
        trend = tf.exp(2.0 * tf.cast(kriging.log_trend_std, tf.float64))
        self._sequence = start(
            observed.kernel,
            observed.observation_variance,
            trend,
            *(len(x["points"]), self._dim, self._channels, kriging._own_noise),
        )
        self._x: dict[str, Array] = {key: array[:, :0] for key, array in x.items()}
        self._append(x)

    @property
    def observations(self) -> dict[str, Array]:
        """All readings so far."""
        return dict(self._x)

    def update(
        self, points: ArrayLike, values: ArrayLike, variance: Any = None
    ) -> "ConditionedField":
        """Adds further readings of every example.

        Args:
            points: [B, m, d], or a list of B arrays [m_i, d], or [m, d] for a single example.
            values: [B, m, c] or a list like the points, NaN where nothing was read; or [m, c] for a
                single example, or [B, m] for a single channel.
            variance: variance of their noise, to which the model adds the noise that it learnt, as
                for `tfpn.observations`.

        Returns:
            The object itself.

        Raises:
            TypeError, ValueError: as `tfpn.observations`; for another number of examples.
        """
        if not _is_ragged(points) and np.ndim(points) == 2:
            points, values = np.asarray(points)[None], np.asarray(values)
            values = values[None] if values.ndim < 3 else values
            if np.ndim(variance) == 2:
                variance = np.asarray(variance)[None]
        new = self._checked(observations(points, values, variance))
        if len(new["points"]) != len(self._x["points"]):
            raise ValueError(
                f"points: found {len(new['points'])} examples, but the readings so far have "
                f"{len(self._x['points'])}; give some of each, values of NaN where there are none."
            )
        self._append(new)
        return self

    def predict(self, query: ArrayLike, *, noise: bool = True) -> Distribution:
        """Predicts readings at any points from all readings so far, as `predict_field` does.

        Args:
            query: [B, M, d], or [1, M, d] or [M, d] for the same points in all examples.
            noise: whether the variance is that of a reading (True) or of the field alone.

        Returns:
            A `tfp.distributions.Normal` of batch shape [B, M, num_outputs]. For a trained network
            with uncertainty="sampled" as in `predict_field`.

        Raises:
            ValueError: for a query of another shape, or that is not finite.
        """
        check_flag("noise", noise)
        query = query_array(query)
        query = query[None] if query.ndim == 2 else query
        examples = len(self._x["points"])
        if np.any(np.asarray(self._model.get_layer("readout").kernel)):
            return self._model.predict_field(self._x, query, noise=noise)
        dtype = self._model.inputs_dict["points"].dtype
        checked = check_query(query, examples=examples, spatial_dim=self._dim, dtype=dtype)
        if len(checked) != examples:
            checked = np.repeat(checked, examples, axis=0)
        return self._kriged(checked, noise)

    def _kriged(self, query, noise):
        import tensorflow_probability as tfp

        kriging, dtype = self._field.kriging, self._model.inputs_dict["points"].dtype
        count = query.shape[1]
        if not count:  # of which kernels make nothing
            query = np.zeros([len(query), 1, self._dim], query.dtype)
        places = tf.cast(self._scaled(query), tf.float64)
        mean, variance, factor = self._sequence.predict(
            places, kriging.basis_at(places), kriging._dof()
        )
        own = tf.exp(2.0 * tf.cast(kriging.log_observation_noise, tf.float64))
        kriged = {"values": mean, "variance": variance, "noise": (own * factor)[:, None]}
        kriged = {key: tf.cast(value, kriging.algebra_dtype) for key, value in kriged.items()}
        # The untrained network adds nothing.
        none = tf.zeros([*mean.shape[:2], 2 * self._field.sum.outputs], kriging.algebra_dtype)
        moments = self._field.sum(kriged, {"values": none, "variance": none})
        mean, std = self._model._moments_in_units(
            {key: np.asarray(value) for key, value in moments.items()}, noise
        )
        mean, std = (moment[:, :count].astype(dtype) for moment in (mean, std))
        return tfp.distributions.Normal(mean, std)

    def _append(self, x):
        points, values, variance = self._own(x)
        self._sequence = self._sequence.update(
            points, self._field.kriging.basis_at(points), values, variance
        )
        self._x = {key: np.concatenate([self._x[key], x[key]], axis=1) for key in KEYS}

    def _own(self, x):
        """Points, values and variances for kriging, in float64."""
        values, variance = self._field.units.apply(
            np.asarray(x["values"], np.float64), np.asarray(x["variance"], np.float64)
        )
        seen = np.isfinite(x["variance"]).any(-1, keepdims=True)
        points = self._scaled(np.where(seen, x["points"], 0.0))
        return tuple(tf.constant(np.asarray(t, np.float64)) for t in (points, values, variance))

    def _scaled(self, points):
        # The points get the dtype of the model's inputs.
        dtype = self._model.inputs_dict["points"].dtype
        return self._model._in_network(tf.convert_to_tensor(points, dtype))

    def _checked(self, x):
        x = check_observations(x, spatial_dim=self._dim, channels=self._channels)
        self._model._check_missing(x["variance"])
        return {key: np.asarray(x[key]) for key in KEYS}


def _is_ragged(points):
    """Whether points are a list of examples of unequal length."""
    return isinstance(points, (list, tuple)) and len({np.shape(example) for example in points}) > 1
