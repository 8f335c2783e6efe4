"""What the layers compute, slowly, in NumPy: point by point and channel by channel."""

import numpy as np
import scipy.stats
import slow_steerable

from tfpn.math.steerable import count_channels


def _blurred(difference, covariance, signal_std, length_scale):
    """a N(difference; 0, l^2 I + covariance)."""
    dim = len(difference)
    total = length_scale**2 * np.eye(dim) + covariance
    amplitude = signal_std**2 * (2 * np.pi * length_scale**2) ** (dim / 2)
    return amplitude * scipy.stats.multivariate_normal(np.zeros(dim), total).pdf(difference)


def _parameters(layer, c=0):
    """Signal standard deviation and length scale of a channel, noise variance of all."""
    noise = layer.log_observation_noise
    each = getattr(layer, "prior", "shared") == "channel"
    scales = (np.asarray(log) for log in (layer.log_signal_std, layer.log_length_scale))
    return (
        *(np.exp(float(log[c] if each else log)) for log in scales),
        0.0 if noise is None else np.exp(2 * np.asarray(noise)),
    )


def conditioned(layer, x):
    """For each example and channel: points, values and (K + S)^-1 of its observations."""
    noise = _parameters(layer)[-1]
    variance = np.asarray(x["variance"])
    if layer.noise == "shared":
        variance = np.broadcast_to(variance.mean(-1, keepdims=True), variance.shape)
    variance = variance + noise
    for b, points in enumerate(x["points"]):
        for c in range(variance.shape[-1]):
            observed = np.isfinite(variance[b, :, c])
            chosen = points[observed]
            signal_std, length_scale, _ = _parameters(layer, c)
            squared = ((chosen[:, None] - chosen[None]) ** 2).sum(-1)
            covariance = signal_std**2 * np.exp(-squared / (2 * length_scale**2))
            covariance += np.diag(variance[b, observed, c])
            yield b, c, chosen, x["values"][b, observed, c], np.linalg.inv(covariance)


def in_units(layer, kernel=None):
    """The kernel for values as they are."""
    kernel = np.asarray(layer.kernel if kernel is None else kernel)
    return kernel / np.exp(np.asarray(layer.log_value_unit))[..., None]


def slow_convolution(layer, x, query=None):
    """Eqs. A_rbf and A_rbf_A, point by point and channel by channel."""
    unit = np.exp(np.asarray(layer.log_flow_unit))
    weights, drift, factor = (
        np.asarray(w) for w in (in_units(layer), unit * layer.drift, unit * layer.diffusion_factor)
    )
    diffusion = factor @ np.swapaxes(factor, 1, 2)
    operators, _, filters = weights.shape
    targets = x["points"] if query is None else query
    values = np.zeros((*targets.shape[:2], filters))
    variance = np.zeros_like(values)
    for b, c, points, observed, inverse in conditioned(layer, x):
        signal_std, length_scale, _ = _parameters(layer, c)
        for m, target in enumerate(targets[b]):
            cross = np.array(
                [
                    [
                        _blurred(target - p + drift[k], diffusion[k], signal_std, length_scale)
                        for p in points
                    ]
                    for k in range(operators)
                ]
            ).reshape(operators, len(points))
            prior = np.array(
                [
                    [
                        _blurred(
                            drift[i] - drift[j],
                            diffusion[i] + diffusion[j],
                            signal_std,
                            length_scale,
                        )
                        for j in range(operators)
                    ]
                    for i in range(operators)
                ]
            )
            left = prior - cross @ inverse @ cross.T
            values[b, m] += weights[:, c].T @ (cross @ inverse @ observed)
            variance[b, m] += np.einsum("ia,ja,ij->a", weights[:, c], weights[:, c], left)
    if layer.bias is not None:
        values += np.asarray(layer.bias)
    if layer.uncertainty == "none":
        variance[:] = 0.0
    if query is None:
        padding = np.isinf(x["variance"]).all(-1)
        values[padding], variance[padding] = 0.0, np.inf
    return {"points": targets, "values": values, "variance": variance}


def slow_rectifier(layer, x):
    observed = np.isfinite(x["variance"])
    mean, std = x["values"], np.sqrt(np.where(observed, x["variance"], 1.0))
    normal = scipy.stats.norm
    z = mean / std
    first = std * (normal.pdf(z) + z * normal.cdf(z))
    second = std**2 * ((1 + z**2) * normal.cdf(z) + z * normal.pdf(z))
    return {
        "points": x["points"],
        "values": np.where(observed, first, 0.0),
        "variance": np.where(observed, second - first**2, np.inf),
    }


def slow_leaky_rectifier(layer, x):
    """By the moments of the normal distribution cut off at 0, on either side."""
    slope = layer.activation["negative_slope"]
    observed = np.isfinite(x["variance"])
    mean, std = x["values"], np.sqrt(np.where(observed, x["variance"], 1.0))
    normal, z = scipy.stats.norm, mean / std
    above = [
        mean * normal.cdf(z) + std * normal.pdf(z),
        (mean**2 + std**2) * normal.cdf(z) + mean * std * normal.pdf(z),
    ]
    below = [mean - above[0], mean**2 + std**2 - above[1]]
    first, second = (
        over + slope**power * under for power, over, under in zip((1, 2), above, below, strict=True)
    )
    return {
        "points": x["points"],
        "values": np.where(observed, first, 0.0),
        "variance": np.where(observed, second - first**2, np.inf),
    }


def slow_mixing(layer, x):
    kernel, bias = np.asarray(layer.kernel), np.asarray(layer.bias)
    known = np.isfinite(x["variance"]).all(-1, keepdims=True)
    variance = np.where(known, x["variance"], 0.0)
    return {
        "points": x["points"],
        "values": np.where(known, x["values"] @ kernel + bias, 0.0),
        "variance": np.where(known, variance @ kernel**2, np.inf),
    }


def slow_normalization(layer, x):
    gamma, beta, mean, spread = (
        np.asarray(w) for w in (layer.gamma, layer.beta, layer.moving_mean, layer.moving_variance)
    )
    observed = np.isfinite(x["variance"])
    scale = gamma / np.sqrt(spread + layer.epsilon)
    return {
        "points": x["points"],
        "values": np.where(observed, (x["values"] - mean) * scale + beta, 0.0),
        "variance": x["variance"] * scale**2,
    }


def slow_pooling(layer, x):
    """The kernel's integrals by Gauss-Legendre quadrature, exact to rounding for 100 nodes."""
    signal_std, length_scale, _ = _parameters(layer)
    batch, _, channels = x["values"].shape
    values, variance = np.zeros((batch, channels)), np.full((batch, channels), np.inf)
    dim = x["points"].shape[-1]
    if layer.disc is not None:
        # Polar coordinates; the kernel is smooth on the scale of the nodes.
        centre, radius = layer.disc["centre"], layer.disc["radius"]
        nodes, weights = np.polynomial.legendre.leggauss(40)
        r, angles = 0.5 * radius * (nodes + 1), np.arange(80) * 2 * np.pi / 80
        circles = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        places = (centre + r[:, None, None] * circles).reshape(-1, 2)
        areas = np.repeat(0.5 * radius * weights * r * 2 * np.pi / 80, 80)

        def disc_kernel(a):
            squared = ((a[:, None] - places) ** 2).sum(-1)
            return signal_std**2 * np.exp(-squared / (2 * length_scale**2))

        double = areas @ disc_kernel(places) @ areas
    if layer.box is not None:
        low, high = (np.broadcast_to(side, [dim]) for side in layer.box)
        nodes, weights = np.polynomial.legendre.leggauss(100)
        nodes = 0.5 * (low + high)[:, None] + 0.5 * (high - low)[:, None] * nodes
        weights = 0.5 * (high - low)[:, None] * weights  # [d, nodes]

        def kernel(difference):
            return np.exp(-(difference**2) / (2 * length_scale**2))

        double = signal_std**2 * np.prod(
            [w @ kernel(t[:, None] - t) @ w for t, w in zip(nodes, weights, strict=True)]
        )
    for b, c, points, observed, inverse in conditioned(layer, x):
        if layer.disc is not None:
            single = disc_kernel(points) @ areas
            variance[b, c] = double - single @ inverse @ single
        elif layer.box is None:
            single = np.full(
                len(points), signal_std**2 * (2 * np.pi * length_scale**2) ** (dim / 2)
            )
        else:
            single = signal_std**2 * np.prod(
                [kernel(points[:, [i]] - nodes[i]) @ weights[i] for i in range(dim)], axis=0
            )
            variance[b, c] = double - single @ inverse @ single
        values[b, c] = single @ inverse @ observed
    volume = np.exp(float(layer.log_unit.numpy())) ** dim
    return {"values": values / volume, "variance": variance / volume**2}


def slow_steerable_convolution(layer, x):
    """Dense matrices over all channels; the variance of a block is the mean over its components."""
    signal_std, length_scale, _ = _parameters(layer)
    tensors = (np.asarray(tensor) for tensor in layer.generators())
    names = ("zeroth_order", "first_order", "second_order")
    values = np.zeros((*x["values"].shape[:2], count_channels(layer.fields)))
    variance = np.full_like(values, np.inf)
    arguments = {
        "fields_in": layer.in_fields,
        "fields_out": layer.fields,
        "frequencies": layer.frequencies,
        "weights": {m: in_units(layer, w) for m, w in layer.kernels.items()},
        "flows": dict(zip(names, tensors, strict=True)),
        "signal_std": signal_std,
        "length_scale": length_scale,
        "bias": np.asarray(layer.bias),
    }
    for b, points in enumerate(x["points"]):
        shared = np.broadcast_to(x["variance"][b].mean(-1, keepdims=True), x["values"][b].shape)
        seen = np.isfinite(shared[:, 0])
        mean, covariance = slow_steerable.convolve(
            points, x["values"][b], shared, points[seen], nodes=44, **arguments
        )
        values[b, seen] = mean
        variance[b, seen] = slow_steerable.block_variance(covariance, layer.fields)
    return {"points": x["points"], "values": values, "variance": variance}


def slow_vector_mixing(layer, x):
    """One vector to several, as complex numbers."""
    known = np.isfinite(x["variance"]).all(-1, keepdims=True)
    real, imaginary = np.asarray(layer.kernels[1])  # [1, copies] each
    mixed = (x["values"] @ np.array([[1.0], [1.0j]])) * (real + 1j * imaginary)
    values = np.stack([mixed.real, mixed.imag], axis=-1).reshape(*mixed.shape[:2], -1)
    variance = np.where(known, x["variance"], 0.0).mean(-1, keepdims=True)
    variance = np.repeat(variance * (real**2 + imaginary**2), 2, axis=-1)
    return {
        "points": x["points"],
        "values": np.where(known, values, 0.0),
        "variance": np.where(known, variance, np.inf),
    }


def slow_vector_normalization(layer, x):
    scale = float(layer.gamma.numpy()[0]) / np.sqrt(layer.moving_variance.numpy()[0] + 1e-5)
    known = np.isfinite(x["variance"])
    return {
        "points": x["points"],
        "values": np.where(known, x["values"] * scale, 0.0),
        "variance": x["variance"] * scale**2,
    }


def slow_draws(layer, x):
    """Matheron's rule, point by point, with the random numbers of the layer's prediction."""
    import tensorflow as tf

    from tfpn.math.random import normal
    from tfpn.math.waves import draw_waves

    weights = in_units(layer)
    unit = np.exp(np.asarray(layer.log_flow_unit))
    drift, factor = (unit * np.asarray(w) for w in (layer.drift, layer.diffusion_factor))
    diffusion = factor @ np.swapaxes(factor, 1, 2)
    (batch, size, channels), samples = x["values"].shape, layer.num_samples
    seed = tf.constant([layer.stream << 12, layer.seed or 0])
    waves = draw_waves(
        layer._kernel(), channels, tf.zeros([1, 1, 2], tf.float64), samples=samples,
        waves=layer.num_waves, seed=seed, fresh=False,
    )  # fmt: skip
    frequencies, amplitudes = waves.frequencies.numpy(), waves.amplitudes.numpy()
    count = frequencies.shape[1]
    table = normal([size, channels, samples], seed + [0, 1 << 24], "float64").numpy()
    signal_std, length_scale, own = _parameters(layer)
    draws = np.zeros((batch, samples, size, layer.filters))

    def prior(s, c, place, beta, sigma):
        total = 0.0
        for j, omega in enumerate(frequencies[s]):
            decay = np.exp(-0.5 * omega @ sigma @ omega)
            angle = omega @ (place + beta)
            total += decay * np.cos(angle) * amplitudes[s, j, c]
            total += decay * np.sin(angle) * amplitudes[s, count + j, c]
        return total

    zero = np.zeros(2), np.zeros((2, 2))
    for b, c, points, observed, inverse in conditioned(layer, x):
        known = np.isfinite(x["variance"][b, :, c])
        if not known.any():
            continue
        centre = 0.5 * (points.min(0) + points.max(0))
        # Along a direction; the test's points are all different.
        rank = np.argsort(np.argsort(points @ [1.0 % 1 + 0.5, np.sqrt(2.0) % 1 + 0.5]))
        variance = np.mean(x["variance"][b, known], axis=-1) + own
        for s in range(samples):
            noise = np.sqrt(variance) * table[rank, c, s]
            before = np.array([prior(s, c, p - centre, *zero) for p in points])
            solved = inverse @ (observed - before - noise)
            for m, target in enumerate(x["points"][b]):
                for k in range(len(drift)):
                    response = prior(s, c, target - centre, drift[k], diffusion[k]) + sum(
                        _blurred(target - p + drift[k], diffusion[k], signal_std, length_scale) * w
                        for p, w in zip(points, solved, strict=True)
                    )
                    draws[b, s, m] += weights[k, c] * response
    draws += np.asarray(layer.bias)
    padding = np.isinf(x["variance"]).all(-1)
    draws[np.broadcast_to(padding[:, None], draws.shape[:3])] = 0.0
    variance = draws.var(axis=1)
    variance[padding] = np.inf
    return {
        "points": x["points"], "values": draws.mean(axis=1), "variance": variance, "draws": draws
    }  # fmt: skip


def slow_field_draws(layer, x):
    """Matheron's rule with dense matrices, with the random numbers of the layer's prediction."""
    import scipy.linalg
    import tensorflow as tf

    from tfpn.math.random import normal
    from tfpn.math.waves import draw_waves

    signal_std, length_scale, own = _parameters(layer)
    names = ("zeroth_order", "first_order", "second_order")
    c, b, s = tensors = [np.asarray(tensor) for tensor in layer.generators()]
    weights = {m: in_units(layer, w) for m, w in layer.kernels.items()}
    types = {"fields_in": layer.in_fields, "fields_out": layer.fields}
    types["frequencies"] = layer.frequencies
    mixing = slow_steerable.dense_mixing(weights, *types.values())
    (batch, size, channels), samples = x["values"].shape, layer.num_samples
    seed = tf.constant([layer.stream << 12, layer.seed])
    waves = draw_waves(
        layer._kernel(), channels, tf.zeros([1, 1, 2], tf.float64), samples=samples,
        waves=layer.num_waves, seed=seed, fresh=False,
    )  # fmt: skip
    frequencies, amplitudes = waves.frequencies.numpy(), waves.amplitudes.numpy()
    count = frequencies.shape[1]
    table = normal([size, channels, samples], seed + [0, 1 << 24], "float64").numpy()
    draws = np.zeros((batch, samples, size, count_channels(layer.fields)))
    for e, points in enumerate(x["points"]):
        seen = np.isfinite(x["variance"][e]).all(-1)
        if not seen.any():
            continue
        chosen = points[seen]
        centre = 0.5 * (chosen.min(0) + chosen.max(0))
        # Along a direction; the test's points are all different.
        rank = np.argsort(np.argsort(chosen @ [1.0 % 1 + 0.5, np.sqrt(2.0) % 1 + 0.5]))
        variance = x["variance"][e, seen].mean(-1, keepdims=True) + own
        variance = np.broadcast_to(variance, (len(chosen), channels))
        for number in range(samples):
            before, moved = np.zeros(variance.shape), np.zeros((len(chosen), draws.shape[-1]))
            for j, w in enumerate(frequencies[number]):
                # One complex amplitude for each channel of a single copy, which is all of rho's.
                wave = amplitudes[number, j] - 1j * amplitudes[number, count + j]
                phase = np.exp(1j * (chosen - centre) @ w)
                before += (phase[:, None] * wave).real
                places = [place for _, place in slow_steerable.embedding(
                    layer.in_fields, layer.frequencies)]  # fmt: skip
                for k in range(len(c)):
                    symbol = c[k] + 1j * np.einsum("i,iab->ab", w, b[k])
                    symbol = symbol - np.einsum("i,j,ijab->ab", w, w, s[k])
                    flow = scipy.linalg.expm(symbol)[:, places] @ wave
                    moved += (phase[:, None] * (mixing[k, :, 0] @ flow)).real
            residual = x["values"][e, seen] - before
            residual -= np.sqrt(variance) * table[rank, :, number]
            mean, _ = slow_steerable.convolve(
                chosen, residual, variance, chosen, nodes=44, weights=weights,
                flows=dict(zip(names, tensors, strict=True)), signal_std=signal_std,
                length_scale=length_scale, bias=np.asarray(layer.bias), **types,
            )  # fmt: skip
            draws[e, number, seen] = moved + mean
    variance = slow_steerable.block_variance(
        np.stack([np.diag(d) for d in draws.var(axis=1).reshape(batch * size, -1)]), layer.fields
    ).reshape(batch, size, -1)
    variance[np.isinf(x["variance"]).all(-1)] = np.inf
    return {
        "points": x["points"], "values": draws.mean(axis=1), "variance": variance, "draws": draws
    }  # fmt: skip
