"""Classifier and regressor of sporadic multivariate time series."""

from typing import Any, Literal

import keras

from tfpn.checks import check_count
from tfpn.layers import PNConv
from tfpn.layers.conditioning import BLOCK_SIZE, CONDITIONED
from tfpn.layers.prob_activation import activation_config, is_linear
from tfpn.math.kernels import kernel_config
from tfpn.math.uncertainty import UNCERTAINTY
from tfpn.models.arguments import check_arguments
from tfpn.models.blocks import channel_block
from tfpn.models.field_path import FieldPath, read_field
from tfpn.models.fields import FieldPrediction
from tfpn.models.head import points_dtype, pooled_outputs, pooling_layers, read_pooling
from tfpn.models.inputs import network_inputs
from tfpn.models.network import PNNetwork
from tfpn.models.pncnn import PNCNN
from tfpn.models.query_grid import QueryGrid, grid
from tfpn.models.time_series_block import SporadicBlock
from tfpn.models.time_series_checks import (
    check_choices,
    check_statics,
    check_windows,
    read_query,
)
from tfpn.models.time_series_inputs import (
    Beside,
    Context,
    EntryWeights,
    Faded,
    FeatureSum,
    Joined,
    KnownSeries,
    Readings,
    statics_inputs,
)
from tfpn.models.time_series_process import InputProcess
from tfpn.models.time_series_start import WIDTH, TimesStart
from tfpn.types import (
    ActivationLike,
    DType,
    KernelLike,
    Pooling,
    VarianceEstimator,
)


@keras.saving.register_keras_serializable(package="tfpn")
class PNTimeSeries(FieldPrediction, InputProcess, TimesStart, PNNetwork):
    """Model of time series whose channels are read at different times: classes, numbers, fields.

    The first convolution conditions each channel on its own readings (`PNConv` with
    noise="channel"). It evaluates all channels at one set of times, where its features are known
    with their variances. The rest is a `PNCNN` in one dimension: ``num_blocks`` times [PNConv ->
    ProbReLU -> ChannelMix -> GPNormalization], the integral over the stay, and a linear head. The
    defaults are small, for tens to hundreds of series. The paper's model for the thousands of
    PhysioNet 2012 is ``channels=96, num_blocks=4, query="union"``. The result of a record does not
    depend on padding, on the order of its rows, or on whether readings of one time stand in one
    row or in several. It changes continuously with the times: two times merge gradually within a
    hundredth of the shortest length scale from which `adapt` starts (`tfpn.math.readings`).

    Args:
        num_classes: number of logits, 2 for a yes or no; None for regression.
        num_outputs: number of regression outputs, with ``num_classes=None``; with output="field"
            the channels of the series to predict.
        output, trend, amplitude, kriging_kernel: as in `PNCNN`; "field" predicts the channels at
            the times of a further input "query" [B, M, 1]. Statics then go to the features.
        channels: width of the blocks.
        num_blocks: number of blocks.
        num_basis: basis operators in each convolution.
        in_channels: channels of the series.
        num_statics: how many numbers you know of a record beside its series, 0 for none. The input
            then also has the keys "statics" and "statics_variance".
        query: times at which the blocks are evaluated: "union", all times at which the record has
            a reading; or a number of points, in the middles of equal parts of ``pooling``, which
            costs the same for every record. None takes 24 in a box, and "union" without one.
        missingness: what the network learns about when and how often something was measured. In
            medicine this says much. "none"; "counts", log(1 + number of readings) of each channel;
            or "intensity": the indicators of readings become further series, known at all times of
            the record. A convolution "conv_readings" takes them, and its features are added to
            those of the first one.
        context: where statics and counts go: to the "head"; to the "features" of the first
            convolution, as constant series known exactly at all times, which no flow changes; or to
            "both".
        clock: adds the time itself as a series known exactly, so that features can depend on when
            something happens.
        windows: number of equal parts of the stay. The features are integrated over each part for
            the head. With more than one part, the head sees what came first and what last. The
            errors of the parts then count as independent.
        input_noise: "channel", or "shared" (one factorisation) if all channels are read together.
        input_prior: "channel" gives each channel its own signal standard deviation and length
            scale; with "shared" all channels have the same ones.
        variance_estimator: as in `PNCNN`; "stochastic" needs ``input_prior="shared"``.
        num_probes, seed: as in `PNCNN`.
        uncertainty, rank: as in `PNCNN`; "low_rank" and "joint" need ``input_noise="shared"``.
        num_samples, num_training_samples, num_waves: for "sampled", as in `PNCNN`.
        activation, normalization, kernel, spacing, observation_noise, feature_noise: as in `PNCNN`.
        conditioning, block_size, neighbors: as in `PNCNN`.
        marginal_likelihood_weight: as in `PNCNN`. With less than 0.1 the priors follow the task,
            and the bands of `input_process` become too narrow.
        pooling: the box ``(start, end)`` of the stay, in units of the points, or "space".
        dtype: policy of the layers, as in `PNCNN`.

    Input:
        The observations dict: points [B, N, 1], values and variance [B, N, in_channels]; with
        ``num_statics`` also statics and statics_variance [B, num_statics], the variance +inf where
        a static is unknown and 0 where it is known: a static has no noise.

    Output:
        Logits [B, num_classes] or outputs [B, num_outputs]; means and variances with
        output="normal", [B, num_outputs, 2], and with output="field", [B, M, num_outputs, 2].

    Raises:
        ValueError: for bad arguments; for arrays in which a known static is NaN or infinite, or a
            static's variance is neither 0 nor +inf.
        tf.errors.InvalidArgumentError: for such statics in data sets and generators (not checked
            inside XLA-compiled functions).

    Example:

    >>> import keras, numpy as np, tfpn
    >>> rng = np.random.default_rng(0)
    >>> values = rng.normal(size=(8, 20, 3))
    >>> values[rng.uniform(size=values.shape) < 0.7] = np.nan  # not measured
    >>> x = tfpn.observations(rng.uniform(0, 48, size=(8, 20, 1)), values)
    >>> y = rng.integers(0, 2, size=8)
    >>> model = tfpn.models.PNTimeSeries(
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
        num_classes: int | None = 2,
        *,
        num_outputs: int | None = None,
        output: Literal["pooled", "normal", "field"] = "pooled",
        trend: Literal["none", "constant", "linear"] = "constant",
        amplitude: Literal["shared", "example"] = "shared",
        kriging_kernel: KernelLike | None = None,
        channels: int = 32,
        num_blocks: int = 2,
        num_basis: int = 5,
        in_channels: int = 1,
        num_statics: int = 0,
        query: int | Literal["union"] | None = None,
        missingness: Literal["none", "counts", "intensity"] = "none",
        context: Literal["head", "features", "both"] = "head",
        clock: bool = False,
        windows: int = 1,
        input_noise: str = "channel",
        input_prior: str = "channel",
        variance_estimator: VarianceEstimator = "exact",
        num_probes: int = 20,
        seed: int | None = None,
        uncertainty: str = "diagonal",
        rank: int = 8,
        num_samples: int = 16,
        num_training_samples: int = 1,
        num_waves: int = 128,
        activation: ActivationLike = "relu",
        normalization: bool = True,
        kernel: KernelLike = "rbf",
        spacing: float = 0.1,
        observation_noise: float | None = 0.1,
        feature_noise: float | None = 0.1,
        conditioning: Literal["exact", "local"] = "exact",
        block_size: int = BLOCK_SIZE,
        neighbors: int | None = None,
        marginal_likelihood_weight: float = 0.1,
        pooling: Pooling = (0.0, 1.0),
        dtype: DType | None = None,
        name: str | None = None,
        trainable: bool = True,
    ) -> None:
        config = check_arguments(
            UNCERTAINTY,
            num_classes=num_classes,
            num_outputs=num_outputs,
            uncertainty=uncertainty,
            input_noise=input_noise,
            feature_noise=feature_noise,
            conditioning=conditioning,
            block_size=block_size,
            neighbors=neighbors,
            num_blocks=num_blocks,
            channels=channels,
        )
        if num_classes is None and num_outputs is None:
            raise ValueError("give num_classes, or num_outputs for regression: found None for both")
        if num_statics:
            check_count("num_statics", num_statics)
        box: Any = read_pooling(pooling)
        query = read_query(query, box)
        windows = check_count("windows", windows)
        beside = bool(num_statics) or missingness == "counts"
        config |= read_field(
            output, num_outputs, observation_noise, 1, False, trend, amplitude, kriging_kernel,
            windows=(windows, 1), context=(context if beside else "features", "features"),
        )  # fmt: skip
        del config["ard"]  # one dimension does not need it
        policy = keras.dtype_policies.get(dtype)
        dtype = policy.name  # the name reloads even if it came from the global policy
        carried: dict[str, Any] = {
            "uncertainty": uncertainty,
            "rank": rank,
            "num_samples": num_samples,
            "num_training_samples": num_training_samples,
            "num_waves": num_waves,
        }
        config |= {
            "num_basis": num_basis,
            "in_channels": in_channels,
            "num_statics": num_statics,
            "query": query,
            "missingness": missingness,
            "context": context,
            "clock": clock,
            "windows": windows,
            "input_prior": input_prior,
            "variance_estimator": variance_estimator,
            "num_probes": num_probes,
            "seed": seed,
            **carried,
            "activation": activation_config(activation),
            "normalization": normalization,
            "kernel": kernel_config(kernel),
            "spacing": spacing,
            "observation_noise": observation_noise,
            "marginal_likelihood_weight": marginal_likelihood_weight,
            "pooling": box,
            "dtype": dtype,
            "name": name,
        }
        check_choices(config)
        check_windows(config)
        prior = {
            "kernel": kernel,
            "spacing": spacing,
            **{name: config[name] for name in CONDITIONED},
            "dtype": dtype,
        }

        def convolution(name, stream, first=False, filters=channels, **arguments):
            return PNConv(
                filters,
                num_basis,
                observation_noise=observation_noise if first else feature_noise,
                double_precision=first,
                train_bias=name == "readout" or not (normalization and is_linear(activation)),
                seed=seed,
                stream=stream,
                marginal_likelihood_weight=marginal_likelihood_weight,
                name=name,
                **prior,
                **carried,
                **arguments,
            )

        def block(number, convolution, **arguments):
            return channel_block(
                number,
                convolution,
                channels,
                activation=activation,
                normalization=normalization,
                dtype=dtype,
                **arguments,
            )

        inputs = network_inputs(
            1, check_count("in_channels", in_channels), points_dtype(policy), output == "field"
        )
        observations, statics, field = inputs, None, None
        if output == "field":
            field = FieldPath(config)
            observations = field.enter(inputs)
        if num_statics:
            statics = statics_inputs(num_statics, points_dtype(policy))
            inputs = {**inputs, **statics}
        times = None
        if query != "union":
            times = QueryGrid(grid(box, 1, query)[0], dtype=dtype, name="times")(observations)
        first = block(
            1,
            convolution(
                "conv_1",
                1,
                first=True,
                noise=input_noise,
                prior=input_prior,
                variance_estimator=variance_estimator,
                num_probes=num_probes,
            ),
            kind=SporadicBlock,
        )
        given, weights = {"observations": observations}, None
        if times is None or missingness == "intensity":
            weights, widths = EntryWeights(WIDTH * spacing, dtype=dtype, name="entry_weights")(
                observations
            )
        if missingness == "intensity":
            readings = Readings(dtype=dtype, name="readings")
            given["readings"] = readings(observations, weights, widths)
            first.readings = convolution("conv_readings", num_blocks + windows + 1, first=True)
            first.add = FeatureSum(dtype=dtype, name="sum")
        if times is not None:  # the grid repeats no time
            weights = None
        known = None
        if num_statics or missingness == "counts":
            counts = missingness == "counts"
            known = Context(counts, dtype=dtype, name="context")(observations, statics)
        if context != "head" and known is not None:
            given["constant"] = known
        if "constant" in given or clock:
            first.known = KnownSeries(box if clock else None, dtype=dtype, name="known")

        def distinct(features, name):
            return features if weights is None else Faded(dtype=dtype, name=name)(features, weights)

        blocks = [first]
        x = first.connect(given, times, weights)
        for number in range(2, num_blocks + 1):
            blocks.append(block(number, convolution(f"conv_{number}", number)))
            x = blocks[-1].connect(distinct(x, f"distinct_{number}"), weights=weights)
        x = distinct(x, "distinct")
        pools: list[Any] = [None]
        head: Any = None
        if field is not None:
            filters = 2 * field.sum.outputs
            readout = convolution(
                "readout", num_blocks + 1, filters=filters, kernel_initializer="zeros"
            )
            moments, outputs = field.leave(x, readout)
            calibrated: Any = range(field.sum.outputs)
        else:
            pools = pooling_layers(
                box,
                windows,
                observation_noise=feature_noise,
                marginal_likelihood_weight=marginal_likelihood_weight / windows,
                num_waves=num_waves,
                stream=num_blocks + 1,
                seed=seed,
                **prior,
            )
            pooled = [pool(x) for pool in pools]
            moments = pooled[0] if windows == 1 else Joined(dtype=dtype, name="joined")(pooled)
            if known is not None and context != "features":
                moments = Beside(dtype=dtype, name="beside")(moments, known)
            head, outputs, calibrated = pooled_outputs(
                moments, num_classes=num_classes, num_outputs=num_outputs, output=output,
                pooling=box, uncertainty=uncertainty, dtype=dtype,
            )  # fmt: skip
        super().__init__(
            inputs,
            outputs,
            config=config,
            blocks=blocks,
            pooling=pools[0] if windows == 1 else None,
            head=head,
            moments=moments,
            calibrated=calibrated,
            trainable=trainable,
            field=field,
        )

    def _check_query(self, x):
        """Checks the input's entries other than the observations: statics, and a field's query."""
        if self._config["num_statics"]:
            check_statics(x, self._config["num_statics"])
        return super()._check_query(x)

    # The same method; here it also takes "conv_readings".
    feature_process = PNCNN.feature_process
