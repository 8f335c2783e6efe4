"""What a rotation changes in a prediction of draws, beside what other draws change.

A classifier (disc pooling) and a regressor of a scalar and a vector field with
``uncertainty="sampled"`` are trained for some steps on smooth fields that are read with noise. The
network is equivariant in law: a turned draw is as likely as the draw, but a prediction takes the
same few draws for the turned input as for the input. So the change that is left is that of any two
sets of draws, which is measured as well, by other seeds of the draws, and is expected to be the
draws' standard deviation times the root of 2 / S.

    python -m benchmarks.equivariance_of_draws.run

writes draws.csv beside the program: root mean squares over examples, outputs and random
angles or seeds, in class probabilities or in units of the targets' standard deviation.
"""

import argparse
from pathlib import Path

import keras
import numpy as np
from scipy import special

import tfpn
from benchmarks.tables import append_rows
from equivariance import SO2

COLUMNS = (
    "model", "seed", "samples", "rotation", "other_draws", "expected", "spread", "without_draws"
)  # fmt: skip
DISC = {"centre": (0.5, 0.5), "radius": 0.7}
FIELDS = {0: 1, 1: 1}


def readings(count, points, noise, rng):
    """Noisy readings of smooth fields in the unit square, query points, both kinds of targets."""
    where, query = rng.uniform(size=(count, points, 2)), rng.uniform(size=(count, 10, 2))
    direction = rng.uniform(0.0, 2.0 * np.pi, size=count)
    speed, phase = rng.choice([3.0, 6.0, 9.0], size=count), rng.uniform(0.0, 6.0, size=count)
    wave = speed[:, None] * np.stack([np.cos(direction), np.sin(direction)], axis=-1)

    def field(places):
        return np.sin(np.einsum("bnd,bd->bn", places, wave) + phase[:, None])[..., None]

    def slope(places):
        cosine = np.cos(np.einsum("bnd,bd->bn", places, wave) + phase[:, None])
        return cosine[..., None] * (wave / speed[:, None])[:, None]

    values = field(where) + noise * rng.normal(size=(count, points, 1))
    x = {"points": where, "values": values, "variance": np.full_like(values, noise**2)}
    targets = np.concatenate([field(query), slope(query)], axis=-1)
    return x, query, targets, np.searchsorted([3.0, 6.0, 9.0], speed)


def network(name, **changes):
    """The classifier or the regressor."""
    arguments = {"copies": 8, "num_blocks": 2, "dtype": "float64", "name": "model", **changes}
    if name == "classifier":
        return tfpn.models.SteerablePNCNN(3, pooling=DISC, **arguments)
    return tfpn.models.SteerablePNCNN(None, out_fields=FIELDS, **arguments)


def take(model, weights):
    """Gives a model the trained weights, but for the states of its generators of draws."""
    for weight in model.weights:
        if "seed_generator" not in weight.path:
            weight.assign(weights[weight.path])


def outputs(model, x):
    """Class probabilities or fields, and their standard deviation over the draws."""
    moments = {key: np.asarray(value) for key, value in model._moments(x).items()}
    if model.output_fields is not None:
        values, unit = np.asarray(model(x)), model._unit()[1]
        spread = np.std(moments["draws"], axis=1) * unit if "draws" in moments else 0.0
        return values, spread
    values = special.softmax(np.asarray(model(x)), axis=-1)
    if "draws" not in moments:
        return values, 0.0
    kernel, bias = (np.asarray(w) for w in model.get_layer("head").weights)
    return values, np.std(special.softmax(moments["draws"] @ kernel + bias, axis=-1), axis=1)


def changes_by_rotation(model, x, angles):
    """What turning the input about (1/2, 1/2) changes, turned back."""
    before, found = outputs(model, x)[0], []
    for angle in angles:
        matrix = SO2.irrep(1).matrix(angle)
        moved = {
            key: (value - 0.5) @ matrix.T + 0.5 if key in ("points", "query") else value
            for key, value in x.items()
        }
        after = outputs(model, moved)[0]
        if model.output_fields is not None:
            after = after @ (SO2.irrep(0) + SO2.irrep(1)).matrix(angle)
        found.append(after - before)
    return np.stack(found)


def rms(array):
    """The root of the mean square."""
    return float(np.sqrt(np.mean(np.square(array))))


def main(arguments=None):
    """Measures and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--samples", nargs="+", type=int, default=[4, 16, 64])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--points", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=6, help="angles, and seeds of draws")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "draws.csv")
    options = parser.parse_args(arguments)
    keras.config.set_floatx("float64")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for seed in options.seeds:
        for name in ("classifier", "regressor"):
            keras.utils.set_random_seed(seed)
            rng = np.random.default_rng(seed)
            x, query, fields, labels = readings(64, options.points, 0.1, rng)
            targets, loss = labels, keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            if name == "regressor":
                x["query"], targets, loss = query, fields, "mse"
            model = network(name, uncertainty="sampled", seed=seed)
            model.adapt(x, *([targets] if name == "regressor" else []))
            model.compile(keras.optimizers.Adam(3e-3), loss)
            model.fit(x, targets, epochs=options.steps // 4, batch_size=16, verbose=0)
            some = {key: value[:8] for key, value in x.items()}
            angles = rng.uniform(0.5, 2.0 * np.pi - 0.5, size=options.repeats)
            plain = network(name, uncertainty="none", seed=seed)
            trained = {weight.path: np.asarray(weight) for weight in model.weights}
            take(plain, trained)
            without = np.abs(changes_by_rotation(plain, some, angles)).max()
            for samples in options.samples:

                def with_draws(number, samples=samples, trained=trained, name=name):
                    made = network(name, uncertainty="sampled", seed=number, num_samples=samples)
                    take(made, trained)
                    return made

                one = with_draws(1000)
                before, spread = outputs(one, some)
                others = [
                    outputs(with_draws(number), some)[0] - before
                    for number in range(1001, 1001 + options.repeats)
                ]
                spread = rms(spread) * np.sqrt(samples / (samples - 1.0))
                numbers = (
                    rms(changes_by_rotation(one, some, angles)), rms(others),
                    np.sqrt(2.0 / samples) * spread, spread, without,
                )  # fmt: skip
                row = [name, seed, samples, *(f"{number:.2g}" for number in numbers)]
                append_rows(options.output, COLUMNS, [dict(zip(COLUMNS, row, strict=True))])
                print(*row, flush=True)


if __name__ == "__main__":
    main()
