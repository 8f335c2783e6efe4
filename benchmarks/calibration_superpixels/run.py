"""The trained SLIC-75 network against its own features at the highest resolution.

The paper's calibration figure. Test images of MNIST are seen at fewer points: at random pixels, as
lattices of area averages, and as the superpixels that the network was trained on. The features and
standard deviations that the network predicts from those, at random points of the image, are
compared with the features that it computes from all 28 x 28 pixels. "low_rank" and "sampled" are
the same trained network, with its weights, in that mode: shapes of weights do not depend on the
mode. A nugget is a variance added to the later layers' input, as if they had independent errors
besides.

    python -m benchmarks.calibration_superpixels.run --data-dir DIR --cache-dir CACHE
    python -m benchmarks.calibration_superpixels.run --data-dir DIR --quick

DIR holds mnist.npz; in CACHE the few superpixels needed are kept. Writes `superpixels.csv`, a
configuration as soon as it is known, and the figures `superpixels.png` (Q-Q plots) and
`superpixels_std.png` (sizes of residuals and predicted standard deviations over the number of
points).
"""

import argparse
import itertools
import pathlib
import time

import numpy as np

from benchmarks.calibration.report import LEVELS, draw, table
from benchmarks.calibration.run import summary
from benchmarks.tables import append_rows, read_rows

FIELDS = (
    *("points", "input", "variant", "layer", "images", "errors", "spread", "standard_error"),
    *("residual_mean", "coverage", "rms_error", "predicted_std", "median_std", "truth_std"),
    "seconds",
    *(f"q{level:g}" for level in LEVELS),
)
SIDE = 28
MODES = ("diagonal", "low_rank", "sampled")


def in_mode(model, uncertainty, options):
    """The same network with another way to carry uncertainty."""
    changed = {"uncertainty": uncertainty, "rank": options.rank, "num_samples": options.samples}
    other = type(model).from_config({**model.get_config(), **changed})
    other.set_weights(model.get_weights())
    return other


def inputs(options):
    """Observations of the same test images by name, that of all pixels first, and the labels."""
    import tfpn

    given = {"data_dir": options.data_dir, "limit": options.images}
    pixels = tfpn.datasets.mnist_grid(SIDE, **given).test
    found = {"all pixels": pixels.x}
    rng = np.random.default_rng(0)
    order = rng.permuted(np.tile(np.arange(SIDE**2), (options.images, 1)), axis=1)
    for count in options.pixels:
        chosen = np.sort(order[:, :count], axis=1)[..., None]
        found[f"{count} pixels"] = {
            key: np.take_along_axis(value, chosen, axis=1) for key, value in pixels.x.items()
        }
    for side in options.lattices:
        found[f"lattice {side} x {side}"] = tfpn.datasets.mnist_grid(side, **given).test.x
    superpixels = tfpn.datasets.superpixel_mnist(
        cache_dir=options.cache_dir, num_workers=1, progress=False, **given
    )
    found["superpixels"] = superpixels.test.x
    return found, pixels.y


def features(model, x, query, nugget):
    """Means and standard deviations after each block at query points, and the predicted labels.

    With a nugget of 0 what `PNCNN.feature_maps` returns.

    Args:
        model: a `PNCNN` with normalisation.
        x: the observations dict of B examples.
        query: points [1, M, d].
        nugget: variance added to the later layers' input, at all points alike.

    Returns:
        A list of pairs [B, M, c] and an array [B].
    """
    parts, labels = [], []
    for index in range(len(x["points"])):  # one by one, for the memory that 784 points take
        given = {key: value[index : index + 1] for key, value in x.items()}
        maps = []
        for block in model.blocks:
            at_query, given = block(given, query), block(given)
            maps.append((at_query["values"].numpy(), np.sqrt(at_query["variance"].numpy())))
            given["variance"] = given["variance"] + nugget
        parts.append(maps)
        logits = model.get_layer("head")(model.get_layer("pooling")(given)["values"])
        labels.append(int(np.argmax(logits)))
    layers = [
        tuple(np.concatenate(part) for part in zip(*layer, strict=True))
        for layer in zip(*parts, strict=True)
    ]
    return layers, np.array(labels)


def rows_of(options, named, seconds, errors, maps, truth):
    """Rows of the CSV for one input, one a layer; ``named`` holds its names and points."""
    for layer, ((mean, std), (true, true_std)) in enumerate(zip(maps, truth, strict=True), 1):
        found = summary((true - mean)[None].astype(np.float64), std[None].astype(np.float64))
        found |= {"median_std": np.median(std), "truth_std": np.sqrt(np.mean(true_std**2))}
        yield {
            **{**named, "layer": layer, "images": options.images, "errors": errors},
            **{key: float(f"{value:.4g}") for key, value in found.items()},
            "seconds": round(seconds, 2),
        }


def measure(options, path):
    """Computes what is missing in the CSV."""
    import keras

    from tfpn.models import PNCNN

    trained = keras.models.load_model(options.model, custom_objects={"PNCNN": PNCNN})
    rng = np.random.default_rng(1)
    query = rng.uniform(options.border, 1 - options.border, size=(1, options.query, 2))
    known, labels = inputs(options)
    for mode, nugget in itertools.product(options.modes, options.nuggets):
        numbers = {"low_rank": f" {options.rank}", "sampled": f" {options.samples}"}
        variant = mode + numbers.get(mode, "")
        variant += f", nugget {nugget:g}" if nugget else ""
        done = {row["input"] for row in read_rows(path) if row["variant"] == variant}
        if set(known) <= done:
            continue
        model = trained if mode == "diagonal" else in_mode(trained, mode, options)
        truth = None
        for name, x in known.items():
            start = time.perf_counter()
            maps, predicted = features(model, x, query, nugget)
            seconds = (time.perf_counter() - start) / options.images
            truth = truth or maps  # all pixels are the first input
            if name in done:
                continue
            count = round(np.isfinite(x["variance"]).sum() / options.images)
            named = {"points": count, "input": name, "variant": variant}
            errors = int(np.sum(predicted != labels))
            rows = list(rows_of(options, named, seconds, errors, maps, truth))
            append_rows(path, FIELDS, rows)
            print(variant, name, errors, [row.get("spread") for row in rows], flush=True)


def draw_sizes(rows, path):
    """Residuals' and predicted sizes over the number of random pixels, a panel for each mode."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = [row for row in rows if row["input"].endswith("pixels") and row["input"][0].isdigit()]
    modes = list(dict.fromkeys(row["variant"] for row in rows))
    figure = Figure(figsize=(3.4 * len(modes), 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    for axis, mode in zip(
        figure.subplots(1, len(modes), squeeze=False, sharey=True)[0], modes, strict=True
    ):
        for layer in sorted({row["layer"] for row in rows}):
            chosen = [row for row in rows if (row["variant"], row["layer"]) == (mode, layer)]
            chosen.sort(key=lambda row: int(row["points"]))
            counts = [int(row["points"]) for row in chosen]
            sizes = {k: [float(row[k]) for row in chosen] for k in ("predicted_std", "rms_error")}
            (line,) = axis.plot(counts, sizes["predicted_std"], "o-", label=f"layer {layer}")
            axis.plot(counts, sizes["rms_error"], "x:", color=line.get_color())
        axis.set(title=mode, xlabel="pixels seen", xscale="log", yscale="log")
        axis.grid(alpha=0.3, which="both")
        axis.set_ylabel("predicted std (o), rms residual (x)")
    axis.legend(fontsize="small")
    figure.savefig(path, dpi=120)


def panels(rows):
    """Rows named by mode and input, without the input that the others are compared with."""
    return [
        {**row, "variant": f"{row['variant']}, {row['input']}"}
        for row in rows
        if row["input"] != "all pixels"
    ]


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    model = pathlib.Path(__file__).parents[2] / "models" / "superpixel-mnist" / "model.keras"
    parser.add_argument("--data-dir", required=True, help="folder of mnist.npz")
    parser.add_argument("--cache-dir", help="folder to keep superpixels in")
    parser.add_argument("--model", type=pathlib.Path, default=model)
    parser.add_argument("--output", type=pathlib.Path, default="runs/calibration")
    parser.add_argument("--name", default="superpixels", help="of the files")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--images", type=int, default=20, help="test images, the first ones")
    parser.add_argument("--pixels", type=int, nargs="*", default=[75, 150, 300])
    parser.add_argument("--lattices", type=int, nargs="*", default=[9, 14, 20])
    parser.add_argument(
        "--drawn", nargs="+", default=["75 pixels", "superpixels"], help="inputs in the figure"
    )
    parser.add_argument("--nuggets", type=float, nargs="+", default=[0.0, 0.01, 0.1])
    parser.add_argument("--query", type=int, default=100, help="points where features are compared")
    parser.add_argument("--border", type=float, default=0.05, help="of the image, left out")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--samples", type=int, default=16, help='draws of "sampled"')
    parser.add_argument("--quick", action="store_true", help="a smoke test of a minute at most")
    options = parser.parse_args(arguments)
    if options.quick:
        options.images, options.pixels, options.lattices, options.query = 2, [75], [9], 20
        options.name += "-quick"
    return options


def main(arguments=None):
    """Computes what is missing in the CSV, prints the table and draws."""
    options = parse(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / f"{options.name}.csv"
    measure(options, path)
    rows = panels(read_rows(path))
    print(table(rows))
    shown = [row for row in rows if row["input"] in options.drawn]
    draw(shown or rows, path.with_suffix(".png"), limit=15)
    draw_sizes(read_rows(path), path.with_name(f"{options.name}_std.png"))


if __name__ == "__main__":
    main()
