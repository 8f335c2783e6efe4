"""The predictions of a trained model: distributions of outputs and features."""

import functools
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfpn.checks import check_count, check_flag
from tfpn.contract import KEYS, check_query
from tfpn.math.uncertainty import UNCERTAINTY
from tfpn.models.normal_head import normal_prediction
from tfpn.models.shown import run_shown
from tfpn.models.temperature import calibrate_classifier
from tfpn.models.variance_fit import fit_variance
from tfpn.progress import Progress
from tfpn.ragged import numeric
from tfpn.types import (
    Array,
    ArrayLike,
    Distribution,
    DType,
    Mixin,
    Observations,
    Tensor,
    Verbose,
)

# float64 can hold the squares of smaller residuals, in units of the targets' scale, and their sums.
_LARGEST_RESIDUAL = 1e150


class Predictive(Mixin):
    """Mix-in for the models: outputs and features as distributions.

    TensorFlow Probability and SciPy's statistics are loaded when they are first needed: training
    needs neither, and they take time and memory.
    """

    # Runs a part of the model on checked data. `tfpn.exporting.FrozenModel` has a way of its own.
    _run = staticmethod(run_shown)

    @property
    def finite_variance(self) -> bool:
        """Whether `predict_distribution` works: whether the outputs have a finite variance."""
        bounded = self._config["pooling"] != "space" or self._way.keeps_over_space
        bounded |= self._config.get("output") == "normal"
        return bounded and self._has_head()

    def calibrate(
        self,
        x: Observations,
        y: ArrayLike,
        batch_size: int = 32,
        offsets: bool = False,
        verbose: Verbose = "auto",
    ) -> None:
        """Fits the predicted uncertainty to held-out targets or labels; saving keeps it.

        A classifier's logits are divided by one temperature T. With ``offsets`` a number b_k is
        then added for each class. The probabilities p_k become proportional to
        ``p_k^(1 / T) exp(b_k)``. T and b maximise the likelihood of the labels by `predict_proba`,
        with standard normal priors of log T and b, which weigh as much as about one example. Give
        tens of examples. From then on T and b enter the model's outputs (so its loss and metrics),
        `predict_proba` and `predict_distribution`.

        For each output of a regression model the predictive variance becomes
        ``factor * variance + noise``, where variance is the network's own. The two numbers maximise
        the likelihood of these data. (All components of a field that rotates share them.) From then
        on `predict_distribution` is a predictive distribution of targets.

        Args:
            x: the observations dict of data that the model was not trained on.
            y: class numbers [B]; or targets of the outputs' shape, [B, num_outputs] (or [B] for
                one output) or [B, M, channels] for fields; NaN where nothing was measured. For
                each output two numbers are fitted, so give tens of targets. A single target gives
                only its own distance from the prediction.
            batch_size: examples at a time.
            offsets: whether classes get their b_k, which may change the most probable class. Use it
                for a classifier trained with ``class_weight``, or on other shares of the classes
                than it will meet. Otherwise the temperature alone does better.
            verbose: as in `adapt`.

        Raises:
            TypeError: if the arguments have the wrong type.
            ValueError: if the model is neither a classifier of two or more classes nor a regression
                with a finite variance; if ``x`` is not its input; if labels are not class numbers;
                if a regression is given ``offsets``; if targets have another shape or are infinite;
                if an output has no target; if the model predicts all targets of an output to the
                last digit; or if a target is so far from the prediction that the model's dtype
                cannot hold the deviation.
        """
        if self._calibration is None and self._temperature is None:
            raise ValueError(
                "calibrate needs a classifier of two or more classes, or a regression model with a "
                "finite variance: build it with num_classes=2 or more, or with num_classes=None, "
                "num_outputs=... and a box, disc or ball as its pooling."
            )
        if not isinstance(x, dict):
            raise TypeError(f"x must be the model's input dict, found {type(x).__name__}.")
        self._check_keys(x)
        x = self._check_query(x)
        offsets = check_flag("offsets", offsets)
        if self._temperature is not None:
            calibrate_classifier(self, x, y, batch_size, offsets, verbose)
            return
        if offsets:
            raise ValueError("offsets=True is for classifiers; a regression has no classes.")
        try:
            targets = np.asarray(y, np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"y must be an array of numbers: {error}.") from error
        outputs = len(self._calibrated)
        # One output's targets may come without the last axis.
        query = [np.shape(x["query"])[1]] if "query" in self.inputs_dict else []
        expected = (len(x["points"]), *query, outputs)
        if outputs == 1 and targets.shape == expected[:-1]:
            targets = targets[..., None]
        if targets.shape != expected or np.any(np.isinf(targets)):
            raise ValueError(
                f"y must hold finite numbers (or NaN, not measured) of shape {expected}, found "
                f"shape {np.shape(y)}."
            )
        blocks = np.broadcast_to(self._calibrated, targets.shape)
        chosen = [
            np.isfinite(targets) & (blocks == block) for block in range(self._calibration.shape[1])
        ]
        empty = [block for block, entries in enumerate(chosen) if not entries.any()]
        if empty:
            raise ValueError(
                f"y holds no example to calibrate on for the output(s) {empty} (counted from 0; a "
                "field's components count as one): give held-out data."
            )
        before = self._calibration.numpy()
        self._calibration.assign(not_calibrated(before.shape, before.dtype))
        try:
            predicted = self.predict_distribution(x, batch_size=batch_size, verbose=verbose)
            mean, deviations = (
                np.asarray(found, np.float64) for found in (predicted.mean(), predicted.stddev())
            )
            # The unit is the outputs' scale, whose square may overflow.
            unit = np.broadcast_to(np.abs(self._unit()[1]), targets.shape)
            residuals, variances = (targets - mean) / unit, np.square(deviations / unit)
            limits = np.finfo(before.dtype)
            smallest, units = np.sqrt(limits.tiny), []
            for block, entries in enumerate(chosen):
                units.append(unit[entries][0])  # one for all of a field
                largest = np.abs(residuals[entries]).max()
                if not largest < min(_LARGEST_RESIDUAL, limits.max / units[-1]):
                    raise ValueError(
                        f"y is up to {largest * units[-1]:.3g} from what the model predicts for "
                        f"output {block} (counted from 0; a field's components count as one), a "
                        f"deviation that {before.dtype} does not hold: look for wrong entries."
                    )
                if largest < smallest:
                    raise ValueError(
                        f"y holds what the model predicts for output {block} (counted from 0; a "
                        "field's components count as one), so there is no spread to fit: give "
                        "measured targets that are held out from training."
                    )
            fitted = [fit_variance(residuals[some], variances[some]) for some in chosen]
            after = np.stack(fitted, axis=1)
            after[1] += 2.0 * np.log(units)
        except Exception:
            self._calibration.assign(before)
            raise
        self._calibration.assign(after)

    def _factor_and_noise(self):
        """Factor and noise of each output in float64; without a calibration 1 and 0."""
        if self._calibration is None:
            return 1.0, 0.0
        return np.exp(np.asarray(self._calibration, np.float64))[:, list(self._calibrated)]

    def _predicted(self, network, x, batch_size, verbose):
        """The outputs of this model or a part of it, after checks."""
        x = self._checked(x)
        self._warn_of_readings(x, stacklevel=3)
        return self._run(network, x, check_count("batch_size", batch_size), verbose)

    def predict_distribution(
        self, x: Observations, batch_size: int = 32, verbose: Verbose = "auto"
    ) -> Distribution:
        """The outputs as jointly normal variables, or as a mixture of them.

        The covariance is that of the pooled features through the head's linear map. "diagonal"
        takes the pooled channels as independent, "low_rank" and "joint" do not. With "sampled" the
        distribution is the mixture of the draws' outputs, with its mean and covariance
        (`tfpn.distributions.mixture`). Over the whole space it then says how far the draws differ,
        and nothing of the integral beyond them. The distribution holds what the network does not
        know of the signal. It holds no noise of the targets: a regression model predicts targets
        after `calibrate`. With output="normal" it holds the outputs' own variances: independent
        normal variables, also with "sampled".

        Args:
            x: the observations dict.
            batch_size: examples at a time.
            verbose: as in `adapt`.

        Returns:
            A `tfp.distributions.MultivariateNormalTriL`, or with "sampled" a
            `tfp.distributions.MixtureSameFamily`. It can be pickled and has the batch shape [B] and
            the event shape [num_classes or num_outputs].

        Raises:
            ValueError: if the model pools over the whole space, where the variance is infinite, or
                has no head; if "sampled" has one draw; if ``x`` is not the model's input (keys,
                shapes, entries), has no example, or ``batch_size`` is not a positive whole number.
        """
        from tfpn.distributions.mixture import smoothed_mixture
        from tfpn.distributions.multivariate_normal import multivariate_normal

        if self._config.get("output") == "normal":
            return normal_prediction(self, x, batch_size, verbose)
        way = self._way
        if self._config["pooling"] == "space" and not way.keeps_over_space:
            raise ValueError(
                "pooling='space' integrates over all of space, so the outputs' variance is "
                "infinite; build the model with pooling=(low, high), the box of the data."
            )
        if not self._has_head():
            raise ValueError("this model has no head: give num_classes or num_outputs.")
        if way.draws and self._config["num_samples"] < 2:
            raise ValueError("num_samples=1: one draw has no spread; build the model with more.")
        pooled = self._predicted(self._moments, x, batch_size, verbose)
        kernel, bias = (np.asarray(w, np.float64) for w in (self._head.kernel, self._head.bias))
        covariance = np.swapaxes(kernel, -2, -1) @ way.joint_covariance(pooled) @ kernel
        offset, units = self._unit()
        noise = np.zeros([1, 1])
        if self._calibration is not None:
            factor, variance = self._factor_and_noise()
            noise = np.diag(variance / np.square(units))
            covariance = covariance * np.sqrt(factor[:, None] * factor)
        dtype = pooled["values"].dtype
        loc = (pooled["values"] @ kernel + bias) * units + offset
        units = np.broadcast_to(units, bias.shape)
        if way.draws:
            draws = (pooled[way.key] - pooled["values"][:, None]) @ kernel
            if self._calibration is not None:
                draws = draws * np.sqrt(factor)
            return smoothed_mixture(
                loc.astype(dtype), draws * units, covariance, noise, units=units
            )
        covariance = covariance + noise
        return multivariate_normal(loc.astype(dtype), covariance.astype(dtype), units=units)

    def predict_proba(
        self,
        x: Observations,
        batch_size: int = 32,
        num_points: int = 256,
        verbose: Verbose = "auto",
    ) -> Array:
        """Class probabilities [B, num_classes]: the softmax averaged over the logits' distribution.

        The average is over `predict_distribution`, by the same ``num_points`` quasi-random points
        for every example, so it is deterministic. `calibrate` acts on these averages. There are two
        exceptions, for which the result is the softmax of the logits themselves: pooling="space",
        whose logits have no finite variance, and "sampled", whose logits are those of the mean.

        Args:
            x: the observations dict.
            batch_size: examples at a time.
            num_points: number of points, best a power of 2.
            verbose: as in `adapt`.

        Raises:
            ValueError: if the model is not a classifier of two or more classes.
        """
        from scipy import special, stats

        if (self._config["num_classes"] or 0) < 2:
            raise ValueError(
                "predict_proba needs a classifier of at least two classes, found num_classes="
                f"{self._config['num_classes']}: build the model with num_classes=2 or more."
            )
        if self._way.draws or not self.finite_variance:
            return special.softmax(self._predicted(self, x, batch_size, verbose), axis=-1)
        logits = self.predict_distribution(x, batch_size=batch_size, verbose=verbose)
        temperature, offsets = self._temperature.numbers  # the average is over logits before them
        loc, factor = logits.loc.numpy(), temperature * logits.scale_tril.numpy()
        loc = temperature * (loc - offsets.astype(loc.dtype))
        normal = stats.qmc.MultivariateNormalQMC(np.zeros(loc.shape[-1]), seed=0)
        points = normal.random(check_count("num_points", num_points)).astype(loc.dtype)
        total = np.zeros_like(loc)
        for point in points:
            total += special.softmax(loc + factor @ point, axis=-1)
        return self._temperature.calibrated(total / len(points))

    @property
    def _way(self):
        """The network's strategy of uncertainty."""
        return UNCERTAINTY[self._config["uncertainty"]]()

    def _has_head(self):
        return self._head is not None

    @functools.cached_property
    def _moments(self):
        """The network up to the pooling: a dict of means, variances and the strategy's tensor."""
        return keras.Model(self.inputs_dict, self._moments_output)

    def feature_maps(
        self, x: Observations, query: Tensor, verbose: Verbose = "auto"
    ) -> list[dict[str, Array]]:
        """Each block's output as a Gaussian at any points, for figures and inspection.

        Args:
            x: the observations dict.
            query: points [B, M, d], or [1, M, d] for the same ones in all examples. Only the
                results need memory that grows with their number.
            verbose: as in `adapt`.

        Returns:
            A list of ``num_blocks`` dicts of points, values and variance at the query points, in
            inference mode.

        Raises:
            ValueError: if ``x`` is not the model's input (keys, shapes, entries), or the query has
                another shape or is not finite.
            TypeError: for anything but a dict.
        """
        x, query = self._checked_with_query(x, query)
        query = tf.convert_to_tensor(query, self.inputs_dict["points"].dtype)
        query = self._in_network(query)
        size = self._way.query_points(self._config.get("channels", 1)) or max(query.shape[1], 1)
        examples, count, dim = query.shape
        if not count:  # layers do not take an empty query
            query = tf.zeros([examples, 1, dim], query.dtype)
        parts = [query[:, start : start + size] for start in range(0, query.shape[1], size)]
        before = self._before_blocks
        given = before({key: tf.convert_to_tensor(x[key]) for key in before.input})
        blocks, maps = self._blocks_by_name, []
        with Progress("feature maps", len(blocks) * len(parts), "parts", verbose) as progress:
            for name, block in blocks.items():
                found = []
                for part in parts:
                    found.append(block(given[name], part))
                    progress.advance()
                maps.append(_joined(found, count))
        return maps

    def _checked_with_query(self, x, query):
        """Checks the input dict as `predict` does; returns it and query points [B, M, d].

        For a field model without a query in the input, the query points take its place.
        """
        query = numeric("query", query)
        if isinstance(x, dict) and "query" in self.inputs_dict:
            points = np.shape(x.get("points", query))
            given = query
            if query.ndim == 3 and len(query) == 1:
                given = np.broadcast_to(query, (*points[:1], *query.shape[1:]))
            x = {"query": given, **x}
        x = self._checked(x)
        if not isinstance(x, dict):
            raise TypeError(f"x must be the model's input dict, found {type(x).__name__}.")
        examples, dim = len(x["points"]), self.inputs_dict["points"].shape[-1]
        if query.ndim == 3 and len(query) == 1:
            query = np.repeat(query, examples, axis=0)
        if query.ndim != 3 or query.shape[::2] != (examples, dim):
            raise ValueError(
                f"query has shape {query.shape}; expected [{examples}, M, {dim}], or "
                f"[1, M, {dim}] for the same points in all examples."
            )
        return x, check_query(query, examples=examples, spatial_dim=dim)

    @functools.cached_property
    def _before_blocks(self):
        """The network up to each block's input."""
        return keras.Model(
            self._body_inputs, {name: block.given for name, block in self._blocks_by_name.items()}
        )

    @property
    def _body_inputs(self):
        """The symbolic inputs of the part before the last block."""
        return {key: tensor for key, tensor in self.inputs_dict.items() if key != "query"}

    def _in_network(self, query):
        """Query points in the coordinates of the blocks."""
        return query

    @property
    def _blocks_by_name(self):
        return {block.convolution.name: block for block in self.blocks}


def _joined(outputs, count):
    """Joins observations dicts of ``count`` points each: only points, values and variance."""
    return {key: tf.concat([output[key] for output in outputs], axis=1)[:, :count] for key in KEYS}


def not_calibrated(shape: Any, dtype: DType) -> Any:
    """Logarithms for the network's variance as it is, without noise."""
    return tf.concat(
        [tf.zeros([1, *shape[1:]], dtype), tf.fill([1, *shape[1:]], tf.constant(-np.inf, dtype))], 0
    )
