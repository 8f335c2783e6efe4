"""How far is a local fit from the exact one, in the fit's own standard deviations?

    python -m benchmarks.neighbourhoods.fits

Readings at random points, of sums of waves as rough as the prior, with noise. The fit is the
posterior at as many other points, in float64. The first columns say what the prior's length scale
and noise are, in spacings of the points and signal variances. "rms" and "largest" are those of the
difference of the means, each divided by the exact standard deviation at its point. "variance" is
the largest relative difference of the variances. Writes `fits.csv`.
"""

import argparse
import csv
import itertools
import pathlib

import numpy as np

LENGTHS = {1: (2.0, 5.0, 20.0, 80.0), 2: (1.0, 3.0, 8.0)}  # in spacings
HALOS = {1: (32, 64, 128), 2: (128, 200)}
NOISES = (1e-3, 1e-2, 0.1, 1.0)
WAVES = 200


def fits(dim, length, noise, count, block_size, halos, seed=0):
    """Rows of errors, one for each halo."""
    import tensorflow as tf

    from tfpn.math.arguments import read_observed
    from tfpn.math.neighbourhoods import Neighbourhoods
    from tfpn.math.operator import Operator
    from tfpn.math.process import process_marginals
    from tfpn.math.uncertainty import Diagonal

    rng = np.random.default_rng(seed)
    points, query = rng.uniform(size=(2, 1, count, dim))
    length_scale = length * count ** (-1.0 / dim)
    frequency = rng.normal(size=(dim, WAVES)) / length_scale
    phase = rng.uniform(0.0, 2.0 * np.pi, size=WAVES)
    values = np.sqrt(2.0 / WAVES) * np.sin(points @ frequency + phase).sum(-1, keepdims=True)
    values += rng.normal(scale=np.sqrt(noise), size=values.shape)
    observed = read_observed(
        points, values, np.full_like(values, noise), signal_std=1.0, length_scale=length_scale
    )
    none = tf.zeros([1, dim], tf.float64)
    itself = Operator(
        tf.constant(query), tf.ones([1, 1, 1], tf.float64), none,
        tf.zeros([1, dim, dim], tf.float64), tf.zeros([1], tf.float64),
    )  # fmt: skip
    given = Diagonal(), observed, itself, None
    mean, variance = process_marginals(*given)
    for halo in halos:
        local = process_marginals(*given, Neighbourhoods(block_size, halo))
        apart = np.abs(local[0] - mean) / np.sqrt(variance)
        yield {
            "dim": dim,
            "length": length,
            "noise": noise,
            "std": round(float(np.sqrt(np.mean(variance))), 4),
            "neighbors": halo,
            "rms": round(float(np.sqrt(np.mean(np.square(apart)))), 5),
            "largest": round(float(apart.max()), 4),
            "variance": round(float(np.abs(local[1] / variance - 1.0).max()), 4),
        }


def main(arguments=None):
    """Writes the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=1600)
    parser.add_argument("--block-size", type=int, default=80)
    parser.add_argument("--dims", nargs="+", type=int, default=[1, 2], choices=sorted(LENGTHS))
    default = pathlib.Path(__file__).parent / "fits.csv"
    parser.add_argument("--output", type=pathlib.Path, default=default)
    options = parser.parse_args(arguments)
    rows = [
        row
        for dim in options.dims
        for length, noise in itertools.product(LENGTHS[dim], NOISES)
        for row in fits(dim, length, noise, options.points, options.block_size, HALOS[dim])
    ]
    with options.output.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
