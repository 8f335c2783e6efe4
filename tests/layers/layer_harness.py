"""What every layer is held to: cases, inputs, and slow NumPy versions of what they compute."""

import dataclasses

import numpy as np
import scipy.stats
import tensorflow as tf

from tfpn import layers

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
        if layer.box is None:
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
    "pool_channel": Case(
        layers.IntegralPooling,
        {"spacing": 0.3, "box": (0.0, 1.0), "noise": "channel", "observation_noise": 0.1},
        slow_pooling,
        (*_NOISY, "log_unit"),
        sporadic=True,
        pools=True,
    ),
}

# Every constructor argument away from its default.
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
        "box": ([-1.0, 0.0], [1.0, 2.0]),
        "unit": 0.5,
        "spacing": 0.2,
        "signal_std": 1.5,
        "length_scale": 0.4,
        "observation_noise": 0.2,
        "noise": "channel",
        "marginal_likelihood_weight": 0.01,
        "marginal_likelihood_trains": "all",
    },
}
