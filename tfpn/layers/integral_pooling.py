"""Global pooling: the integral of a GP."""

import keras
import numpy as np
import tensorflow as tf

from tfpn.layers.base import GPPosteriorLayer, check_flag, check_positive
from tfpn.math.joint import integrate_joint
from tfpn.math.low_rank import integrate_low_rank
from tfpn.math.missing import penalty
from tfpn.math.pooling import integrate
from tfpn.math.posterior import floored_variance
from tfpn.math.precision import resolved_variance


@keras.saving.register_keras_serializable(package="tfpn")
class IntegralPooling(GPPosteriorLayer):
    """Integral of each channel's GP posterior over the whole space, a box or a disc (appendix).

    Over R^d the mean is ``a 1^T (K + S)^-1 y`` with ``a = s^2 (2 pi l^2)^(d/2)`` and the variance
    is infinite. Over a box both are finite, by products of normal CDFs, and over a disc of the
    plane, by Marcum's Q function (`tfpn.math.disc_integrals`). Rotations about the disc's centre
    change nothing, nor do any over R^d; those of a box do.

    Args:
        box: ``(low, high)``, each a number or a list of d numbers in units of the points.
        disc: ``(centre, radius)``, the centre's two coordinates and a number in units of the
            points, or a dict of the two. Without box and disc the integral is over the whole space.
        unit: unit of length that the integral is taken in, a weight that is not trained. 1 gives
            the integral itself; the d-th root of the domain's volume gives the average over the
            domain, which does not depend on the unit of the coordinates.
        spacing: initial length scale, unless ``length_scale`` is given.
        double_precision: whether a float32 layer conditions in float64 on the variances as they
            are. Without it they have float32's least variance, as in `PNConv`, and integrals over
            the whole space or of a joint covariance are computed in float32.
        signal_std, length_scale, observation_noise, noise, marginal_likelihood_weight,
            marginal_likelihood_trains: as in `PNConv`.

    Input:
        The observations dict (points [B, N, d], values and variance [B, N, c]).

    Output:
        A dict of ``values`` [B, c], the means, and ``variance`` [B, c]; over the whole space the
        variance is +inf. Otherwise ``factors`` [B, c, r] or ``covariance`` [B, c, c] besides, if
        the input has factors or a joint covariance. An example without observations has the prior's
        integral: mean 0.

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
        box=None,
        disc=None,
        unit=1.0,
        spacing=0.1,
        signal_std=1.0,
        length_scale=None,
        observation_noise=None,
        noise="shared",
        double_precision=True,
        marginal_likelihood_weight=0.0,
        marginal_likelihood_trains="kernel",
        **kwargs,
    ):
        self.spacing = check_positive("spacing", spacing)
        self.unit = check_positive("unit", unit)
        super().__init__(
            length_scale=self.spacing if length_scale is None else length_scale,
            signal_std=signal_std,
            observation_noise=observation_noise,
            noise=noise,
            marginal_likelihood_weight=marginal_likelihood_weight,
            marginal_likelihood_trains=marginal_likelihood_trains,
            **kwargs,
        )
        self.double_precision = check_flag("double_precision", double_precision)
        if box is not None and disc is not None:
            raise ValueError(f"give box or disc, not both: found box={box!r} and disc={disc!r}.")
        self.box = None if box is None else read_box(box)
        self.disc = None if disc is None else read_disc(disc)

    def build(self, observations_shape):
        dim, channels = self._built_for = self._check_shapes(observations_shape)
        for side in self.box or ():
            if np.ndim(side) and np.shape(side) != (dim,):
                raise ValueError(
                    f"{type(self).__name__} {self.name!r}: box sides must be numbers or lists of "
                    f"{dim} numbers for points {tuple(observations_shape['points'])}, found {side}."
                )
        if self.disc and dim != 2:
            raise ValueError(
                f"{type(self).__name__} {self.name!r}: a disc needs points of the plane [B, N, 2], "
                f"found {tuple(observations_shape['points'])}; use a box."
            )
        self._build_prior(channels)
        self.log_unit = self.add_weight(
            name="log_unit",
            shape=(),
            initializer=keras.initializers.Constant(np.log(self.unit)),
            trainable=False,
        )

    def set_unit(self, unit):
        """Sets the unit of length of the integral."""
        self.log_unit.assign(np.log(check_positive("unit", unit)))

    def set_spacing(self, spacing):
        """Sets the length scale to its start value for ``spacing``."""
        scale = self._check_length("spacing", spacing) / self.spacing
        self.log_length_scale.assign(np.log(self.length_scale * scale))

    def call(self, observations):
        points, values, variance = self._unpack(observations)
        factors, covariance = self._coherent(observations)
        # A finite variance in float64: the observations explain nearly all of the integral's
        # variance, and the difference would lose float32's digits. A network's joint covariance
        # would take too much memory.
        finite = self.box is not None or self.disc is not None
        wide = self.double_precision or (finite and covariance is None)
        exact = "float64" if wide else self.algebra_dtype
        prior = {
            key: tf.cast(value, exact) if tf.is_tensor(value) else value
            for key, value in self._prior().items()
        }
        given = points, values, self._floored(variance, prior)
        points, values, noise_variance = (tf.cast(tensor, exact) for tensor in given)
        # Coordinates in units of `unit`, rather than results over its powers, which may overflow.
        unit = tf.exp(tf.cast(self.log_unit, exact))
        prior["length_scale"] /= unit
        domain = {}
        if self.box:
            domain["box"] = tuple(tf.constant(side, exact) / unit for side in self.box)
        if self.disc:
            domain["disc"] = tuple(
                tf.constant(self.disc[key], exact) / unit for key in ("centre", "radius")
            )
        given = points / unit, values, noise_variance
        options = {**prior, "double_precision": self.double_precision}
        if factors is not None:
            _shared(options)
            factors = tf.cast(factors, exact)
            mean, pooled, factors, nll = integrate_low_rank(*given, factors, **domain, **options)
        elif covariance is not None:
            _shared(options)
            covariance = tf.cast(covariance, exact)
            mean, covariance, nll = integrate_joint(*given, covariance, **domain, **options)
            pooled = tf.linalg.diag_part(covariance)
        else:
            mean, pooled, nll = integrate(*given, **domain, **options)
        mean, pooled, nll = (self._cast(t) for t in (mean, pooled, nll))
        self._add_marginal_likelihood(nll, variance)
        self._check_finite(mean, pooled) if finite else self._check_finite(mean)
        output = {"values": mean, "variance": pooled}
        if finite and factors is not None:
            output["factors"] = tf.transpose(self._cast(factors), [1, 2, 0])
        if finite and covariance is not None:
            output["covariance"] = self._cast(covariance)
        return output

    def _floored(self, variance, prior):
        """The variance raised so that with the noise it is the least one of the layer's dtype."""
        if self.double_precision and self.algebra_dtype == "float32":
            noise = (self._cast(prior[key]) for key in ("signal_std", "observation_noise"))
            return resolved_variance(variance, *noise)
        unknown = tf.linalg.matrix_transpose(penalty(variance))  # 0 where observed
        least = floored_variance(unknown, self._cast(prior["signal_std"]))
        least = tf.linalg.matrix_transpose(least)
        return tf.maximum(variance, tf.nn.relu(least - self._cast(prior["observation_noise"])))

    def compute_output_spec(self, observations):
        batch, _, channels = observations["values"].shape

        def spec(*shape):
            return keras.KerasTensor(shape, dtype=self.algebra_dtype)

        output = {"values": spec(batch, channels), "variance": spec(batch, channels)}
        finite = self.box is not None or self.disc is not None
        if finite and "factors" in observations:
            output["factors"] = spec(batch, channels, observations["factors"].shape[-1])
        if finite and "covariance" in observations:
            output["covariance"] = spec(batch, channels, channels)
        return output

    def get_config(self):
        return {
            **super().get_config(),
            "box": self.box,
            "disc": self.disc,
            "double_precision": self.double_precision,
            "unit": self.unit,
            "spacing": self.spacing,
        }


def read_box(box):
    """``box`` as numbers and lists, which saving can write down."""
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


def read_disc(disc):
    """``disc`` as a dict of numbers, which saving can write down; it may be a pair or a dict."""
    try:
        if isinstance(disc, dict):
            if set(disc) != {"centre", "radius"}:
                raise ValueError
            disc = disc["centre"], disc["radius"]
        centre, radius = (np.asarray(part, dtype=float) for part in disc)
        if centre.shape == (2,) and np.all(np.isfinite(centre)) and radius.shape == ():
            if 0.0 < radius < np.inf:
                return {"centre": centre.tolist(), "radius": float(radius)}
    except (TypeError, ValueError):
        pass
    raise ValueError(
        "disc must be (centre, radius), or a dict of the two, with two finite coordinates and a "
        f"positive number, found {disc!r}."
    )


def _shared(options):
    if options.pop("noise") != "shared":
        raise ValueError("factors and joint covariances need IntegralPooling(noise='shared').")
