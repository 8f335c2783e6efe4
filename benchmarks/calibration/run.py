"""Are the features' predicted standard deviations right? Monte Carlo truth for small networks.

Functions are sampled from a Gaussian process and observed with noise at random points of the unit
interval or square. A network of random weights, blocks of [PNConv -> ProbReLU -> ChannelMix],
predicts the features at those points with their variances; the residuals are taken against the
exact features of the sampled function (`truth.py`). Calibrated residuals have a standard
deviation of 1 in units of the predicted one, and 95 % of them lie within 1.96 of it.

    python -m benchmarks.calibration.run               # modes over points, one dimension
    python -m benchmarks.calibration.run --dim 2
    python -m benchmarks.calibration.run --variants    # what might bring later layers to 1
    python -m benchmarks.calibration.run --priors      # the later layers' fitted priors
    python -m benchmarks.calibration.run --quick       # a smoke test

Writes `NAME.csv`, with the rows of a configuration as soon as they are known (those that are there
already are not computed again), and the Q-Q figure `NAME.png`, into the output folder.
"""

import argparse
import dataclasses
import pathlib
import time

import numpy as np

from benchmarks.calibration.priors import Prior, fit_prior, later_convolution
from benchmarks.calibration.report import LEVELS, draw, table
from benchmarks.calibration.truth import (
    Block,
    exact_features,
    margin_of,
    posterior_functions,
    sample_functions,
    values_at,
)
from benchmarks.calibration.variants import MODES, VARIANTS, Variant
from benchmarks.tables import append_rows, read_rows

FIELDS = (
    *("dtype", "dim", "points", "variant", "layer", "networks", "functions", "spread"),
    *("standard_error", "residual_mean", "coverage", "rms_error", "predicted_std", "seconds"),
    *(f"q{level:g}" for level in LEVELS),
)
# In the covariance of joint mode, entries computed at a time.
_ENTRIES = 2**21


class Network:
    """Random weights at the library's initial scales, and the same in every mode."""

    def __init__(self, seed, *, dim, channels, blocks, basis, spacing, dtype):
        self.options = {"num_basis": basis, "spacing": spacing, "dtype": dtype}
        self.channels = channels
        self.dim = dim
        self.layers = self._build(seed, blocks, "none")
        self.blocks = [Block.of(convolution, mix) for convolution, mix in self.layers]

    def _build(self, seed, blocks, uncertainty, later_noise=None, **more):
        import keras
        import tensorflow as tf

        import tfpn

        keras.utils.set_random_seed(seed)
        layers, in_channels = [], 1
        for number in range(1, blocks + 1):
            convolution = tfpn.layers.PNConv(
                self.channels,
                uncertainty=uncertainty,
                stream=number,
                observation_noise=later_noise if number > 1 else None,
                **more,
                **self.options,
            )
            mix = tfpn.layers.ChannelMix(self.channels, dtype=self.options["dtype"])
            keys = (("points", self.dim), ("values", in_channels), ("variance", in_channels))
            convolution.build({key: tf.TensorShape([None, None, size]) for key, size in keys})
            keys = (("points", self.dim), ("values", self.channels), ("variance", self.channels))
            mix.build({key: tf.TensorShape([None, None, size]) for key, size in keys})
            layers.append((convolution, mix))
            in_channels = self.channels
        return layers

    def in_mode(self, variant):
        """Pairs of layers with these weights in the variant's mode."""
        mode, more = variant.mode, {"rank": variant.rank}
        if mode == "draws":
            # Draws are readings without a variance: a nugget is the layers' own noise.
            noise = np.sqrt(variant.nugget) if variant.nugget else None
            mode, more = "sampled", {"num_samples": variant.rank, "later_noise": noise}
        layers = self._build(0, len(self.layers), mode, **more)
        for new, old in zip(layers, self.layers, strict=True):
            for layer, source in zip(new, old, strict=True):
                known = {weight.name: weight for weight in source.weights}
                for weight in layer.weights:
                    if weight.name in known:
                        weight.assign(known[weight.name])
        return layers


def predict(network, variant, x):
    """Means and variances after each block, a list of pairs [F, N, c].

    Args:
        network: `Network`.
        variant: `Variant` of any mode but "sampled".
        x: the observations dict.
    """
    x = {key: np.asarray(value, network.options["dtype"]) for key, value in x.items()}
    batch = len(x["points"])
    if variant.mode == "joint":
        batch = max(1, _ENTRIES // (x["points"].shape[1] * network.channels) ** 2)
    parts = [{k: v[i : i + batch] for k, v in x.items()} for i in range(0, len(x["points"]), batch)]
    maps = []
    for index, (convolution, mix) in enumerate(network.in_mode(variant)):
        prior = Prior.of(convolution, parts, variant) if index else None
        parts = [_block(convolution, mix, part, variant, prior) for part in parts]
        maps.append(
            tuple(np.concatenate([part[key] for part in parts]) for key in ("values", "variance"))
        )
    return maps


def _block(convolution, mix, x, variant, prior):
    from tfpn.layers import ProbReLU

    y = convolution(x) if prior is None else later_convolution(convolution, x, variant, prior)
    return mix(ProbReLU(dtype=mix.dtype_policy.name)(y))


def fitted_priors(options, points):
    """Length scale and nugget of largest likelihood in later layers, by what they are fitted to.

    Returns a list of dicts: length scale in units of the network's, nugget's variance in units of
    the mean square.
    """
    rows = []
    for seed in range(options.networks):
        sample = draw_sample(options, points, seed)
        maps = predict(sample.network, Variant("low_rank", 16), sample.x)
        for index in range(options.blocks - 1):
            convolution = sample.network.layers[index + 1][0]
            mean, variance = (np.asarray(part, np.float64) for part in maps[index])
            exact = sample.truth[index]
            for what, values, noise in (
                ("exact features", exact, 0.0 * variance),
                ("means as if exact", mean, 0.0 * variance),
                ("means with their variances as noise", mean, variance),
            ):
                values = values - values.mean(axis=(0, 1))
                logs = fit_prior(sample.x["points"], values, noise, True, convolution)
                nugget = np.exp(2 * logs[2]) / np.mean(values**2)
                rows.append(
                    {
                        **{"dim": options.dim, "points": points, "network": seed},
                        **{"layer": index + 2, "fitted_to": what},
                        "length": round(float(np.exp(logs[0]) / options.spacing), 3),
                        "nugget": float(f"{nugget:.2g}"),
                    }
                )
    return rows


def sampled_prediction(rng, network, functions, x, noise, step, count):
    """Means and variances of the exact features under the first layer's posterior.

    By ``count`` samples; the variances include the means' own error.
    """
    maps = []
    for index, (points, observed) in enumerate(zip(x["points"], x["values"], strict=True)):
        one = dataclasses.replace(functions, values=functions.values[index : index + 1])
        samples = posterior_functions(rng, one, points[None], observed[None], noise, count)
        points = np.repeat(points[None], count, axis=0)
        features = exact_features(network.blocks, samples, points, step)
        maps.append([(f.mean(axis=0), f.var(axis=0, ddof=1) * (1 + 1 / count)) for f in features])
    return [
        tuple(np.stack(part) for part in zip(*(one[layer] for one in maps), strict=True))
        for layer in range(len(network.blocks))
    ]


@dataclasses.dataclass
class Sample:
    """One network's functions: their observations and exact features."""

    network: Network
    functions: object
    x: dict
    truth: list


def draw_sample(options, points, seed):
    """A network and functions of the given seed, observed at ``points`` points each."""
    rng = np.random.default_rng([seed, points, options.dim])
    where = rng.uniform(size=(options.functions, points, options.dim))
    network = Network(
        seed, dim=options.dim, channels=options.channels, blocks=options.blocks,
        basis=options.basis, spacing=options.spacing, dtype=options.dtype,
    )  # fmt: skip
    functions = sample_functions(
        rng, options.functions, options.dim, options.length, margin_of(network.blocks)
    )
    values = values_at(functions, where)
    noisy = values + options.noise * rng.standard_normal(values.shape)
    x = {"points": where, "values": noisy, "variance": np.full(values.shape, options.noise**2)}
    truth = exact_features(network.blocks, functions, where, options.step)
    return Sample(network, functions, x, truth)


def residuals(options, variant, sample, seed):
    """Errors of the means and predicted standard deviations by layer, pairs [F, N, c]."""
    if variant.mode == "sampled":
        rng = np.random.default_rng([seed, 1])
        maps = sampled_prediction(
            *(rng, sample.network, sample.functions, sample.x),
            *(options.noise, options.step, options.samples),
        )
    else:
        maps = predict(sample.network, variant, sample.x)
    return [
        (truth - np.asarray(mean), np.sqrt(np.asarray(variance)))
        for truth, (mean, variance) in zip(sample.truth, maps, strict=True)
    ]


def summary(errors, deviations):
    """Statistics of residuals [networks, F, N, c] in units of the predicted deviation.

    The spread is their root mean square. Its standard error takes networks as independent draws, or
    functions where there is but one network.
    """
    from tfpn.evaluation import gaussian_metrics, standardized

    if not (np.all(deviations) and np.any(errors)):
        return {"rms_error": np.sqrt(np.mean(errors**2))}
    found = gaussian_metrics(errors, deviations)
    z = standardized(errors, deviations)
    axes = (2, 3) if len(errors) == 1 else (1, 2, 3)
    groups = np.mean(np.reshape(z, errors.shape) ** 2, axis=axes).ravel()
    spread = np.std(groups, ddof=1) / np.sqrt(len(groups)) if len(groups) > 1 else np.nan
    return {
        "rms_error": found["rmse"],
        "spread": found["spread"],
        "standard_error": spread / (2 * found["spread"]),
        "residual_mean": np.mean(z),
        "coverage": found["coverage_95"],
        "predicted_std": np.sqrt(np.mean(deviations**2)),
        **{f"q{p:g}": q for p, q in zip(LEVELS, np.quantile(z, LEVELS), strict=True)},
    }


def measure(options, variant, points, samples):
    """Rows of the CSV for one variant and number of points, one a layer.

    ``samples`` are those of `draw_sample`, one a network.
    """
    start = time.perf_counter()
    layers = [[] for _ in range(options.blocks)]
    for seed, sample in enumerate(samples):
        for layer, pair in zip(layers, residuals(options, variant, sample, seed), strict=True):
            layer.append(pair)
    seconds = time.perf_counter() - start
    for index, pairs in enumerate(layers, start=1):
        row = summary(*(np.stack(part) for part in zip(*pairs, strict=True)))
        yield {
            **{
                "dtype": options.dtype,
                "dim": options.dim,
                "points": points,
                "variant": variant.name,
                "layer": index,
            },
            **{"networks": options.networks, "functions": options.functions},
            **{key: float(f"{value:.4g}") for key, value in row.items()},
            "seconds": round(seconds, 1),
        }


def print_priors(options):
    """Writes `priors-1d.csv` or `priors-2d.csv` and prints the networks' geometric means."""
    path = options.output / f"priors-{options.dim}d.csv"
    rows = [row for points in options.points for row in fitted_priors(options, points)]
    append_rows(path, list(rows[0]), rows)
    groups = {}
    for row in rows:
        groups.setdefault((row["points"], row["layer"], row["fitted_to"]), []).append(row)
    for key, group in groups.items():
        means = [
            np.exp(np.mean(np.log([r[k] + 1e-12 for r in group]))) for k in ("length", "nugget")
        ]
        print(*key, "length {:.2f} nugget {:.1e}".format(*means))


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--output", type=pathlib.Path, default="runs/calibration")
    parser.add_argument("--name", help="of the files; modes-1d, variants-2d and so on if not given")
    parser.add_argument("--dim", type=int, choices=(1, 2), default=1)
    parser.add_argument("--points", type=int, nargs="+", help="10 20 40 80, or 40 for variants")
    parser.add_argument("--variants", action="store_true", help="changes of the later layers")
    parser.add_argument("--priors", action="store_true", help="what fits the later layers' input")
    parser.add_argument("--only", nargs="+", help="run only the variants of these names")
    parser.add_argument("--networks", type=int, default=8, help="random networks")
    parser.add_argument("--functions", type=int, default=16, help="functions for each network")
    parser.add_argument("--samples", type=int, default=64, help="of each function's posterior")
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument(
        "--noise", type=float, default=0.1, help="standard deviation, signal's is 1"
    )
    parser.add_argument("--length", type=float, help="functions' length scale; the spacing")
    parser.add_argument(
        "--spacing", type=float, help="that the network is made for; 0.1 in 1-d, 0.2 in 2-d"
    )
    parser.add_argument("--step", type=float, help="lattice step of the exact features")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--quick", action="store_true", help="a smoke test of a minute at most")
    options = parser.parse_args(arguments)
    if options.quick:
        options.networks, options.functions, options.channels, options.samples = 2, 2, 4, 16
        options.points = options.points or [10]
    options.basis = 3**options.dim
    options.spacing = options.spacing or 0.1 * options.dim
    options.length = options.length or options.spacing
    options.step = options.step or options.spacing / (16 if options.dim == 1 else 8)
    options.points = options.points or (
        [40] if options.variants or options.priors else [10, 20, 40, 80]
    )
    kind = "variants" if options.variants else "modes"
    options.name = options.name or f"{kind}-{options.dim}d" + ("-quick" if options.quick else "")
    return options


def main(arguments=None):
    """Computes what is missing in the CSV, prints the table and draws."""
    options = parse(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    if options.priors:
        print_priors(options)
        return
    path = options.output / f"{options.name}.csv"
    chosen = [
        variant
        for variant in (VARIANTS if options.variants else MODES)
        if not options.only or variant.name in options.only
    ]
    done = {(row["points"], row["variant"]) for row in read_rows(path)}
    for points in options.points:
        missing = [variant for variant in chosen if (str(points), variant.name) not in done]
        if missing:
            samples = [draw_sample(options, points, seed) for seed in range(options.networks)]
        for variant in missing:
            rows = list(measure(options, variant, points, samples))
            append_rows(path, FIELDS, rows)
            print(points, variant.name, [r.get("spread") for r in rows], flush=True)
    rows = sorted(read_rows(path), key=lambda row: int(row["points"]))
    print(table(rows))
    known = [row["points"] for row in rows]
    shown = "40" if "40" in known else known[-1]
    draw([row for row in rows if row["points"] == shown], path.with_suffix(".png"))


if __name__ == "__main__":
    main()
