"""Jointly normal variables from a covariance that may be singular."""

import tensorflow as tf
import tensorflow_probability as tfp


def multivariate_normal(loc, covariance, prior_variance=0.0, units=None):
    """`tfp.distributions.MultivariateNormalTriL` from mean and covariance.

    The covariance is factorised in float64, with a ridge of 1e-6 (float32) or 1e-13 (float64) of
    its mean variance and of ``prior_variance``, the size of the rounding in it, so that it may be
    singular.

    Args:
        loc: [..., M], float32 or float64.
        covariance: [..., M, M], positive semidefinite but for rounding.
        prior_variance: [...], of the prior that a posterior covariance was subtracted from: its
            rounding stays when hardly anything is left of it.
        units: [M], by which the variables of this covariance are multiplied (``loc`` is already),
            so that the ridge is that of each one's own size; None for 1.

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
    size = covariance.shape[-1] or tf.shape(covariance)[-1]
    relative = 1e-6 if loc.dtype == tf.float32 else 1e-13
    mean_variance = tf.linalg.trace(covariance) / tf.cast(size, tf.float64)
    ridge = relative * (mean_variance + tf.cast(prior_variance, tf.float64)) + 1e-30
    covariance += ridge[..., None, None] * tf.eye(size, dtype=tf.float64)
    covariance = 0.5 * (covariance + tf.linalg.matrix_transpose(covariance))
    factor = tf.debugging.check_numerics(
        tf.linalg.cholesky(covariance), "the covariance is not positive semidefinite"
    )
    if units is not None:
        units = tf.cast(units, tf.float64)
        factor *= units[:, None] * tf.sign(units)  # the diagonal stays positive
    return tfp.distributions.MultivariateNormalTriL(loc, tf.cast(factor, loc.dtype))
