"""Classifier and regressor of sporadic multivariate time series."""

import warnings

import keras
import numpy as np
import tensorflow as tf

from tfpn.contract import KEYS
from tfpn.layers import ChannelMix, GPNormalization, PNConv, ProbReLU
from tfpn.layers.base import check_choice, check_count, check_positive
from tfpn.layers.pn_conv import UNCERTAINTY
from tfpn.math.conditioning import NOISE
from tfpn.models.head import integrate_features, linear_head, points_dtype, read_pooling
from tfpn.models.network import PNNetwork, check_outputs, first_examples, network_inputs
from tfpn.models.pncnn import PNCNN
from tfpn.models.predictive import joined
from tfpn.models.time_series_checks import check_statics, check_targets, read_query
from tfpn.models.time_series_inputs import (
    Beside,
    Context,
    DistinctPoints,
    FeatureSum,
    Joined,
    KnownSeries,
    QueryGrid,
    Readings,
)

MISSINGNESS = ("none", "counts", "intensity")
CONTEXT = ("head", "features", "both")

# Examples from which `adapt` starts the convolution of the readings.
_ADAPT_EXAMPLES = 256


@keras.saving.register_keras_serializable(package="tfpn")
class PNTimeSeriesClassifier(PNNetwork):
    """Classifier or regressor of time series whose channels are read at different times.

    The first convolution conditions each channel on the readings it has (`PNConv` with
    noise="channel") and is evaluated at one set of times for all channels, where its features are
    known with their variances. From there on it is a `PNCNN` in one dimension: ``num_blocks`` times
    [PNConv -> ProbReLU -> ChannelMix -> GPNormalization], the integral over the stay, and a linear
    head. The defaults are the paper's for PhysioNet 2012, but for the exact variance, a prior for
    each channel and the normalisation. A record's result does not depend on the order of its rows,
    on padding, or on whether readings of one time stand in one row or in several.

    Args:
        num_classes: number of logits, 2 for a yes or no; None for regression.
        num_outputs: number of regression outputs, with ``num_classes=None``.
        channels: width of the blocks.
        num_blocks: number of blocks.
        num_basis: basis operators in each convolution.
        in_channels: channels of the series.
        num_statics: numbers that are known of a record beside its series, 0 for none. The input
            then has the keys "statics" and "statics_variance" besides.
        query: times at which the blocks are evaluated: "union", all times at which the record has
            a reading, or a number of points in the middles of equal parts of ``pooling``, which
            costs the same for every record.
        missingness: what the network is told of when and how often was measured, which in
            medicine says much: "none"; "counts", log(1 + number of readings) of each channel; or
            "intensity", the indicators of readings as further series, known at all
            times of the record, by a convolution "conv_readings" whose features are added to the
            first one's.
        context: where statics and counts go: to the "head"; to the "features" of the first
            convolution, as constant series known exactly at all times, which a flow leaves as they
            are; or to "both".
        clock: adds the time itself as a further series known exactly, so that features can depend
            on when something happens.
        windows: number of equal parts of the stay over each of which the features are integrated
            for the head. With more than one the head sees what came first and what last; the
            parts' errors are then taken as independent.
        input_noise: "channel", or "shared" (one factorisation) if all channels are read together.
        input_prior: "channel" gives every channel a signal standard deviation and a length scale,
            "shared" all of them one of each.
        variance_estimator: as in `PNCNN`; "stochastic" needs ``input_prior="shared"``.
        num_probes, probes, seed: as in `PNCNN`.
        uncertainty, rank: as in `PNCNN`; "low_rank" and "joint" need ``input_noise="shared"``.
        normalization, spacing, observation_noise, feature_noise: as in `PNCNN`.
        marginal_likelihood_weight, marginal_likelihood_trains: as in `PNCNN`.
        pooling: the box ``(start, end)`` of the stay, in units of the points, or "space".
        dtype: policy of the layers, as in `PNCNN`.

    Input:
        The observations dict: points [B, N, 1], values and variance [B, N, in_channels]; with
        ``num_statics`` also statics and statics_variance [B, num_statics], the variance +inf where
        a static is unknown and 0 where it is known: a static has no noise.

    Output:
        Logits [B, num_classes] or outputs [B, num_outputs].

    Raises:
        ValueError: for bad arguments; for arrays in which a known static is NaN or infinite, or a
            static's variance is neither 0 nor +inf; and if `fit` or `evaluate` is given an array of
            labels or targets with NaN.
        tf.errors.InvalidArgumentError: for such statics in data sets and generators (not checked
            inside XLA-compiled functions).

    Example:

    >>> import keras, numpy as np, tfpn
    >>> rng = np.random.default_rng(0)
    >>> values = rng.normal(size=(8, 20, 3))
    >>> values[rng.uniform(size=values.shape) < 0.7] = np.nan  # not measured
    >>> x = tfpn.observations(rng.uniform(0, 48, size=(8, 20, 1)), values)
    >>> y = rng.integers(0, 2, size=8)
    >>> model = tfpn.models.PNTimeSeriesClassifier(
    ...     in_channels=3, channels=4, num_blocks=1, pooling=(0, 48), query=12)
    >>> model.adapt(x)
    >>> model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> history = model.fit(x, y, class_weight={0: 1.0, 1: 3.0}, verbose=0)
    >>> model.predict_proba(x).shape
    (8, 2)
    >>> model.input_process(x, np.linspace(0, 48, 5).reshape(1, 5, 1)).stddev().shape
    TensorShape([8, 3, 5])
    """

    def __init__(
        self,
        num_classes=2,
        *,
        num_outputs=None,
        channels=96,
        num_blocks=4,
        num_basis=5,
        in_channels=1,
        num_statics=0,
        query="union",
        missingness="none",
        context="head",
        clock=False,
        windows=1,
        input_noise="channel",
        input_prior="channel",
        variance_estimator="exact",
        num_probes=20,
        probes="rademacher",
        seed=None,
        uncertainty="diagonal",
        rank=8,
        normalization=True,
        spacing=0.1,
        observation_noise=0.1,
        feature_noise=0.1,
        marginal_likelihood_weight=1.0 / 20000.0,
        marginal_likelihood_trains="kernel",
        pooling=(0.0, 1.0),
        dtype=None,
        name=None,
        trainable=True,
    ):
        check_outputs(num_classes, num_outputs)
        if num_classes is None and num_outputs is None:
            raise ValueError("give num_classes, or num_outputs for regression: found None for both")
        check_choice("uncertainty", uncertainty, UNCERTAINTY)
        check_choice("input_noise", input_noise, NOISE)
        check_choice("missingness", missingness, MISSINGNESS)
        check_choice("context", context, CONTEXT)
        check_choice("input_prior", input_prior, NOISE)
        check_count("num_blocks", num_blocks)
        check_count("channels", channels)
        if num_statics:
            check_count("num_statics", num_statics)
        if feature_noise is not None:
            check_positive("feature_noise", feature_noise)
        pooling = read_pooling(pooling)
        query = read_query(query, pooling)
        windows = check_count("windows", windows)
        if pooling == "space" and (windows > 1 or clock):
            raise ValueError(
                f"windows={windows} or clock={clock} needs the box of the stay: give it as "
                "pooling=(start, end)."
            )
        if windows > 1 and uncertainty == "joint":
            raise ValueError(
                f"windows={windows} takes the windows' errors as independent, which "
                "uncertainty='joint' is not: give windows=1 or uncertainty='low_rank'."
            )
        policy = keras.dtype_policies.get(dtype)
        dtype = policy.name  # also where it came from the global policy, for reloading
        config = {k: v for k, v in locals().items() if k not in ("self", "__class__", "policy")}
        config.pop("trainable")

        def convolution(name, first, **arguments):
            return PNConv(
                channels,
                num_basis,
                spacing=spacing,
                observation_noise=observation_noise if first else feature_noise,
                uncertainty=uncertainty,
                rank=rank,
                marginal_likelihood_weight=marginal_likelihood_weight,
                marginal_likelihood_trains=marginal_likelihood_trains,
                dtype=dtype,
                name=name,
                **arguments,
            )

        inputs = network_inputs(1, check_count("in_channels", in_channels), points_dtype(policy))
        given, statics = inputs, None
        if num_statics:
            statics = {
                key: keras.Input((num_statics,), dtype=points_dtype(policy), name=key)
                for key in ("statics", "statics_variance")
            }
            inputs = {**inputs, **statics}
        times = None
        if query != "union":
            times = QueryGrid(*pooling, query, dtype=dtype, name="query")(given)
        convolution_inputs = {"conv_1": given}
        x = convolution(
            "conv_1",
            True,
            noise=input_noise,
            prior=input_prior,
            variance_estimator=variance_estimator,
            num_probes=num_probes,
            probes=probes,
            seed=seed,
        )(given, times)
        if missingness == "intensity":
            readings = Readings(dtype=dtype, name="readings")(given)
            convolution_inputs["conv_readings"] = readings
            others = convolution("conv_readings", True)(readings, times)
            x = FeatureSum(dtype=dtype, name="sum")(x, others)
        if times is None:
            x = DistinctPoints(dtype=dtype, name="distinct")(x, given)
        known = None
        if num_statics or missingness == "counts":
            known = Context(missingness == "counts", dtype=dtype, name="context")(given, statics)
        constant = None if context == "head" else known
        if constant is not None or clock:
            layer = KnownSeries(pooling if clock else None, dtype=dtype, name="known")
            x = layer(x, constant)
        for block in range(1, num_blocks + 1):
            if block > 1:
                convolution_inputs[f"conv_{block}"] = x
                x = convolution(f"conv_{block}", False)(x)
            x = ProbReLU(dtype=dtype, name=f"relu_{block}")(x)
            x = ChannelMix(channels, dtype=dtype, name=f"mix_{block}")(x)
            if normalization:
                x = GPNormalization(dtype=dtype, name=f"norm_{block}")(x)
        pooled = _pooled(
            x,
            pooling,
            windows,
            dtype=dtype,
            spacing=spacing,
            observation_noise=feature_noise,
            marginal_likelihood_weight=marginal_likelihood_weight / windows,
            marginal_likelihood_trains=marginal_likelihood_trains,
        )
        if known is not None and context != "features":
            pooled = Beside(dtype=dtype, name="beside")(pooled, known)
        units = num_classes if num_outputs is None else num_outputs
        outputs = linear_head(pooled, units, dtype)
        super().__init__(
            inputs,
            outputs,
            config=config,
            moments=pooled,
            calibrated=range(units) if num_outputs is not None and pooling != "space" else None,
            trainable=trainable,
        )
        self._convolution_inputs = convolution_inputs
        self._constant = constant

    def fit(self, x=None, y=None, *args, **kwargs):
        """As `PNCNN.fit`; labels or targets in an array must not be NaN."""
        check_targets(y)
        return super().fit(x, y, *args, **kwargs)

    def evaluate(self, x=None, y=None, *args, **kwargs):
        """As `PNCNN.evaluate`; labels or targets in an array must not be NaN."""
        check_targets(y)
        return super().evaluate(x, y, *args, **kwargs)

    def _check_query(self, x):
        """What the input holds beside the observations: statics, and no query."""
        if self._config["num_statics"]:
            check_statics(x, self._config["num_statics"])

    # The same words, of "conv_readings" too.
    feature_process = PNCNN.feature_process

    @property
    def pn_layers(self):
        """The layers that hold a GP prior, the one that takes the values first."""
        layers = super().pn_layers
        return sorted(layers, key=lambda layer: layer.name != "conv_1")

    def adapt(self, data):
        """As `PNCNN.adapt`; statics among the data are not read.

        With ``input_prior="channel"`` each channel starts with the spacing and the root mean
        square of its own readings. Where a grid of times is queried, the later layers start from
        its step.

        Args:
            data: the input dict, or a `tf.data.Dataset` as in `PNCNN.adapt`.

        Raises:
            ValueError: as `PNCNN.adapt`.

        Warns:
            UserWarning: if readings lie outside the box ``pooling``, and as `PNCNN.adapt`.
        """
        if isinstance(data, tf.data.Dataset):
            data = first_examples(data)
        super().adapt(data)
        data = {key: np.asarray(data[key]) for key in KEYS}
        pooling, query = self._config["pooling"], self._config["query"]
        if pooling != "space":
            times = data["points"][np.isfinite(data["variance"]).any(-1)]
            outside = np.mean((times < pooling[0]) | (times > pooling[1]))
            if outside > 0.0:
                warnings.warn(
                    f"{outside:.1%} of the points lie outside pooling={pooling}, over which the "
                    f"features are integrated; they reach from {times.min():g} to "
                    f"{times.max():g}: build the model with the box of the stay.",
                    stacklevel=2,
                )
        if self._config["missingness"] == "intensity":
            some = {key: array[:_ADAPT_EXAMPLES] for key, array in data.items()}
            self.get_layer("conv_readings").adapt(self.get_layer("readings")(some))
        if query != "union":
            step = (pooling[1] - pooling[0]) / query
            for layer in self.pn_layers:
                if layer.name not in ("conv_1", "conv_readings"):
                    layer.set_spacing(step)

    def input_process(self, x, query):
        """The Gaussian process that the first convolution fits to each input channel.

        It is the posterior of the channel itself, without the noise of its readings: mean and
        standard deviation at the query points are the fit and its band. The band is that of the
        priors as they were trained: with a small ``marginal_likelihood_weight`` they serve the
        task more than the fit, and the band is too narrow for readings that were left out. Readings
        taken for exact have the least noise that the convolution itself gives them in its dtype.

        Args:
            x: the input dict.
            query: points [B, M, 1], or [1, M, 1] for the same ones in all examples; any number.

        Returns:
            A `tfpn.distributions.ProcessValues` with batch shape [B, in_channels] and event shape
            [M], in float64.

        Raises:
            ValueError: for a query of another shape.

        Example:

        >>> import numpy as np, tfpn
        >>> x = tfpn.observations([[[0.2], [0.8]]], [[1.0, -1.0]])
        >>> model = tfpn.models.PNTimeSeriesClassifier(channels=2, num_blocks=1, spacing=0.2)
        >>> fit = model.input_process(x, [[[0.2], [0.5]]])
        >>> fit.mean().shape, bool(fit.stddev()[0, 0, 0] < fit.stddev()[0, 0, 1])
        (TensorShape([1, 1, 2]), True)
        """
        from tfpn.distributions.process_values import process_values

        layer = self.get_layer("conv_1")
        # In float64 from the start, for times that float32 does not resolve.
        points, values, variance = (tf.cast(x[key], tf.float64) for key in KEYS)
        query = tf.cast(query, tf.float64)
        if query.shape.rank == 3 and query.shape[0] == 1:
            query = tf.repeat(query, points.shape[0], axis=0)
        if not query.shape.is_compatible_with([points.shape[0], None, 1]):
            raise ValueError(
                f"query has shape {tuple(query.shape)}; expected [{points.shape[0]}, M, 1], or "
                "[1, M, 1] for the same points in all examples."
            )
        prior = layer._prior()
        prior.pop("marginal_likelihood_trains")
        itself = {
            "points": points,
            "weights": tf.ones([1, 1, 1], tf.float64),
            "drift": tf.zeros([1, 1], tf.float64),
            "diffusion": tf.zeros([1, 1, 1], tf.float64),
            "floor_dtype": layer.algebra_dtype,
        }
        each = [
            {
                **itself,
                **{
                    key: v[c] if tf.is_tensor(v) and v.shape.rank else v for key, v in prior.items()
                },
                "values": values[..., c : c + 1],
                "variance": variance[..., c : c + 1],
            }
            for c in range(values.shape[-1])
        ]
        source = f"{type(layer).__name__} {layer.name!r}"
        return process_values(each, query, dtype=tf.float64, source=source)

    def feature_maps(self, x, query):
        """As `PNCNN.feature_maps`, of the input dict with its statics."""
        parts = self._query_parts(x, query)
        wanted = dict(self._convolution_inputs)
        if self._constant is not None:
            wanted["known"] = self._constant
        self._check_keys(x)
        given = {key: tf.convert_to_tensor(x[key]) for key in self.inputs_dict}
        before = keras.Model(self.inputs_dict, wanted)(given)
        blocks = range(1, self._config["num_blocks"] + 1)
        return [joined([self._block_at(block, before, part) for part in parts]) for block in blocks]

    def _block_at(self, block, before, query):
        """A block's output at points, by the inputs of the convolutions ``before``."""
        name = f"conv_{block}"
        output = self.get_layer(name)(before[name], query)
        if block == 1 and "conv_readings" in before:
            others = self.get_layer("conv_readings")(before["conv_readings"], query)
            output = self.get_layer("sum")(output, others)
        if block == 1 and "known" in [layer.name for layer in self.layers]:
            output = self.get_layer("known")(output, before.get("known"))
        for part in ["relu", "mix"] + ["norm"] * self._config["normalization"]:
            output = self.get_layer(f"{part}_{block}")(output)
        return output


def _pooled(features, pooling, windows, **arguments):
    """The features' integrals over equal parts of the stay, as one dict."""
    if windows == 1:
        return integrate_features(features, pooling, name="pooling", **arguments)
    low, high = pooling
    unit = (high - low) / windows
    parts = [
        integrate_features(
            features,
            [low + unit * part, low + unit * (part + 1)],
            unit=unit,
            name=f"pooling_{part + 1}",
            **arguments,
        )
        for part in range(windows)
    ]
    return Joined(dtype=arguments["dtype"], name="joined")(parts)
