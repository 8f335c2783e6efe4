"""The matrix products of a PNCNN's training step: how many, and how long they take alone."""

import statistics
import time


def block_products(batch, points, channels, operators, c_in):
    """Shapes (leading, rows, inner, columns) of the products of a block's forward pass."""
    responses = points * operators
    return [
        (batch, responses, points, points),  # k_i (K + S)^-1
        (batch, responses, points, c_in),  # k_i (K + S)^-1 y
        (1, batch * points, operators * c_in, channels),  # sum_k W_k
        (batch * points, operators, points, operators),  # N_ij
        (1, batch * points, operators**2, channels),  # sum_ij W_i W_j N_ij
        (1, batch * points, channels, channels),  # ChannelMix, means
        (1, batch * points, channels, channels),  # ChannelMix, variances
    ]


def step_blocks(batch, points, channels, blocks, operators, in_channels=1):
    """Pairs of a block's products, its factorisation left out, and the number of such blocks."""
    first = block_products(batch, points, channels, operators, in_channels)
    return [(first, 1), (block_products(batch, points, channels, operators, channels), blocks - 1)]


def product_flops(**shape):
    """Floating point operations of the products of a step; backward counts twice the forward."""
    forward = sum(
        count * 2 * b * m * k * n
        for products, count in step_blocks(**shape)
        for b, m, k, n in products
    )
    return 3 * forward


def products_alone(seconds=2.0, **shape):
    """Seconds of all these products, forward and backward, and of nothing else.

    Each product at its own shape, with the two of its gradient; a block's in one graph.
    """
    return sum(count * _block_alone(products, seconds) for products, count in step_blocks(**shape))


def _block_alone(products, seconds):
    import tensorflow as tf

    # Tensors of its own for each, or equal products would be merged.
    pairs = [(tf.random.normal([b, m, k]), tf.random.normal([b, k, n])) for b, m, k, n in products]

    @tf.function
    def run(pairs):
        found = []
        for left, right in pairs:
            out = tf.matmul(left, right)
            found.append(tf.matmul(out, right, transpose_b=True)[0, 0, 0])
            found.append(tf.matmul(left, out, transpose_a=True)[0, 0, 0])
        return tf.stack(found)

    run(pairs)
    times = []
    while sum(times) < seconds or len(times) < 3:
        start = time.perf_counter()
        run(pairs).numpy()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
