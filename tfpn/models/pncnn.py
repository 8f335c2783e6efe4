"""The probabilistic numeric convolutional network."""

from collections.abc import Sequence
from typing import Any, Literal

import keras
import tensorflow as tf

from tfpn.checks import check_count, check_positive
from tfpn.layers import PNConv
from tfpn.layers.conditioning import BLOCK_SIZE, CONDITIONED
from tfpn.layers.prob_activation import activation_config, is_linear
from tfpn.math.kernels import kernel_config
from tfpn.math.uncertainty import UNCERTAINTY
from tfpn.models.arguments import check_arguments
from tfpn.models.blocks import channel_block
from tfpn.models.field_path import FieldPath, read_field
from tfpn.models.fields import FieldPrediction
from tfpn.models.head import (
    points_dtype,
    pooled_outputs,
    pooling_layer,
    read_pooling,
)
from tfpn.models.inputs import network_inputs
from tfpn.models.network import PNNetwork
from tfpn.models.query_grid import OBSERVED, QueryGrid, grid, read_grid
from tfpn.types import (
    ActivationLike,
    Distribution,
    DType,
    KernelLike,
    Observations,
    Pooling,
    Tensor,
    VarianceEstimator,
)


@keras.saving.register_keras_serializable(package="tfpn")
class PNCNN(FieldPrediction, PNNetwork):
    """Probabilistic numeric CNN: classifier or regressor of irregularly sampled signals.

    The network is ``num_blocks`` times [PNConv -> ProbReLU -> ChannelMix -> GPNormalization],
    integral pooling, and a linear head on the pooled means. The defaults are the paper's for
    SuperPixel MNIST, with the normalisation added. Call `adapt` first, so that length scales and
    drifts start from the spacing of the data. Then compile and fit it as any Keras model. The model
    checks inputs, targets and weights before each step (see `fit`). XLA-compiled steps drop only
    the layers' own checks.

    Args:
        num_classes: number of logits; None for regression or for no head.
        num_outputs: number of regression outputs, with ``num_classes=None``. If both are None, the
            output is the pooled dict of `IntegralPooling`. With output="field", the number of the
            field's channels: output a is the field of input channel a, in its unit. The model
            learns outputs beyond the input's channels from their targets alone.
        output: "pooled" predicts numbers of the whole example. "normal" predicts such numbers with
            their variances, which the loss trains (`tfpn.losses.GaussianNLL`): the sum of the
            pooled features' variance and of a noise that depends on the features. "field" predicts
            mean and variance of readings at the query points of a further input: interpolation,
            gaps, forecasts. It adds two parts: GP regression (kriging) of the readings, whose prior
            `adapt` fits, and a convolution of the last block's features, which starts at 0. So the
            untrained network is a GP regression, and training adds to it. See `predict_field`.
        ard: for fields, whether each dimension has its own length scale; or the group of each
            dimension, such as (0, 0, 1) for a plane and time. Learnable factors scale the
            coordinates where they enter, so this holds for all layers and kernels.
        trend: for fields, what kriging subtracts first and adds again at the query points: "none",
            "constant" (ordinary kriging) or "linear" in the coordinates (universal kriging). The
            network sees the rest.
        amplitude: for fields, "shared"; or "example" if examples differ in how much their values
            vary. The readings of each example then give a factor of its variances, as in a
            multivariate t distribution with learnable degrees of freedom.
        kriging_kernel: for fields, the kernel of kriging, if it is not ``kernel``. With a rough
            kernel, a map takes about four times as long as with "rbf".
        channels: width of the blocks.
        num_blocks: number of blocks.
        num_basis: basis operators in each convolution.
        spatial_dim: d, dimension of the points.
        in_channels: channels of the input.
        uncertainty: what goes from layer to layer. "diagonal" is mean and variance (the paper's
            model), "none" the means only, with the ordinary ReLU (its ablation). "low_rank" and
            "joint" keep the errors of different points and channels together. "low_rank" takes
            ``rank`` factors beside independent remainders. "joint" takes the whole covariance, for
            small networks. "sampled" passes draws of the functions through the network. Each draw
            is a function that the readings allow, and no moment is approximated.
        rank: number of factors of "low_rank".
        num_samples: number of draws of "sampled" in prediction. They are the same every time and
            for every example.
        num_training_samples: the same in training, where every step takes new draws.
        num_waves: number of plane waves that make up a draw of a prior.
        variance_estimator: how the first block finds its variance: "exact", or "stochastic" by
            ``num_probes`` random probes, as in the paper's PhysioNet experiment (see `PNConv`).
            Only this block may see channels at different points. The others are always exact.
        num_probes: number of probes of "stochastic".
        seed: seed of probes and draws, as in `PNConv`.
        activation: the blocks' nonlinearity, as in `ProbActivation`: "relu" (the paper's) or
            another name, such as "leaky_relu" or "gelu". To save a model, a function of your own
            needs a name (no lambda) and `keras.saving.register_keras_serializable`.
        normalization: puts `GPNormalization` after each block (the paper has none).
        kernel: kernel of all Gaussian processes, as in `PNConv`.
        spacing: typical distance between neighbouring points, in units of the points, until
            `adapt` measures it.
        length_per_spacing: initial length scale of every Gaussian process, in units of the spacing.
            `adapt` replaces that of the first one by the fitted one.
        query: where the blocks are evaluated: "observed", at the points of the input; or a number,
            at so many points along each axis of the box in ``pooling``, or around the disc or ball.
            With more points than were observed, later layers see what goes on in the gaps. With
            "sampled" each draw passes through the gaps as a function of its own. The grid stays
            where it is if you shift the points.
        input_noise: "shared" if all channels of a point are observed together and equally well (the
            mean of their variances counts); "channel" if channels are seen at different points or
            differ in accuracy (exact, one factorisation for each channel).
        observation_noise: initial standard deviation of the learnable measurement noise of the
            input, in the input's unit; None takes only the given variances.
        feature_noise: the same for the features that later blocks and the pooling take. Their
            signal starts at 1. It stands for independent errors beyond their variances. Without it
            (None, the paper's model) only the first block is calibrated. A network trained at one
            density of points then overshoots between the points at another density.
        conditioning: "exact"; or "local" for many points. Every layer then cuts the points into
            blocks of at most ``block_size`` neighbours, and conditions each block on its own points
            and the ``neighbors`` points nearest to it. Cost and memory are then linear in N. It
            works with "sampled", "diagonal" and "none".
        block_size, neighbors: the sizes for "local", as in `PNConv`.
        common_points: whether to condition on the input once for a whole batch if its examples have
            the same points, variances and query points: whole images, or stations that all report.
            It saves most of the first block's time where there are many. For input_noise="shared",
            "diagonal" or "none", and not for fields. See `PNConv`.
        marginal_likelihood_weight: lambda in ``loss = task + lambda * L_GP``, with L_GP each
            layer's mean negative log marginal likelihood, summed over the layers. L_GP trains the
            priors' parameters alone.
        pooling: "space" integrates over the whole space, with infinite variance. A box ``(low,
            high)`` makes the outputs Gaussian (see `predict_distribution`); each side is a number
            or d numbers in units of the points. So does a disc of the plane, ``{"centre": (x, y),
            "radius": r}``, or a ball in space, with a centre ``(x, y, z)``.
        dtype: policy of the layers. With "float64" give a `tf.data.Dataset`, or call
            ``keras.config.set_floatx("float64")`` first: otherwise `fit` and `predict` convert
            arrays to Keras's floatx before the model sees them.

    Input:
        The observations dict: points [B, N, d], values and variance [B, N, in_channels]; B and N
        are free. With output="field" a further key "query", points [B, M, d], or in arrays
        [1, M, d] for the same in all examples.

    Output:
        Logits [B, num_classes] or outputs [B, num_outputs]. With "sampled" these are the log of the
        draws' mean softmax, or the mean of the draws' outputs. With output="normal" means and
        variances [B, num_outputs, 2]. With output="field" mean and variance of a reading at each
        query point, [B, M, num_outputs, 2].

    Raises:
        ValueError: for bad arguments.

    Example:

    >>> import keras, numpy as np, tfpn
    >>> rng = np.random.default_rng(0)
    >>> x = tfpn.observations(rng.uniform(size=(8, 20, 2)), rng.normal(size=(8, 20)))
    >>> y = rng.integers(0, 3, size=8)
    >>> model = tfpn.models.PNCNN(num_classes=3, channels=8, num_blocks=1)
    >>> model.adapt(x)
    >>> model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> history = model.fit(x, y, verbose=0)
    >>> model.predict(x, verbose=0).shape
    (8, 3)
    """

    def __init__(
        self,
        num_classes: int | None = 10,
        *,
        num_outputs: int | None = None,
        output: Literal["pooled", "normal", "field"] = "pooled",
        ard: bool | Sequence[int] = False,
        trend: Literal["none", "constant", "linear"] = "constant",
        amplitude: Literal["shared", "example"] = "shared",
        kriging_kernel: KernelLike | None = None,
        channels: int = 128,
        num_blocks: int = 4,
        num_basis: int = 9,
        spatial_dim: int = 2,
        in_channels: int = 1,
        uncertainty: str = "diagonal",
        rank: int = 8,
        num_samples: int = 16,
        num_training_samples: int = 1,
        num_waves: int = 128,
        variance_estimator: VarianceEstimator = "exact",
        num_probes: int = 20,
        seed: int | None = None,
        activation: ActivationLike = "relu",
        normalization: bool = True,
        kernel: KernelLike = "rbf",
        spacing: float = 0.1,
        length_per_spacing: float = 1.0,
        query: int | Literal["observed"] = "observed",
        input_noise: str = "shared",
        observation_noise: float | None = 0.1,
        feature_noise: float | None = 0.1,
        conditioning: Literal["exact", "local"] = "exact",
        block_size: int = BLOCK_SIZE,
        neighbors: int | None = None,
        common_points: bool = False,
        marginal_likelihood_weight: float = 1.0 / 200.0,
        pooling: Pooling = "space",
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
        policy = keras.dtype_policies.get(dtype)
        dtype = policy.name  # the name reloads even if it came from the global policy
        pooling = read_pooling(pooling)
        query = read_grid(query, pooling)
        config |= read_field(
            output,
            num_outputs,
            observation_noise,
            check_count("spatial_dim", spatial_dim),
            ard,
            trend,
            amplitude,
            kriging_kernel,
            pooling=(pooling, "space"),
            query=(query, OBSERVED),
            common_points=(common_points, False),
        )
        config |= {
            "num_basis": num_basis,
            "spatial_dim": spatial_dim,
            "in_channels": in_channels,
            "rank": rank,
            "num_samples": num_samples,
            "num_training_samples": num_training_samples,
            "num_waves": num_waves,
            "variance_estimator": variance_estimator,
            "num_probes": num_probes,
            "seed": seed,
            "activation": activation_config(activation),
            "normalization": normalization,
            "kernel": kernel_config(kernel),
            "spacing": spacing,
            "length_per_spacing": length_per_spacing,
            "query": query,
            "observation_noise": observation_noise,
            "common_points": common_points,
            "marginal_likelihood_weight": marginal_likelihood_weight,
            "pooling": pooling,
            "dtype": dtype,
            "name": name,
        }
        length_per_spacing = check_positive("length_per_spacing", length_per_spacing)
        prior = {
            "kernel": kernel,
            "spacing": spacing,
            "length_scale": length_per_spacing * check_positive("spacing", spacing),
            "marginal_likelihood_weight": marginal_likelihood_weight,
            **{name: config[name] for name in CONDITIONED},
            "dtype": dtype,
        }
        inputs = network_inputs(
            spatial_dim,
            check_count("in_channels", in_channels),
            points_dtype(policy),
            query=output == "field",
        )
        x, blocks, places, field = inputs, [], None, None
        if output == "field":
            field = FieldPath(config)
            x = field.enter(inputs)
        if isinstance(query, int):
            points, _ = grid(pooling, spatial_dim, query)
            places = QueryGrid(points, dtype=dtype, name="query")(inputs)

        def convolution(number, filters, name, **arguments):
            first = number == 1
            return PNConv(
                filters,
                num_basis,
                observation_noise=observation_noise if first else feature_noise,
                noise=input_noise if first else "shared",
                uncertainty=uncertainty,
                rank=rank,
                num_samples=num_samples,
                num_training_samples=num_training_samples,
                num_waves=num_waves,
                stream=number,
                variance_estimator=variance_estimator if first else "exact",
                num_probes=num_probes,
                common_points=common_points and first,
                seed=seed,
                double_precision=first,
                name=name,
                **prior,
                **arguments,
            )

        train_bias = not (normalization and is_linear(activation))
        for number in range(1, num_blocks + 1):
            block = channel_block(
                number,
                convolution(number, channels, f"conv_{number}", train_bias=train_bias),
                channels,
                activation=activation,
                normalization=normalization,
                dtype=dtype,
            )
            blocks.append(block)
            x = block.connect(x, places if number == 1 else None)
        pool = head = None
        if field is not None:
            readout = convolution(
                num_blocks + 1, 2 * field.sum.outputs, "readout", kernel_initializer="zeros"
            )
            moments, outputs = field.leave(x, readout)
            calibrated: Any = range(field.sum.outputs)
        else:
            pool = pooling_layer(
                pooling,
                observation_noise=feature_noise,
                num_waves=num_waves,
                stream=num_blocks + 1,
                seed=seed,
                name="pooling",
                **prior,
            )
            moments = pool(x)
            head, outputs, calibrated = pooled_outputs(
                moments, num_classes=num_classes, num_outputs=num_outputs, output=output,
                pooling=pooling, uncertainty=uncertainty, dtype=dtype,
            )  # fmt: skip
        super().__init__(
            inputs,
            outputs,
            config=config,
            blocks=blocks,
            pooling=pool,
            head=head,
            moments=moments,
            calibrated=calibrated,
            trainable=trainable,
            field=field,
        )

    def _later_spacing(self, data, spacing):
        if self._config["query"] == OBSERVED:
            return spacing
        config = self._config
        return grid(config["pooling"], config["spatial_dim"], config["query"])[1]

    def feature_process(self, x: Observations, layer: str, query: Tensor) -> Distribution:
        """A convolution's output as a Gaussian process over any query points.

        Args:
            x: the observations dict.
            layer: name of the convolution, such as "conv_2".
            query: points [B, M, d], or [1, M, d] for the same ones in all examples.

        Returns:
            A `tfpn.distributions.ProcessValues` with batch shape [B, channels] and event shape [M]:
            each channel's joint distribution over the query points. Its mean and standard deviation
            need little memory at any number of points; its covariance 40 bytes B channels M^2.

        Raises:
            ValueError: if there is no such convolution, or if it carries no uncertainty; if ``x``
                is not the model's input (keys, shapes, entries), or the query has another shape or
                is not finite.
            TypeError: for anything but a dict.
        """
        convolutions = {
            convolution.name: (convolution, given)
            for block in self.blocks
            for convolution, given in block.convolutions
        }
        if layer not in convolutions:
            raise ValueError(f"layer must be one of {list(convolutions)}, found {layer!r}.")
        convolution, given = convolutions[layer]
        x, query = self._checked_with_query(x, query)
        before = keras.Model(self.inputs_dict, given)
        query = self._in_network(query)
        features = before({key: tf.convert_to_tensor(x[key]) for key in self.inputs_dict})
        return convolution.process(features, tf.convert_to_tensor(query, features["points"].dtype))
