"""How many plane waves a draw of a Gaussian process needs: errors of covariances and calibration.

Draws of ``uncertainty="sampled"`` are sums of F plane waves and a correction by the readings. For
each F and dimension, over draws of the prior with 16 sets of frequencies, as a prediction has them:

- prior: root mean square error of one set's covariance between points up to 3 length scales apart,
  in units of the variance, with independent frequencies and with the lattice that is used;
- posterior: the same of the posterior's covariances between query points, of 16 draws' frequencies
  together, without the error of a finite number of amplitudes;
- spread: the draws' standard deviation over the exact one, its mean and its range (5 to 95 %) over
  the query points, of 16 draws and of many draws of the same frequencies.

    python -m benchmarks.fourier_features.run
    python -m benchmarks.fourier_features.run --dimensions 1 --waves 64 128

Prints a table and writes it to table.csv beside the program.
"""

import argparse
import csv
import pathlib

import numpy as np

LENGTH, NOISE, POINTS, QUERIES, SETS = 0.2, 0.1, 40, 60, 16


def covariance(x, y):
    """The RBF kernel, [m, n]."""
    squared = np.sum(np.square(x[:, None] - y[None]), axis=-1)
    return np.exp(-0.5 * squared / LENGTH**2)


def frequencies(waves, dim, seed):
    """Sets of frequencies as the library draws them, [SETS, F, d]."""
    import tensorflow as tf

    from tfpn.math.kernels import Kernel
    from tfpn.math.random import uniform

    kernel = Kernel(tf.constant(1.0, tf.float64), tf.constant(LENGTH, tf.float64))
    shift = uniform([SETS, 1, dim + 1], [seed, 7], tf.float64)
    return kernel.sample_frequencies(waves, shift).numpy()


def independent(waves, dim, seed):
    """Independent frequencies, [SETS, F, d]."""
    return np.random.default_rng(seed).normal(size=(SETS, waves, dim)) / LENGTH


def of_waves(omega, x, y):
    """The covariance of a set of frequencies [F, d], [m, n]."""
    a, b = x @ omega.T, y @ omega.T
    return (np.cos(a) @ np.cos(b).T + np.sin(a) @ np.sin(b).T) / len(omega)


def root_mean_square(x):
    """Of all entries."""
    return float(np.sqrt(np.mean(np.square(x))))


def measure(waves, dim, seed):
    """A row of the table, of one random problem."""
    rng = np.random.default_rng(seed)
    points, query = rng.uniform(size=(POINTS, dim)), rng.uniform(-0.2, 1.2, size=(QUERIES, dim))
    exact, omega = covariance(query, query), frequencies(waves, dim, seed)
    near = exact > np.exp(-0.5 * 3.0**2)
    solve = np.linalg.inv(covariance(points, points) + NOISE**2 * np.eye(POINTS))
    gain = covariance(query, points) @ solve
    posterior = exact - gain @ covariance(points, query)
    std = np.sqrt(np.diag(posterior))
    total, draws = np.zeros_like(posterior), []
    for one in omega:
        # A draw's deviation from the posterior mean: f~(x) - gain (f~(X) + eps).
        both = np.concatenate([query, points])
        prior = of_waves(one, both, both)
        rows = np.concatenate([np.eye(QUERIES), -gain], axis=1)
        found = rows @ prior @ rows.T + NOISE**2 * gain @ gain.T
        total += found / SETS
        draws.append(np.linalg.cholesky(found + 1e-10 * np.eye(QUERIES)) @ rng.normal(size=QUERIES))
    of_draws = np.sqrt(np.mean(np.square(draws), axis=0)) / std
    of_all = np.sqrt(np.diag(total)) / std
    return {
        "independent": root_mean_square(
            [(of_waves(o, query, query) - exact)[near] for o in independent(waves, dim, seed)]
        ),
        "lattice": root_mean_square([(of_waves(o, query, query) - exact)[near] for o in omega]),
        "posterior": root_mean_square((total - posterior) / np.outer(std, std)),
        "spread_mean": np.mean(of_all),
        "spread_low": np.quantile(of_all, 0.05),
        "spread_high": np.quantile(of_all, 0.95),
        "sixteen_low": np.quantile(of_draws, 0.05),
        "sixteen_high": np.quantile(of_draws, 0.95),
    }


def main(arguments=None):
    """Measures, prints and writes the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dimensions", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--waves", type=int, nargs="+", default=[64, 128, 256, 512, 1024])
    parser.add_argument("--problems", type=int, default=10)
    folder = pathlib.Path(__file__).parent
    parser.add_argument("--output", type=pathlib.Path, default=folder / "table.csv")
    options = parser.parse_args(arguments)
    rows = []
    for dim in options.dimensions:
        for waves in options.waves:
            found = [measure(waves, dim, seed) for seed in range(options.problems)]
            means = {key: float(np.mean([f[key] for f in found])) for key in found[0]}
            rows.append({"dimension": dim, "waves": waves, **means})
            if len(rows) == 1:
                print(*(f"{key:>12}" for key in rows[0]))
            print(f"{dim:12d} {waves:12d}", *(f"{value:12.4f}" for value in means.values()))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with options.output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {k: round(v, 5) if isinstance(v, float) else v for k, v in row.items()} for row in rows
        )


if __name__ == "__main__":
    main()
