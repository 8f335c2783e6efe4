"""Time and memory of a training step, as a ratio to its matrix products alone.

The configuration is the paper's for SuperPixel MNIST: batch 50, 75 points, 128 channels, 4 blocks,
9 basis operators, float32, trained through ``fit``. The rate of the machine's matrix products is
measured in the same run, before and after, so that the ratio means something on a noisy machine.

    python benchmarks/step_time.py
    python benchmarks/step_time.py --points 75 150 300 600

Each configuration runs in a process of its own, whose peak memory is reported. Prints a table and
one line of JSON.
"""

import argparse
import json
import multiprocessing
import resource
import statistics
import sys
import time


def product_flops(batch, points, channels, blocks, operators, in_channels=1):
    """Floating point operations of the matrix products of a step, forward and backward.

    The formulas of a block, with its factorisation left out; backward counts twice the forward.
    """
    forward = 0
    for block in range(blocks):
        c_in = in_channels if block == 0 else channels
        responses = points * operators
        forward += responses * points * points  # k_i (K + S)^-1
        forward += responses * points * c_in  # k_i (K + S)^-1 y
        forward += responses * c_in * channels  # sum_k W_k
        forward += points * operators * operators * points  # N_ij
        forward += points * operators * operators * channels  # sum_ij W_i W_j N_ij
        forward += 2 * points * channels * channels  # ChannelMix, mean and variance
    return 3 * 2 * batch * forward


def gemm_rate(seconds=1.0, size=2048):
    """Floating point operations per second of a float32 product of two square matrices."""
    import tensorflow as tf

    a = tf.random.normal([size, size])
    product = tf.function(lambda: tf.reduce_sum(tf.matmul(a, a)))
    product().numpy()
    times = []
    while sum(times) < seconds:
        start = time.perf_counter()
        product().numpy()
        times.append(time.perf_counter() - start)
    return 2 * size**3 / statistics.median(times)


def measure(options, queue):
    """Runs one configuration and puts its figures into the queue."""
    import keras
    import numpy as np
    import tensorflow as tf

    import tfpn

    tf.config.threading.set_intra_op_parallelism_threads(options["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(options["threads"])
    imported = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    shape = {key: options[key] for key in ("batch", "points", "channels", "blocks", "operators")}
    rng = np.random.default_rng(0)
    examples = options["batch"] * options["steps"]
    x = tfpn.observations(
        rng.uniform(size=(examples, options["points"], 2)).astype("float32"),
        rng.normal(size=(examples, options["points"], 1)).astype("float32"),
    )
    y = rng.integers(0, 10, size=examples)
    model = tfpn.models.PNCNN(
        10,
        channels=options["channels"],
        num_blocks=options["blocks"],
        num_basis=options["operators"],
        uncertainty=options["uncertainty"],
        rank=options["rank"],
    )
    model.adapt(x)
    model.compile(
        keras.optimizers.Adam(3e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=options["jit"],
    )

    class Clock(keras.callbacks.Callback):
        times = []

        def on_train_batch_begin(self, batch, logs=None):
            self.start = time.perf_counter()

        def on_train_batch_end(self, batch, logs=None):
            self.times.append(time.perf_counter() - self.start)

    before = gemm_rate()
    model.fit(x, y, batch_size=options["batch"], shuffle=False, verbose=0, callbacks=[Clock()])
    after = gemm_rate()
    predict = tf.function(lambda inputs: model(inputs, training=False))
    one = {key: tf.constant(value[: options["batch"]]) for key, value in x.items()}
    predict(one)
    inference = []
    for _ in range(10):
        start = time.perf_counter()
        predict(one).numpy()
        inference.append(time.perf_counter() - start)

    flops = product_flops(**shape)
    rate = (before + after) / 2
    step = statistics.median(Clock.times[3:])
    queue.put(
        {
            **shape,
            "uncertainty": options["uncertainty"],
            "step_seconds": round(step, 4),
            "fastest_step_seconds": round(min(Clock.times[3:]), 4),
            "inference_seconds": round(statistics.median(inference), 4),
            "products_gflop": round(flops / 1e9, 2),
            "gemm_gflop_per_second": [round(before / 1e9, 1), round(after / 1e9, 1)],
            "products_seconds": round(flops / rate, 4),
            "ratio": round(step * rate / flops, 2),
            "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
            "imports_memory_mb": round(imported),
        }
    )


def main(arguments=None):
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, nargs="+", default=[75])
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--channels", type=int, default=128)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--operators", type=int, default=9)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--uncertainty", choices=["diagonal", "none", "low_rank", "joint"], default="diagonal"
    )
    parser.add_argument("--rank", type=int, default=8, help="factors of low_rank")
    parser.add_argument("--jit", action="store_true", help="compile the step by XLA")
    options = vars(parser.parse_args(arguments))
    context = multiprocessing.get_context("spawn")
    rows = []
    print("points  step s  inference s  products s  ratio  peak MB (of which imports)")
    for points in options.pop("points"):
        queue = context.Queue()
        process = context.Process(target=measure, args=({**options, "points": points}, queue))
        process.start()
        while process.is_alive() and queue.empty():
            process.join(timeout=0.5)
        if queue.empty():
            sys.exit(f"the process for {points} points ended with exit code {process.exitcode}")
        rows.append(queue.get())
        process.join()
        row = rows[-1]
        print(
            f"{row['points']:6d} {row['step_seconds']:7.3f} {row['inference_seconds']:12.3f} "
            f"{row['products_seconds']:11.3f} {row['ratio']:6.2f} {row['peak_memory_mb']:8d} "
            f"({row['imports_memory_mb']})",
            flush=True,
        )
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
