"""A flow's later velocity at places of choice, from scattered readings: error over examples.

    python -m benchmarks.flow_fields.run
    python -m benchmarks.flow_fields.run --models steerable pncnn --examples 30 100 --seeds 0

Simulated incompressible flows (`simulation.py`). Each example has 40 readings of the velocity at
time 0, at random places. Models predict the velocity at 40 other places at a later time, when its
change since time 0 has 0.58 times the size of the velocity itself. `steerable` is `SteerablePNCNN`,
from a vector field to a vector field; `pncnn` is `PNCNN(output="field")`, also trained on randomly
turned examples as `pncnn+turned`. `gp` is a Gaussian process of each component at time 0, its
kernel fitted to the training examples: what is known without any learning of motion.

Prints the root mean square error of the velocity's components over 200 test flows, and adds a row
for each training to a CSV file; what is there is not done again.
"""

import argparse
import itertools
import pathlib
import time

import keras
import numpy as np

from benchmarks.flow_fields.simulation import readings
from benchmarks.tables import append_rows, read_rows

FIELDS = ("model", "examples", "seed", "rmse", "parameters", "steps", "fit_seconds")
POINTS, ASKED = 40, 40
TESTED = 200
RATE, BATCH = 3e-3, 16


def steerable():
    """`SteerablePNCNN` with 72 real channels."""
    from tfpn import models

    return models.SteerablePNCNN(
        None, in_fields={1: 1}, out_fields={1: 1}, copies=14, num_blocks=2, seed=0
    )


def pncnn():
    """`PNCNN` with as many channels."""
    from tfpn import models

    return models.PNCNN(
        None, num_outputs=2, output="field", in_channels=2, channels=72, num_blocks=2, seed=0
    )


def turned(x, y, rng):
    """Each example turned about the middle: places and vectors."""
    angle = rng.uniform(0, 2 * np.pi, len(y))
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    turn = np.moveaxis(turn, -1, 0).astype(np.float32)

    def apply(vectors):
        return np.einsum("bij,bnj->bni", turn, vectors)

    moved = {key: apply(x[key]) for key in ("points", "values", "query")}
    return {**x, **moved}, apply(y)


class Batches(keras.utils.PyDataset):
    """Random batches, the same for every model; turned if asked for."""

    def __init__(self, x, y, steps, seed, turn):
        super().__init__()
        self.x, self.y, self.steps, self.seed, self.turn = x, y, steps, seed, turn

    def __len__(self):
        return self.steps

    def __getitem__(self, step):
        rng = np.random.default_rng((self.seed, step))
        some = rng.choice(len(self.y), min(BATCH, len(self.y)), replace=False)
        x, y = {key: array[some] for key, array in self.x.items()}, self.y[some]
        return turned(x, y, rng) if self.turn else (x, y)


def network(name, x, y, steps, seed):
    """A trained network's predictions, and its number of weights."""
    base, _, turn = name.partition("+")
    keras.utils.set_random_seed(seed)
    model = {"steerable": steerable, "pncnn": pncnn}[base]()
    model.adapt(x)
    model.compile(keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(RATE, steps)), "mse")
    model.fit(Batches(x, y, steps, seed, bool(turn)), epochs=1, shuffle=False, verbose=2)

    def predict(x):
        found = np.asarray(model.predict(x, batch_size=50, verbose=0))
        return found[..., 0] if found.ndim == 4 else found  # of mean and variance the mean

    return predict, model.count_params()


def gaussian_process(name, x, y, steps, seed):
    """Kriging of each component at time 0; one length scale, by the marginal likelihood."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel

    def fitted(points, values, scale=None):
        kernel = RBF(scale or 0.1) + WhiteKernel(1e-4, (1e-6, 1e-1))
        tuned = {} if scale is None else {"optimizer": None}
        return GaussianProcessRegressor(kernel, **tuned).fit(points, values)

    some = range(min(30, len(y)))
    scale = np.exp(np.mean([fitted(x["points"][i], x["values"][i]).kernel_.theta[0] for i in some]))

    def predict(x):
        given = zip(x["points"], x["values"], x["query"], strict=True)
        return np.stack([fitted(p, v, scale).predict(q) for p, v, q in given])

    return predict, 1


MODELS = {
    "steerable": network,
    "pncnn": network,
    "pncnn+turned": network,
    "gp": gaussian_process,
}


def main(arguments=None):
    """Adds what is missing to the CSV file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--examples", nargs="+", type=int, default=[30, 100, 300, 1000])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=1000)
    default = pathlib.Path(__file__).parent / "results.csv"
    parser.add_argument("--output", type=pathlib.Path, default=default)
    options = parser.parse_args(arguments)
    tested, truth = readings(TESTED, POINTS, ASKED, (0, 1))
    for seed, number, name in itertools.product(options.seeds, options.examples, options.models):
        done = {tuple(row[key] for key in FIELDS[:3]) for row in read_rows(options.output)}
        if (name, str(number), str(seed)) in done:
            continue
        x, y = readings(number, POINTS, ASKED, (seed, 2))
        start = time.process_time()
        predict, parameters = MODELS[name](name, x, y, options.steps, seed)
        seconds = time.process_time() - start
        rmse = np.sqrt(np.mean((predict(tested) - truth) ** 2))
        row = {"model": name, "examples": number, "seed": seed, "rmse": round(float(rmse), 5)}
        row |= {"parameters": parameters, "steps": options.steps}
        append_rows(options.output, FIELDS, [{**row, "fit_seconds": round(seconds, 1)}])
        print(row, flush=True)


if __name__ == "__main__":
    main()
