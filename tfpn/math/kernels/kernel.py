"""A stationary kernel and its closed forms."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import tensorflow as tf

from tfpn.math.kernels.balls import ball_integrals, disc_integrals
from tfpn.math.kernels.box import box_integrals, kernel_integral
from tfpn.math.kernels.gaussian import (
    flow_coefficients,
    gaussian_kernel,
    gaussian_of_flows,
    gaussian_whitener,
    squared_distances,
)
from tfpn.math.kernels.mixtures import ScaleMixture, read_mixture
from tfpn.types import DType, Tensor


@dataclasses.dataclass(frozen=True)
class Kernel:
    """``k(x, x') = s^2 sum_t w_t exp(-|x - x'|^2 / (2 a_t^2 l^2))``.

    Its parameters are tensors of one dtype, in which it computes. They are scalars, or one number
    for each of c channels. Below, "[c, ...]" stands for a leading axis that exists only in the
    second case. `tf.nest` treats a kernel as its two tensors.

    Attributes:
        signal_std: s, scalar or [c].
        length_scale: l, scalar or [c], in units of the points.
        mixture: weights w_t and scales a_t.

    Example:

    >>> import tensorflow as tf
    >>> from tfpn.math.kernels import Kernel
    >>> kernel = Kernel(tf.constant(2.0), tf.constant(1.0))
    >>> kernel.covariance(tf.zeros([1, 2, 3]), tf.zeros([1, 1, 3])).numpy().tolist()
    [[[4.0], [4.0]]]
    """

    signal_std: tf.Tensor
    length_scale: tf.Tensor
    mixture: ScaleMixture = read_mixture("rbf")

    def __tf_flatten__(self):
        return (self.mixture,), (self.signal_std, self.length_scale)

    @classmethod
    def __tf_unflatten__(cls, metadata, components):
        return cls(*components, *metadata)

    @property
    def each(self) -> bool:
        """Whether every channel has its own parameters."""
        return self.signal_std.shape.rank > 0

    @property
    def variance(self) -> Tensor:
        """k(x, x), [c, ...]."""
        return tf.square(self.signal_std)

    def cast(self, dtype: DType) -> Self:
        """The same kernel in another dtype."""
        return self.map(lambda tensor: tf.cast(tensor, dtype))

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """The kernel with another signal standard deviation and length scale."""
        return dataclasses.replace(
            self,
            signal_std=function(self.signal_std),
            length_scale=function(self.length_scale),
        )

    def for_channels(self, channels: int) -> Self:
        """The kernel with parameters for each of ``channels`` channels."""
        return self.map(lambda tensor: tf.broadcast_to(tensor, [channels]))

    def terms(self) -> list[tuple[Tensor, Tensor]]:
        """A list of pairs, the standard deviation and length scale of each Gaussian term."""
        mixture = self.mixture
        if len(mixture.weights) == 1 == mixture.scales[0]:
            return [(self.signal_std, self.length_scale)]
        return [
            (self.signal_std * weight**0.5, self.length_scale * scale)
            for weight, scale in zip(mixture.weights, mixture.scales, strict=True)
        ]

    def _stacked_terms(self):
        """The terms' parameters as two tensors [c, ..., T]."""
        return tuple(tf.stack(t, axis=-1) for t in zip(*self.terms(), strict=True))

    def covariance(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Covariance matrix of two sets of points.

        Args:
            x1: [..., M, d]. With parameters for each channel, the first axis is that of channels.
            x2: [..., N, d].

        Returns:
            [..., M, N].
        """
        squared = squared_distances(x1, x2)
        terms = self.terms()
        if self.each:
            terms = [(std[:, None, None], length[:, None, None]) for std, length in terms]
        return tf.add_n([gaussian_kernel(squared, *term) for term in terms])

    def flowed(self, drift: Tensor, diffusion: Tensor) -> "FlowedKernel":
        """The kernel with flows ``exp(D_k)`` applied to its first argument (eq. A_rbf).

        Args:
            drift: beta [K, d].
            diffusion: Sigma [K, d, d].

        Returns:
            A `FlowedKernel`, a function of only the points.
        """
        signal_std, length_scale = self._stacked_terms()
        return FlowedKernel(*flow_coefficients(signal_std, length_scale, drift, diffusion))

    def flowed_pairs(
        self, query: Tensor, others: Tensor, drift: Tensor, diffusion: Tensor
    ) -> Tensor:
        """Covariances of all functionals ``(exp(D_i) f)(x_m)`` (eq. A_rbf_A).

        This needs scalar parameters.

        Args:
            query: x_m [B, M, d].
            others: x_n [B, N, d].
            drift, diffusion: [K, d], [K, d, d].

        Returns:
            k_ij(x_m, x_n), [B, M, K, K, N] in the order m, i, j, n.
        """
        count, dim = drift.shape
        pairs = self.flowed(
            tf.reshape(tf.expand_dims(drift, 1) - drift, [count**2, dim]),
            tf.reshape(tf.expand_dims(diffusion, 1) + diffusion, [count**2, dim, dim]),
        )(query, others)
        shape = tf.shape(pairs)
        return tf.reshape(pairs, [shape[0], shape[1], count, count, shape[3]])

    def flowed_variance(self, drift: Tensor, diffusion: Tensor) -> Tensor:
        """``k_ij(x, x) = (exp(D_i) k exp(D_j)')(x, x)``, the same everywhere (eq. A_rbf_A).

        Args:
            drift, diffusion: [K, d], [K, d, d].

        Returns:
            [c, ..., K, K].
        """
        signal_std, length_scale = (t[..., None, None] for t in self._stacked_terms())
        whitener, log_peak = gaussian_whitener(
            length_scale, tf.expand_dims(diffusion, 1) + diffusion
        )
        white = tf.linalg.matvec(whitener, tf.expand_dims(drift, 1) - drift)
        exponent = log_peak - 0.5 * tf.reduce_sum(tf.square(white), axis=-1)
        return tf.reduce_sum(tf.square(signal_std) * tf.exp(exponent), axis=-3)

    def integrals(
        self, points: Tensor, box: Any = None, disc: Any = None, ball: Any = None
    ) -> tuple[Tensor, Tensor]:
        """Integrals of the kernel over a region, once and twice, for scalar parameters.

        Args:
            points: [..., d].
            box: ``(low, high)``, as in `box_integrals`.
            disc, ball: ``(centre, radius)``, as in `disc_integrals` and `ball_integrals`. Without
                a box, disc or ball the region is R^d.

        Returns:
            (P k)(x_n) of shape [...], and the scalar P k P', which is infinite over R^d.

        Raises:
            ValueError: if more than one is given, or as in those functions.
        """
        region = one_region(box=box, disc=disc, ball=ball)
        once, twice = zip(*(_integrals(points, *term, region) for term in self.terms()),
                          strict=True)  # fmt: skip
        return tf.add_n(once), tf.add_n(twice)

    def sample_frequencies(self, count: int, shift: Tensor) -> Tensor:
        """Draws from the spectrum: ``k(x, x') = s^2 E cos(omega . (x - x'))``.

        Each omega is a draw. The draws of a set form a randomly shifted lattice, mapped to the
        spectrum. Its averages are far closer to the expectation than those of independent draws. If
        each channel has its own parameters, the draws come from the mean of the channels' spectra,
        and `log_spectral_density` gives their weights.

        Args:
            count: number of draws F.
            shift: independent uniform numbers for each set of draws, [sets, 1, d + 1].

        Returns:
            omega [sets, F, d], a constant for gradients.
        """
        dtype, dim = self.length_scale.dtype, shift.shape[-1] - 1
        widths = tf.stop_gradient(self._spectral_widths())  # [c, ..., T]
        weights = np.array(self.mixture.weights)
        if self.each:
            channels = self.length_scale.shape[0]
            weights = np.tile(weights / channels, channels)
            widths = tf.reshape(widths, [-1])
        axes = dim + (len(weights) > 1)
        lattice = tf.constant(_lattice(count, axes), shift.dtype)
        uniform = tf.math.floormod(lattice + shift[..., :axes], 1.0)
        uniform = tf.clip_by_value(uniform, _EDGE, 1.0 - _EDGE)
        normal = tf.cast(tf.math.ndtri(uniform[..., :dim]), dtype)
        if len(weights) == 1:
            return normal * widths[0]
        edges = tf.constant(np.cumsum(weights)[:-1], shift.dtype)
        term = tf.reduce_sum(tf.cast(uniform[..., dim:] >= edges, tf.int32), axis=-1)
        return normal * tf.expand_dims(tf.gather(widths, term), -1)

    def log_spectral_density(self, frequencies: Tensor) -> Tensor:
        """Log density of the spectrum at omega [F, d], [c, ..., F]."""
        dim = frequencies.shape[-1]
        widths = tf.expand_dims(self._spectral_widths(), -2)  # [c, ..., 1, T]
        squared = tf.expand_dims(tf.reduce_sum(tf.square(frequencies), axis=-1), 1)
        exponents = -0.5 * squared / tf.square(widths) - dim * tf.math.log(widths)
        constant = np.log(self.mixture.weights) - 0.5 * dim * math.log(2.0 * math.pi)
        return tf.reduce_logsumexp(exponents + tf.constant(constant, exponents.dtype), axis=-1)

    def _spectral_widths(self):
        """Standard deviation of each Gaussian term's spectrum, [c, ..., T]."""
        scales = tf.constant(self.mixture.scales, self.length_scale.dtype)
        return 1.0 / (tf.expand_dims(self.length_scale, -1) * scales)


# Uniform numbers keep this distance from 0 and 1, where the normal quantile is infinite.
_EDGE = 3e-7


@functools.cache
def _lattice(count, axes):
    """Points that fill the unit cube evenly: a Kronecker lattice from a kin of the golden ratio.

    They are multiples of the powers of 1 / g with ``g^(axes + 1) = g + 1``.
    """
    golden = 2.0
    for _ in range(60):
        golden = (1.0 + golden) ** (1.0 / (axes + 1))
    steps = golden ** -np.arange(1.0, axes + 1.0)
    return np.arange(count)[:, None] * steps % 1.0


@dataclasses.dataclass(frozen=True)
class FlowedKernel:
    """``k_i(x_m, x_n) = (exp(D_i) k)(x_m, x_n)`` for K flows, made by `Kernel.flowed`.

    `tf.nest` treats it as its two tensors. If every channel has its own parameters, you may gather
    along their leading axis.

    Attributes:
        coefficients: [c, ..., T, K, d, d+1].
        log_amplitude: [c, ..., T, K].
    """

    coefficients: tf.Tensor
    log_amplitude: tf.Tensor

    def __tf_flatten__(self):
        return (), (self.coefficients, self.log_amplitude)

    @classmethod
    def __tf_unflatten__(cls, metadata, components):
        return cls(*components)

    def __call__(self, query, points):
        """All covariances with the points.

        Args:
            query: x_m [B, M, d].
            points: x_n [B, N, d]. With parameters for each channel, B is the number of channels.

        Returns:
            [B, M, K, N]. The axis of the flows is between those of the points, so that the
            posterior's products need no transposition.
        """
        rows = tf.expand_dims(tf.linalg.matrix_transpose(points), 1)
        difference = tf.expand_dims(query, 3) - rows
        features = tf.concat([difference, tf.ones_like(difference[:, :, :1])], axis=2)
        terms = zip(
            tf.unstack(self.coefficients, axis=-4),
            tf.unstack(self.log_amplitude, axis=-2),
            strict=True,
        )
        return tf.add_n([gaussian_of_flows(*term, features) for term in terms])


def one_region(**regions: Any) -> dict[str, Any]:
    """The region that is given, by its name; an empty dict if all are None, which stands for R^d.

    Raises:
        ValueError: if more than one is given.

    >>> one_region(box=None, disc=((0.0, 0.0), 1.0))
    {'disc': ((0.0, 0.0), 1.0)}
    """
    found = {name: region for name, region in regions.items() if region is not None}
    if len(found) > 1:
        shown = " and ".join(f"{name}={region!r}" for name, region in found.items())
        raise ValueError(f"give one of {', '.join(regions)}: found {shown}.")
    return found


def _integrals(points, signal_std, length_scale, region):
    prior = {"signal_std": signal_std, "length_scale": length_scale}
    for name, (first, second) in region.items():
        if name == "box":
            return box_integrals(points, low=first, high=second, **prior)
        integrals = {"disc": disc_integrals, "ball": ball_integrals}[name]
        return integrals(points, centre=first, radius=second, **prior)
    whole = kernel_integral(signal_std, length_scale, points.shape[-1])
    return whole * tf.ones_like(points[..., 0]), tf.constant(float("inf"), points.dtype)
