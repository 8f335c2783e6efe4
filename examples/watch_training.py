"""Watch a network's Gaussian processes while it trains: feature maps, length scales, calibration.

    python examples/watch_training.py
    tensorboard --logdir runs/watch_training/events

The data are handwritten digits, each seen at 20 of its 64 pixels. If you have no TensorBoard, look
into the folder --output. For every epoch it receives a picture of the feature maps of three digits
and a reliability diagram. monitor.csv holds all numbers.
"""

import argparse
import csv
from pathlib import Path

import keras

import tfpn


def numbers_of(path, name):
    """The values of one quantity over the epochs, from a monitor's table."""
    with open(path, newline="", encoding="utf-8") as file:
        return [float(row["value"]) for row in csv.DictReader(file) if row["name"] == name]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="runs/watch_training", metavar="FOLDER")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--channels", type=int, default=12)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--digits", type=int, default=1258, help="to train on, at most 1258")
    options = parser.parse_args(arguments)

    keras.utils.set_random_seed(0)
    data = tfpn.datasets.digits(keep=20)
    x = {key: array[: options.digits] for key, array in data.train.x.items()}
    y = data.train.y[: options.digits]
    model = tfpn.models.PNCNN(10, channels=options.channels, num_blocks=options.blocks, num_basis=5)
    model.adapt(x)
    model.compile(
        optimizer=keras.optimizers.Adam(1e-2),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    folder = Path(options.output)
    monitor = tfpn.callbacks.TrainingMonitor(
        *(data.validation.x, data.validation.y), log_dir=folder / "events", folder=folder
    )
    history = model.fit(x, y, batch_size=50, epochs=options.epochs, callbacks=[monitor], verbose=2)

    convolutions = [f"conv_{block + 1}" for block in range(options.blocks)]
    names = ["training/task_loss", *(f"training/{name}_nll" for name in convolutions)]
    names += [*(f"{name}/length_scale" for name in convolutions), "calibration/ece"]
    for name in names:
        print(name, [round(value, 3) for value in numbers_of(folder / "monitor.csv", name)])
    print(f"wrote pictures, monitor.csv and events/ to {folder}")
    return model, history.history


if __name__ == "__main__":
    main()
