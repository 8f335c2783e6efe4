"""Gaussian processes by loops and numpy.linalg.solve, and derivatives by differences.

Written from the formulas, for comparison with tfpn.math; nothing here is fast or careful.
"""

import numpy as np


def kernel(x1, x2, s, length, drift, diffusion):
    """a N(x1; x2 - drift, length^2 I + diffusion) with a = s^2 (2 pi length^2)^(d/2)."""
    d = len(x1)
    covariance = length**2 * np.eye(d) + diffusion
    offset = x1 - x2 + drift
    density = np.exp(-0.5 * offset @ np.linalg.solve(covariance, offset))
    density /= np.sqrt(np.linalg.det(2 * np.pi * covariance))
    return s**2 * (2 * np.pi * length**2) ** (d / 2) * density


def _observed(points, values, variance, noise, s, length):
    """Observed points, values and K + S of one channel."""
    seen = np.isfinite(variance)
    points, values, variance = points[seen], values[seen], variance[seen]
    none, still = np.zeros(points.shape[-1]), np.zeros((points.shape[-1],) * 2)
    gram = np.array([[kernel(p, q, s, length, none, still) for q in points] for p in points])
    gram = gram.reshape(len(points), len(points)) + np.diag(variance + noise)
    # Beyond, a solve has fewer than four digits on one processor and fails on another.
    assert len(gram) == 0 or np.linalg.cond(gram) < 1e12, "give the reference some noise"
    return points, values, gram


def _each_channel(variance, noise, shared):
    channels = variance.shape[-1]
    noise = np.broadcast_to(noise, [channels])
    if shared:
        variance = np.repeat(variance.mean(-1, keepdims=True), channels, axis=-1)
        noise = np.full(channels, noise.mean())
    return variance, noise


def _nll(values, gram):
    fit = values @ np.linalg.solve(gram, values)
    return 0.5 * (fit + np.linalg.slogdet(gram)[1] + len(values) * np.log(2 * np.pi))


def convolve(points, values, variance, query, *, weights, drift, diffusion, signal_std,
             length_scale, noise, observation_variance=0.0):  # fmt: skip
    """As `tfpn.math.convolve`, without the floor on variances."""
    batch, _, channels = values.shape
    operators, _, out = weights.shape
    mean = np.zeros((batch, query.shape[1], out))
    var = np.zeros_like(mean)
    nll = np.zeros((batch, channels))
    for b in range(batch):
        each, noises = _each_channel(variance[b], observation_variance, noise == "shared")
        for c in range(channels):
            x, y, gram = _observed(
                points[b], values[b, :, c], each[:, c], noises[c], signal_std, length_scale
            )
            nll[b, c] = _nll(y, gram)
            for m, q in enumerate(query[b]):
                cross = np.array(
                    [
                        [kernel(q, p, signal_std, length_scale, drift[i], diffusion[i]) for p in x]
                        for i in range(operators)
                    ]
                ).reshape(operators, len(x))
                prior = np.array(
                    [
                        [
                            kernel(
                                q, q, signal_std, length_scale, drift[i] - drift[j],
                                diffusion[i] + diffusion[j],
                            )
                            for j in range(operators)
                        ]
                        for i in range(operators)
                    ]
                )  # fmt: skip
                posterior = prior - cross @ np.linalg.solve(gram, cross.T)
                response = cross @ np.linalg.solve(gram, y)
                for a in range(out):
                    w = weights[:, c, a]
                    mean[b, m, a] += w @ response
                    var[b, m, a] += w @ posterior @ w
    return mean, var, nll


def integrate(points, values, variance, *, signal_std, length_scale, box, noise,
              observation_variance=0.0, nodes=60):  # fmt: skip
    """As `tfpn.math.integrate` over a box, by Gauss-Legendre quadrature of the kernel."""
    batch, _, channels = values.shape
    d = points.shape[-1]
    low, high = (np.broadcast_to(side, [d]) for side in box)
    x, w = np.polynomial.legendre.leggauss(nodes)

    def once(p):
        result = signal_std**2
        for i in range(d):
            half = (high[i] - low[i]) / 2
            u = low[i] + half * (x + 1)
            result *= half * w @ np.exp(-0.5 * ((u - p[i]) / length_scale) ** 2)
        return result

    twice = signal_std**2
    for i in range(d):
        half = (high[i] - low[i]) / 2
        u = low[i] + half * (x + 1)
        profile = np.exp(-0.5 * ((u[:, None] - u[None, :]) / length_scale) ** 2)
        twice *= half**2 * w @ profile @ w
    mean, var, nll = (np.zeros((batch, channels)) for _ in range(3))
    for b in range(batch):
        each, noises = _each_channel(variance[b], observation_variance, noise == "shared")
        for c in range(channels):
            seen, y, gram = _observed(
                points[b], values[b, :, c], each[:, c], noises[c], signal_std, length_scale
            )
            single = np.array([once(p) for p in seen])
            mean[b, c] = single @ np.linalg.solve(gram, y)
            var[b, c] = twice - single @ np.linalg.solve(gram, single)
            nll[b, c] = _nll(y, gram)
    return mean, var, nll


def differences(function, array, step=1e-3, symmetric=False):
    """Gradient of a scalar function by central differences of fourth order.

    With ``symmetric`` the last two axes are those of symmetric matrices, which are moved as such.
    """
    array = np.asarray(array, np.float64)
    gradient = np.zeros_like(array)
    for index in np.ndindex(array.shape):
        mirror = (*index[:-2], index[-1], index[-2]) if symmetric else index
        direction = np.zeros_like(array)
        direction[index] += 0.5
        direction[mirror] += 0.5

        def along(t, direction=direction):
            return float(function(array + t * step * direction))

        gradient[index] = (8 * (along(1) - along(-1)) - (along(2) - along(-2))) / (12 * step)
    return gradient
