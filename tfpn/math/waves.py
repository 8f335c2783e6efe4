"""Draws of Gaussian process priors as sums of plane waves (random Fourier features).

A stationary prior is a mean over its spectrum of plane waves with random amplitudes. Every plane
wave is an eigenfunction of a flow ``exp(D)``. Its integral over a box, disc or ball has a
closed form.
With F frequencies omega_j, and with standard normal a_j and b_j for each channel,

    f(x)           = s / sqrt(F) sum_j a_j cos(omega_j . x) + b_j sin(omega_j . x)
    (exp(D) f)(x)  = the same with a_j - i b_j times exp(i w . beta - w . Sigma w / 2), w = omega_j

Frequencies are constants for gradients. A draw depends on the kernel's parameters by its
amplitudes. Their weight is the root of the spectral density relative to that of the draw. The
weight is 1, with the right derivative. So priors of several channels can share frequencies, and one
product serves all of them. In the plane and in space each set of frequencies is turned by a
random rotation, so the distribution of a draw has no special direction.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfpn.math.channels import mix_channels
from tfpn.math.kernels import Kernel
from tfpn.math.kernels.balls import ball_volume, bessel_ratio
from tfpn.math.random import normal, uniform
from tfpn.math.shapes import reshape, sizes
from tfpn.types import Tensor

# J_1 is a mean of cosines below this argument, and Hankel's expansion beyond it, both to 1e-15.
_FAR_BESSEL = 25.0
_BESSEL_NODES = 64
_HANKEL_TERMS = 20


@dataclasses.dataclass(frozen=True)
class Waves:
    """S functions of c channels for each example, as sums of F plane waves from `draw_waves`.

    Attributes:
        frequencies: omega [S, F, d].
        amplitudes: amplitudes of cosines and sines [S, 2 F, c], the same for all examples.
        centre: the point of each example where the waves' angles are 0, [B, 1, d].
        phases: phases to add to the waves' angles, in turns, [B, S, 1, F], or None.
        wide: whether to compute float32 angles in float64.
    """

    frequencies: tf.Tensor
    amplitudes: tf.Tensor
    centre: tf.Tensor
    phases: tf.Tensor | None = None
    wide: bool = False

    def __call__(self, points: Tensor) -> Tensor:
        """The functions' values at points [B, N, d], [B, S, N, c]."""
        return self._sum(*self._cosines(points))

    def integral(self, region: Mapping[str, Any]) -> Tensor:
        """The functions' integrals over a region, [B, S, c].

        Args:
            region: dict of a ``box``, ``disc`` or ``ball``, as in `Kernel.integrals`.
        """
        dim = self.frequencies.shape[-1]
        if "box" in region:
            low, high = (tf.broadcast_to(side, [dim]) for side in region["box"])
            middle, half = 0.5 * (low + high), 0.5 * (high - low)
            factor = tf.reduce_prod(2.0 * half * _sinc(self.frequencies * half), axis=-1)
        else:
            ((name, (middle, radius)),) = region.items()
            distance = tf.cast(radius * tf.norm(self.frequencies, axis=-1), tf.float64)
            # The mean of a wave over the region, relative to the wave at its centre.
            share = (
                2.0 * _bessel_ratio(distance) if name == "disc" else 3.0 * bessel_ratio(distance)
            )
            factor = ball_volume(radius, dim) * tf.cast(share, radius.dtype)
        factor = factor[None, :, None]
        middle = tf.zeros_like(self.centre) + middle
        cosines, sines = self._cosines(middle)
        return self._sum(cosines * factor, sines * factor)[:, :, 0]

    def _cosines(self, points):
        """Cosines and sines of the waves at points, each [B, S, N, F]."""
        points, centre, frequencies = (
            tf.cast(t, tf.float64) if self.wide else t
            for t in (points, self.centre, self.frequencies)
        )
        # This avoids a matrix product, which may have a lower precision on a GPU.
        relative = tf.unstack((points - centre)[:, None, :, None], axis=-1)
        frequencies = tf.unstack(frequencies[:, None] / (2.0 * math.pi), axis=-1)
        turns = tf.add_n([x * f for x, f in zip(relative, frequencies, strict=True)])
        turns = tf.cast(turns - tf.round(turns), self.amplitudes.dtype)
        if self.phases is not None:
            turns += self.phases
        angles = 2.0 * math.pi * turns
        return tf.cos(angles), tf.sin(angles)

    def _sum(self, cosines, sines):
        features = tf.concat([cosines, sines], axis=-1)
        batch, samples, size, count = sizes(features)
        if samples != 1:
            return tf.matmul(features, self.amplitudes)
        mixed = mix_channels(reshape(features, [batch, size, count]), self.amplitudes[0])
        return mixed[:, None]


def draw_waves(
    kernel: Kernel,
    channels: int,
    centre: Tensor,
    *,
    samples: int,
    waves: int,
    seed: Tensor,
    fresh: bool,
    wide: bool = False,
) -> Waves:
    """Draws functions of zero-mean priors with a kernel.

    Args:
        kernel: a kernel with parameters for all channels together, or for each channel.
        channels: c.
        centre: [B, 1, d], where the angle of waves is 0.
        samples: S, the number of independent draws.
        waves: F.
        seed: integer tensor [2].
        fresh: whether examples have their own draws. They share amplitudes, but have independent
            phases. So the draws of different examples are uncorrelated, and become independent as F
            grows. Otherwise all examples have the same draws.
        wide: as in `Waves`.

    Returns:
        `Waves`, of c channels.
    """
    dtype, dim = centre.dtype, centre.shape[-1]
    seeds = (seed + tf.constant(step, seed.dtype) for step in ([1, 0], [0, 1 << 20]))
    angles = {2: 1, 3: 3}.get(dim, 0)
    shift = uniform([samples, 1, dim + 1 + angles], next(seeds), dtype)
    frequencies = kernel.sample_frequencies(waves, shift[..., : dim + 1])
    if dim == 2:
        frequencies = _turned(frequencies, 2.0 * math.pi * shift[..., 3])
    elif dim == 3:
        frequencies = tf.matmul(frequencies, _rotations(shift[:, 0, 4:]))
    flat = tf.reshape(frequencies, [samples * waves, dim])
    density = kernel.log_spectral_density(flat)  # [c, ..., S F]
    drawn = tf.stop_gradient(density)
    if kernel.each:
        drawn = tf.reduce_logsumexp(drawn, axis=0) - math.log(channels)
    relative = tf.exp(0.5 * (density - drawn))
    scale = kernel.signal_std[..., None] * relative / math.sqrt(waves)
    scale = tf.transpose(tf.reshape(scale, [-1, samples, waves]), [1, 2, 0])  # [S, F, c or 1]
    numbers = normal([samples, 2 * waves, channels], seed, dtype)
    amplitudes = numbers * tf.concat([scale, scale], axis=1)
    phases = None
    if fresh:
        shape = [tf.shape(centre)[0], samples, 1, waves]
        phases = uniform(shape, next(seeds), dtype)
    return Waves(frequencies, amplitudes, tf.stop_gradient(centre), phases, wide)


def _turned(vectors, angle):
    """Turns vectors [S, F, 2] by angles [S, 1]."""
    x, y = tf.unstack(vectors, axis=-1)
    cosine, sine = tf.cos(angle), tf.sin(angle)
    return tf.stack([cosine * x - sine * y, sine * x + cosine * y], axis=-1)


def _rotations(numbers):
    """Uniform rotations [S, 3, 3] by uniform numbers [S, 3], as unit quaternions (Shoemake)."""
    share, first, second = tf.unstack(numbers, axis=-1)
    near, far = tf.sqrt(1.0 - share), tf.sqrt(share)
    first, second = 2.0 * math.pi * first, 2.0 * math.pi * second
    x, y, z, w = (
        near * tf.sin(first), near * tf.cos(first), far * tf.sin(second), far * tf.cos(second)
    )  # fmt: skip
    rows = (
        (1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)),
        (2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)),
        (2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)),
    )
    return tf.stack([tf.stack(row, axis=-1) for row in rows], axis=-2)


def _sinc(x):
    """``sin(x) / x``."""
    small = tf.abs(x) < 1e-4
    safe = tf.where(small, tf.ones_like(x), x)
    return tf.where(small, 1.0 - tf.square(x) / 6.0, tf.sin(safe) / safe)


def _bessel_ratio(x):
    """``J_1(x) / x`` for x >= 0 in float64: XLA has no Bessel function of this kind."""
    near = tf.minimum(x, _FAR_BESSEL)[..., None]
    nodes = math.pi * (np.arange(_BESSEL_NODES) + 0.5) / _BESSEL_NODES
    terms = np.square(np.sin(nodes)) * tf.cos(near * np.cos(nodes))
    close = tf.reduce_mean(terms, axis=-1)
    far = tf.maximum(x, _FAR_BESSEL)
    sums, term = [tf.ones_like(far), tf.zeros_like(far)], tf.ones_like(far)
    for k in range(1, _HANKEL_TERMS):
        term *= (4.0 - (2 * k - 1) ** 2) / (8.0 * k * far)
        sums[k % 2] += term * (-1.0) ** (k // 2)
    angle = far - 0.75 * math.pi
    wave = sums[0] * tf.cos(angle) - sums[1] * tf.sin(angle)
    return tf.where(x < _FAR_BESSEL, close, tf.sqrt(2.0 / (math.pi * far)) * wave / far)
