"""The convolution that commutes with rotations: coupled PDEs on Gaussian process fields."""

import dataclasses
import random
from collections.abc import Sequence
from typing import Any, Literal

import keras
import tensorflow as tf

from tfpn.checks import check_choice, check_count, check_flag
from tfpn.layers.common_points import CommonPoints
from tfpn.layers.conditioning import BLOCK_SIZE, Conditioned
from tfpn.layers.convolution import GPConvolution
from tfpn.layers.drawing import Drawing
from tfpn.layers.steerable_base import (
    FieldsMixin,
    check_seed,
    fields_config,
    optional_fields,
)
from tfpn.layers.steerable_flows import read_flows
from tfpn.layers.steerable_generators import Generators, in_unit
from tfpn.math.missing import missing_mask
from tfpn.math.neighbourhoods import in_neighbourhoods
from tfpn.math.steerable.convolution import convolve_fields, shared_in_blocks
from tfpn.math.steerable.fields import (
    block_mean,
    block_numbers,
    count_channels,
    count_copies,
    read_fields,
    read_frequencies,
    sort_frequencies,
)
from tfpn.math.steerable.generators import CONSTRAINTS
from tfpn.math.steerable.operator import SteerableOperator
from tfpn.math.uncertainty import UNCERTAINTY, keys_beside, steerable, strategy
from tfpn.types import (
    Config,
    Constraint,
    FieldsLike,
    GroupLike,
    KernelLike,
    Layer,
    Observations,
    Representation,
    Tensor,
    Trains,
)

FREQUENCIES = (0, 1, 2)
NUM_BASIS = 2


@keras.saving.register_keras_serializable(package="tfpn")
class SteerablePNConv(CommonPoints, Conditioned, FieldsMixin, Generators, Drawing, GPConvolution):
    """Rotation-equivariant convolution of Gaussian process fields: ``sum_k W_k exp(M_k) f + bias``.

    The channels are fields on the plane or in space that turn with it
    (`tfpn.math.steerable.fields`). They are n copies of a small representation rho of the
    rotations, observed with noise and conditioned on exactly. Each
    ``M_k = C_k + sum_i B_ki d_i + sum_ij S_kij d_i d_j`` is a coupled PDE on one copy of rho that
    commutes with rotations. Its coefficients are learnable, in the exact basis of all such PDEs.
    Its flow acts on the posterior (`tfpn.math.steerable_convolve`). W_k mixes the copies. On the
    plane it has a number for a pair of scalars and a complex number for other pairs, in space one
    number for each pair. If you rotate points and fields of the input, the output rotates to
    rounding, at every angle.

    The returned variance is the mean over a block's components (a block is one copy of one
    frequency), because a rotation leaves this mean as it is. Flows are resolved to 1e-6 (float32)
    or 1e-12 (float64) if they reach within some 60 or 72 length scales (at some more cost from 12
    or 18 on). Beyond, they are less sharp (`tfpn.math.steerable_kernel`), but still commute with
    rotations. `flow_reach` says how far they reach. If the generators do not couple the channels,
    this is `PNConv` without drift.

    Args:
        fields: type of the output, such as ``{0: 16, 1: 16, 2: 16}`` (frequency: copies), a number
            of scalars, or a representation of ``group`` or its text, such as "16x0 + 16x1". In
            space the frequencies are spins: 0 scalars, 1 vectors.
        num_basis: K, the number of generators; by default 2, or the number of ``flows``.
        in_fields: type of the input; by default all its channels are scalars.
        frequencies: those of rho, on which the flows act, or any representation of ``group``, such
            as "2x0 + 1" for flows that couple two scalars and a vector. The default is 0, 1, 2 and
            all those of input and output, once each. If rho has a frequency mu times, the input's
            fields are dealt out to its mu parts in turn.
        constraint: "dissipative" generators never amplify, for any parameters. "free" ones may, and
            training them may blow up.
        flows: None, or a list of K Keras layers in place of this layer's own generators, such as
            those that `equivariance.keras_source` writes. The method ``generator()`` of each
            returns C [r, r], B [d, r, r] and S [d, d, r, r] on rho, its parts sorted by frequency.
            Building this layer checks that they commute with ``group``. Their lengths are in units
            of ``spacing``: B = 1 carries over one spacing. ``constraint`` and ``seed`` then have no
            effect.
        spacing: distance between neighbouring points. It sets the start of the length scale (equal
            to it), of transport (over one spacing) and of diffusion (over half of it). `adapt`
            measures it. The weights of the generators are in units of it; `generators` gives them
            in units of the points.
        signal_std: initial prior standard deviation of the input channels.
        length_scale: initial prior length scale, if not ``spacing``.
        observation_noise: initial standard deviation of a learnable measurement noise that is
            added to the given variances; None for no such noise.
        noise: "shared" conditions all channels on the mean of their variances (they must be
            observed or missing together at a point); "channel" keeps each block's own, for
            channels seen at different points, at the cost of a factorisation for each channel.
        kernel: the prior's kernel, as in `PNConv`. T Gaussian terms take T times as long.
        uncertainty: "diagonal" returns the exact variance, "none" variance 0 at observed points.
            "sampled" returns draws of the fields with their mean and (by block) variance. The law
            of a draw turns with the input. The draws of a prediction are always the same and do not
            turn, so what a rotation changes in their mean is Monte Carlo error.
        num_samples, num_training_samples, num_waves, stream: as in `PNConv`, for "sampled".
        double_precision: whether a float32 layer computes in float64 inside, at up to three times
            the cost. Equivariance to rounding needs it if values are not smooth, as readings may
            be. Give False for features inside a network.
        common_points: as in `PNConv`. It also needs conditioning="exact".
        conditioning, block_size, neighbors: as in `PNConv`. How points are cut into blocks does not
            turn with them, so "local" is equivariant up to its error.
        use_bias: adds a learnable constant to each output scalar (a constant vector would not
            rotate).
        spatial_dim: d, 2 for fields on the plane or 3 for fields in space. There one copy of the
            spins 0, 1 and 2 has 9 channels: give ``frequencies=(0, 1)`` if scalars and vectors are
            enough, which costs less. The default is that of ``group``, or 2.
        group: what the layer commutes with: "SO2", "O2", "C<n>" or "D<n>" on the plane (rotations,
            with O2 and D<n> also reflections), "SO3" or "O3" in space, or a group of
            `equivariance`. The default is all rotations. Groups with reflections have the frequency
            "0-", a pseudoscalar, and O3 also "1-", a pseudovector such as a curl, and so on. C<n>
            and D<n> take frequencies up to n / 2. For n above twice the largest frequency of rho
            plus 2 their flows are those of SO2 and O2. Smaller n allow flows that prefer
            directions. Such a layer commutes with C<n> or D<n> to rounding, and takes several times
            as long. Its flows are exact to 1e-6 (float32) or 1e-11 (float64) if they carry no
            farther than two length scales.
        seed: seed of the generators' random initial parameters, and of draws; None draws one.
        marginal_likelihood_weight: weight of the mean negative log marginal likelihood in the
            loss; 0 leaves it out, and its metric ``<name>_nll`` too.
        marginal_likelihood_trains: "kernel" lets that term reach only the prior's parameters and
            the learnable noise; "all" lets it reach points, values and variances too.

    Input:
        The observations dict (points [B, N, d], values and variance [B, N, c_in]). In ``call`` a
        second argument ``query`` [B, M, d] gives the output's points, by default the input's. Many
        points are taken in pieces, outside of training and traced functions.

    Output:
        The observations dict at the input's points (padding stays unobserved), or at all query
        points, with the channels of ``fields``.

    Raises:
        ValueError: for bad arguments or shapes.
        tf.errors.InvalidArgumentError: if channels that belong together (those of a block, and with
            noise="shared" all) are observed in part, or if the result is not finite (neither is
            checked inside XLA-compiled functions).

    Example: three scalars in, scalars and vectors out.

    >>> import numpy as np, tfpn
    >>> rng = np.random.default_rng(0)
    >>> x = tfpn.observations(rng.uniform(size=(2, 30, 2)), rng.normal(size=(2, 30, 3)))
    >>> out = tfpn.layers.SteerablePNConv({0: 4, 1: 2})(x)
    >>> out["values"].shape, out["variance"].shape
    (TensorShape([2, 30, 8]), TensorShape([2, 30, 8]))
    """

    def __init__(
        self,
        fields: FieldsLike,
        num_basis: int | None = None,
        *,
        in_fields: FieldsLike | None = None,
        frequencies: Sequence[Any] | str | Representation | None = None,
        constraint: Constraint = "dissipative",
        flows: Sequence[Layer] | None = None,
        spacing: float = 0.1,
        signal_std: float = 1.0,
        length_scale: float | None = None,
        observation_noise: float | None = None,
        noise: str = "shared",
        kernel: KernelLike = "rbf",
        uncertainty: str = "diagonal",
        num_samples: int = 16,
        num_training_samples: int = 1,
        num_waves: int = 128,
        stream: int = 1,
        double_precision: bool = True,
        common_points: bool = False,
        conditioning: Literal["exact", "local"] = "exact",
        block_size: int = BLOCK_SIZE,
        neighbors: int | None = None,
        use_bias: bool = True,
        spatial_dim: int | None = None,
        group: GroupLike | None = None,
        seed: int | None = None,
        marginal_likelihood_weight: float = 0.0,
        marginal_likelihood_trains: Trains = "kernel",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            spacing=spacing,
            length_scale=length_scale,
            signal_std=signal_std,
            observation_noise=observation_noise,
            noise=noise,
            kernel=kernel,
            double_precision=double_precision,
            marginal_likelihood_weight=marginal_likelihood_weight,
            marginal_likelihood_trains=marginal_likelihood_trains,
            **kwargs,
        )
        self._take_group(group, spatial_dim)
        self.fields = read_fields(fields, group=self.group)
        self.flows = read_flows(flows)
        given = NUM_BASIS if self.flows is None else len(self.flows)
        self.num_basis = given if num_basis is None else check_count("num_basis", num_basis)
        if self.flows is not None and self.num_basis != given:
            raise ValueError(
                f"num_basis is the number of flows, found num_basis={num_basis} and {given} "
                "flow(s); leave num_basis out."
            )
        self.in_fields = optional_fields(in_fields, "in_fields", self.group)
        needed = {m for m, _ in (*self.fields, *(self.in_fields or ((0, 1),)))}
        used = {*FREQUENCIES, *needed} if frequencies is None else frequencies
        self.frequencies = read_frequencies(used, group=self.group)
        if not needed <= set(self.frequencies):
            raise ValueError(
                "frequencies must hold all those of fields and in_fields, "
                f"{sort_frequencies(needed)}, found {self.frequencies}."
            )
        self.group.check_frequencies(self.frequencies)
        self.constraint = check_choice("constraint", constraint, CONSTRAINTS)
        self.uncertainty = check_choice("uncertainty", uncertainty, steerable())
        self.use_bias = check_flag("use_bias", use_bias)
        seed = None if seed is None else check_seed(seed)
        # The weights' own seed: saved weights need none, but saved draws need the given one.
        self._weights_seed = random.randint(1, 2**31 - 1) if seed is None else seed
        self._take_draws(seed, stream, num_waves, num_samples, num_training_samples)
        self._take_conditioning(conditioning, block_size, neighbors)
        way = UNCERTAINTY[self.uncertainty]
        self._take_common_points(common_points, way, noise="shared", conditioning="exact")
        if UNCERTAINTY[self.uncertainty].draws:
            self._start_drawing()

    def build(self, observations_shape: Any, query_shape: Any = None) -> None:
        dim, channels = self._built_for = self._check_shapes(observations_shape)
        if query_shape is not None:
            self._check_query(query_shape, observations_shape["points"])
        self._input = self._input_fields(self.in_fields, channels)
        self._blocks = block_numbers(self._input, dim)
        self._build_prior(self._blocks[-1] + 1)
        initial = in_unit(
            self._build_flows() if self.flows else self._build_generators(),
            self.flow_unit(self.spacing),
        )
        copies = count_copies(self._input, self.frequencies)
        self.kernels = {}
        for frequency, number in self.fields:
            flows = self.num_basis * self.frequencies.count(frequency)
            shape = (*self._weight_parts(frequency), flows, copies, number)
            self.kernels[frequency] = self.add_weight(
                name=f"kernel_{frequency}",
                shape=shape,
                initializer=keras.initializers.RandomNormal(
                    stddev=self._initial_scale(initial, frequency)
                ),
            )
        self.bias = None
        scalars = dict(self.fields).get(0)
        if self.use_bias and scalars:
            self.bias = self.add_weight(name="bias", shape=(scalars,), initializer="zeros")
        self._build_units()

    def _prior_numbers(self, channels):
        priors, noises = super()._prior_numbers(channels)
        return priors, (self._blocks if self._own_noise else noises)

    def call(
        self, observations: Observations, query: Tensor | None = None, training: bool = False
    ) -> dict[str, Tensor]:
        points, values, variance = self._unpack(observations)
        own = query is None
        output_points, query, infinite = self._targets(query, points, variance)
        missing = missing_mask(infinite)
        observed = self._observed(points, values, variance)
        if self._own_noise and self.log_observation_noise is not None:
            by_channel = tf.gather(observed.observation_variance, self._blocks)
            observed = dataclasses.replace(observed, observation_variance=by_channel)
        way = self._strategy(training)
        beside = self._read_beside(way, observations)
        options = {
            "fields_in": self._input,
            "fields_out": self.fields,
            "frequencies": self.frequencies,
            "weights": {m: self._per_unit(w) for m, w in self.kernels.items()},
            "generator": self.generators(),
            "bias": None if self.bias is None else self._cast(self.bias),
            "order": self.group.flow_order(self.frequencies),
        }

        def flowed(observed, operator):
            given = {name: getattr(operator, name) for name in options}
            return convolve_fields(
                observed,
                operator.query,
                with_variance=way.has_variance,
                common_points=self.common_points,
                **given,
            )

        def convolved(query):
            given = observed, SteerableOperator(query, **options)
            if self.neighbourhoods is None:
                mean, new_variance, nll = flowed(*given)
            else:
                mean, new_variance, nll = in_neighbourhoods(
                    self.neighbourhoods, flowed, *given, own=own
                )
            return mean, new_variance if way.has_variance else tf.zeros_like(mean), None, nll

        def drawn(query):
            of_blocks = shared_in_blocks(observed.variance, self._input, self.spatial_dim)
            given = dataclasses.replace(observed, variance=of_blocks)
            given = given, SteerableOperator(query, **options), beside, missing
            mean, new_variance, draws, nll = self._convolved(way, *given, own=own)
            return mean, block_mean(new_variance, self.fields, self.spatial_dim), draws, nll

        widest = max(values.shape[-1], count_channels(self.fields, self.spatial_dim))
        with self._fusion(training, widest, points, query):
            if way.draws:
                mean, new_variance, beside, nll = drawn(query)
            else:
                mean, new_variance, nll = self._in_pieces(convolved, points, query, training)
        self._add_marginal_likelihood(nll, variance)
        mean *= 1.0 - missing
        return self._output(output_points, mean, new_variance, infinite, way, beside)

    def _strategy(self, training=False):
        options = {}
        if UNCERTAINTY[self.uncertainty].draws:
            options = self._draw_options(training)
        return strategy(self.uncertainty, **options)

    def _check_shapes_beside(self, shapes):
        super()._check_shapes_beside(shapes)
        way = UNCERTAINTY[self.uncertainty]
        for key in set(keys_beside()) & set(shapes) - {way.key}:
            raise ValueError(
                f"{type(self).__name__} {self.name!r} with uncertainty={self.uncertainty!r} takes "
                f"no {key}: all convolutions of a network need the same uncertainty."
            )

    def compute_output_spec(
        self, observations: Observations, query: Tensor | None = None, training: bool = False
    ) -> Any:
        points = observations["points"] if query is None else query
        shape = (*points.shape[:2], count_channels(self.fields, self.spatial_dim))
        return self._spec(shape, strategy(self.uncertainty), observations, points=points)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            **self._draw_config(),
            **self._conditioning_config(),
            "fields": fields_config(self.fields),
            "num_basis": self.num_basis,
            "in_fields": fields_config(self.in_fields),
            "frequencies": list(self.frequencies),
            "constraint": self.constraint,
            "flows": self.flows and [keras.saving.serialize_keras_object(f) for f in self.flows],
            "uncertainty": self.uncertainty,
            "common_points": self.common_points,
            "use_bias": self.use_bias,
            **self._group_config(),
        }

    @classmethod
    def from_config(cls, config: Config) -> Any:
        config = dict(config)
        if config.get("flows"):
            config["flows"] = [keras.saving.deserialize_keras_object(f) for f in config["flows"]]
        return cls(**config)
