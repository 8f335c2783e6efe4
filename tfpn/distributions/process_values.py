"""A Gaussian process at query points: marginals at once, the covariance on demand."""

import functools
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow_probability.python.distributions import distribution, kullback_leibler, normal
from tensorflow_probability.python.internal import reparameterization

from tfpn.distributions.multivariate_normal import multivariate_normal
from tfpn.math.process import process_covariance, process_marginals
from tfpn.types import Distribution, DType, Tensor

# Number of float64 copies of a covariance in memory at once, while it is made and factorised.
_COPIES = 5


class ProcessValues(distribution.Distribution):
    """Jointly normal values of Gaussian processes at M query points.

    The models' `feature_process` and `input_process` return it, and so does a convolution's
    `process`. ``mean``, ``variance``, ``stddev`` and `marginals` are known from the start, at any
    number of points. ``covariance``, ``sample``, ``log_prob``, ``entropy`` and `joint` need the
    covariance between the points. The first of them computes it, in 40 bytes M^2 for each process.

    You can pickle and copy it.

    Args:
        loc: means, [..., M].
        variance: variances of the values, [..., M].
        make_covariance: function without arguments that returns the covariance, [..., M, M].
        prior_variance: [...], see `multivariate_normal`.
        source: name of the process's layer, for errors.

    Raises (methods that need the covariance):
        MemoryError: if it does not fit into the machine's memory.
        tf.errors.InvalidArgumentError: if it cannot be factorised with the largest jitter (1e-4 of
            the prior's variance in float32, 1e-8 in float64).

    Example:

    >>> import numpy as np, tfpn
    >>> x = tfpn.observations([[[0.2], [0.8]]], [[1.0, -1.0]])
    >>> model = tfpn.models.PNTimeSeries(channels=2, num_blocks=1, spacing=0.2)
    >>> fit = model.input_process(x, np.linspace(0, 1, 5).reshape(1, 5, 1))
    >>> low, high = (fit.marginals().quantile(p) for p in (0.025, 0.975))
    >>> low.shape, fit.covariance().shape, fit.sample(3).shape
    (TensorShape([1, 1, 5]), TensorShape([1, 1, 5, 5]), TensorShape([3, 1, 1, 5]))
    """

    def __init__(
        self,
        loc: Tensor,
        variance: Tensor,
        make_covariance: Callable[[], Tensor],
        prior_variance: Tensor,
        source: str,
        name: str = "ProcessValues",
    ) -> None:
        parameters = dict(locals())
        with tf.name_scope(name) as name:
            self._loc = tf.convert_to_tensor(loc)
            self._variances = tf.convert_to_tensor(variance, self._loc.dtype)
            self._make_covariance = make_covariance
            self._prior_variance = prior_variance
            self._source = source
            self._known_joint = None
            super().__init__(
                dtype=self._loc.dtype,
                reparameterization_type=reparameterization.FULLY_REPARAMETERIZED,
                validate_args=False,
                allow_nan_stats=True,
                parameters=parameters,
                name=name,
            )

    def __reduce__(self):
        return functools.partial(type(self), **self.parameters), ()

    @property
    def loc(self) -> Tensor:
        """The means, [..., M]."""
        return self._loc

    @property
    def scale_tril(self) -> Tensor:
        """Cholesky factor of the covariance and its jitter, [..., M, M]."""
        return self.joint().scale_tril

    def marginals(self) -> Distribution:
        """The `tfp.distributions.Normal` of each value, which has quantiles and the like."""
        return normal.Normal(self._loc, self.stddev())

    def joint(self) -> Distribution:
        """The `tfp.distributions.MultivariateNormalTriL` of all points, with the least jitter."""
        if self._known_joint is not None:
            return self._known_joint
        found = self._within_memory(
            lambda: multivariate_normal(
                self._loc, self._make_covariance(), self._prior_variance, source=self._source
            )
        )
        if tf.executing_eagerly():  # a graph's tensors must not leave it
            self._known_joint = found
        return found

    def _within_memory(self, function):
        """Calls ``function``; a MemoryError then says how much memory it needs."""
        shape = self._loc.shape
        needed = None
        if shape.is_fully_defined():
            needed = _COPIES * tf.float64.size * math.prod(shape) * shape[-1]
        message = (
            f"{self._source}: the covariance between {shape[-1]} points, {shape} values, needs "
            f"about {(needed or 0) / 1e9:.3g} GB, more than there is. mean(), variance(), stddev() "
            "and marginals() do not need it; for covariance(), sample() and log_prob() give "
            "fewer query points, or fewer examples at a time."
        )
        if needed is not None and needed > _memory():
            raise MemoryError(message)
        try:
            return function()
        except (tf.errors.ResourceExhaustedError, MemoryError) as error:
            raise MemoryError(message) from error

    def _mean(self):
        return tf.identity(self._loc)

    def _mode(self):
        return tf.identity(self._loc)

    def _variance(self):
        return tf.identity(self._variances)

    def _covariance(self):
        return tf.cast(self._within_memory(self._make_covariance), self.dtype)

    def _sample_n(self, n, seed=None):
        return self.joint().sample(n, seed=seed)

    def _log_prob(self, value):
        return self.joint().log_prob(value)

    def _entropy(self):
        return self.joint().entropy()

    def _batch_shape(self):
        return self._loc.shape[:-1]

    def _batch_shape_tensor(self):
        return tf.shape(self._loc)[:-1]

    def _event_shape(self):
        return self._loc.shape[-1:]

    def _event_shape_tensor(self):
        return tf.shape(self._loc)[-1:]


def process_values(processes: Sequence[Any], *, dtype: DType, source: str) -> ProcessValues:
    """The `ProcessValues` of convolutions' outputs, computed in float64.

    Between many query points, little variance is left in some directions. The rounding of the prior
    in float32 would exceed it.

    Args:
        processes: tuples of arguments of `tfpn.math.process.process_marginals` in float64. Their
            outputs follow one another.
        dtype: dtype of the distribution.
        source: see `ProcessValues`.

    Returns:
        The distribution, batch shape [B, all c_out], event shape [M].
    """
    found = [process_marginals(*process) for process in processes]
    mean, variance = (
        tf.linalg.matrix_transpose(tf.cast(tf.concat(parts, axis=-1), dtype))
        for parts in zip(*found, strict=True)
    )
    prior_variance = tf.concat(
        [operator.prior_variance(observed.kernel) for _, observed, operator, *_ in processes], 0
    )
    make_covariance = functools.partial(_covariance, processes)
    return ProcessValues(mean, variance, make_covariance, prior_variance, source)


def _covariance(processes):
    return tf.concat([process_covariance(*process[:4]) for process in processes], axis=1)


@kullback_leibler.RegisterKL(ProcessValues, ProcessValues)
def _divergence(first, second, name=None):
    return first.joint().kl_divergence(second.joint(), name=name or "kl_divergence")


def _memory():
    """The machine's memory in bytes; infinite if the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return math.inf
