"""Monte Carlo truth for calibration: sampled functions and a network's exact features of them.

A function is a Gaussian process with an RBF kernel, written as white noise on a lattice convolved
with a Gaussian, so that it is known everywhere. The first layer's flow of it is in closed form; the
later layers' are sums over a fine lattice, which reaches as far beyond the unit box as the layers
look. NumPy in float64, with none of the library's own Gaussian process code.
"""

import dataclasses

import numpy as np

# Lattice step of the white noise in units of the Gaussian's standard deviation: the kernel's error
# is exp(-4 pi^2), by Poisson summation.
_NOISE_STEP = 0.5
# Where Gaussians are cut off, in standard deviations.
_TAIL = 4.5


@dataclasses.dataclass(frozen=True)
class Block:
    """Weights of [PNConv -> ProbReLU -> ChannelMix] as arrays; diffusions are diagonal."""

    weights: np.ndarray  # [K, c_in, c_out]
    drift: np.ndarray  # [K, d]
    diffusion: np.ndarray  # [K, d], variances
    bias: np.ndarray  # [c_out]
    mixing: np.ndarray  # [c_out, c_out]
    mixing_bias: np.ndarray  # [c_out]

    @classmethod
    def of(cls, convolution, mix):
        """The block of two built layers with biases."""
        drift, diffusion = (t.numpy().astype(np.float64) for t in convolution.flow_parameters())
        diagonal = np.diagonal(diffusion, axis1=-2, axis2=-1)
        if np.abs(diffusion).sum() > diagonal.sum() * (1 + 1e-9):
            raise ValueError("only diagonal diffusions separate into dimensions.")
        names = [convolution.kernel_parameters(), convolution.bias, mix.kernel, mix.bias]
        weights, bias, mixing, mixing_bias = (w.numpy().astype(np.float64) for w in names)
        return cls(weights, drift, diagonal, bias, mixing, mixing_bias)

    @property
    def reach(self):
        """How far from a point the flows look."""
        return np.max(np.abs(self.drift) + _TAIL * np.sqrt(self.diffusion))

    @property
    def flows(self):
        """Pairs of drift and diffusion."""
        return list(zip(self.drift, self.diffusion, strict=True))

    def after_flow(self, flows):
        """Deterministic rectifier and mixing of flows [K, ..., c_in]."""
        mixed = sum(flow @ kernel for flow, kernel in zip(flows, self.weights, strict=True))
        return np.maximum(mixed + self.bias, 0.0) @ self.mixing + self.mixing_bias


@dataclasses.dataclass(frozen=True)
class Field:
    """Sums of Gaussians on a lattice, ``sum_j height^d exp(-|x - y_j|^2 / 2 width^2) values_j``.

    values [F, J, c] or [F, J, J, c] for F functions in one or two dimensions; a width of 0 stands
    for a function sampled on the lattice ``axis`` [J].
    """

    values: np.ndarray
    axis: np.ndarray
    width: float = 0.0
    height: float = 1.0

    @property
    def dim(self):
        return self.values.ndim - 2

    def _matrix(self, targets, drift, diffusion):
        """Flow's weights of the lattice at targets of one dimension, [..., J]."""
        total = self.width**2 + diffusion
        height = self.height * self.width / np.sqrt(total)
        if not self.width:
            height = (self.axis[1] - self.axis[0]) / np.sqrt(2 * np.pi * total)
        difference = targets[..., None] + drift - self.axis
        return height * np.exp(-(difference**2) / (2 * total))

    def flow_at(self, points, drift, diffusion):
        """``exp(D) f`` at scattered points [F, N, d], [F, N, c]."""
        matrices = [self._matrix(points[..., a], drift[a], diffusion[a]) for a in range(self.dim)]
        shape = self.values.shape
        flat = self.values.reshape(*shape[:2], -1)
        result = matrices[0] @ flat  # [F, N, J c]
        if self.dim == 2:
            result = result.reshape(*result.shape[:2], *shape[2:])
            result = (matrices[1][..., None, :] @ result)[..., 0, :]
        return result

    def flow_on(self, axis, drift, diffusion):
        """``exp(D) f`` on the lattice of an axis [M], [F, M, c] or [F, M, M, c]."""
        result = self.values
        for a in range(self.dim):
            matrix = self._matrix(axis, drift[a], diffusion[a])
            result = np.moveaxis(np.tensordot(matrix, result, (1, a + 1)), 0, a + 1)
        return result


def sample_functions(rng, count, dim, length_scale, margin):
    """Samples of a unit-variance GP with RBF kernel on [-margin, 1 + margin]^dim, a `Field`."""
    width = length_scale / np.sqrt(2.0)
    step = _NOISE_STEP * width
    reach = margin + _TAIL * 1.5 * width
    axis = np.arange(-reach, 1.0 + reach + step, step)
    noise = rng.standard_normal([count, *[len(axis)] * dim, 1])
    return Field(noise, axis, width, np.sqrt(step / (np.sqrt(np.pi) * width)))


def values_at(field, points):
    """The functions' values at points [F, N, d], [F, N, 1]."""
    zero = np.zeros(field.dim)
    return field.flow_at(points, zero, zero)


def margin_of(blocks):
    """How far beyond the unit box the exact features of its points depend on a function."""
    return sum(block.reach for block in blocks)


def exact_features(blocks, field, points, step):
    """Features of the functions after each block at points [F, N, d], a list of [F, N, c].

    Args:
        blocks: list of `Block`.
        field: from `sample_functions`.
        points: where, [F, N, d].
        step: of the lattice on which features between the points are kept.
    """
    features = []
    for index, block in enumerate(blocks):
        flows = [field.flow_at(points, *flow) for flow in block.flows]
        features.append(block.after_flow(flows))
        if index + 1 < len(blocks):
            reach = margin_of(blocks[index + 1 :])
            axis = np.arange(-reach, 1.0 + reach + step, step)
            flows = [field.flow_on(axis, *flow) for flow in block.flows]
            field = Field(block.after_flow(flows), axis)
    return features


def posterior_functions(rng, field, points, observed, noise, count):
    """Samples of the functions given noisy observations, by Matheron's rule.

    Args:
        field: one sampled function [1, ...], whose lattice and kernel are used.
        points, observed: [1, N, d] and [1, N, 1].
        noise: standard deviation of the observations' errors.
        count: number of samples.

    Returns:
        A `Field` of ``count`` functions.
    """
    zero = np.zeros(field.dim)
    rows = field._matrix(points[0, :, 0], zero[0], zero[0])
    if field.dim == 2:
        other = field._matrix(points[0, :, 1], zero[1], zero[1])
        rows = (rows[:, :, None] * other[:, None, :]).reshape(len(rows), -1)
    prior = rng.standard_normal([count, rows.shape[1]])
    errors = noise * rng.standard_normal([count, len(rows)])
    gram = rows @ rows.T + noise**2 * np.eye(len(rows))
    surprise = observed[0, :, 0] - prior @ rows.T - errors
    values = prior + np.linalg.solve(gram, surprise.T).T @ rows
    return dataclasses.replace(field, values=values.reshape(count, *field.values.shape[1:]))
