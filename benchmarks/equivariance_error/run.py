"""What rounding leaves of the rotation equivariance of steerable networks at their defaults.

For each seed, number of points and kind of signal a classifier (disc pooling) and a regressor of a
scalar and a vector field, with the defaults of `tfpn.models.SteerablePNCNN`, are adapted to three
examples of exact readings and checked by `tfpn.check_equivariance` at random angles, before and
after training. White noise is the hardest signal: nothing of it is explained by its neighbours.

    python -m benchmarks.equivariance_error.run
    python -m benchmarks.equivariance_error.run --dim 3 --copies 4 --blocks 2 --rotations 1000

The second is for small networks in space. Both write errors.csv beside the program: the largest
errors relative to the largest output.
"""

import argparse
import itertools
from pathlib import Path

import keras
import numpy as np

import tfpn
from benchmarks.tables import append_rows
from equivariance import SO2, SO3

COLUMNS = (
    "dim", "rotations", "copies", "blocks", "dtype", "model", "signal", "points", "seed", "steps",
    "mean_error", "variance_error",
)  # fmt: skip


def readings(signal, points, dim, channels, seed):
    """Exact readings of three fields in the unit square or cube."""
    rng = np.random.default_rng(seed)
    where = rng.uniform(size=(3, points, dim))
    values = rng.normal(size=(3, points, channels))
    if signal == "smooth":
        phases = rng.uniform(0, 6, size=(3, 1, channels))
        values = np.sin(6 * where[..., :1] + phases)
    return {"points": where, "values": values, "variance": np.zeros_like(values)}


def problem(model, signal, points, seed, options):
    """The network, its input and targets."""
    rng, dim, dtype = np.random.default_rng(seed + 1000), options.dim, options.dtype
    common = {
        "spatial_dim": dim, "copies": options.copies, "num_blocks": options.blocks, "seed": seed,
        "dtype": dtype,
    }  # fmt: skip
    if model == "classifier":
        ball = {"centre": (0.5,) * dim, "radius": 0.7}
        network = tfpn.models.SteerablePNCNN(10, pooling=ball, **common)
        x, y = readings(signal, points, dim, 1, seed), rng.integers(10, size=3)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    else:
        network = tfpn.models.SteerablePNCNN(
            None, in_fields={1: 1}, out_fields={0: 1, 1: 1}, **common
        )
        x, y = readings(signal, points, dim, dim, seed), rng.normal(size=(3, 10, 1 + dim))
        x["query"] = rng.uniform(size=(3, 10, dim))
        loss = "mse"
    network.compile(keras.optimizers.Adam(3e-3), loss)
    return network, {key: array.astype(dtype) for key, array in x.items()}, y


def main(arguments=None):
    """Measures and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3])
    parser.add_argument("--points", nargs="+", type=int, default=[20, 75])
    parser.add_argument("--signals", nargs="+", default=["white noise", "smooth"])
    parser.add_argument("--models", nargs="+", default=["classifier", "regressor"])
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--dim", type=int, choices=(2, 3), default=2)
    parser.add_argument("--rotations", type=int, default=3)
    parser.add_argument("--copies", type=int, default=26)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "errors.csv")
    options = parser.parse_args(arguments)
    keras.config.set_floatx(options.dtype)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    settings = (options.seeds, options.points, options.signals, options.models)
    for seed, points, signal, name in itertools.product(*settings):
        model, x, y = problem(name, signal, points, seed, options)
        model.adapt(x)
        for steps in (0, options.steps):
            if steps:
                model.fit(x, y, epochs=steps, batch_size=3, verbose=0)
            group = SO2 if options.dim == 2 else SO3
            found = tfpn.check_equivariance(model, x, group, n=options.rotations).errors
            errors = [f"{found[key]:.1e}" for key in ("values", "variance")]
            sizes = [options.dim, options.rotations, options.copies, options.blocks]
            row = [*sizes, options.dtype, name, signal, points, seed, steps, *errors]
            append_rows(options.output, COLUMNS, [dict(zip(COLUMNS, row, strict=True))])
            print(*row, flush=True)


if __name__ == "__main__":
    main()
