"""Time and memory of a training step with channels seen at different times.

The shapes are PhysioNet 2012's: batch 50, up to 215 time points (75 on average, padded to the
longest of the batch), 42 input channels each observed at a minority of the points, 96 channels, 5
basis operators, one dimension, float32, trained through ``fit`` on random data.

    python -m benchmarks.sporadic_step.run
    python -m benchmarks.sporadic_step.run --observed 1.0        # every channel at every point
    python -m benchmarks.sporadic_step.run --estimator stochastic

Each run is a process of its own, whose peak memory is reported. Prints a line of JSON. Processor
time is the sum over the cores, which other processes on the machine hardly change.
"""

import argparse
import json
import resource
import statistics
import time


def lengths(rng, count, longest, mean):
    """Numbers of time points, exponential about ``mean``, the first example of the longest."""
    found = 1 + rng.exponential(mean - 1, size=count)
    return [longest, *(int(min(max(n, 2), longest)) for n in found[1:])]


def random_observations(rng, batch, longest, mean, channels, observed):
    """Observations in the form of `tfpn.observations`, [batch, longest, ...]."""
    import numpy as np

    points = rng.uniform(0.0, 48.0, size=(batch, longest, 1)).astype("float32")
    values = rng.normal(size=(batch, longest, channels)).astype("float32")
    variance = np.full(values.shape, 0.01, "float32")
    # Some channels are seen nearly always, most rarely: the mean over channels is `observed`.
    frequency = rng.beta(0.5, 0.5 * (1.0 - observed) / observed, channels) if observed < 1 else 1.0
    variance[rng.uniform(size=values.shape) >= frequency] = np.inf
    for example, length in enumerate(lengths(rng, batch, longest, mean)):
        variance[example, length:] = np.inf
    return {"points": points, "values": values, "variance": variance}


def main(arguments=None):
    """Trains for some steps and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--points", type=int, default=215, help="time points of the longest")
    parser.add_argument("--mean-points", type=float, default=75)
    parser.add_argument("--in-channels", type=int, default=42)
    parser.add_argument("--observed", type=float, default=0.2, help="part of a channel's points")
    parser.add_argument("--channels", type=int, default=96)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--operators", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--uncertainty", choices=["diagonal", "none"], default="diagonal")
    parser.add_argument("--estimator", choices=["exact", "stochastic"], default="exact")
    parser.add_argument("--probes", type=int, default=20)
    parser.add_argument("--jit", action="store_true", help="compile the step by XLA")
    options = parser.parse_args(arguments)

    import keras
    import numpy as np
    import tensorflow as tf

    import tfpn

    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    imported = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rng = np.random.default_rng(0)
    batches = [
        random_observations(
            rng, options.batch, options.points, options.mean_points, options.in_channels,
            options.observed,
        )
        for _ in range(options.steps)
    ]  # fmt: skip
    x = {key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]}
    y = rng.integers(0, 2, size=len(x["points"]))
    estimator = {}
    if options.estimator != "exact":
        estimator = {"variance_estimator": options.estimator, "num_probes": options.probes}
    model = tfpn.models.PNCNN(
        2,
        channels=options.channels,
        num_blocks=options.blocks,
        num_basis=options.operators,
        spatial_dim=1,
        in_channels=options.in_channels,
        input_noise="channel",
        uncertainty=options.uncertainty,
        **estimator,
    )
    model.adapt(x)
    model.compile(
        keras.optimizers.Adam(3e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=options.jit,
    )

    class Clock(keras.callbacks.Callback):
        times, processor = [], []

        def on_train_batch_begin(self, batch, logs=None):
            self.start = time.perf_counter(), time.process_time()

        def on_train_batch_end(self, batch, logs=None):
            self.times.append(time.perf_counter() - self.start[0])
            self.processor.append(time.process_time() - self.start[1])

    history = model.fit(
        x, y, batch_size=options.batch, shuffle=False, verbose=0, callbacks=[Clock()]
    )
    seen = np.isfinite(x["variance"])
    print(
        json.dumps(
            {
                **vars(options),
                "loss": round(history.history["loss"][0], 4),
                "mean_points_drawn": round(float(seen.any(-1).sum(-1).mean()), 1),
                "observations_per_channel": round(float(seen.sum(1).mean()), 1),
                "first_step_seconds": round(Clock.times[0], 2),
                "step_seconds": round(statistics.median(Clock.times[2:]), 3),
                "fastest_step_seconds": round(min(Clock.times[2:]), 3),
                "processor_seconds": round(statistics.median(Clock.processor[2:]), 3),
                "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
                "imports_memory_mb": round(imported),
            }
        )
    )


if __name__ == "__main__":
    main()
