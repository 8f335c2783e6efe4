"""The convolution: a linear PDE's flow applied exactly to a GP posterior."""

from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf

from tfpn.checks import check_choice, check_count, check_flag
from tfpn.layers.common_points import CommonPoints
from tfpn.layers.conditioning import BLOCK_SIZE, Conditioned
from tfpn.layers.convolution import DIFFUSION_PER_SPACING
from tfpn.layers.drawing import Drawing
from tfpn.layers.flows import DriftDiffusions
from tfpn.math.kernels import read_mixture
from tfpn.math.missing import missing_mask
from tfpn.math.operator import Operator
from tfpn.math.posterior import PRIORS
from tfpn.math.stochastic import ESTIMATORS, PROBES, Estimator
from tfpn.math.uncertainty import UNCERTAINTY, keys_beside, strategy
from tfpn.spacing import point_spacing
from tfpn.types import (
    Config,
    Distribution,
    Initializer,
    KernelLike,
    Observations,
    Probes,
    Tensor,
    Trains,
    VarianceEstimator,
)


@keras.saving.register_keras_serializable(package="tfpn")
class PNConv(CommonPoints, Conditioned, Drawing, DriftDiffusions):
    """Convolution of a Gaussian process: ``A f = sum_k W_k exp(D_k) f + bias``, exactly.

    The input channels are observations of GPs with an RBF prior, conditioned on exactly. Each
    ``D_k = beta_k . grad + 1/2 grad^T Sigma_k grad`` is a drift-diffusion with learnable drift
    ``beta_k`` and ``Sigma_k = L_k L_k^T`` with a learnable full d x d factor. The flow ``exp(D_k)``
    acts on the posterior in closed form (eqs. A_rbf, A_rbf_A). As Sigma goes to 0 with drifts on a
    lattice this is an ordinary convolution. An example costs one N x N factorisation and
    O(K M N (N + c_in) + K M c_in filters) operations.

    Args:
        filters: number of output channels.
        num_basis: K, the number of basis operators.
        spacing: distance between neighbouring points, in units of the points. It sets the start of
            the length scale (equal to it), of the drifts (the K lattice points nearest the origin,
            one spacing apart) and of the diffusions (factor of half a spacing). The default suits
            some 75 to 100 points in a unit square. `adapt` measures it. The weights ``drift`` and
            ``diffusion_factor`` are in units of it, see `flow_parameters`.
        signal_std: initial prior standard deviation of the input channels.
        length_scale: initial prior length scale, if not ``spacing``.
        observation_noise: initial standard deviation of a learnable measurement noise that is
            added to the given variances; None for no such noise.
        noise: "shared" (one factorisation for all channels, on the mean of their variances; the
            channels of a point must be observed or missing together) or "channel" (exact for
            channels seen at different points, c_in factorisations).
        prior: "shared" (one signal standard deviation and one length scale), or "channel" for
            input channels that each have their own, which needs noise="channel" and the exact
            variance: series that change within minutes beside others that change within days.
        kernel: the prior's kernel: "rbf"; for rougher signals "matern32", "matern52" or
            "rational_quadratic"; or a `tfpn.math.kernels.ScaleMixture`. A kernel of T Gaussian
            terms takes T times as long to evaluate; the named ones have about 12.
        double_precision: whether a float32 layer conditions in float64 where the digits of float32
            do not suffice. It then takes observations of any accuracy and density. Give False for
            features inside a network, whose variances are not those of a measurement. Variances are
            then raised to at least 3e-5 signal_std^2, and with more than 75 observed points to that
            times their number / 75. See `tfpn.math.convolve`.
        uncertainty: "diagonal" returns the exact variance. "none" returns variance 0 at observed
            points, for the ablation without uncertainty. "low_rank" and "joint" also say how the
            errors at different points and channels go together: by ``rank`` factors beside an
            independent remainder (`tfpn.math.uncertainty.low_rank`), or by the whole covariance
            (`tfpn.math.uncertainty.joint`, for small networks). Both need noise="shared".
            "sampled" draws functions from the posterior, which keep errors together
            (`tfpn.math.uncertainty.sampled`); variances are those of the draws.
        rank: number of factors of "low_rank" that the first convolution finds; later ones take
            their input's.
        num_samples: number of draws of "sampled" in inference. They are the same ones every time,
            and common to all examples.
        num_training_samples: the same in training, where every step and example has its own. Later
            convolutions take as many as their input has.
        num_waves: number of plane waves that make up a draw of the prior.
        stream: two layers with the same stream and the same ``seed`` take the same draws in
            inference. Give the convolutions of a network different ones.
        variance_estimator: "exact"; or "stochastic" for the estimate of the paper's appendix by
            ``num_probes`` random probes. The estimate is cut off at 0, which makes it too large on
            average. Every training step draws new probes. Inference uses the same ones each time,
            and they depend on an example's place in the batch. For uncertainty="diagonal".
        num_probes: number of probes.
        probes: "rademacher" or "gaussian" (the paper's, with a larger error).
        seed: seed of probes and draws; an integer, or None for a random one in training.
        conditioning: "exact" conditions on all observations of an example. "local" cuts its points
            into blocks of neighbours, and conditions each block on its own points and on those
            nearest to it, at a cost linear in N. An example stays exact where blocks would not save
            time. With "sampled", "diagonal" and "none".
        block_size: for "local", the largest number of points of a block.
        neighbors: for "local", the largest number of points of its halo; None for 32 on a line and
            128 in the plane and in space.
        common_points: whether to condition once for a whole batch if all its examples have the same
            points, variances and query points: whole images, or stations that all report. Other
            batches are computed one by one. All results agree up to rounding. There is then no
            gradient for points and variances. For noise="shared", and "diagonal" or "none".
        use_bias: adds a learnable constant to each output channel.
        train_bias: whether the bias is trained, as in `ChannelMix`.
        kernel_initializer: for W, [K, c_in, filters]. By default normal with the variance
            ``kept^(-2/3) / (K c_in)``, where kept is the fraction of the prior variance that the
            initial diffusion leaves: signal and variance keep their size through the blocks.
        bias_initializer: for the bias [filters].
        marginal_likelihood_weight: weight of the mean negative log marginal likelihood in the
            loss; 0 leaves it out, and its metric ``<name>_nll`` too.
        marginal_likelihood_trains: "kernel" lets that term reach only the prior's parameters and
            the learnable noise; "all" lets it reach points, values and variances too.

    Input:
        The observations dict (points [B, N, d], values and variance [B, N, c_in]). In ``call`` a
        second argument ``query`` [B, M, d] gives the output's points, by default the input's.
        Outside of training many of them are taken in pieces. The exceptions are "stochastic" and
        "sampled", whose memory grows with M, and "low_rank" and "joint", where it grows with M^2.

    Output:
        The observations dict at the input's points (padding stays unobserved), or at all query
        points, with ``filters`` channels; "low_rank" adds ``factors`` [B, M, filters, rank], whose
        squares' sum is part of the variance, "joint" ``covariance`` [B, M, filters, M, filters],
        "sampled" ``draws`` [B, S, M, filters].

    Raises:
        ValueError: for bad arguments or shapes.
        tf.errors.InvalidArgumentError: for noise="shared" if a point is observed in some channels
            only, or if the result is not finite (neither is checked inside XLA-compiled functions).

    Example:

    >>> import numpy as np, tfpn
    >>> rng = np.random.default_rng(0)
    >>> x = tfpn.observations(rng.uniform(size=(2, 30, 2)), rng.normal(size=(2, 30, 3)))
    >>> out = tfpn.layers.PNConv(8)(x)
    >>> out["values"].shape, out["variance"].shape
    (TensorShape([2, 30, 8]), TensorShape([2, 30, 8]))
    """

    def __init__(
        self,
        filters: int,
        num_basis: int = 9,
        *,
        spacing: float = 0.1,
        signal_std: float = 1.0,
        length_scale: float | None = None,
        observation_noise: float | None = None,
        noise: str = "shared",
        prior: str = "shared",
        kernel: KernelLike = "rbf",
        double_precision: bool = True,
        uncertainty: str = "diagonal",
        rank: int = 8,
        num_samples: int = 16,
        num_training_samples: int = 1,
        num_waves: int = 128,
        stream: int = 1,
        variance_estimator: VarianceEstimator = "exact",
        num_probes: int = 20,
        probes: Probes = "rademacher",
        seed: int | None = None,
        conditioning: Literal["exact", "local"] = "exact",
        block_size: int = BLOCK_SIZE,
        neighbors: int | None = None,
        common_points: bool = False,
        use_bias: bool = True,
        train_bias: bool = True,
        kernel_initializer: Initializer | None = None,
        bias_initializer: Initializer = "zeros",
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
        self.filters = check_count("filters", filters)
        self.num_basis = check_count("num_basis", num_basis)
        self.prior = check_choice("prior", prior, PRIORS)
        if self.prior == "channel" and not self._own_noise:
            raise ValueError(f"prior='channel' needs noise='channel', found {self.noise!r}.")
        self.uncertainty = check_choice("uncertainty", uncertainty, tuple(UNCERTAINTY))
        self.rank = check_count("rank", rank)
        self.variance_estimator = check_choice("variance_estimator", variance_estimator, ESTIMATORS)
        self.num_probes = check_count("num_probes", num_probes)
        self.probes = check_choice("probes", probes, PROBES)
        self._take_draws(seed, stream, num_waves, num_samples, num_training_samples)
        self._take_conditioning(conditioning, block_size, neighbors)
        way = UNCERTAINTY[self.uncertainty]
        self._check_local(way)
        if self._own_noise and not way.takes_channel_noise:
            raise ValueError(
                f"uncertainty={self.uncertainty!r} needs noise='shared', found {self.noise!r}: "
                "with channels seen at different points use uncertainty='diagonal'."
            )
        if self.variance_estimator == "stochastic":
            if way.takes_estimator and self.prior == "channel":
                raise ValueError(
                    "variance_estimator='stochastic' needs prior='shared', found 'channel'."
                )
            if way.key:
                raise ValueError(
                    "variance_estimator='stochastic' needs uncertainty='diagonal', found "
                    f"{self.uncertainty!r}."
                )
        self._take_common_points(common_points, way, noise="shared", variance_estimator="exact")
        if way.draws or self.variance_estimator == "stochastic":
            self._start_drawing()
        self.use_bias = check_flag("use_bias", use_bias)
        self.train_bias = check_flag("train_bias", train_bias)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)

    def build(self, observations_shape: Any, query_shape: Any = None) -> None:
        dim, channels = self._built_for = self._check_shapes(observations_shape)
        if query_shape is not None:
            self._check_query(query_shape, observations_shape["points"])
        self._build_prior(channels, each=self.prior == "channel")
        radius = DIFFUSION_PER_SPACING * self.spacing
        # `kept` is the prior variance that the diffusion leaves, relative to s^2. Features as rough
        # as the prior would need the scale 1 / kept, far smoother ones 1. Between the blocks of a
        # network the power 2/3 keeps mean square and variance best.
        mixture = read_mixture(self.prior_kernel)
        widths = self.length_scale * np.array(mixture.scales)
        kept = np.dot(mixture.weights, (1.0 + 2.0 * (radius / widths) ** 2) ** (-0.5 * dim))
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.num_basis, channels, self.filters),
            initializer=self.kernel_initializer
            or keras.initializers.VarianceScaling(kept ** (-2.0 / 3.0), mode="fan_in"),
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias", shape=(self.filters,), initializer=self.bias_initializer
            )
        self._build_flows(self.num_basis, dim)

    def _check_shapes_beside(self, shapes):
        super()._check_shapes_beside(shapes)
        for key in set(keys_beside()) & set(shapes) - {UNCERTAINTY[self.uncertainty].key}:
            raise ValueError(
                f"{type(self).__name__} {self.name!r} with uncertainty={self.uncertainty!r} takes "
                f"no {key}: all convolutions of a network need the same uncertainty."
            )

    def adapt(self, data: Observations) -> None:
        """As `GPConvolution.adapt`; with prior="channel" each channel has its own spacing and size.

        A channel that no example sees at two points keeps the length scale of all points' spacing.
        A channel that is never seen, or always 0, keeps the overall signal standard deviation.
        """
        super().adapt(data)
        if self.prior == "shared":
            return
        data = {key: np.asarray(data[key]) for key in ("points", "values", "variance")}
        lengths, levels = (np.exp(t) for t in (self.log_length_scale, self.log_signal_std))
        for channel in range(len(lengths)):
            variance = data["variance"][..., channel : channel + 1]
            observed = np.isfinite(variance[..., 0])
            values = data["values"][..., channel][observed].astype(np.float64)
            levels[channel] = self._level(values) or levels[channel]
            try:
                spacing = point_spacing(
                    data["points"][observed.any(-1)], variance[observed.any(-1)]
                )
            except ValueError:  # no example has two distinct points
                continue
            lengths[channel] = self.length_scale / self.spacing * spacing
        self._set_level(levels)
        self.log_length_scale.assign(np.log(lengths))

    def _prior_numbers(self, channels):
        priors, noises = super()._prior_numbers(channels)
        return (noises if self.prior == "channel" else priors), noises

    def call(
        self, observations: Observations, query: Tensor | None = None, training: bool = False
    ) -> dict[str, Tensor]:
        points, values, variance = self._unpack(observations)
        way = self._strategy(training)
        beside = self._read_beside(way, observations)
        own = query is None
        output_points, query, infinite = self._targets(query, points, variance)
        missing = missing_mask(infinite)
        observed = self._observed(points, values, variance)

        together = self._convolved_together if self.common_points else self._convolved

        def convolved(query):
            return together(way, observed, self._operator(query), beside, missing, own=own)

        with self._fusion(training, max(values.shape[-1], self.filters), points, query):
            if way.takes_pieces:
                mean, new_variance, nll = self._in_pieces(convolved, points, query, training)
                new_beside = None
            else:
                mean, new_variance, new_beside, nll = convolved(query)
        self._add_marginal_likelihood(nll, variance)
        mean *= 1.0 - missing
        return self._output(output_points, mean, new_variance, infinite, way, new_beside)

    def _strategy(self, training=False):
        """The uncertainty's strategy. Every training step makes new draws."""
        estimator, options = None, {}
        if self.variance_estimator == "stochastic":
            seed = self.seed_generator.next() if training else [0, self.seed or 0]
            estimator = Estimator(self.num_probes, self.probes, tf.cast(seed, tf.int32))
        if UNCERTAINTY[self.uncertainty].draws:
            options = self._draw_options(training)
        return strategy(self.uncertainty, rank=self.rank, estimator=estimator, **options)

    def _operator(self, query):
        """The layer's linear operator at query points."""
        drift, diffusion = self.flow_parameters()
        bias = self._read_bias()
        bias = tf.zeros([self.filters], drift.dtype) if bias is None else bias
        return Operator(query, self.kernel_parameters(), drift, diffusion, bias)

    def process(self, observations: Observations, query: Tensor) -> Distribution:
        """Each output channel's joint distribution over query points.

        Args:
            observations: the layer's input.
            query: points [B, M, d].

        Returns:
            A `tfpn.distributions.ProcessValues`, batch shape [B, filters], event shape [M].

        Raises:
            ValueError: with uncertainty="none", or for bad shapes.
        """
        # TensorFlow Probability takes time and memory to load, and training does not need it.
        from tfpn.distributions.process_values import process_values

        way = self._strategy()
        if not way.has_variance:
            raise ValueError(
                f"{type(self).__name__} {self.name!r} carries no uncertainty "
                f"(uncertainty={self.uncertainty!r}), so its output has no distribution."
            )
        given = self._unpack(observations)
        beside = self._read_beside(way, observations)
        query = self._cast(query)
        self._check_query(query.shape, given[0].shape)
        operator = tf.nest.map_structure(
            lambda tensor: tf.cast(tensor, tf.float64), self._operator(query)
        )
        beside = None if beside is None else tf.cast(beside, tf.float64)
        process = way, self._in_float64(*given), operator, beside, self.neighbourhoods
        source = f"{type(self).__name__} {self.name!r}"
        return process_values([process], dtype=self.algebra_dtype, source=source)

    def compute_output_spec(
        self, observations: Observations, query: Tensor | None = None, training: bool = False
    ) -> Any:
        points = observations["points"] if query is None else query
        way = strategy(self.uncertainty, rank=self.rank)
        return self._spec((*points.shape[:2], self.filters), way, observations, points=points)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            **self._draw_config(),
            **self._conditioning_config(),
            "filters": self.filters,
            "num_basis": self.num_basis,
            "prior": self.prior,
            "uncertainty": self.uncertainty,
            "rank": self.rank,
            "variance_estimator": self.variance_estimator,
            "num_probes": self.num_probes,
            "probes": self.probes,
            "common_points": self.common_points,
            "use_bias": self.use_bias,
            "train_bias": self.train_bias,
            "kernel_initializer": self.kernel_initializer
            and keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }
