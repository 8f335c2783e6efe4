"""Fields at query points: the predictions of a model with ``output="field"``."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfpn.checks import check_count, check_flag, check_positive
from tfpn.math.uncertainty import UNCERTAINTY
from tfpn.models.conditioned import ConditionedField
from tfpn.models.field_refine import OwnPriors
from tfpn.models.field_start import STEPS, start_field
from tfpn.models.inputs import warn_of_squares
from tfpn.progress import Progress
from tfpn.types import Array, ArrayLike, Distribution, Mixin, Observations, Tensor, Verbose

# The largest number of query points times examples that are read out at once.
_AT_ONCE = 2**15
# The network starts from so many examples, evenly spread over all.
_EXAMPLES = 256


class FieldPrediction(Mixin):
    """Mix-in for a model whose ``_field`` is a `FieldPath`, or None if it predicts no field."""

    _field: Any = None

    @property
    def finite_variance(self) -> bool:
        """Whether `predict_distribution` works: whether the outputs have a finite variance."""
        return self._field is not None or super().finite_variance

    @property
    def length_scales(self) -> Array:
        """Length scales of the kriging prior in units of the points.

        They are [d], or [c, d] if each channel has its own prior.

        Raises:
            ValueError: for a model without output="field".
        """
        lengths = np.exp(np.asarray(self._need_field("length_scales").kriging.log_length_scale))
        dim = self.inputs_dict["points"].shape[-1]
        return lengths[..., None] / self._field.factors() * np.ones(dim)

    def predict_field(
        self,
        x: Observations,
        query: Tensor,
        *,
        noise: bool = True,
        joint: bool = False,
        own_prior: float | None = None,
        batch_size: int = 32,
        verbose: Verbose = "auto",
    ) -> Distribution:
        """Predicts the field at any points from readings.

        Args:
            x: the observations dict, without "query".
            query: points [B, M, d], or [1, M, d] for the same ones in all examples.
            noise: True for the variance of a reading at the point, with the noise that the model
                learnt; False for the variance of the field alone.
            joint: whether to give covariances between the query points. They take 40 bytes B c M^2
                when you first use them.
            own_prior: None for the model's prior. A number such as 0.5 gives each example its own
                prior: the standard deviation of its logarithms of length scales and standard
                deviations about the model's (`tfpn.models.field_refine`). This takes some tens of
                factorisations for each example, and predicts them one by one. It pays if examples
                of about a hundred readings differ in smoothness.
            batch_size: number of examples at a time.
            verbose: as in `adapt`.

        Returns:
            A `tfp.distributions.Normal` of batch shape [B, M, num_outputs]. With
            uncertainty="sampled" a `tfp.distributions.MixtureSameFamily` with a normal distribution
            for each draw. With ``joint`` a `tfpn.distributions.ProcessValues` of batch shape
            [B, num_outputs] and event shape [M]. It is normal, and for "sampled" has the mixture's
            covariance. The contributions of kriging and network count as independent.

        Raises:
            ValueError: for a model without output="field"; if ``x`` is not the model's input (keys,
                shapes, entries); if the query has another shape or is not finite; or for ``joint``
                with conditioning="local".
            TypeError: for anything but a dict.

        Example:

        >>> import numpy as np, tfpn
        >>> rng = np.random.default_rng(0)
        >>> x = tfpn.observations(rng.uniform(size=(1, 30, 2)), rng.normal(size=(1, 30)))
        >>> model = tfpn.models.PNCNN(
        ...     None, num_outputs=1, output="field", channels=4, num_blocks=1)
        >>> model.adapt(x)
        >>> query = rng.uniform(size=(1, 5, 2))
        >>> field = model.predict_field(x, query)
        >>> field.mean().shape, field.stddev().shape
        (TensorShape([1, 5, 1]), TensorShape([1, 5, 1]))
        >>> model.predict_field(x, query, joint=True).covariance().shape
        TensorShape([1, 1, 5, 5])
        """
        path = self._need_field("predict_field")
        check_flag("noise", noise)
        x, query = self._checked_with_query(x, query)
        if own_prior is not None:
            check_positive("own_prior", own_prior)
            if joint or self._way.draws:
                raise ValueError("own_prior goes with neither joint=True nor draws: leave it out.")
            return self._own_marginals(path, {**x, "query": query}, noise, own_prior, verbose)
        if check_flag("joint", joint):
            self._need_exact("joint=True")
            return self._joint_field(path, {**x, "query": query}, noise, verbose)
        return self._marginals({**x, "query": query}, noise, batch_size, verbose)

    def conditioned(self, x: Observations) -> ConditionedField:
        """The model with readings, to which you can add more without computing all anew.

        Args:
            x: the first readings, the observations dict.

        Returns:
            A `ConditionedField`, with ``update(points, values, variance)`` and ``predict(query)``.

        Raises:
            ValueError: for a model without output="field" or with conditioning="local"; if ``x`` is
                not the model's input.
            TypeError: for anything but a dict.

        Example:

        >>> import numpy as np, tfpn
        >>> x = tfpn.observations([[[0.0], [1.0], [2.0]]], [[0.0, 1.0, 0.0]])
        >>> model = tfpn.models.PNCNN(None, num_outputs=1, output="field", spatial_dim=1,
        ...     channels=2, num_blocks=1)
        >>> model.adapt(x)
        >>> field = model.conditioned(x)
        >>> before = field.predict([[3.0]]).stddev()
        >>> after = field.update([[3.0]], [[1.0]]).predict([[3.0]]).stddev()
        >>> bool(after < before)
        True
        """
        self._need_field("conditioned")
        self._need_exact("conditioned")
        return ConditionedField(self, x)

    def predict_distribution(
        self, x: Observations, batch_size: int = 32, verbose: Verbose = "auto"
    ) -> Distribution:
        """As `Predictive.predict_distribution`; with output="field" `predict_field` at x["query"].

        Args:
            x: the input dict.
            batch_size: examples at a time.
            verbose: as in `adapt`.

        Raises:
            ValueError: as in `Predictive.predict_distribution`.
        """
        if self._field is None:
            return super().predict_distribution(x, batch_size, verbose)
        return self._marginals(x, True, batch_size, verbose)

    def _marginals(self, x, noise, batch_size, verbose):
        import tensorflow_probability as tfp

        from tfpn.distributions.mixture import equal_mixture

        moments = self._read_field(x, check_count("batch_size", batch_size), verbose)
        mean, std = self._moments_in_units(moments, noise)
        values = moments["values"]
        dtype = values.dtype
        if not self._way.draws:
            return tfp.distributions.Normal(mean.astype(dtype), std.astype(dtype))
        unit, (factor, _) = self._unit()[1], self._factor_and_noise()
        draws = (moments[self._way.key] - values[:, None].astype(np.float64)) * unit
        draws = draws * np.sqrt(factor)
        # The part of each draw's variance that the spread of the draws does not hold.
        inner = np.maximum(np.square(std) - np.mean(np.square(draws), axis=1), 0.0)
        loc = np.moveaxis(mean[:, None] + draws, 1, -1).astype(dtype)
        scale = np.sqrt(inner)[..., None].astype(dtype) + np.zeros_like(loc)
        return equal_mixture(tfp.distributions.Normal(loc, scale))

    def _own_marginals(self, path, x, noise, spread, verbose):
        """`_marginals` with each example's own prior."""
        import tensorflow_probability as tfp

        priors = OwnPriors(path, spread)
        seen = np.isfinite(x["variance"])
        values, variance = path.units.apply(
            np.where(seen, x["values"], 0.0).astype(np.float64), x["variance"].astype(np.float64)
        )
        points = np.where(seen.any(-1, keepdims=True), x["points"], 0.0).astype(np.float64)
        found = []
        with Progress("predict", len(points), "examples", verbose) as progress:
            for k in range(len(points)):
                one = {key: np.asarray(array)[k : k + 1] for key, array in x.items()}
                own = priors.find((points[k : k + 1], values[k : k + 1], variance[k : k + 1]))
                with priors.lent(own):
                    found.append(self._moments_in_units(self._read_field(one, 1, 0), noise))
                progress.advance()
        dtype = self.compute_dtype
        mean, std = (np.concatenate(parts).astype(dtype) for parts in zip(*found, strict=True))
        return tfp.distributions.Normal(mean, std)

    def _moments_in_units(self, moments, noise):
        """Means and standard deviations in the targets' unit, calibrated, in float64."""
        factor, added = self._factor_and_noise()
        offset, unit = self._unit()
        variance = moments["variance" if noise else "latent"].astype(np.float64)
        variance = variance * np.square(unit) * factor + added * noise
        return moments["values"].astype(np.float64) * unit + offset, np.sqrt(variance)

    def _read_field(self, x, batch_size, verbose):
        """The moments at the query points, many of them piece by piece."""
        x = self._checked(x)
        if not isinstance(x, dict):
            return self._predicted(self._moments, x, batch_size, verbose)
        query = np.asarray(x["query"])
        axes = {self._way.key: 2}
        if not query.shape[1]:  # of which layers make nothing
            x = {**x, "query": np.zeros((len(query), 1, query.shape[2]), query.dtype)}
            found = self._predicted(self._moments, x, batch_size, verbose)
            return {key: np.take(array, [], axes.get(key, 1)) for key, array in found.items()}
        size = max(1, _AT_ONCE // max(1, min(batch_size, len(query))))
        if query.shape[1] <= size:
            return self._predicted(self._moments, x, batch_size, verbose)
        starts, parts = range(0, query.shape[1], size), []
        with Progress("predict", len(starts), "parts of the query", verbose) as progress:
            for start in starts:
                part = {**x, "query": query[:, start : start + size]}
                parts.append(self._predicted(self._moments, part, batch_size, verbose))
                progress.advance()
        return {key: np.concatenate([f[key] for f in parts], axes.get(key, 1)) for key in parts[0]}

    def _joint_field(self, path, x, noise, verbose):
        """A `ProcessValues` of kriging and network."""
        from tfpn.distributions.process_values import ProcessValues

        moments = self._read_field(x, 32, verbose)
        inputs = self.inputs_dict
        found = path.features_model(inputs)(
            {key: tf.convert_to_tensor(x[key], inputs[key].dtype) for key in inputs}
        )
        given, features = (
            {key[len(part) :]: found[key] for key in found if key.startswith(part)}
            for part in ("given_", "features_")
        )
        places = self._in_network(tf.cast(x["query"], given["points"].dtype))
        readout = self.get_layer("readout")
        outputs = moments["values"].shape[-1]
        factor, added = (np.broadcast_to(some, [outputs]) for some in self._factor_and_noise())
        offset, unit = (np.broadcast_to(some, [outputs]) for some in self._unit())
        latent, whole = (moments[key].astype(np.float64) for key in ("latent", "variance"))

        def channelwise(array):
            return np.moveaxis(array, -1, -2)

        scale = channelwise(np.broadcast_to(np.square(unit) * factor, latent.shape))
        variance = channelwise(whole if noise else latent) * scale + (added * noise)[:, None]

        def covariance():
            logs = readout(features, places)["values"][..., outputs:]
            root = tf.sqrt(tf.cast(path.sum.variance_factor(logs), tf.float64))
            root = tf.linalg.matrix_transpose(root)
            kernel = tf.square(tf.cast(path.sum.kernel, tf.float64))
            kriged = tf.einsum("bcmn,ca->bamn", path.kriging.covariance(given, places), kernel)
            total = kriged * root[..., None] * root[..., None, :]
            if UNCERTAINTY[self._config["uncertainty"]].has_variance:
                process = readout.process(features, places)
                total += tf.cast(process.covariance(), tf.float64)[:, :outputs]
            total *= scale[..., :1, None]
            extra = variance - channelwise(latent) * scale
            return total + tf.linalg.diag(tf.constant(extra))

        mean = channelwise(moments["values"].astype(np.float64) * unit + offset)
        prior = np.square(unit) * factor * np.maximum(latent.max(axis=(0, 1), initial=0.0), 1e-30)
        return ProcessValues(mean, variance, covariance, tf.constant(prior), self.name)

    @property
    def _body_inputs(self):
        # Kriging is in the layer that also takes the query.
        return super()._body_inputs if self._field is None else self.inputs_dict

    def _in_network(self, query):
        path = self._field
        return query if path is None or path.scale is None else path.scale(query)

    def _need_field(self, what):
        if self._field is None:
            raise ValueError(
                f"{what} works for models of fields only: build {type(self).__name__} with "
                "num_classes=None, num_outputs=... and output='field'."
            )
        return self._field

    def _need_exact(self, what):
        if self._config["conditioning"] != "exact":
            raise ValueError(
                f"{what} needs all readings of an example together, which conditioning='local' "
                "does not use: build the model with conditioning='exact'."
            )

    def _adapt_targets(self, data: Any, targets: ArrayLike | None) -> None:
        path = self._field
        # The outputs have the units of the input's channels, except outputs beyond them.
        if path is None or path.sum.outputs > self.inputs_dict["values"].shape[-1]:
            super()._adapt_targets(data, targets)

    def _start_first(self, layer, data, fit_prior, verbose):
        if self._field is None:
            super()._start_first(layer, data, fit_prior, verbose)
            return
        layer.adapt(data)
        # Values already have a unit of their own; kriging leaves less of them where it is better.
        layer.log_value_unit.assign(np.zeros(layer.log_value_unit.shape))
        if not fit_prior:
            return
        # It sees the same readings as kriging, so it starts from the prior of kriging.
        kriging = self._field.kriging
        for weight, found in (
            (layer.log_length_scale, kriging.log_length_scale),
            (layer.log_signal_std, kriging.log_signal_std),
            (layer.log_observation_noise, kriging.log_observation_noise),
        ):
            found, shape = np.asarray(found), tuple(weight.shape)
            weight.assign(np.broadcast_to(found if shape else found.mean(), shape))

    def _enter(self, data, fit_priors, verbose):
        """Starts all parts before the first convolution; returns the data for the convolution."""
        if self._field is None:
            return super()._enter(data, fit_priors, verbose)
        path, count = self._field, self._field.sum.outputs
        values = np.asarray(data["values"], np.float64)
        variance = np.asarray(data["variance"], np.float64)
        points = np.asarray(data["points"], np.float64)
        if not np.any(np.isfinite(variance)):
            raise ValueError("x holds no reading: there is nothing to start from.")
        values = np.where(np.isfinite(variance), values, np.nan)
        offset, scale = self._target_scale.channel_statistics(values)
        path.units.offset.assign(offset)
        path.units.scale.assign(scale)
        warn_of_squares(scale, self.inputs_dict["values"].dtype)
        kept = min(len(offset), count)
        for weight, given in (
            (self._target_scale.offset, offset),
            (self._target_scale.scale, scale),
        ):
            weight.assign(np.concatenate([given[:kept], np.asarray(weight)[kept:]]))
        values, variance = path.units.apply(values, variance)
        points = np.where(np.isfinite(variance).any(-1, keepdims=True), points, 0.0)
        standard = {"points": points, "values": np.nan_to_num(values), "variance": variance}
        with Progress("adapt", STEPS, "steps", verbose) as progress:
            start_field(
                standard, path.kriging, path.scale, fit=fit_priors, progress=progress.update
            )
        some = slice(None, None, -(-len(points) // _EXAMPLES))
        scaled = {key: array[some] for key, array in standard.items()}
        scaled["points"] = scaled["points"] * path.factors()
        return {**scaled, "values": path.kriging.residuals(scaled)}
