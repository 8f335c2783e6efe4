"""Weights of ``diffusion_orbits`` in a real PNConv: the layer commutes with the group."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfpn
from equivariance import Cyclic, Dihedral, diffusion_orbits

C4, D3 = Cyclic(4), Dihedral(3)


def convolution(layer, values):
    """A PNConv in float64 with the weights of an orbit parameterisation."""
    conv = tfpn.layers.PNConv(
        layer.rep_out.dim, num_basis=layer.num_basis, spacing=0.3, dtype="float64"
    )
    conv.build(
        {
            "points": (None, None, 2),
            "values": (None, None, layer.rep_in.dim),
            "variance": (None, None, layer.rep_in.dim),
        }
    )
    assign(conv, layer.weights(values))
    return conv


def assign(conv, weights):
    for name, array in weights.items():
        getattr(conv, name).assign(array)


def observations(channels, seed=0, noise=0.01):
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1, 1, size=(2, 20, 2))
    return tfpn.observations(points, rng.normal(size=(2, 20, channels)), variance=noise)


@pytest.mark.parametrize(
    ("rep_in", "rep_out", "orbits"),
    [
        (3 * C4.irrep(0), C4.irrep(1) + C4.irrep(0), ("generic", "center")),
        (C4.irrep(0) + C4.irrep(1), C4.irrep(1), ("generic",)),
        (D3.irrep(0) + D3.irrep(1), D3.irrep(1), ("generic", "mirror", "center")),
    ],
    ids=str,
)
def test_commutes_with_the_group(rep_in, rep_out, orbits):
    """The mean's channels turn by rho_out when points and values turn, for every element.

    All channels share a prior and a noise, so the posterior before the convolution turns too.
    """
    layer = diffusion_orbits(rep_in, rep_out, orbits)
    conv = convolution(layer, layer.initial(rng=0))
    x = observations(rep_in.dim)
    plain = conv(x)["values"].numpy()
    assert np.abs(plain).max() > 0.1
    for g in rep_in.group.elements():
        space = np.array(g.matrix, dtype=float)
        rho_in = np.array(rep_in.matrix(g), dtype=float)
        rho_out = np.array(rep_out.matrix(g), dtype=float)
        turned = {**x, "points": x["points"] @ space.T, "values": x["values"] @ rho_in.T}
        found = conv(turned)["values"].numpy()
        np.testing.assert_allclose(found, plain @ rho_out.T, rtol=0, atol=1e-9)
    free = {name: w + 0.1 for name, w in layer.weights(layer.initial(rng=0)).items()}
    assign(conv, free)  # the test would notice weights that are not constrained
    assert np.abs(conv(turned)["values"].numpy() - conv(x)["values"] @ rho_out.T).max() > 1e-3


def test_projection_after_a_training_step():
    layer = diffusion_orbits(2 * C4.irrep(0), C4.irrep(1))
    conv = convolution(layer, layer.initial(rng=1))
    x = observations(2, seed=1)
    optimizer = keras.optimizers.SGD(0.05)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(conv(x)["values"] - 1.0))
    variables = [conv.kernel, conv.drift, conv.diffusion_factor, conv.bias]
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    names = ("kernel", "drift", "diffusion_factor", "bias")
    stepped = {name: getattr(conv, name).numpy() for name in names}
    projected = layer.weights(layer.project(stepped))
    assert max(np.abs(projected[name] - stepped[name]).max() for name in names) > 1e-4
    assign(conv, projected)
    quarter = C4.rotation(np.pi / 2)
    turned = {**x, "points": x["points"] @ quarter.matrix.T}
    expected = conv(x)["values"].numpy() @ C4.irrep(1).matrix(quarter).T
    np.testing.assert_allclose(conv(turned)["values"], expected, rtol=0, atol=1e-9)
