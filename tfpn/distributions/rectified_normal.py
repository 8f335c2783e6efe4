"""The law of ``max(f, 0)`` for a normal variable f."""

import math

import tensorflow as tf
from tensorflow_probability.python.distributions import distribution, normal
from tensorflow_probability.python.internal import (
    dtype_util,
    parameter_properties,
    reparameterization,
    tensor_util,
)
from tensorflow_probability.python.math import special

from tfpn.math.rectified import rectified_moments


def _log_normal_cdf(z):
    """log Phi(z) with full relative accuracy on both sides, where TFP's own loses digits."""
    root = math.sqrt(0.5)
    below, above = tf.minimum(z, 0.0), tf.maximum(z, 0.0)
    return tf.where(
        z < 0.0,
        special.logerfc(-root * below) - math.log(2.0),
        tf.math.log1p(-0.5 * tf.math.erfc(root * above)),
    )


class RectifiedNormal(distribution.Distribution):
    """``relu(f)`` with ``f ~ N(loc, scale^2)``: an atom at 0 and a normal density above it.

    Mean and variance are `tfpn.math.rectified_moments` (eq. rectified_moments_mu), accurate far
    into the tail. `log_prob` and `prob` are with respect to Lebesgue measure plus a unit atom at 0:
    at 0 they give the atom's mass ``Phi(-loc / scale)``, above it the density.

    Args:
        loc: mean of the underlying normal, float tensor.
        scale: its standard deviation, > 0; or
        squared_scale: its variance, >= 0. Exactly one of the two. With it the gradients of mean
            and variance are finite at 0 too, where those through a square root are not.

    Raises:
        ValueError: if not exactly one of ``scale`` and ``squared_scale`` is given.

    Example:

    >>> import tfpn
    >>> rectified = tfpn.distributions.RectifiedNormal(loc=0.0, scale=1.0)
    >>> round(float(rectified.mean()), 4), float(rectified.cdf(0.0))
    (0.3989, 0.5)
    """

    def __init__(
        self,
        loc,
        scale=None,
        squared_scale=None,
        validate_args=False,
        allow_nan_stats=True,
        name="RectifiedNormal",
    ):
        parameters = dict(locals())
        if (scale is None) == (squared_scale is None):
            raise ValueError("give exactly one of scale and squared_scale.")
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
            "scale": parameter_properties.ParameterProperties(),
            "squared_scale": parameter_properties.ParameterProperties(is_preferred=False),
        }

    @property
    def loc(self):
        """Mean of the underlying normal."""
        return self._loc

    @property
    def scale(self):
        """Standard deviation of the underlying normal."""
        return tf.sqrt(self._squared_scale) if self._scale is None else self._scale

    @property
    def squared_scale(self):
        """Variance of the underlying normal."""
        return tf.square(self._scale) if self._squared_scale is None else self._squared_scale

    def normal(self):
        """The underlying normal distribution."""
        return normal.Normal(self.loc, self.scale)

    def mean_and_variance(self):
        """Both at the cost of one."""
        loc, variance = self.loc, self.squared_scale
        if loc.shape.rank is None or loc.shape.as_list() != variance.shape.as_list():
            shape = tf.broadcast_dynamic_shape(tf.shape(loc), tf.shape(variance))
            loc, variance = tf.broadcast_to(loc, shape), tf.broadcast_to(variance, shape)
        return rectified_moments(loc, variance)

    def _mean(self):
        return self.mean_and_variance()[0]

    def _variance(self):
        return self.mean_and_variance()[1]

    def _event_shape(self):
        return tf.TensorShape([])

    def _event_shape_tensor(self):
        return tf.constant([], dtype=tf.int32)

    def _sample_n(self, n, seed=None):
        return tf.nn.relu(self.normal().sample(n, seed=seed))

    def _log_prob(self, value):
        above = self.normal().log_prob(tf.where(value > 0.0, value, 1.0))
        atom = _log_normal_cdf(self._standardized(0.0))
        below = tf.constant(-float("inf"), self.dtype)
        return tf.where(value > 0.0, above, tf.where(value < 0.0, below, atom))

    def _cdf(self, value):
        return tf.where(value < 0.0, tf.zeros([], self.dtype), self.normal().cdf(value))

    def _log_cdf(self, value):
        below = tf.constant(-float("inf"), self.dtype)
        return tf.where(value < 0.0, below, _log_normal_cdf(self._standardized(value)))

    def _survival_function(self, value):
        survival = self.normal().survival_function(value)
        return tf.where(value < 0.0, tf.ones([], self.dtype), survival)

    def _log_survival_function(self, value):
        log_survival = _log_normal_cdf(-self._standardized(value))
        return tf.where(value < 0.0, tf.zeros([], self.dtype), log_survival)

    def _quantile(self, probability):
        return tf.nn.relu(self.normal().quantile(probability))

    def _standardized(self, value):
        return (value - self.loc) / self.scale
