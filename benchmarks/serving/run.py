"""How long does a prediction take: `predict`, a frozen model, a SavedModel and ONNX Runtime?

    python -m benchmarks.serving.run
    python -m benchmarks.serving.run --models superpixel-mnist --threads 1

The models are stored ones: `superpixel-mnist` (75 points, 128 channels, 4 blocks, 9 operators) and
`physionet2012-tuned` (75 times, 37 channels of which a fifth is read, 24 query times). Examples
are random, because the time depends on sizes alone. All ways take 32 examples at a time.

The ways take turns, so that other work on the machine meets all of them. A ratio is the time of
`predict` divided by that of the way, the median over the rounds. Writes serving.csv:
"first_seconds" is the time to the first result of one example, from the loaded model on, and
"difference" the largest deviation from `predict` relative to its largest output.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.tables import append_rows

MODELS = {"superpixel-mnist": True, "physionet2012-tuned": False}  # whether ONNX can express it
AT_ONCE = 32
FIELDS = [
    *("model", "examples", "way", "milliseconds", "ratio", "processor_ratio", "first_seconds"),
    "difference",
]
OUTPUT = Path(__file__).parent / "serving.csv"


def random_examples(model, count, points=75, seed=0):
    """The model's input dict; of several channels a fifth is read."""
    import numpy as np

    rng = np.random.default_rng(seed)
    dim, channels = (model.inputs_dict[key].shape[-1] for key in ("points", "values"))
    variance = np.full((count, points, channels), 0.01, "float32")
    if channels > 1:
        variance[rng.uniform(size=variance.shape) >= 0.2] = np.inf
        variance[:, 0] = 0.01
    x = {
        "points": rng.uniform(size=(count, points, dim)),
        "values": rng.normal(size=variance.shape),
        "variance": variance,
    }
    if "statics" in model.inputs_dict:
        size = model.inputs_dict["statics"].shape[-1]
        x["statics"] = rng.normal(size=(count, size))
        x["statics_variance"] = np.zeros((count, size))
    return {key: array.astype("float32") for key, array in x.items()}


def in_pieces(function):
    """The function of a batch, for any number of examples."""
    import numpy as np

    def run(x):
        starts = range(0, len(x["points"]), AT_ONCE)
        pieces = ({key: a[start : start + AT_ONCE] for key, a in x.items()} for start in starts)
        return np.concatenate([np.asarray(function(piece)) for piece in pieces])

    return run


def makers(model, has_onnx, folder, threads):
    """For each way, a function that prepares it and returns the prediction."""
    import tensorflow as tf

    import tfpn

    def function():
        signature = {
            key: tf.TensorSpec(given.shape, given.dtype) for key, given in model.inputs_dict.items()
        }

        @tf.function(input_signature=[signature], autograph=False)
        def call(x):
            return model(x, training=False)

        return in_pieces(call)

    def saved_model():
        model.export(folder / "served", verbose=False)
        loaded = tf.saved_model.load(folder / "served")

        def serve(piece):
            return loaded.serve({key: tf.constant(array) for key, array in piece.items()})

        run = in_pieces(serve)
        run.loaded = loaded  # the function keeps no reference to it
        return run

    def onnx():
        import onnxruntime

        tfpn.exporting.onnx(model, folder / "model.onnx")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(
            folder / "model.onnx", options, providers=["CPUExecutionProvider"]
        )
        return in_pieces(lambda piece: session.run(["output"], piece)[0])

    ways = {
        "predict": lambda: lambda x: model.predict(x, batch_size=AT_ONCE, verbose=0),
        "frozen": lambda: tfpn.exporting.FrozenModel(model).predict,
        "tf.function": function,
        "SavedModel": saved_model,
    }
    return {**ways, "ONNX Runtime": onnx} if has_onnx else ways


def timed(run, x):
    """Seconds by the clock and of the processor, and the result."""
    start, processor = time.perf_counter(), time.process_time()
    result = run(x)
    return time.perf_counter() - start, time.process_time() - processor, result


def measure(name, options, folder):
    """Rows of the table for one model."""
    import keras
    import numpy as np

    from tfpn import recipes

    path = Path(recipes.models_folder()) / name / "model.keras"
    model = keras.models.load_model(path)
    one = random_examples(model, 1)
    runs, first = {}, {}
    for way, make in makers(model, MODELS[name], folder, options.threads).items():
        start = time.perf_counter()
        runs[way] = make()
        runs[way](one)
        first[way] = time.perf_counter() - start
    for examples, rounds in ((1, options.rounds), (options.batch, options.batch_rounds)):
        x, times, results = random_examples(model, examples), {way: [] for way in runs}, {}
        for turn in range(rounds + 1):
            for way, run in runs.items():
                *seconds, results[way] = timed(run, x)
                if turn:  # in the first one memory is reserved
                    times[way].append(seconds)
        expected = results["predict"]
        for way in runs:
            ratios = np.array(times["predict"]) / np.array(times[way])
            clock, processor = np.median(ratios, axis=0)
            difference = np.abs(results[way] - expected).max() / np.abs(expected).max()
            yield {
                "model": name,
                "examples": examples,
                "way": way,
                "milliseconds": f"{1e3 * statistics.median(t for t, _ in times[way]):.1f}",
                "ratio": f"{clock:.2f}",
                "processor_ratio": f"{processor:.2f}",
                "first_seconds": f"{first[way]:.1f}",
                "difference": f"{difference:.1e}",
            }


def main(arguments=None):
    """Prints the table and writes it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--batch", type=int, default=256, help="examples of the larger prediction")
    parser.add_argument("--rounds", type=int, default=40, help="of predictions of one example")
    parser.add_argument("--batch-rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args(arguments)

    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    options.output.unlink(missing_ok=True)
    print(" ".join(f"{field:>19s}" for field in FIELDS))
    for name in options.models:
        with tempfile.TemporaryDirectory() as folder:
            for row in measure(name, options, Path(folder)):
                append_rows(options.output, FIELDS, [row])
                print(" ".join(f"{row[field]!s:>19s}" for field in FIELDS), flush=True)


if __name__ == "__main__":
    main()
