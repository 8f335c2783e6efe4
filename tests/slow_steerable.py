"""Slow, dense versions of convolutions of fields: everything as real matrices over all channels."""

import numpy as np
import scipy.linalg

from equivariance import SO2, solve_generators


def representation(fields):
    """The matrix rho(t) of a field type, as a function of t."""

    def matrix(t):
        blocks = []
        for m, copies in fields:
            c, s = np.cos(m * t), np.sin(m * t)
            blocks += [np.eye(1) if m == 0 else np.array([[c, -s], [s, c]])] * copies
        return scipy.linalg.block_diag(*blocks)

    return matrix


def generators(frequencies, count, seed=0, length=0.3, constraint="dissipative"):
    """C [K, r, r], B [K, 2, r, r] and S [K, 2, 2, r, r] of random equivariant generators."""
    rho = sum(SO2.irrep(m) for m in frequencies)
    parameters = solve_generators(rho).parameterization(constraint)
    rng = np.random.default_rng(seed)
    found = [parameters.generator(parameters.initial(rng, length=length)) for _ in range(count)]
    return {
        name: np.stack([np.asarray(getattr(g, name), float) for g in found])
        for name in ("zeroth_order", "first_order", "second_order")
    }


def lattice_symbols(flows, length_scale, nodes=72, cutoff=9.0):
    """Frequencies [Q, 2], E_k at them [K, Q, r, r] and the weights of the kernel's spectrum."""
    axis = (np.arange(nodes) + 0.5) * (2 * cutoff / nodes) - cutoff
    u = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    xi = u / length_scale
    symbols = []
    for c, b, s in zip(*(flows[f"{n}_order"] for n in ("zeroth", "first", "second")), strict=True):
        m = c + 1j * np.einsum("qi,iab->qab", xi, b) - np.einsum("qi,qj,ijab->qab", xi, xi, s)
        symbols.append(scipy.linalg.expm(m))
    weights = np.exp(-0.5 * (u**2).sum(-1)) * (2 * cutoff / nodes) ** 2 / (2 * np.pi)
    return xi, np.stack(symbols), weights


def embedding(fields, frequencies):
    """For each channel of the type its copy and its place in rho."""
    start, at = {}, 0
    for m in frequencies:
        start[m] = at
        at += 1 if m == 0 else 2
    return [
        (copy, start[m] + component)
        for m, copies in fields
        for copy in range(copies)
        for component in range(1 if m == 0 else 2)
    ]


def dense_mixing(weights, fields_in, fields_out, frequencies):
    """W_k as real matrices from (copies x rho) to the output channels, [K, out, n, r]."""
    copies = max(n for _, n in fields_in)
    count = next(iter(weights.values())).shape[-3]
    size = sum(1 if m == 0 else 2 for m in frequencies)
    places = embedding([(m, 1) for m in frequencies], frequencies)
    start = {m: places[i][1] for i, m in zip(np.cumsum([0] + [1 if m == 0 else 2 for m in
             frequencies])[:-1], frequencies, strict=True)}  # fmt: skip
    rows = []
    for m, number in fields_out:
        for p in range(number):
            block = np.zeros((count, 1 if m == 0 else 2, copies, size))
            if m == 0:
                block[:, 0, :, start[0]] = weights[0][:, :, p]
            else:
                re, im = weights[m][0, :, :, p], weights[m][1, :, :, p]
                block[:, 0, :, start[m]], block[:, 0, :, start[m] + 1] = re, -im
                block[:, 1, :, start[m]], block[:, 1, :, start[m] + 1] = im, re
            rows.append(block)
    return np.concatenate(rows, axis=1)


def convolve(points, values, variance, query, *, fields_in, fields_out, frequencies, weights,
             flows, signal_std, length_scale, bias=None, nodes=72):  # fmt: skip
    """Mean, and covariance over the output channels at each query point, of one example.

    Every channel has its own noise; unobserved entries have infinite variance.

    Args:
        points: [N, 2]; values, variance: [N, c_in]; query: [M, 2].
        nodes: of the frequencies on each axis; fewer will do for points within a few length scales.

    Returns:
        mean [M, c_out] and covariance [M, c_out, c_out].
    """
    xi, symbols, spectrum = lattice_symbols(flows, length_scale, nodes)
    mixing = dense_mixing(weights, fields_in, fields_out, frequencies)
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
    for channel, (copy, place) in enumerate(embedding(fields_in, frequencies)):
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


def block_variance(covariance, fields):
    """The mean over each block of the covariance's diagonal, [M, c]."""
    diagonal = np.diagonal(covariance, axis1=1, axis2=2)
    found, at = [], 0
    for m, copies in fields:
        for _ in range(copies):
            size = 1 if m == 0 else 2
            found += [diagonal[:, at : at + size].mean(-1)] * size
            at += size
    return np.stack(found, axis=-1)
