"""How far is conditioning on neighbourhoods from the exact one? The error by the size of the halo.

    python -m benchmarks.neighbourhoods.run
    python -m benchmarks.neighbourhoods.run --points 150 --neighbors 16 32 64 --steps 20
    python -m benchmarks.neighbourhoods.run --dims 2 --block-sizes 80 48 --neighbors 96 112 128

In one, two and three dimensions, at random points, float32:

- "smooth" and "white": a network as `adapt` leaves it, not trained. Its readings are waves some
  eight spacings long, or independent numbers, which is the hardest. The errors are those of the
  last convolution's mean and standard deviation.
- "trained": a network trained, locally with the default halo, to tell waves of four lengths apart.
  The errors are those of its last convolution, of its logits, and the share of examples that it
  classifies otherwise, on other examples than those it was trained on.

Every error is the root mean square of the difference to the exact network of the same weights,
relative to that of the exact result; of logits relative to their standard deviation over the
examples. "likelihood" is the largest difference of a layer's marginal likelihood, in nats a
reading. "turned" is what turning the points by 45 degrees changes in a local convolution without
drift, relative to its result: in the plane, where the exact result does not change.
Writes `errors.csv`, a row for each halo as soon as it is known, and `errors.png`.
"""

import argparse
import itertools
import pathlib
import time

import numpy as np

from benchmarks.tables import append_rows, read_rows

SIGNALS = ("smooth", "white", "trained")
LENGTHS = (4.0, 6.0, 9.0, 14.0)  # of waves, in spacings
NOISE = 0.3
FIELDS = (
    "dim", "signal", "points", "block_size", "neighbors", "examples", "mean", "std", "likelihood",
    "logits", "other_class", "turned", "local_seconds", "exact_seconds",
)  # fmt: skip
KEY = "dim", "signal", "block_size", "neighbors"


def waves(dim, count, points, seed, lengths=LENGTHS, noise=NOISE):
    """Examples of plane waves in random directions, and the number of each one's length."""
    import tfpn

    rng = np.random.default_rng(seed)
    where = rng.uniform(size=(count, points, dim)).astype("float32")
    labels = rng.integers(len(lengths), size=count)
    direction = rng.normal(size=(count, 1, dim))
    direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    length = np.array(lengths)[labels][:, None] * points ** (-1.0 / dim)
    turns = np.sum(where * direction, axis=-1) / length + rng.uniform(size=(count, 1))
    values = np.sqrt(2.0) * np.sin(2.0 * np.pi * turns)
    values += rng.normal(scale=noise, size=values.shape)
    return tfpn.observations(where, values.astype("float32")), labels


def readings(dim, signal, count, points, seed):
    """Observations and labels of a kind of signal."""
    if signal == "trained":
        return waves(dim, count, points, seed)
    x, labels = waves(dim, count, points, seed, lengths=(8.0,), noise=0.05)
    if signal == "white":
        rng = np.random.default_rng(seed + 1)
        x["values"] = rng.normal(size=x["values"].shape).astype("float32")
    return x, labels


def network(dim, options, **conditioning):
    """The network that is measured."""
    import tfpn

    return tfpn.models.PNCNN(
        len(LENGTHS), channels=options.channels, num_blocks=options.blocks, spatial_dim=dim,
        num_basis=2 * dim + 1, seed=0, **conditioning,
    )  # fmt: skip


def trained(dim, signal, options):
    """The weights of a network that was adapted, and trained where the signal says so."""
    import keras

    keras.utils.set_random_seed(0)
    model = network(dim, options, conditioning="local")
    x, y = readings(dim, signal, options.examples, options.points, seed=10)
    model.adapt(x, fit_priors=signal != "white", verbose=0)
    if signal == "trained":
        schedule = keras.optimizers.schedules.CosineDecay(1e-2, options.steps)
        model.compile(
            keras.optimizers.Adam(schedule),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            jit_compile=False,
        )
        batch = max(1, options.examples // 4)
        epochs = -(-options.steps * batch // options.examples)
        model.fit(x, y, batch_size=batch, epochs=epochs, verbose=0)
    return model.get_weights()


def results(model, x, batch=16):
    """Last convolution's mean and standard deviation, likelihoods, logits, and seconds."""
    import keras
    import tensorflow as tf

    from tfpn.contract import KEYS

    last = model.blocks[-1].convolution.output  # in the order of the keys' names
    last = dict(zip(sorted(KEYS), last, strict=True))
    inner = keras.Model(model.inputs_dict, {**last, "logits": model.output})

    @tf.function(reduce_retracing=True)
    def function(x):
        return inner(x), [layer.losses for layer in model.pn_layers]

    found, seconds = [], []
    for start in [0, *range(0, len(x["points"]), batch)]:  # the first one is traced and left out
        some = {key: tf.constant(value[start : start + batch]) for key, value in x.items()}
        begin = time.perf_counter()
        outputs, losses = function(some)
        outputs = {key: value.numpy() for key, value in outputs.items()}
        seconds.append(time.perf_counter() - begin)
        found.append((outputs, np.array(losses, np.float64)))
    outputs, losses = zip(*found[1:], strict=True)
    values, variance, logits = (
        np.concatenate([output[key] for output in outputs])
        for key in ("values", "variance", "logits")
    )
    weight = model.get_config()["marginal_likelihood_weight"]
    likelihood = np.mean(losses, axis=0) / weight
    return {
        "mean": values, "std": np.sqrt(variance), "likelihood": likelihood, "logits": logits,
    }, sum(seconds[1:])  # fmt: skip


def relative(found, expected, centred=False):
    """Root mean square of a difference over that of what was expected."""
    size = expected - expected.mean(axis=0) if centred else expected
    return float(np.sqrt(np.mean(np.square(found - expected)) / np.mean(np.square(size))))


def turned(way, options):
    """What turning the points changes in a convolution without drift, relative to its size."""
    import tfpn

    x, _ = waves(2, options.examples, options.points, seed=3)
    layer = tfpn.layers.PNConv(
        4, 1, spacing=options.points**-0.5, conditioning="local", **way, double_precision=False,
        observation_noise=NOISE,
    )  # fmt: skip
    half = np.sqrt(0.5)
    turn = np.array([[half, -half], [half, half]], np.float32)
    moved = {**x, "points": (x["points"] - 0.5) @ turn.T + 0.5}
    return relative(*(layer(given)["values"].numpy() for given in (moved, x)))


def measure(dim, signal, ways, options):
    """Yields a row for each pair of a block's and a halo's number of points."""
    weights = trained(dim, signal, options)
    tested = options.tested or options.examples
    x, _ = readings(dim, signal, tested, options.points, seed=20)
    exact = network(dim, options)
    exact.set_weights(weights)
    expected, exact_seconds = results(exact, x)
    for block_size, neighbors in ways:
        way = {"block_size": block_size, "neighbors": neighbors}
        local = network(dim, options, conditioning="local", **way)
        local.set_weights(weights)
        found, seconds = results(local, x)
        row = {key: relative(found[key], expected[key]) for key in ("mean", "std")}
        row["likelihood"] = float(np.abs(found["likelihood"] - expected["likelihood"]).max())
        if signal == "trained":
            row["logits"] = relative(found["logits"], expected["logits"], centred=True)
            classes = found["logits"].argmax(-1) != expected["logits"].argmax(-1)
            row["other_class"] = float(classes.mean())
        if signal == "smooth" and dim == 2:
            row["turned"] = turned(way, options)
        row |= {"local_seconds": seconds, "exact_seconds": exact_seconds}
        row = {key: float(f"{value:.4g}") for key, value in row.items()}
        yield {
            "dim": dim, "signal": signal, "points": options.points, "examples": tested,
            **way, **row,
        }  # fmt: skip


def draw(rows, path):
    """Errors of the mean by the halo of the largest blocks, a panel for each dimension."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    largest = max(int(row["block_size"]) for row in rows)
    rows = [row for row in rows if int(row["block_size"]) == largest]
    dims = sorted({int(row["dim"]) for row in rows})
    figure = Figure(figsize=(3.4 * len(dims), 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(dims), sharey=True, squeeze=False)[0]
    for panel, dim in zip(panels, dims, strict=True):
        for signal in SIGNALS:
            chosen = [r for r in rows if int(r["dim"]) == dim and r["signal"] == signal]
            chosen.sort(key=lambda row: int(row["neighbors"]))
            halo = [int(row["neighbors"]) for row in chosen]
            panel.loglog(halo, [float(row["mean"]) for row in chosen], "o-", label=signal)
            logits = [(int(r["neighbors"]), float(r["logits"])) for r in chosen if r["logits"]]
            if logits:
                panel.loglog(*zip(*logits, strict=True), "s--", color="gray", label="logits")
        panel.axhline(0.01, color="black", linewidth=0.5)
        halos = sorted({int(row["neighbors"]) for row in rows if int(row["dim"]) == dim})
        panel.set_xticks(halos, [str(halo) for halo in halos], fontsize="x-small")
        panel.minorticks_off()
        panel.set(title=("on a line", "in the plane", "in space")[dim - 1], xlabel="neighbours")
    panels[0].set_ylabel("relative error")
    panels[0].legend()
    figure.savefig(path, dpi=120)


def main(arguments=None):
    """Measures what is not in the table yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default="runs/neighbourhoods")
    parser.add_argument("--dims", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--signals", nargs="+", choices=SIGNALS, default=SIGNALS)
    parser.add_argument("--points", type=int, default=600)
    parser.add_argument("--block-sizes", type=int, nargs="+", default=[80])
    parser.add_argument(
        "--neighbors", type=int, nargs="+", default=[16, 32, 64, 96, 128, 160, 240, 320]
    )
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--tested", type=int, help="examples that are compared, if others")
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "errors.csv"
    done = {tuple(row[key] for key in KEY) for row in read_rows(path)}
    for dim, signal in itertools.product(options.dims, options.signals):
        ways = [
            way
            for way in itertools.product(options.block_sizes, options.neighbors)
            if tuple(map(str, (dim, signal, *way))) not in done
        ]
        for row in measure(dim, signal, ways, options) if ways else ():
            append_rows(path, FIELDS, [row])
            print(row, flush=True)
    draw(read_rows(path), options.output / "errors.png")


if __name__ == "__main__":
    main()
