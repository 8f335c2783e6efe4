"""A mixture of equally likely draws that is smoothed, so that it has a density."""

import tensorflow as tf
import tensorflow_probability as tfp

from tfpn.distributions.multivariate_normal import multivariate_normal
from tfpn.types import Distribution, Tensor

# Each halves the interval that holds a quantile: as many as float32 has digits, and some.
_HALVINGS = 30


class NormalMixture(tfp.distributions.MixtureSameFamily):
    """`tfp.distributions.MixtureSameFamily` of equally likely components that can be pickled."""

    def __reduce__(self):
        return equal_mixture, (self.components_distribution,)

    def _quantile(self, value):
        """Of numbers, by bisection between the least and the largest quantile of a component."""
        parts = self.components_distribution
        if parts.event_shape.rank:
            raise NotImplementedError("vectors have no quantiles: take those of samples.")
        ends = parts.quantile(value[..., None])
        low, high = tf.reduce_min(ends, axis=-1), tf.reduce_max(ends, axis=-1)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            below = self.cdf(middle) < value
            low, high = tf.where(below, middle, low), tf.where(below, high, middle)
        return 0.5 * (low + high)


def equal_mixture(components: Distribution) -> Distribution:
    """The mixture of S equally likely distributions, which have the batch shape [..., S]."""
    logits = tf.zeros(components.batch_shape[-1:], components.dtype)
    return NormalMixture(tfp.distributions.Categorical(logits=logits), components)


def smoothed_mixture(
    mean: Tensor, deviations: Tensor, covariance: Tensor, noise: Tensor, *, units: Tensor
) -> Distribution:
    """A mixture around draws with exactly their mean and covariance (plus noise), and a density.

    Each draw becomes a normal distribution with the covariance ``h^2 C + noise``. Its deviation
    from the mean shrinks by the factor ``sqrt(1 - h^2)``, so the mixture's covariance is
    ``C + noise``. The bandwidth h comes from Silverman's rule for S draws of k variables.

    Args:
        mean: [..., k], which sets the dtype of the distribution.
        deviations: the draws' deviations from the mean, [..., S, k].
        covariance: C, the covariance of the draws [..., k, k], in units of ``units``.
        noise: a covariance [k, k], or zero [1, 1], in the same units.
        units: [k].

    Returns:
        A `NormalMixture`, batch shape [...] and event shape [k].

    Example:

    >>> import numpy as np
    >>> draws = np.array([[-1.0], [1.0]])
    >>> mixture = smoothed_mixture(
    ...     np.zeros(1), draws, np.ones((1, 1)), np.zeros((1, 1)), units=np.ones(1))
    >>> round(float(mixture.covariance()[0, 0]), 6)
    1.0
    """
    count, size = deviations.shape[-2:]
    squared = (4.0 / ((size + 2.0) * count)) ** (2.0 / (size + 4.0))
    squared = min(squared, 1.0)
    loc = mean[..., None, :] + (1.0 - squared) ** 0.5 * deviations
    components = multivariate_normal(
        loc.astype(mean.dtype), (squared * covariance + noise)[..., None, :, :], units=units
    )
    return equal_mixture(components)
