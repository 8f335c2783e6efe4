"""Keras callbacks that show what a network's Gaussian processes do while it trains.

`TrainingMonitor` needs matplotlib (``pip install 'tfpn[plots]'``), and TensorBoard to write its
event files.
"""

import csv
import importlib.util
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfpn import evaluation
from tfpn.checks import check_count
from tfpn.contract import KEYS
from tfpn.files import write
from tfpn.layer_likelihoods import LayerLikelihoods, RecordsLikelihoods, layer_likelihoods
from tfpn.layers import PNConv, SteerablePNConv
from tfpn.models.network import PNNetwork
from tfpn.types import Array, ArrayLike, Logs, Model, Observations, PathLike

__all__ = ["LayerLikelihoods", "TrainingMonitor", "layer_likelihoods", "learned_parameters"]

_HEADER = ["epoch", "name", "value"]
# Entries of `tfpn.evaluation.classification_metrics` and `gaussian_metrics` that are not recorded:
# counts, and the error, which is one minus the accuracy.
_NOT_SHOWN = ("error", "examples", "residuals")


class TrainingMonitor(RecordsLikelihoods):
    """Records feature maps, the priors' parameters and calibration at the end of epochs.

    It writes to TensorBoard, to a folder, or to both:

    - The learned numbers of every Gaussian process, `learned_parameters`: "conv_1/length_scale",
      "conv_1/signal_std", "conv_1/observation_noise", "conv_1/drift", "conv_1/diffusion" and so on.
      TensorBoard shows single numbers as curves and arrays as histograms.
    - Keras's logs of the epoch as "training/loss", "training/val_loss", "training/task_loss" (what
      the loss given to `compile` contributes), "training/marginal_nll" and its parts
      "training/conv_1_nll" and so on. "loss" is "task_loss" plus the model's
      ``marginal_likelihood_weight`` times "marginal_nll", the sum of the parts.
    - "feature_maps", a picture by `tfpn.figures.feature_maps`: mean and standard deviation of the
      output of every block of the network, for a few examples. For a `SteerablePNCNN` these are
      the components of its fields along the axes of the points.
    - For a classifier with ``y``: accuracy, likelihood, Brier score, and expected calibration error
      as "calibration/ece" and so on (see `tfpn.evaluation.classification_metrics`), and a
      reliability diagram.
    - For a regression or field model with ``y``: "calibration/spread", "calibration/coverage_95"
      and so on (see `tfpn.evaluation.gaussian_metrics`), and a Q-Q plot. Until you call
      `calibrate`, a regression model's variances leave out the noise of the targets. If the
      targets are noisy, the spread is therefore above 1.

    It counts epochs from 0, as Keras does.

    Args:
        x: validation examples, the model's input dict.
        y: their labels (integers) or targets (NaN where not measured). None leaves out the
            calibration.
        log_dir: folder of TensorBoard's event files, or None. Steps are epochs. You can share the
            folder with `keras.callbacks.TensorBoard`.
        folder: folder of ``monitor.csv`` and of pictures such as ``feature_maps_0003.png``, or
            None. The table has the columns epoch, name and value; an entry of an array is named
            like "conv_1/drift[2,0]". A new training keeps an earlier one's rows only for epochs
            before the first that it records.
        every: number of epochs between two records, and before the first.
        examples: number of examples in the picture of feature maps: the first ones of ``x`` that
            have a reading. 0 leaves out the picture. Points of more than two dimensions need 0.
        channels, resolution: as in `tfpn.figures.feature_maps`.
        bins: number of bins of the calibration errors and the reliability diagram.
        batch_size: number of validation examples that are predicted at a time.

    Raises:
        TypeError: if ``x`` is not a dict.
        ValueError: for bad arguments; or, when training begins, if ``y`` is given and the model's
            predictions have no distribution to measure the calibration of.
        ImportError: for ``log_dir`` without TensorBoard.

    Example:

    >>> import tempfile, keras, numpy as np, tfpn
    >>> rng = np.random.default_rng(0)
    >>> x = tfpn.observations(rng.uniform(size=(4, 9, 1)), rng.normal(size=(4, 9)))
    >>> y = np.array([0, 1, 0, 1])
    >>> model = tfpn.models.PNCNN(2, spatial_dim=1, channels=2, num_blocks=1, num_basis=1)
    >>> model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> folder = tempfile.mkdtemp()
    >>> monitor = tfpn.callbacks.TrainingMonitor(x, y, folder=folder, examples=1)
    >>> history = model.fit(x, y, callbacks=[monitor], verbose=0)
    >>> import os
    >>> sorted(os.listdir(folder))
    ['feature_maps_0000.png', 'monitor.csv', 'reliability_0000.png']
    """

    def __init__(
        self,
        x: Observations,
        y: ArrayLike | None = None,
        *,
        log_dir: PathLike | None = None,
        folder: PathLike | None = None,
        every: int = 1,
        examples: int = 3,
        channels: Sequence[int] | None = None,
        resolution: int = 48,
        bins: int = evaluation.BINS,
        batch_size: int = 32,
    ) -> None:
        super().__init__()
        from tfpn import figures  # which needs matplotlib

        self._figures = figures
        if not isinstance(x, dict) or not set(KEYS) <= set(x):
            raise TypeError(
                f"x must be the model's input dict with the keys {', '.join(KEYS)} (see "
                f"tfpn.observations), found {list(x) if isinstance(x, dict) else type(x).__name__}."
            )
        self.x = {key: np.asarray(array) for key, array in x.items()}
        self.y: Any = None if y is None else np.asarray(y)
        count, dim = len(self.x["points"]), self.x["points"].shape[-1]
        if self.y is not None and self.y.shape[:1] != (count,):
            raise ValueError(f"y has the shape {self.y.shape}, but x holds {count} examples.")
        if log_dir is None and folder is None:
            raise ValueError("Give log_dir (TensorBoard), folder (CSV and PNG), or both.")
        if log_dir is not None and importlib.util.find_spec("tensorboard") is None:
            raise ImportError(
                "log_dir needs TensorBoard: pip install tensorboard, or give folder alone."
            )
        self.log_dir = log_dir
        self.folder: Any = None if folder is None else Path(folder)
        self.every = check_count("every", every)
        self.examples = examples if examples == 0 else check_count("examples", examples)
        if self.examples and dim > 2:
            raise ValueError(
                f"x has points of {dim} dimensions, but pictures of feature maps need one or two: "
                "give examples=0."
            )
        seen = np.flatnonzero(np.isfinite(self.x["variance"]).any((1, 2)))
        if self.examples and not len(seen):
            raise ValueError("x has no example with a reading; give other examples, or examples=0.")
        self.shown = seen[: self.examples]
        self.maps: dict[str, Any] = {
            "channels": channels,
            "resolution": check_count("resolution", resolution),
        }
        self.bins, self.batch_size = evaluation.check_bins(bins), batch_size
        self._writer: Any = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Checks that the model's predictions can be measured, and opens the files."""
        config = self.model.get_config()
        if self.y is not None and config["num_classes"] is None and not self.model.finite_variance:
            raise ValueError(
                f"{self.model.name} predicts no variance, so y has no calibration to measure: "
                "build the model with pooling=(low, high), or give the monitor y=None."
            )
        if self.y is not None and config["num_classes"] == 1:
            raise ValueError(
                f"{self.model.name} has num_classes=1 and no class probabilities: build it with "
                "num_classes=2, or give the monitor y=None."
            )
        self._begun = False
        if self.log_dir is not None:
            self._writer = tf.summary.create_file_writer(str(self.log_dir))
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Records the epoch, if it is one of every ``every``."""
        if (epoch + 1) % self.every:
            return
        numbers = learned_parameters(self.model)
        logs = self.with_likelihoods(logs)
        numbers |= {f"training/{key}": np.asarray(value) for key, value in logs.items()}
        pictures = {}
        if self.examples:
            some = {key: array[self.shown] for key, array in self.x.items()}
            pictures["feature_maps"] = self._figures.feature_maps(self.model, some, **self.maps)
        if self.y is not None:
            quality, name, picture = self._calibration()
            pictures[name] = picture
            numbers |= {
                f"calibration/{key}": np.asarray(value)
                for key, value in quality.items()
                if key not in _NOT_SHOWN
            }
        if self.log_dir is not None:
            self._write_events(epoch, numbers, pictures)
        if self.folder is not None:
            self._write_rows(epoch, numbers)
            for name, picture in pictures.items():
                self._figures.save(picture, self.folder / f"{name}_{epoch:04d}.png")

    def on_train_end(self, logs: Logs | None = None) -> None:
        """Closes the event file."""
        if self._writer is not None:
            self._writer.close()

    def _calibration(self):
        """Measures of quality on the validation examples, and the picture's name and figure."""
        if self.model.get_config()["num_classes"] is not None:
            probabilities = self.model.predict_proba(self.x, batch_size=self.batch_size, verbose=0)
            quality = evaluation.classification_metrics(probabilities, self.y, self.bins)
            picture = self._figures.reliability_diagram(probabilities, self.y, self.bins)
            return quality, "reliability", picture
        predicted = self.model.predict_distribution(self.x, batch_size=self.batch_size, verbose=0)
        mean, deviations = predicted.mean().numpy(), predicted.stddev().numpy()
        if self.y.size != mean.size:
            raise ValueError(
                f"y has the shape {self.y.shape}, but the predictions have {mean.shape}; give one "
                "target for each prediction."
            )
        residuals = self.y.reshape(mean.shape) - mean
        known = ~np.isnan(residuals)
        residuals, deviations = residuals[known], deviations[known]
        quality = evaluation.gaussian_metrics(residuals, deviations)
        return quality, "qq_plot", self._figures.qq_plot(residuals, deviations)

    def _write_events(self, epoch, numbers, pictures):
        with self._writer.as_default(step=epoch):
            for name, value in numbers.items():
                if value.ndim:
                    tf.summary.histogram(name, value)
                else:
                    tf.summary.scalar(name, value)
            for name, picture in pictures.items():
                picture.canvas.draw()
                tf.summary.image(name, np.asarray(picture.canvas.buffer_rgba())[None])
        self._writer.flush()

    def _write_rows(self, epoch, numbers):
        path, kept = self.folder / "monitor.csv", []
        if not self._begun and path.exists():
            kept = _rows_before(path, epoch)
        file = io.StringIO(newline="")
        writer = csv.writer(file)
        if not self._begun:
            writer.writerows([_HEADER, *kept])
        for name, value in numbers.items():
            for place, number in np.ndenumerate(value):
                entry = f"[{','.join(map(str, place))}]" if place else ""
                writer.writerow([epoch, name + entry, repr(float(number))])
        before = path.read_bytes() if self._begun else b""
        write(path, before + file.getvalue().encode("utf-8"))
        self._begun = True


def learned_parameters(model: Model) -> dict[str, Any]:
    """The parameters of a model's Gaussian processes and flows, in the data's units.

    Args:
        model: a model of `tfpn.models`.

    Returns:
        A dict of NumPy arrays for all convolutions and the pooling, named by layer and quantity. K
        is the number of basis operators and d the dimension of the points.

        - "conv_1/length_scale", "conv_1/signal_std" and, if it is learned,
          "conv_1/observation_noise" (a standard deviation): one number, or one for each channel.
        - For a `PNConv` "conv_1/drift" [K, d] and "conv_1/diffusion" [K, d, d] (the covariance).
        - For a `SteerablePNConv` the generators of its flows: "conv_1/zeroth_order" [K, r, r],
          "conv_1/first_order" [K, 2, r, r] and "conv_1/second_order" [K, 2, 2, r, r].

    Raises:
        TypeError: for any other model.

    Example:

    >>> import tfpn
    >>> model = tfpn.models.PNCNN(2, channels=2, num_blocks=1, num_basis=3, spacing=0.5)
    >>> found = tfpn.callbacks.learned_parameters(model)
    >>> round(float(found["conv_1/length_scale"]), 3), found["conv_1/drift"].shape
    (0.5, (3, 2))
    """
    if not isinstance(model, PNNetwork):
        raise TypeError(f"model must be a model of tfpn.models, found {type(model).__name__}.")
    found: dict[str, Array] = {}
    for layer in model.pn_layers:
        quantities = {
            "length_scale": tf.exp(layer.log_length_scale),
            "signal_std": tf.exp(layer.log_signal_std),
        }
        if layer.log_observation_noise is not None:
            quantities["observation_noise"] = tf.exp(layer.log_observation_noise)
        if isinstance(layer, PNConv):
            flows = layer.flow_parameters()
            quantities |= zip(("drift", "diffusion"), flows, strict=True)
        elif isinstance(layer, SteerablePNConv):
            orders = ("zeroth_order", "first_order", "second_order")
            quantities |= zip(orders, layer.generators(), strict=True)
        found |= {f"{layer.name}/{name}": np.asarray(q) for name, q in quantities.items()}
    return found


def _rows_before(path, epoch):
    """The rows of a table that belong to earlier epochs."""
    with open(path, newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file))
    header, rows = (lines[0], lines[1:]) if lines else (None, [])
    if header != _HEADER:
        raise ValueError(
            f"folder: {path} is not a monitor's table (first line {header}); give another folder."
        )
    return [row for row in rows if int(row[0]) < epoch]
