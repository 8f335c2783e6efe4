"""What every layer is held to: cases, inputs, and slow NumPy versions of what they compute."""

import dataclasses

import numpy as np
import scipy.stats
import slow_steerable
import tensorflow as tf

from tfpn import layers
from tfpn.math.steerable import count_channels

KEYS = ("points", "values", "variance")


@dataclasses.dataclass(frozen=True)
class Case:
    """A layer's class, the arguments of the tests' instance, and what it computes."""

    layer: type
    arguments: dict
    reference: callable
    weights: tuple
    sporadic: bool = False  # takes points that are observed in some channels only
    pools: bool = False

    def make(self, dtype="float64", **changes):
        return self.layer(**{**self.arguments, **changes}, dtype=dtype)

    def built(self, x, dtype="float64", **changes):
        """A built layer with weights off their initial values."""
        layer = self.make(dtype, **changes)
        layer(x)
        perturb(layer)
        return layer


def perturb(layer, seed=1):
    """Moves every weight, so that no zero or one hides a mistake."""
    rng = np.random.default_rng(seed)
    for weight in layer.weights:
        weight.assign(np.asarray(weight) + rng.uniform(0.02, 0.1, weight.shape))


def make_input(sporadic=False, dtype=np.float64, channels=2, seed=0):
    """Three examples of six points: complete, with two padding points, without observation."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(size=(3, 6, 2))
    values = rng.normal(size=(3, 6, channels))
    variance = rng.uniform(0.01, 0.1, size=(3, 6, channels))
    if sporadic:
        variance[0, 1, 0] = variance[0, 2, -1] = variance[1, 0, -1] = np.inf
    variance[1, 4:] = np.inf
    variance[2] = np.inf
    values[np.isinf(variance)] = 0.0
    return {k: v.astype(dtype) for k, v in zip(KEYS, (points, values, variance), strict=True)}


def assert_same(found, expected, rtol, atol=0.0):
    """Compares two dicts of arrays; infinities must be at the same entries."""
    assert found.keys() == expected.keys()
    for key in found:
        np.testing.assert_allclose(
            np.asarray(found[key]), np.asarray(expected[key]), rtol, atol, err_msg=key
        )


def finite_sum(output):
    """A scalar that every finite value and variance of an output moves."""
    total = 0.0
    for key in ("values", "variance"):
        tensor = tf.where(tf.math.is_finite(output[key]), output[key], 0.0)
        total += tf.reduce_sum(tf.sin(tensor + 0.3))
    return total


def gradients(layer, x):
    """Gradients of `finite_sum` by values, variance and the layer's trainable weights."""
    x = {key: tf.convert_to_tensor(value) for key, value in x.items()}
    watched = [x["values"], x["variance"]]
    with tf.GradientTape() as tape:
        tape.watch(watched)
        total = finite_sum(layer(x))
    sources = [*watched, *[weight.value for weight in layer.trainable_weights]]
    found = tape.gradient(total, sources, unconnected_gradients="zero")
    return [np.asarray(gradient) for gradient in found]


# --- slow versions


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


def slow_convolution(layer, x, query=None):
    """Eqs. A_rbf and A_rbf_A, point by point and channel by channel."""
    weights, drift, factor = (
        np.asarray(w) for w in (layer.kernel, layer.drift, layer.diffusion_factor)
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
        "weights": {m: np.asarray(w) for m, w in layer.kernels.items()},
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


_PRIOR = ("log_signal_std", "log_length_scale")
_CONV = (*_PRIOR, "kernel", "bias", "drift", "diffusion_factor")
_POOLING = (*_PRIOR, "log_unit")
_NOISY = (*_PRIOR, "log_observation_noise")

CASES = {
    "conv": Case(
        layers.PNConv, {"filters": 3, "num_basis": 5, "spacing": 0.3}, slow_convolution, _CONV
    ),
    "conv_channel": Case(
        layers.PNConv,
        {
            "filters": 3,
            "num_basis": 4,
            "spacing": 0.3,
            "noise": "channel",
            "observation_noise": 0.2,
        },
        slow_convolution,
        (*_NOISY, "kernel", "bias", "drift", "diffusion_factor"),
        sporadic=True,
    ),
    "conv_priors": Case(
        layers.PNConv,
        {"filters": 2, "num_basis": 3, "spacing": 0.3, "noise": "channel", "prior": "channel"},
        slow_convolution,
        _CONV,
        sporadic=True,
    ),
    "conv_none": Case(
        layers.PNConv,
        {
            "filters": 2,
            "num_basis": 3,
            "spacing": 0.3,
            "uncertainty": "none",
            "observation_noise": 0.1,
        },
        slow_convolution,
        (*_NOISY, "kernel", "bias", "drift", "diffusion_factor"),
    ),
    "relu": Case(layers.ProbReLU, {}, slow_rectifier, (), sporadic=True),
    "mix": Case(layers.ChannelMix, {"filters": 3}, slow_mixing, ("kernel", "bias"), sporadic=True),
    "norm": Case(
        layers.GPNormalization,
        {},
        slow_normalization,
        ("gamma", "beta", "moving_mean", "moving_variance", "updates"),
        sporadic=True,
    ),
    "pool": Case(layers.IntegralPooling, {"spacing": 0.3}, slow_pooling, _POOLING, pools=True),
    "pool_box": Case(
        layers.IntegralPooling,
        {"spacing": 0.3, "box": (0.0, [1.0, 1.2])},
        slow_pooling,
        _POOLING,
        pools=True,
    ),
    "pool_disc": Case(
        layers.IntegralPooling,
        {"spacing": 0.3, "disc": ((0.4, 0.6), 0.7)},
        slow_pooling,
        _POOLING,
        pools=True,
    ),
    "pool_channel": Case(
        layers.IntegralPooling,
        {"spacing": 0.3, "box": (0.0, 1.0), "noise": "channel", "observation_noise": 0.1},
        slow_pooling,
        (*_NOISY, "log_unit"),
        sporadic=True,
        pools=True,
    ),
    # What is particular to fields is in test_steerable_layers.py.
    "steerable_conv": Case(
        layers.SteerablePNConv,
        {"fields": {0: 1, 1: 1}, "in_fields": {1: 1}, "frequencies": (0, 1), "num_basis": 1,
         "spacing": 0.3, "seed": 3},
        slow_steerable_convolution,
        (*_PRIOR, "antisymmetric", "symmetric", "factors", "kernel_0", "kernel_1", "bias"),
    ),
    "gated_relu": Case(layers.GatedReLU, {"fields": 2}, slow_rectifier, (), sporadic=True),
    "steerable_mix": Case(
        layers.SteerableMix, {"fields": {1: 2}, "in_fields": {1: 1}}, slow_vector_mixing,
        ("kernel_1",),
    ),
    "steerable_norm": Case(
        layers.SteerableNormalization,
        {"fields": {1: 1}},
        slow_vector_normalization,
        ("gamma", "moving_variance", "updates"),
    ),
}  # fmt: skip

# Every constructor argument away from its default, or None if another argument excludes it.
OTHER_ARGUMENTS = {
    layers.PNConv: {
        "filters": 4,
        "num_basis": 3,
        "spacing": 0.2,
        "signal_std": 1.5,
        "length_scale": 0.4,
        "observation_noise": 0.2,
        "noise": "channel",
        "prior": "channel",
        "uncertainty": "none",
        "rank": 3,
        "variance_estimator": "stochastic",
        "num_probes": 5,
        "probes": "gaussian",
        "seed": 1,
        "double_precision": False,
        "use_bias": False,
        "kernel_initializer": "glorot_uniform",
        "bias_initializer": "ones",
        "marginal_likelihood_weight": 0.01,
        "marginal_likelihood_trains": "all",
    },
    layers.ProbReLU: {},
    layers.ChannelMix: {
        "filters": 5,
        "use_bias": False,
        "kernel_initializer": "glorot_uniform",
        "bias_initializer": "ones",
    },
    layers.GPNormalization: {"momentum": 0.5, "epsilon": 1e-2},
    layers.IntegralPooling: {
        "box": None,
        "disc": {"centre": [0.1, 0.2], "radius": 0.8},
        "double_precision": False,
        "unit": 0.5,
        "spacing": 0.2,
        "signal_std": 1.5,
        "length_scale": 0.4,
        "observation_noise": 0.2,
        "noise": "channel",
        "marginal_likelihood_weight": 0.01,
        "marginal_likelihood_trains": "all",
    },
    layers.SteerablePNConv: {
        "fields": [[0, 1], [1, 1]],
        "num_basis": 3,
        "in_fields": [[0, 2]],
        "frequencies": [0, 1],
        "constraint": "free",
        "flows": None,
        "spacing": 0.2,
        "signal_std": 1.5,
        "length_scale": 0.4,
        "observation_noise": 0.2,
        "noise": "channel",
        "uncertainty": "none",
        "use_bias": False,
        "seed": 7,
        "marginal_likelihood_weight": 0.01,
        "marginal_likelihood_trains": "all",
        "double_precision": False,
    },
    layers.GatedReLU: {"fields": [[0, 2]], "gates": "own"},
    layers.SteerableMix: {"fields": [[0, 2]], "in_fields": [[0, 2]], "use_bias": False},
    layers.SteerableNormalization: {"fields": [[0, 2]], "momentum": 0.5, "epsilon": 1e-2},
}
