"""Slow, dense versions of convolutions of fields: everything as real matrices over all channels."""

import numpy as np
import scipy.linalg

from equivariance import SO2, SO3, solve_generators

GROUPS = {2: SO2, 3: SO3}


def width(frequency, dim=2):
    """Channels of a field on the plane or, of a spin, in space."""
    frequency = int(str(frequency).rstrip("-"))
    return 2 * frequency + 1 if dim == 3 else min(2 * frequency, 1) + 1


def irrep(group, frequency):
    """The irreducible representation of a frequency; "0-" is the pseudoscalar, and so on."""
    pseudo = isinstance(frequency, str)
    return group.irrep(int(frequency[:-1]), parity=-1) if pseudo else group.irrep(frequency)


def representation(fields, dim=2):
    """The matrix rho(t) of a field type, as a function of t; in space of a rotation matrix."""
    if dim == 3:
        rho = sum(copies * SO3.irrep(spin) for spin, copies in fields)
        return lambda turn: np.asarray(rho.matrix(turn), float)

    def matrix(t):
        blocks = []
        for m, copies in fields:
            c, s = np.cos(int(str(m)[0]) * t), np.sin(int(str(m)[0]) * t)
            blocks += [np.eye(1) if m in (0, "0-") else np.array([[c, -s], [s, c]])] * copies
        return scipy.linalg.block_diag(*blocks)

    return matrix


def generators(frequencies, count, seed=0, length=0.3, constraint="dissipative", dim=2, group=None):
    """C [K, r, r], B [K, d, r, r] and S [K, d, d, r, r] of random equivariant generators."""
    rho = sum(irrep(group or GROUPS[dim], m) for m in frequencies)
    parameters = solve_generators(rho).parameterization(constraint)
    rng = np.random.default_rng(seed)
    found = [parameters.generator(parameters.initial(rng, length=length)) for _ in range(count)]
    return {
        name: np.stack([np.asarray(getattr(g, name), float) for g in found])
        for name in ("zeroth_order", "first_order", "second_order")
    }


def symbol(c, b, s, w):
    """exp(M(i w)) of one generator at one frequency w [d], [r, r]."""
    m = c + 1j * np.einsum("i,iab->ab", w, b) - np.einsum("i,j,ijab->ab", w, w, s)
    return scipy.linalg.expm(m)


def lattice_symbols(flows, length_scale, nodes=72, cutoff=9.0):
    """Frequencies [Q, d], E_k at them [K, Q, r, r] and the weights of the kernel's spectrum."""
    dim = flows["first_order"].shape[1]
    axis = (np.arange(nodes) + 0.5) * (2 * cutoff / nodes) - cutoff
    u = np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    xi = u / length_scale
    symbols = []
    for c, b, s in zip(*(flows[f"{n}_order"] for n in ("zeroth", "first", "second")), strict=True):
        m = c + 1j * np.einsum("qi,iab->qab", xi, b) - np.einsum("qi,qj,ijab->qab", xi, xi, s)
        symbols.append(scipy.linalg.expm(m))
    weights = np.exp(-0.5 * (u**2).sum(-1)) * (2 * cutoff / nodes / np.sqrt(2 * np.pi)) ** dim
    return xi, np.stack(symbols), weights


def places(frequencies, dim):
    """Where each frequency starts in rho, a list for each."""
    starts = np.cumsum([0] + [width(m, dim) for m in frequencies]).tolist()
    return {m: [s for f, s in zip(frequencies, starts, strict=False) if f == m]
            for m in frequencies}  # fmt: skip


def embedding(fields, frequencies, dim=2):
    """For each channel of the type its copy of rho and its place there."""
    starts = places(frequencies, dim)
    return [
        (copy // len(starts[m]), starts[m][copy % len(starts[m])] + component)
        for m, copies in fields
        for copy in range(copies)
        for component in range(width(m, dim))
    ]


def dense_mixing(weights, fields_in, fields_out, frequencies, dim=2):
    """W_k as real matrices from (copies x rho) to the output channels, [K, out, n, r]."""
    copies = 1 + max(copy for copy, _ in embedding(fields_in, frequencies, dim))
    size = sum(width(m, dim) for m in frequencies)
    rows = []
    for m, number in fields_out:
        starts = places(frequencies, dim)[m]
        for p in range(number):
            count = weights[m].shape[-3] // len(starts)
            block = np.zeros((count, width(m, dim), copies, size))
            for at, start in enumerate(starts):
                w = weights[m][..., at :: len(starts), :, p]
                if w.ndim == 2:
                    for part in range(width(m, dim)):
                        block[:, part, :, start + part] = w
                else:
                    re, im = w
                    block[:, 0, :, start], block[:, 0, :, start + 1] = re, -im
                    block[:, 1, :, start], block[:, 1, :, start + 1] = im, re
            rows.append(block)
    return np.concatenate(rows, axis=1)


def convolve(points, values, variance, query, *, fields_in, fields_out, frequencies, weights,
             flows, signal_std, length_scale, bias=None, nodes=72, cutoff=9.0):  # fmt: skip
    """Mean, and covariance over the output channels at each query point, of one example.

    Every channel has its own noise; unobserved entries have infinite variance.

    Args:
        points: [N, d]; values, variance: [N, c_in]; query: [M, d].
        nodes: of the frequencies on each axis; fewer will do for points within a few length scales.
        cutoff: the largest frequency in units of 1 / l.

    Returns:
        mean [M, c_out] and covariance [M, c_out, c_out].
    """
    xi, symbols, spectrum = lattice_symbols(flows, length_scale, nodes, cutoff)
    dim = points.shape[-1]
    mixing = dense_mixing(weights, fields_in, fields_out, frequencies, dim)
    count, outs = mixing.shape[:2]
    mean = np.zeros((len(query), outs))
    covariance = np.zeros((len(query), outs, outs))
    waves = np.exp(1j * np.einsum("qi,mni->qmn", xi, query[:, None] - points[None]))
    cross = (
        signal_std**2 * np.einsum("q,kqab,qmn->kmnab", spectrum, symbols, waves, optimize=True).real
    )
    prior = (
        signal_std**2
        * np.einsum("q,kqab,lqcb->klacb", spectrum, symbols, symbols.conj(), optimize=True).real
    )
    squared = ((points[:, None] - points[None]) ** 2).sum(-1)
    gram = signal_std**2 * np.exp(-squared / (2 * length_scale**2))
    for channel, (copy, place) in enumerate(embedding(fields_in, frequencies, dim)):
        seen = np.isfinite(variance[:, channel])
        inverse = np.linalg.inv(gram[np.ix_(seen, seen)] + np.diag(variance[seen, channel]))
        to_output = np.einsum("koa,kmna->mon", mixing[:, :, copy], cross[:, :, seen][..., place])
        mean += to_output @ inverse @ values[seen, channel]
        covariance += np.einsum(
            "koa,klab,lpb->op", mixing[:, :, copy], prior[..., place], mixing[:, :, copy]
        )
        covariance -= to_output @ inverse @ to_output.transpose(0, 2, 1)
    if bias is not None:
        mean[:, : len(bias)] += bias
    return mean, covariance


def block_variance(covariance, fields, dim=2):
    """The mean over each block of the covariance's diagonal, [M, c]."""
    return block_mean(np.diagonal(covariance, axis1=1, axis2=2), fields, dim)


def block_mean(array, fields, dim=2):
    """Every channel replaced by the mean of its block."""
    found, at = [], 0
    for m, copies in fields:
        for _ in range(copies):
            size = width(m, dim)
            mean = array[..., at : at + size].mean(-1, keepdims=True)
            found.append(np.repeat(mean, size, axis=-1))
            at += size
    return np.concatenate(found, axis=-1)
