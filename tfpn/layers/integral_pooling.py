"""Global pooling: the integral of a GP."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf

from tfpn.checks import check_positive
from tfpn.layers.base import GPPosteriorLayer
from tfpn.layers.conditioning import BLOCK_SIZE, Conditioned
from tfpn.layers.drawing import Drawing
from tfpn.math.kernels.kernel import one_region
from tfpn.math.missing import penalty
from tfpn.math.posterior import floored_variance
from tfpn.math.uncertainty import carried_by
from tfpn.types import Config, KernelLike, Observations, Tensor, Trains

# Regions with a centre, and its number of coordinates.
BALLS = {"disc": 2, "ball": 3}


@keras.saving.register_keras_serializable(package="tfpn")
class IntegralPooling(Conditioned, Drawing, GPPosteriorLayer):
    """Integral of each channel's GP posterior over the whole space, a box, a disc or a ball.

    Over R^d the mean is ``a 1^T (K + S)^-1 y`` with ``a = s^2 (2 pi l^2)^(d/2)`` and the variance
    is infinite (the paper's appendix). Over a box, a disc of the plane or a ball in space both are
    finite (`tfpn.math.box_integrals`, `tfpn.math.disc_integrals`, `tfpn.math.ball_integrals`).
    Rotations change nothing over R^d, nor over a disc or ball if they are about its centre. They do
    change the result over a box.

    Args:
        box: ``(low, high)``, each a number or a list of d numbers in units of the points.
        disc: ``(centre, radius)``, the centre's two coordinates and a number in units of the
            points, or a dict of the two.
        ball: the same in space, with three coordinates. Without box, disc and ball the integral is
            over the whole space.
        unit: unit of length that the integral is taken in, a weight that is not trained. 1 gives
            the integral itself; the d-th root of the domain's volume gives the average over the
            domain, which does not depend on the unit of the coordinates.
        spacing: initial length scale, unless ``length_scale`` is given.
        double_precision: whether a float32 layer conditions in float64 on the variances as they
            are. Without it they have float32's least variance, as in `PNConv`, and integrals over
            the whole space or of a joint covariance are computed in float32.
        conditioning, block_size, neighbors: as in `PNConv`. With "local" the integral is the sum of
            those of the blocks' posteriors, each over the block's part of the space, the box or the
            disc. A ball needs "exact".
        num_waves, stream, seed: for an input with draws, as in `PNConv`.
        signal_std, length_scale, observation_noise, noise, kernel, marginal_likelihood_weight,
            marginal_likelihood_trains: as in `PNConv`.

    Input:
        The observations dict (points [B, N, d], values and variance [B, N, c]).

    Output:
        A dict of ``values`` [B, c], the means, and ``variance`` [B, c]. Over the whole space the
        variance is +inf. Otherwise the dict also has ``factors`` [B, c, r] or ``covariance``
        [B, c, c] if the input has factors or a joint covariance. If the input has draws, the dict
        has ``draws`` [B, S, c]; over the whole space these integrate the mean that each draw gives.
        An example without observations has the prior's integral: mean 0.

    Example:

    >>> import numpy as np, tfpn
    >>> grid = np.linspace(0.0, 1.0, 21)[None, :, None]
    >>> x = tfpn.observations(grid, np.sin(np.pi * grid))
    >>> out = tfpn.layers.IntegralPooling(box=(0.0, 1.0), length_scale=0.3, dtype="float64")(x)
    >>> round(float(out["values"][0, 0]), 3)  # 2 / pi
    0.637
    """

    def __init__(
        self,
        *,
        box: Sequence[Any] | None = None,
        disc: Mapping[str, Any] | None = None,
        ball: Mapping[str, Any] | None = None,
        unit: float = 1.0,
        spacing: float = 0.1,
        signal_std: float = 1.0,
        length_scale: float | None = None,
        observation_noise: float | None = None,
        noise: str = "shared",
        kernel: KernelLike = "rbf",
        double_precision: bool = True,
        conditioning: Literal["exact", "local"] = "exact",
        block_size: int = BLOCK_SIZE,
        neighbors: int | None = None,
        num_waves: int = 128,
        stream: int = 1,
        seed: int | None = None,
        marginal_likelihood_weight: float = 0.0,
        marginal_likelihood_trains: Trains = "kernel",
        **kwargs: Any,
    ) -> None:
        self.spacing = check_positive("spacing", spacing)
        self.unit = check_positive("unit", unit)
        super().__init__(
            length_scale=self.spacing if length_scale is None else length_scale,
            signal_std=signal_std,
            observation_noise=observation_noise,
            noise=noise,
            kernel=kernel,
            double_precision=double_precision,
            marginal_likelihood_weight=marginal_likelihood_weight,
            marginal_likelihood_trains=marginal_likelihood_trains,
            **kwargs,
        )
        self._take_draws(seed, stream, num_waves)
        self._take_conditioning(conditioning, block_size, neighbors)
        one_region(box=box, disc=disc, ball=ball)
        self.box = None if box is None else read_box(box)
        self.disc = None if disc is None else read_ball("disc", disc)
        self.ball = None if ball is None else read_ball("ball", ball)
        if self.ball and self.neighbourhoods is not None:
            raise ValueError(
                f"{type(self).__name__} {self.name!r}: conditioning='local' integrates over each "
                "block's part of the region, and for parts of a ball it has no formula; use "
                "conditioning='exact', or pool over the space or a box."
            )

    def build(self, observations_shape: Any) -> None:
        dim, channels = self._built_for = self._check_shapes(observations_shape)
        for side in self.box or ():
            if np.ndim(side) and np.shape(side) != (dim,):
                raise ValueError(
                    f"{type(self).__name__} {self.name!r}: box sides must be numbers or lists of "
                    f"{dim} numbers for points {tuple(observations_shape['points'])}, found {side}."
                )
        for name in BALLS.keys() & self._region:
            if dim != BALLS[name]:
                where = {"disc": "of the plane", "ball": "in space"}[name]
                raise ValueError(
                    f"{type(self).__name__} {self.name!r}: a {name} needs points {where} "
                    f"[B, N, {BALLS[name]}], found {tuple(observations_shape['points'])}; use a "
                    "disc in the plane, a ball in space, and a box in other dimensions."
                )
        self._build_prior(channels)
        way = carried_by(observations_shape)
        self._check_local(way)
        if way.draws:
            self._start_drawing()
        self.log_unit = self.add_weight(
            name="log_unit",
            shape=(),
            initializer=keras.initializers.Constant(np.log(self.unit)),
            trainable=False,
        )

    def set_unit(self, unit: float) -> None:
        """Sets the unit of length of the integral."""
        self.log_unit.assign(np.log(check_positive("unit", unit)))

    def set_spacing(self, spacing: float) -> None:
        """Sets the length scale to its start value for ``spacing``."""
        scale = self._check_length("spacing", spacing) / self.spacing
        self.log_length_scale.assign(np.log(self.length_scale * scale))

    def call(self, observations: Observations, training: bool = False) -> dict[str, Tensor]:
        points, values, variance = self._unpack(observations)
        way = self._strategy(observations, training)
        beside = self._read_beside(way, observations)
        if beside is not None and self._own_noise:
            raise ValueError(
                f"{type(self).__name__} {self.name!r}: {way.key} needs noise='shared', found "
                f"{self.noise!r}."
            )
        observed = self._observed(points, values, variance)
        if not self.double_precision:
            observed = dataclasses.replace(observed, variance=self._floored(observed))
        # The observations explain nearly all of a finite variance, so the difference would lose
        # the digits of float32.
        wide = self.double_precision or (self._is_finite and way.integrates_in_float64)
        observed = dataclasses.replace(observed, double_precision=wide).widened()
        exact = observed.values.dtype
        # The coordinates are in units of `unit`: results over its powers might overflow.
        unit = tf.exp(tf.cast(self.log_unit, exact))
        kernel = observed.kernel
        observed = dataclasses.replace(
            observed,
            points=observed.points / unit,
            kernel=dataclasses.replace(kernel, length_scale=kernel.length_scale / unit),
        )
        region = {}
        for name, given in self._region.items():
            parts = (given[key] for key in ("centre", "radius")) if name in BALLS else given
            region[name] = tuple(tf.constant(part, exact) / unit for part in parts)
        if beside is not None:
            beside = tf.cast(beside, exact)
        if self.neighbourhoods is None:
            mean, pooled, beside, nll = way.integrate(observed, region, beside)
        else:
            mean, pooled, beside, nll = way.integrate_near(
                self.neighbourhoods, observed, region, beside
            )
        mean, pooled, nll = (self._cast(t) for t in (mean, pooled, nll))
        self._add_marginal_likelihood(nll, variance)
        self._check_finite(mean, pooled) if self._is_finite else self._check_finite(mean)
        output = {"values": mean, "variance": pooled}
        if beside is not None and (self._is_finite or way.keeps_over_space):
            output[way.key] = way.write(self._cast(beside))
        return output

    def _strategy(self, observations, training):
        way = carried_by(observations)
        return dataclasses.replace(way, **self._draw_options(training)) if way.draws else way

    @property
    def _region(self):
        """The region by its argument's name; empty for the whole space."""
        return one_region(box=self.box, disc=self.disc, ball=self.ball)

    @property
    def _is_finite(self):
        """Whether the integral has a finite variance."""
        return bool(self._region)

    def _floored(self, observed):
        """The variance, raised so that the features' dtype resolves it together with the noise."""
        variance = observed.variance
        unknown = tf.linalg.matrix_transpose(penalty(variance))  # 0 where observed
        least = floored_variance(unknown, observed.kernel.signal_std)
        least = tf.linalg.matrix_transpose(least)
        return tf.maximum(variance, tf.nn.relu(least - observed.observation_variance))

    def compute_output_spec(self, observations: Observations, training: bool = False) -> Any:
        batch, _, channels = observations["values"].shape
        way = carried_by(observations)
        kept = way if self._is_finite or way.keeps_over_space else None
        return self._spec((batch, channels), kept, observations)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            **self._draw_config(),
            **self._conditioning_config(),
            "box": self.box,
            "disc": self.disc,
            "ball": self.ball,
            "unit": self.unit,
            "spacing": self.spacing,
        }


def read_box(box: Any) -> tuple[Any, Any]:
    """``box`` as numbers and lists, for saving."""
    try:
        low, high = (np.asarray(side, dtype=float) for side in box)
        if max(low.ndim, high.ndim) <= 1 and np.all(
            (-np.inf < low) & (low < high) & (high < np.inf)
        ):
            return low.tolist(), high.tolist()
    except (TypeError, ValueError):
        pass
    raise ValueError(
        "box must be (low, high) with low < high, each a finite number or a list of d such "
        f"numbers, found {box!r}; for the whole space give None."
    )


def read_ball(name: str, given: Any) -> dict[str, Any]:
    """A disc or ball, by its ``name`` (a pair or a dict), as a dict of numbers, for saving."""
    size = BALLS[name]
    try:
        if isinstance(given, dict):
            if set(given) != {"centre", "radius"}:
                raise ValueError
            pair = given["centre"], given["radius"]
        else:
            pair = given
        centre, radius = (np.asarray(part, dtype=float) for part in pair)
        if centre.shape == (size,) and np.all(np.isfinite(centre)) and radius.shape == ():
            if 0.0 < radius < np.inf:
                return {"centre": centre.tolist(), "radius": float(radius)}
    except (TypeError, ValueError):
        pass
    raise ValueError(
        f"{name} must be (centre, radius), or a dict of the two, with {size} finite coordinates "
        f"and a positive number, found {given!r}."
    )
