"""The distribution of ``max(f, 0)`` for a normal variable f."""

import math

import tensorflow as tf
from tensorflow_probability.python.bijectors import softplus
from tensorflow_probability.python.distributions import distribution, normal
from tensorflow_probability.python.internal import (
    assert_util,
    dtype_util,
    parameter_properties,
    reparameterization,
    special_math,
    tensor_util,
)
from tensorflow_probability.python.math import special

from tfpn.math.activations.rectified import rectified_moments
from tfpn.math.activations.rectified_raw_moments import HIGHEST_ORDER, rectified_raw_moments
from tfpn.types import Distribution, Tensor


def _log_normal_cdf(z):
    """log Phi(z) with full relative accuracy on both sides. TFP's function loses digits."""
    root = math.sqrt(0.5)
    below, above = tf.minimum(z, 0.0), tf.maximum(z, 0.0)
    return tf.where(
        z < 0.0,
        special.logerfc(-root * below) - math.log(2.0),
        tf.math.log1p(-0.5 * tf.math.erfc(root * above)),
    )


class RectifiedNormal(distribution.Distribution):
    """``relu(f)`` with ``f ~ N(loc, scale^2)``: an atom at 0 and a normal density above it.

    Mean and variance are `tfpn.math.rectified_moments` (eq. rectified_moments_mu). They are
    accurate far into the tail, and so are the logarithms of the distribution function and its
    complement. `log_prob` and `prob` refer to the Lebesgue measure on the positive numbers and a
    unit atom at zero. At 0 they give the atom's mass ``Phi(-loc / scale)``, above it the density,
    below it 0. There is no `mode`: whether a mass or a density is larger depends on the unit.

    Samples are relu(loc + scale * noise), with gradients. A scale of 0 is the constant relu(loc),
    with a log density of +inf there if it is not 0.

    Args:
        loc: mean of the underlying normal, float tensor.
        scale: its standard deviation, >= 0; or
        squared_scale: its variance, >= 0. Give exactly one of the two. With ``squared_scale`` the
            gradients of mean and variance are also right at 0. Other gradients there, which pass
            through the square root, are taken as 0.
        validate_args: whether to check that scales, and the values you ask about, are not negative.
        allow_nan_stats: not used; all statistics are finite.

    Raises:
        ValueError: if not exactly one of ``scale`` and ``squared_scale`` is given.

    Example:

    >>> import tfpn
    >>> rectified = tfpn.distributions.RectifiedNormal(loc=0.0, scale=1.0)
    >>> round(float(rectified.mean()), 4), float(rectified.cdf(0.0))
    (0.3989, 0.5)
    >>> round(float(rectified.quantile(0.9)), 4), round(float(rectified.raw_moment(3)), 4)
    (1.2816, 0.7979)
    """

    def __init__(
        self,
        loc: Tensor,
        scale: Tensor | None = None,
        squared_scale: Tensor | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "RectifiedNormal",
    ) -> None:
        parameters = dict(locals())
        if (scale is None) == (squared_scale is None):
            raise ValueError("Give exactly one of scale and squared_scale.")
        with tf.name_scope(name) as name:
            dtype = dtype_util.common_dtype([loc, scale, squared_scale], dtype_hint=tf.float32)
            self._loc = tensor_util.convert_nonref_to_tensor(loc, dtype=dtype, name="loc")
            self._scale = tensor_util.convert_nonref_to_tensor(scale, dtype=dtype, name="scale")
            self._squared_scale = tensor_util.convert_nonref_to_tensor(
                squared_scale, dtype=dtype, name="squared_scale"
            )
            super().__init__(
                dtype=dtype,
                reparameterization_type=reparameterization.FULLY_REPARAMETERIZED,
                validate_args=validate_args,
                allow_nan_stats=allow_nan_stats,
                parameters=parameters,
                name=name,
            )

    @classmethod
    def _parameter_properties(cls, dtype, num_classes=None):
        return {
            "loc": parameter_properties.ParameterProperties(),
            "scale": parameter_properties.ParameterProperties(
                default_constraining_bijector_fn=softplus.Softplus
            ),
            "squared_scale": parameter_properties.ParameterProperties(
                default_constraining_bijector_fn=softplus.Softplus, is_preferred=False
            ),
        }

    @property
    def loc(self) -> Tensor:
        """Mean of the underlying normal."""
        return self._loc

    @property
    def scale(self) -> Tensor:
        """Standard deviation of the underlying normal."""
        if self._scale is not None:
            return self._scale
        variance = tf.convert_to_tensor(self._squared_scale)
        none = tf.equal(variance, 0.0)
        root = tf.sqrt(tf.where(none, tf.ones_like(variance), variance))
        return tf.where(none, tf.zeros_like(root), root)

    @property
    def squared_scale(self) -> Tensor:
        """Variance of the underlying normal."""
        return tf.square(self._scale) if self._squared_scale is None else self._squared_scale

    def normal(self) -> Distribution:
        """The underlying normal distribution."""
        return normal.Normal(self.loc, self.scale)

    def mean_and_variance(self) -> tuple[Tensor, Tensor]:
        """Mean and variance together, at the cost of one."""
        unit, mean, variance = self._moments()
        return (mean, variance) if unit is None else (unit * mean, unit * (unit * variance))

    def _moments(self):
        """A unit (None for 1), and mean and variance in this unit."""
        loc, variance = self.loc, self.squared_scale
        if loc.shape.rank is None or loc.shape.as_list() != variance.shape.as_list():
            shape = tf.broadcast_dynamic_shape(tf.shape(loc), tf.shape(variance))
            loc, variance = tf.broadcast_to(loc, shape), tf.broadcast_to(variance, shape)
        if self._scale is None:
            return None, *rectified_moments(loc, variance)
        # The unit is a scale whose square would overflow. The moments are homogeneous and do not
        # depend on the unit, so no gradient passes through it.
        scale = tf.broadcast_to(self._scale, tf.shape(loc))
        unit = tf.stop_gradient(tf.where(scale > self.dtype.max**0.45, scale, tf.ones_like(scale)))
        return unit, *rectified_moments(loc / unit, tf.square(scale / unit))

    def raw_moment(self, order: int) -> Tensor:
        """``E[h^order]`` for an order from 1 to 4: `tfpn.math.rectified_raw_moments`."""
        if isinstance(order, bool) or order not in range(1, HIGHEST_ORDER + 1):
            raise ValueError(f"order is {order!r}; expected an integer from 1 to {HIGHEST_ORDER}.")
        return rectified_raw_moments(self.loc, self.squared_scale, order)[-1]

    def _mean(self):
        return self.mean_and_variance()[0]

    def _variance(self):
        return self.mean_and_variance()[1]

    def _stddev(self):
        unit, _, variance = self._moments()  # the variance in units of 1 may overflow
        none = tf.equal(variance, 0.0)  # the root has no derivative there
        root = tf.where(~none, tf.sqrt(tf.where(~none, variance, 1.0)), 0.0)
        return root if unit is None else unit * root

    def _event_shape(self):
        return tf.TensorShape([])

    def _event_shape_tensor(self):
        return tf.constant([], dtype=tf.int32)

    def _sample_n(self, n, seed=None):
        return tf.nn.relu(self.normal().sample(n, seed=seed))

    def _log_prob(self, value):
        loc, scale = tf.convert_to_tensor(self.loc), tf.convert_to_tensor(self.scale)
        infinity = tf.constant(float("inf"), self.dtype)
        # Each branch sees only its own arguments. Otherwise its gradient would spoil the other's.
        above, constant = value > 0.0, tf.equal(scale, 0.0)
        density_scale = tf.where(constant, tf.ones_like(scale), scale)
        deviation = (tf.where(above, value, loc) - loc) / density_scale
        density = -0.5 * tf.square(deviation) - tf.math.log(density_scale * math.sqrt(2 * math.pi))
        density = tf.where(constant, tf.where(tf.equal(value, loc), infinity, -infinity), density)
        standardized = self._standardized(tf.where(above, loc, tf.zeros([], self.dtype)))
        outside = tf.where(value < 0.0, -infinity, _log_normal_cdf(standardized))
        found = tf.where(above, density, outside)
        return tf.where(tf.math.is_nan(value), value, found)

    def _cdf(self, value):
        cdf = special_math.ndtr(self._standardized(value))
        return tf.where(value < 0.0, tf.zeros([], self.dtype), cdf)

    def _log_cdf(self, value):
        below = tf.constant(-float("inf"), self.dtype)
        return tf.where(value < 0.0, below, _log_normal_cdf(self._standardized(value)))

    def _survival_function(self, value):
        survival = special_math.ndtr(-self._standardized(value))
        return tf.where(value < 0.0, tf.ones([], self.dtype), survival)

    def _log_survival_function(self, value):
        log_survival = _log_normal_cdf(-self._standardized(value))
        return tf.where(value < 0.0, tf.zeros([], self.dtype), log_survival)

    def _quantile(self, probability):
        loc, scale = tf.convert_to_tensor(self.loc), tf.convert_to_tensor(self.scale)
        # The quantile of 0 is in the atom, whatever the parameters.
        random = tf.logical_and(probability > 0.0, scale > 0.0)
        deviation = tf.math.ndtri(tf.where(random, probability, 0.5 * tf.ones_like(scale)))
        found = tf.nn.relu(loc + scale * deviation)
        none = tf.logical_and(tf.equal(probability, 0.0), scale > 0.0)
        found = tf.where(none, tf.zeros([], self.dtype), found)
        outside = tf.logical_not(tf.logical_and(probability >= 0.0, probability <= 1.0))
        return tf.where(outside, tf.constant(float("nan"), self.dtype), found)

    def _standardized(self, value):
        """(value - loc) / scale; for a scale of 0 +inf from loc on, and -inf below."""
        loc, scale = tf.convert_to_tensor(self.loc), tf.convert_to_tensor(self.scale)
        infinity = tf.constant(float("inf"), self.dtype)
        constant = tf.equal(scale, 0.0)
        found = (value - loc) / tf.where(constant, tf.ones_like(scale), scale)
        side = tf.where(value < loc, -infinity, tf.where(value >= loc, infinity, value - loc))
        return tf.where(constant, side, found)  # NaN stays NaN

    def _parameter_control_dependencies(self, is_init):
        if not self.validate_args:
            return []
        assertions = []
        for name in ("scale", "squared_scale"):
            parameter = getattr(self, f"_{name}")
            if parameter is not None and is_init != tensor_util.is_ref(parameter):
                message = f"Argument `{name}` must not be negative."
                assertions.append(assert_util.assert_non_negative(parameter, message=message))
        return assertions

    def _sample_control_dependencies(self, value):
        if not self.validate_args:
            return []
        message = "Samples of a rectified variable must not be negative."
        return [assert_util.assert_non_negative(value, message=message)]
