"""Time and memory of training steps on PhysioNet 2012, with a recipe's model and batches.

    python -m benchmarks.physionet_step.run --data-dir data
    python -m benchmarks.physionet_step.run --data-dir data --set data.statics=apart \\
        --set model.in_channels=37 --set model.num_statics=9 --set model.query=48
    python -m benchmarks.physionet_step.run --data-dir data --recipe physionet2012-tuned

Prints a line of JSON: seconds a step (mean, without the first) by the clock and of the processor
(the sum over the cores), the steps' numbers of points, and the process's peak memory, with that
before the model was built, most of which is the data set.
"""

import argparse
import json
import resource
import time

import keras
import numpy as np

from tfpn import recipes
from tfpn.training import ShuffledBatches


def peak_memory():
    """In MB."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


class Clock(keras.callbacks.Callback):
    """Seconds of each step, by the clock and of the processor."""

    def __init__(self):
        super().__init__()
        self.times = []

    def on_train_batch_begin(self, batch, logs=None):
        self.start = np.array([time.perf_counter(), time.process_time()])

    def on_train_batch_end(self, batch, logs=None):
        now = np.array([time.perf_counter(), time.process_time()])
        self.times.append(now - self.start)


class First(keras.utils.PyDataset):
    """The first batches of others."""

    def __init__(self, batches, steps):
        super().__init__()
        self.batches, self.steps = batches, steps

    def __len__(self):
        return self.steps

    def __getitem__(self, index):
        return self.batches[index]


def main(arguments=None):
    """Trains for some steps and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="as for tfpn.datasets.physionet2012")
    parser.add_argument("--recipe", default="physionet2012")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args(arguments)
    recipe = recipes.load(options.recipe)
    if options.data_dir:
        recipes.override(recipe, f"data.data_dir={json.dumps(options.data_dir)}")
    for assignment in options.set:
        recipes.override(recipe, assignment)
    recipe = recipes.resolve(recipe)
    training = recipe.sections["training"]
    data = recipes.load_data(recipe)
    before = peak_memory()

    model = recipes.build_model(recipe)
    recipes.check_data(recipe, model, data)
    inputs = recipes.model_inputs(model, data.train)
    model.adapt(data.train.x)
    batches = ShuffledBatches(inputs, data.train.y, training["batch_size"], 0, by_length=True)
    model.compile(
        keras.optimizers.Adam(training["learning_rate"]),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    clock = Clock()
    weights = dict(enumerate(training["class_weight"])) or None
    some = First(batches, options.steps)
    model.fit(some, shuffle=False, class_weight=weights, callbacks=[clock], verbose=0)
    wall, processor = np.mean(clock.times[1:], axis=0)
    figures = {
        "recipe": options.recipe,
        "settings": options.set,
        "step_seconds": round(wall, 2),
        "processor_seconds": round(processor, 2),
        "first_step_seconds": round(clock.times[0][0], 1),
        "points": [batches[i][0]["points"].shape[1] for i in range(options.steps)],
        "steps_per_epoch": len(batches),
        "peak_memory_mb": peak_memory(),
        "memory_before_mb": before,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
