"""The mean height of a square from a few heights in it: simple baselines of the recipe.

    python -m benchmarks.mean_heights.run

It prints the errors on the test part of the recipe `mean-heights`. README.md in this folder
describes the methods. `tfpn train mean-heights` prints those of the network.
"""

import argparse

import numpy as np

import tfpn
from tfpn import recipes

# Of a square, in km: 16 x 16 cells.
SIZE = (1.19, 1.483)
CELLS = 16


def mean_of_heights(data):
    """The mean of the heights that are known, in the unit of the targets."""
    x, (mean, std) = data.test.x, data.columns.scale
    known = np.isfinite(x["variance"])
    return (x["values"] * known).sum(axis=1) / known.sum(axis=1) * std + mean


def kriging(data):
    """The mean over all cells of the heights that kriging gives them."""
    mean, std = data.columns.scale
    model = tfpn.models.PNCNN(
        None, num_outputs=1, output="field", kriging_kernel="matern32", num_blocks=1, channels=8
    )
    model.adapt(data.train.x)
    axes = [(np.arange(CELLS) + 0.5) / CELLS * size for size in SIZE]
    cells = np.stack(np.meshgrid(*axes), axis=-1).reshape(1, -1, 2).astype(np.float32)
    query = np.repeat(cells, len(data.test), axis=0)
    found = tfpn.tasks.interpolate(model, data.test.x, query, verbose=0)
    return found.mean.mean(axis=1) * std + mean


METHODS = {"mean of the known heights": mean_of_heights, "kriging": kriging}


def load():
    """The data set of the recipe."""
    return recipes.load_data(recipes.resolve(recipes.load("mean-heights")))


def main(arguments=None):
    """Prints the errors of each method on the test part."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args(arguments)
    data = load()
    print(f"{len(data.test)} test squares, standard deviation {data.test.y.std():.1f} m")
    for name, method in METHODS.items():
        found = tfpn.evaluation.regression_metrics(data.test.y, method(data))
        print(f"{name}: RMSE {found['rmse']:.1f} m, MAE {found['mae']:.1f} m", flush=True)


if __name__ == "__main__":
    main()
