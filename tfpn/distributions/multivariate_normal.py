"""Jointly normal variables with a covariance that may be singular."""

import functools

import tensorflow as tf
import tensorflow_probability as tfp

from tfpn.types import Distribution, Tensor

# The least and the largest jitter, relative to the variance. It grows in steps of 10.
_JITTER = {tf.float32: (1e-6, 1e-4), tf.float64: (1e-13, 1e-8)}


class JointNormal(tfp.distributions.MultivariateNormalTriL):
    """`tfp.distributions.MultivariateNormalTriL` that can be pickled and copied.

    Its standard deviation is right as long as the dtype holds it, even if the variance overflows.
    """

    def _stddev(self):
        factor = self.scale_tril
        # The unit of each row is its largest number, or 1 for a row of zeros.
        unit = tf.reduce_max(tf.abs(factor), axis=-1, keepdims=True)
        unit = tf.where(unit > 0.0, unit, tf.ones_like(unit))
        root = tf.sqrt(tf.reduce_sum(tf.square(factor / unit), axis=-1))
        return unit[..., 0] * root + tf.zeros_like(self.loc)

    def __reduce__(self):
        return functools.partial(type(self), **self.parameters), ()


def multivariate_normal(
    loc: Tensor,
    covariance: Tensor,
    prior_variance: Tensor = 0.0,
    units: Tensor | None = None,
    source: str = "multivariate_normal",
) -> Distribution:
    """Makes a `tfp.distributions.MultivariateNormalTriL` from mean and covariance.

    The covariance may be singular. It is factorised in float64 with a jitter, relative to its mean
    variance and ``prior_variance``: 1e-6 (float32) or 1e-13 (float64), which is the size of its
    rounding. If this does not suffice, the jitter grows tenfold, up to 1e-4 (float32) or 1e-8
    (float64).

    Args:
        loc: [..., M], float32 or float64.
        covariance: [..., M, M], positive semidefinite up to rounding.
        prior_variance: variance of the prior that a posterior covariance was subtracted from,
            [...]. Its rounding stays, even if hardly any variance is left.
        units: [M], the factors from the variables of ``covariance`` to those of ``loc``. So the
            jitter suits the size of each variable. None for 1.
        source: name of the covariance's source, for the error.

    Returns:
        The distribution, with event shape [M].

    Raises:
        tf.errors.InvalidArgumentError: if the covariance is not positive semidefinite.

    Example:

    >>> import numpy as np
    >>> from tfpn.distributions.multivariate_normal import multivariate_normal
    >>> normal = multivariate_normal(np.zeros(2), np.ones((2, 2)))
    >>> normal.covariance().numpy().round(6).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    loc = tf.convert_to_tensor(loc)
    covariance = tf.cast(covariance, tf.float64)
    covariance = 0.5 * (covariance + tf.linalg.matrix_transpose(covariance))
    size = covariance.shape[-1] or tf.shape(covariance)[-1]
    mean_variance = tf.linalg.trace(covariance) / tf.cast(size, tf.float64)
    unit = mean_variance + tf.cast(prior_variance, tf.float64)
    least, largest = _JITTER[loc.dtype]
    factor = tf.debugging.check_numerics(
        _factorised(covariance, unit, least, largest),
        f"{source}: the covariance is not positive semidefinite, even with a jitter of "
        f"{largest:g} of the variance",
    )
    if units is not None:
        units = tf.cast(units, tf.float64)
        factor *= units[:, None] * tf.sign(units)  # keeps the diagonal positive
    return JointNormal(loc, tf.cast(factor, loc.dtype))


def _factorised(covariance, unit, least, largest):
    """Cholesky factors of ``covariance + jitter * unit * I``, NaN if no jitter suffices.

    Each matrix gets the least jitter of the ladder with which it can be factorised.
    """

    def factorise(jitter):
        ridge = jitter * unit + 1e-30
        diagonal = tf.linalg.diag_part(covariance) + ridge[..., None]
        # A failed factorisation gives NaN on a CPU, without an error.
        return tf.linalg.cholesky(tf.linalg.set_diag(covariance, diagonal))

    def failed(factor):
        return tf.logical_not(tf.math.is_finite(tf.reduce_sum(factor, axis=[-2, -1])))

    def step(jitter, factor):
        jitter = jitter * tf.where(failed(factor), tf.constant(10.0, tf.float64), 1.0)
        return jitter, factorise(jitter)

    jitter = tf.fill(tf.shape(unit), tf.constant(least, tf.float64))
    return tf.while_loop(
        # The bound leaves half a step for the rounding of the steps.
        lambda jitter, factor: tf.reduce_any(failed(factor) & (jitter < 0.3 * largest)),
        step,
        (jitter, factorise(jitter)),
    )[1]
