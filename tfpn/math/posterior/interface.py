"""The interface of posteriors.

A posterior answers questions about functionals: numbers that are linear in the function, such as
the values of ``exp(D_i) f`` at query points, or an integral. F functionals at each of M places have
covariances ``cross`` [B, M, F, N] with the function at the observed points.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, Self, TypeAlias

import tensorflow as tf

from tfpn.math.kernels import FlowedKernel, Kernel
from tfpn.math.shapes import axis_sizes, reshape, sizes
from tfpn.types import Tensor


@dataclasses.dataclass(frozen=True)
class Flowed:
    """Functionals ``(exp(D_i) f)(x_m)``: K flows at M query points. `tf.nest` can flatten it.

    Attributes:
        query: x_m [B, M, d].
        kernel: the prior's kernel under the flows, of `Kernel.flowed`.
    """

    query: tf.Tensor
    kernel: FlowedKernel

    def __tf_flatten__(self):
        return (), (self.query, self.kernel)

    @classmethod
    def __tf_unflatten__(cls, metadata, components):
        return cls(*components)

    @property
    def shape(self) -> Any:
        """(M, K)."""
        return axis_sizes(self.query)[1], self.kernel.log_amplitude.shape[-1]

    def cross(self, points: Tensor) -> Tensor:
        """[B, M, K, N]."""
        return self.kernel(self.query, points)


@dataclasses.dataclass(frozen=True)
class Fixed:
    """Functionals given by their covariances with the function at the observed points.

    Attributes:
        values: [B, M, F, N].
    """

    values: tf.Tensor

    def __tf_flatten__(self):
        return (), (self.values,)

    @classmethod
    def __tf_unflatten__(cls, metadata, components):
        return cls(*components)

    @property
    def shape(self) -> Any:
        """(M, F)."""
        return tuple(axis_sizes(self.values)[1:3])

    def cross(self, points: Tensor) -> Tensor:
        """[B, M, F, N]."""
        return self.values


Functionals: TypeAlias = Flowed | Fixed


class Posterior(abc.ABC):
    """A zero-mean GP prior on each of c channels, conditioned on noisy observations.

    You can differentiate all methods once. G is the number of different posteriors among an
    example's channels: 1 if all share kernel and noise, otherwise c.

    Attributes:
        kernel: the prior's `Kernel`.
        points: the observed points [B, N, d].
    """

    kernel: Kernel
    points: tf.Tensor

    @property
    @abc.abstractmethod
    def channels(self) -> int:
        """c."""

    @abc.abstractmethod
    def condition(self, functionals: Functionals) -> Any:
        """The posterior of functionals, in one pass.

        Args:
            functionals: `Flowed` or `Fixed`.

        Returns:
            The means [B, M, F, c], the explained parts of the prior covariances [B, M, G, F, F],
            and `negative_log_marginal_likelihood`.
        """

    @abc.abstractmethod
    def mean(self, functionals: Functionals) -> Any:
        """Only the means [B, M, F, c], and `negative_log_marginal_likelihood`."""

    @abc.abstractmethod
    def solve(self, columns: Tensor) -> Any:
        """``(K + S)^-1 columns`` for q columns of each channel.

        Args:
            columns: [B, N, c, q]; c may be 1 if G is 1.

        Returns:
            The same shape, 0 at unobserved points, and `negative_log_marginal_likelihood`.
        """

    def respond(self, functionals: Functionals, columns: Tensor) -> Any:
        """Functionals of the posterior means from q columns: ``cross (K + S)^-1 columns``.

        Args:
            functionals: `Flowed` or `Fixed`.
            columns: [B, q, N, c].

        Returns:
            [B, q, M, F, c] and `negative_log_marginal_likelihood`.
        """
        weights, nll = self.solve(tf.transpose(columns, [0, 2, 3, 1]))
        weights = tf.transpose(weights, [0, 3, 1, 2])
        return weighted(functionals.cross(self.points), weights), nll

    @property
    @abc.abstractmethod
    def observations(self) -> tuple[Tensor, Tensor]:
        """Values [B, N, c], 0 where unobserved, and noise variances [B, G, N], +inf there."""

    @abc.abstractmethod
    def negative_log_marginal_likelihood(self) -> Tensor:
        """The negative log marginal likelihood of each channel, [B, c]; 0 without observations."""

    @abc.abstractmethod
    def select(self, channels: Any) -> Self:
        """The posterior of the channels whose indices the list holds."""

    def amplification(self) -> Tensor | None:
        """The factor by which the solution enlarges rounding errors, [B]; None if unknown.

        For F with ``F^T F = (K + S)^-1`` it bounds ``|F c| <= amplification * max |c| / s``.
        """
        return None

    def without(self, examples: Tensor) -> Self:
        """The posterior as if the examples, bool [B], had no observation.

        Only posteriors that know their `amplification` have it.
        """
        raise NotImplementedError

    def frugal(self, function: Callable[..., Any], *tensors: Tensor) -> Any:
        """Calls ``function(self, *tensors)`` and keeps little for the gradient.

        Args:
            function: takes a posterior and the tensors, or nested structures of tensors, and
                returns a tuple of tensors. It reads nothing else that has a gradient.
        """
        return function(self, *tensors)


def weighted(cross: Tensor, weights: Tensor) -> Tensor:
    """Sums covariances times q sets of weights over the observed points.

    Args:
        cross: [B, M, F, N].
        weights: [B, q, N, c].

    Returns:
        [B, q, M, F, c].
    """
    batch, queries, count, size = sizes(cross)
    _, number, _, channels = sizes(weights)
    if number == 1:
        flat = reshape(cross, [batch, [queries, count], size])
        found = tf.matmul(flat, weights[:, 0])
    else:
        flat = reshape(cross, [batch, 1, [queries, count], size])
        found = tf.matmul(flat, weights)
    return reshape(found, [batch, number, queries, count, channels])
