"""The exact variance of a convolution beside the stochastic estimate, in time, memory and error.

One convolution (values and gradient by all its parameters) at PhysioNet's shapes: batch 50, 42
channels in, 96 out, 5 basis operators, 20 probes, one dimension, float32. With shared noise all
channels are observed at all N points, with channel noise each one at a minority of them.

    python -m benchmarks.variance_estimators.run
    python -m benchmarks.variance_estimators.run --points 75 --probes 5 20 80

Errors are of single entries: the root mean square of (estimate - exact), relative to that of the
exact variance, and the part of the estimates below 0. Processor time is the sum over the cores,
which other processes on the machine hardly change; memory is the peak above that before the first
run. Each run is a process of its own. Prints a table and a line of JSON.
"""

import argparse
import json
import multiprocessing
import resource
import sys
import time

from benchmarks.sporadic_step.run import random_observations


def measure(options, queue):
    """Runs one configuration and puts its figures into the queue."""
    import numpy as np
    import tensorflow as tf

    import tfpn

    tf.config.threading.set_intra_op_parallelism_threads(options["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(options["threads"])
    rng = np.random.default_rng(0)
    size, channels, out, operators = (
        options[key] for key in ("size", "in_channels", "channels", "operators")
    )
    x = random_observations(
        rng, options["batch"], size, 1e9, channels,
        1.0 if options["noise"] == "shared" else options["observed"],
    )  # fmt: skip
    data = {key: tf.constant(value) for key, value in x.items()}
    spacing = 48.0 / size
    scale = np.sqrt(1.0 / (operators * channels))
    parameters = {
        "weights": (scale * rng.normal(size=(operators, channels, out))).astype("float32"),
        "drift": (spacing * (np.arange(operators)[:, None] - operators // 2)).astype("float32"),
        "diffusion": np.full((operators, 1, 1), (0.5 * spacing) ** 2, "float32"),
        "signal_std": np.float32(1.0),
        "length_scale": np.float32(2.0 * spacing),
        "observation_variance": np.float32(0.01),
    }
    parameters = {key: tf.constant(value) for key, value in parameters.items()}
    rest = {}
    if options["probes"]:
        rest["variance_estimator"], rest["num_probes"] = "stochastic", options["num_probes"]
        rest["probes"] = options["probes"]

    def convolve(**more):
        return tfpn.math.convolve(
            *data.values(), data["points"], **parameters, noise=options["noise"], **more
        )

    @tf.function
    def step(seed):
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            mean, variance, nll = convolve(**rest, seed=seed)
            total = tf.reduce_mean(mean) + tf.reduce_mean(variance) + tf.reduce_mean(nll)
        return variance, tape.gradient(total, parameters)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    wall, processor, estimates = [], [], []
    for run in range(options["runs"] + 1):
        start = time.perf_counter(), time.process_time()
        estimates.append(step(tf.constant([0, run]))[0].numpy())
        wall.append(time.perf_counter() - start[0])
        processor.append(time.process_time() - start[1])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
    figures = {
        "seconds": round(min(wall[1:]), 3),
        "processor_seconds": round(min(processor[1:]), 3),
        "memory_mb": round(memory),
    }
    if options["probes"]:
        exact = convolve()[1].numpy()
        seen = np.isfinite(x["variance"]).any(-1)
        errors = np.array([found - exact for found in estimates])[:, seen]
        figures["relative_error"] = round(
            float(np.sqrt(np.mean(errors**2)) / np.sqrt(np.mean(exact[seen] ** 2))), 3
        )
        figures["negative"] = round(float(np.mean(np.array(estimates)[:, seen] < 0)), 4)
    queue.put(figures)


def main(arguments=None):
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, nargs="+", default=[75, 215])
    parser.add_argument("--noise", nargs="+", choices=["shared", "channel"], default=None)
    parser.add_argument("--probes", type=int, nargs="+", default=[20])
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--in-channels", type=int, default=42)
    parser.add_argument("--observed", type=float, default=0.2, help="part of a channel's points")
    parser.add_argument("--channels", type=int, default=96)
    parser.add_argument("--operators", type=int, default=5)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = vars(parser.parse_args(arguments))
    context = multiprocessing.get_context("spawn")
    sizes, counts = options.pop("points"), options.pop("probes")
    kinds = [(None, 0), *((kind, n) for n in counts for kind in ("rademacher", "gaussian"))]
    rows = []
    print("| noise | points | estimator | seconds | processor | memory | error | below 0 |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for noise in options.pop("noise") or ("shared", "channel"):
        for size in sizes:
            for probes, num_probes in kinds:
                case = {"noise": noise, "size": size, "probes": probes, "num_probes": num_probes}
                queue = context.Queue()
                process = context.Process(target=measure, args=({**options, **case}, queue))
                process.start()
                while process.is_alive() and queue.empty():
                    process.join(timeout=0.5)
                if queue.empty():
                    sys.exit(f"the process for {case} ended with exit code {process.exitcode}")
                rows.append({**case, **queue.get()})
                process.join()
                row, name = rows[-1], f"{num_probes} {probes}" if probes else "exact"
                print(
                    f"| {noise} | {size} | {name} | {row['seconds']} | {row['processor_seconds']} "
                    f"| {row['memory_mb']} MB | {row.get('relative_error', 0)} "
                    f"| {row.get('negative', 0)} |",
                    flush=True,
                )
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
