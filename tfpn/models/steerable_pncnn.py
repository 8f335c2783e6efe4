"""The probabilistic numeric convolutional network that commutes with rotations."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import keras

from tfpn.checks import check_count
from tfpn.contract import KEYS
from tfpn.layers import SteerablePNConv
from tfpn.layers.conditioning import BLOCK_SIZE, CONDITIONED
from tfpn.layers.steerable_base import check_seed, read_field_group
from tfpn.layers.steerable_flows import copy_flow, is_flow
from tfpn.math.kernels import kernel_config
from tfpn.math.steerable.fields import block_numbers, count_channels, sort_frequencies
from tfpn.math.uncertainty import UNCERTAINTY, steerable
from tfpn.models.arguments import check_arguments
from tfpn.models.first_points import first_observed, warn_of_order
from tfpn.models.head import points_dtype, pooled_outputs, pooling_layer, read_pooling
from tfpn.models.inputs import network_inputs
from tfpn.models.network import PNNetwork
from tfpn.models.readout import FieldReadout
from tfpn.models.steerable_blocks import field_block
from tfpn.models.steerable_checks import (
    FieldInput,
    check_out_fields,
    flow_config,
    reached,
    read_blocks,
    read_flow,
    read_types,
)
from tfpn.spacing import point_spacing
from tfpn.types import (
    Config,
    Constraint,
    Distribution,
    DType,
    FieldsLike,
    GroupLike,
    KernelLike,
    Layer,
    Observations,
    Pooling,
    Representation,
    Verbose,
)


@keras.saving.register_keras_serializable(package="tfpn")
class SteerablePNCNN(FieldInput, FieldReadout, PNNetwork):
    """Network of fields that turns with its input: for images, points in space, measured fields.

    A signal on the plane stays the same when you turn it. So does a wind that you measure in turned
    coordinates. This network knows this from the start, and at every angle. It does so in space,
    too, with ``spatial_dim=3``. The logits of a classifier do not change when the points are
    turned, and predicted fields turn with the points. It needs no training on turned examples. The
    network is ``num_blocks`` times [SteerablePNConv -> GatedReLU -> SteerableMix ->
    SteerableNormalization], as in `PNCNN`. Its features are ``fields``: scalars of frequency 0, and
    pairs of frequency m, which a rotation by t turns by m t (1: vectors). In space a field of spin
    l has 2 l + 1 components.

    With ``num_classes`` or ``num_outputs`` the last block leads to only scalars, as many as the
    other blocks have channels. Their integrals over the plane or space and a linear head give
    logits or numbers that no rotation changes. With ``out_fields`` a last convolution reads fields
    out at the points of a further input, "query".

    With a pooling over "space" this holds for rotations about any centre, and with a disc or ball
    for those about its centre. With a box **the network is not invariant**, because a turned box
    covers another region, except by quarter turns of a square. With ``group="O2"`` all this holds
    for reflections, too. `tfpn.check_equivariance` measures it for a model at hand.

    The error that remains is rounding: relative to the largest output some 1e-14 in float64, and up
    to 3e-6 in float32. The first convolution computes in float64 inside, because kernels between
    close points may nearly cancel. The error grows if training makes length scales long or noise
    small. ``dtype="float64"`` is for those who need more digits. Keras casts the arrays that `fit`
    and `evaluate` take to its own float type: give them a `tf.data.Dataset` of float64, or call
    ``keras.config.set_floatx("float64")`` first. `predict`, `predict_distribution` and
    `tfpn.check_equivariance` keep all digits.

    With ``uncertainty="sampled"`` the network is equivariant in law. Turn the points and a draw
    (the frequencies of its plane waves, its amplitudes and its noise), and the result turns to
    rounding. A turned draw is as likely as the draw. Predictions always take the same
    ``num_samples`` draws. So a rotation changes them by the Monte Carlo error of that many draws,
    which `tfpn.check_equivariance` shows.

    `feature_maps` gives each block's fields with their variances at any points. There is no joint
    `feature_process` as in `PNCNN`, since the covariance of a field at two points is a matrix.

    Args:
        num_classes: number of logits; None for regression, fields or no head.
        num_outputs: number of regression outputs that no rotation changes, with
            ``num_classes=None``. If this and ``out_fields`` are None too, the output is the pooled
            dict of `IntegralPooling`.
        out_fields: the type of the fields to predict, such as ``{1: 1}`` for one vector field,
            ``{0: 2, 1: 1}`` or "2x0 + 1" for two scalars and a vector, or a representation of
            ``group``; with ``num_classes=None``.
        fields: type of the fields in the blocks, such as "16x0 + 8x1" or any other text that
            `equivariance.parse_representation` reads. Scalars gate the other fields: give at least
            as many as of any other frequency. After scalars the first block has no pseudoscalars.
        copies, frequencies: without ``fields``, how many fields of which frequencies are in the
            blocks. The default, 26 of 0, 1 and 2, has 130 channels, and 234 in space.
        num_blocks: number of blocks.
        num_basis: flows (coupled PDEs) in each convolution.
        in_fields: type of the input, as ``out_fields``; 1 is one scalar.
        spatial_dim: 2 for the plane, 3 for space; by default that of ``group``, or 2. In space
            ``frequencies=(0, 1)`` costs less than the default.
        group: what the network commutes with, as in `SteerablePNConv`; by default all rotations.
        flow: the representation that each flow acts on, such as "2x0 + 1" for PDEs that couple two
            scalars and a vector. None for one field of each frequency at the convolution. A Keras
            layer, such as one that `equivariance.keras_source` writes, gives C, B and S by its
            ``generator()``, on one field of each frequency of the blocks and in units of the
            spacing. Every flow is a copy with its own weights, ``constraint`` and ``seed`` unused.
        constraint: "dissipative" flows never amplify; "free" ones may (see `SteerablePNConv`).
        uncertainty: "diagonal" carries mean and variance through the network, "none" the means
            only, "sampled" draws of the fields (see above).
        num_samples, num_training_samples, num_waves: for "sampled", as in `PNCNN`.
        normalization: puts `SteerableNormalization` after each block.
        num_query: at how many of its first observed points each example's blocks are evaluated;
            None is all. The first convolution reads all. Give points in random order, or spread out
            by `tfpn.farthest_first`, or `adapt` warns.
        common_points: as in `PNCNN`, with conditioning="exact".
        kernel, spacing, input_noise, observation_noise, feature_noise, marginal_likelihood_weight,
            dtype: as in `PNCNN`. A kernel other than "rbf" takes some 12 times as long.
        conditioning, block_size, neighbors: as in `PNCNN`; "local" is equivariant up to its error.
        pooling: "space", or a disc ``{"centre": (x, y), "radius": r}``, which makes the outputs
            Gaussian, as does a ball in space, with a centre ``(x, y, z)``; or a box ``(low,
            high)``, see above. Not for ``out_fields``. A ball needs conditioning="exact".
        seed: seed of the flows' random initial parameters and of draws. None takes one from
            Python's `random` for the flows. All other weights start from Keras's generator. To get
            the same model each time with any ``seed``, call ``keras.utils.set_random_seed(0)``
            before you build it.

    Input:
        The observations dict: points [B, N, d], values and variance [B, N, channels of
        ``in_fields``]; with ``out_fields`` a further key "query", points [B, M, d], or in arrays
        [1, M, d] for the same in all examples. B, N and M are free.

    Output:
        Logits [B, num_classes], outputs [B, num_outputs], or the fields' values
        [B, M, channels of ``out_fields``], copy by copy.

    Raises:
        ValueError: for bad arguments.

    Example: a classifier whose logits are those of the turned points.

    >>> import keras, numpy as np, tfpn
    >>> rng = np.random.default_rng(0)
    >>> x = tfpn.observations(rng.uniform(size=(4, 20, 2)), rng.normal(size=(4, 20)))
    >>> model = tfpn.models.SteerablePNCNN(3, copies=2, num_blocks=1)
    >>> model.adapt(x)
    >>> turn = np.array([[np.cos(0.5), -np.sin(0.5)], [np.sin(0.5), np.cos(0.5)]])
    >>> turned = {**x, "points": x["points"] @ turn.T}
    >>> bool(np.allclose(model(turned), model(x), atol=1e-4))
    True

    Wind at 9 other places. A target of NaN was not measured: `fit` and `evaluate` leave it out, as
    they do one with a sample weight of 0 (which counts in the mean's denominator).

    >>> x["query"] = rng.uniform(size=(4, 9, 2)).astype("float32")
    >>> model = tfpn.models.SteerablePNCNN(None, out_fields={1: 1}, copies=2, num_blocks=1)
    >>> model.adapt(x)
    >>> wind = rng.normal(size=(4, 9, 2))
    >>> wind[0, 3] = np.nan
    >>> model.compile("adam", "mse")
    >>> found = model.evaluate(x, wind, verbose=0, return_dict=True)["task_loss"]
    >>> bool(np.isclose(found, np.nanmean((model(x) - wind) ** 2), rtol=1e-4))
    True
    """

    def __init__(
        self,
        num_classes: int | None = 10,
        *,
        num_outputs: int | None = None,
        out_fields: FieldsLike | None = None,
        fields: FieldsLike | None = None,
        copies: int | None = None,
        frequencies: Sequence[Any] | None = None,
        num_blocks: int = 4,
        num_basis: int = 2,
        in_fields: FieldsLike = 1,
        spatial_dim: int | None = None,
        group: GroupLike | None = None,
        flow: str | Representation | Layer | None = None,
        constraint: Constraint = "dissipative",
        uncertainty: str = "diagonal",
        num_samples: int = 16,
        num_training_samples: int = 1,
        num_waves: int = 128,
        normalization: bool = True,
        num_query: int | None = None,
        common_points: bool = False,
        kernel: KernelLike = "rbf",
        spacing: float = 0.1,
        input_noise: str = "shared",
        observation_noise: float | None = 0.1,
        feature_noise: float | None = 0.1,
        conditioning: Literal["exact", "local"] = "exact",
        block_size: int = BLOCK_SIZE,
        neighbors: int | None = None,
        marginal_likelihood_weight: float = 1.0 / 200.0,
        pooling: Pooling = "space",
        seed: int | None = None,
        dtype: DType | None = None,
        name: str | None = None,
        trainable: bool = True,
    ) -> None:
        config = check_arguments(
            steerable(),
            num_classes=num_classes,
            num_outputs=num_outputs,
            uncertainty=uncertainty,
            input_noise=input_noise,
            feature_noise=feature_noise,
            conditioning=conditioning,
            block_size=block_size,
            neighbors=neighbors,
            num_blocks=num_blocks,
        )
        acting = read_field_group(group, spatial_dim)
        types = read_types(in_fields, out_fields, acting)
        in_fields, out_fields, _, spatial_dim = types.values()
        block_types, hidden = read_blocks(fields, copies, frequencies, acting)
        pooling = read_pooling(pooling)
        check_out_fields(out_fields, num_classes, num_outputs, pooling)
        check_count("num_basis", num_basis)
        num_query = None if num_query is None else check_count("num_query", num_query)
        seed = None if seed is None else check_seed(seed)
        given = {"in_fields": in_fields, "out_fields": out_fields, "fields": hidden}
        rho = read_flow(flow, hidden, given, acting)
        policy = keras.dtype_policies.get(dtype)
        dtype = policy.name  # the name reloads even if it came from the global policy
        config |= {
            **types,
            **block_types,
            "num_basis": num_basis,
            "flow": flow_config(flow),
            "constraint": constraint,
            "num_samples": num_samples,
            "num_training_samples": num_training_samples,
            "num_waves": num_waves,
            "normalization": normalization,
            "num_query": num_query,
            "common_points": common_points,
            "kernel": kernel_config(kernel),
            "spacing": spacing,
            "observation_noise": observation_noise,
            "marginal_likelihood_weight": marginal_likelihood_weight,
            "pooling": pooling,
            "seed": seed,
            "dtype": dtype,
            "name": name,
        }
        prior = {
            "kernel": kernel,
            "spacing": spacing,
            "marginal_likelihood_weight": marginal_likelihood_weight,
            **{name: config[name] for name in CONDITIONED},
            "dtype": dtype,
        }

        def convolution(number, name, fields, in_fields):
            first, flows = number == 1, None
            if is_flow(flow):
                flows = [copy_flow(flow, f"{name}_flow_{k}", dtype) for k in range(num_basis)]
            return SteerablePNConv(
                fields,
                num_basis,
                in_fields=in_fields,
                frequencies=rho or sort_frequencies({m for m, _ in (*hidden, *in_fields, *fields)}),
                constraint=constraint,
                flows=flows,
                observation_noise=observation_noise if first else feature_noise,
                noise=input_noise if first else "shared",
                uncertainty=uncertainty,
                num_samples=num_samples,
                num_training_samples=num_training_samples,
                num_waves=num_waves,
                stream=number,
                common_points=common_points and first,
                double_precision=first,  # features are smooth enough for float32
                seed=None if seed is None else seed + number,
                group=acting.name,
                name=name,
                **prior,
            )

        inputs = network_inputs(
            spatial_dim,
            count_channels(in_fields, spatial_dim),
            points_dtype(policy),
            query=out_fields is not None,
        )
        x, fields, blocks = {key: inputs[key] for key in KEYS}, in_fields, []
        for number in range(1, num_blocks + 1):
            last = number == num_blocks and out_fields is None
            new_fields = reached(fields, hidden)
            if last:
                new_fields = [[0, count_channels(hidden, spatial_dim)]]
            block = field_block(
                number,
                convolution(number, f"conv_{number}", new_fields, fields),
                new_fields,
                normalization=normalization,
                num_query=num_query if number == 1 else None,
                group=acting.name,
                dtype=dtype,
            )
            blocks.append(block)
            x, fields = block.connect(x), new_fields
        calibrated = readout_input = pool = head = None
        if out_fields is not None:
            readout = convolution(num_blocks + 1, "readout", out_fields, fields)
            moments = readout(x, inputs["query"])
            readout_input = x
            outputs, calibrated = moments["values"], block_numbers(out_fields, spatial_dim)
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
                moments, num_classes=num_classes, num_outputs=num_outputs, output="pooled",
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
        )
        self._readout_input = readout_input

    def _later_spacing(self, data, spacing):
        number = self._config["num_query"]
        if number is None:
            return spacing
        warn_of_order(data, number, stacklevel=3)
        return point_spacing(*first_observed(data, number))

    @property
    def finite_variance(self) -> bool:
        """Whether `predict_distribution` works: whether the outputs have a finite variance."""
        if self._config["out_fields"] is not None:
            return UNCERTAINTY[self._config["uncertainty"]].has_variance
        return super().finite_variance

    def predict_distribution(
        self, x: Observations, batch_size: int = 32, verbose: Verbose = "auto"
    ) -> Distribution:
        """The outputs' joint distribution; for fields, the values at each point.

        With ``out_fields`` this is a `tfp.distributions.Normal` of the fields' values [B, M,
        channels]. The variance is that of the last convolution's Gaussian process, one for all
        components of a field that rotates (their mean). It holds what the network did not see of
        its features, and noise of the targets only after `calibrate`, which fits one factor and one
        noise variance for each field. With "sampled" it is the mixture of the draws' fields at each
        point, a `tfp.distributions.MixtureSameFamily` of the batch shape [B, M] and the event shape
        [channels], whose covariance turns with the fields. Without ``out_fields`` see
        `PNCNN.predict_distribution`.

        Args:
            x: the observations dict, with its query points if there are any.
            batch_size, verbose: as in `PNCNN.predict_distribution`.

        Raises:
            ValueError: if the variance is infinite (pooling="space") or missing
                (uncertainty="none"); if the model has no head; or as in
                `PNCNN.predict_distribution` for ``x`` and ``batch_size``.
        """
        if self._config["out_fields"] is None:
            return super().predict_distribution(x, batch_size, verbose)
        if not self.finite_variance:
            raise ValueError(
                "the model was built with uncertainty='none' and carries no variance; build it "
                "with uncertainty='diagonal'."
            )
        return self._fields_distribution(x, check_count("batch_size", batch_size), verbose)

    @classmethod
    def from_config(cls, config: Config, custom_objects: Mapping[str, Any] | None = None) -> Any:
        config = dict(config)
        if isinstance(config.get("flow"), Mapping):
            config["flow"] = keras.saving.deserialize_keras_object(
                config["flow"], custom_objects=custom_objects
            )
        return super().from_config(config)
