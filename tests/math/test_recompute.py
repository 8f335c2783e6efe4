"""What is computed again for the gradient: the gradient itself, and what is kept for it."""

import numpy as np
import tensorflow as tf

import tfpn
from tfpn.math.recompute import recomputed


def _function(x, y):
    """Two results; the second has no gradient with respect to y."""
    return tf.exp(x) * tf.sin(y), tf.square(x)


def _gradients(function, x, y):
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        first, second = function(x, y)
        total = tf.reduce_sum(tf.square(first)) + tf.reduce_sum(second)
    return tape.gradient(total, [x, y])


def test_gradient_is_that_of_the_function():
    x, y = (tf.constant(np.random.default_rng(s).normal(size=5)) for s in (0, 1))
    expected = 2 * np.exp(2 * x) * np.sin(y) ** 2 + 2 * x, np.exp(2 * x) * np.sin(2 * y)
    eager = _gradients(lambda *t: recomputed(_function, *t), x, y)
    graph = tf.function(lambda *t: _gradients(lambda *u: recomputed(_function, *u), *t))(x, y)
    for found in (eager, graph):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_no_gradient_stays_none():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        (result,) = recomputed(lambda x: (tf.stop_gradient(tf.exp(x)),), x)
    assert tape.gradient(result, x) is None


def _kept(operation, upstream):
    """Tensors of a graph that do not depend on ``upstream`` and are read by what does."""
    late, kept = {upstream.name}, []
    for op in operation.graph.get_operations():
        inputs = {tensor.name for tensor in op.inputs}
        controls = {out.name for control in op.control_inputs for out in control.outputs}
        if late & (inputs | controls):
            late |= {tensor.name for tensor in op.outputs}
            kept += [tensor for tensor in op.inputs if tensor.name not in late]
    return kept


def test_convolution_keeps_neither_kernels_nor_responses():
    examples, points, operators, channels = 2, 7, 5, 11

    @tf.function(autograph=False)
    def gradients(x, values, weights, upstream):
        with tf.GradientTape() as tape:
            tape.watch([values, weights])
            mean, variance, _ = tfpn.math.convolve(
                x, values, tf.zeros_like(values), x, weights=weights,
                drift=tf.zeros([operators, 1]),
                diffusion=tf.ones([operators, 1, 1]), signal_std=1.0, length_scale=0.3,
            )  # fmt: skip
        return tape.gradient([mean, variance], [values, weights], [upstream, upstream])

    def spec(*shape):
        return tf.TensorSpec(shape)

    graph = gradients.get_concrete_function(
        spec(examples, points, 1),
        spec(examples, points, channels),
        spec(operators, channels, 3),
        spec(examples, points, 3),
    ).graph
    kept = _kept(graph.inputs[3].op, graph.inputs[3])
    assert graph.inputs[0].shape == [examples, points, 1]
    sizes = [tensor.shape.num_elements() for tensor in kept]
    assert examples * points * points in sizes  # the whitener is kept
    kernels = examples * points * operators * points
    responses = examples * points * operators * channels
    assert not {kernels, responses} & set(sizes)
