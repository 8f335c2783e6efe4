import functools

import numpy as np
import pytest
import tensorflow as tf

from tfpn.math.channels import channel_sum, mix_channels

RNG = np.random.default_rng(0)
TENSOR, BIAS, KERNEL = RNG.normal(size=(2, 5, 3)), RNG.normal(size=4), RNG.normal(size=(3, 4))


@pytest.mark.parametrize(
    "fast, plain, arguments",
    [
        pytest.param(channel_sum, lambda t: tf.reduce_sum(t, [0, 1]), (TENSOR,), id="channel_sum"),
        pytest.param(
            mix_channels, lambda t, k, b: t @ k + b, (TENSOR, KERNEL, BIAS), id="mix_with_bias"
        ),
        pytest.param(
            functools.partial(mix_channels, rectify=True),
            lambda t, k, b: tf.nn.relu(t @ k + b),
            (TENSOR, KERNEL, BIAS),
            id="mix_rectified",
        ),
        pytest.param(
            mix_channels, lambda t, k: tf.einsum("bnc,co->bno", t, k), (TENSOR, KERNEL), id="mix"
        ),
        pytest.param(
            mix_channels, lambda t, k: tf.einsum("nc,co->no", t, k), (TENSOR[0], KERNEL), id="mix2"
        ),
    ],
)
def test_against_plain(fast, plain, arguments):
    arguments = [tf.constant(argument) for argument in arguments]
    signature = [
        tf.TensorSpec([None] * (t.shape.rank - 1) + [t.shape[-1]] if i == 0 else t.shape, t.dtype)
        for i, t in enumerate(arguments)
    ]
    for function in (fast, tf.function(fast, input_signature=signature)):
        outcomes = []
        for each in (function, plain):
            with tf.GradientTape() as tape:
                tape.watch(arguments)
                result = each(*arguments)
                total = tf.reduce_sum(tf.sin(result))
            outcomes.append([result, *tape.gradient(total, arguments)])
        for one, other in zip(*outcomes, strict=True):
            # A handful of terms in another order.
            np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-14)
