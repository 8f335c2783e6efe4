"""Time and memory of a training step: beside its matrix products, and one model beside another.

The configuration is the paper's for SuperPixel MNIST: batch 50, 75 points, 128 channels, 4 blocks,
9 basis operators, float32, trained through ``fit``. Measured in the same run, so that a time means
something on a noisy machine: the step's matrix products at their own shapes, alone (`products.py`);
the rate of a large square product, before and after, and what the products would take at that rate;
and the processor time, the sum over the cores, which other processes change less.
`SteerablePNCNN` has about as many real channels, 26 copies of the frequencies 0, 1 and 2, and 2
generators.

    python -m benchmarks.step_time.run
    python -m benchmarks.step_time.run --points 75 150 300 600
    python -m benchmarks.step_time.run --conditioning exact local --exact-until 1200 \\
        --batch-points 30000 --points 75 150 300 600 1200 2400 4800 9600
    python -m benchmarks.step_time.run --model PNCNN SteerablePNCNN --profile
    python -m benchmarks.step_time.run --model PNCNN SteerablePNCNN --dim 3 --channels 72 --copies 8

With both kinds of conditioning each number of points is measured with the exact one, up to
--exact-until, and with the local one, beside each other. --batch-points bounds the points of a
batch: from some number of points on batches have fewer examples.

Each configuration runs in a process of its own, whose peak memory up to the end of ``fit`` is
reported in MiB (2^20 bytes; 1.2 GB are 1144 MiB). Prints a table,
with --profile where the operations of a step take their time, and one line of JSON.
"""

import argparse
import collections
import inspect
import itertools
import json
import multiprocessing
import pathlib
import re
import resource
import statistics
import sys
import tempfile
import time

from benchmarks.step_time.products import product_flops, products_alone

# Kinds of operations by their types in TensorFlow's traces, less their prefix _Mkl.
KINDS = {
    "products": r".*MatMul.*|Einsum",
    "factorisation": r"Cholesky.*|Matrix.*Solve|MatrixInverse",
    "copies": r"Transpose|(Un)?[Pp]ack|(Concat|Split|Gather|Select|Broadcast).*|.*Slice.*|Tile",
    "sums": r"Sum|Mean|Max|Min",
    "sines and cosines": r"Sin|Cos",
    "other": r".*",
}


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


def build(options):
    """The model that is measured."""
    import tfpn

    if options["model"] == "SteerablePNCNN":
        return tfpn.models.SteerablePNCNN(
            10,
            spatial_dim=options["dim"],
            copies=options["copies"],
            num_blocks=options["blocks"],
            num_basis=options["generators"],
            uncertainty=options["uncertainty"],
            **conditioned(options),
        )
    return tfpn.models.PNCNN(
        10,
        spatial_dim=options["dim"],
        channels=options["channels"],
        num_blocks=options["blocks"],
        num_basis=options["operators"],
        uncertainty=options["uncertainty"],
        rank=options["rank"],
        **conditioned(options),
    )


def conditioned(options):
    """The arguments of conditioning that were given."""
    keys = ("conditioning", "block_size", "neighbors")
    return {key: options[key] for key in keys if options[key] is not None}


def operation_shares(run):
    """Percent of the operations' time by kind in ``run()``, the largest first.

    Operations run beside each other and share the cores, so that only their shares say something.
    """
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            run()
        (path,) = pathlib.Path(folder).rglob("*.xplane.pb")
        trace = xplane_pb2.XSpace.FromString(path.read_bytes())
    seconds = collections.Counter()
    for plane in trace.planes:
        for event in (event for line in plane.lines for event in line.events):
            name = plane.event_metadata[event.metadata_id].name
            operation = re.fullmatch(r"[\w/.-]+:(?:_Mkl)?(_?[A-Z]\w*)", name)
            if name == "CpuExecutable::ExecuteAsyncOnStream":
                kind = "compiled by XLA"
            elif operation:
                kind = next(k for k, types in KINDS.items() if re.fullmatch(types, operation[1]))
            else:
                continue
            seconds[kind] += event.duration_ps
    total = sum(seconds.values())
    return {kind: round(100 * part / total, 1) for kind, part in seconds.most_common()}


def layer_seconds(model, x, repeats=10):
    """Median seconds of each layer alone, forward and with its gradients, by layer's name."""
    import keras
    import tensorflow as tf

    from tfpn.contract import KEYS
    from tfpn.layers.base import GPLayer

    layers = [layer for layer in model.layers if isinstance(layer, GPLayer)]
    # Keras lists the entries of a layer's input in the order of their names.
    symbols = {layer.name: dict(zip(sorted(KEYS), layer.input, strict=True)) for layer in layers}
    inputs = keras.Model(model.inputs, symbols)(x)

    def timed(function):
        function()
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            function()
            times.append(time.perf_counter() - start)
        return round(statistics.median(times), 4)

    found = {}
    for layer in layers:
        given = inputs[layer.name]

        def forward(layer=layer, given=given):
            output = layer(given, training=True) if takes_training(layer) else layer(given)
            return sum(tf.reduce_sum(tf.square(output[key])) for key in ("values", "variance"))

        def both(layer=layer, given=given, forward=forward):
            sources = [given["values"], given["variance"], *layer.trainable_weights]
            with tf.GradientTape() as tape:
                tape.watch(sources[:2])
                total = forward()
            return [tf.reduce_sum(g) for g in tape.gradient(total, sources) if g is not None]

        found[layer.name] = [timed(tf.function(forward)), timed(tf.function(both))]
    return found


def takes_training(layer):
    """Whether a layer's call has the argument ``training``."""
    return "training" in inspect.signature(layer.call).parameters


def measure(options, queue):
    """Runs one configuration and puts its figures into the queue."""
    import keras
    import numpy as np
    import tensorflow as tf

    import tfpn

    tf.config.threading.set_intra_op_parallelism_threads(options["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(options["threads"])
    imported = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    width = {"PNCNN": ("channels", "operators"), "SteerablePNCNN": ("copies", "generators")}
    keys = ("batch", "points", "blocks", *width[options["model"]])
    shape = {key: options[key] for key in keys}
    rng = np.random.default_rng(0)
    examples = options["batch"] * options["steps"]
    points = rng.uniform(size=(examples, options["points"], options["dim"])).astype("float32")
    # Smooth with noise, as signals are. White noise would have a length scale below the spacing.
    values = np.sin(points[..., :2] @ [[12.0], [5.0]]) + 0.1 * rng.normal(
        size=(*points.shape[:2], 1)
    )
    x = tfpn.observations(points, values.astype("float32"))
    y = rng.integers(0, 10, size=examples)
    model = build(options)
    model.adapt(x)
    model.compile(
        keras.optimizers.Adam(3e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=options["jit"],
    )

    class Clock(keras.callbacks.Callback):
        times, processor = [], []

        def on_train_batch_begin(self, batch, logs=None):
            self.start = time.perf_counter(), time.process_time()

        def on_train_batch_end(self, batch, logs=None):
            self.times.append(time.perf_counter() - self.start[0])
            self.processor.append(time.process_time() - self.start[1])

    before = gemm_rate()
    model.fit(x, y, batch_size=options["batch"], shuffle=False, verbose=0, callbacks=[Clock()])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # of training alone
    after = gemm_rate()
    predict = tf.function(lambda inputs: model(inputs, training=False))
    one = {key: tf.constant(value[: options["batch"]]) for key, value in x.items()}
    predict(one)
    inference = []
    for _ in range(10):
        start = time.perf_counter()
        predict(one).numpy()
        inference.append(time.perf_counter() - start)

    step = statistics.median(Clock.times[3:])
    row = {
        "model": options["model"],
        "parameters": model.count_params(),
        **shape,
        "uncertainty": options["uncertainty"],
        "conditioning": options["conditioning"],
        "step_seconds": round(step, 4),
        "fastest_step_seconds": round(min(Clock.times[3:]), 4),
        "processor_seconds": round(statistics.median(Clock.processor[3:]), 4),
        "inference_seconds": round(statistics.median(inference), 4),
        "gemm_gflop_per_second": [round(before / 1e9, 1), round(after / 1e9, 1)],
        "peak_memory_mib": round(peak),
        "imports_memory_mib": round(imported),
        "point_microseconds": round(1e6 * step / options["batch"] / options["points"], 1),
        "point_kib": round(1024 * (peak - imported) / options["batch"] / options["points"], 1),
    }
    if options["model"] == "PNCNN" and options["conditioning"] == "exact":
        flops, rate = product_flops(**shape), (before + after) / 2
        alone = products_alone(**shape)
        row["products_gflop"] = round(flops / 1e9, 2)
        row["products_alone_seconds"] = round(alone, 4)
        row["ratio_to_products_alone"] = round(step / alone, 2)
        row["products_at_rate_seconds"] = round(flops / rate, 4)
        row["ratio_to_products_at_rate"] = round(step * rate / flops, 2)
    if options["profile"]:
        few = {key: value[: 5 * options["batch"]] for key, value in x.items()}
        row["operation_percent"] = operation_shares(
            lambda: model.fit(few, y[: 5 * options["batch"]], options["batch"], verbose=0)
        )
        row["layer_seconds"] = layer_seconds(model, one)
    queue.put(row)


def run(options):
    """The figures of one configuration, measured in a process of its own."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=measure, args=(options, queue))
    process.start()
    while process.is_alive() and queue.empty():
        process.join(timeout=0.5)
    if queue.empty():
        sys.exit(
            f"the process for {options['model']} and {options['points']} points ended with exit "
            f"code {process.exitcode}"
        )
    row = queue.get()
    process.join()
    return row


def line(row, rows):
    """A line of the table; ``rows`` has that of the exact PNCNN at as many points, if measured."""
    products = multiple = ""
    if "products_alone_seconds" in row:
        products = "  ".join(
            f"{row[f'products_{way}_seconds']:.3f} {row[f'ratio_to_products_{way}']:.2f}"
            for way in ("alone", "at_rate")
        )
    for other in rows:
        if (other["model"], other["conditioning"], other["points"]) == (
            "PNCNN", "exact", row["points"],
        ):  # fmt: skip
            step, processor = (row[k] / other[k] for k in ("step_seconds", "processor_seconds"))
            multiple = f"{step:.2f} ({processor:.2f})"
    return (
        f"{row['model']:14s} {row['conditioning']:5s} {row['points']:6d} {row['batch']:6d} "
        f"{row['step_seconds']:7.3f} "
        f"{row['processor_seconds']:12.3f} {multiple:>13s} "
        f"{row['inference_seconds']:12.3f} {products:>33s} "
        f"{row['peak_memory_mib']:8d} ({row['imports_memory_mib']}) "
        f"{row['point_microseconds']:10.1f} {row['point_kib']:9.1f}"
    )


def profile_text(row):
    """The profile of a row: the layers' milliseconds, forward and with gradients, and shares."""
    layers = (
        f"{name} {1000 * forward:.1f} / {1000 * both:.1f}"
        for name, (forward, both) in row["layer_seconds"].items()
    )
    kinds = (f"{kind} {percent:.0f} %" for kind, percent in row["operation_percent"].items())
    return (
        f"    ms forward / with gradients: {', '.join(layers)}\n"
        f"    operations of a step: {', '.join(kinds)}"
    )


def main(arguments=None):
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--model", nargs="+", choices=["PNCNN", "SteerablePNCNN"], default=["PNCNN"]
    )
    parser.add_argument("--dim", type=int, choices=(2, 3), default=2, help="of space")
    parser.add_argument("--points", type=int, nargs="+", default=[75])
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--channels", type=int, default=128, help="of PNCNN")
    parser.add_argument("--operators", type=int, default=9, help="of PNCNN")
    parser.add_argument("--copies", type=int, default=26, help="of SteerablePNCNN")
    parser.add_argument("--generators", type=int, default=2, help="of SteerablePNCNN")
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--uncertainty",
        choices=["diagonal", "none", "sampled", "low_rank", "joint"],
        default="diagonal",
    )
    parser.add_argument("--rank", type=int, default=8, help="factors of low_rank")
    parser.add_argument("--conditioning", nargs="+", choices=["exact", "local"], default=["exact"])
    parser.add_argument("--block-size", type=int, help="of local, by default the models'")
    parser.add_argument("--neighbors", type=int, help="of local, by default the models'")
    parser.add_argument(
        "--exact-until", type=int, default=10**9, help="most points of exact conditioning"
    )
    parser.add_argument("--batch-points", type=int, help="most points of a batch")
    parser.add_argument("--jit", action="store_true", help="compile the step by XLA")
    parser.add_argument("--profile", action="store_true", help="where operations take their time")
    options = vars(parser.parse_args(arguments))
    if options["steps"] < 4:
        parser.error(f"--steps: found {options['steps']}; the first 3 do not count, give 4 or more")
    if options["uncertainty"] in ("low_rank", "joint") and (
        options["profile"] or "SteerablePNCNN" in options["model"]
    ):
        parser.error(
            f"--uncertainty: found {options['uncertainty']}; SteerablePNCNN and --profile take "
            "'diagonal' or 'none'"
        )
    models, ways, rows = options.pop("model"), options.pop("conditioning"), []
    print(
        "model          how   points  batch  step s  (processor s)     x PNCNN  inference s  "
        "products s, ratio: alone, at rate  peak MiB (of which imports)  us a point  KiB a point"
    )
    for points in options.pop("points"):
        size = options["batch"]
        if options["batch_points"] is not None:
            size = max(1, min(size, options["batch_points"] // points))
        for model, way in itertools.product(models, ways):
            if way == "exact" and points > options["exact_until"]:
                continue
            given = {"model": model, "points": points, "batch": size, "conditioning": way}
            rows.append(run({**options, **given}))
            print(line(rows[-1], rows), flush=True)
            if options["profile"]:
                print(profile_text(rows[-1]), flush=True)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
