"""What PNCNN computes: invariances, a plain reimplementation, gradients, channels."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from pncnn_support import LOSS, as_float32, make_batch, perturb, small

import tfpn


class TestOutput:
    def test_point_order_and_padding_change_nothing(self):
        x = make_batch(np.float64)
        model = small(dtype="float64", observation_noise=0.3)
        perturb(model)
        expected = np.asarray(model(x))
        order = np.array([3, 0, 6, 5, 1, 4, 2])
        permuted = model({key: value[:, order] for key, value in x.items()})
        fills = {"points": np.nan, "values": np.nan, "variance": np.inf}
        longer = model(
            {k: np.pad(v, [(0, 0), (0, 3), (0, 0)], constant_values=fills[k]) for k, v in x.items()}
        )
        # Rounding times condition numbers, three times over.
        np.testing.assert_allclose(permuted, expected, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(longer, expected, rtol=1e-9, atol=1e-10)
        assert np.std(expected, axis=0).min() > 1e-3  # it does look at the examples

    @pytest.mark.parametrize("pooling", ["space", (0.0, 1.0)])
    def test_without_uncertainty_equals_a_plain_reimplementation(self, pooling):
        x = make_batch(np.float64)
        model = small(uncertainty="none", dtype="float64", spacing=0.1, pooling=pooling)
        perturb(model)
        expected = np.array([plain_logits(model, x, b) for b in range(len(x["points"]))])
        # Condition numbers stay below 1e5.
        np.testing.assert_allclose(model(x), expected, rtol=1e-8, atol=1e-8)

    @pytest.mark.parametrize("seed", [0, 1])
    def test_feature_noise_keeps_outputs_when_points_become_denser(self, seed):
        def change(**options):
            keras.utils.set_random_seed(seed)
            model = tfpn.models.PNCNN(
                5, channels=16, num_basis=5, spatial_dim=1, uncertainty="none", **options
            )
            outputs = []
            for points in (30, 240):
                x = np.linspace(0.0, 1.0, points)[None, :, None]
                x = tfpn.observations(x, np.sin(7 * x) + np.cos(17 * x))
                if not outputs:
                    model.adapt(x)
                outputs.append(np.asarray(model(x)))
            return np.abs(outputs[1] - outputs[0]).max() / np.abs(outputs[0]).max()

        assert change() < 0.05
        # Kinked features that count as exact ring between points. In float64, as float32's least
        # variance of 240 exact points is a little noise too.
        assert change(dtype="float64") < 0.05 < 0.1 < change(dtype="float64", feature_noise=None)

    @pytest.mark.parametrize("uncertainty", ["diagonal", "none"])
    @pytest.mark.parametrize("points", [1, 7])
    def test_gradients_are_finite(self, uncertainty, points):
        x = make_batch(points=7)
        x["points"][0, 1] = x["points"][0, 2] = x["points"][0, 0]
        x["values"][0, :2] = x["values"][0, 2]
        x["variance"][0] = 0.0
        x = {key: value[:, :points] for key, value in x.items()}
        model = small(uncertainty=uncertainty)
        for layer in model.pn_layers:
            layer.marginal_likelihood_trains = "all"
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = LOSS(np.arange(5) % 3, logits) + tf.add_n(model.losses)
        gradients = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
        assert np.isfinite(loss)
        for weight, gradient in zip(model.trainable_weights, gradients, strict=True):
            assert gradient is not None, weight.path
            assert np.isfinite(np.asarray(gradient)).all(), weight.path

    def test_headless_gives_the_pooled_dict(self):
        x = make_batch()
        model = small(None, pooling=(0.0, 1.0))
        output = model(x)
        assert output.keys() == {"values", "variance"}
        assert output["values"].shape == (5, 4)
        assert (np.asarray(output["variance"]) > 0).all()

    def test_channels_seen_at_different_points(self):
        x = make_batch(np.float64, channels=2, sporadic=True)
        model = small(in_channels=2, input_noise="channel", dtype="float64")
        perturb(model)
        before = np.asarray(model(x))
        hidden = {**x, "values": np.where(np.isinf(x["variance"]), np.nan, x["values"])}
        np.testing.assert_array_equal(model(hidden), before)
        x["values"][0, 2, 1] += 0.5  # the channel that is seen at that point
        after = np.asarray(model(x))
        assert np.abs(after - before)[0].max() > 1e-4
        np.testing.assert_allclose(after[1:], before[1:], rtol=1e-12)
        model = small(in_channels=2)
        with pytest.raises(tf.errors.InvalidArgumentError, match="noise='channel'"):
            model(as_float32(x))


def plain_logits(model, x, example):
    """The network on values alone for one example, in NumPy."""
    observed = np.isfinite(x["variance"][example, :, 0])
    points, f = x["points"][example, observed], x["values"][example, observed]
    noise = x["variance"][example, observed, 0]
    difference = points[:, None] - points[None]

    def prior(layer):
        return [np.exp(float(w)) for w in (layer.log_signal_std, layer.log_length_scale)]

    def weights_of(layer, noise):
        std, length = prior(layer)
        matrix = std**2 * np.exp(-(difference**2).sum(-1) / (2 * length**2))
        return np.linalg.solve(matrix + np.diag(np.maximum(noise, 1e-12 * std**2)), f)

    for block in (1, 2):
        conv, mix, norm = (model.get_layer(f"{name}_{block}") for name in ("conv", "mix", "norm"))
        std, length = prior(conv)
        noise = noise + np.exp(2 * float(conv.log_observation_noise))
        solved = weights_of(conv, noise)
        total = np.zeros((len(points), conv.filters))
        for w, drift, diffusion in zip(
            *(np.asarray(v) for v in (conv.kernel_parameters(), *conv.flow_parameters())),
            strict=True,
        ):
            covariance = length**2 * np.eye(2) + diffusion
            moved = difference + drift
            form = np.einsum("mni,ij,mnj->mn", moved, np.linalg.inv(covariance), moved)
            amplitude = std**2 * length**2 / np.sqrt(np.linalg.det(covariance))
            total += amplitude * np.exp(-form / 2) @ solved @ w
        f = np.maximum(total + np.asarray(conv.bias), 0.0)
        f = f @ np.asarray(mix.kernel) + np.asarray(mix.bias)
        gamma, beta, mean, spread = (np.asarray(w) for w in norm.weights[:4])
        f = (f - mean) * gamma / np.sqrt(spread + norm.epsilon) + beta
        noise = np.zeros(len(points))
    pooling = model.get_layer("pooling")
    std, length = prior(pooling)
    noise = noise + np.exp(2 * float(pooling.log_observation_noise))
    if pooling.box is None:
        integral = np.full(len(points), std**2 * 2 * np.pi * length**2)
    else:
        nodes, weights = np.polynomial.legendre.leggauss(200)
        nodes, weights = 0.5 + 0.5 * nodes, 0.5 * weights
        by_axis = np.exp(-((points[..., None] - nodes) ** 2) / (2 * length**2)) @ weights
        integral = std**2 * by_axis.prod(-1)
    integral /= np.exp(2 * float(pooling.log_unit.numpy()))  # the unit's area
    head = model.get_layer("head")
    logits = integral @ weights_of(pooling, noise) @ np.asarray(head.kernel) + np.asarray(head.bias)
    temperature = model.get_layer("temperature")
    return logits / np.asarray(temperature.temperature) + np.asarray(temperature.offsets)
